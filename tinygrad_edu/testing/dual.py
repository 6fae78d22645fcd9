"""Dual numbers: a value that carries its Jacobian along, by the calculus a student knows.

An evaluator of programs that shares nothing with the engine: no graph, no rules, NumPy alone. The
Jacobian of a value to each leaf is an array of the value's shape and the leaf's, end to end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass
class Dual:
    """A value and, by the name of each leaf it depends on, its Jacobian."""

    value: Array
    jacobian: dict[Any, Array] = field(default_factory=dict)

    def gradient(self, leaf: Any, g: Array) -> Array | None:
        """The gradient of ⟨g, value⟩ to a leaf; None if the value does not depend on it."""
        found = self.jacobian.get(leaf)
        return None if found is None else np.tensordot(g, found, axes=self.value.ndim)


def leaf(name: Any, value: Array) -> Dual:
    """A value that is its own variable."""
    unit = np.eye(value.size).reshape(value.shape + value.shape)
    return Dual(value, {name: unit})


def _along(slope: Array, j: Array) -> Array:
    """slope · j, for a slope in the shape of the value."""
    return np.asarray(slope.reshape(slope.shape + (1,) * (j.ndim - slope.ndim)) * j)


def apply_slope(x: Dual, value: Array, slope: Array) -> Dual:
    """A function of x element by element, from its value and its derivative there."""
    return Dual(value, {name: _along(slope, j) for name, j in x.jacobian.items()})


def _sum(parts: list[dict[Any, Array]]) -> dict[Any, Array]:
    total: dict[Any, Array] = {}
    for part in parts:
        for name, j in part.items():
            total[name] = total[name] + j if name in total else j
    return total


def _stretched(x: Dual, shape: tuple[int, ...]) -> dict[Any, Array]:
    """The Jacobians of x, broadcast to `shape`."""
    found = {}
    for name, j in x.jacobian.items():
        rest = j.shape[x.value.ndim :]
        lead = (1,) * (len(shape) - x.value.ndim)
        found[name] = np.broadcast_to(j.reshape(lead + j.shape), shape + rest)
    return found


def combine(x: Dual, y: Dual, value: Array, dx: Any, dy: Any) -> Dual:
    """A function of two, element by element and broadcast, from its value and both slopes."""
    shape = value.shape
    parts = []
    for operand, slope in ((x, dx), (y, dy)):
        full = np.broadcast_to(np.asarray(slope, float), shape)
        parts.append({n: _along(full, j) for n, j in _stretched(operand, shape).items()})
    return Dual(value, _sum(parts))


def add(x: Dual, y: Dual) -> Dual:
    """x + y."""
    return combine(x, y, x.value + y.value, 1.0, 1.0)


def subtract(x: Dual, y: Dual) -> Dual:
    """x - y."""
    return combine(x, y, x.value - y.value, 1.0, -1.0)


def multiply(x: Dual, y: Dual) -> Dual:
    """x · y."""
    return combine(x, y, x.value * y.value, y.value, x.value)


def tanh(x: Dual) -> Dual:
    """tanh x."""
    return apply_slope(x, np.tanh(x.value), 1 / np.cosh(x.value) ** 2)


def sin(x: Dual) -> Dual:
    """sin x."""
    return apply_slope(x, np.sin(x.value), np.cos(x.value))


def square(x: Dual) -> Dual:
    """x²."""
    return apply_slope(x, x.value * x.value, 2 * x.value)


def linear(x: Dual, move: Callable[[Array], Array]) -> Dual:
    """A linear function that moves or adds numbers: it does to the Jacobian what it does to x."""
    found = {}
    for name, j in x.jacobian.items():
        columns = j.reshape(*x.value.shape, -1)
        moved = np.stack([move(columns[..., k]) for k in range(columns.shape[-1])], axis=-1)
        found[name] = moved.reshape(moved.shape[:-1] + j.shape[x.value.ndim :])
    return Dual(np.asarray(move(x.value)), found)


def total(x: Dual) -> Dual:
    """Σ x."""
    return linear(x, np.sum)


def flipped(x: Dual) -> Dual:
    """All axes reversed in order."""
    return linear(x, np.transpose)


def first(x: Dual) -> Dual:
    """The first row, or x itself where it has no axes."""
    return linear(x, lambda a: a[:1] if a.ndim else a)
