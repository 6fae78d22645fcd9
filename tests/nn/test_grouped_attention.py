"""RMSNorm, SwiGLU, grouped heads and the cache of keys and values, against slow definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import nn


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def test_rms_norm_has_mean_square_one_and_keeps_the_level() -> None:
    x = draw(5, 8) * 3 + 2
    y = nn.RMSNorm(8, eps=0.0, dtype=np.float64)(tg.tensor(x)).data
    np.testing.assert_allclose((y**2).mean(-1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(y / y[:, :1], x / x[:, :1], rtol=1e-13)


def test_rms_norm_of_3_and_4_by_hand() -> None:
    norm = nn.RMSNorm(2, eps=0.0, dtype=np.float64)
    norm.weight.data[:] = [1.0, 10.0]
    root = 12.5**0.5
    np.testing.assert_allclose(norm(tg.tensor([3.0, 4.0])).data, [3 / root, 40 / root], rtol=1e-6)
    with pytest.raises(tg.errors.ShapeError, match=r"RMSNorm was given shape \(3,\)"):
        norm(tg.ones(3))


def test_swiglu_is_its_formula() -> None:
    mlp = nn.SwiGLU(4, 6).to(np.float64)
    x = draw(3, 4)
    gate, up = x @ mlp.gate.weight.data.T, x @ mlp.up.weight.data.T
    wanted = (gate / (1 + np.exp(-gate)) * up) @ mlp.down.weight.data.T
    np.testing.assert_allclose(mlp(tg.tensor(x)).data, wanted, rtol=1e-12)


@pytest.mark.parametrize("far", [-np.inf, -1e30, -1e4, 1e4, 1e30, np.inf])
def test_a_fused_silu_is_finite_where_silu_is(far: float) -> None:
    for dtype in (np.float32, np.float64):
        bias = tg.tensor(np.array([far], dtype), requires_grad=True)
        zero = np.zeros((1, 1), dtype)
        out = tg.linear(zero, zero, bias, activation="silu")
        out.backward(np.ones((1, 1), dtype))
        assert out.data == (far if far > 0 else 0)
        assert bias.grad is not None and bias.grad.data == (1 if far > 0 else 0)


def test_a_fused_silu_keeps_its_digits_in_both_tails() -> None:
    x = np.array([-80.0, -20.0, -1e-3, 0.0, 1e-3, 20.0, 80.0])
    narrow = tg.tensor(x.astype(np.float32)[:, None], requires_grad=True)
    out = tg.linear(narrow, np.ones((1, 1), np.float32), activation="silu")
    out.sum().backward()
    sigmoid = 1 / (1 + np.exp(-x))
    slope = sigmoid * (1 + x * (1 / (1 + np.exp(x))))
    np.testing.assert_allclose(out.data[:, 0], x * sigmoid, rtol=1e-6)
    assert narrow.grad is not None
    np.testing.assert_allclose(narrow.grad.data[:, 0], slope, rtol=1e-6)


def slow_attention(module: Any, x: np.ndarray) -> np.ndarray:
    """Head by head and position by position."""
    heads, shared = module.num_heads, module.num_kv_heads
    width = module.embed_dim // heads
    projected = [x @ p.weight.data.T for p in (module.q_proj, module.k_proj, module.v_proj)]
    out = np.zeros_like(x)
    for b in range(len(x)):
        for h in range(heads):
            group = h // (heads // shared)
            at = [slice(n * width, (n + 1) * width) for n in (h, group, group)]
            q, k, v = (part[b][:, s] for part, s in zip(projected, at, strict=True))
            q, k = tg.rotary(q, theta=module.theta).data, tg.rotary(k, theta=module.theta).data
            for t in range(x.shape[1]):
                scores = np.exp(k[: t + 1] @ q[t] / width**0.5)
                out[b, t, at[0]] = scores / scores.sum() @ v[: t + 1]
    return out @ module.out_proj.weight.data.T


@pytest.mark.parametrize("shared", [1, 2, 4])
def test_heads_of_a_group_look_at_the_same_keys(shared: int) -> None:
    module = nn.GroupedQueryAttention(16, 4, shared, theta=50.0).to(np.float64)
    x = draw(2, 5, 16)
    np.testing.assert_allclose(module(tg.tensor(x)).data, slow_attention(module, x), rtol=1e-10)
    assert module.k_proj.weight.shape == module.v_proj.weight.shape == (4 * shared, 16)


def test_as_many_shared_heads_without_positions_is_multi_head_attention() -> None:
    grouped = nn.GroupedQueryAttention(8, 2, rotary=False).to(np.float64)
    packed = nn.MultiHeadAttention(8, 2, bias=False).to(np.float64)
    parts = [grouped.q_proj, grouped.k_proj, grouped.v_proj]
    packed.qkv.weight.data = np.concatenate([p.weight.data for p in parts])
    packed.out_proj.weight.data = grouped.out_proj.weight.data
    x = tg.tensor(draw(2, 5, 8))
    np.testing.assert_allclose(grouped(x).data, packed(x).data, rtol=1e-12)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((10, 4), "embed_dim=10, num_heads=4 and num_kv_heads=4, expected each to be a multiple"),
        ((8, 4, 3), "num_heads=4 and num_kv_heads=3"),
        ((9, 3), "heads of width 3, expected an even one"),
        ((8, 2, 2, 1.0), "dropout=1.0, expected a probability below 1"),
    ],
)
def test_heads_that_do_not_fit_are_refused(sizes: tuple[Any, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        nn.GroupedQueryAttention(*sizes)


ATTENTIONS = {
    "multi-head": lambda: nn.MultiHeadAttention(8, 4),
    "grouped": lambda: nn.GroupedQueryAttention(8, 4, 2),
    "a block": lambda: nn.TransformerBlock(8, 2),
    "a llama's block": lambda: nn.LlamaBlock(8, 4, 1, 12),
}


@pytest.mark.parametrize("name", ATTENTIONS)
@pytest.mark.parametrize("pieces", [(6,), (1, 1, 1, 1, 1, 1), (4, 2), (2, 3, 1)])
def test_a_text_in_pieces_has_the_outputs_of_the_whole(name: str, pieces: tuple[int, ...]) -> None:
    module = ATTENTIONS[name]().to(np.float64).eval()
    x = tg.tensor(draw(3, 6, 8))
    cache, found, start = nn.KeyValueCache(6), [], 0
    with tg.no_grad():
        whole = module(x).data
        for length in pieces:
            found.append(module(x[:, start : start + length], cache=cache).data)
            start += length
    np.testing.assert_allclose(np.concatenate(found, axis=1), whole, rtol=1e-11, atol=1e-14)


def test_a_cache_allocates_once_and_forgets_what_is_cut_off() -> None:
    cache = nn.KeyValueCache(4)
    with tg.no_grad():
        first, _ = cache.extend(tg.ones(2, 3, 5), tg.ones(2, 3, 7))
        cache.truncate(2)
        keys, values = cache.extend(tg.zeros(2, 2, 5), tg.zeros(2, 2, 7))
    assert np.shares_memory(first.data, keys.data)
    assert (cache.length, keys.shape, values.shape) == (4, (2, 4, 5), (2, 4, 7))
    assert keys.data[0, :, 0].tolist() == [1, 1, 0, 0]
    cache.truncate(9)
    assert cache.length == 4


def test_a_cache_that_is_full_or_where_gradients_are_wanted_says_so() -> None:
    cache = nn.KeyValueCache(2)
    with pytest.raises(RuntimeError, match=r"call the model within tg.no_grad\(\)"):
        cache.extend(tg.ones(1, 2), tg.ones(1, 2))
    with tg.no_grad(), pytest.raises(tg.errors.ShapeError, match="2 tokens was given token 3"):
        cache.extend(tg.ones(3, 2), tg.ones(3, 2))
    assert cache.length == 0
