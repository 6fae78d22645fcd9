"""`tinygrad-edu prepare`, killed for real and given again; and what it says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tinygrad_edu.cli import main

FILES = ("tokens.bin", "tokenizer.json", "prepared.json")


@pytest.fixture
def big(tmp_path: Path) -> Path:
    """More than a megabyte: no two chunks in a row are the same."""
    path = tmp_path / "big.txt"
    with open(path, "w", encoding="utf-8") as file:
        for k in range(50_000):
            file.write(f"line {k * 7919 % 99_991}, the cat's\n")
    return path


def started(source: Path, output: Path) -> subprocess.Popen[bytes]:
    command = [
        sys.executable, "-c",
        # a journal line a block, and small blocks: there is something to go on from at any time
        "import sys; from tinygrad_edu.text import preparing as p; plain = p.prepare\n"
        "p.prepare.__kwdefaults__.update(block=1 << 15, piece=1 << 14, pause=0)\n"
        "from tinygrad_edu.cli import main; sys.exit(main(sys.argv[1:]))",
        "prepare", str(source), "--output", str(output), "--tokenizer", "bpe",
        "--vocab-size", "300",
    ]  # fmt: skip
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_for_tokens(process: subprocess.Popen[bytes], output: Path, lines: int) -> None:
    """Until the journal has so many lines, the first of which is what was asked for."""
    journal = output / "journal.jsonl"
    while process.poll() is None and not (
        journal.exists() and journal.read_bytes().count(b"\n") >= lines
    ):
        time.sleep(0.005)


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is of POSIX systems")
def test_killed_twice_and_given_again_it_ends_with_the_same_bytes(
    big: Path, tmp_path: Path
) -> None:
    killed = tmp_path / "killed"
    for lines in (4, 9):
        process = started(big, killed)
        wait_for_tokens(process, killed, lines)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        process.communicate()
        assert not (killed / "prepared.json").exists()
        assert (killed / "journal.jsonl").read_bytes().count(b"\n") > 1
    for output in (killed, tmp_path / "whole"):
        process = started(big, output)
        said, complained = process.communicate()
        assert process.returncode == 0, complained
        assert b"tokens of 300 different ones" in said
    for name in FILES:
        assert (killed / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is sent as POSIX has it")
def test_ctrl_c_says_what_to_do(big: Path, tmp_path: Path) -> None:
    process = started(big, tmp_path / "out")
    wait_for_tokens(process, tmp_path / "out", 4)
    process.send_signal(signal.SIGINT)
    said, complained = process.communicate()
    assert process.returncode == 130 and not complained
    assert said == b"Stopped. What is done is kept; the same command goes on with it.\n"


def test_it_says_how_to_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "a.txt"
    source.write_text("abc abd\n" * 9, encoding="utf-8")
    assert main(["prepare", str(source), "-o", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert "72 tokens of 6 different ones, from 72 characters" in out
    assert f"tinygrad-edu train --corpus {tmp_path / 'out'}" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nosuch.txt", "-o", "new"], "there is no file 'nosuch.txt'"),
        (["a.txt", "-o", "taken"], "taken exists and is not an empty folder"),
        (["a.txt", "-o", "new", "--vocab-size", "9"], "--vocab-size is 9"),
        (["a.txt", "-o", "new", "--tokenizer", "none.json"], "none.json cannot be read"),
    ],
)
def test_a_refusal_is_one_line_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    arguments: list[str], said: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("abc abd\n", encoding="utf-8")
    Path("taken").mkdir()
    Path("taken/mine").write_text("x", encoding="utf-8")
    assert main(["prepare", *arguments]) == 2
    captured = capsys.readouterr()
    assert said in captured.err and captured.err.count("\n") == 1 and not captured.out
    assert sorted(p.name for p in Path().iterdir()) == ["a.txt", "taken"]
    assert [p.name for p in Path("taken").iterdir()] == ["mine"]
