"""Plain recursion beside the right pass: the first wrong number, and where it does no harm."""

from __future__ import annotations

from typing import Any

import pytest
from debugger.test_log import scalar_graphs
from hypothesis import given

import tinygrad_edu as tg
from tinygrad_edu.errors import GraphError
from tinygrad_edu.learn.recursion import without_order


def test_the_example_of_a_value_used_twice() -> None:
    a = tg.Value(1.0, name="a")
    b = a + a
    c = b + b
    found = without_order(c)
    assert found.right == {"a": 4.0, "b": 2.0, "c": 1.0}
    assert found.gradients == {"a": 6.0, "b": 2.0, "c": 1.0}
    assert found.steps == (
        "c hands on 1.0: b.grad 0.0 → 1.0", "b hands on 1.0: a.grad 0.0 → 1.0",
        "b hands on 1.0: a.grad 1.0 → 2.0", "c hands on 1.0: b.grad 1.0 → 2.0",
        "b hands on 2.0: a.grad 2.0 → 4.0", "b hands on 2.0: a.grad 4.0 → 6.0",
    )  # fmt: skip
    assert found.first_wrong == 1  # the right pass waits, and hands a 2.0 at once
    text = str(found)
    assert "a.grad 0.0 → 1.0   ← the first wrong number" in text
    assert "a.grad = 6.0 ✗ it is 4.0" in text and "b.grad = 2.0 ✓" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_a_tree_does_not_mind() -> None:
    a, b = tg.Value(2.0, name="a"), tg.Value(3.0, name="b")
    found = without_order((a * b).tanh())
    assert found.first_wrong == -1 and found.gradients == found.right


@given(scalar_graphs())
def test_recursion_is_right_exactly_where_it_has_no_wrong_number(made: list[Any]) -> None:
    if made[-1].op is None:
        return
    try:
        found = without_order(made[-1])
    except GraphError:
        return
    if found.first_wrong < 0:
        assert found.gradients == found.right


def test_too_many_paths_and_tensors_are_refused() -> None:
    a = tg.Value(1.0, name="a")
    for _ in range(30):
        a = a + a
    with pytest.raises(GraphError, match="walks every path"):
        without_order(a)
    with pytest.raises(TypeError, match="takes a Value"):
        without_order(tg.tensor([1.0], requires_grad=True).sum())
