"""A place in a backward pass, which moves both ways: between two contributions of a log."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

from tinygrad_edu.debugger.log import Event, Log, Use
from tinygrad_edu.drawing import facts

__all__ = ["Cursor"]

Array = Any


class Cursor:
    """A moment of a backward pass: after so many contributions (those to constants of the program
    are not counted).

    Nothing is undone when it moves back: a gradient at a moment is the sum of what had arrived.

    Attributes:
        log: the log.
        at: contributions made so far, from 0 to `len(cursor)`.
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        self.at = 0
        self._steps: list[tuple[int, Use | None]] = []
        self._ends: list[int] = []
        for event in log:
            told = [use for use in event.uses if not facts.is_constant(use.input)]
            self._steps += [(event.index, use) for use in told] or [(event.index, None)]
            self._ends.append(len(self._steps))
        self._changes: dict[int, list[int]] = {}
        for place, (_, use) in enumerate(self._steps, 1):
            if use is not None:
                self._changes.setdefault(id(use.input), []).append(place)

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def event(self) -> Event | None:
        """The event that the last contribution belongs to; None at the start."""
        return self.log[self._steps[self.at - 1][0]] if self.at else None

    @property
    def use(self) -> Use | None:
        """The last contribution; None at the start."""
        return self._steps[self.at - 1][1] if self.at else None

    @property
    def within(self) -> bool:
        """Whether the event still has contributions to make."""
        event = self.event
        return event is not None and self.at < self._ends[event.index]

    def gradient(self, node: Any) -> Array | None:
        """The gradient of a node at this moment; None where nothing has arrived."""
        if node is self.log.root:
            return self.log.gradient(node)
        return self.log._partial(node, self.arrived(node))

    def arrived(self, node: Any) -> int:
        """How many contributions a node has got so far."""
        return bisect_right(self._changes.get(id(node), ()), self.at)

    # Moving: each gives whether it moved.

    def step(self, by: int = 1) -> bool:
        """One contribution on, or back with by=-1."""
        return self.go(self.at + by)

    def next_event(self) -> bool:
        """To the end of this event, or of the next one."""
        following = bisect_right(self._ends, self.at)
        return following < len(self._ends) and self.go(self._ends[following])

    def previous_event(self) -> bool:
        """To the end of the event before."""
        before = bisect_left(self._ends, self.at)
        return self.go(self._ends[before - 1] if before else 0)

    def go_event(self, index: int) -> bool:
        """To the end of an event; -1 is the start."""
        return self.go(0 if index < 0 else self._ends[min(index, len(self._ends) - 1)])

    def go(self, at: int) -> bool:
        """To a moment."""
        before, self.at = self.at, max(0, min(at, len(self._steps)))
        return self.at != before

    def until(self, node: Any) -> bool:
        """On to where a node's gradient is whole; False where it is already, or never gets any."""
        places = self._changes.get(id(node), [])
        return bool(places) and places[-1] > self.at and self.go(places[-1])

    def last_change(self, node: Any) -> bool:
        """Back to the last contribution to a node before this moment."""
        places = self._changes.get(id(node), ())
        before = bisect_left(places, self.at)
        return before > 0 and self.go(places[before - 1])

    def first_change(self, node: Any) -> bool:
        """To the first contribution to a node."""
        places = self._changes.get(id(node), [])
        return bool(places) and self.go(places[0])
