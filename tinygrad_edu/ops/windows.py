"""Windows that slide over the last axes, and their transpose, which adds windows back together.

What a convolution or a pooling does with each window is a sum of products or a reduction like any
other; this is the part that is its own.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from tinygrad_edu import backend
from tinygrad_edu.ops.registry import linear

Array = Any
Sizes = tuple[int, ...]
_ANY = ((-4.0, 4.0),)


def counts(lengths: Sizes, size: Sizes, step: Sizes, dilation: Sizes) -> Sizes:
    """How many windows there are along each axis."""
    spans = [d * (k - 1) + 1 for k, d in zip(size, dilation, strict=True)]
    return tuple((n - w) // s + 1 for n, w, s in zip(lengths, spans, step, strict=True))


def _slices(where: Sizes, many: Sizes, step: Sizes, dilation: Sizes) -> tuple[Any, ...]:
    """Where the elements at place `where` of all windows stand."""
    starts = [i * d for i, d in zip(where, dilation, strict=True)]
    return (
        ...,
        *(slice(a, a + s * (n - 1) + 1, s) for a, n, s in zip(starts, many, step, strict=True)),
    )


def _windows(F: Any, a: Array, *, size: Sizes, step: Sizes, dilation: Sizes) -> Array:
    axes = len(size)
    lead = a.shape[: a.ndim - axes]
    many = counts(a.shape[a.ndim - axes :], size, step, dilation)
    if F is backend.NUMPY:
        strides = a.strides[a.ndim - axes :]
        moves = [n * s for n, s in zip(strides, step, strict=True)]
        inside = [n * d for n, d in zip(strides, dilation, strict=True)]
        return np.lib.stride_tricks.as_strided(
            a, (*lead, *many, *size), (*a.strides[: a.ndim - axes], *moves, *inside),
            writeable=False,
        )  # fmt: skip
    out = F.zeros((*lead, *many, *size), dtype=a.dtype)
    for where in product(*map(range, size)):
        out[(..., *where)] = a[_slices(where, many, step, dilation)]
    return out


def _joined(
    F: Any, a: Array, *, lengths: Sizes, size: Sizes, step: Sizes, dilation: Sizes
) -> Array:
    axes = len(size)
    out = F.zeros((*a.shape[: a.ndim - 2 * axes], *lengths), dtype=a.dtype)
    many = a.shape[a.ndim - 2 * axes : a.ndim - axes]
    for where in product(*map(range, size)):
        out[_slices(where, many, step, dilation)] += a[(..., *where)]
    return out


windows = linear(
    "windows", "all windows of the last axes", forward=_windows,
    transposes=(
        lambda F, g, a_shape, size, step, dilation: F.joined_windows(
            g, lengths=tuple(a_shape[len(a_shape) - len(size) :]), size=size, step=step,
            dilation=dilation,
        ),
    ),
    analytic=True, degree=1, domain=_ANY,
    kinks=("an element of k windows gets the sum of k gradients",),
)  # fmt: skip
joined_windows = linear(
    "joined_windows", "windows added where they stood", forward=_joined,
    transposes=(
        lambda F, g, size, step, dilation: F.windows(g, size=size, step=step, dilation=dilation),
    ),
    analytic=True, degree=1, domain=_ANY,
)  # fmt: skip
