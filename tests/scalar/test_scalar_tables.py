"""`Value` carries its own numbers for speed; here they are held to the tables of `ops`.

The tensor engine computes by those tables, so it is the other side of every comparison: one
operation of `Value` against the primitive of that name, and whole primitives run on arrays of
Values against the same on a tensor, gradients included, at smooth points.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu.scalar import Value
from tinygrad_edu.scalar.arrays import F, data, grad, values

RNG = np.random.default_rng(0)

# The operation on Values, the primitive as a public function, and where to compare them.
POINTS = (-2.5, -1.0, -0.3, 0.4, 1.0, 3.0)
POSITIVE = (0.2, 1.0, 3.0)
UNARY: dict[str, tuple[Callable[[Any], Any], tuple[float, ...]]] = {
    "negative": (lambda a: -a, POINTS),
    "exp": (Value.exp, POINTS),
    "expm1": (Value.expm1, POINTS),
    "log": (Value.log, POSITIVE),
    "log1p": (Value.log1p, POSITIVE),
    "sqrt": (Value.sqrt, POSITIVE),
    "tanh": (Value.tanh, POINTS),
    "sigmoid": (Value.sigmoid, POINTS),
    "sin": (Value.sin, POINTS),
    "cos": (Value.cos, POINTS),
    "relu": (Value.relu, (*POINTS, 0.0)),
    "abs": (Value.abs, (*POINTS, 0.0)),
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "power": lambda a, b: a**b,
    "maximum": Value.maximum,
    "minimum": Value.minimum,
}


def tensor(x: Any) -> Any:
    return tg.tensor(np.asarray(x, dtype=np.float64), requires_grad=True)


def agree(ours: Value, leaves: list[Value], theirs: Any, tensors: list[Any]) -> None:
    ours.backward()
    theirs.backward()
    assert ours.data == pytest.approx(theirs.item(), rel=1e-13, abs=1e-15)
    for leaf, other in zip(leaves, tensors, strict=True):
        assert leaf.grad == pytest.approx(other.grad.item(), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("name", UNARY)
def test_a_unary_operation_follows_its_table_entry(name: str) -> None:
    operation, points = UNARY[name]
    for x in points:
        leaf, other = Value(x), tensor(x)
        agree(operation(leaf), [leaf], getattr(tg, name)(other), [other])


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("x, y", [(2.0, 3.0), (0.5, -1.5), (1.5, 1.5), (0.0, 2.0), (3.0, 0.1)])
def test_a_binary_operation_follows_its_table_entry(name: str, x: float, y: float) -> None:
    leaves, others = [Value(x), Value(y)], [tensor(x), tensor(y)]
    agree(BINARY[name](*leaves), leaves, getattr(tg, name)(*others), others)


@pytest.mark.parametrize("exponent", [-1.5, 0, 0.5, 1, 2, 3])
@pytest.mark.parametrize("x", POSITIVE)
def test_a_constant_power_follows_its_table_entry(x: float, exponent: float) -> None:
    leaf, other = Value(x), tensor(x)
    agree(leaf**exponent, [leaf], other**exponent, [other])


@pytest.mark.parametrize("x", [-2.0, -1.0, 0.5, 2.0, 3.0])
def test_clip_follows_its_table_entry(x: float) -> None:
    leaf, other = Value(x), tensor(x)
    agree(leaf.clip(-1, 2), [leaf], tg.clip(other, -1, 2), [other])


def test_zero_to_the_zero_is_the_same_choice_in_both_engines() -> None:
    leaves, others = [Value(0.0), Value(0.0)], [tensor(0.0), tensor(0.0)]
    agree(leaves[0] ** leaves[1], leaves, others[0] ** others[1], others)


A, B = RNG.normal(size=(2, 3)), RNG.normal(size=(2, 3))
Q, K, V = (RNG.normal(size=(2, 3, 4)) for _ in range(3))
W, BIAS, R = RNG.normal(size=(5, 3)), RNG.normal(size=5), RNG.normal(size=(2, 5))
MASK = np.array([[True, False, True], [True, True, False], [False, True, True]])
IDS = np.array([[0, 2], [1, 2]])
TARGETS = np.array([2, -100])
CE: dict[str, Any] = {"ignore_index": -100, "reduction": "mean"}
HEAD: dict[str, Any] = {"num_heads": 2, "causal": True, "scale": 1 / math.sqrt(2)}

# what arrays of Values compute, what tensors compute, on which arrays
WHOLE: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {
    "softmax": (lambda a: F.softmax(a, axis=-1), lambda a: tg.softmax(a, axis=-1), (A,)),
    "log_softmax": (
        lambda a: F.log_softmax(a, axis=-1), lambda a: tg.log_softmax(a, axis=-1), (A,)
    ),
    "logsumexp": (
        lambda a: F.logsumexp(a, axis=(1,), keepdims=False), lambda a: tg.logsumexp(a, axis=1), (A,)
    ),
    "var": (lambda a: F.var(a, axis=1), lambda a: tg.var(a, axis=1), (A,)),
    "max": (lambda a: F.max(a, axis=0), lambda a: tg.max(a, axis=0), (A,)),
    "gelu": (lambda a: F.gelu(a, approximate="none"), tg.gelu, (A,)),
    "gelu, by tanh": (
        lambda a: F.gelu(a, approximate="tanh"), lambda a: tg.gelu(a, approximate="tanh"), (A,)
    ),
    "where": (lambda a, b: F.where(A > 0, a, b), lambda a, b: tg.where(A > 0, a, b), (A, B)),
    "matmul": (lambda a, b: F.matmul(a, b.T), lambda a, b: tg.matmul(a, b.T), (A, B)),
    "einsum": (
        lambda a, b: F.einsum("ij,kj->ik", a, b), lambda a, b: tg.matmul(a, b.T), (A, B)
    ),
    "getitem": (
        lambda a: F.getitem(a, index=([0, 0, 1], [1, 1, 2])),
        lambda a: a[[0, 0, 1], [1, 1, 2]],
        (A,),
    ),
    "concatenate": (
        lambda a, b: F.concatenate([a, b], axis=1), lambda a, b: tg.concatenate([a, b], axis=1),
        (A, B),
    ),
    "layer_norm": (
        lambda x, w, b: F.layer_norm(x, w, b, eps=1e-5), lambda x, w, b: tg.layer_norm(x, w, b),
        (A, B[0], B[1]),
    ),
    "rms_norm": (
        lambda x, w: F.rms_norm(x, w, eps=1e-5), lambda x, w: tg.rms_norm(x, w), (A, B[0])
    ),
    "rotary": (
        lambda x: F.rotary(x, start=2, theta=100.0, back=False),
        lambda x: tg.rotary(x, start=2, theta=100.0), (Q,),
    ),
    "linear": (
        lambda x, w, b, r: F.linear(x, w, b, r, activation="gelu"),
        lambda x, w, b, r: tg.linear(x, w, b, activation="gelu", residual=r),
        (A, W, BIAS, R),
    ),
    "embedding": (
        lambda w: F.embedding(IDS, w, padding_idx=None), lambda w: tg.embedding(IDS, w), (W,)
    ),
    "cross_entropy": (
        lambda z: F.cross_entropy(z, TARGETS, **CE), lambda z: tg.cross_entropy(z, TARGETS), (A,)
    ),
    "attention, causal": (
        lambda q, k, v: F.attention(q, k, v, None, None, causal=True, scale=0.5),
        lambda q, k, v: tg.attention(q, k, v, causal=True, scale=0.5),
        (Q, K, V),
    ),
    "attention, masked": (
        lambda q, k, v: F.attention(q, k, v, MASK, None, causal=False, scale=0.5),
        lambda q, k, v: tg.attention(q, k, v, mask=MASK, scale=0.5),
        (Q, K, V),
    ),
    "packed_attention": (
        lambda x: F.packed_attention(x, None, None, **HEAD),
        lambda x: tg.packed_attention(x, 2, causal=True),
        (np.concatenate([Q, K, V], axis=-1),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_a_primitive_on_arrays_of_values_agrees_with_tensors(name: str) -> None:
    on_values, on_tensors, arrays = WHOLE[name]
    leaves, tensors = [values(a) for a in arrays], [tensor(a) for a in arrays]
    out, expected = on_values(*leaves), on_tensors(*tensors)
    np.testing.assert_allclose(data(out), expected.detach().numpy(), rtol=1e-12, atol=1e-14)
    weights = np.cos(np.arange(np.size(data(out)))).reshape(np.shape(data(out)))
    F.sum(F.multiply(out, weights)).item().backward()
    (expected * tg.tensor(weights)).sum().backward()
    for leaf, other in zip(leaves, tensors, strict=True):
        np.testing.assert_allclose(grad(leaf), other.grad.numpy(), rtol=1e-10, atol=1e-13)
