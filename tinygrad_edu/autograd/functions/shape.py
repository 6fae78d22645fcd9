"""Matrix products, shapes, and reading by index."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tinygrad_edu.autograd.apply import apply, apply_binary, as_tensor
from tinygrad_edu.autograd.functions.arguments import Axis, axes_of, one_axis, raw_index, shape_of
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.errors import ShapeError
from tinygrad_edu.ops import indexing as _i
from tinygrad_edu.ops import linalg as _l
from tinygrad_edu.ops import shape as _s


def matmul(a: Any, b: Any) -> Tensor:
    """The matrix product of any ranks, as `numpy.matmul`: (…, n, k) @ (…, k, m) -> (…, n, m)."""
    return apply_binary(_l.matmul, a, b)


def reshape(x: Any, *shape: Any) -> Tensor:
    """The same numbers in another shape; one length may be -1."""
    return apply(_s.reshape, x, shape=shape_of(shape))


view = reshape


def flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Axes `start_dim` to `end_dim` made one."""
    x = as_tensor(x)
    if x.ndim == 0:
        return reshape(x, (1,))
    start, end = start_dim % x.ndim, end_dim % x.ndim
    middle = math.prod(x.shape[start : end + 1])
    return reshape(x, (*x.shape[:start], middle, *x.shape[end + 1 :]))


def transpose(x: Any, *axes: Any) -> Tensor:
    """Axes permuted, reversed where none are given. (For two axes: `swapaxes`.)"""
    x = as_tensor(x)
    order = tuple(reversed(range(x.ndim)))
    if axes and axes != (None,):
        order = shape_of(axes)
        if len(order) != x.ndim or sorted(i % x.ndim for i in order) != list(range(x.ndim)):
            raise ShapeError(
                f"transpose of a tensor with {x.ndim} axes takes each axis once; got {order}"
            )
    return apply(_s.transpose, x, axes=tuple(i % x.ndim for i in order))


permute = transpose


def swapaxes(x: Any, axis1: int, axis2: int) -> Tensor:
    """Two axes swapped."""
    x = as_tensor(x)
    first, second = (one_axis(i, x.ndim, "swapaxes") for i in (axis1, axis2))
    return apply(_s.swapaxes, x, axis1=first, axis2=second)


def expand_dims(x: Any, axis: int | Sequence[int]) -> Tensor:
    """New axes of length 1 at the places they will have in the result."""
    axes = (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
    return apply(_s.expand_dims, x, axis=axes)


unsqueeze = expand_dims


def squeeze(x: Any, axis: Axis = None, *, dim: Axis = None) -> Tensor:
    """Without axes of length 1: all of them, or those named."""
    x = as_tensor(x)
    axes = axes_of(axis, dim, x.ndim, "squeeze")
    if axes is None:
        axes = tuple(i for i, n in enumerate(x.shape) if n == 1)
    return apply(_s.squeeze, x, axis=axes)


def broadcast_to(x: Any, shape: Sequence[int]) -> Tensor:
    """Repeated, without copying, to `shape`."""
    return apply(_s.broadcast_to, x, shape=shape_of((shape,)))


def concatenate(arrays: Sequence[Any], axis: int = 0, *, dim: int | None = None) -> Tensor:
    """Arrays end to end along an axis that exists."""
    if len(arrays) == 0:
        raise ValueError("concatenate needs at least one tensor; got an empty list")
    return apply(_s.concatenate, *arrays, axis=axis if dim is None else dim)


cat = concatenate


def stack(arrays: Sequence[Any], axis: int = 0, *, dim: int | None = None) -> Tensor:
    """Arrays of one shape along a new axis."""
    if len(arrays) == 0:
        raise ValueError("stack needs at least one tensor; got an empty list")
    return apply(_s.stack, *arrays, axis=axis if dim is None else dim)


def split(x: Any, sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """NumPy's split: `sections` equal parts, or cut before each of the given indices."""
    x = as_tensor(x)
    axis = one_axis(axis, x.ndim, "split")
    length = x.shape[axis]
    if isinstance(sections, (int, np.integer)):
        if sections < 1 or length % sections:
            raise ShapeError(
                f"split cannot cut axis {axis} of {x.shape} into {sections} equal parts"
            )
        cuts = [length // int(sections) * i for i in range(int(sections) + 1)]
    else:
        cuts = [0, *sections, length]
    before = (slice(None),) * axis
    return [getitem(x, (*before, slice(start, stop))) for start, stop in pairwise(cuts)]


def getitem(x: Any, index: Any) -> Tensor:
    """x[index] in any of NumPy's forms; an element read k times gets the sum of k gradients."""
    return apply(_i.getitem, x, index=raw_index(index))


def scatter_add(x: Any, index: Any, shape: Sequence[int]) -> Tensor:
    """Zeros of `shape` with x added at `index`: the transpose of `getitem`; repeats add up."""
    return apply(_i.scatter_add, x, index=raw_index(index), shape=tuple(shape))
