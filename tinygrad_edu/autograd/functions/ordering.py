"""Order: sorting, what is largest so far, the middle. Positions are plain arrays of integers.

Where numbers tie, a stable sort keeps them in their order, so that every backend hands a gradient
to the same element.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_edu.autograd.apply import as_tensor
from tinygrad_edu.autograd.functions.arguments import Axis, axes_of, one_axis
from tinygrad_edu.autograd.functions.elementwise import where
from tinygrad_edu.autograd.functions.movement import moveaxis, take_along_axis
from tinygrad_edu.autograd.functions.reduction import mean
from tinygrad_edu.autograd.functions.shape import getitem, reshape
from tinygrad_edu.autograd.tensor import Tensor

Array = Any


def argsort(
    x: Any, axis: int | None = -1, *, descending: bool = False, dim: int | None = None
) -> Array:
    """Positions in ascending order along an axis (None: of all numbers), ties in their own order.

    NaN comes last, also in descending order.
    """
    x = as_tensor(x)
    axis = axis if dim is None else dim
    data = x._namespace.to_numpy(x._data)
    if axis is not None:
        one_axis(axis, x.ndim, "argsort")
    order = np.argsort(-data if descending else data, axis=axis, kind="stable")
    return x._namespace.asarray(order)


def sort(
    x: Any, axis: int | None = -1, *, descending: bool = False, dim: int | None = None
) -> Tensor:
    """In ascending order along an axis (None: all numbers); ties keep their order, and with it
    their gradients.
    """
    x = as_tensor(x)
    axis = axis if dim is None else dim
    if x.ndim == 0 or axis is None:
        x, axis = reshape(x, -1), 0
    return take_along_axis(x, argsort(x, axis, descending=descending), axis)


def topk(
    x: Any, k: int, axis: int = -1, largest: bool = True, *, dim: int | None = None
) -> tuple[Tensor, Array]:
    """(the k largest in descending order, their positions); of ties the first come first.

    Raises:
        ValueError: k is not between 0 and the length of the axis.
    """
    x = as_tensor(x)
    axis = one_axis(axis if dim is None else dim, x.ndim, "topk")
    if not 0 <= k <= x.shape[axis]:
        raise ValueError(f"topk's k has to be from 0 to {x.shape[axis]}; got {k}")
    order = argsort(x, axis, descending=largest)
    rows = order[(*(slice(None),) * axis, slice(0, k))]
    return take_along_axis(x, rows, axis), rows


def argmax(x: Any, axis: int | None = None, keepdims: bool = False, *, dim: Any = None) -> Array:
    """The position of the largest, the first of ties; without an axis, among all numbers."""
    return _position("argmax", x, axis if dim is None else dim, keepdims)


def argmin(x: Any, axis: int | None = None, keepdims: bool = False, *, dim: Any = None) -> Array:
    """The position of the smallest, the first of ties; without an axis, among all numbers."""
    return _position("argmin", x, axis if dim is None else dim, keepdims)


def _position(name: str, x: Any, axis: int | None, keepdims: bool) -> Array:
    x = as_tensor(x)
    if axis is not None:
        axis = one_axis(axis, x.ndim, name)
    if x.size == 0:
        raise ValueError(f"{name} of nothing: the tensor has shape {x.shape}")
    return getattr(x._namespace, name)(x._data, axis=axis, keepdims=keepdims)


def cummax(x: Any, axis: int = -1, *, dim: int | None = None) -> Tensor:
    """The largest so far along an axis; of ties the latest, as in PyTorch, gets the gradient."""
    return _so_far(np.maximum, np.greater_equal, x, axis if dim is None else dim, "cummax")


def cummin(x: Any, axis: int = -1, *, dim: int | None = None) -> Tensor:
    """The smallest so far along an axis; of ties the latest, as in PyTorch, gets the gradient."""
    return _so_far(np.minimum, np.less_equal, x, axis if dim is None else dim, "cummin")


def _so_far(extreme: Any, reaches: Any, x: Any, axis: int, name: str) -> Tensor:
    x = as_tensor(x)
    axis = one_axis(axis, x.ndim, name)
    data = x._namespace.to_numpy(x._data)
    number = np.arange(x.shape[axis]).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    new = reaches(data, extreme.accumulate(data, axis=axis)) | (data != data)  # NaN stays
    rows = np.maximum.accumulate(np.where(new, number, 0), axis=axis)
    return take_along_axis(x, x._namespace.asarray(rows), axis)


def median(
    x: Any, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
) -> Tensor:
    """The middle number over axes, the mean of the two in the middle where they are even (as NumPy
    has it); NaN where one is NaN.
    """
    x = as_tensor(x)
    axes = axes_of(axis, dim, x.ndim, "median")
    axes = tuple(range(x.ndim)) if axes is None else axes
    kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    rest = [i for i in range(x.ndim) if i not in axes]
    rows = moveaxis(x, axes, range(len(rest), x.ndim)) if axes else x
    rows = reshape(rows, (*(x.shape[i] for i in rest), -1)) if x.size else rows
    length = rows.shape[-1]
    if not x.size:
        raise ValueError(f"median of nothing: the tensor has shape {x.shape}")
    ordered = sort(rows)
    middle = mean(getitem(ordered, (..., slice((length - 1) // 2, length // 2 + 1))), -1)
    ill = rows._namespace.isnan(rows._data).any(axis=-1)
    if rows._data.dtype.kind == "f" and ill.any():
        nan = rows._namespace.full((), np.nan, dtype=rows.dtype)
        middle = where(Tensor(ill), nan, middle)
    return reshape(middle, kept) if keepdims or keepdim else middle
