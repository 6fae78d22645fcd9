"""`tg.jacobian`, `tg.hessian`, `tg.hvp`: shapes, both modes, derivatives of them, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg

X = np.array([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0]])
W = np.arange(12.0).reshape(3, 4) / 8


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
def test_the_jacobian_of_a_product(mode: str) -> None:
    found = tg.jacobian(lambda x: x @ W, mode=mode)(X)
    assert found.shape == (2, 4, 2, 3)
    np.testing.assert_array_equal(found._data, np.einsum("ik,jl->ilkj", np.eye(2), W))


@pytest.mark.parametrize(("f", "forward"), [(lambda x: x.sum(), False), (lambda x: x @ W, True)])
def test_auto_takes_the_mode_with_fewer_passes(
    f: Any, forward: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tinygrad_edu.autograd import jacobians

    calls: list[str] = []
    real = jacobians.jvp
    monkeypatch.setattr(jacobians, "jvp", lambda *a: calls.append("jvp") or real(*a))
    tg.jacobian(f)(X)
    assert len(calls) == (X.size if forward else 0)


def test_of_another_argument_and_of_numbers() -> None:
    found = tg.jacobian(lambda x, w: x @ w, argnum=1)(X, W)
    np.testing.assert_array_equal(found._data, np.einsum("ik,jl->ijkl", X, np.eye(4)))
    assert tg.jacobian(lambda t: t**3)(2.0).item() == 12
    assert tg.jacobian(lambda t: t * 2)(np.zeros((0, 2))).shape == (0, 2, 0, 2)


def test_the_hessian_of_a_quadratic_form() -> None:
    a = np.array([[2.0, 1.0, 0.0], [3.0, -1.0, 4.0], [0.5, 0.0, 1.0]])
    x = np.array([1.0, 2.0, 3.0])

    def form(v: Any) -> Any:
        return v @ (a @ v)

    np.testing.assert_allclose(tg.hessian(form)(x)._data, a + a.T, rtol=1e-15)
    np.testing.assert_allclose(tg.hvp(form, x, [1.0, 0.0, -1.0])._data, (a + a.T) @ [1, 0, -1])


def test_they_can_be_differentiated() -> None:
    x = np.array([0.5, -1.5])
    third = tg.jacobian(tg.hessian(lambda v: (v**4).sum()))(x)
    want = np.zeros((2, 2, 2))
    want[[0, 1], [0, 1], [0, 1]] = 24 * x
    np.testing.assert_allclose(third._data, want, rtol=1e-14)
    trace = tg.grad(lambda v: tg.trace(tg.jacobian(lambda u: u**3)(v)))(x)
    np.testing.assert_allclose(trace._data, 6 * x, rtol=1e-14)
    bent = tg.grad(lambda v: tg.hvp(lambda u: (u**4).sum(), v, np.ones(2)).sum())(x)
    np.testing.assert_allclose(bent._data, 24 * x, rtol=1e-14)


def test_one_that_is_too_large_says_how_large_before_it_starts() -> None:
    runs: list[int] = []

    def f(x: Any) -> Any:
        runs.append(1)
        return x * 2

    x = np.ones(20_000)
    with pytest.raises(
        ValueError, match=r"\(20000,\) by \(20000,\): 400,000,000 numbers, 3.0 GiB.*most_entries="
    ):
        tg.jacobian(f)(x)
    assert len(runs) == 1
    with pytest.raises(ValueError, match="9 numbers"):
        tg.hessian(lambda v: (v**2).sum(), most_entries=8)(np.ones(3))


def test_refusals() -> None:
    with pytest.raises(ValueError, match="'auto', 'forward' or 'reverse'; got 'both'"):
        tg.jacobian(tg.exp, mode="both")
    with pytest.raises(tg.errors.ShapeError, match=r"v has shape \(3,\); x has \(2,\)"):
        tg.hvp(lambda x: x.sum(), np.ones(2), np.ones(3))
    with pytest.raises(tg.errors.GraphError, match="returns one number"):
        tg.hvp(lambda x: x * x, np.ones(2), np.ones(2))
