"""Moving numbers about and writing over some of them: each gradient moves back."""

from __future__ import annotations

from typing import Any

from tinygrad_edu.ops.registry import linear

Array = Any
_ANY = ((-4.0, 4.0),)
_FACTS: dict[str, Any] = {"analytic": True, "degree": 1, "domain": _ANY}

flip = linear(
    "flip", "a with axes reversed", forward=lambda F, a, *, axis: F.flip(a, axis=axis),
    transposes=(lambda F, g, axis: F.flip(g, axis=axis),), **_FACTS,
)  # fmt: skip
roll = linear(
    "roll", "a pushed round along axes",
    forward=lambda F, a, *, shift, axis: F.roll(a, shift, axis=axis),
    transposes=(lambda F, g, shift, axis: F.roll(g, _back(shift), axis=axis),), **_FACTS,
)  # fmt: skip


def _back(shift: Any) -> Any:
    return tuple(-n for n in shift) if isinstance(shift, tuple) else -shift


def _pad(F: Any, a: Array, *, width: tuple[tuple[int, int], ...]) -> Array:
    shape = tuple(n + low + high for n, (low, high) in zip(a.shape, width, strict=True))
    out = F.zeros(shape, dtype=a.dtype)
    out[_inside(a.shape, width)] = a
    return out


def _inside(shape: tuple[int, ...], width: tuple[tuple[int, int], ...]) -> tuple[slice, ...]:
    return tuple(slice(low, low + n) for n, (low, _) in zip(shape, width, strict=True))


pad = linear(
    "pad", "a with zeros around it", forward=_pad,
    transposes=(lambda F, g, a_shape, width: F.getitem(g, index=_inside(a_shape, width)),),
    **_FACTS,
)  # fmt: skip


def _set_at(F: Any, a: Array, b: Array, *, index: Any, winners: Any) -> Array:
    out = a.copy()
    out[index] = b
    return out


def _overwritten(F: Any, g: Array, b: Array, index: Any) -> Array:
    return F.set_at(g, F.zeros_like(b), index=index, winners=None)


def _written(F: Any, g: Array, index: Any, winners: Any) -> Array:
    read = F.getitem(g, index=index)
    return read if winners is None else F.where(winners, read, F.zeros_like(read))


set_at = linear(
    "set_at", "a with b written at index", forward=_set_at, transposes=(_overwritten, _written),
    broadcasts=True, analytic=True, degree=1, domain=(*_ANY, *_ANY),
    kinks=("an element written k times holds the last, which alone gets the gradient",),
)  # fmt: skip
