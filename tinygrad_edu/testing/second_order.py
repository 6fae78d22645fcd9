"""Second derivatives, made in every way the engine can, held to differences of the gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tinygrad_edu.autograd import transforms
from tinygrad_edu.autograd.differences import basis, by_differences
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.testing import errors
from tinygrad_edu.testing.compare import Expected, Report, describe, digits, excess
from tinygrad_edu.testing.subject import numbers

Array = npt.NDArray[Any]
Function = Callable[..., Any]

# For sizes only, where a digit is enough.
_ROUGH_STEP = 2.0**-10


class Curvature:
    """H u for the Hessian H of ⟨g, f⟩ at `xs`, by each composition of the two modes."""

    def __init__(self, f: Function, xs: Sequence[Array], g: Array) -> None:
        self.f, self.xs, self.g = f, list(xs), g
        self.every = tuple(range(len(self.xs)))

    def gradients(self, *points: Any) -> tuple[Tensor, ...]:
        """The gradient of ⟨g, f⟩ to each input, as tensors."""
        found = transforms.vjp(self.f, *points)[1](Tensor(self.g))
        return found if isinstance(found, tuple) else (found,)

    def gradient_of_gradient(self, us: Sequence[Array]) -> Array:
        """Reverse over reverse."""

        def paired(*points: Any) -> Any:
            return _dot(self.gradients(*points), us)

        return _flat(transforms.grad(paired, argnums=self.every)(*self.xs))

    def tangent_of_gradient(self, us: Sequence[Array]) -> Array:
        """Forward over reverse."""
        return _flat(
            [
                transforms.jvp(lambda *points, k=k: self.gradients(*points)[k], self.xs, us)[1]
                for k in self.every
            ]
        )

    def _along(self, us: Sequence[Array]) -> Function:
        def slope(*points: Any) -> Any:
            tangent = transforms.jvp(self.f, points, us)[1]
            return _dot([tangent], [self.g])

        return slope

    def gradient_of_tangent(self, us: Sequence[Array]) -> Array:
        """Reverse over forward."""
        return _flat(transforms.grad(self._along(us), argnums=self.every)(*self.xs))

    def tangent_of_tangent(self, us: Sequence[Array]) -> Array:
        """Forward over forward: the number ⟨u, H u⟩."""
        return np.asarray(transforms.jvp(self._along(us), self.xs, us)[1]._data).reshape(1)

    def by_differences(self, us: Sequence[Array], step: float) -> Expected:
        """H u as a sum over the columns of H, each from differences of the gradient."""
        wide = [x.astype(np.float64) for x in self.xs]
        g = self.g.astype(np.float64)

        def gradient(*points: Array) -> Array:
            return self._gradient(g, points)

        total = sum(x.size for x in wide)
        value, size, error = np.zeros(total), np.zeros(total), np.zeros(total)
        for k, u in enumerate(us):
            for entry, speed in enumerate(np.asarray(u, np.float64).reshape(-1)):
                column = by_differences(gradient, wide, basis(wide, k, entry), step)
                value += speed * column.value
                size += np.abs(speed * column.value)
                error += np.abs(speed * column.error)
        return Expected(value, np.maximum(size, self._uncancelled(us)), error)

    def _gradient(self, g: Array, points: Sequence[Array]) -> Array:
        return _flat(transforms.vjp(self.f, *points)[1](Tensor(g)))

    def _uncancelled(self, us: Sequence[Array]) -> Array:
        """How large the terms of H u are that cancel over outputs, found by changing signs in g.

        Each pair of outputs has opposite signs in one pattern, and the same in the first, so no two
        cancel in all of them.
        """
        wide = [x.astype(np.float64) for x in self.xs]
        number = np.arange(self.g.size).reshape(self.g.shape)
        size = np.zeros(sum(x.size for x in wide))
        for bit in range(-1, max(self.g.size - 1, 0).bit_length()):
            signed = np.abs(self.g).astype(np.float64)
            if bit >= 0:
                signed = np.where(number >> bit & 1, -1.0, 1.0) * signed
            total = np.zeros(size.shape)
            for k, u in enumerate(us):
                for entry, speed in enumerate(np.asarray(u, np.float64).reshape(-1)):
                    move = basis(wide, k, entry)
                    ahead, behind = (
                        self._gradient(signed, [x + h * v for x, v in zip(wide, move, strict=True)])
                        for h in (_ROUGH_STEP, -_ROUGH_STEP)
                    )
                    total += np.abs(speed * (ahead - behind) / (2 * _ROUGH_STEP))
            size = np.maximum(size, total)
        return size


def hessian(
    f: Function,
    xs: Sequence[Array],
    g: Array,
    us: Sequence[Array],
    rng: np.random.Generator,
    roundings: float,
    step: float,
) -> Report:
    """See `checks.check_second_order`."""
    curvature = Curvature(f, xs, g)
    want = curvature.by_differences(us, step)
    found = {
        "the gradient of the gradient": curvature.gradient_of_gradient(us),
        "the tangent of the gradient": curvature.tangent_of_gradient(us),
        "the gradient of the tangent": curvature.gradient_of_tangent(us),
    }
    for way, got in found.items():
        bad = excess(got, want, roundings)
        if bad.any():
            raise errors.HessianValueError(
                f"{way} is wrong (entries of all inputs, end to end) "
                f"{describe(got, want, bad, 'differences')}"
            )
    flat = np.concatenate([np.asarray(u, np.float64).reshape(-1) for u in us])
    twice = Expected(
        np.asarray([flat @ want.value]),
        np.asarray([np.abs(flat) @ want.size]),
        np.asarray([np.abs(flat) @ want.error]),
    )
    got = curvature.tangent_of_tangent(us)
    bad = excess(got, twice, roundings)
    if bad.any():
        raise errors.HessianValueError(
            f"the tangent of the tangent is wrong {describe(got, twice, bad, 'differences')}"
        )
    _check_symmetric(curvature, us, found["the gradient of the gradient"], rng, want, roundings)
    worst = min(digits(way, want) for way in found.values())
    return Report("second order", "differences", (worst,), want.value.size)


def _check_symmetric(
    curvature: Curvature,
    us: Sequence[Array],
    along_u: Array,
    rng: np.random.Generator,
    want: Expected,
    roundings: float,
) -> None:
    vs = [numbers(x.shape, x.dtype, rng) for x in curvature.xs]
    along_v = curvature.gradient_of_gradient(vs)
    u, v = _flat(us), _flat(vs)
    left, right = (v * along_u).sum(), (u * along_v).sum()
    size = (np.abs(v) * want.size).sum() + np.abs(u * along_v).sum()
    if not abs(left - right) <= roundings * np.finfo(along_u.dtype).eps * size:
        raise errors.HessianAsymmetry(f"⟨v, H u⟩ is {left!r}, but ⟨u, H v⟩ is {right!r}")


def _dot(tensors: Sequence[Tensor], arrays: Sequence[Array]) -> Any:
    total: Any = None
    for t, a in zip(tensors, arrays, strict=True):
        term = (t * Tensor(a)).sum()
        total = term if total is None else total + term
    return total


def _flat(parts: Any) -> Array:
    pieces = [parts] if isinstance(parts, (Tensor, np.ndarray)) else list(parts)
    arrays = [p._data if isinstance(p, Tensor) else np.asarray(p) for p in pieces]
    return np.concatenate([a.reshape(-1) for a in arrays])
