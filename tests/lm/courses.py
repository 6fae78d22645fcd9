"""Runs that never were, to be drawn."""

from __future__ import annotations

import math

from tinygrad_edu.lm.history import History
from tinygrad_edu.lm.yardsticks import Yardsticks

SYMBOLS = 103
KNOWN = Yardsticks(math.log(SYMBOLS), 3.24, 1.19, 6, 1000, floor=1.0)


def course(steps: int = 200, known: Yardsticks | None = KNOWN) -> History:
    found = History()
    for step in range(1, steps + 1):
        found.add({"step": step, "loss": 1.3 + 3.2 * math.exp(-step / 40)})
        if step % 50 == 0:
            found.add({"step": step, "validation_loss": 1.4 + 3.2 * math.exp(-step / 40)})
    if known:
        found.add({"step": 0, **known.to_row()})
    return found


def spoilt(values: dict[int, float]) -> History:
    """A course of 100 steps in which the batches of some lose something else."""
    found = History()
    found.add({"step": 0, **KNOWN.to_row()})
    for step in range(1, 101):
        found.add({"step": step, "loss": values.get(step, 1.3 + 3.2 * math.exp(-step / 20))})
    return found
