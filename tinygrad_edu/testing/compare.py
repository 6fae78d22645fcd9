"""How near is near enough: errors counted in roundings of the terms that were added."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_ALL_DIGITS = 17.0


@dataclass(frozen=True, slots=True)
class Report:
    """What a check that passed has seen.

    Attributes:
        what: "vjp", "jvp" or "second order".
        oracle: what the numbers were held to: "complex step", "mpmath", "longdouble" or
            "differences" (see `testing.oracle`).
        digits: for each input (for a jvp: for the output) how many decimal digits agreed, at the
            worst entry, relative to the size of the terms added there; 17 where all were equal.
        entries: how many numbers were compared one by one.
    """

    what: str
    oracle: str
    digits: tuple[float, ...]
    entries: int


@dataclass(frozen=True, slots=True)
class Expected:
    """Numbers to be found: `size` is the sum of |terms| of each, `error` the oracle's own."""

    value: Array
    size: Array
    error: Array


def excess(got: Array, want: Expected, roundings: float) -> Array:
    """Where |got - want| is more than `roundings` of got's dtype at want's size: a bool array."""
    off = np.abs(got.astype(np.float64) - want.value)
    allowed = roundings * np.finfo(got.dtype).eps * want.size + want.error
    return np.asarray(~(off <= allowed))


def digits(got: Array, want: Expected) -> float:
    """How many decimal digits agree at the worst entry, relative to the terms added there."""
    off = np.abs(got.astype(np.float64) - want.value)
    wrong = off > 0
    if not wrong.any():
        return _ALL_DIGITS
    with np.errstate(divide="ignore"):
        worst = float(np.max(off[wrong] / want.size[wrong]))
    return min(_ALL_DIGITS, -math.log10(worst)) if 0 < worst < math.inf else 0.0


def describe(got: Array, want: Expected, bad: Array, oracle: str) -> str:
    """The first entry that is wrong, in a sentence."""
    at = tuple(int(i) for i in np.argwhere(bad)[0]) if bad.ndim else ()
    more = int(bad.sum()) - 1
    off, size = abs(float(got[at]) - float(want.value[at])), float(want.size[at])
    agreed = -math.log10(off / size) if 0 < off < size else 0.0
    return (
        f"at {list(at)}: got {got[at]!r}, expected {want.value[at]!r} by {oracle} ({agreed:.1f} "
        f"digits agree of terms of size {size:.3g}, oracle good to {float(want.error[at]):.1g})"
        + (f"; {more} more of {bad.size} entries are wrong" if more else "")
    )
