"""The judge of a function's derivatives, which asks its values only.

Where every operation of the function is declared analytic, the graph of one run, made of
references, is run again on complex numbers; the declaration is proved first, against differences in
one direction. Where it does not hold, or the code cannot take complex numbers, differences judge
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tinygrad_edu import graph
from tinygrad_edu.autograd.apply import ABSENT
from tinygrad_edu.autograd.differences import Slope, basis, by_complex_step, by_differences
from tinygrad_edu.autograd.modes import enable_grad, no_grad, unfused
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.backend import NUMPY
from tinygrad_edu.testing.compare import Expected

Array = npt.NDArray[Any]

# Inputs with more entries than this are judged at this many of them, drawn at random.
_ENTRIES = 600


class Replay:
    """One run of a function, operation by operation, to be run again on other arrays."""

    def __init__(self, f: Callable[..., Any], xs: Sequence[Array]) -> None:
        self.leaves = [Tensor(x, requires_grad=True) for x in xs]
        # References alone: kernels are written for real numbers.
        with unfused(), enable_grad():
            self.order = graph.topological_order(f(*self.leaves))
        self.analytic = all(node.op is None or node.op.analytic for node in self.order)

    def __call__(self, *arrays: Array) -> Array:
        """The value at `arrays`, which may be complex."""
        found: dict[int, Any] = {id(x): a for x, a in zip(self.leaves, arrays, strict=True)}
        for node in self.order:
            if node.op is None:
                found.setdefault(id(node), node._data)
            else:
                args = [found[id(x)] if x is not ABSENT else None for x in node._args]
                made = node.op.forward(NUMPY, *args, **node._params)
                found[id(node)] = made[0] if node.op.saves else made
        out: Array = found[id(self.order[-1])]
        return out


class Oracle:
    """Derivatives of `f` (tensors to one tensor) at the float arrays `xs`, in float64."""

    def __init__(
        self, f: Callable[..., Any], xs: Sequence[Array], step: float, seed: int, inner: float
    ) -> None:
        self.f = f
        self.inner = inner
        self.xs = [x.astype(np.float64) for x in xs]
        self.step = step
        self.rng = np.random.default_rng(seed)
        self._replay = Replay(f, self.xs)
        self.name = "complex step" if self._proved_analytic() else "differences"

    def values(self, *arrays: Array) -> Array:
        """The function's value, as a float64 array."""
        with no_grad():
            out: Array = self.f(*[Tensor(a) for a in arrays])._data
        return out

    def _proved_analytic(self) -> bool:
        """Whether complex step may be used: declared by every operation, and true."""
        if not self._replay.analytic:
            return False
        vs = [self.rng.uniform(0.5, 1, x.shape) for x in self.xs]
        try:
            claimed = by_complex_step(self._replay, self.xs, vs).value
        except (TypeError, ValueError):
            return False
        seen = by_differences(self.values, self.xs, vs, self.step)
        with np.errstate(invalid="ignore"):
            near = np.abs(claimed - seen.value) <= 1e-6 * np.abs(claimed) + seen.error
        return bool(near.all())

    def along(self, vs: Sequence[Array]) -> Slope:
        """The rate of change of f as the inputs move with velocities vs."""
        if self.name == "complex step":
            return by_complex_step(self._replay, self.xs, vs)
        return by_differences(self.values, self.xs, vs, self.step)

    def basis(self, k: int, entry: int) -> list[Array]:
        """Velocities that move one entry (counted flat) of input k alone."""
        return basis(self.xs, k, entry)

    def nearby(self, k: int, entry: int) -> Slope:
        """The column of the Jacobian of one entry, from differences over a much shorter step."""
        return by_differences(self.values, self.xs, self.basis(k, entry), self.step / 2**8)

    @cached_property
    def entries(self) -> list[Array]:
        """For each input the entries (flat) that are judged one by one."""
        return [
            np.arange(x.size)
            if x.size <= _ENTRIES
            else np.sort(self.rng.choice(x.size, _ENTRIES, replace=False))
            for x in self.xs
        ]

    @cached_property
    def columns(self) -> list[list[Slope]]:
        """For each input the columns of its Jacobian: one an entry judged, in output shape."""
        return [
            [self.along(basis(self.xs, k, int(e))) for e in entries]
            for k, entries in enumerate(self.entries)
        ]

    def gradient(self, k: int, g: Array) -> Expected:
        """⟨g, f⟩'s gradient to input k, at the entries judged (1-d), each a sum over outputs."""
        slopes = self.columns[k]
        wide = np.asarray(g, np.float64)
        return self._expected(
            np.array([(wide * s.value).sum() for s in slopes], np.float64),
            np.array([np.abs(wide * s.value).sum() for s in slopes], np.float64),
            np.array([np.abs(wide * s.error).sum() for s in slopes], np.float64),
        )

    def _expected(self, value: Array, size: Array, error: Array) -> Expected:
        return Expected(value, np.maximum(size, self.inner * size.max(initial=0.0)), error)

    @property
    def complete(self) -> bool:
        """Whether every entry of every input is judged one by one."""
        return all(x.size <= _ENTRIES for x in self.xs)

    def tangent(self, us: Sequence[Array], shape: tuple[int, ...]) -> Expected:
        """J u in the output's shape, each entry a sum over inputs."""
        if not self.complete:
            slope = self.along([np.asarray(u, np.float64) for u in us])
            return self._expected(slope.value, np.abs(slope.value), slope.error)
        value, size, error = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        for u, slopes in zip(us, self.columns, strict=True):
            for speed, slope in zip(np.asarray(u, np.float64).reshape(-1), slopes, strict=True):
                value = value + speed * slope.value
                size = size + np.abs(speed * slope.value)
                error = error + np.abs(speed * slope.error)
        return self._expected(value, size, error)
