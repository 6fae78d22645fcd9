"""`lr-range.svg`: the loss over the learning rate of a range test, and what is read off it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinygrad_edu.lm.curve import INK, TRAINING, VALIDATION, plain_axes, rendered
from tinygrad_edu.lm.range_test import RangeTest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUGGESTED = "#00795A"
ROOM = 1.25
"""Times the highest smoothed loss before the lowest that is drawn: a loss that has gone wild would
press all else into a line."""


def to_svg(test: RangeTest, name: str) -> bytes:
    """The drawing, of a test on the text called `name`; the same test gives the same bytes."""
    return rendered(lambda: to_figure(test, name))


def to_figure(test: RangeTest, name: str) -> Figure:
    """The same as a matplotlib figure of its own."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 4.6), facecolor="white")
    figure.text(
        0.085, 0.94, f"{name}: learning-rate range test", color=INK, fontsize=11, parse_math=False
    )
    axes = figure.add_axes((0.085, 0.12, 0.875, 0.77))
    axes.set_xscale("log")
    axes.plot(test.rates, test.losses, color=TRAINING, alpha=0.5, linewidth=0.8, zorder=2)
    axes.plot(test.rates, test.smoothed, color=TRAINING, linewidth=2.0, zorder=3)
    low, high = min(test.smoothed), ROOM * max(test.smoothed[: test.lowest + 1])
    axes.set_xlim(test.rates[0], max(test.rates[-1], test.diverged or 0.0))
    axes.set_ylim(max(0.0, low - 0.12 * (high - low)), high)
    for step, words, colour, place in (
        (test.lowest, "lowest", VALIDATION, (0, -14)),
        (test.steepest, "steepest", INK, (8, 4)),
    ):
        if step is not None:
            point = (test.rates[step], test.smoothed[step])
            axes.plot(*point, color=colour, marker="o", markersize=6, zorder=4)
            axes.annotate(
                words, point, xytext=place, textcoords="offset points", color=colour,
                ha="left" if place[0] else "center",
            )  # fmt: skip
    if test.suggested is not None:
        axes.axvline(test.suggested, color=SUGGESTED, linestyle=(0, (6, 3)), linewidth=1.2)
        axes.annotate(
            f"suggested {test.suggested:.2g}", (test.suggested, high), xytext=(-5, -12),
            textcoords="offset points", color=SUGGESTED, ha="right",
        )  # fmt: skip
    if test.diverged is not None:
        axes.annotate(
            f"diverged at {test.diverged:.2g}", (test.diverged, high), xytext=(-5, -12),
            textcoords="offset points", color=VALIDATION, ha="right",
        )  # fmt: skip
    axes.set_xlabel("learning rate", color=INK)
    axes.set_ylabel("loss, nats a symbol", color=INK)
    plain_axes(axes)
    return figure
