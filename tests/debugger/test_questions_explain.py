"""A gradient as a sum over paths: the sum is the gradient, the largest are the largest."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from debugger.test_log import scalar_graphs
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_edu as tg
from tinygrad_edu.debugger.explain import explain
from tinygrad_edu.debugger.log import record
from tinygrad_edu.errors import GraphError
from tinygrad_edu.testing.programs import programs


def every_path(x: Any, node: Any) -> list[float]:
    """Products of local derivatives along all paths, walked one by one."""
    if node is x:
        return [1.0]
    return [
        d * rest
        for child, d in zip(node.inputs, node.local_derivatives, strict=True)
        for rest in every_path(x, child)
    ]


@given(scalar_graphs(), st.integers(1, 6))
def test_paths_of_scalars_are_those_that_one_finds_by_walking(made: list[Any], top: int) -> None:
    root, x = made[-1], made[0]
    if root.op is None or record(root).gradient(x) is None:
        return
    found = explain(x, root, top=top)
    if found.count > 2000:
        return
    products = every_path(x, root)
    assert found.count == len(products)
    assert found.exact
    largest = sorted((abs(p) for p in products), reverse=True)[:top]
    assert [abs(p.contribution) for p in found.paths] == pytest.approx(largest, rel=1e-9)
    size = sum(abs(p) for p in products)
    assert found.total == pytest.approx(found.gradient, rel=1e-9, abs=1e-12 * size + 1e-300)
    assert found.positive == pytest.approx(sum(p for p in products if p > 0), rel=1e-9)
    assert found.negative == pytest.approx(sum(p for p in products if p < 0), rel=1e-9)
    for path in found.paths:
        assert math.prod(path.factors) == pytest.approx(path.contribution, rel=1e-9)


@given(programs())
def test_paths_through_arrays_sum_to_the_gradient(program: Any) -> None:
    rng = np.random.default_rng(1)
    xs = [tg.tensor(rng.normal(size=(2, 3)), requires_grad=True) for _ in range(program.inputs)]
    out = program(*xs)
    if not out.requires_grad:
        return
    for x in xs:
        if record(out).gradient(x) is None:
            continue
        found = explain(x, out, top=1000)
        assert found.exact and found.count == len(found.paths)
        size = sum(abs(p.contribution) for p in found.paths)
        assert found.total == pytest.approx(found.gradient, rel=1e-9, abs=1e-12 * size + 1e-300)


def test_a_diamond_of_depth_60_has_2_to_the_60_paths() -> None:
    y = x = tg.Value(1.0, name="x")
    for _ in range(60):
        y = y + y
    found = explain(x, y, top=3)
    assert found.count == 2**60
    assert found.total == found.gradient == 2.0**60
    assert [p.contribution for p in found.paths] == [1.0, 1.0, 1.0]
    assert len({tuple(u.slot for u in p.uses) for p in found.paths}) == 3
    assert "about 1.15e+18 more paths add" in str(found)


def test_a_chain_of_ten_thousand_is_one_path() -> None:
    y = x = tg.Value(1.0, name="x")
    for _ in range(10_000):
        y = y * 1.0001
    found = explain(x, y)
    assert found.count == 1
    assert len(found.paths[0].nodes) == 10_001
    assert found.total == pytest.approx(1.0001**10_000)
    assert max(map(len, str(found).splitlines())) <= 80


def test_the_largest_of_very_many_paths_through_arrays_is_found() -> None:
    x = tg.tensor([1.0, 1.0], requires_grad=True, name="x", dtype="float64")
    y = x
    for _ in range(14):
        y = y * 0.1 + y * 2.0
    found = explain(x, y.sum(), top=2)
    assert found.count == 2**14
    assert [p.contribution for p in found.paths] == pytest.approx([2.0**14, 0.1 * 2.0**13])
    assert found.total == pytest.approx(2.1**14)


def test_cancellation_is_said() -> None:
    p = tg.tensor([1.0, 2.0], requires_grad=True, name="p", dtype="float64")
    found = explain(p, (p * 1000.5 - p * 1000.0).sum())
    assert found.cancellation == pytest.approx(0.5 / 2000.5)
    assert "they cancel: 1000 and -1000.0 leave 0.5" in str(found)
    a = tg.Value(2.0, name="a")
    assert "cancel" not in str(explain(a, a * a))


def test_both_slots_of_a_square_are_paths() -> None:
    a = tg.Value(3.0, name="a")
    found = explain(a, a * a)
    assert [(p.contribution, p.share) for p in found.paths] == [(3.0, 0.5), (3.0, 0.5)]


def test_an_element_is_chosen_or_is_the_largest() -> None:
    w = tg.tensor(np.random.default_rng(0).normal(size=(3, 3)), requires_grad=True, name="w")
    loss = ((w @ w + w).tanh() * (w @ w)).sum()
    gradient = record(loss).gradient(w)
    assert gradient is not None
    for i, j in itertools.product(range(3), range(3)):
        found = explain(w, loss, index=(i, j))
        assert found.total == pytest.approx(gradient[i, j], rel=1e-9)
    largest = explain(w, loss)
    assert abs(largest.gradient) == np.abs(gradient).max()
    with pytest.raises(IndexError, match="names no element"):
        explain(w, loss, index=(3, 0))


def test_too_many_paths_through_arrays_are_summed_and_said_so() -> None:
    y = x = tg.tensor([1.0, 2.0], requires_grad=True, name="x", dtype="float64")
    for _ in range(30):
        y = y * 0.5 + y * 0.25
    found = explain(x, y.sum(), top=5)
    assert found.count == 2**30 and not found.exact
    assert len(found.paths) == 5
    assert found.total == found.gradient
    assert found.rest == pytest.approx(found.gradient - sum(p.contribution for p in found.paths))
    assert "the search stopped" in str(found)


def test_what_the_loss_does_not_depend_on_is_refused() -> None:
    a, b = tg.Value(1.0, name="a"), tg.Value(2.0, name="b")
    with pytest.raises(GraphError, match="no path leads from b"):
        explain(b, a * a)


def test_the_loss_itself_is_one_path_of_no_steps() -> None:
    a = tg.Value(3.0, name="a")
    loss = a * a
    found = explain(loss, loss)
    assert (found.count, found.total) == (1, 1.0)


def test_no_gradient_is_touched() -> None:
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    loss = (x * x).sum()
    explain(x, loss)
    assert x.grad is None and loss.grad is None
