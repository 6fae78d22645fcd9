"""Elementwise primitives: each line a formula and its local derivatives."""

from __future__ import annotations

import math
from typing import Any

from tinygrad_edu.ops.registry import elementwise, joint, linear

_INF = math.inf
_ANY = (-4.0, 4.0)
_POSITIVE = (0.1, 4.0)

add = elementwise(
    "add", "a + b", forward=lambda F, a, b: F.add(a, b), partials=(1, 1),
    analytic=True, degree=1, domain=(_ANY, _ANY),
)
subtract = elementwise(
    "subtract", "a - b", forward=lambda F, a, b: F.subtract(a, b), partials=(1, -1),
    analytic=True, degree=1, domain=(_ANY, _ANY),
)
multiply = elementwise(
    "multiply", "a · b", forward=lambda F, a, b: F.multiply(a, b),
    partials=(lambda b: b, lambda a: a),
    analytic=True, degree=1, domain=(_ANY, _ANY),
)
divide = elementwise(
    "divide", "a / b", forward=lambda F, a, b: F.divide(a, b),
    partials=(lambda b: 1 / b, lambda b, out: -out / b),
    analytic=True, domain=(_ANY, (0.5, 4.0)),
    kinks=("b = 0: the gradient is inf or NaN as the quotient is, and 0 where nothing arrives",),
)
negative = elementwise(
    "negative", "-a", forward=lambda F, a: F.negative(a), partials=(-1,),
    analytic=True, degree=1, domain=(_ANY,),
)
power = elementwise(
    "power", "a ** b", forward=lambda F, a, b: F.power(a, b),
    partials=(
        lambda F, a, b: F.where(
            b == 0,
            F.zeros_like(a + b),
            b * F.power(a, F.where(b == 0, F.ones_like(b), b - 1)),
        ),
        lambda F, a, out: F.where(
            a == 0, F.zeros_like(out), out * F.log(F.where(a == 0, F.ones_like(a), a))
        ),
    ),
    analytic=True, domain=(_POSITIVE, (-2.0, 2.0)),
    kinks=(
        "0 ** 0 is 1 with gradient 0 to both",
        "b = 0: the gradient to a is 0",
        "a = 0: the gradient to b is 0",
        "a < 0: the gradient to b is NaN (ln a), the gradient to a is b·a**(b-1)",
    ),
)


def _power_constant(F: Any, a: Any, *, exponent: Any) -> Any:
    return F.multiply(a, a) if exponent == 2 else F.power(a, exponent)


def _power_constant_partial(F: Any, a: Any, exponent: Any) -> Any:
    if exponent == 0:
        return F.zeros_like(a)
    if exponent == 1:
        return F.ones_like(a)
    return a * 2 if exponent == 2 else exponent * F.power(a, exponent - 1)


power_constant = elementwise(
    "power_constant", "a ** n", forward=_power_constant, partials=(_power_constant_partial,),
    analytic=True, domain=(_POSITIVE,),
    kinks=("n = 0: 1 with gradient 0, also at a = 0", "a = 0 and n < 1: the slope is inf"),
)
exp = elementwise(
    "exp", "eᵃ", forward=lambda F, a: F.exp(a), partials=(lambda out: out,),
    analytic=True, domain=(_ANY,),
)
log = elementwise(
    "log", "ln a", forward=lambda F, a: F.log(a), partials=(lambda a: 1 / a,),
    analytic=True, domain=(_POSITIVE,), kinks=("a = 0: -inf, with slope inf",),
)
log1p = elementwise(
    "log1p", "ln(1 + a)", forward=lambda F, a: F.log1p(a), partials=(lambda a: 1 / (1 + a),),
    analytic=True, domain=((-0.7, 4.0),), kinks=("a = -1: -inf, with slope inf",),
)
expm1 = elementwise(
    "expm1", "eᵃ - 1", forward=lambda F, a: F.expm1(a), partials=(lambda F, a: F.exp(a),),
    analytic=True, domain=(_ANY,),
)
sqrt = elementwise(
    "sqrt", "√a", forward=lambda F, a: F.sqrt(a), partials=(lambda out: 0.5 / out,),
    analytic=True, domain=(_POSITIVE,), kinks=("a = 0: 0, with slope inf",),
)
tanh = elementwise(
    "tanh", "tanh a", forward=lambda F, a: F.tanh(a), partials=(lambda out: 1 - out * out,),
    analytic=True, domain=(_ANY,),
)
sin = elementwise(
    "sin", "sin a", forward=lambda F, a: F.sin(a), partials=(lambda F, a: F.cos(a),),
    analytic=True, domain=(_ANY,),
)
cos = elementwise(
    "cos", "cos a", forward=lambda F, a: F.cos(a), partials=(lambda F, a: -F.sin(a),),
    analytic=True, domain=(_ANY,),
)


def _sigmoid(F: Any, a: Any) -> Any:
    e = F.exp(F.minimum(a, -a))  # never overflows, and keeps its digits where it is small
    return F.where(a >= 0, F.ones_like(e), e) / (1 + e)


sigmoid = elementwise(
    "sigmoid", "1 / (1 + e⁻ᵃ)", forward=_sigmoid,
    partials=(lambda F, a, out: out * F.sigmoid(-a),),  # 1 - out would have lost its digits
    analytic=True, domain=(_ANY,), kinks=("|a| large: 0 or 1 with gradient 0, no overflow",),
)
relu = elementwise(
    "relu", "max(0, a)", forward=lambda F, a: F.maximum(a, F.zeros_like(a)),
    partials=(lambda F, a: F.logical_not(a <= 0),), domain=(_ANY,), kinks=("a = 0: gradient 0",),
)
absolute = elementwise(
    "abs", "|a|", forward=lambda F, a: F.absolute(a), partials=(lambda F, a: F.sign(a),),
    domain=(_ANY,), kinks=("a = 0: gradient 0",),
)
sign = elementwise(
    "sign", "sign a", forward=lambda F, a: F.sign(a), partials=(None,),
    domain=(_ANY,), kinks=("everywhere: gradient 0",),
)


def _wins(F: Any, a: Any, b: Any) -> Any:
    """1 where a > b, 1/2 where they tie, 0 where a < b."""
    return F.where(F.equal(a, b), F.full_like(a - b, 0.5), 0.5 * (F.sign(a - b) + 1))


maximum = elementwise(
    "maximum", "max(a, b)", forward=lambda F, a, b: F.maximum(a, b),
    partials=(lambda F, a, b: _wins(F, a, b), lambda F, a, b: _wins(F, b, a)),
    domain=(_ANY, _ANY), kinks=("a = b: each gets half",),
)
minimum = elementwise(
    "minimum", "min(a, b)", forward=lambda F, a, b: F.minimum(a, b),
    partials=(lambda F, a, b: _wins(F, b, a), lambda F, a, b: _wins(F, a, b)),
    domain=(_ANY, _ANY), kinks=("a = b: each gets half",),
)


def _inside(F: Any, a: Any, low: Any, high: Any) -> Any:
    a = F.constant(a)  # a mask is no number: nothing flows through it
    inside = a == a
    if low is not None:
        inside = inside & (a >= low)
    return inside if high is None else inside & (a <= high)


clip = elementwise(
    "clip", "a between low and high", forward=lambda F, a, *, low, high: F.clip(a, low, high),
    partials=(_inside,), domain=(_ANY,), kinks=("a on a bound: gradient 1",),
)
where = linear(
    "where", "a where c, else b", forward=lambda F, c, a, b: F.where(c, a, b),
    transposes=(
        None,
        lambda F, g, c: F.where(c, g, F.zeros_like(g)),
        lambda F, g, c: F.where(c, F.zeros_like(g), g),
    ),
    broadcasts=True, analytic=True, degree=1, domain=(_ANY, _ANY, _ANY),
    kinks=("the branch not taken gets 0, never NaN",),
)
absorb = linear(
    "absorb", "g · d, 0 where g = 0", forward=lambda F, g0, d: F.absorb(g0, d),
    transposes=(lambda F, g, d: F.absorb(g, d), lambda F, g, g0: F.absorb(g, g0)),
    jointly=False, broadcasts=True, domain=(_ANY, _ANY),
)
cast = linear(
    "cast", "a in another dtype", forward=lambda F, a, *, dtype: a.astype(dtype),
    transposes=(lambda g: g,), domain=(_ANY,),
)
copy = elementwise(
    "copy", "a, in memory of its own", forward=lambda F, a: a.copy(), partials=(1,),
    degree=1, analytic=True, domain=(_ANY,),
)
identity = elementwise(
    "identity", "a", forward=lambda F, a: a, partials=(1,), degree=1, analytic=True,
    domain=(_ANY,),
)
erf = elementwise(
    "erf", "erf a", forward=lambda F, a: F.erf(a),
    partials=(lambda F, a: 2 / math.sqrt(math.pi) * F.exp(-a * a),),
    domain=(_ANY,),
)


def _gelu_reference(F: Any, a: Any, *, approximate: Any) -> Any:
    if approximate == "tanh":
        return 0.5 * a * (1 + F.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * (a * a * a))))
    return 0.5 * a * (1 + F.erf(a * math.sqrt(0.5)))


def _gelu_forward(F: Any, a: Any, *, approximate: Any) -> Any:
    from tinygrad_edu.ops.kernels import gelu

    return gelu(F, a, approximate)


gelu = joint(
    "gelu", "a · Φ(a)", forward=_gelu_forward, vjp=lambda F, g, saved: (F.absorb(g, saved),),
    reference=_gelu_reference, domain=(_ANY,),
    kinks=("a = +inf: slope 1; a = -inf: value 0, slope 0",),
)
