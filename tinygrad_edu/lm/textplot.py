"""The loss curve in a terminal: symbols in rows, with the lines it compares with named beside."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from tinygrad_edu.lm.history import History
from tinygrad_edu.lm.lines import Line, heights, lines, nats, spread, validated

ROWS = 12
LABELS = 18
"""Columns for the names at the right."""
AXIS = 7
"""Columns for the numbers at the left, with the axis."""
NARROWEST = 40
"""Columns below which nothing is to be seen any more."""


class Marks(NamedTuple):
    """What is drawn with."""

    training: str
    validation: str
    across: dict[str, str]
    axis: str
    corner: str
    floor: str


UNICODE = Marks(
    "·", "●", {"uniform": "┈", "unigram": "╌", "ngram": "─", "floor": "═"}, "│", "└", "─"
)
ASCII = Marks(".", "o", {"uniform": "-", "unigram": "-", "ngram": "-", "floor": "="}, "|", "+", "-")


@dataclass(frozen=True)
class Piece:
    """Symbols that belong together, and of what kind: the reporter gives each kind a colour.

    Kinds are those of `Line`, "training", "validation", and "" for the frame.
    """

    text: str
    kind: str = ""


def plot(
    history: History, symbols: int, *, width: int = 80, marks: Marks = UNICODE
) -> list[list[Piece]]:
    """The curve as rows of pieces, none longer than `width`.

    None at all without two losses, or where `width` is less than `NARROWEST`.
    """
    if len(history.losses) < 2 or width < NARROWEST:
        return []
    grid = _Grid(history, lines(history, symbols), width - AXIS - LABELS - 1, marks)
    grid.draw()
    return [[Piece("nats".rjust(AXIS - 2))], *grid.rows(), *grid.foot()]


class _Grid:
    """Cells of one symbol each, the upper left one first."""

    def __init__(self, history: History, across: list[Line], columns: int, marks: Marks) -> None:
        self.history = history
        self.across = across
        self.columns = columns
        self.marks = marks
        self.validations = validated(history)
        self.last = max([1, *history.steps[-1:], *(step for step, _ in self.validations[-1:])])
        self.low, self.high = heights(history, across)
        self.cells = [[Piece(" ")] * columns for _ in range(ROWS)]

    def draw(self) -> None:
        """Lines first, losses over them, validations on top."""
        for line in self.across:
            row = self.row(line.height)
            self.cells[row] = [Piece(self.marks.across[line.kind], line.kind)] * self.columns
        for step, loss in zip(self.history.steps, self.history.smoothed, strict=True):
            self.put(step, loss, Piece(self.marks.training, "training"))
        for step, loss in self.validations:
            self.put(step, loss, Piece(self.marks.validation, "validation"))

    def put(self, step: int, loss: float, piece: Piece) -> None:
        """Nothing where the loss is no number, or above the picture."""
        if not math.isfinite(loss) or loss > self.high:
            return
        self.cells[self.row(loss)][round(step / self.last * (self.columns - 1))] = piece

    def row(self, loss: float) -> int:
        height = (self.high - loss) / (self.high - self.low)
        return min(ROWS - 1, max(0, round(height * (ROWS - 1))))

    def rows(self) -> list[list[Piece]]:
        """Each with a number at the left, and at the right the name of what ends there."""
        labels = self.labels()
        made = []
        for number, cells in enumerate(self.cells):
            height = self.high - number / (ROWS - 1) * (self.high - self.low)
            told = number % 3 == 0 or number == ROWS - 1
            shown = f"{height:{AXIS - 2}.2f} " if told else " " * (AXIS - 1)
            row = [Piece(shown + self.marks.axis), *cells]
            if number in labels:
                row += [Piece(" "), labels[number]]
            made.append(row)
        return made

    def labels(self) -> dict[int, Piece]:
        """The name of each line and loss, a row each, as near to it as there is a free one."""
        named = [
            (line.height, Piece(f"{line.short} {nats(line.height)}", line.kind))
            for line in self.across
        ]
        now = self.history.smoothed[-1]
        if math.isfinite(now):
            said = f"{self.marks.training} training {nats(now)}"
            named.append((now, Piece(said, "training")))
        if self.validations:
            now = self.validations[-1][1]
            said = f"{self.marks.validation} validation {nats(now)}"
            named.append((now, Piece(said, "validation")))
        named.sort(key=lambda pair: -pair[0])
        wanted = [float(ROWS - 1 - self.row(height)) for height, _ in named]
        places = spread(wanted, 1.0, 0.0, ROWS - 1.0)
        return {
            ROWS - 1 - round(place): piece
            for place, (_, piece) in zip(places, named, strict=True)
        }

    def foot(self) -> list[list[Piece]]:
        """The axis of steps, with its ends."""
        line = " " * (AXIS - 1) + self.marks.corner + self.marks.floor * self.columns
        last = f"{self.last:,}"
        middle = "steps".center(self.columns - 1 - len(last))
        return [[Piece(line)], [Piece(" " * AXIS + "0" + middle + last)]]
