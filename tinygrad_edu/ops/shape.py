"""Moving numbers about without changing them: each gradient moves them back."""

from __future__ import annotations

from typing import Any

from tinygrad_edu.ops.registry import joint, linear

_ANY = ((-4.0, 4.0),)
_FACTS: dict[str, Any] = {"analytic": True, "degree": 1, "domain": _ANY}


def _to_shape(F: Any, g: Any, a_shape: Any) -> Any:
    return F.reshape(g, a_shape)


def _sum_to_shape(F: Any, g: Any, a_shape: Any) -> Any:
    lead = g.ndim - len(a_shape)
    axis = tuple(range(lead)) + tuple(
        i + lead for i, n in enumerate(a_shape) if n == 1 and g.shape[i + lead] != 1
    )
    return F.reshape(F.sum(g, axis=axis), a_shape) if axis else g


def _inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


reshape = linear(
    "reshape", "a in another shape", forward=lambda F, a, *, shape: F.reshape(a, shape),
    transposes=(_to_shape,), **_FACTS,
)
transpose = linear(
    "transpose", "a with axes permuted", forward=lambda F, a, *, axes: F.transpose(a, axes),
    transposes=(lambda F, g, axes: F.transpose(g, _inverse(axes)),), **_FACTS,
)
swapaxes = linear(
    "swapaxes", "a with two axes swapped",
    forward=lambda F, a, *, axis1, axis2: F.swapaxes(a, axis1, axis2),
    transposes=(lambda F, g, axis1, axis2: F.swapaxes(g, axis1, axis2),), **_FACTS,
)
expand_dims = linear(
    "expand_dims", "a with new axes of length 1",
    forward=lambda F, a, *, axis: F.expand_dims(a, axis),
    transposes=(_to_shape,), **_FACTS,
)
squeeze = linear(
    "squeeze", "a without axes of length 1", forward=lambda F, a, *, axis: F.squeeze(a, axis=axis),
    transposes=(_to_shape,), **_FACTS,
)
broadcast_to = linear(
    "broadcast_to", "a repeated to a shape",
    forward=lambda F, a, *, shape: F.broadcast_to(a, shape),
    transposes=(_sum_to_shape,), **_FACTS,
)


def _cut(F: Any, g: Any, arrays_shape: Any, axis: Any) -> Any:
    start, pieces = 0, []
    before = (slice(None),) * (axis % g.ndim)
    for shape in arrays_shape:
        stop = start + shape[axis]
        pieces.append(g[(*before, slice(start, stop))])
        start = stop
    return pieces


def _unstack(F: Any, g: Any, arrays_shape: Any, axis: Any) -> Any:
    before = (slice(None),) * (axis % g.ndim)
    return [g[(*before, i)] for i in range(len(arrays_shape))]


def _move_tangents(name: str) -> Any:
    def jvp(F: Any, tangents: Any, *arrays: Any, out: Any, axis: Any) -> Any:
        pairs = zip(tangents, arrays, strict=True)
        filled = [F.zeros_like(a) if t is None else t for t, a in pairs]
        return getattr(F, name)(filled, axis=axis)

    return jvp


concatenate = joint(
    "concatenate", "arrays end to end",
    forward=lambda F, *arrays, axis: F.concatenate(arrays, axis=axis),
    vjp=_cut, jvp=_move_tangents("concatenate"), **_FACTS,
)
stack = joint(
    "stack", "arrays along a new axis", forward=lambda F, *arrays, axis: F.stack(arrays, axis=axis),
    vjp=_unstack, jvp=_move_tangents("stack"), **_FACTS,
)
