"""Half precision at ordinary values: what is summed is summed in float32."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import optim


def half(x: Any) -> Any:
    return tg.Tensor(np.asarray(x, np.float16), requires_grad=True)


@pytest.mark.parametrize(
    "row", [[20.0, -20.0] * 128, [99.5, 100.5] * 384, [0.0] * 8, list(np.linspace(-1e-3, 1e-3, 8))]
)
def test_layer_norm(row: list[float]) -> None:
    x = half([row])
    wide = tg.Tensor(x.data.astype(np.float64), requires_grad=True)
    g = np.where(np.arange(len(row)) % 3, 1.0, -2.0)[None]
    out, want = tg.layer_norm(x), tg.layer_norm(wide)
    out.backward(g.astype(np.float16))
    want.backward(g)
    assert out.dtype == np.float16 and x.grad is not None and wide.grad is not None
    np.testing.assert_allclose(out.data.astype(float), want.data, rtol=2e-3, atol=2e-3)
    size = np.abs(wide.grad.data).max()
    np.testing.assert_allclose(
        x.grad.data.astype(float), wide.grad.data, rtol=4e-3, atol=4e-3 * size
    )


def test_rms_norm_of_what_has_a_square_beyond_half_precision() -> None:
    x = half([[400.0, -300.0, 1.0]])
    wide = tg.Tensor(x.data.astype(np.float64), requires_grad=True)
    g = np.array([[1.0, -2.0, 1.0]])
    out, want = tg.rms_norm(x), tg.rms_norm(wide)
    out.backward(g.astype(np.float16))
    want.backward(g)
    assert out.dtype == np.float16 and x.grad is not None and wide.grad is not None
    np.testing.assert_allclose(out.data.astype(float), want.data, rtol=1e-3)
    np.testing.assert_allclose(x.grad.data.astype(float), wide.grad.data, rtol=2e-3, atol=1e-6)


@pytest.mark.parametrize("x", [300.0, -300.0, 1e4, 65504.0, -65504.0])
def test_gelu_by_tanh_far_out(x: float) -> None:
    a = half([x])
    tg.gelu(a, "tanh").sum().backward()
    assert a.grad is not None
    assert a.grad.tolist() == [1.0 if x > 0 else 0.0]
    assert tg.gelu(a, "tanh").tolist() == [max(x, 0)]


@pytest.mark.parametrize("kind", ["none", "tanh"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_gelu_of_huge_numbers_is_silent(kind: str, dtype: Any) -> None:
    big = float(np.finfo(dtype).max)
    found = tg.gelu(tg.Tensor(np.array([big, -big], dtype)), kind)
    assert found.tolist() == [big, 0]


def test_cross_entropy_of_many() -> None:
    z = half(np.zeros((20_000, 10)))
    loss = tg.cross_entropy(z, np.zeros(20_000, int))
    assert loss.dtype == np.float16
    assert loss.item() == pytest.approx(math.log(10), rel=1e-3)


def test_norms_of_many_gradients() -> None:
    p = half(np.zeros(100_000))
    p.grad = tg.Tensor(np.ones(100_000, np.float16))
    assert optim.clip_grad_norm_([p], 1.0) == pytest.approx(math.sqrt(1e5), rel=1e-6)
    assert np.linalg.norm(p.grad.data.astype(float)) == pytest.approx(1, rel=1e-2)


def test_a_rate_too_small_for_the_dtype_does_not_hide_a_nan() -> None:
    for lr in (0.0, 1e-46):
        p = tg.tensor(np.ones(3, np.float32), requires_grad=True)
        p.grad = tg.tensor(np.full(3, np.nan, np.float32))
        optim.SGD([p], lr=lr).step()
        assert np.isnan(p.data).all()


def test_a_state_that_lacks_an_average_is_refused() -> None:
    p = tg.tensor(np.ones(3), requires_grad=True)
    optimizer = optim.AdamW([p], lr=0.1)
    saved = optimizer.state_dict()
    saved["state"] = {0: {"step": 3, "exp_avg": np.ones(3)}}
    with pytest.raises(ValueError, match="lacks exp_avg_sq of parameter 0; it has step, exp_avg"):
        optimizer.load_state_dict(saved)
    assert not optimizer.state
