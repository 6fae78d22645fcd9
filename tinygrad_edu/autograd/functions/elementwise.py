"""Functions of tensors, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_edu.autograd.apply import apply, apply_binary, apply_unary
from tinygrad_edu.autograd.functions.arguments import astype, one_float
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.ops import elementwise as _e


def add(a: Any, b: Any) -> Tensor:
    """a + b, broadcast."""
    return apply_binary(_e.add, a, b)


def subtract(a: Any, b: Any) -> Tensor:
    """a - b, broadcast."""
    return apply_binary(_e.subtract, a, b)


def multiply(a: Any, b: Any) -> Tensor:
    """a · b elementwise, broadcast."""
    return apply_binary(_e.multiply, a, b)


def divide(a: Any, b: Any) -> Tensor:
    """a / b, broadcast; integers divide to floats."""
    return apply_binary(_e.divide, a, b)


def negative(a: Any) -> Tensor:
    """-a."""
    return apply_unary(_e.negative, a)


def power(a: Any, b: Any) -> Tensor:
    """a ** b, either or both tracked. 0 ** 0 is 1, with gradient 0."""
    if isinstance(b, (int, float)) and not isinstance(b, bool):
        # NumPy's float64 scalar counts as the Python float it is, as in a * b.
        return apply(_e.power_constant, a, exponent=b if isinstance(b, int) else float(b))
    return apply(_e.power, a, b)


def exp(x: Any) -> Tensor:
    """eˣ."""
    return apply_unary(_e.exp, x)


def log(x: Any) -> Tensor:
    """The natural logarithm."""
    return apply_unary(_e.log, x)


def log1p(x: Any) -> Tensor:
    """ln(1 + x), exact for small x."""
    return apply_unary(_e.log1p, x)


def expm1(x: Any) -> Tensor:
    """eˣ - 1, exact for small x."""
    return apply_unary(_e.expm1, x)


def sqrt(x: Any) -> Tensor:
    """The square root."""
    return apply_unary(_e.sqrt, x)


def tanh(x: Any) -> Tensor:
    """The hyperbolic tangent."""
    return apply_unary(_e.tanh, x)


def sigmoid(x: Any) -> Tensor:
    """1 / (1 + e⁻ˣ), without overflow at any x."""
    return apply_unary(_e.sigmoid, x)


def sin(x: Any) -> Tensor:
    """The sine."""
    return apply_unary(_e.sin, x)


def cos(x: Any) -> Tensor:
    """The cosine."""
    return apply_unary(_e.cos, x)


def erf(x: Any) -> Tensor:
    """The error function; float64 to about 1e-16."""
    return apply_unary(_e.erf, x)


def relu(x: Any) -> Tensor:
    """max(0, x); the gradient at 0 is 0."""
    return apply_unary(_e.relu, x)


def gelu(x: Any, approximate: str = "none") -> Tensor:
    """x·Φ(x), with Φ exact by erf ("none") or by tanh ("tanh"). Hendrycks & Gimpel 2016."""
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu's approximate is 'none' or 'tanh'; got {approximate!r}")
    return apply(_e.gelu, *one_float(x), approximate=approximate)


def abs(x: Any) -> Tensor:
    """|x|; the gradient at 0 is 0."""
    return apply_unary(_e.absolute, x)


absolute = abs


def sign(x: Any) -> Tensor:
    """-1, 0 or 1; its gradient is 0."""
    return apply_unary(_e.sign, x)


def maximum(a: Any, b: Any) -> Tensor:
    """The larger, elementwise; where they tie each gets half the gradient."""
    return apply_binary(_e.maximum, a, b)


def minimum(a: Any, b: Any) -> Tensor:
    """The smaller, elementwise; where they tie each gets half the gradient."""
    return apply_binary(_e.minimum, a, b)


def clip(x: Any, min: Any = None, max: Any = None) -> Tensor:
    """x held between two bounds; the gradient on a bound is 1.

    A bound that is itself tracked gets its gradient too, by `maximum` and `minimum`, where a tie
    gives each half.
    """
    if any(isinstance(v, Tensor) and v.requires_grad for v in (min, max)):
        out = x if min is None else maximum(x, min)
        return out if max is None else minimum(out, max)
    low, high = (_bound(v) for v in (min, max))
    return apply(_e.clip, x, low=low, high=high)


def _bound(v: Any) -> Any:
    """A bound as a number without a dtype of its own, or as an array that no one else writes to."""
    if isinstance(v, np.generic):
        return v.item()
    v = v._data if isinstance(v, Tensor) else v
    return v.copy() if hasattr(v, "copy") else v


clamp = clip


def where(condition: Any, a: Any, b: Any) -> Tensor:
    """`a` where `condition`, else `b`; the branch not taken gets gradient 0, never NaN."""
    c = np.asarray(condition) if isinstance(condition, (int, float, list, tuple)) else condition
    if c.dtype != bool:
        c = (c._data if isinstance(c, Tensor) else c) != 0
    return apply(_e.where, c, a, b)


def absorb(g: Any, d: Any) -> Tensor:
    """g·d, and 0 where g is exactly 0, even where d is inf or NaN."""
    return apply(_e.absorb, g, d)


def cast(x: Any, *, dtype: Any) -> Tensor:
    """`astype`, by keyword: the name rules use."""
    return astype(x, dtype)
