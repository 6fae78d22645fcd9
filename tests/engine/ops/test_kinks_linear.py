"""Kinks and singular points of totals, products, norms and linear algebra."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from engine.ops.kinks import INF, NAN, gradients, kink, same

import tinygrad_edu as tg
from tinygrad_edu.testing import check_jvp, check_second_order, check_vjp

L = tg.linalg


# Products.


@kink("prod", "one 0: its gradient is the product of the others, theirs are 0")
@kink("prod", "two 0: all gradients are 0")
def test_products_with_zeros() -> None:
    assert gradients(tg.prod, [2.0, 0.0, 3.0]) == [0, [0, 6, 0]]
    assert gradients(tg.prod, [2.0, 3.0, 0.0, 0.0]) == [0, [0, 0, 0, 0]]
    rows = [[1.0, 0.0, 2.0], [3.0, 4.0, 5.0]]
    found = gradients(lambda x: tg.prod(x, axis=1), rows, g=[1, 2])
    assert found == [[0, 60], [[0, 2, 0], [40, 30, 24]]]


@kink("prod", "a product that leaves the range on the way is right at the end")
def test_a_product_of_tiny_and_huge_numbers() -> None:
    value, slope = gradients(tg.prod, [1e-200, 1e-200, 1e300])
    assert value == pytest.approx(1e-100, rel=1e-14)
    assert slope == pytest.approx([1e100, 1e100, 0], rel=1e-14)
    assert gradients(tg.prod, [1e200, 1e200, 1e-300])[0] == pytest.approx(1e100, rel=1e-14)
    x = np.full(100_001, 0.5)
    x[::2] = 2.0  # one more 2 than 1/2
    assert tg.prod(tg.tensor(x)).item() == 2.0
    with np.errstate(over="ignore"):  # as of any product, NumPy's warning says so
        assert gradients(tg.prod, [1e200, 1e200]) == [INF, [1e200, 1e200]]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 9])
def test_second_derivatives_of_products_with_zeros(n: int) -> None:
    x = np.arange(1.0, n + 1)
    x[:: max(2, n // 2)] = 0
    check_second_order(tg.prod, x)
    check_second_order(tg.cumprod, x)


@kink("cumprod", "zeros: no division, so nothing is NaN")
@pytest.mark.parametrize(
    ("x", "want"),
    [
        ([2.0, 0.0, 3.0, 4.0], [1, 2 + 6 + 24, 0, 0]),
        ([0.0, 2.0, 3.0], [1 + 2 + 6, 0, 0]),
        ([2.0, 0.0, 0.0, 3.0], [1, 2, 0, 0]),
    ],
)
def test_running_products_with_zeros(x: Any, want: Any) -> None:
    assert gradients(tg.cumprod, x)[1] == want


def test_no_gradient_passes_a_factor_that_is_infinite() -> None:
    assert gradients(tg.cumprod, [2.0, INF, 3.0], g=[1, 0, 0])[1] == [1, 0, 0]


# Spread and size.


@kink("std", "all equal, or one alone: 0 with gradient 0")
def test_the_spread_of_equal_numbers() -> None:
    assert gradients(tg.std, [1.0, 1.0, 1.0, 1.0]) == [0, [0, 0, 0, 0]]
    assert gradients(lambda x: tg.std(x, 0, keepdims=True), [-0.83]) == [[0], [0]]
    both = gradients(lambda x: tg.std(x, 1), [[2.0, 2.0], [1.0, 3.0]])
    assert both == [[0, 1], [[0, 0], [-0.5, 0.5]]]
    assert tg.jvp(tg.std, np.ones(3), np.array([1.0, 2.0, 3.0]))[1].item() == 0


@kink("norm", "all 0: 0 with gradient 0")
@kink("norm", "p other than 2 and an element 0: its gradient is 0")
@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_sizes_at_0(p: float) -> None:
    assert gradients(lambda x: tg.norm(x, p), [0.0, 0.0]) == [0, [0, 0]]
    assert gradients(lambda x: tg.norm(x, p), [0.0, 3.0]) == [3, [0, pytest.approx(1)]]
    assert gradients(lambda x: tg.norm(x, p) ** 2, [0.0, 0.0])[1] == [0, 0]
    assert tg.jvp(lambda x: tg.norm(x, p), np.zeros(2), np.ones(2))[1].item() == 0


@kink("norm", "never overflows or vanishes on the way")
def test_sizes_of_huge_and_tiny_vectors() -> None:
    for scale in (1e200, 1e-200):
        value, slope = gradients(tg.norm, [3 * scale, -4 * scale])
        assert value == pytest.approx(5 * scale, rel=1e-15)
        assert slope == pytest.approx([0.6, -0.8], rel=1e-15)
    half = tg.Tensor(np.full((3, 3), 100, np.float16), requires_grad=True)
    size = tg.norm(half)
    size.backward()
    assert size.item() == 300
    assert half.grad is not None
    np.testing.assert_allclose(half.grad._data.astype(float), np.full((3, 3), 1 / 3), rtol=1e-3)


def test_sizes_of_infinite_vectors_are_infinite() -> None:
    assert tg.norm(tg.tensor([INF, 1.0])).item() == INF


# Writing over.


@kink("set_at", "an element written k times holds the last, which alone gets the gradient")
def test_the_last_write_wins() -> None:
    zeros = np.zeros(2)
    value, slope = gradients(lambda v: tg.set_at(zeros, [0, 0], v), [5.0, 6.0])
    assert value == [6, 0]
    assert slope == [0, 1]
    below = gradients(lambda x: tg.set_at(x, slice(0, 1), 7.0), [1.0, 2.0])
    assert below == [[7, 2], [0, 1]]


# Contractions.


@kink("einsum", "a contraction does not absorb: 0 · inf inside a sum is NaN")
def test_a_contraction_does_not_absorb() -> None:
    with np.errstate(all="ignore"):
        found = gradients(lambda a: tg.einsum("i,ij->j", a, [[INF, 1.0]]), [1.0], g=[0, 1])
    assert math.isnan(found[1][0])


# Matrices.


@kink("inv", "a singular matrix is an error")
@kink("solve", "a singular matrix is an error")
@kink("cholesky", "A that is not positive definite is an error")
def test_matrices_that_cannot_be_inverted_are_errors() -> None:
    singular = tg.tensor([[1.0, 2.0], [2.0, 4.0]], requires_grad=True)
    for attempt in (L.inv, lambda a: L.solve(a, [1.0, 1.0]), lambda a: L.cholesky(-a)):
        with pytest.raises(np.linalg.LinAlgError):
            attempt(singular)


@kink("det", "a singular matrix: the matrix of cofactors, as everywhere, and right once more")
@kink("cofactors", "a singular matrix: right, and so is its gradient; beyond, A has to have an "
      "inverse")  # fmt: skip
def test_determinants_of_singular_matrices() -> None:
    def near(found: Any, want: Any) -> None:
        np.testing.assert_allclose(found, want, rtol=1e-13, atol=1e-13)

    near(gradients(L.det, [[1.0, 2.0], [2.0, 4.0]])[1], [[4, -2], [-2, 1]])  # torch has 0
    near(gradients(L.det, np.zeros((2, 2)))[1], np.zeros((2, 2)))
    near(gradients(L.det, np.zeros((1, 1)))[1], [[1]])
    near(gradients(L.det, np.diag([0.0, 2.0, 3.0]))[1], np.diag([6, 0, 0]))
    a = np.diag([0.0, 0.0, 3.0])  # rank 1: the gradient is 0, its own slope is not
    near(gradients(L.det, a)[1], np.zeros((3, 3)))
    u = np.arange(9.0).reshape(3, 3)
    bent = tg.grad(lambda x: (tg.grad(L.det)(x) * u).sum())(a)
    near(bent._data, 3 * np.array([[u[1, 1], -u[1, 0], 0], [-u[0, 1], u[0, 0], 0], [0, 0, 0]]))


@kink("logabsdet", "a singular matrix: -inf, and its gradient is an error")
def test_the_logarithm_of_a_determinant_of_0() -> None:
    a = tg.tensor([[1.0, 2.0], [2.0, 4.0]], requires_grad=True)
    sign, log = L.slogdet(a)
    assert (sign.item(), log.item()) == (0, -INF)
    with pytest.raises(np.linalg.LinAlgError):
        log.backward()


@kink("cholesky", "A that is not symmetric counts as (A + Aᵀ)/2, so its gradient is symmetric")
@kink("eigh", "A that is not symmetric counts as (A + Aᵀ)/2, so its gradient is symmetric")
def test_matrices_that_are_to_be_symmetric() -> None:
    a = np.array([[4.0, 1.0], [2.0, 3.0]])
    for f in (L.cholesky, L.eigvalsh):
        g = np.arange(1.0, 3.0) if f is L.eigvalsh else np.array([[1.0, 0.0], [2.0, 3.0]])
        value, slope = gradients(f, a, g=g)
        again, _ = gradients(f, (a + a.T) / 2, g=g)
        assert value == again
        assert (np.array(slope) == np.transpose(slope)).all()


@kink("eigh", "equal eigenvalues: theirs is right in sum; what turns their vectors into each other "
      "is 0")  # fmt: skip
def test_equal_eigenvalues() -> None:
    assert gradients(lambda a: L.eigvalsh(a).sum(), 2 * np.eye(3))[1] == np.eye(3).tolist()

    def matrix_square(a: Any) -> Any:  # a function of all vectors that their turns do not change
        w, v = L.eigh(a)
        return (v * w**2) @ v.mT

    g = np.arange(9.0).reshape(3, 3)
    slope = gradients(matrix_square, np.eye(3), g=g)[1]
    np.testing.assert_allclose(np.diag(slope), 2 * np.diag(g), atol=1e-14)
    assert np.isfinite(slope).all()
    apart = np.diag([1.0, 2.0, 4.0]) + 0.1
    plain = gradients(lambda a: a @ a, apart, g=(g + g.T) / 2)[1]
    np.testing.assert_allclose(gradients(matrix_square, apart, g=g)[1], plain, rtol=1e-12)


@kink("svd", "equal singular values: theirs is right in sum; what turns their vectors is 0")
@kink("svd", "a singular value 0: what would divide by it is 0")
def test_equal_singular_values_and_0() -> None:
    slope = gradients(lambda a: L.svdvals(a).sum(), np.eye(2))[1]
    np.testing.assert_allclose(slope, np.eye(2), atol=1e-15)
    a = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    found = gradients(lambda x: (L.svd(x).U ** 2).sum() + L.svdvals(x)[0], a)[1]
    assert np.isfinite(found).all()


@kink("qr", "columns that depend on each other: the gradient is an error")
def test_qr_of_columns_that_depend_on_each_other() -> None:
    a = tg.tensor(np.zeros((3, 2)), requires_grad=True)
    q, _ = L.qr(a)
    with pytest.raises(np.linalg.LinAlgError):
        q.sum().backward()


def test_parts_of_decompositions_are_those_of_numpy() -> None:
    a = np.random.default_rng(0).normal(size=(2, 4, 3))
    for found, want in (
        (L.qr(a), np.linalg.qr(a)), (L.svd(a), np.linalg.svd(a, full_matrices=False)),
        (L.qr(a.mT), np.linalg.qr(a.mT)), (L.eigh(a @ a.mT), np.linalg.eigh(a @ a.mT)),
        (L.slogdet(a @ a.mT + np.eye(4)), np.linalg.slogdet(a @ a.mT + np.eye(4))),
    ):  # fmt: skip
        for part, other in zip(found, want, strict=True):
            np.testing.assert_allclose(part._data, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(0, 2, 2), (0, 3, 2), (0, 2, 3)])
def test_empty_stacks_of_matrices(shape: Any) -> None:
    a = tg.tensor(np.zeros(shape), requires_grad=True)
    for found in (L.svd(a), L.qr(a)):
        found[0].sum().backward()
        assert [len(part) for part in found] == [0] * len(found)
    if shape == (0, 2, 2):
        for f in (L.inv, L.det, L.cholesky, L.eigvalsh):
            assert f(a).shape[0] == 0


def test_a_wide_qr_has_a_gradient_too() -> None:
    a = np.random.default_rng(0).normal(size=(2, 4))
    for part in (0, 1):
        check_vjp(lambda x, k=part: L.qr(x)[k], a, roundings=2.0**16, inner=1.0)
        check_jvp(lambda x, k=part: L.qr(x)[k], a, roundings=2.0**16, inner=1.0)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("kind", [None, "fro", "nuc", 1, -1, 2, -2, INF, -INF])
def test_norms_of_matrices(kind: Any, keepdims: bool) -> None:
    a = np.random.default_rng(0).normal(size=(2, 3, 4))
    want = np.linalg.norm(a, kind, axis=(0, 2), keepdims=keepdims)
    np.testing.assert_allclose(tg.norm(a, kind, (0, 2), keepdims)._data, want, rtol=1e-13)
    check_vjp(lambda x: tg.norm(x, kind, (0, 2), keepdims), a, roundings=2.0**16, inner=1.0)


@pytest.mark.parametrize("kind", [None, 0, 0.5, 1, 2, 3, -1, INF, -INF])
def test_norms_of_vectors(kind: Any) -> None:
    a = np.random.default_rng(0).normal(size=(3, 4))
    want = np.linalg.norm(a, kind, axis=1)
    np.testing.assert_allclose(tg.norm(a, kind, 1)._data, want, rtol=1e-13)
    if kind != 0:
        check_vjp(lambda x: tg.norm(x, kind, 1), a, roundings=2.0**12)


def test_refusals_say_what_to_do() -> None:
    with pytest.raises(tg.errors.ShapeError, match=r"inv needs square matrices \(…, n, n\); got"):
        L.inv(np.ones((2, 3)))
    with pytest.raises(ValueError, match="full_matrices=True has no derivative"):
        L.svd(np.ones((2, 3)), full_matrices=True)
    with pytest.raises(ValueError, match="takes 'fro', 'nuc', ±1, ±2 or ±inf as ord; got 3"):
        tg.norm(np.ones((2, 2)), 3)
    with pytest.raises(tg.errors.ShapeError, match="b needs 2 rows"):
        L.solve(np.eye(2), np.ones(3))


def test_nan_is_not_hidden() -> None:
    assert same(tg.norm(tg.tensor([NAN, 1.0])).item(), NAN)

