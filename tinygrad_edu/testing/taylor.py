"""Taylor's remainder: after the linear part, what is left of a change shrinks with its square."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinygrad_edu.testing import errors
from tinygrad_edu.testing.compare import Report
from tinygrad_edu.testing.subject import Traced, by_hand, directions, points, reproducible, upstream

_STEPS = tuple(2.0**-k for k in range(4, 15))


def check_taylor(
    f: Callable[..., Any],
    *xs: Any,
    g: Any = None,
    us: Sequence[Any] | None = None,
    vjp: Callable[..., Any] | None = None,
    rate: float = 1.9,
    seed: int = 0,
) -> Report:
    """Hold R(h) = |⟨g, f(x + h·u) - f(x)⟩ - h·⟨Jᵀ g, u⟩| to a rate of 2: half the step, a quarter.

    A check without a tolerance for the gradient, blind to its scale (Farrell et al. 2013). Where f
    is linear or R is rounding alone, R has to be as small as rounding. f is to be smooth within
    1/16 of xs along us; arguments as for `check_vjp`.

    Raises:
        TaylorRateError: the remainder falls at another rate; the message has both columns.
    """
    arrays = points(xs)
    rng = np.random.default_rng(seed)
    traced = Traced(f, arrays)
    given = upstream(traced.out, g, rng)
    moves = directions(arrays, us, rng)
    with reproducible("check_taylor", arrays, given):
        pull = traced.pull if vjp is None else by_hand(vjp, arrays)
        slope = sum(
            float((d.astype(np.float64) * u).sum())
            for d, u in zip(pull(given), moves, strict=True)
            if d is not None
        )
        here = traced.out._data.astype(np.float64)
        wide = given.astype(np.float64)
        eps = float(np.finfo(given.dtype).eps)
        steps, rests = [], []
        for h in _STEPS:
            moved = [(x + h * u).astype(x.dtype) for x, u in zip(arrays, moves, strict=True)]
            there = Traced(f, moved).out._data.astype(np.float64)
            rest = abs(float((wide * (there - here)).sum()) - h * slope)
            size = float((np.abs(wide) * (np.abs(there) + np.abs(here))).sum()) + abs(h * slope)
            if not rest <= 1e3 * eps * size:
                steps.append(h)
                rests.append(rest)
        _check_rate(steps, rests, rate)
    return Report("taylor", "the function's own values", (), len(_STEPS))


def _check_rate(steps: list[float], rests: list[float], rate: float) -> None:
    """Over the steps whose remainder is more than rounding."""
    if len(steps) < 2:
        if steps and steps[0] != _STEPS[0]:
            _refuse(steps, rests, float("nan"))
        return
    with np.errstate(all="ignore"):
        found = float(np.polyfit(np.log(steps), np.log(rests), 1)[0])
    if not found >= rate:
        _refuse(steps, rests, found)


def _refuse(steps: list[float], rests: list[float], found: float) -> None:
    table = ", ".join(f"h=2^{np.log2(h):.0f}: {r:.2e}" for h, r in zip(steps, rests, strict=True))
    raise errors.TaylorRateError(
        f"the remainder falls like h^{found:.2f}, expected h^2: the gradient is not that of the "
        f"function ({table})"
    )
