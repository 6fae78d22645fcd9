"""`backend/blas.py`: y + a·x by NumPy's own BLAS, the same bits wherever it is cut."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tinygrad_edu import Tensor, optim
from tinygrad_edu.backend import blas
from tinygrad_edu.optim import rules

has_blas = pytest.mark.skipif(
    not all(blas._routine(np.dtype(d)) for d in ("float32", "float64")),
    reason="this NumPy's BLAS gives no axpy (or an unsound one)",
)


def _draw(size: int, dtype: Any) -> tuple[Any, Any]:
    draw = np.random.default_rng(size)
    return draw.normal(size=size).astype(dtype), draw.normal(size=size).astype(dtype)


@has_blas
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_element_is_within_a_rounding_of_the_exact_sum(dtype: str) -> None:
    y, x = _draw(30_011, dtype)
    before = y.copy()
    a = 0.3
    assert blas.axpy(y, -a, x)
    factor = Fraction(float(np.dtype(dtype).type(-a)))
    eps = float(np.finfo(dtype).eps)
    for i in [*range(0, 30_011, 997), 30_010]:
        term = factor * Fraction(float(x[i]))
        exact = Fraction(float(before[i])) + term
        size = abs(float(before[i])) + abs(float(term))
        assert abs(float(Fraction(float(y[i])) - exact)) <= eps * size


@has_blas
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_parts_have_the_bits_of_the_whole(dtype: str) -> None:
    whole, x = _draw(100_003, dtype)
    parts = whole.copy()
    assert blas.axpy(whole, -0.01, x)
    for start, stop in ((0, 7), (7, 33_334), (33_334, 100_002), (100_002, 100_003)):
        assert blas.axpy(parts[start:stop], -0.01, x[start:stop])
    assert (whole == parts).all()


@pytest.mark.parametrize(
    ("y", "x", "a"),
    [
        (np.ones((4, 4))[:, ::2], np.ones((4, 2)), 1.0),
        (np.ones((4, 2)), np.ones((4, 4))[:, ::2], 1.0),
        (np.ones((3, 2)).T, np.ones((2, 3)), 1.0),
        (np.ones(3), np.ones(3, np.float32), 1.0),
        (np.ones(3, np.float16), np.ones(3, np.float16), 1.0),
        (np.ones(3), np.ones(3, ">f8"), 1.0),
        (np.ones(3), np.ones(4), 1.0),
        (np.ones(3), np.full(3, np.nan), 0.0),
        (np.broadcast_to(np.ones(1), 3), np.ones(3), 1.0),
        ([1.0], np.ones(1), 1.0),
    ],
)
def test_what_it_cannot_do_it_leaves_alone(y: Any, x: Any, a: float) -> None:
    before = np.array(y)
    assert not blas.axpy(y, a, x)
    assert (np.asarray(y) == before).all()


@pytest.mark.parametrize("found", [True, False], ids=["blas", "without"])
@pytest.mark.parametrize("maximize", [False, True])
def test_descent_on_a_large_weight_with_and_without_it(
    found: bool, maximize: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not found:
        monkeypatch.setattr(rules, "axpy", lambda *_: False)
    start, gradient = _draw(40_000, "float64")
    weight = Tensor(start.copy().reshape(200, 200), requires_grad=True)
    weight.grad = Tensor(gradient.reshape(200, 200))
    optim.SGD([weight], lr=0.1, maximize=maximize).step()
    wanted = start + 0.1 * gradient if maximize else start - 0.1 * gradient
    np.testing.assert_allclose(weight.data.reshape(-1), wanted, rtol=0, atol=2e-15)


def test_a_routine_that_rounds_its_last_elements_otherwise_is_refused() -> None:
    def uneven(n: int, a: float, x: int, dx: int, y: int, dy: int) -> None:
        if n > 1:
            assert real is not None
            real(n - 1, a, x, dx, y, dy)

    real = blas._routine(np.dtype(np.float64))
    if real is None:
        pytest.skip("this NumPy's BLAS gives no axpy")
    assert blas._is_sound(real, np.dtype(np.float64))
    assert not blas._is_sound(uneven, np.dtype(np.float64))
