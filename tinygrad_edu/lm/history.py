"""What a run has measured so far, step by step: the log `metrics.jsonl` in memory.

Each line of the log is one JSON object with a `step` and

    loss, learning_rate, gradient_norm, seconds                of an update
    validation_loss, perplexity, bits_per_byte, seconds        of a validation
    gradient_norms                                             then too, by part of the model
    uniform, unigram, ngram, order, counted, floor             the yardsticks, once a run
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tinygrad_edu.lm.errors import RunError
from tinygrad_edu.lm.yardsticks import Yardsticks

SMOOTHING = 0.95
"""How much of the average each step keeps: it looks back about 20 steps."""
RECENT = 100
"""The steps whose mean loss stands for the training loss now: one batch says little."""


@dataclass
class History:
    """The course of a run.

    Attributes:
        steps, losses: each update and the loss of its batch, in nats, before it.
        smoothed: the losses as an exponential average.
        validations: (step, loss on the held-out part) of each validation.
        yardsticks: what the losses are compared with; None until they are known.
    """

    steps: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    validations: list[tuple[int, float]] = field(default_factory=list)
    yardsticks: Yardsticks | None = None
    smoothed: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._average = Smooth()

    def add(self, row: dict[str, Any]) -> None:
        """Take up one line of the log; what else stands in it is left alone."""
        if row.get("loss") is not None:
            self.steps.append(int(row["step"]))
            self.losses.append(float(row["loss"]))
            self.smoothed.append(self._average.add(self.losses[-1]))
        elif row.get("validation_loss") is not None:
            self.validations.append((int(row["step"]), float(row["validation_loss"])))
        elif "uniform" in row:
            self.yardsticks = Yardsticks.from_row(row)

    def recent_loss(self) -> float | None:
        """The mean training loss of the last steps: `RECENT`, or a tenth of them if that is less.

        Early losses of a short run would say nothing of the model that it ended with.
        """
        last = self.losses[-max(1, min(RECENT, len(self.losses) // 10)) :]
        return sum(last) / len(last) if last else None

    def best(self) -> tuple[int, float] | None:
        """(step, loss) of the lowest validation, the first where there are several."""
        return min(self.validations, key=lambda found: found[1], default=None)


def read_history(log: Path) -> History:
    """What stands in a run's metrics.jsonl; nothing where there is none yet.

    A last line without its end, as a process that was killed leaves it, is left alone.

    Raises:
        RunError: a whole line that is no JSON object with a step, or has words for numbers.
    """
    history = History()
    for number, row in log_rows(log):
        try:
            history.add(row)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _damaged(log, number, error) from error
    return history


def log_rows(log: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each whole line of a run's metrics.jsonl as what it says, with its number, from 1.

    Raises:
        RunError: a line that is no JSON object with a step.
    """
    if not log.exists():
        return
    for number, line in _whole_lines(log):
        try:
            row = json.loads(line)
            row["step"]
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(log, number, error) from error
        yield number, row


def _damaged(log: Path, number: int, error: Exception) -> RunError:
    return RunError(
        f"line {number} of {log} is not a JSON object with a step and numbers ({error}); "
        "restore the file, or move it away to go on without it"
    )


def _whole_lines(log: Path) -> Iterable[tuple[int, bytes]]:
    """Each with its number, from 1. As bytes: what is no text is told as any other damage."""
    with open(log, "rb") as file:
        for number, line in enumerate(file, start=1):
            if line.endswith(b"\n"):
                yield number, line


class Smooth:
    """An exponential average, unbiased from the first value on."""

    def __init__(self, keep: float = SMOOTHING) -> None:
        self.keep = keep
        self.total = 0.0
        self.weight = 0.0

    def add(self, value: float) -> float:
        """The average with `value` in it.

        One that is not finite is left out, since it would stay in it for ever; before the first
        that is finite there is no average: nan.
        """
        if not math.isfinite(value):
            return self.total / self.weight if self.weight else math.nan
        self.total = self.keep * self.total + (1 - self.keep) * value
        self.weight = self.keep * self.weight + (1 - self.keep)
        return self.total / self.weight
