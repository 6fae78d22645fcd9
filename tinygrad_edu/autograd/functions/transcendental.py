"""Angles, hyperbolas, logarithms, roots and steps, element by element. Integers become floats."""

from __future__ import annotations

from typing import Any

from tinygrad_edu.autograd.apply import apply, apply_binary, apply_unary
from tinygrad_edu.autograd.functions.arguments import one_float
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.ops import transcendental as _t


def tan(x: Any) -> Tensor:
    """The tangent of x in radians."""
    return apply_unary(_t.tan, x)


def arcsin(x: Any) -> Tensor:
    """The angle in [-π/2, π/2] with this sine; NaN outside [-1, 1]."""
    return apply_unary(_t.arcsin, x)


def arccos(x: Any) -> Tensor:
    """The angle in [0, π] with this cosine; NaN outside [-1, 1]."""
    return apply_unary(_t.arccos, x)


def arctan(x: Any) -> Tensor:
    """The angle in (-π/2, π/2) with this tangent."""
    return apply_unary(_t.arctan, x)


def arctan2(y: Any, x: Any) -> Tensor:
    """The angle of the point (x, y), in (-π, π]; at the origin 0, with gradient 0."""
    return apply_binary(_t.arctan2, *one_float(y, x))


def sinh(x: Any) -> Tensor:
    """(eˣ - e⁻ˣ)/2."""
    return apply_unary(_t.sinh, x)


def cosh(x: Any) -> Tensor:
    """(eˣ + e⁻ˣ)/2."""
    return apply_unary(_t.cosh, x)


def arcsinh(x: Any) -> Tensor:
    """The inverse of sinh."""
    return apply_unary(_t.arcsinh, x)


def arccosh(x: Any) -> Tensor:
    """The inverse of cosh, at least 0; NaN below 1."""
    return apply_unary(_t.arccosh, x)


def arctanh(x: Any) -> Tensor:
    """The inverse of tanh; ±inf at ±1, NaN beyond."""
    return apply_unary(_t.arctanh, x)


def exp2(x: Any) -> Tensor:
    """2ˣ."""
    return apply_unary(_t.exp2, x)


def log2(x: Any) -> Tensor:
    """The logarithm to base 2."""
    return apply_unary(_t.log2, x)


def log10(x: Any) -> Tensor:
    """The logarithm to base 10."""
    return apply_unary(_t.log10, x)


def logaddexp(a: Any, b: Any) -> Tensor:
    """ln(eᵃ + eᵇ), broadcast, without overflow."""
    return apply_binary(_t.logaddexp, *one_float(a, b))


def xlogy(a: Any, b: Any) -> Tensor:
    """a·ln b, and 0 where a is 0, whatever b is; broadcast.

    The entropy of probabilities p, in nats, is -Σ of it with p for both.
    """
    return apply_binary(_t.xlogy, *one_float(a, b))


def square(x: Any) -> Tensor:
    """x²."""
    return apply_unary(_t.square, x)


def reciprocal(x: Any) -> Tensor:
    """1/x."""
    return apply_unary(_t.reciprocal, *one_float(x))


def cbrt(x: Any) -> Tensor:
    """The cube root, also of negative numbers."""
    return apply_unary(_t.cbrt, x)


def hypot(a: Any, b: Any) -> Tensor:
    """√(a² + b²), broadcast, without overflow; at the origin 0, with gradient 0."""
    return apply_binary(_t.hypot, *one_float(a, b))


def sinc(x: Any) -> Tensor:
    """sin(πx)/(πx), 1 at 0, with derivatives of any order there."""
    return apply_unary(_t.sinc, *one_float(x))


def sinc_derivative(x: Any, *, order: int) -> Tensor:
    """The derivative of that order of `sinc`."""
    return apply(_t.sinc_derivative, *one_float(x), order=order)


def erfc(x: Any) -> Tensor:
    """1 - erf(x), to full precision in the tail."""
    return apply_unary(_t.erfc, x)


def round(x: Any, decimals: int = 0) -> Tensor:
    """x to a number of decimals, halves to the even neighbour; its gradient is 0."""
    return apply(_t.round_, x, decimals=decimals)


def floor(x: Any) -> Tensor:
    """The largest whole number not above x; its gradient is 0."""
    return apply_unary(_t.floor, x)


def ceil(x: Any) -> Tensor:
    """The smallest whole number not below x; its gradient is 0."""
    return apply_unary(_t.ceil, x)


def trunc(x: Any) -> Tensor:
    """x without its fraction; its gradient is 0."""
    return apply_unary(_t.trunc, x)


def floor_divide(a: Any, b: Any) -> Tensor:
    """⌊a/b⌋, broadcast; its gradient is 0."""
    return apply_binary(_t.floor_divide, a, b)


def remainder(a: Any, b: Any) -> Tensor:
    """a - b·⌊a/b⌋, which has b's sign, as Python's and NumPy's % has; broadcast."""
    return apply_binary(_t.remainder, a, b)


asin, acos, atan, atan2 = arcsin, arccos, arctan, arctan2
asinh, acosh, atanh = arcsinh, arccosh, arctanh
