"""Numbers moved about: flipped, rolled, padded, repeated, picked, written over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_edu.autograd.apply import apply, as_tensor
from tinygrad_edu.autograd.functions.arguments import (
    Axis,
    axes_of,
    one_axis,
    one_float,
    raw_index,
    shape_of,
)
from tinygrad_edu.autograd.functions.elementwise import add, where
from tinygrad_edu.autograd.functions.shape import (
    broadcast_to,
    expand_dims,
    getitem,
    reshape,
    scatter_add,
    transpose,
)
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.errors import DTypeError, ShapeError
from tinygrad_edu.ops import movement as _m

_PAD_MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


def flip(x: Any, axis: Axis = None, *, dim: Axis = None) -> Tensor:
    """Reversed along axes, all of them by default."""
    x = as_tensor(x)
    return apply(_m.flip, x, axis=axes_of(axis, dim, x.ndim, "flip"))


def roll(x: Any, shift: int | Sequence[int], axis: Axis = None, *, dim: Axis = None) -> Tensor:
    """Pushed round along axes, what leaves at the end coming in at the start; without an axis, the
    numbers in their order in memory.
    """
    x = as_tensor(x)
    axis = dim if axis is None else axis
    steps = tuple(shift) if isinstance(shift, (tuple, list)) else int(shift)  # type: ignore[arg-type]
    if axis is None:
        return apply(_m.roll, x, shift=steps, axis=None)
    given = (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
    places = tuple(one_axis(i, x.ndim, "roll") for i in given)
    return apply(_m.roll, x, shift=steps, axis=places if len(places) > 1 else places[0])


def moveaxis(x: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Axes moved to other places, the others keeping their order."""
    x = as_tensor(x)
    start, end = (
        [one_axis(i, x.ndim, "moveaxis") for i in ([axes] if isinstance(axes, int) else axes)]
        for axes in (source, destination)
    )
    if len(start) != len(end) or len(set(start)) != len(start) or len(set(end)) != len(end):
        raise ShapeError(
            f"moveaxis was given source {source} and destination {destination}; they have to name "
            "as many axes, each once"
        )
    order = [i for i in range(x.ndim) if i not in start]
    for place, i in sorted(zip(end, start, strict=True)):
        order.insert(place, i)
    return transpose(x, order)


def rot90(x: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """Turned k times by 90° in the plane of two axes, from the first towards the second."""
    x = as_tensor(x)
    first, second = (one_axis(i, x.ndim, "rot90") for i in axes)
    if first == second:
        raise ShapeError(f"rot90 turns in the plane of two different axes; got {tuple(axes)}")
    order = list(range(x.ndim))
    order[first], order[second] = second, first
    if k % 4 == 0:
        return getitem(x, ...)
    if k % 4 == 2:
        return flip(x, (first, second))
    return transpose(flip(x, second), order) if k % 4 == 1 else flip(transpose(x, order), second)


def pad(x: Any, width: Any, mode: str = "constant", constant_values: float = 0.0) -> Tensor:
    """With numbers around it, as `numpy.pad`: `width` is one number, (before, after), or one such
    pair an axis; `mode` is "constant", "edge", "reflect", "symmetric" or "wrap".

    Raises:
        ValueError: another mode, or a width below 0.
    """
    x = as_tensor(x)
    if mode not in _PAD_MODES:
        raise ValueError(f"pad's mode is one of {', '.join(_PAD_MODES)}; got {mode!r}")
    try:
        pairs = np.broadcast_to(np.asarray(width, dtype=int), (x.ndim, 2)).tolist()
    except ValueError as error:
        raise ShapeError(
            f"pad's width is a number, a pair or {x.ndim} pairs for shape {x.shape}; got {width}"
        ) from error
    widths = tuple((low, high) for low, high in pairs)
    if any(n < 0 for pair in widths for n in pair):
        raise ValueError(f"pad's width has to be at least 0; got {width}")
    if mode != "constant":
        rows = [
            np.pad(np.arange(n), w, mode=mode)  # type: ignore[call-overload]
            for n, w in zip(x.shape, widths, strict=True)
        ]
        return getitem(x, np.ix_(*rows)) if rows else getitem(x, ...)
    out = apply(_m.pad, x, width=widths)
    if constant_values == 0:
        return out
    F = x._namespace
    around = F.full(out.shape, constant_values, dtype=out.dtype)
    around[_m._inside(x.shape, widths)] = 0
    return add(out, Tensor(around))


def tile(x: Any, reps: int | Sequence[int]) -> Tensor:
    """Laid side by side `reps` times along each axis; missing axes are added in front."""
    x = as_tensor(x)
    times = (reps,) if isinstance(reps, (int, np.integer)) else tuple(reps)
    times = (1,) * (x.ndim - len(times)) + times
    shape = (1,) * (len(times) - x.ndim) + x.shape
    apart = [side for n in shape for side in (1, n)]
    wide = [side for r, n in zip(times, shape, strict=True) for side in (r, n)]
    joined = [r * n for r, n in zip(times, shape, strict=True)]
    return reshape(broadcast_to(reshape(x, apart), wide), joined)


def repeat(
    x: Any, repeats: int | Sequence[int], axis: int | None = None, *, dim: int | None = None
) -> Tensor:
    """Each element `repeats` times (one number, or one an element) along an axis; without one, of
    the numbers in a row.
    """
    x = as_tensor(x)
    axis = dim if axis is None else axis
    if axis is None:
        x, axis = reshape(x, -1), 0
    axis = one_axis(axis, x.ndim, "repeat")
    counts = np.asarray(repeats)
    if counts.ndim > 1 or (counts.ndim == 1 and counts.size not in (1, x.shape[axis])):
        raise ShapeError(
            f"repeat's counts are one number or {x.shape[axis]}, one an element; got shape "
            f"{counts.shape}"
        )
    if (counts < 0).any():
        raise ValueError(f"repeat's counts have to be at least 0; got {repeats}")
    if counts.size == 1:
        n = int(counts.reshape(()))
        shape = x.shape
        wide = broadcast_to(expand_dims(x, axis + 1), (*shape[: axis + 1], n, *shape[axis + 1 :]))
        return reshape(wide, (*shape[:axis], shape[axis] * n, *shape[axis + 1 :]))
    return take(x, np.repeat(np.arange(x.shape[axis]), counts), axis)


def take(x: Any, indices: Any, axis: int | None = None, *, dim: int | None = None) -> Tensor:
    """Elements at `indices` along an axis; without one, of the numbers in a row."""
    x = as_tensor(x)
    axis = dim if axis is None else axis
    if axis is None:
        x, axis = reshape(x, -1), 0
    rows = _whole(indices, "take's indices")
    return getitem(x, (*(slice(None),) * one_axis(axis, x.ndim, "take"), rows))


def take_along_axis(
    x: Any, indices: Any, axis: int | None = -1, *, dim: int | None = None
) -> Tensor:
    """out[i, j, …] = x[indices[i, j, …], j, …] for axis 0: what `argsort` gives, applied. The other
    axes of `indices` are those of x, or 1.
    """
    x = as_tensor(x)
    axis = axis if dim is None else dim
    if axis is None:
        x, axis = reshape(x, -1), 0
    axis = one_axis(axis, x.ndim, "take_along_axis")
    rows = _whole(indices, "take_along_axis's indices")
    if rows.ndim != x.ndim:
        raise ShapeError(
            f"take_along_axis was given x {x.shape} and indices {rows.shape}; they need as many "
            "axes"
        )
    return getitem(x, along(rows, x.shape, axis))


def along(rows: Any, shape: tuple[int, ...], axis: int) -> tuple[Any, ...]:
    """The index that reads `rows` along one axis, and each of the others in place."""
    index: list[Any] = []
    for i, n in enumerate(shape):
        if i == axis:
            index.append(rows)
        else:
            index.append(np.arange(n).reshape([-1 if j == i else 1 for j in range(len(shape))]))
    return tuple(index)


def _whole(indices: Any, what: str) -> Any:
    data = indices._data if isinstance(indices, Tensor) else np.asarray(indices)
    if data.size == 0 and data.dtype.kind == "f":
        data = data.astype(int)
    if data.dtype.kind not in "iu":
        raise DTypeError(f"{what} have to be integers; got {data.dtype}: make them with dtype=int")
    return data


def set_at(x: Any, index: Any, value: Any) -> Tensor:
    """A copy of x with `value` written at `index`, in any of NumPy's forms: x[index] = value that a
    gradient can follow. What is written twice holds the last, as in NumPy.
    """
    x, value = one_float(x, value) if _floats(x, value) else (as_tensor(x), as_tensor(value))
    index = raw_index(index)
    places = np.arange(x.size).reshape(x.shape)[index]
    try:
        np.broadcast_to(np.empty(value.shape), places.shape)
    except ValueError as error:
        raise ShapeError(
            f"set_at cannot write a value of shape {value.shape} where the index reads shape "
            f"{places.shape}"
        ) from error
    flat = places.reshape(-1)
    last = np.zeros(x.size, int)
    last[flat] = np.arange(flat.size)
    winners = last[flat] == np.arange(flat.size)
    twice = None if winners.all() else Tensor(x._namespace.asarray(winners.reshape(places.shape)))
    return apply(_m.set_at, x, value, index=index, winners=None if twice is None else twice._data)


def _floats(*xs: Any) -> bool:
    return any(x.dtype.kind == "f" if hasattr(x, "dtype") else True for x in xs)


def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The elements [i, i + offset] of two axes, as a last axis, the other axes first."""
    x = as_tensor(x)
    if x.ndim < 2:
        raise ShapeError(f"diagonal needs two axes; got shape {x.shape}")
    first, second = (one_axis(i, x.ndim, "diagonal") for i in (axis1, axis2))
    if first == second:
        raise ShapeError(f"diagonal needs two different axes; got {axis1} and {axis2}")
    moved = moveaxis(x, (first, second), (-2, -1))
    rows, columns = moved.shape[-2:]
    start = max(-offset, 0)
    length = max(0, min(rows - start, columns - max(offset, 0)))
    i = np.arange(start, start + length)
    return getitem(moved, (..., i, i + offset))


def diag(x: Any, k: int = 0) -> Tensor:
    """A vector as the k-th diagonal of a square matrix of zeros; of a matrix, its diagonal."""
    x = as_tensor(x)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ShapeError(f"diag needs a vector or a matrix; got shape {x.shape}")
    n = x.shape[0] + abs(k)
    i = np.arange(x.shape[0]) + max(-k, 0)
    return scatter_add(x, (i, i + k), (n, n))


def tril(x: Any, k: int = 0) -> Tensor:
    """The last two axes without what lies above the k-th diagonal."""
    return _triangle(x, k, "tril", lower=True)


def triu(x: Any, k: int = 0) -> Tensor:
    """The last two axes without what lies below the k-th diagonal."""
    return _triangle(x, k, "triu", lower=False)


def _triangle(x: Any, k: int, name: str, lower: bool) -> Tensor:
    x = as_tensor(x)
    if x.ndim < 2:
        raise ShapeError(f"{name} needs two axes; got shape {x.shape}")
    rows, columns = x.shape[-2:]
    F = x._namespace
    steps = F.arange(columns)[None, :] - F.arange(rows)[:, None]
    keep = steps <= k if lower else steps >= k
    return where(Tensor(keep), x, F.zeros((), dtype=x.dtype))


def ravel(x: Any) -> Tensor:
    """All numbers in a row."""
    return reshape(x, shape_of((-1,)))


__all__ = [
    "along", "diag", "diagonal", "flip", "moveaxis", "pad", "ravel", "repeat", "roll", "rot90",
    "set_at", "take", "take_along_axis", "tile", "tril", "triu",
]  # fmt: skip
