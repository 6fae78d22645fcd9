"""NumPy's functions on tensors: they reach our operations or refuse, and never lose a history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu.errors import GraphError

A = np.array([[0.5, 1.5, 2.5], [3.0, 4.0, 0.25]])


def tracked() -> tg.Tensor:
    return tg.tensor(A, requires_grad=True, name="t")


SAME: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "abs": np.abs,
    "negative": np.negative,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "sign": np.sign,
    "sum": np.sum,
    "sum of an axis": lambda t: np.sum(t, axis=0),
    "sum keepdims": lambda t: np.sum(t, axis=1, keepdims=True),
    "mean": np.mean,
    "mean of an axis": lambda t: np.mean(t, axis=1),
    "mean of two axes": lambda t: np.mean(t, axis=(0, 1)),
    "var": lambda t: np.var(t, axis=0, ddof=1),
    "max": lambda t: np.max(t, axis=1),
    "amax": np.amax,
    "min": lambda t: np.min(t, axis=-1),
    "amin": np.amin,
    "add": lambda t: np.add(t, 2),
    "subtract": lambda t: np.subtract(1.0, t),
    "multiply": lambda t: np.multiply(t, A),
    "divide": lambda t: np.divide(A, t),
    "true_divide": lambda t: np.true_divide(t, 2),
    "power": lambda t: np.power(t, 3),
    "maximum": lambda t: np.maximum(t, 1.0),
    "minimum": lambda t: np.minimum(1.0, t),
    "clip": lambda t: np.clip(t, 0.75, 2.75),
    "where": lambda t: np.where(A > 1, t, 0.0),
    "matmul": lambda t: np.matmul(A.T, t),
    "reshape": lambda t: np.reshape(t, (3, 2)),
    "reshape -1": lambda t: np.reshape(t, -1),
    "transpose": np.transpose,
    "transpose axes": lambda t: np.transpose(t, (1, 0)),
    "transpose axes=": lambda t: np.transpose(t, axes=(1, 0)),
    "swapaxes": lambda t: np.swapaxes(t, 0, 1),
    "expand_dims": lambda t: np.expand_dims(t, axis=1),
    "squeeze": lambda t: np.squeeze(np.expand_dims(t, 0), axis=0),
    "broadcast_to": lambda t: np.broadcast_to(t, (4, 2, 3)),
    "concatenate": lambda t: np.concatenate([t, t * 2], axis=1),
    "concatenate with an array": lambda t: np.concatenate((A, t)),
    "stack": lambda t: np.stack([t, A], axis=1),
    "split": lambda t: np.split(t, 3, axis=1)[1],
    "array + t": lambda t: A + t,
    "t + array": lambda t: t + A,
    "array - t": lambda t: A - t,
    "array * t": lambda t: A * t,
    "t * array": lambda t: t * A,
    "array / t": lambda t: A / t,
    "array @ t": lambda t: A.T @ t,
    "t @ array": lambda t: t @ A.T,
    "array ** t": lambda t: A**t,
    "NumPy number * t": lambda t: np.float64(2) * t,
    "t / NumPy number": lambda t: t / np.sqrt(2),
    "NumPy number - t": lambda t: np.float32(2) - t,
    "list * t": lambda t: t * [1.0, 2.0, 3.0],
}


@pytest.mark.parametrize("call", SAME.values(), ids=SAME.keys())
def test_a_numpy_call_gives_a_tracked_tensor_of_numpys_values(call: Callable[[Any], Any]) -> None:
    t = tracked()
    y = call(t)
    assert isinstance(y, tg.Tensor)
    assert y.requires_grad
    wanted = call(A)
    assert y.shape == wanted.shape and y.dtype == wanted.dtype
    np.testing.assert_allclose(y.data, wanted, rtol=1e-12)
    y.sum().backward()
    assert t.grad is not None


@pytest.mark.parametrize("call", SAME.values(), ids=SAME.keys())
def test_a_numpy_call_on_an_untracked_tensor_gives_a_tensor(call: Callable[[Any], Any]) -> None:
    y = call(tg.tensor(A))
    assert isinstance(y, tg.Tensor) and not y.requires_grad
    np.testing.assert_allclose(y.data, call(A), rtol=1e-12)


def test_the_gradient_flows_through_both_orders_of_a_product_with_an_array() -> None:
    for product in (lambda t: A * t, lambda t: t * A):
        t = tracked()
        product(t).sum().backward()
        assert t.grad is not None
        np.testing.assert_array_equal(t.grad.data, A)


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "pinv": (np.linalg.pinv, r"np\.linalg\.pinv"),
    "cross": (lambda t: np.cross(t, A), r"np\.cross"),
    "percentile": (lambda t: np.percentile(t, 30), r"np\.percentile"),
    "gradient": (lambda t: np.gradient(t, axis=1), r"np\.gradient"),
    "nansum": (np.nansum, r"np\.nansum"),
    "vstack": (lambda t: np.vstack([t, t]), r"np\.vstack"),
    "heaviside": (lambda t: np.heaviside(t, 1.0), r"np\.heaviside"),
    "fmod": (lambda t: np.fmod(A, t), r"np\.fmod"),
    "add.reduce": (np.add.reduce, r"np\.add\.reduce"),
    "exp with out": (lambda t: np.exp(t, out=np.empty_like(A)), r"np\.exp with out"),
    "isclose": (lambda t: np.isclose(t, A), r"np\.isclose"),
}


@pytest.mark.parametrize(("call", "name"), REFUSED.values(), ids=REFUSED.keys())
def test_a_numpy_call_that_would_lose_the_history_refuses_by_name(
    call: Callable[[Any], Any], name: str
) -> None:
    with pytest.raises(TypeError, match=rf"^{name} has no gradient here.*detach\(\)"):
        call(tracked())


@pytest.mark.parametrize(("call", "name"), REFUSED.values(), ids=REFUSED.keys())
def test_the_same_call_works_on_an_untracked_tensor(
    call: Callable[[Any], Any], name: str
) -> None:
    np.testing.assert_allclose(call(tg.tensor(A)), call(A))


@pytest.mark.parametrize(
    "call",
    [
        lambda t: np.sum(t, 0, np.float32), lambda t: np.median(t, 1, None), np.linalg.svd,
        lambda t: np.sort(t, -1, "heapsort"), lambda t: np.linalg.qr(t, "complete"),
    ],
)  # fmt: skip
def test_what_numpy_means_otherwise_is_refused_and_not_mistaken(call: Callable[[Any], Any]) -> None:
    with pytest.raises((TypeError, ValueError), match=r"by keyword|full_matrices|mode='reduced'"):
        call(tracked())


def test_writing_a_tracked_tensor_into_an_array_is_refused() -> None:
    total = np.zeros((2, 3))
    with pytest.raises(TypeError, match=r"np\.add with out"):
        total += tracked()
    with pytest.raises(GraphError, match="'t' is tracked"):
        total[:] = tracked()
    assert not total.any()
    total += tg.tensor(A)
    np.testing.assert_array_equal(total, A)


@pytest.mark.parametrize(
    "convert",
    [np.asarray, np.array, lambda t: np.array([t, t]), lambda t: np.asarray(t, dtype=np.float32)],
    ids="asarray array list dtype".split(),
)
def test_turning_a_tracked_tensor_into_an_array_is_refused(convert: Callable[[Any], Any]) -> None:
    with pytest.raises(GraphError, match=r"'t' is tracked.*\.detach\(\)"):
        convert(tracked())
    np.testing.assert_allclose(convert(tracked().detach()), convert(A))


def test_an_untracked_tensor_becomes_an_array_without_a_copy() -> None:
    t = tg.Tensor(A)
    assert np.asarray(t) is A or np.shares_memory(np.asarray(t), A)
    assert not np.shares_memory(np.array(t), A)
    assert np.asarray(t, dtype=np.float32).dtype == np.float32


def test_questions_about_shape_and_dtype_are_answered_for_tracked_tensors() -> None:
    t = tracked()
    assert np.shape(t) == (2, 3)
    assert np.ndim(t) == 2
    assert np.size(t) == 6
    assert np.result_type(t, np.float32) == np.float64
    assert np.zeros_like(t).shape == (2, 3)
    assert np.ones_like(t).tolist() == [[1.0] * 3] * 2
    assert np.full_like(t, 7).dtype == np.float64


def test_comparisons_by_ufunc_give_untracked_bools() -> None:
    t = tracked()
    for found, wanted in (
        (np.less(t, 1), A < 1),
        (np.greater_equal(1, t), A <= 1),
        (np.equal(A, t), A == A),
        (A > t, A > A),  # noqa: SIM300
    ):
        assert isinstance(found, tg.Tensor) and found.dtype == bool and not found.requires_grad
        np.testing.assert_array_equal(found.data, wanted)
