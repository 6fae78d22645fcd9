"""The horizontal lines of a loss curve, for its two drawings: in a file and in the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from tinygrad_edu.lm.history import History

HIGHEST = 1.5
"""Times ln V. A loss above it is left out of the picture: a start gone wrong or a step that leapt
would press all that is to be compared into its lowest rows."""
LEAST_SPAN = 0.5
"""Nats from the lowest to the highest at least: hundredths are not blown up to a mountain range."""


class Line(NamedTuple):
    """A loss that stays the same: its name in full, and for where there is little room."""

    kind: str
    height: float
    name: str
    short: str


def lines(history: History, symbols: int) -> list[Line]:
    """The yardsticks from the highest down; ln V alone while the others are not measured."""
    uniform = math.log(symbols)
    found = [Line("uniform", uniform, f"uniform, ln {symbols} = {uniform:.2f}", "uniform")]
    known = history.yardsticks
    if known is None:
        return found
    if known.order > 1:
        found.append(Line("unigram", known.unigram, f"unigram {known.unigram:.2f}", "unigram"))
    name = "unigram" if known.order == 1 else f"{known.order}-gram"
    found.append(Line("ngram", known.ngram, f"{name} (the best) {known.ngram:.2f}", name))
    if known.floor is not None:
        found.append(Line("floor", known.floor, f"true source {known.floor:.2f}", "true source"))
    return found


def validated(history: History) -> list[tuple[int, float]]:
    """(step, loss) of the validations that came to a number."""
    return [(step, loss) for step, loss in history.validations if math.isfinite(loss)]


def heights(history: History, across: list[Line]) -> tuple[float, float]:
    """The lowest and highest of the lines, the validations and the smoothed training loss."""
    drawn = [loss for _, loss in validated(history)]
    drawn += [loss for loss in history.smoothed if math.isfinite(loss)]
    most = HIGHEST * max(line.height for line in across)
    drawn = [min(loss, most) for loss in drawn] + [line.height for line in across]
    low, high = min(drawn), max(drawn)
    missing = max(0.0, LEAST_SPAN - (high - low))
    low = max(0.0, low - missing / 2)
    return low, max(high, low + LEAST_SPAN)


def nats(loss: float) -> str:
    """`1.75`, `120`, `3e+12`: five symbols at most, for any float32."""
    if abs(loss) < 99.995:
        return f"{loss:.2f}"
    return f"{loss:.0f}" if abs(loss) < 99999.5 else f"{loss:.0e}"


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places for labels near those `wanted`, at least `gap` apart, in the same order.

    Where they do not all fit between `low` and `high`, they run over `high`.
    """
    order = sorted(range(len(wanted)), key=lambda i: -wanted[i])
    places = [0.0] * len(wanted)
    ceiling = high
    for i in order:  # from the top down, each as high as it may
        places[i] = min(max(wanted[i], low), ceiling)
        ceiling = places[i] - gap
    floor = low
    for i in reversed(order):  # and from the bottom up again, where the lowest went too low
        places[i] = max(places[i], floor)
        floor = places[i] + gap
    return places
