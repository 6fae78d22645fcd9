"""Activations beyond relu, sigmoid, tanh and GELU, each one node with its own slope.

Each is a primitive because its obvious formula overflows or cancels somewhere: ln(1 + eᵃ) at large
a, 1 - σ(a) far out.
"""

from __future__ import annotations

from typing import Any

from tinygrad_edu.ops.registry import elementwise

Array = Any
_ANY = ((-4.0, 4.0),)


def _softplus(F: Any, a: Array, *, beta: float) -> Array:
    return F.logaddexp(a * beta, F.zeros_like(a)) / beta


softplus = elementwise(
    "softplus", "ln(1 + e^(β·a)) / β", forward=_softplus,
    partials=(lambda F, a, beta: F.sigmoid(a * beta),), domain=_ANY,
    kinks=("|a| large: a or 0, slope 1 or 0, no overflow", "a = 0: slope 1/2"),
)  # fmt: skip
log_sigmoid = elementwise(
    "log_sigmoid", "ln σ(a)", forward=lambda F, a: -F.logaddexp(-a, F.zeros_like(a)),
    partials=(lambda F, a: F.sigmoid(-a),), domain=_ANY,
    kinks=("|a| large: a or 0, slope 1 or 0, no overflow",),
)  # fmt: skip


_AT_INFINITY = ("a = inf: slope 1", "a = -inf: 0 with slope 0")


def _bounded(F: Any, a: Array) -> Array:
    """a, where its product with something that vanishes is not yet 0: never inf, so never NaN."""
    return F.clip(a, -1e4, 1e4)


def _silu_slope(F: Any, a: Array) -> Array:
    return F.sigmoid(a) * (1 + _bounded(F, a) * F.sigmoid(-a))


silu = elementwise(
    "silu", "a · σ(a)", forward=lambda F, a: F.maximum(a, -1e4) * F.sigmoid(a),
    partials=(_silu_slope,), domain=_ANY, kinks=_AT_INFINITY,
)  # fmt: skip


def _mish_slope(F: Any, a: Array) -> Array:
    t = F.tanh(F.softplus(a, beta=1.0))
    return t + _bounded(F, a) * F.sigmoid(a) * (1 - t * t)


mish = elementwise(
    "mish", "a · tanh(ln(1 + eᵃ))",
    forward=lambda F, a: F.maximum(a, -1e4) * F.tanh(_softplus(F, a, beta=1.0)),
    partials=(_mish_slope,), domain=_ANY, kinks=_AT_INFINITY,
)  # fmt: skip


def _elu(F: Any, a: Array, *, alpha: float) -> Array:
    return F.where(a > 0, a, alpha * F.expm1(F.minimum(a, F.zeros_like(a))))


def _elu_slope(F: Any, a: Array, alpha: float) -> Array:
    low = F.where(a > 0, F.zeros_like(a), a)
    return F.where(a > 0, F.ones_like(a), alpha * F.exp(low))


elu = elementwise(
    "elu", "a, or α(eᵃ - 1) where a <= 0", forward=_elu, partials=(_elu_slope,), domain=_ANY,
    kinks=("a = 0: slope α",),
)  # fmt: skip
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805  # Klambauer et al. 2017
selu = elementwise(
    "selu", "λ·a, or λα(eᵃ - 1) where a <= 0",
    forward=lambda F, a: _SELU_SCALE * _elu(F, a, alpha=_SELU_ALPHA),
    partials=(lambda F, a: _SELU_SCALE * _elu_slope(F, a, _SELU_ALPHA),), domain=_ANY,
    kinks=("a = 0: slope λα",),
)  # fmt: skip
leaky_relu = elementwise(
    "leaky_relu", "a, or slope·a where a <= 0",
    forward=lambda F, a, *, slope: F.where(a > 0, a, a * slope),
    partials=(lambda F, a, slope: F.where(a > 0, F.ones_like(a), F.full_like(a, slope)),),
    domain=_ANY, kinks=("a = 0: the slope below 0",),
)  # fmt: skip
softsign = elementwise(
    "softsign", "a / (1 + |a|)", forward=lambda F, a: a / (1 + F.absolute(a)),
    partials=(lambda F, a: 1 / F.square(1 + F.absolute(a)),), domain=_ANY,
    kinks=("a = 0: slope 1; the second derivative, which jumps there, is 0",),
)  # fmt: skip
