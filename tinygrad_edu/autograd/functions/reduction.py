"""Reductions over axes."""

from __future__ import annotations

from typing import Any

from tinygrad_edu.autograd.apply import apply, as_tensor
from tinygrad_edu.autograd.functions.arguments import Axis, axes_of, one_axis
from tinygrad_edu.autograd.functions.shape import reshape
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.ops import reduction as _r
from tinygrad_edu.ops import scans as _s


def sum(
    x: Any, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
) -> Tensor:
    """The sum over axes."""
    x = as_tensor(x)
    return apply(_r.sum_, x, axis=axes_of(axis, dim, x.ndim, "sum"), keepdims=keepdims or keepdim)


def mean(
    x: Any, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
) -> Tensor:
    """The mean over axes."""
    x = as_tensor(x)
    return apply(_r.mean, x, axis=axes_of(axis, dim, x.ndim, "mean"), keepdims=keepdims or keepdim)


def var(
    x: Any,
    axis: Axis = None,
    keepdims: bool = False,
    ddof: int = 0,
    *,
    dim: Axis = None,
    keepdim: bool = False,
) -> Tensor:
    """The variance over axes, divided by n - ddof (NumPy's 0 is the default)."""
    x = as_tensor(x)
    axes = axes_of(axis, dim, x.ndim, "var")
    return apply(_r.var, x, axis=axes, keepdims=keepdims or keepdim, ddof=ddof)


def std(
    x: Any,
    axis: Axis = None,
    keepdims: bool = False,
    ddof: int = 0,
    *,
    dim: Axis = None,
    keepdim: bool = False,
) -> Tensor:
    """The standard deviation over axes, √ of `var` with the same `ddof`; where all are equal 0,
    with gradient 0.
    """
    x = as_tensor(x)
    axes = axes_of(axis, dim, x.ndim, "std")
    return apply(_r.std, x, axis=axes, keepdims=keepdims or keepdim, ddof=ddof)


def prod(
    x: Any, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
) -> Tensor:
    """The product over axes; its gradient does not divide, so zeros are ordinary."""
    x = as_tensor(x)
    return apply(_s.prod, x, axis=axes_of(axis, dim, x.ndim, "prod"), keepdims=keepdims or keepdim)


def cumsum(x: Any, axis: int | None = None, *, dim: int | None = None) -> Tensor:
    """The sum so far along an axis; without one, of all numbers in a row."""
    x, axis = _row(x, axis if dim is None else dim, "cumsum")
    return apply(_s.cumsum, x, axis=axis)


def cumprod(x: Any, axis: int | None = None, *, dim: int | None = None) -> Tensor:
    """The product so far along an axis; without one, of all numbers in a row."""
    x, axis = _row(x, axis if dim is None else dim, "cumprod")
    return apply(_s.cumprod, x, axis=axis)


def _row(x: Any, axis: int | None, what: str) -> tuple[Tensor, int]:
    x = as_tensor(x)
    if axis is None:
        return reshape(x, -1), 0
    return x, one_axis(axis, x.ndim, what)


def max(
    x: Any, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
) -> Tensor:
    """The largest over axes; ties share the gradient equally."""
    x = as_tensor(x)
    return apply(_r.max_, x, axis=axes_of(axis, dim, x.ndim, "max"), keepdims=keepdims or keepdim)


def min(
    x: Any, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
) -> Tensor:
    """The smallest over axes; ties share the gradient equally."""
    x = as_tensor(x)
    return apply(_r.min_, x, axis=axes_of(axis, dim, x.ndim, "min"), keepdims=keepdims or keepdim)


def logsumexp(
    x: Any, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
) -> Tensor:
    """ln Σ eˣ over axes, without overflow."""
    x = as_tensor(x)
    axes = axes_of(axis, dim, x.ndim, "logsumexp")
    return apply(_r.logsumexp, x, axis=axes, keepdims=keepdims or keepdim)


def softmax(x: Any, axis: int = -1, *, dim: int | None = None) -> Tensor:
    """eˣ / Σ eˣ along an axis: positive, summing to 1; a row of -inf alone gives 0."""
    x = as_tensor(x)
    axes = axes_of(axis if dim is None else dim, None, x.ndim, "softmax")
    return apply(_r.softmax, x, axis=axes)


def log_softmax(x: Any, axis: int = -1, *, dim: int | None = None) -> Tensor:
    """x - ln Σ eˣ along an axis."""
    x = as_tensor(x)
    axes = axes_of(axis if dim is None else dim, None, x.ndim, "log_softmax")
    return apply(_r.log_softmax, x, axis=axes)
