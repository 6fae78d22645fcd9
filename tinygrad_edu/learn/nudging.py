"""A gradient found without any rule: the program is run again with one number nudged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tinygrad_edu.autograd.differences import basis, by_differences
from tinygrad_edu.autograd.modes import no_grad
from tinygrad_edu.drawing import facts
from tinygrad_edu.learn.replay import rebuild
from tinygrad_edu.learn.showing import brief, wrapped

__all__ = ["Checked", "differences", "held"]

Array = Any


@dataclass(frozen=True)
class Checked:
    """One gradient of a hunt's pass, held to differences of the program.

    Attributes:
        node: the name of the node.
        here: what the pass gave; None where nothing arrived.
        numeric: what differences say.
        ok: whether the two agree.
    """

    node: str
    here: Array | None
    numeric: Array
    ok: bool

    def __repr__(self) -> str:
        return wrapped(self._said())

    def _said(self) -> str:
        left = f"∂L/∂{self.node}"
        if self.here is None:
            return f"{left}: nothing arrived in this pass, by differences {brief(self.numeric)} ✗"
        if np.shape(self.here) != self.numeric.shape:
            return (
                f"{left} has shape {np.shape(self.here)} in this pass, but {self.node} has shape "
                f"{self.numeric.shape} ✗"
            )
        if self.numeric.ndim == 0:
            return (
                f"{left} = {brief(self.here)} in this pass, by differences "
                f"{brief(self.numeric)} {'✓' if self.ok else '✗'}"
            )
        if self.ok:
            return f"{left}: all {self.numeric.size} numbers agree with differences ✓"
        off = np.abs(self.here - self.numeric)
        at = tuple(int(i) for i in np.unravel_index(int(off.argmax()), off.shape))
        count = int((off > 1e-6 * (np.abs(self.numeric) + 1e-3)).sum())
        return (
            f"{left}: {count} of {off.size} numbers differ; at {list(at)} it is "
            f"{brief(self.here[at])} in this pass, by differences {brief(self.numeric[at])} ✗"
        )


def differences(nodes: list[Any], node: Any) -> tuple[Array, Array]:
    """The gradient of the last of `nodes` to one of them, and how wrong it may be, found by running
    the graph with other numbers there; in the node's shape.
    """
    at = np.asarray(facts.host(node.data), np.float64)

    def loss(x: Array) -> Array:
        with no_grad(), np.errstate(all="ignore"):  # a step may leave the domain
            return np.asarray(facts.host(rebuild(nodes, {id(node): x})[-1].data))

    slope, error = np.zeros(at.shape), np.zeros(at.shape)
    for entry in range(at.size):
        found = by_differences(loss, [at], basis([at], 0, entry), step=2.0**-7)
        slope.reshape(-1)[entry], error.reshape(-1)[entry] = found.value, found.error
    return slope, error


def held(nodes: list[Any], node: Any, name: str, here: Array | None) -> Checked:
    """The gradient that a pass gave a node, held to differences."""
    numeric, error = differences(nodes, node)
    ok = False
    if here is not None and np.shape(here) == numeric.shape:
        size = max(float(np.abs(numeric).max(initial=0.0)), 1e-3)
        ok = bool((np.abs(np.subtract(here, numeric)) <= 1e-6 * size + error).all())
    return Checked(name, here, numeric, ok)
