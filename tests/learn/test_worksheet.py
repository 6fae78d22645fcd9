"""Worksheets: the key fills the sheet to the whole one; the seed decides; files beside it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from debugger.test_log import scalar_graphs
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_edu as tg
from tinygrad_edu.drawing.render import renderers
from tinygrad_edu.learn.worksheet import worksheet


def loss() -> Any:
    a, b = tg.Value(2.0, name="a"), tg.Value(-3.0, name="b")
    e = a * b
    return (e + a).tanh() * e


def layer() -> Any:
    x = tg.tensor(np.arange(6.0).reshape(3, 2), name="x")
    w = tg.tensor(np.ones((2, 2)) / 3, requires_grad=True, name="w")
    return ((x @ w).tanh()).sum()


@given(scalar_graphs(), st.floats(0, 1), st.integers(0, 100))
def test_the_key_fills_any_sheet_to_the_whole_one(
    made: list[Any], blanks: float, seed: int
) -> None:
    if made[-1].op is None:
        return
    sheet = worksheet(made[-1], blanks=blanks, seed=seed)
    whole = worksheet(made[-1], blanks=0.0)
    assert "____" not in whole.text and not whole.answers
    assert sheet.filled() == whole.text
    holes = [int(n) for n in re.findall(r"____\((\d+)\)", sheet.text)]
    assert set(holes) == set(sheet.answers) == set(range(1, len(sheet.answers) + 1))
    first = list(dict.fromkeys(holes))
    assert first == sorted(first)  # numbered as they come


@pytest.mark.parametrize("make", [loss, layer])
def test_the_same_seed_gives_the_same_bytes_and_another_not(make: Any) -> None:
    assert worksheet(make(), seed=4) == worksheet(make(), seed=4)
    assert worksheet(make(), seed=4).text != worksheet(make(), seed=5).text
    assert worksheet(make(), seed=4).filled() == worksheet(make(), seed=5).filled()


def test_more_blanks_for_a_larger_share() -> None:
    counts = [len(worksheet(loss(), blanks=b).answers) for b in (0.0, 0.3, 0.7, 1.0)]
    assert counts == sorted(counts) and counts[0] == 0 and counts[-1] > counts[1] > 0


@pytest.mark.parametrize("make", [loss, layer])
def test_sheets_and_keys_are_markdown_of_80_columns(make: Any) -> None:
    sheet = worksheet(make(), seed=1)
    for text in (sheet.text, sheet.key, sheet.filled()):
        assert text.startswith("# ")
        assert text.count("```") % 2 == 0
        assert all(len(line) <= 88 for line in text.splitlines())


def test_files(tmp_path: Path) -> None:
    sheet = worksheet(loss(), tmp_path / "s.md", drawing=bool(renderers("svg")))
    assert (tmp_path / "s.md").read_text(encoding="utf-8") == sheet.text
    assert (tmp_path / "s.key.md").read_text(encoding="utf-8") == sheet.key
    if renderers("svg"):
        assert "<svg" in (tmp_path / "s.svg").read_text(encoding="utf-8")
        assert "(s.svg)" in sheet.text


def test_numbers_on_the_sheet_are_the_logs() -> None:
    root = loss()
    log = tg.record(root)
    text = worksheet(root, blanks=0.0).text
    from tinygrad_edu.drawing import facts

    for event in log:
        for use in event.uses:
            assert facts.number(use.contribution) in text
            assert use.formula.names.replace("∂root", "∂L") in text or use.formula.names in text


def test_names_cannot_write_markdown() -> None:
    a = tg.Value(2.0, name="a`*_[x](y)")
    sheet = worksheet(a * a, blanks=0.0)
    assert "```text" in sheet.text and sheet.text.count("```") % 2 == 0


@pytest.mark.parametrize(("options", "said"), [
    ({"blanks": 2.0}, "it is a share, from 0"), ({"drawing": True}, "needs a path"),
])  # fmt: skip
def test_bad_options_are_said(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        worksheet(loss(), **options)
