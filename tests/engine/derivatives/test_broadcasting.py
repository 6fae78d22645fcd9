"""Implicit broadcasting is explicit broadcasting, gradients included, empty and 0-d arrays too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine.derivatives.cases import CASES
from hypothesis import given, settings
from hypothesis import strategies as st

import tinygrad_edu as tg
from tinygrad_edu.autograd.apply import apply
from tinygrad_edu.ops import registry
from tinygrad_edu.testing import strategies as own
from tinygrad_edu.testing.ledger import Ledger

few = settings(max_examples=15, derandomize=True, deadline=None)

# These broadcast some axes only (packed attention those of its mask, solve those of stacks, set_at
# its value to what is read), and have tests of their own.
SOME_AXES = ("attention", "matmul", "packed_attention", "set_at", "solve")
NAMES = sorted(n for n, p in registry.items() if p.broadcasts and n not in SOME_AXES)


def summed(g: Any, shape: tuple[int, ...]) -> Any:
    """`g` summed over what broadcasting from `shape` added."""
    lead = g.ndim - len(shape)
    stretched = [i + lead for i, n in enumerate(shape) if n == 1 and g.shape[i + lead] != 1]
    return g.sum(axis=(*range(lead), *stretched)).reshape(shape)


def assert_same(found: Any, parts: Any, shape: tuple[int, ...]) -> None:
    want, size = summed(parts, shape), summed(np.abs(parts), shape)
    assert found.shape == shape
    assert (np.abs(found - want) <= 4 * np.finfo(float).eps * size).all()


@pytest.mark.parametrize("name", NAMES)
@few
@given(st.data())
def test_implicit_is_explicit(name: str, ledger: Ledger, data: Any) -> None:
    primitive = registry[name]
    ledger.record(name, "P14")
    shapes = data.draw(own.broadcastable(len(primitive.inputs)))
    full = np.broadcast_shapes(*shapes)
    inputs = [
        data.draw(own.values(shape, domain))
        for shape, domain in zip(shapes, primitive.domain, strict=True)
    ]
    if name == "where":
        inputs[0] = inputs[0] > 0
    g = data.draw(own.cotangents(full))
    moving = [i for i, x in enumerate(inputs) if x.dtype.kind == "f"]

    def gradients(arrays: list[Any]) -> list[Any]:
        leaves = [tg.Tensor(x, requires_grad=x.dtype.kind == "f") for x in arrays]
        out = apply(primitive, *leaves, **CASES[name][0].params)
        assert out.shape == full
        out.backward(g)
        return [leaves[i].grad for i in moving]

    implicit = gradients(inputs)
    explicit = gradients([np.broadcast_to(x, full) for x in inputs])
    for i, found, parts in zip(moving, implicit, explicit, strict=True):
        assert_same(found._data, parts._data, shapes[i])


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.data())
def test_matmul_of_any_ranks_is_einsum_over_explicit_stacks(data: Any) -> None:
    a_shape, b_shape = data.draw(own.matmul_shapes())
    a, b = (data.draw(own.values(shape)) for shape in (a_shape, b_shape))
    want = np.matmul(a, b)
    g = data.draw(own.cotangents(want.shape))
    x, y = (tg.Tensor(v, requires_grad=True) for v in (a, b))
    out = x @ y
    assert out.shape == want.shape
    out.backward(g)
    # The same product with every vector a matrix and every stack written out.
    wide_a = a[None, :] if a.ndim == 1 else a
    wide_b = b[:, None] if b.ndim == 1 else b
    wide_g = g[..., None, :] if a.ndim == 1 and b.ndim > 1 else g
    wide_g = wide_g[..., None] if b.ndim == 1 and a.ndim > 1 else wide_g
    wide_g = np.reshape(wide_g, (1, 1)) if a.ndim == b.ndim == 1 else wide_g
    lead = np.broadcast_shapes(wide_a.shape[:-2], wide_b.shape[:-2])
    full_a = np.broadcast_to(wide_a, (*lead, *wide_a.shape[-2:]))
    full_b = np.broadcast_to(wide_b, (*lead, *wide_b.shape[-2:]))
    for leaf, wide, spec, pair in (
        (x, wide_a, "...ik,...jk->...ij", (wide_g, full_b)),
        (y, wide_b, "...ki,...kj->...ij", (full_a, wide_g)),
    ):
        assert leaf.grad is not None
        value, size = (np.einsum(spec, *p) for p in (pair, [np.abs(q) for q in pair]))
        want = summed(value, wide.shape).reshape(leaf.shape)
        allowed = summed(size, wide.shape).reshape(leaf.shape)
        assert leaf.grad.shape == leaf.shape
        assert (np.abs(leaf.grad._data - want) <= 16 * np.finfo(float).eps * allowed).all()


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.data())
def test_reductions_take_numpys_axes(data: Any) -> None:
    name = data.draw(st.sampled_from(["sum", "mean", "var", "max", "min"]))
    shape = data.draw(own.shapes(max_dims=3, max_side=3).filter(lambda s: 0 not in s))
    x = data.draw(own.values(shape))
    axis, keepdims = data.draw(own.axes(len(shape))), data.draw(st.booleans())
    want = getattr(np, name)(x, axis=axis, keepdims=keepdims)
    leaf = tg.Tensor(x, requires_grad=True)
    out = getattr(tg, name)(leaf, axis, keepdims)
    assert out.shape == want.shape
    np.testing.assert_allclose(out._data, want, rtol=1e-13, atol=1e-14)
    out.backward(np.ones(out.shape))
    assert leaf.grad is not None and leaf.grad.shape == shape
    if name in ("sum", "max", "min"):
        # Each result hands out what it gets: 1, whole or shared.
        count = x.size if name == "sum" else want.size
        assert leaf.grad._data.sum() == pytest.approx(count, rel=1e-13)


def test_the_mask_of_packed_attention_gets_the_sum_over_what_it_was_broadcast_to() -> None:
    draw = np.random.default_rng(0)
    qkv = draw.standard_normal((2, 3, 12))
    upstream = draw.standard_normal((2, 3, 4))

    def gradient_of(mask: Any) -> Any:
        given = tg.tensor(mask, requires_grad=True)
        tg.packed_attention(qkv, 2, causal=False, mask=given).backward(upstream)
        assert given.grad is not None
        return given.grad.data

    mask = draw.standard_normal((3, 3))
    wide = gradient_of(np.broadcast_to(mask, (2, 2, 3, 3)))
    np.testing.assert_allclose(gradient_of(mask), wide.sum(axis=(0, 1)), rtol=1e-12)
