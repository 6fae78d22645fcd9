"""Every demo runs, keeps to its time and to the screen, and checks what it claims."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tinygrad_edu import demos

CHECKOUT = Path(__file__).resolve().parents[2]
ALL = demos.list_demos()


def test_demos_are_numbered_from_one_without_a_gap() -> None:
    assert [demo.number for demo in ALL] == list(range(1, len(ALL) + 1))


@pytest.mark.parametrize("demo", ALL, ids=lambda demo: demo.path.stem)
def test_a_demo_runs_without_a_warning_in_its_time_on_eighty_columns(
    demo: demos.Demo, capsys: pytest.CaptureFixture[str]
) -> None:
    start = time.perf_counter()
    demos.run(demo.number)
    seconds = time.perf_counter() - start
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    assert "Shown:" in printed
    assert printed.rstrip().endswith("?"), "a demo ends with the question that the next one answers"
    assert seconds < 2 * demo.seconds, "the time in the first line of the demo is too short"


@pytest.mark.parametrize("demo", ALL, ids=lambda demo: demo.path.stem)
def test_a_demo_uses_public_names_only(demo: demos.Demo) -> None:
    source = demo.path.read_text(encoding="utf-8")
    assert "tg._" not in source
    assert "import _" not in source
    assert "# %%" in source


def test_the_first_demo_shows_the_four_learning_rates(capsys: pytest.CaptureFixture[str]) -> None:
    demos.run(1)
    printed = capsys.readouterr().out
    for rate, factor in (("0.1", "+0.8"), ("0.5", "+0.0"), ("1.0", "-1.0"), ("1.1", "-1.2")):
        assert f"η = {rate}: each step multiplies w by 1 - 2η = {factor}" in printed
    assert "   1    2.4000    5.7600    4.8000   -0.4800" in printed
    assert "   1   -3.6000   12.9600   -7.2000    7.9200" in printed


def test_an_unknown_demo_lists_those_there_are() -> None:
    with pytest.raises(demos.UnknownDemoError, match=r"no demo 99; there are: 1 \(One weight on a"):
        demos.run(99)


def test_a_demo_without_a_title_line_says_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "02_nameless.py"
    path.write_text('"""Something."""\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"02_nameless\.py is 'Something\.'.*title and its time"):
        demos._read(path)


def test_a_demo_prints_on_a_console_without_greek() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "utf8=0", "-m", "tinygrad_edu", "demo", "1"],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert b"? = 0.1: each step multiplies w" in done.stdout
