"""Clipping gradients, so that one wild batch does not throw the weights away (Pascanu et al. 2013,
section 3.2).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from tinygrad_edu.autograd import Tensor
from tinygrad_edu.autograd.tensor import grad_array
from tinygrad_edu.backend import namespace_of

__all__ = ["clip_grad_norm_", "clip_grad_value_"]

# A sum of squares between these has lost nothing to float32's range.
_FAITHFUL = (1e-25, 1e25)


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> float:
    """Scale all gradients by one factor so that their joint norm is at most `max_norm`; returns the
    norm before.

    The factor is max_norm/(norm + 1e-6) where that is below 1, as in PyTorch. `norm_type` is p of
    the p-norm, and may be `math.inf`. A norm that is inf or NaN is returned with the gradients
    untouched, so that one can still see which of them it came from; check it before stepping.

    Raises:
        ValueError: for a max_norm below 0 or a norm_type not above 0.
        FloatingPointError: for a norm that is not finite, with `error_if_nonfinite`.
    """
    if not max_norm >= 0:
        raise ValueError(f"clip_grad_norm_ was given max_norm={max_norm}, expected at least 0.")
    if not norm_type > 0:
        raise ValueError(f"clip_grad_norm_ was given norm_type={norm_type}, expected above 0.")
    owners = _with_gradients(parameters)
    norm = _joint_norm([grad_array(owner) for owner in owners], float(norm_type))
    if not math.isfinite(norm):
        if error_if_nonfinite:
            raise FloatingPointError(f"the gradients' norm is {norm}{_culprits(owners)}.")
        return norm
    factor = clip_factor(norm, max_norm)
    if factor < 1.0:
        scale_grads(owners, factor)
    return norm


def clip_factor(norm: float, max_norm: float) -> float:
    """What gradients of this joint norm are multiplied by; 1 where they stay, also if not finite.

    Raises:
        ValueError: for a max_norm below 0.
    """
    if not max_norm >= 0:
        raise ValueError(f"clip_grad_norm_ was given max_norm={max_norm}, expected at least 0.")
    return min(1.0, max_norm / (norm + 1e-6)) if math.isfinite(norm) else 1.0


def scale_grads(owners: Sequence[Tensor], factor: float) -> None:
    """Multiply the gradients of these parameters in place."""
    _rewrite(owners, lambda xp, array, out: xp.multiply(array, factor, out=out))


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Clamp each element of each gradient to [-clip_value, clip_value].

    Raises:
        ValueError: for a clip_value below 0.
    """
    if not clip_value >= 0:
        raise ValueError(f"clip_grad_value_ was given {clip_value}, expected at least 0.")
    bound = float(clip_value)
    _rewrite(
        _with_gradients(parameters), lambda xp, array, out: xp.clip(array, -bound, bound, out=out)
    )


def _with_gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    """The parameters that have a gradient, each once."""
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    found = {id(p): p for p in given if p._grad is not None}
    return list(found.values())


def _joint_norm(arrays: list[Any], p: float) -> float:
    """The p-norm of all elements of all arrays."""
    if not arrays:
        return 0.0
    if p == math.inf:
        largest = [float(namespace_of(a).xp.abs(a).max()) for a in arrays if a.size]
        return math.nan if any(map(math.isnan, largest)) else max(largest, default=0.0)
    if p == 2.0:
        return joint_norm([norm_of(array) for array in arrays])
    powers = [float((namespace_of(a).xp.abs(a.astype("float64")) ** p).sum()) for a in arrays]
    return float(sum(powers) ** (1.0 / p))


def joint_norm(norms: Sequence[float]) -> float:
    """√Σ norm²: of several arrays' 2-norms, that of all their elements."""
    return math.hypot(*norms)


def norm_of(array: Any) -> float:
    """√Σ a²; where squares would overflow or vanish, of the array over its largest element."""
    xp = namespace_of(array).xp
    flat = array.reshape(-1)
    if array.dtype.itemsize < 4:  # a sum of squares in half precision is soon beyond it
        flat = flat.astype("float32")
    squares = float(xp.vdot(flat, flat))  # which overflows without a warning
    if _FAITHFUL[0] < squares < _FAITHFUL[1] or not flat.size:
        return math.sqrt(squares)
    largest = float(xp.abs(flat).max())
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    flat = flat / largest
    return largest * math.sqrt(float(xp.vdot(flat, flat)))


def _rewrite(owners: Sequence[Tensor], operation: Any) -> None:
    """Apply `operation(xp, array, out)` to the gradients in place, once where two parameters share
    an array.

    An array that cannot be written (a broadcast view) is replaced.
    """
    done: dict[int, Tensor] = {}
    for owner in owners:
        gradient = owner.grad
        assert gradient is not None
        array = gradient.data
        if id(array) in done:
            owner.grad = done[id(array)]
            continue
        writeable = getattr(array.flags, "writeable", True)
        result = operation(namespace_of(array).xp, array, array if writeable else None)
        if writeable:
            gradient._written()
        else:
            owner.grad = Tensor(result)
        done[id(array)] = owner.grad  # type: ignore[assignment]


def _culprits(owners: list[Tensor]) -> str:
    names = [
        owner.name or f"parameter {index}"
        for index, owner in enumerate(owners)
        if not bool(namespace_of(owner.data).xp.isfinite(grad_array(owner)).all())
    ]
    return f": inf or NaN in the gradient of {', '.join(names)}" if names else ""
