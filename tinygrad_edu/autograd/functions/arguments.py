"""Checks that the functions of tensors share: axes, shapes, indices, whole numbers, dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_edu.autograd import origin
from tinygrad_edu.autograd.apply import apply, as_tensor
from tinygrad_edu.autograd.tensor import Tensor, get_default_dtype, is_floating
from tinygrad_edu.errors import DTypeError, ShapeError
from tinygrad_edu.ops import elementwise

Axis = int | Sequence[int] | None


def axes_of(axis: Axis, dim: Axis, ndim: int, what: str) -> tuple[int, ...] | None:
    """`axis` (or its alias) as a sorted tuple of non-negative ints, or None for all."""
    axis = dim if axis is None else axis
    if axis is None:
        return None
    given = (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
    for i in given:
        if not -ndim <= i < ndim:
            expected = f"expected {-ndim} to {ndim - 1}" if ndim else "one number has no axes"
            raise ShapeError(
                f"{what} was given axis {i} of a tensor with {ndim} axes, at "
                f"{origin.current_line()}; {expected}"
            )
    found = tuple(sorted({int(i) % ndim for i in given}))
    if len(found) != len(given):
        raise ShapeError(f"{what} was given an axis twice: {given}")
    return found


def one_axis(axis: int, ndim: int, what: str) -> int:
    """One axis, negative or not, as a non-negative int; `what` names the caller in errors."""
    found = axes_of(int(axis), None, ndim, what)
    return found[0] if found else 0


def shape_of(given: tuple[Any, ...]) -> tuple[int, ...]:
    """A shape given as numbers or as one sequence."""
    if len(given) == 1 and not isinstance(given[0], (int, np.integer)):
        given = tuple(given[0])
    return tuple(int(n) for n in given)


def one_float(*xs: Any) -> list[Any]:
    """Tensors (or None) in the one floating dtype they promote to, as unfused operations would
    be.
    """
    dtype = None
    for x in xs:  # the usual case first: tensors of one floating dtype
        if x is not None:
            if not isinstance(x, Tensor) or (dtype is not None and x._data.dtype is not dtype):
                break
            dtype = x._data.dtype
    else:
        if dtype is not None and dtype.kind == "f":
            return list(xs)
    given = [x if x is None else as_tensor(x) for x in xs]
    dtypes = {x.dtype for x in given if x is not None}
    if len(dtypes) == 1 and is_floating(next(iter(dtypes))):
        return given
    wanted = np.result_type(*dtypes)
    wanted = wanted if is_floating(wanted) else get_default_dtype()
    return [x if x is None else astype(x, wanted) for x in given]


def raw_index(index: Any) -> Any:
    """An index with raw arrays for tensors, copied: what is written to later must not matter."""
    if isinstance(index, tuple):
        return tuple([raw_index(i) for i in index])
    if isinstance(index, Tensor):
        if index.dtype.kind not in "iub":
            raise DTypeError(
                f"an index has to be integer or bool; got a tensor of {index.dtype}: make it with "
                "dtype=int"
            )
        index = index._data
    # A copy, because the gradient reads the index again and the caller may change it before.
    if isinstance(index, list):
        return [raw_index(i) for i in index]
    return index.copy() if isinstance(index, np.ndarray) else index


def integers(ids: Any, what: str, limit: int, ignore: int | None = None) -> Tensor:
    """Whole numbers in [0, limit), as a tensor; the error names the first that is not."""
    if isinstance(ids, (list, tuple)) and not ids:
        ids = np.zeros(0, dtype=int)
    found = ids if isinstance(ids, Tensor) else Tensor(
        ids if hasattr(ids, "dtype") else np.asarray(ids)
    )
    data = found._data
    if data.dtype.kind not in "iu":
        raise DTypeError(
            f"{what} have to be integers; got {data.dtype}: make them with dtype=int"
        )
    if data.size and isinstance(data, np.ndarray):
        low, high = data.min(), data.max()
        if low < 0 or high >= limit:
            bad = (data < 0) | (data >= limit)
            if ignore is not None:
                bad &= data != ignore
            if bad.any():
                at = tuple(int(i) for i in np.argwhere(bad)[0])
                raise IndexError(
                    f"{what} have to be from 0 to {limit - 1}; got {int(data[at])} at position {at}"
                )
    return found


def astype(x: Any, dtype: Any) -> Tensor:
    """In another dtype; itself where nothing changes. The gradient comes back in x's dtype.

    Integers and bools have no gradient: the result is then untracked.
    """
    x = as_tensor(x)
    wanted = np.dtype(dtype)
    if not is_floating(wanted):
        return Tensor(x._data.astype(wanted))
    return x if x.dtype == wanted else apply(elementwise.cast, x, dtype=wanted)
