"""`why_nan`: birthplace, pattern and cure; what does not reach the loss is told apart."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu.debugger.why_nan import why_nan
from tinygrad_edu.drawing.render import renderers

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def leaf(*numbers: float) -> Any:
    return tg.tensor(np.array(numbers, np.float32), requires_grad=True, name="x")


FORWARD: dict[str, tuple[Callable[[], Any], str, str, str]] = {
    "log of 0": (lambda: (leaf(0.0, 1.0).log() * 2.0).sum(), "inf", "log", "log 0"),
    "log of 0 times 0": (
        lambda: ((x := leaf(0.0, 1.0)).log() * x).sum(), "inf", "log", "log 0",
    ),
    "log below 0": (lambda: leaf(-1.0, 1.0).log().sum(), "NaN", "log", "log of a negative number"),
    "root below 0": (
        lambda: leaf(-1.0, 1.0).sqrt().sum(), "NaN", "sqrt", "square root of a negative number",
    ),
    "0/0": (lambda: ((x := leaf(0.0, 1.0)) / x).sum(), "NaN", "divide", "0/0"),
    "1/0": (lambda: (1.0 / leaf(0.0, 1.0)).sum(), "inf", "divide", "division by 0"),
    "fraction": (
        lambda: (leaf(-1.0, 3.0) ** 0.5).sum(), "NaN", "power",
        "power of a negative number to a fraction",
    ),
    "overflow": (lambda: leaf(1.0, 3000.0).exp().sum(), "inf", "exp", "overflow"),
    "overflow of a sum of squares": (
        lambda: (leaf(3e30, 1.0) * 1e20).sum(), "inf", "multiply", "overflow",
    ),
    "∞ - ∞": (
        lambda: ((x := leaf(3000.0, 1.0)).exp() - x.exp()).sum(), "inf", "exp", "overflow",
    ),
    "a given NaN": (
        lambda: (leaf(np.nan, 1.0) * 2.0).sum(), "NaN", "leaf", "a number that was given",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FORWARD)
def test_the_birthplace_and_pattern_of_the_forward_pass(case: str) -> None:
    from tinygrad_edu.drawing import facts

    make, kind, operation, pattern = FORWARD[case]
    found = why_nan(make())
    assert (found.phase, found.kind) == ("forward", kind)
    assert facts.word(found.culprit) == operation
    assert found.pattern == pattern
    assert found.cure and found.reaches
    assert all(len(line) <= 80 for line in str(found).splitlines())
    made = np.asarray(facts.host(found.culprit.data))
    bad = np.isnan(made) if kind == "NaN" else np.isinf(made)
    assert bad[found.index] and found.count == bad.sum() and found.size == made.size
    first = tuple(int(i) for i in np.argwhere(bad)[0])
    assert found.index == first


def test_where_an_inf_becomes_a_nan_is_said() -> None:
    x = leaf(0.0, 1.0)
    text = str(why_nan((x.log() * x).sum()))
    assert "becomes NaN in multiply:1" in text and "0·∞" in text


def test_a_nan_of_the_backward_pass_alone() -> None:
    x = leaf(0.0, 4.0)
    found = why_nan(x.sqrt().sum())
    assert (found.phase, found.kind, found.pattern) == ("backward", "inf", "square root at 0")
    assert found.use is not None and found.use.input is x
    assert found.index == (0,) and found.count == 1
    assert "every value is finite" in str(found)


def test_what_is_masked_does_not_reach_and_is_said_so() -> None:
    x = leaf(0.0, 1.0)
    loss = tg.where(np.array([False, True]), x.log(), 0.0).sum()
    found = why_nan(loss)
    assert found.kind == "" and found.culprit is None
    assert len(found.others) == 1 and "log:1" in found.others[0]
    again = tg.where(np.array([False, True]), x.log() * 2.0, 0.0).sum()
    assert len(why_nan(again).others) == 1  # what the first one leads to is no birth
    assert "does not reach the loss" in " ".join(str(found).split())


def test_the_other_branch_of_a_where_is_told_from_what_reaches() -> None:
    x = leaf(0.0, 1.0)
    masked = tg.where(np.array([False, True]), x.log(), 0.0)
    found = why_nan((masked + (x - 2.0).sqrt()).sum())
    assert found.pattern == "square root of a negative number"
    assert any("log" in line for line in found.others)


def test_all_finite_is_said() -> None:
    found = why_nan((leaf(1.0, 2.0) * 2.0).sum())
    assert (found.kind, found.phase, found.culprit, found.subgraph) == ("", "", None, ())
    assert "no NaN and no inf" in str(found)


def test_values_too() -> None:
    a = tg.Value(0.0, name="a")
    found = why_nan(a.log() * a + 1.0)
    assert (found.phase, found.kind, found.pattern) == ("forward", "inf", "log 0")
    assert found.inputs == (("a", "0.0"),)


def test_no_gradient_is_touched() -> None:
    x = leaf(0.0, 4.0)
    why_nan(x.sqrt().sum())
    assert x.grad is None


def test_the_subgraph_is_the_way_to_the_loss_and_is_drawn_marked() -> None:
    x, y = leaf(0.0, 1.0), leaf(1.0, 1.0)
    bad = x.log()
    fine = y.exp()
    loss = (bad + fine).sum()
    found = why_nan(loss)
    assert {id(n) for n in found.subgraph} >= {id(bad), id(loss), id(x)}
    assert id(fine) not in {id(n) for n in found.subgraph}
    picture = found.draw().picture()
    marked = {b.name or b.title for b in picture.boxes if b.marked}
    assert "bad" in marked and "fine" not in marked
    if renderers("svg"):
        assert "marked" in ET.tostring(ET.fromstring(found.draw().svg), encoding="unicode")
