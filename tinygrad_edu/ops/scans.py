"""Products and running totals. No gradient here divides: a zero among the factors is ordinary."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_edu import backend
from tinygrad_edu.ops.reduction import spread
from tinygrad_edu.ops.registry import joint, linear

Array = Any
_ANY = ((-4.0, 4.0),)


def _backwards(F: Any, g: Array, axis: int) -> Array:
    return F.flip(F.cumsum(F.flip(g, axis=axis), axis=axis), axis=axis)


cumsum = linear(
    "cumsum", "Σ of a so far", forward=lambda F, a, *, axis: F.cumsum(a, axis=axis),
    transposes=(lambda F, g, axis: _backwards(F, g, axis),), analytic=True, degree=1, domain=_ANY,
)  # fmt: skip

# The product of all.


def _as_rows(F: Any, a: Array, axis: tuple[int, ...] | None) -> tuple[Array, list[int]]:
    """(a with the axes of the product made one, at the end; the order of axes it was given)."""
    axes = tuple(range(a.ndim)) if axis is None else axis
    order = [i for i in range(a.ndim) if i not in axes] + list(axes)
    moved = F.transpose(a, order)
    lead = moved.shape[: a.ndim - len(axes)]
    length = 1
    for i in axes:
        length *= a.shape[i]
    return F.reshape(moved, (*lead, length)), order


def _others(F: Any, x: Array) -> Array:
    """Each number's product with all others of its row left out, by a tree: pairs, pairs of pairs.

    The rest of a pair is what the pair itself lacks, times the other one of the two.
    """
    length = x.shape[-1]
    if length <= 1:
        return F.ones_like(x)
    if length % 2:
        x = F.concatenate([x, F.ones_like(x[..., :1])], axis=-1)
    left, right = x[..., 0::2], x[..., 1::2]
    rest = _others(F, left * right)
    both = F.stack([rest * right, rest * left], axis=-1)
    return F.reshape(both, x.shape)[..., :length]


def _prod(F: Any, a: Array, *, axis: Any, keepdims: bool) -> Array:
    with np.errstate(over="ignore", under="ignore"):
        out = F.prod(a, axis=axis, keepdims=keepdims)
    if F is backend.NUMPY and a.dtype.kind == "f" and not (np.isfinite(out) & (out != 0)).all():
        rows, _ = _as_rows(F, a, axis)
        out = np.asarray(_scaled_product(rows)).reshape(np.shape(out)).astype(a.dtype)
    return out


def _scaled_product(x: Array) -> Array:
    """Π over the last axis with exponents apart, for products that leave the range on the way."""
    x, exponent = np.frexp(x)
    exponent = exponent.astype(np.int64)
    while x.shape[-1] > 1:
        if x.shape[-1] % 2:
            x = np.concatenate([x, np.ones_like(x[..., :1])], axis=-1)
            exponent = np.concatenate([exponent, np.zeros_like(exponent[..., :1])], axis=-1)
        x, more = np.frexp(x[..., 0::2] * x[..., 1::2])
        exponent = exponent[..., 0::2] + exponent[..., 1::2] + more
    if not x.shape[-1]:
        return np.ones(x.shape[:-1], x.dtype)
    return np.ldexp(x[..., 0], np.clip(exponent[..., 0], -(2**20), 2**20))


def _prod_vjp(F: Any, g: Any, a: Any, axis: Any, keepdims: Any) -> Any:
    rows, order = _as_rows(F, a, axis)
    others = F.reshape(_others(F, rows), tuple(a.shape[i] for i in order))
    others = F.transpose(others, tuple(sorted(range(a.ndim), key=order.__getitem__)))
    return (F.absorb(spread(F, g, a.shape, axis, keepdims), others),)


prod = joint(
    "prod", "Π a", forward=_prod, vjp=_prod_vjp, domain=_ANY, analytic=True,
    kinks=(
        "one 0: its gradient is the product of the others, theirs are 0",
        "two 0: all gradients are 0",
        "a product that leaves the range on the way is right at the end",
    ),
)  # fmt: skip

# The product so far.


def _later(F: Any, x: Array, steps: int, fill: Any) -> Array:
    """What stands `steps` later in each row, and `fill(…)` beyond its end."""
    return F.concatenate([x[..., steps:], fill(x[..., :steps])], axis=-1)


def _cumprod_vjp(F: Any, g: Any, a: Any, axis: Any) -> Any:
    """dᵢ = (Π of a before i)·rᵢ with rᵢ = gᵢ + aᵢ₊₁·rᵢ₊₁, composed over 1, 2, 4, … neighbours."""
    a, r = F.swapaxes(a, axis, -1), F.swapaxes(g, axis, -1)
    if not a.shape[-1]:
        return (g,)
    before = F.cumprod(a, axis=a.ndim - 1)[..., :-1]
    before = F.concatenate([F.ones_like(a[..., :1]), before], axis=-1)
    m = _later(F, a, 1, F.ones_like)
    steps = 1
    while steps < a.shape[-1]:
        r = r + F.absorb(_later(F, r, steps, F.zeros_like), m)
        m = m * _later(F, m, steps, F.ones_like)
        steps *= 2
    return (F.swapaxes(F.absorb(r, before), axis, -1),)


cumprod = joint(
    "cumprod", "Π of a so far", forward=lambda F, a, *, axis: F.cumprod(a, axis=axis),
    vjp=_cumprod_vjp, domain=_ANY, analytic=True,
    kinks=("zeros: no division, so nothing is NaN",),
)  # fmt: skip
