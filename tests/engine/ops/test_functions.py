"""Functions made of several primitives: NumPy's values, and gradients held to differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinygrad_edu as tg
from tinygrad_edu.testing import check_jvp, check_second_order, check_vjp
from tinygrad_edu.testing import strategies as own

A = np.random.default_rng(0).permutation(24).reshape(2, 3, 4) / 4 - 2.1
M = A[0]
V = A[0, 0]
ROWS = np.array([[2, 0], [1, 1], [0, 2]])


def both(name: str, *args: Any, **kwargs: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """The function here and NumPy's, of one array, with the same further arguments."""
    return (
        lambda x: getattr(tg, name)(x, *args, **kwargs),
        lambda x: getattr(np, name)(x, *args, **kwargs),
    )


CALLS: list[tuple[str, Any, tuple[Callable[[Any], Any], Callable[[Any], Any]]]] = [
    *[(f"rot90 {k} {axes}", A, both("rot90", k, axes))
      for k in (-1, 0, 1, 2, 3, 4) for axes in ((0, 1), (2, 0))],
    *[(f"moveaxis {s} {d}", A, both("moveaxis", s, d))
      for s, d in ((0, -1), (2, 0), ((0, 1), (-1, 0)))],
    *[(f"pad {mode} {w}", M, both("pad", w, mode))
      for mode in ("constant", "edge", "reflect", "symmetric", "wrap")
      for w in (1, (2, 1), ((0, 2), (3, 0)))],
    ("pad with 5", M, (lambda x: tg.pad(x, 1, constant_values=5.0),
                       lambda x: np.pad(x, 1, constant_values=5.0))),
    *[(f"tile {r}", M, both("tile", r)) for r in (2, (2, 1), (1, 0), (2, 1, 3))],
    *[(f"repeat {r} {axis}", M, both("repeat", r, axis))
      for r, axis in ((2, None), (0, 0), (3, 1), ([0, 1, 3], 0), ([2], 1))],
    *[(f"take {axis}", M, both("take", ROWS, axis)) for axis in (None, 0, 1)],
    *[(f"take_along_axis {axis}", M, both("take_along_axis", i, axis))
      for i, axis in ((ROWS, 1), (np.array([[2, 0, 1, 1]]), 0), (np.array([3, 3]), None))],
    *[(f"diagonal {k} {axes}", A, both("diagonal", k, *axes))
      for k in (-1, 0, 2, 5) for axes in ((0, 1), (2, 0))],
    *[(f"diag {k}", x, both("diag", k)) for k in (-1, 0, 1) for x in (V, M)],
    *[(f"{name} {k}", A, both(name, k)) for name in ("tril", "triu") for k in (-1, 0, 1)],
    *[(f"trace {k}", A, both("trace", k, 1, 2)) for k in (0, 1)],
    ("ravel", A, both("ravel")),
    *[(f"sort {axis}", A, both("sort", axis)) for axis in (-1, 0, None)],
    *[(f"median {axis} {keep}", x, both("median", axis, keepdims=keep))
      for axis in (None, 1, (0, 2)) for keep in (False, True) for x in (A, A[:, :, :3])],
    *[(f"cumsum {axis}", A, both("cumsum", axis)) for axis in (None, 1)],
    *[(f"cumprod {axis}", A, both("cumprod", axis)) for axis in (None, 1)],
    *[(f"cummax {axis}", A, (lambda x, i=axis: tg.cummax(x, i),
                             lambda x, i=axis: np.maximum.accumulate(x, i))) for axis in (0, 2)],
    *[(f"cummin {axis}", A, (lambda x, i=axis: tg.cummin(x, i),
                             lambda x, i=axis: np.minimum.accumulate(x, i))) for axis in (0, 2)],
    ("topk", A, (lambda x: tg.topk(x, 2, 1)[0], lambda x: -np.sort(-x, 1)[:, :2])),
    ("topk smallest", A, (lambda x: tg.topk(x, 2, largest=False)[0],
                          lambda x: np.sort(x, -1)[..., :2])),
    *[(f"tensordot {axes}", M, (lambda x, i=axes: tg.tensordot(x, A, i),
                                lambda x, i=axes: np.tensordot(x, A, i)))
      for axes in (0, ((0, 1), (1, 2)), (1, 2))],
    *[(f"dot {np.shape(y)}", M, (lambda x, y=y: tg.dot(x, y), lambda x, y=y: np.dot(x, y)))
      for y in (2.0, V, M.T, np.moveaxis(A, 2, 1))],
    *[(f"inner {np.shape(y)}", M, (lambda x, y=y: tg.inner(x, y), lambda x, y=y: np.inner(x, y)))
      for y in (2.0, V, M, A)],
    ("outer", M, (lambda x: tg.outer(x, V), lambda x: np.outer(x, V))),
    ("vdot", M, (lambda x: tg.vdot(x, M.T), lambda x: np.vdot(x, M.T))),
    *[(f"kron {y.shape}", M, (lambda x, y=y: tg.kron(x, y), lambda x, y=y: np.kron(x, y)))
      for y in (V, M, A[:, :2, :2])],
    ("multi_dot", M, (lambda x: tg.linalg.multi_dot([x, M.T, M]),
                      lambda x: np.linalg.multi_dot([x, M.T, M]))),
]  # fmt: skip


@pytest.mark.parametrize(
    ("x", "pair"), [call[1:] for call in CALLS], ids=[call[0] for call in CALLS]
)
def test_values_are_numpys_and_gradients_are_right(x: Any, pair: Any) -> None:
    ours, theirs = pair
    found, want = ours(tg.Tensor(x)), theirs(x)
    assert found.shape == np.shape(want)
    np.testing.assert_allclose(found._data, want, rtol=1e-14, atol=1e-14)
    check_vjp(ours, x, inner=1e-3)
    check_jvp(ours, x, inner=1e-3)


@pytest.mark.parametrize("name", ["pad reflect 1", "repeat [0, 1, 3] 0", "median 1 False", "sort 0",
                                  "tensordot ((0, 1), (1, 2))", "cummax 2"])  # fmt: skip
def test_they_are_differentiated_twice(name: str) -> None:
    x, (ours, _) = next(call[1:] for call in CALLS if call[0] == name)
    check_second_order(lambda a: ours(a * a), x)


# Einstein's sums.

SPECS = [
    ("ii->i", [(3, 3)]), ("ii->", [(3, 3)]), ("ii", [(2, 2)]), ("iij->ij", [(2, 2, 3)]),
    ("iij->ji", [(2, 2, 3)]), ("ij->", [(2, 3)]), ("ij->j", [(2, 3)]), ("ba", [(2, 3)]),
    ("i,i->", [(3,), (3,)]), ("i,j->ij", [(2,), (3,)]), ("ij,jk", [(2, 3), (3, 2)]),
    ("ij,kl->", [(2, 3), (2, 2)]), ("nd,nn->d", [(2, 3), (2, 2)]), ("ij,jk->k", [(2, 3), (3, 2)]),
    ("...i,...i->...", [(2, 1, 2), (3, 2)]), ("...ij->...ji", [(2, 2, 3)]), ("...", [(2, 3)]),
    ("i...,i...", [(2, 3), (2, 3)]), ("a...b,b->...a", [(2, 3, 2), (2,)]),
    ("ij,ij->ij", [(1, 3), (2, 1)]), ("iii->i", [(2, 2, 2)]), ("ij,ji->", [(2, 3), (3, 2)]),
    ("ab,bc,cd->ad", [(2, 3), (3, 2), (2, 4)]), ("i,i,i->i", [(3,), (3,), (3,)]),
    ("i->", [(0,)]), ("ij,j->i", [(2, 0), (0,)]), (",i->i", [(), (3,)]),
    (" i j , j -> i ", [(2, 3), (3,)]),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "shapes"), SPECS, ids=[s[0] for s in SPECS])
def test_einsum_is_numpys(spec: str, shapes: Any) -> None:
    rng = np.random.default_rng(0)
    xs = [rng.integers(-4, 5, s) / 2 for s in shapes]
    found = tg.einsum(spec, *[tg.Tensor(x) for x in xs])
    want = np.einsum(spec, *xs)
    assert found.shape == want.shape
    np.testing.assert_array_equal(found._data, want)
    check_vjp(lambda *a: tg.einsum(spec, *a), *xs)
    check_jvp(lambda *a: tg.einsum(spec, *a), *xs)
    check_second_order(lambda *a: tg.einsum(spec, *a), *xs)


def test_einsum_of_one_operand_twice() -> None:
    x = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    tg.einsum("i,i->", x, x).backward()
    assert x.grad is not None and x.grad.tolist() == [2, 4, 6]


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.data())
def test_einsum_of_any_two_operands(data: Any) -> None:
    names = "abc"
    lengths = {n: data.draw(st.integers(1, 3)) for n in names}
    term = st.lists(st.sampled_from(names), min_size=0, max_size=3).map("".join)
    terms = [data.draw(term) for _ in range(2)]
    there = sorted(set("".join(terms)))
    result = "".join(data.draw(st.lists(st.sampled_from(there), unique=True)) if there else [])
    spec = f"{terms[0]},{terms[1]}->{result}"
    xs = [data.draw(own.values(tuple(lengths[n] for n in t))) for t in terms]
    want = np.einsum(spec, *xs)
    leaves = [tg.Tensor(x, requires_grad=True) for x in xs]
    out = tg.einsum(spec, *leaves)
    np.testing.assert_allclose(out._data, want, rtol=1e-12, atol=1e-12)
    g = data.draw(own.cotangents(want.shape))
    out.backward(g)
    # ⟨g, f⟩ is linear in each operand: its slope along the operand is its value.
    for leaf, x in zip(leaves, xs, strict=True):
        assert leaf.grad is not None and leaf.grad.shape == x.shape
        np.testing.assert_allclose(
            (leaf.grad._data * x).sum(), (g * want).sum(), rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize(
    ("spec", "shapes", "said"),
    [
        ("ij,jk->ik", [(2, 3)], "names 2 operands; 1 were given"),
        ("ij->i", [(2, 3, 4)], "does not name the axes of shape"),
        ("ij,jk->ik", [(2, 3), (4, 2)], "axis 'j' is 3 long here and 4 there"),
        ("ij->k", [(2, 3)], "names 'k', which no operand has"),
        ("ij->ii", [(2, 3)], "names an axis twice"),
        ("i1->i", [(2, 3)], "neither a letter nor '...'"),
    ],
)
def test_einsum_says_what_does_not_fit(spec: str, shapes: Any, said: str) -> None:
    with pytest.raises(tg.errors.ShapeError, match=said):
        tg.einsum(spec, *[np.ones(s) for s in shapes])


# Positions, ties and refusals.


def test_positions_are_plain_arrays() -> None:
    x = tg.tensor(M, requires_grad=True)
    for found, want in (
        (tg.argsort(x), np.argsort(M)), (tg.argmax(x, 1), M.argmax(1)), (tg.argmin(x), M.argmin()),
        (tg.topk(x, 2)[1], np.argsort(-M)[:, :2]), (x.argmax(), M.argmax()),
    ):  # fmt: skip
        assert not isinstance(found, tg.Tensor)
        np.testing.assert_array_equal(found, want)


def gradient(f: Callable[[Any], Any], x: Any, g: Any = None) -> Any:
    leaf = tg.Tensor(np.asarray(x, float), requires_grad=True)
    out = f(leaf)
    out.backward(np.ones(out.shape) if g is None else np.asarray(g, float))
    assert leaf.grad is not None
    return leaf.grad.tolist()


def test_ties_keep_their_order() -> None:
    assert gradient(tg.sort, [1.0, 1.0, 0.0], [1, 2, 3]) == [2, 3, 1]
    assert gradient(lambda x: tg.sort(x, descending=True), [1.0, 1.0, 2.0], [1, 2, 3]) == [2, 3, 1]
    assert gradient(lambda x: tg.topk(x, 1)[0], [1.0, 1.0]) == [1, 0]
    assert gradient(tg.cummax, [1.0, 1.0, 0.0], [1, 2, 4]) == [1, 6, 0]
    assert gradient(tg.cummin, [1.0, 1.0, 2.0], [1, 2, 4]) == [1, 6, 0]
    assert gradient(tg.median, [4.0, 1.0, 3.0, 2.0]) == [0, 0, 0.5, 0.5]
    top = gradient(lambda x: tg.topk(x, 2)[0], [[1.0, 2, 6, 4, 5], [9.0, 5, 6, 7, 8]])
    assert top == [[0, 0, 1, 0, 1], [1, 0, 0, 0, 1]]


def test_nan_stays_in_running_extremes_and_medians() -> None:
    x = tg.tensor([1.0, np.nan, 3.0])
    np.testing.assert_array_equal(tg.cummax(x)._data, [1, np.nan, np.nan])
    assert np.isnan(tg.median(x).item())
    np.testing.assert_array_equal(tg.sort(x, descending=True)._data, [3, 1, np.nan])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: tg.pad(M, 1, mode="mean"), "mode is one of constant, edge, .*; got 'mean'"),
        (lambda: tg.pad(M, -1), "width has to be at least 0; got -1"),
        (lambda: tg.pad(M, (1, 2, 3)), "a number, a pair or 2 pairs"),
        (lambda: tg.topk(M, 9), "k has to be from 0 to 4; got 9"),
        (lambda: tg.repeat(M, [1, 2], 0), "one number or 3, one an element"),
        (lambda: tg.repeat(M, -1), "at least 0; got -1"),
        (lambda: tg.take(M, [0.5]), "have to be integers; got float64"),
        (lambda: tg.take_along_axis(M, [0]), "they need as many axes"),
        (lambda: tg.set_at(M, 0, np.ones(3)), r"value of shape \(3,\) where the index reads"),
        (lambda: tg.diagonal(V), "diagonal needs two axes"),
        (lambda: tg.diag(A), "diag needs a vector or a matrix"),
        (lambda: tg.rot90(M, 1, (0, 0)), "two different axes"),
        (lambda: tg.moveaxis(M, (0, 0), (0, 1)), "each once"),
        (lambda: tg.tensordot(M, M, 1), "cannot sum axis 1 of"),
        (lambda: tg.median(np.zeros((0, 2))), "median of nothing"),
        (lambda: tg.argmax(np.zeros(0)), "argmax of nothing"),
    ],
)
def test_refusals_say_what_was_given(call: Callable[[], Any], said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        call()


def test_set_at_takes_any_index_and_both_gradients() -> None:
    for index, shape in ((1, (4,)), ((slice(None), [0, 2]), (3, 2)), (M > 0, ()), (..., (3, 4))):
        value = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
        want = M.copy()
        want[index] = value
        np.testing.assert_array_equal(tg.set_at(M, index, value)._data, want)
        check_vjp(lambda x, v, i=index: tg.set_at(x, i, v), M, value)
        check_second_order(lambda x, v, i=index: tg.set_at(x * x, i, v * v), M, value)
