"""How fast training goes, and how long the rest will take."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator

Clock = Callable[[], float]


class Pace:
    """How fast it goes: the steps by themselves, and the whole with validations and checkpoints."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.before = 0.0
        self.started = self.last = clock()
        self.average = 0.0
        self.weight = 0.0
        self.paused = 0.0
        self.pauses = 0

    def start(self) -> None:
        """The first step is about to begin."""
        self.started = self.last = self.clock()

    def tick(self) -> None:
        """A step has been made; recent ones weigh most (an exponential average, bias-corrected)."""
        now = self.clock()
        self.average = 0.95 * self.average + 0.05 * (now - self.last)
        self.weight = 0.95 * self.weight + 0.05
        self.last = now

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """What happens inside, a validation or a checkpoint, is no part of a step."""
        began = self.clock()
        yield
        length = self.clock() - began
        self.paused += length
        self.pauses += 1
        self.last += length

    def rate(self) -> float:
        """Steps a second; 0 before the first."""
        return self.weight / self.average if self.average > 0 else 0.0

    def total(self) -> float:
        """Seconds spent, over all resumptions."""
        return self.before + self.clock() - self.started

    def left(self, steps: int, pauses: float) -> float:
        """Seconds to go, for `steps` more steps and `pauses` more pauses, as they went so far."""
        if not self.average:
            return math.inf
        pause = self.paused / self.pauses if self.pauses else 0.0
        return steps / self.rate() + pauses * pause
