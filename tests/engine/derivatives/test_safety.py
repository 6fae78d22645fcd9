"""No NaN from finite numbers, nothing from where nothing arrives, and derivatives of any order."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from engine.derivatives.cases import CASES
from hypothesis import given, settings
from hypothesis import strategies as st

import tinygrad_edu as tg
from tinygrad_edu.autograd.apply import apply
from tinygrad_edu.ops import registry
from tinygrad_edu.testing import strategies as own
from tinygrad_edu.testing.ledger import Ledger

SPECIAL = (0.0, -0.0, 1.0, -1.0, 1e4, -1e4, 1e-200)
NAMES = sorted(n for n, p in registry.items() if p.kind == "elementwise") + ["gelu"]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.data())
def test_finite_numbers_give_no_nan_and_zeros_let_nothing_through(
    name: str, ledger: Ledger, data: Any
) -> None:
    """Also where the slope is inf or NaN, if what arrives there is 0."""
    primitive = registry[name]
    ledger.record(name, "P17")
    params = data.draw(st.sampled_from([case.params for case in CASES[name]]))
    xs = [data.draw(own.values((6,), (-4, 4), SPECIAL)) for _ in primitive.inputs]
    beyond = {"power": 0, "xlogy": 1}.get(name)  # a base or a number with no logarithm
    if beyond is not None:
        xs[beyond] = np.abs(xs[beyond])
    with np.errstate(all="ignore"):
        leaves = [tg.Tensor(x, requires_grad=True) for x in xs]
        out = apply(primitive, *leaves, **params)
        g = data.draw(own.cotangents((6,)))
        g[data.draw(st.integers(0, 5))] = 0
        g = np.where(np.isfinite(out._data), g, 0)
        out.backward(g)
    for leaf in leaves:
        assert leaf.grad is not None
        assert not np.isnan(leaf.grad._data).any()
        assert (leaf.grad._data[g == 0] == 0).all()


@pytest.mark.parametrize(
    ("f", "x", "want"),
    [
        (tg.exp, 0.5, [math.exp(0.5)] * 4),
        (tg.sin, 0.5, [math.cos(0.5), -math.sin(0.5), -math.cos(0.5), math.sin(0.5)]),
        (lambda x: x**4, 1.5, [4 * 1.5**3, 12 * 1.5**2, 24 * 1.5, 24]),
        (tg.log, 2.0, [1 / 2, -1 / 4, 2 / 8, -6 / 16]),
        (lambda x: 1 / x, 2.0, [-1 / 4, 2 / 8, -6 / 16, 24 / 32]),
        (lambda x: x * x * x, 2.0, [12, 12, 6, 0]),
        (lambda x: 3 * x, 2.0, [3, 0, 0, 0]),
        (tg.relu, 2.0, [1, 0, 0, 0]),
    ],
)
def test_derivatives_of_any_order(f: Callable[..., Any], x: float, want: list[float]) -> None:
    point = np.array(x)
    reverse: Any = f
    forward: Any = f
    for order, value in enumerate(want):
        reverse = tg.grad(reverse)
        forward = _tangent(forward)
        for got in (reverse(point), forward(point)):
            assert got.item() == pytest.approx(value, rel=1e-13, abs=0), order + 1


def _tangent(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: tg.jvp(f, x, np.array(1.0))[1]


def test_fourth_derivative_of_softplus_by_logsumexp() -> None:
    """Through a fused primitive; softplus'''' = s(1-s)(1 - 6s + 6s²) with s the sigmoid."""

    def f(x: Any) -> Any:
        return tg.logsumexp(tg.stack([x, x * 0]))

    point, g = np.array(0.7), f
    for _ in range(4):
        g = tg.grad(g)
    s = 1 / (1 + math.exp(-0.7))
    assert g(point).item() == pytest.approx(s * (1 - s) * (1 - 6 * s + 6 * s * s), rel=1e-10)
