"""Functions of calculus beyond the basic ones, element by element: angles, logarithms, roots.

A local derivative is written so that it is right to the last bits where the function is steep or
flat: factors of (1 - a²) apart, quotients by hypot instead of a sum of squares.
"""

from __future__ import annotations

import math
from typing import Any

from tinygrad_edu.ops.registry import elementwise

Array = Any
_ANY = (-4.0, 4.0)
_POSITIVE = (0.1, 4.0)
_UNIT = (-0.95, 0.95)
_SMOOTH: dict[str, Any] = {"analytic": True, "domain": (_ANY,)}

# Angles.

tan = elementwise(
    "tan", "tan a", forward=lambda F, a: F.tan(a), partials=(lambda out: 1 + out * out,),
    analytic=True, domain=((-1.4, 1.4),), kinks=("near odd multiples of π/2: large, as tan is",),
)  # fmt: skip
arcsin = elementwise(
    "arcsin", "arcsin a", forward=lambda F, a: F.arcsin(a),
    partials=(lambda F, a: 1 / F.sqrt((1 - a) * (1 + a)),),
    analytic=True, domain=(_UNIT,), kinks=("|a| = 1: slope inf", "|a| > 1: NaN with slope NaN"),
)  # fmt: skip
arccos = elementwise(
    "arccos", "arccos a", forward=lambda F, a: F.arccos(a),
    partials=(lambda F, a: -1 / F.sqrt((1 - a) * (1 + a)),),
    analytic=True, domain=(_UNIT,), kinks=("|a| = 1: slope -inf", "|a| > 1: NaN with slope NaN"),
)  # fmt: skip
arctan = elementwise(
    "arctan", "arctan a", forward=lambda F, a: F.arctan(a), partials=(lambda a: 1 / (1 + a * a),),
    **_SMOOTH, kinks=("a = ±inf: ±π/2 with slope 0",),
)  # fmt: skip


def _nonzero(F: Any, r: Array) -> Array:
    """`r`, and 1 where it is 0: to divide by."""
    return F.where(r == 0, F.ones_like(r), r)


def _angle_to_y(F: Any, y: Array, x: Array) -> Array:
    r = F.hypot(y, x)
    return x / _nonzero(F, r) / _nonzero(F, r)


def _angle_to_x(F: Any, y: Array, x: Array) -> Array:
    r = F.hypot(y, x)
    return -(y / _nonzero(F, r) / _nonzero(F, r))


arctan2 = elementwise(
    "arctan2", "the angle of (x, y), arctan y/x in all four quadrants",
    forward=lambda F, y, x: F.arctan2(y, x), partials=(_angle_to_y, _angle_to_x),
    domain=((0.5, 4.0), _ANY),
    kinks=(
        "y = x = 0: gradient 0 to both",
        "y = 0 and x < 0, where the angle jumps by 2π: the slope of either side",
    ),
)  # fmt: skip

# Hyperbolas.

sinh = elementwise(
    "sinh", "sinh a", forward=lambda F, a: F.sinh(a), partials=(lambda F, a: F.cosh(a),), **_SMOOTH,
)  # fmt: skip
cosh = elementwise(
    "cosh", "cosh a", forward=lambda F, a: F.cosh(a), partials=(lambda F, a: F.sinh(a),), **_SMOOTH,
)  # fmt: skip
arcsinh = elementwise(
    "arcsinh", "arsinh a", forward=lambda F, a: F.arcsinh(a),
    partials=(lambda F, a: 1 / F.hypot(a, F.ones_like(a)),), **_SMOOTH,
    kinks=("|a| large: no overflow, slope 1/|a|",),
)  # fmt: skip
arccosh = elementwise(
    "arccosh", "arcosh a", forward=lambda F, a: F.arccosh(a),
    partials=(lambda F, a: 1 / (F.sqrt(a - 1) * F.sqrt(a + 1)),),
    analytic=True, domain=((1.1, 4.0),), kinks=("a = 1: 0 with slope inf", "a < 1: NaN"),
)  # fmt: skip
arctanh = elementwise(
    "arctanh", "artanh a", forward=lambda F, a: F.arctanh(a),
    partials=(lambda a: 1 / ((1 - a) * (1 + a)),),
    analytic=True, domain=(_UNIT,), kinks=("|a| = 1: ±inf with slope inf",),
)  # fmt: skip

# Exponentials and logarithms to other bases.

exp2 = elementwise(
    "exp2", "2ᵃ", forward=lambda F, a: F.exp2(a), partials=(lambda out: out * math.log(2),),
    domain=(_ANY,),
)  # fmt: skip
log2 = elementwise(
    "log2", "log₂ a", forward=lambda F, a: F.log2(a), partials=(lambda a: 1 / (a * math.log(2)),),
    analytic=True, domain=(_POSITIVE,), kinks=("a = 0: -inf, with slope inf",),
)  # fmt: skip
log10 = elementwise(
    "log10", "log₁₀ a", forward=lambda F, a: F.log10(a),
    partials=(lambda a: 1 / (a * math.log(10)),),
    analytic=True, domain=(_POSITIVE,), kinks=("a = 0: -inf, with slope inf",),
)  # fmt: skip


def _share_of_sum(F: Any, a: Array, b: Array, out: Array) -> Array:
    """eᵃ/(eᵃ + eᵇ), to full precision also where it is small; half of a tie of infinities."""
    lead = a - b
    tie = F.where(a == b, F.zeros_like(out), lead)
    share = F.sigmoid(F.where(abs(a) == math.inf, tie, lead))
    return F.where(out == -math.inf, F.zeros_like(out), share)


logaddexp = elementwise(
    "logaddexp", "ln(eᵃ + eᵇ)", forward=lambda F, a, b: F.logaddexp(a, b),
    partials=(
        lambda F, a, b, out: _share_of_sum(F, a, b, out),
        lambda F, a, b, out: _share_of_sum(F, b, a, out),
    ),
    domain=(_ANY, _ANY),
    kinks=("a = b = -inf: -inf with gradient 0", "a = b = inf: half each", "never overflows"),
)  # fmt: skip
xlogy = elementwise(
    "xlogy", "a · ln b, 0 where a = 0", forward=lambda F, a, b: _xlogy(F, a, b),
    partials=(
        lambda F, b: F.log(b),
        lambda F, a, b: F.where(a == 0, F.zeros_like(a + b), a / _where_a(F, a, b)),
    ),
    analytic=True, domain=(_ANY, _POSITIVE),
    kinks=(
        "a = 0: 0 at any b, with gradient ln b to a (-inf at b = 0) and 0 to b",
        "b < 0: NaN, and where a = 0 a NaN gradient to a alone",
    ),
)  # fmt: skip


def _where_a(F: Any, a: Array, b: Array) -> Array:
    """b, and 1 where a is 0: nothing is looked at there."""
    return F.where(a == 0, F.ones_like(b), b)


def _xlogy(F: Any, a: Array, b: Array) -> Array:
    return a * F.log(_where_a(F, a, b))


# Powers and roots.

square = elementwise(
    "square", "a²", forward=lambda F, a: F.multiply(a, a), partials=(lambda a: 2 * a,),
    degree=2, **_SMOOTH,
)  # fmt: skip
reciprocal = elementwise(
    "reciprocal", "1 / a", forward=lambda F, a: 1 / a, partials=(lambda out: -out * out,),
    analytic=True, domain=((0.5, 4.0),), kinks=("a = 0: inf, with slope -inf",),
)  # fmt: skip
cbrt = elementwise(
    "cbrt", "³√a", forward=lambda F, a: F.cbrt(a), partials=(lambda out: 1 / (3 * (out * out)),),
    domain=(_POSITIVE,), kinks=("a = 0: 0, with slope inf",),
)  # fmt: skip


def _over_length(F: Any, a: Array, out: Array) -> Array:
    """a/out, which cannot overflow: 0 at the origin, ±1 along an infinite axis."""
    unbounded = F.where(abs(a) == math.inf, F.sign(a), F.zeros_like(out))
    return F.where(out == math.inf, unbounded, a / _nonzero(F, out))


hypot = elementwise(
    "hypot", "√(a² + b²)", forward=lambda F, a, b: F.hypot(a, b),
    partials=(lambda F, a, out: _over_length(F, a, out), lambda F, b, out: _over_length(F, b, out)),
    domain=((0.5, 4.0), _ANY), kinks=("a = b = 0: gradient 0 to both", "never overflows"),
)  # fmt: skip

# Steps: flat wherever they have a derivative.


def _step(name: str, formula: str, forward: Any) -> Any:
    return elementwise(
        name, formula, forward=forward, partials=(None,), domain=(_ANY,),
        kinks=("everywhere: gradient 0",),
    )  # fmt: skip


round_ = _step(
    "round", "a to a number of decimals, halves to even",
    lambda F, a, *, decimals: F.round(a, decimals),
)  # fmt: skip
floor = _step("floor", "⌊a⌋", lambda F, a: F.floor(a))
ceil = _step("ceil", "⌈a⌉", lambda F, a: F.ceil(a))
trunc = _step("trunc", "a without its fraction", lambda F, a: F.trunc(a))

floor_divide = elementwise(
    "floor_divide", "⌊a / b⌋", forward=lambda F, a, b: F.floor_divide(a, b), partials=(None, None),
    domain=(_ANY, (0.5, 4.0)), kinks=("everywhere: gradient 0 to both",),
)  # fmt: skip
remainder = elementwise(
    "remainder", "a - b·⌊a / b⌋", forward=lambda F, a, b: F.remainder(a, b),
    partials=(1, lambda F, a, b: -F.floor_divide(a, b)), domain=(_ANY, (0.5, 4.0)),
    kinks=("a a multiple of b, where it jumps: the slope of the side above",),
)  # fmt: skip

# Two with no closed derivative at 0, and the other half of erf.


def _sinc(F: Any, a: Array, *, order: int) -> Array:
    """The derivative of that order of sin(πa)/(πa), which is πⁿ ∫₀¹ uⁿ cos(πau + nπ/2) du.

    Near 0 by its Taylor series; elsewhere by t·sₙ = sin⁽ⁿ⁾(t) - n·sₙ₋₁, t = πa, from s₀ = sin t/t.
    """
    t = math.pi * a
    near = abs(t) < 1.5 + order
    small, large = F.where(near, t, F.zeros_like(t)), F.where(near, F.ones_like(t), t)
    value = F.sin(large) / large
    for n in range(1, order + 1):
        turned = (F.sin, F.cos, lambda x: -F.sin(x), lambda x: -F.cos(x))[n % 4](large)
        value = (turned - n * value) / large
    series = F.zeros_like(t)
    first = order + order % 2  # sin t/t = Σ (-1)^(m/2) tᵐ/(m+1)!, m even
    for m in range(first + 2 * (14 + order), first - 2, -2):
        sign = -1.0 if m // 2 % 2 else 1.0
        coefficient = sign / ((m + 1) * math.factorial(m - order))
        series = series * (small * small) + coefficient
    if order % 2:
        series = series * small
    return math.pi**order * F.where(near, series, value)


sinc = elementwise(
    "sinc", "sin(πa) / (πa)", forward=lambda F, a: F.sinc(a),
    partials=(lambda F, a: F.sinc_derivative(a, order=1),), domain=(_ANY,),
    kinks=("a = 0: 1 with slope 0, and right to any order",),
)  # fmt: skip
sinc_derivative = elementwise(
    "sinc_derivative", "the derivative of that order of sinc a", forward=_sinc,
    partials=(lambda F, a, order: F.sinc_derivative(a, order=order + 1),), domain=(_ANY,),
)  # fmt: skip
erfc = elementwise(
    "erfc", "1 - erf a", forward=lambda F, a: F.erfc(a),
    partials=(lambda F, a: -2 / math.sqrt(math.pi) * F.exp(-a * a),), domain=(_ANY,),
    kinks=("a large: to full precision, where 1 - erf a is 0",),
)  # fmt: skip
