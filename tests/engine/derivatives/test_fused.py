"""A kernel is its reference, gradients included, whatever shapes and options are drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinygrad_edu as tg
from tinygrad_edu.autograd.apply import apply
from tinygrad_edu.ops import registry
from tinygrad_edu.testing import strategies as own

Built = tuple[list[Any], dict[str, Any]]
DRAWS: dict[str, Callable[..., Built]] = {}


def draws(function: Callable[..., Built]) -> Callable[..., Built]:
    DRAWS[function.__name__] = function
    return function


sides = st.integers(1, 4)
flags = st.booleans()


def maybe(draw: Any, strategy: Any) -> Any:
    return draw(strategy) if draw(flags) else None


def leading(draw: Any) -> tuple[int, ...]:
    found: tuple[int, ...] = draw(own.shapes(max_dims=2, max_side=3))
    return found


@draws
def gelu(draw: Any, dtype: Any) -> Built:
    x = draw(own.values(leading(draw), (-6, 6), (0.0, -0.0), dtype))
    return [x], {"approximate": draw(st.sampled_from(["none", "tanh"]))}


@draws
def linear(draw: Any, dtype: Any) -> Built:
    lead, width, out = leading(draw), draw(st.integers(0, 4)), draw(st.integers(0, 4))
    inputs = [
        draw(own.values((*lead, width), (-2, 2), dtype=dtype)),
        draw(own.values((out, width), (-2, 2), dtype=dtype)),
        maybe(draw, own.values((out,), dtype=dtype)),
        maybe(draw, own.values((*lead, out), dtype=dtype)),
    ]
    kinds = [None, "relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid"]
    return inputs, {"activation": draw(st.sampled_from(kinds))}


@draws
def layer_norm(draw: Any, dtype: Any) -> Built:
    lead, width = leading(draw), draw(sides)
    # Spread out, so that 1/σ does not magnify rounding beyond telling.
    x = draw(own.values((*lead, width), (-0.25, 0.25), dtype=dtype))
    x = x + np.arange(width, dtype=dtype)
    affine = [maybe(draw, own.values((width,), dtype=dtype)) for _ in range(2)]
    return [x, *affine], {"eps": draw(st.sampled_from([1e-5, 1e-3]))}


@draws
def rms_norm(draw: Any, dtype: Any) -> Built:
    lead, width = leading(draw), draw(sides)
    x = draw(own.values((*lead, width), dtype=dtype))
    x[..., 0] = 1  # no row of zeros, where 1/rms magnifies rounding beyond telling
    return [x, maybe(draw, own.values((width,), dtype=dtype))], {"eps": 1e-5}


@draws
def rotary(draw: Any, dtype: Any) -> Built:
    lead, time, half = leading(draw), draw(st.integers(0, 4)), draw(st.integers(0, 3))
    x = draw(own.values((*lead, time, 2 * half), dtype=dtype))
    theta = draw(st.sampled_from([1e4, 50.0]))
    return [x], {"start": draw(st.integers(0, 99)), "theta": theta, "back": draw(flags)}


@draws
def cross_entropy(draw: Any, dtype: Any) -> Built:
    lead, symbols = leading(draw), draw(sides)
    ignore = draw(st.sampled_from([-100, 0, 1]))
    z = draw(own.values((*lead, symbols), dtype=dtype))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    targets = rng.integers(0, symbols, lead)
    targets = np.where(rng.random(lead) < 0.3, ignore, targets)
    how = "none" if not (targets != ignore).any() else draw(
        st.sampled_from(["mean", "sum", "none"])
    )  # fmt: skip
    return [z, targets], {"ignore_index": ignore, "reduction": how}


@draws
def attention(draw: Any, dtype: Any) -> Built:
    lead = draw(st.sampled_from([(), (2,), (2, 2)]))
    rows, columns, width, out = (draw(sides) for _ in range(4))
    q = draw(own.values((*lead, rows, width), (-2, 2), dtype=dtype))
    k = draw(own.values((*lead, columns, width), (-2, 2), dtype=dtype))
    v = draw(own.values((*lead, columns, out), (-2, 2), dtype=dtype))
    mask, keep = masks(draw, (rows, columns), (*lead, rows, columns), dtype)
    return [q, k, v, mask, keep], {"causal": draw(flags), "scale": draw(st.sampled_from([0.5, 1]))}


def masks(draw: Any, small: Any, full: Any, dtype: Any) -> list[Any]:
    """A mask (bool, with rows that may look nowhere, or added) and a dropout pattern, or None."""
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    mask = draw(st.sampled_from([
        None, rng.random(small) < 0.5, rng.random(full) < 0.7,
        rng.standard_normal(small).astype(dtype),
    ]))  # fmt: skip
    keep = ((rng.random(full) < 0.6) * 2).astype(dtype) if draw(flags) else None
    return [mask, keep]


@draws
def packed_attention(draw: Any, dtype: Any) -> Built:
    batch, time, heads, width = draw(st.integers(1, 2)), draw(sides), draw(sides), draw(sides)
    qkv = draw(own.values((batch, time, 3 * heads * width), (-2, 2), dtype=dtype))
    mask, keep = masks(draw, (time, time), (batch, heads, time, time), dtype)
    return [qkv, mask, keep], {"num_heads": heads, "causal": draw(flags), "scale": 0.5}


def _full(draw: Any) -> tuple[int, ...]:
    found: tuple[int, ...] = tuple(draw(st.lists(sides, min_size=1, max_size=3)))
    return found


@draws
def var(draw: Any, dtype: Any) -> Built:
    shape = _full(draw)
    axis = draw(st.sampled_from([None, (0,), (len(shape) - 1,)]))
    x = draw(own.values(shape, dtype=dtype))
    return [x], {"axis": axis, "keepdims": draw(flags), "ddof": 0}


@draws
def logsumexp(draw: Any, dtype: Any) -> Built:
    shape = _full(draw)
    axis = draw(st.sampled_from([(0,), (len(shape) - 1,), tuple(range(len(shape)))]))
    return [draw(own.values(shape, dtype=dtype))], {"axis": axis, "keepdims": draw(flags)}


@draws
def softmax(draw: Any, dtype: Any) -> Built:
    shape = _full(draw)
    axis = (draw(st.integers(0, len(shape) - 1)),)
    return [draw(own.values(shape, dtype=dtype))], {"axis": axis}


DRAWS["log_softmax"] = softmax


@draws
def cofactors(draw: Any, dtype: Any) -> Built:
    n = draw(st.integers(1, 3))
    x = draw(own.values((*leading(draw), n, n), (-0.25, 0.25), dtype=dtype))
    return [x + np.eye(n, dtype=dtype)], {}


def test_every_fused_primitive_is_drawn() -> None:
    assert set(DRAWS) == {name for name, p in registry.items() if p.reference is not None}


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("name", sorted(DRAWS))
@settings(max_examples=30, derandomize=True, deadline=None)
@given(st.data())
def test_kernel_is_reference(name: str, dtype: Any, data: Any) -> None:
    inputs, params = DRAWS[name](data.draw, dtype)
    primitive = registry[name]
    # The last input of an attention is a dropout pattern, which has no gradient.
    fixed = {len(inputs) - 1} if "attention" in name else set()

    def run() -> tuple[Any, list[Any]]:
        leaves = [
            tg.Tensor(x, requires_grad=True)
            if x is not None and x.dtype.kind == "f" and i not in fixed
            else x
            for i, x in enumerate(inputs)
        ]
        out = apply(primitive, *leaves, **params)
        rng = np.random.default_rng(0)
        out.backward(rng.choice([-2, -1, -0.5, 0.5, 1, 2], out.shape).astype(dtype))
        return out._data, [x.grad._data for x in leaves if isinstance(x, tg.Tensor)]

    value, gradients = run()
    with tg.unfused():
        reference, wanted = run()
    assert_near(value, reference)
    for found, want in zip(gradients, wanted, strict=True):
        assert_near(found, want)


def assert_near(found: Any, want: Any) -> None:
    """Equal to rounding, at the size of the whole array."""
    assert (found.shape, found.dtype) == (want.shape, want.dtype)
    size = np.maximum(np.abs(want).max(initial=0), np.abs(found).max(initial=0))
    # 1: what cancels inside is of the size of the inputs and of g, where the result is nearly 0.
    allowed = 256 * np.finfo(want.dtype).eps * max(size, 1)
    assert (np.abs(found - want) <= allowed).all()


def test_unfused_shows_the_steps_and_fused_does_not() -> None:
    x = tg.Tensor(np.ones((2, 3)), requires_grad=True)
    assert tg.softmax(x).op.name == "softmax"
    with tg.unfused():
        assert tg.softmax(x).op.name == "divide"
