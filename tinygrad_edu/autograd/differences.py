"""Derivatives from values alone: what a gradient rule is judged by.

Functions here take and return NumPy arrays and know nothing of rules. Two ways:

* *complex step*: Im f(x + ihv)/h, exact to the last bits, as no difference is formed; the function
  has to be complex analytic and its code to run on complex arrays (Squire & Trapp 1998).
* *differences*: central differences at ever smaller steps, extrapolated to step 0 by Ridders'
scheme
  (Press et al., Numerical Recipes, section 5.7), which also estimates its own error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
ArrayFunction = Callable[..., Any]

# Powers of two, so that scaling by them rounds nothing.
_COMPLEX_STEP = 2.0**-100
_FIRST_STEP = 2.0**-5
_STEPS = 8


@dataclass(frozen=True, slots=True)
class Slope:
    """A rate of change with a bound on how wrong it may be: two arrays of one shape."""

    value: Array
    error: Array


def by_complex_step(f: ArrayFunction, xs: Sequence[Array], vs: Sequence[Array]) -> Slope:
    """The rate at which f(*xs) changes as xs move with velocities vs; f is complex analytic."""
    moved = [x + (1j * _COMPLEX_STEP) * v for x, v in zip(xs, vs, strict=True)]
    value = np.asarray(np.asarray(f(*moved)).imag / _COMPLEX_STEP)
    return Slope(value, np.zeros(value.shape))


def by_differences(
    f: ArrayFunction, xs: Sequence[Array], vs: Sequence[Array], step: float = _FIRST_STEP
) -> Slope:
    """The rate at which f(*xs) changes as xs move with velocities vs.

    The digits are those of f's own dtype, which may be longdouble; the answer is in float64.

    Args:
        f: smooth between xs - step·vs and xs + step·vs.
        xs: the point.
        vs: for each of xs an array of its shape.
        step: the first and largest step; each further one is half as long.
    """
    size = np.zeros(())
    here = np.asarray(f(*xs))
    varies = np.zeros(here.shape, bool)

    def central(h: float) -> Array:
        nonlocal size, varies
        ahead = np.asarray(f(*[x + h * v for x, v in zip(xs, vs, strict=True)]))
        behind = np.asarray(f(*[x - h * v for x, v in zip(xs, vs, strict=True)]))
        size = np.maximum(size, np.maximum(np.abs(ahead), np.abs(behind)))
        varies = varies | (ahead != here)
        changed: Array = ahead - behind
        return np.where(changed == 0, 0.0, changed / (2 * h))

    row = [central(step)]
    best, error = row[0], np.full(row[0].shape, np.inf)
    for i in range(1, _STEPS):
        previous, row = row, [central(step / 2**i)]
        factor = 1.0
        for j in range(i):
            factor *= 4.0
            row.append((factor * row[j] - previous[j]) / (factor - 1.0))
            found = np.maximum(np.abs(row[j + 1] - row[j]), np.abs(row[j + 1] - previous[j]))
            better = found <= error
            best, error = np.where(better, row[j + 1], best), np.where(better, found, error)
    # Ridders' estimate alone covers the true error in a quarter of cases, ten times it in nearly
    # all; what is left is rounding in f, magnified by the smallest step.
    dtype = here.dtype if here.dtype.kind == "f" else np.dtype(np.float64)
    eps = float(np.finfo(dtype).eps) if dtype.itemsize > 8 else float(np.finfo(np.float64).eps)
    rounding = eps * size / (step / 2 ** (_STEPS - 1))
    least = 4e5 * eps * np.abs(best)  # two estimates may be near each other by chance
    # Where the function does not move at all, 0 is exact; a symmetric one may hide a tiny slope.
    error = np.where(varies, 10 * error + rounding + least, 10 * error)
    return Slope(best.astype(np.float64), error.astype(np.float64))


def basis(xs: Sequence[Array], which: int, entry: int) -> list[Array]:
    """Velocities that move entry number `entry` of xs[which] alone, at speed 1."""
    vs = [np.zeros(np.shape(x)) for x in xs]
    vs[which].reshape(-1)[entry] = 1.0
    return vs
