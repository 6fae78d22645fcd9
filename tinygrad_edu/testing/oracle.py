"""The judge of a function's derivatives, which asks its values only.

The graph of one run, made of references, is run again on other numbers, in the first way that can:

1. *complex step*, exact, where every operation is declared analytic;
2. *mpmath*, a difference over a step of 2⁻¹⁵⁰ in 400 bits, where it is installed and the graph is
   small;
3. *longdouble*, differences in NumPy's long double, where that is wider than float64;
4. *differences* of the function itself in float64, which always can.

Each of the first three is proved before it judges, against the fourth in one direction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tinygrad_edu import graph
from tinygrad_edu.autograd.apply import ABSENT
from tinygrad_edu.autograd.differences import Slope, basis, by_complex_step, by_differences
from tinygrad_edu.autograd.modes import enable_grad, no_grad, unfused
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.backend import NUMPY
from tinygrad_edu.testing import extended
from tinygrad_edu.testing.compare import Expected

Array = npt.NDArray[Any]
# From velocities of the inputs, and the longest step to take, to f's rate of change.
Way = Callable[[Sequence[Array], float], Slope]

# Inputs with more entries than this are judged at this many of them, drawn at random.
_ENTRIES = 600

# mpmath takes some microseconds a number: this many in all, a second or so.
_MPMATH_NUMBERS = 60_000

# Sixth differences over this step are below the digits of a long double where f is smooth.
_NOISE_STEP = 2.0**-24
_NOISY = 64.0


class Replay:
    """One run of a function, operation by operation, to be run again on other arrays."""

    def __init__(self, f: Callable[..., Any], xs: Sequence[Array]) -> None:
        self.leaves = [Tensor(x, requires_grad=True) for x in xs]
        # References alone: kernels are written for real numbers.
        with unfused(), enable_grad():
            self.order = graph.topological_order(f(*self.leaves))
        self.analytic = all(node.op is None or node.op.analytic for node in self.order)

    @property
    def numbers(self) -> int:
        """How many numbers one run computes."""
        return sum(node.size for node in self.order if node.op is not None)

    def __call__(self, *arrays: Array, F: Any = NUMPY) -> Array:
        """The value at `arrays`, of whatever numbers the namespace `F` computes with."""
        found: dict[int, Any] = {id(x): a for x, a in zip(self.leaves, arrays, strict=True)}
        for node in self.order:
            if node.op is None:
                found.setdefault(id(node), node._data)
            else:
                args = [found[id(x)] if x is not ABSENT else None for x in node._args]
                made = node.op.forward(F, *args, **node._params)
                found[id(node)] = np.asarray(made[0] if node.op.saves else made)
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
        self.name, self._way = self._first_proved()

    def values(self, *arrays: Array) -> Array:
        """The function's value, as a float64 array."""
        with no_grad():
            out: Array = self.f(*[Tensor(a) for a in arrays])._data
        return out

    def _ways(self) -> Iterator[tuple[str, Way]]:
        """Better oracles than differences in float64, the best first."""
        replay, xs = self._replay, self.xs
        if replay.analytic:
            yield "complex step", lambda vs, step: by_complex_step(replay, xs, vs)
        F = extended.high_precision()
        entries = sum(min(x.size, _ENTRIES) for x in xs)
        if F is not None and 2 * entries * replay.numbers <= _MPMATH_NUMBERS:
            at = partial(replay, F=F)
            yield "mpmath", lambda vs, step: extended.by_tiny_step(F, at, xs, vs)
        if extended.LONG is not None:
            wide = [x.astype(extended.LONG) for x in xs]
            yield "longdouble", lambda vs, step: by_differences(replay, wide, vs, step)

    def _plain(self, vs: Sequence[Array], step: float) -> Slope:
        return by_differences(self.values, self.xs, vs, step)

    def _first_proved(self) -> tuple[str, Way]:
        """The best way to a derivative that agrees with differences in one direction."""
        vs = [self.rng.uniform(0.5, 1, x.shape) for x in self.xs]
        seen = None
        for name, way in self._ways():
            try:
                with np.errstate(all="ignore"):
                    claimed = way(vs, self.step)
                    if name == "longdouble" and not self._is_long(vs):
                        continue
            except (TypeError, ValueError, ArithmeticError, AttributeError):
                continue  # not for such numbers; bare ones, of no axis, lack an array's attributes
            seen = seen or self._plain(vs, self.step)
            with np.errstate(invalid="ignore"):
                near = np.abs(claimed.value - seen.value) <= (
                    1e-6 * np.abs(claimed.value) + claimed.error + seen.error
                )
            if near.all():
                return name, way
        return "differences", self._plain

    def along(self, vs: Sequence[Array]) -> Slope:
        """The rate of change of f as the inputs move with velocities vs."""
        return self._way(vs, self.step)

    def _is_long(self, vs: Sequence[Array]) -> bool:
        """Whether a run on long doubles has their digits: no step of it goes through float64."""
        wide = [x.astype(extended.LONG) for x in self.xs]
        found = extended.noise(self._replay, wide, vs, _NOISE_STEP)
        here = self._replay(*wide)
        rounding = np.finfo(extended.LONG).eps * np.abs(here).max(initial=0.0)
        return here.dtype == extended.LONG and bool((found <= _NOISY * rounding).all())

    def basis(self, k: int, entry: int) -> list[Array]:
        """Velocities that move one entry (counted flat) of input k alone."""
        return basis(self.xs, k, entry)

    def nearby(self, k: int, entry: int) -> Slope:
        """The column of the Jacobian of one entry, over a much shorter step."""
        return self._way(self.basis(k, entry), self.step / 2**8)

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
