"""Kinks: where a function has two slopes, one from each side, a gradient may lie between them.

Which of them an engine takes is its convention, and a check of its own (`check_convention`), so
that a test of a wrong rule does not slide to a kink, where any rule looks wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tinygrad_edu.testing import errors
from tinygrad_edu.testing.compare import Expected, excess
from tinygrad_edu.testing.oracle import Oracle
from tinygrad_edu.testing.subject import Traced, points

Array = npt.NDArray[Any]

_STEP = 2.0**-20
# Relative to the slopes: what curvature and rounding leave between the sides of a smooth point.
_SAME = 1e-4
_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Sides:
    """The least and the largest number between the slopes of both sides, and whether they differ:
    three arrays of one shape, and the size of the terms in them.
    """

    low: Array
    high: Array
    size: Array
    kink: Array


def sides(oracle: Oracle, vs: Sequence[Array], h: float) -> Sides:
    """The one-sided slopes of the function along `vs`, in its output's shape."""
    here = oracle.values(*oracle.xs)
    ahead = oracle.values(*[x + h * v for x, v in zip(oracle.xs, vs, strict=True)])
    behind = oracle.values(*[x - h * v for x, v in zip(oracle.xs, vs, strict=True)])
    right, left = (ahead - here) / h, (here - behind) / h
    size = np.maximum(np.abs(right), np.abs(left))
    noise = 4 * np.finfo(np.float64).eps * np.abs(here) / h
    kink = np.abs(right - left) > _SAME * size + noise
    return Sides(np.minimum(left, right), np.maximum(left, right), size + noise / _SAME, kink)


def entry_sides(oracle: Oracle, k: int, entry: int) -> Sides:
    """`sides` as entry number `entry` of input k moves alone."""
    x = float(oracle.xs[k].reshape(-1)[entry])
    return sides(oracle, oracle.basis(k, entry), _STEP * max(1.0, abs(x)))


def between(weight: Array, found: Sides) -> tuple[float, float, float]:
    """(low, high, size) of Σ weight·slope over the numbers of the output."""
    ends = np.stack([weight * found.low, weight * found.high])
    size = float((np.abs(weight) * found.size).sum())
    return float(ends.min(0).sum()), float(ends.max(0).sum()), size


def still_bad(oracle: Oracle, k: int, g: Array, flat: Array, bad: Array, roundings: float) -> Array:
    """Of the entries that differ from the oracle's, those that no kink and no shorter step explain.

    `flat`, `bad`: the gradient to input k at the entries judged, and where it was found wrong.
    """
    if oracle.name == "complex step":
        return bad
    left = bad.copy()
    wide = np.asarray(g, np.float64)
    for at in np.flatnonzero(bad):
        entry = int(oracle.entries[k][at])
        with np.errstate(all="ignore"):
            found = entry_sides(oracle, k, entry)
        if found.kink.any():
            low, high, size = between(wide, found)
            left[at] = not low - _TOLERANCE * size <= flat[at] <= high + _TOLERANCE * size
        else:  # a kink within the step, maybe: nearer by, it is out of reach
            slope = oracle.nearby(k, entry)
            terms = np.abs(wide * slope.value).sum()
            error = (np.abs(wide) * slope.error).sum()
            want = Expected(np.asarray((wide * slope.value).sum()), terms, error)
            left[at] = bool(excess(np.asarray(flat[at]), want, roundings))
    return left


def tangent_still_bad(
    oracle: Oracle, us: Sequence[Array], got: Array, bad: Array, roundings: float
) -> Array:
    """Of the numbers of a tangent that differ from the oracle's, those that no kink and no shorter
    step explain.
    """
    if oracle.name == "complex step" or not oracle.complete:
        return bad
    low, high, size = np.zeros(got.shape), np.zeros(got.shape), np.zeros(got.shape)
    value, error, kink = np.zeros(got.shape), np.zeros(got.shape), np.zeros(got.shape, bool)
    for k, u in enumerate(us):
        for entry, speed in enumerate(np.asarray(u, np.float64).reshape(-1)):
            with np.errstate(all="ignore"):
                found = entry_sides(oracle, k, entry)
                slope = oracle.nearby(k, entry)
            ends = np.stack([speed * found.low, speed * found.high])
            low, high = low + ends.min(0), high + ends.max(0)
            size = size + np.abs(speed) * found.size
            value, error = value + speed * slope.value, error + np.abs(speed) * slope.error
            kink |= found.kink
    between = (low - _TOLERANCE * size <= got) & (got <= high + _TOLERANCE * size)
    nearer = excess(got, Expected(value, size, error), roundings)
    return np.asarray(bad & np.where(kink, ~between, nearer))


def any_kink(oracle: Oracle) -> bool:
    """Whether the function has two slopes along some entry of its inputs."""
    with np.errstate(all="ignore"):
        return any(
            bool(entry_sides(oracle, k, int(entry)).kink.any())
            for k, entries in enumerate(oracle.entries)
            for entry in entries
        )


def check_convention(
    f: Callable[..., Any], x: Any, want: Any, *, g: Any = None, rel: float = 1e-12
) -> None:
    """Hold the gradient at x, a kink say, to the number that was chosen there, NaN and inf too.

    Raises:
        GradConventionError: another number.
    """
    arrays = points([x])
    traced = Traced(f, arrays)
    upstream = np.ones(traced.out.shape) if g is None else np.asarray(g)
    got = traced.pull(upstream.astype(traced.out.dtype))[0]
    wanted = np.broadcast_to(np.asarray(want, np.float64), arrays[0].shape)
    found = np.zeros(wanted.shape) if got is None else got.astype(np.float64)
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    with np.errstate(invalid="ignore"):
        same |= np.abs(found - wanted) <= rel * np.abs(wanted)
    if not same.all():
        at = tuple(int(i) for i in np.argwhere(~same)[0])
        raise errors.GradConventionError(
            f"at {arrays[0][at]!r} the gradient is {found[at]!r}, the convention {wanted[at]!r}"
        )
