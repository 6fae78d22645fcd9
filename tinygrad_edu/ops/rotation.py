"""Rotary positions: each pair of numbers of a vector is turned by an angle that its position gives.

The product of a query at position m and a key at position n then depends on m - n only, which is
how attention gets to know distances (Su et al. 2021, RoFormer, section 3.2.2). Numbers i and
i + d/2 of a vector of width d make a pair, as in Hugging Face's Llama (the paper pairs neighbours,
which is the same up to the order of the rows of the matrix before it).
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tinygrad_edu import backend
from tinygrad_edu.ops.registry import joint

Array = Any


@functools.lru_cache(32)
def _turns(width: int, theta: float, positions: int) -> tuple[Array, Array]:
    """(cos, sin) of position · theta^(-2i/width), both (positions, width/2) in float64."""
    frequencies = theta ** (-np.arange(0, width, 2) / width)
    angles = np.arange(positions)[:, None] * frequencies
    return np.cos(angles), np.sin(angles)


@functools.lru_cache(32)
def _placed(arrays: Any, width: int, theta: float, positions: int, dtype: str) -> Any:
    """The same where an array library keeps its arrays, in the dtype of what is turned."""
    return tuple(arrays.asarray(part.astype(dtype)) for part in _turns(width, theta, positions))


def _angles(x: Array, start: int, theta: float) -> tuple[Array, Array]:
    """(cos, sin), each (T, d/2), for positions start, …, start + T - 1 of x (…, T, d)."""
    arrays = backend.namespace_of(x)
    length, width = x.shape[-2:]
    room = 1 << (start + length).bit_length()  # one table serves all shorter texts
    if arrays.name == "numpy" and x.dtype.kind != "f":  # Values, complex numbers
        cos, sin = _turns(width, theta, room)
    else:
        cos, sin = _placed(arrays, width, theta, room, str(x.dtype))
    return cos[start : start + length], sin[start : start + length]


def _rotary(F: Any, x: Array, *, start: Any, theta: Any, back: Any) -> Array:
    cos, sin = _angles(x, start, theta)
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    out = F.empty(x.shape, dtype=x.dtype)
    first, second = out[..., :half], out[..., half:]
    F.multiply(a, cos, out=first)
    F.multiply(b, cos, out=second)
    if back:
        first += b * sin
        second -= a * sin
    else:
        first -= b * sin
        second += a * sin
    return out


def _rotary_reference(F: Any, x: Any, *, start: Any, theta: Any, back: Any) -> Any:
    cos, sin = _angles(F.constant(x), start, theta)
    sin = -sin if back else sin
    half = x.shape[-1] // 2
    a = F.getitem(x, index=(..., slice(None, half)))
    b = F.getitem(x, index=(..., slice(half, None)))
    return F.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


rotary = joint(
    "rotary", "pairs of x turned by position · θ^(-2i/d)", forward=_rotary,
    vjp=lambda F, g, start, theta, back: (
        F.rotary(g, start=start, theta=theta, back=not back),
    ),
    reference=_rotary_reference, analytic=True, domain=((-4.0, 4.0),),
)  # fmt: skip
