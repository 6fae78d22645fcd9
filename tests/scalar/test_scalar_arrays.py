"""Arrays of Values as an array namespace: NumPy's answers, and gradients of single numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinygrad_edu.scalar import Value
from tinygrad_edu.scalar.arrays import F

RNG = np.random.default_rng(0)
A, B = RNG.uniform(0.5, 2, (2, 3)), RNG.uniform(0.5, 2, (2, 3))
Q, K = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(2, 4, 3))

SAME_AS_NUMPY: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    **{
        name: (lambda xp, a, name=name: getattr(xp, name)(a), (A,))
        for name in [
            "exp",
            "expm1",
            "log",
            "log1p",
            "sqrt",
            "tanh",
            "sin",
            "cos",
            "abs",
            "negative",
            "square",
            "sum",
            "mean",
            "var",
            "max",
            "min",
            "transpose",
            "ravel",
        ]
    },
    **{
        name: (lambda xp, a, b, name=name: getattr(xp, name)(a, b), (A, B))
        for name in ["add", "subtract", "multiply", "divide", "power", "maximum", "minimum"]
    },
    "broadcast": (lambda xp, a, b: xp.multiply(a, b), (A, B[:, :1])),
    "where": (lambda xp, a, b: xp.where(xp.greater(a, 1.0), a, b), (A, B)),
    "clip": (lambda xp, a: xp.clip(a, 0.8, 1.5), (A,)),
    "clip on one side": (lambda xp, a: xp.clip(a, 0.8, None), (A,)),
    "sum axis": (lambda xp, a: xp.sum(a, axis=0), (A,)),
    "sum keepdims": (lambda xp, a: xp.sum(a, axis=-1, keepdims=True), (A,)),
    "sum axes": (lambda xp, a: xp.sum(a, axis=(0, 2)), (Q,)),
    "mean axis": (lambda xp, a: xp.mean(a, axis=1), (A,)),
    "var axis": (lambda xp, a: xp.var(a, axis=1, keepdims=True), (A,)),
    "var ddof": (lambda xp, a: xp.var(a, axis=1, ddof=1), (A,)),
    "max axis": (lambda xp, a: xp.max(a, axis=0), (A,)),
    "max axes": (lambda xp, a: xp.max(a, axis=(0, -1), keepdims=True), (Q,)),
    "min axis": (lambda xp, a: xp.min(a, axis=-1), (A,)),
    "matmul": (lambda xp, a, b: xp.matmul(a, b.T), (A, B)),
    "matmul batched": (lambda xp, a, b: xp.matmul(a, b), (Q, K)),
    "matmul broadcast": (lambda xp, a, b: xp.matmul(a, b), (Q, K[0])),
    "matmul vector": (lambda xp, a, b: xp.matmul(a, b), (A, B[0])),
    "matmul two vectors": (lambda xp, a, b: xp.matmul(a, b), (A[0], B[0])),
    "operator @": (lambda xp, a, b: a @ b, (Q, K)),
    "einsum": (lambda xp, a, b: xp.einsum("bij,bjk->bik", a, b), (Q, K)),
    "einsum trace": (lambda xp, a: xp.einsum("ii", a), (A[:, :2],)),
    "reshape": (lambda xp, a: xp.reshape(a, (3, -1)), (A,)),
    "transpose axes": (lambda xp, a: xp.transpose(a, (2, 0, 1)), (Q,)),
    "swapaxes": (lambda xp, a: xp.swapaxes(a, 0, 2), (Q,)),
    "expand_dims": (lambda xp, a: xp.expand_dims(a, 1), (A,)),
    "squeeze": (lambda xp, a: xp.squeeze(a[:, :1], axis=1), (A,)),
    "broadcast_to": (lambda xp, a: xp.broadcast_to(a, (4, 2, 3)), (A,)),
    "concatenate": (lambda xp, a, b: xp.concatenate([a, b], axis=1), (A, B)),
    "stack": (lambda xp, a, b: xp.stack([a, b], axis=-1), (A, B)),
    "split": (lambda xp, a: xp.split(a, 3, axis=1)[1], (A,)),
    "indexing with repeats": (lambda xp, a: a[[0, 0, 1]], (A,)),
    "take": (lambda xp, a: xp.take(a, [2, 0], axis=1), (A,)),
    "zeros_like": (lambda xp, a: xp.add(a, xp.zeros_like(a)), (A,)),
    "ones_like": (lambda xp, a: xp.add(a, xp.ones_like(a)), (A,)),
    "full_like": (lambda xp, a: xp.add(a, xp.full_like(a, 3.0)), (A,)),
    "asarray": (lambda xp, a: xp.asarray(a, dtype=xp.float64), (A,)),
}


@pytest.mark.parametrize("name", SAME_AS_NUMPY)
def test_a_function_means_what_numpy_means(name: str) -> None:
    function, arguments = SAME_AS_NUMPY[name]
    found = function(F, *map(F.values, arguments))
    expected = function(np, *arguments)
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(F.data(found), expected, rtol=1e-13)


@pytest.mark.parametrize("name", SAME_AS_NUMPY)
def test_its_gradient_agrees_with_central_differences(name: str) -> None:
    function, arguments = SAME_AS_NUMPY[name]
    leaves = [F.values(a) for a in arguments]
    out = function(F, *leaves)
    weights = np.cos(np.arange(np.size(out))).reshape(np.shape(out))
    F.sum(F.multiply(out, weights)).item().backward()
    for i, argument in enumerate(arguments):
        slopes = np.zeros_like(argument)
        for index in np.ndindex(argument.shape):
            ends = []
            for h in (1e-6, -1e-6):
                moved = [np.array(a) for a in arguments]
                moved[i][index] += h
                ends.append(np.sum(function(np, *moved) * weights))
            slopes[index] = (ends[0] - ends[1]) / 2e-6
        np.testing.assert_allclose(F.grad(leaves[i]), slopes, rtol=1e-6, atol=1e-7)


def test_sigmoid_relu_and_erf_join_numpys_names() -> None:
    x = np.array([-2.0, 0.5])
    v = F.values(x)
    np.testing.assert_allclose(F.data(F.sigmoid(v)), 1 / (1 + np.exp(-x)))
    np.testing.assert_allclose(F.data(F.relu(v)), np.maximum(x, 0))
    np.testing.assert_allclose(F.data(F.erf(v)), [math.erf(t) for t in x])


@given(st.lists(st.sampled_from([1.0, 2.0, 3.0]), min_size=1, max_size=7))
def test_all_the_largest_share_the_gradient_equally(numbers: list[float]) -> None:
    for reduce, best in ((F.max, max(numbers)), (F.min, min(numbers))):
        x = F.values(numbers)
        out = reduce(x).item()
        out.backward()
        share = (np.array(numbers) == best) / numbers.count(best)
        assert out.data == best
        np.testing.assert_allclose(F.grad(x), share, rtol=1e-15)


def test_nan_spreads_through_max_and_no_elements_are_refused() -> None:
    for numbers in ([math.nan, 1.0], [1.0, math.nan, 2.0]):
        assert math.isnan(F.data(F.max(F.values(numbers))))
    with pytest.raises(ValueError, match="max of no elements"):
        F.max(F.values([]))


def test_values_are_leaves_named_by_their_place() -> None:
    x = F.values(np.array([[1.0, 2.0]]), name="x")
    assert x.shape == (1, 2) and x.dtype == object
    assert [v.name for v in x.ravel()] == ["x[0,0]", "x[0,1]"]
    assert F.values(3.0, name="b").item().name == "b"
    assert F.values([1, 2])[0].data == 1.0


def test_readers_give_float64_of_the_same_shape_at_every_rank() -> None:
    for shape in ((), (3,), (0, 2), (2, 1, 2)):
        x = F.values(np.zeros(shape))
        for read in (F.data, F.grad):
            assert read(x).shape == shape and read(x).dtype == np.float64
    assert F.grad(np.array([Value(1.0), 2.0])).tolist() == [0.0, 0.0]


def test_choosing_makes_no_node() -> None:
    a, b = F.values([1.0, 2.0]), F.values([3.0, 4.0])
    chosen = F.where(np.array([True, False]), a, b)
    assert chosen[0] is a[0] and chosen[1] is b[1]


def test_the_branch_not_chosen_gets_no_nan() -> None:
    x = F.values([1.0, 4.0])
    F.sum(F.where(F.greater(x, 0), x, F.sqrt(F.negative(x)))).item().backward()
    assert F.grad(x).tolist() == [1.0, 1.0]


def test_questions_are_answered_in_plain_arrays() -> None:
    x = F.values([1.0, -2.0, math.nan])
    assert F.greater(x, 0).dtype == np.bool_
    assert F.isnan(x).tolist() == [False, False, True]
    assert F.sign(x)[:2].tolist() == [1.0, -1.0]
    assert F.argmax(F.values([1.0, 3.0, 2.0])) == 1
    assert F.equal(F.values([1.0]), 1.0).tolist() == [True]


def test_a_matmul_zooms_into_its_multiplications() -> None:
    out = F.matmul(F.values([[1.0, 2.0]]), F.values([[3.0], [4.0]])).item()
    assert out.op == "+" and [v.op for v in out.inputs] == ["*", "*"]


def test_causal_attention_agrees_with_the_same_program_on_floats() -> None:
    def attention(xp: Any, q: Any, k: Any, v: Any) -> Any:
        scores = xp.matmul(q, xp.swapaxes(k, -1, -2)) * (1 / math.sqrt(q.shape[-1]))
        scores = xp.where(np.tril(np.ones((3, 3), dtype=bool)), scores, -np.inf)
        e = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
        return xp.matmul(e / xp.sum(e, axis=-1, keepdims=True), v)

    q, k, v = (RNG.normal(size=(2, 3, 4)) for _ in range(3))
    leaves = [F.values(a) for a in (q, k, v)]
    out = attention(F, *leaves)
    np.testing.assert_allclose(F.data(out), attention(np, q, k, v), rtol=1e-13)
    F.sum(out * out).item().backward()
    for leaf in leaves:
        assert np.isfinite(F.grad(leaf)).all() and F.grad(leaf).any()


def test_backward_rules_are_refused_with_a_sentence() -> None:
    for name in ("absorb", "scatter_add"):
        with pytest.raises(TypeError, match=f"{name} is part of a backward rule"):
            getattr(F, name)(F.values([1.0]), F.values([1.0]))


def test_a_missing_name_is_answered_with_a_sentence() -> None:
    with pytest.raises(AttributeError, match="'values' has no function 'fft'"):
        F.fft  # noqa: B018
