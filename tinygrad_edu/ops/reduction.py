"""Reductions: many numbers become one, and its gradient is handed back to all of them.

`axis` arrives here as None or a tuple of non-negative integers; `keepdims` as a bool.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_edu.ops.registry import joint, linear

Array = Any
_ANY = ((-4.0, 4.0),)


def spread(F: Any, g: Array, shape: tuple[int, ...], axis: Any, keepdims: bool) -> Array:
    """`g` of a reduction, broadcast back to the `shape` that was reduced."""
    if axis is not None and not keepdims:
        g = F.reshape(g, tuple(1 if i in axis else n for i, n in enumerate(shape)))
    return F.broadcast_to(g, shape)


def count(shape: tuple[int, ...], axis: Any) -> int:
    """How many numbers go into each result."""
    return math.prod(shape if axis is None else [shape[i] for i in axis])


def _keep(F: Any, out: Array, shape: tuple[int, ...], axis: Any) -> Array:
    return F.reshape(
        out, tuple(1 if axis is None or i in axis else n for i, n in enumerate(shape))
    )


sum_ = linear(
    "sum", "Σ a", forward=lambda F, a, *, axis, keepdims: F.sum(a, axis=axis, keepdims=keepdims),
    transposes=(lambda F, g, a_shape, axis, keepdims: spread(F, g, a_shape, axis, keepdims),),
    analytic=True, degree=1, domain=_ANY,
)
mean = linear(
    "mean", "Σ a / n",
    forward=lambda F, a, *, axis, keepdims: F.mean(a, axis=axis, keepdims=keepdims),
    transposes=(
        lambda F, g, a_shape, axis, keepdims: spread(
            F, g * (1 / max(count(a_shape, axis), 1)), a_shape, axis, keepdims
        ),
    ),
    analytic=True, degree=1, domain=_ANY,
)


def _var(F: Any, a: Any, *, axis: Any, keepdims: Any, ddof: Any) -> Any:
    centred = a - F.mean(a, axis=axis, keepdims=True)
    total = F.sum(centred * centred, axis=axis, keepdims=keepdims)
    n = count(a.shape, axis) - ddof
    return total / n if n else total * math.nan


def _var_vjp(F: Any, g: Any, a: Any, axis: Any, keepdims: Any, ddof: Any) -> Any:
    centred = a - F.mean(a, axis=axis, keepdims=True)
    slope = spread(F, g * (2 / max(count(a.shape, axis) - ddof, 1)), a.shape, axis, keepdims)
    return (slope * centred,)


var = joint(
    "var", "Σ (a - mean)² / (n - ddof)", forward=_var, vjp=_var_vjp, reference=_var,
    analytic=True, domain=_ANY, kinks=("all equal: 0 with gradient 0",),
)


def _positive(F: Any, level: Array) -> Array:
    """`level`, and 1 where it is 0: to divide by."""
    return F.where(level == 0, F.ones_like(level), level)


def _std_vjp(F: Any, g: Any, a: Any, out: Any, axis: Any, keepdims: Any, ddof: Any) -> Any:
    centred = a - F.mean(a, axis=axis, keepdims=True)
    level = _positive(F, _keep(F, out, a.shape, axis))
    share = g * (1 / max(count(a.shape, axis) - ddof, 1))
    return (F.absorb(spread(F, share, a.shape, axis, keepdims), centred / level),)


std = joint(
    "std", "√(Σ (a - mean)² / (n - ddof))",
    forward=lambda F, a, *, axis, keepdims, ddof: F.sqrt(
        _var(F, a, axis=axis, keepdims=keepdims, ddof=ddof)
    ),
    vjp=_std_vjp, analytic=True, domain=_ANY,
    kinks=("all equal, or one alone: 0 with gradient 0",),
)  # fmt: skip


def _norm(F: Any, a: Any, *, axis: Any, keepdims: Any, p: float) -> Any:
    """Over the largest |a|, so that no power overflows or vanishes."""
    size = F.absolute(a)
    top = F.max(size, axis=axis, keepdims=True, initial=0.0)
    unit = F.where((top == 0) | (top == math.inf), F.ones_like(top), top)
    total = F.sum((size / unit) ** p, axis=axis, keepdims=True)
    out = unit * (F.sqrt(total) if p == 2 else total ** (1 / p))
    return out if keepdims else F.squeeze(out, axis=axis)


def _norm_vjp(F: Any, g: Any, a: Any, out: Any, axis: Any, keepdims: Any, p: float) -> Any:
    """sign(a)·(|a|/norm)^(p-1), a/norm for p = 2."""
    level = _positive(F, _keep(F, out, a.shape, axis))
    if p == 2:
        slope = a / level
    elif p == 1:
        slope = F.sign(a)
    else:
        share = F.where(a == 0, F.ones_like(a), F.absolute(a) / level)
        slope = F.where(a == 0, F.zeros_like(a), F.sign(a) * F.power(share, p - 1))
    return (F.absorb(spread(F, g, a.shape, axis, keepdims), slope),)


norm = joint(
    "norm", "(Σ |a|ᵖ)^(1/p)", forward=_norm, vjp=_norm_vjp, domain=_ANY,
    kinks=(
        "all 0: 0 with gradient 0",
        "p other than 2 and an element 0: its gradient is 0",
        "never overflows or vanishes on the way",
    ),
)  # fmt: skip


def _share(F: Any, a: Array, out: Array, axis: Any) -> Array:
    """What each element has of an extreme: 1/k for the k that tie, 0 for the others."""
    hit = a == _keep(F, out, a.shape, axis)
    ties = F.sum(hit, axis=axis, keepdims=True)
    # 1/k before the cast: k itself may be out of a float16's range.
    return F.cast(hit, dtype=a.dtype) * F.cast(1 / ties, dtype=a.dtype)


def _extreme_vjp(F: Any, g: Any, a: Any, out: Any, axis: Any, keepdims: Any) -> Any:
    return (F.absorb(spread(F, g, a.shape, axis, keepdims), _share(F, a, out, axis)),)


def _extreme_jvp(F: Any, tangents: Any, a: Any, *, out: Any, axis: Any, keepdims: Any) -> Any:
    return F.sum(F.absorb(tangents[0], _share(F, a, out, axis)), axis=axis, keepdims=keepdims)


max_ = joint(
    "max", "max a", forward=lambda F, a, *, axis, keepdims: F.max(a, axis=axis, keepdims=keepdims),
    vjp=_extreme_vjp, jvp=_extreme_jvp, domain=_ANY, kinks=("ties: shared equally",),
)
min_ = joint(
    "min", "min a", forward=lambda F, a, *, axis, keepdims: F.min(a, axis=axis, keepdims=keepdims),
    vjp=_extreme_vjp, jvp=_extreme_jvp, domain=_ANY, kinks=("ties: shared equally",),
)


def _finite_max(F: Any, a: Array, axis: Any) -> Array:
    """The maximum as a constant to subtract; 0 where it is infinite, so that inf - inf never is."""
    a = F.constant(a)
    if 0 in a.shape:  # the maximum of nothing: only its shape matters
        top = F.sum(a, axis=axis, keepdims=True)
        return F.zeros_like(top)
    top = F.max(a, axis=axis, keepdims=True)
    return F.where(F.isfinite(top), top, F.zeros_like(top))


def _not_empty(F: Any, total: Array) -> Array:
    """A sum of exponentials, 1 where all of them were e⁻ⁱⁿᶠ: to divide by or take the log of."""
    return F.where(F.constant(total) == 0, F.ones_like(total), total)


def _logsumexp(F: Any, a: Any, *, axis: Any, keepdims: Any) -> Any:
    top = _finite_max(F, a, axis)
    total = F.sum(F.exp(a - top), axis=axis, keepdims=True)
    out = F.log(_not_empty(F, total)) + top
    out = F.where(F.constant(total) == 0, F.full_like(out, -math.inf), out)
    return out if keepdims else F.squeeze(out, axis=axis)


def _shares(F: Any, a: Array, axis: Any) -> Array:
    """eᵃ / Σ eᵃ; numbers of +inf share equally, and where all are -inf each has 0."""
    if 0 in a.shape:
        return F.zeros_like(a)
    fixed = F.constant(a)
    top = F.max(fixed, axis=axis, keepdims=True)
    lead = a - top
    held = F.where(fixed == top, F.zeros_like(a), lead)  # inf - inf is none
    raised = F.exp(F.where(abs(top) == math.inf, held, lead))
    raised = F.where(top == -math.inf, F.zeros_like(a), raised)
    return raised / _not_empty(F, F.sum(raised, axis=axis, keepdims=True))


def _logsumexp_vjp(F: Any, g: Any, a: Any, axis: Any, keepdims: Any) -> Any:
    return (spread(F, g, a.shape, axis, keepdims) * _shares(F, a, axis),)


def _wide(F: Any, x: Array) -> Array:
    """A half precision array in float32: a sum of what it can hold may be beyond what it can."""
    return F.cast(x, dtype=np.dtype(np.float32)) if x.dtype == np.float16 else x


def _softmax_vjp(F: Any, g: Any, out: Any, axis: Any) -> Any:
    g, out = _wide(F, g), _wide(F, out)
    return (out * (g - F.sum(g * out, axis=axis, keepdims=True)),)


def _log_softmax_vjp(F: Any, g: Any, out: Any, axis: Any) -> Any:
    g, out = _wide(F, g), _wide(F, out)
    return (g - F.exp(out) * F.sum(g, axis=axis, keepdims=True),)


logsumexp = joint(
    "logsumexp", "ln Σ eᵃ", forward=_logsumexp, vjp=_logsumexp_vjp, reference=_logsumexp,
    domain=_ANY, kinks=("all -inf: -inf with gradient 0", "never overflows"),
)


def _softmax(F: Any, a: Any, *, axis: Any) -> Any:
    raised = F.exp(a - _finite_max(F, a, axis))
    total = F.sum(raised, axis=axis, keepdims=True)
    return raised / _not_empty(F, total)


softmax = joint(
    "softmax", "eᵃ / Σ eᵃ", forward=_softmax, reference=_softmax,
    vjp=_softmax_vjp, domain=_ANY,
    kinks=("a row of -inf alone: 0 with gradient 0", "never overflows"),
)


def _log_softmax(F: Any, a: Any, *, axis: Any) -> Any:
    shifted = a - _finite_max(F, a, axis)
    return shifted - F.log(_not_empty(F, F.sum(F.exp(shifted), axis=axis, keepdims=True)))


log_softmax = joint(
    "log_softmax", "a - ln Σ eᵃ", forward=_log_softmax, reference=_log_softmax,
    vjp=_log_softmax_vjp, domain=_ANY,
    kinks=("a row of -inf alone: -inf, never NaN", "never overflows"),
)
