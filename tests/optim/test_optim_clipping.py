"""Clipping: what norm it returns, what it leaves, what it refuses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import optim


def with_gradients(*gradients: Any, dtype: Any = np.float64) -> list[Any]:
    parameters = []
    for gradient in gradients:
        array = np.array(gradient, dtype=dtype)
        p = tg.Tensor(np.zeros_like(array), requires_grad=True)
        p.grad = tg.Tensor(array)
        parameters.append(p)
    return parameters


def all_gradients(parameters: list[Any]) -> Any:
    return np.concatenate([p.grad.data.reshape(-1) for p in parameters])


def test_the_joint_norm_before_clipping_is_returned_as_a_float() -> None:
    parameters = with_gradients([3.0, 0.0], [[4.0]])
    norm = optim.clip_grad_norm_(parameters, 1.0)
    assert type(norm) is float
    assert norm == pytest.approx(5.0)
    np.testing.assert_allclose(all_gradients(parameters), np.array([3.0, 0, 4.0]) / (5.0 + 1e-6))


def test_a_small_norm_changes_nothing() -> None:
    parameters = with_gradients([0.3, 0.4])
    assert optim.clip_grad_norm_(parameters, 1.0) == pytest.approx(0.5)
    assert np.array_equal(parameters[0].grad.data, [0.3, 0.4])


def test_an_infinite_limit_only_measures() -> None:
    parameters = with_gradients([3.0, 4.0])
    assert optim.clip_grad_norm_(parameters, math.inf) == pytest.approx(5.0)
    assert np.array_equal(parameters[0].grad.data, [3.0, 4.0])


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.0, math.inf])
def test_other_norms(norm_type: float) -> None:
    parameters = with_gradients([1.0, -2.0], [[3.0, 0.5]])
    flat = all_gradients(parameters)
    norm = optim.clip_grad_norm_(parameters, 0.7, norm_type=norm_type)
    assert norm == pytest.approx(np.linalg.norm(flat, norm_type))
    assert np.linalg.norm(all_gradients(parameters), norm_type) == pytest.approx(0.7, rel=1e-5)


def test_one_tensor_and_an_iterator_will_do_and_none_is_skipped() -> None:
    (p,) = with_gradients([6.0, 8.0])
    assert optim.clip_grad_norm_(p, 1.0) == pytest.approx(10.0)
    without = tg.Tensor(np.zeros(2), requires_grad=True)
    assert optim.clip_grad_norm_(iter([without]), 1.0) == 0.0
    assert without.grad is None


@pytest.mark.parametrize("size", [1e-30, 1e-22, 1e22, 1e30])
def test_squares_beyond_float32_do_not_lose_the_norm(size: float) -> None:
    parameters = with_gradients([3 * size, 4 * size], dtype=np.float32)
    assert optim.clip_grad_norm_(parameters, 1.0) == pytest.approx(5 * size, rel=1e-5)
    assert parameters[0].grad.dtype == np.float32
    assert np.isfinite(parameters[0].grad.data).all()


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_squares_beyond_float64_do_not_lose_the_norm(size: float) -> None:
    parameters = with_gradients([3 * size], [4 * size])
    assert optim.clip_grad_norm_(parameters, math.inf) == pytest.approx(5 * size)


@pytest.mark.parametrize("bad", [math.inf, math.nan])
@pytest.mark.parametrize("norm_type", [2.0, math.inf, 1.0])
def test_a_norm_that_is_not_finite_is_returned_and_the_gradients_kept(
    bad: float, norm_type: float
) -> None:
    parameters = with_gradients([1.0, bad], [2.0])
    norm = optim.clip_grad_norm_(parameters, 1.0, norm_type=norm_type)
    assert not math.isfinite(norm)
    assert np.array_equal(all_gradients(parameters), [1.0, bad, 2.0], equal_nan=True)


def test_a_norm_that_is_not_finite_is_an_error_on_request_naming_the_parameter() -> None:
    parameters = with_gradients([1.0], [math.nan])
    parameters[1].name = "blocks.0.weight"
    with pytest.raises(FloatingPointError, match=r"nan.*blocks\.0\.weight"):
        optim.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)


def test_values_are_clamped_in_place() -> None:
    parameters = with_gradients([-5.0, 0.3], [[2.0]], dtype=np.float32)
    memory = parameters[0].grad.data
    optim.clip_grad_value_(parameters, 0.5)
    np.testing.assert_allclose(all_gradients(parameters), [-0.5, 0.3, 0.5])
    assert parameters[0].grad.data is memory
    assert parameters[0].grad.dtype == np.float32


def test_a_gradient_array_shared_by_two_parameters_is_scaled_once() -> None:
    shared = np.array([3.0, 4.0])
    parameters = with_gradients([0.0, 0.0], [0.0, 0.0])
    for p in parameters:
        p.grad = tg.Tensor(shared)
    optim.clip_grad_norm_(parameters, 1.0)
    for p in parameters:
        np.testing.assert_allclose(p.grad.data, np.array([3.0, 4.0]) / math.sqrt(50), rtol=1e-5)


def test_a_gradient_that_cannot_be_written_is_replaced() -> None:
    (p,) = with_gradients([0.0, 0.0])
    p.grad = tg.Tensor(np.broadcast_to(np.float64(3.0), (2,)))
    optim.clip_grad_norm_([p], 1.0)
    np.testing.assert_allclose(p.grad.data, np.sqrt([0.5, 0.5]), rtol=1e-5)


def test_clipping_after_a_real_backward_scales_each_gradient_once() -> None:
    a = tg.Tensor(np.array([1.0, 2.0]), requires_grad=True)
    b = tg.Tensor(np.array([3.0, 4.0]), requires_grad=True)
    total = a + b
    (total * 5.0).sum().backward()
    assert optim.clip_grad_norm_([a, b], 1.0) == pytest.approx(10.0)
    for p in (a, b):
        np.testing.assert_allclose(p.grad.data, [0.5, 0.5], rtol=1e-6)
    np.testing.assert_allclose(total.grad.data, [5.0, 5.0])  # what can be looked at stays true


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: optim.clip_grad_norm_(p, -1.0), r"max_norm=-1\.0"),
        (lambda p: optim.clip_grad_norm_(p, math.nan), "max_norm=nan"),
        (lambda p: optim.clip_grad_norm_(p, 1.0, norm_type=0.0), r"norm_type=0\.0"),
        (lambda p: optim.clip_grad_value_(p, -0.5), r"-0\.5"),
    ],
)
def test_bad_limits_are_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(with_gradients([1.0]))


@pytest.mark.oracle
@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.5, math.inf])
@pytest.mark.parametrize("max_norm", [0.1, 100.0])
def test_clipping_equals_torch(norm_type: float, max_norm: float) -> None:
    torch = pytest.importorskip("torch", reason="torch, the judge, is not installed")
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape) for shape in [(3,), (4, 5), ()]]
    parameters = with_gradients(*arrays)
    judged = [torch.nn.Parameter(torch.zeros(a.shape, dtype=torch.float64)) for a in arrays]
    for p, a in zip(judged, arrays, strict=True):
        p.grad = torch.tensor(a)
    wanted = torch.nn.utils.clip_grad_norm_(judged, max_norm, norm_type=norm_type)
    assert optim.clip_grad_norm_(parameters, max_norm, norm_type) == pytest.approx(float(wanted))
    for p, q in zip(parameters, judged, strict=True):
        np.testing.assert_allclose(p.grad.data, q.grad.numpy(), rtol=1e-12)
