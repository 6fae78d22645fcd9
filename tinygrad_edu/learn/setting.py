"""What the questions about one graph share: its names, and the same graph at other numbers.

A formula that is right only by luck of the numbers is found out by trying it elsewhere: the leaves
that have names are given others, the graph is built again, and its backward pass recorded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from tinygrad_edu.debugger.log import Log, record
from tinygrad_edu.drawing import facts
from tinygrad_edu.learn.answers import Formula, Reader
from tinygrad_edu.learn.replay import can_rebuild, rebuild

__all__ = ["Setting"]

TRIED = 2
"""Other assignments of the inputs that a formula has to be right at too."""
_MOST = 12


class Setting:
    """A log, and what grading an answer about it needs.

    Args:
        log: of one backward pass.
        seed: of the other numbers.
    """

    def __init__(self, log: Log, seed: int = 0) -> None:
        self.log = log
        self._rng = np.random.default_rng(seed)
        self._others: list[Log] = []
        self._places = {id(node): i for i, node in enumerate(log.nodes)}

    @cached_property
    def reader(self) -> Reader:
        """Reads formulas in the names of the graph."""
        return Reader([self.log.names[node] for node in self.log.nodes], self.log.loss)

    @cached_property
    def takes_formulas(self) -> bool:
        """Whether all of the graph is single numbers, and it can be built again."""
        scalar = all(facts.is_scalar(node) for node in self.log.nodes)
        return scalar and can_rebuild(self.log.nodes) and len(self._here) == len(self.log)

    def place(self, node: object) -> int:
        """Which of the nodes it is."""
        return self._places[id(node)]

    def worlds(self, event: int, use: int) -> Iterator[Log]:
        """The log itself in float64, and others of the same graph at other numbers, in which
        something arrives at the event and goes on to the use.
        """
        yield self._here
        found = 0
        for k in range(_MOST):
            if k == len(self._others):
                self._others.append(self._elsewhere(k))
            other = self._others[k]
            if len(other) != len(self.log) or not _alive(other, event, use):
                continue
            yield other
            found += 1
            if found == TRIED:
                return

    def value(self, formula: Formula, world: Log) -> float:
        """What a formula comes to in one of the worlds."""

        def number(kind: str, index: int) -> float:
            node = world.nodes[index]
            found = node.data if kind == "value" else world.gradient(node)
            return 0.0 if found is None else float(facts.host(found))

        return formula(number)

    @cached_property
    def _here(self) -> Log:
        return self._built({})

    def _built(self, numbers: dict[int, float]) -> Log:
        nodes = rebuild(self.log.nodes, numbers)
        found: Log = record(nodes[-1], gradient=self.log._seed)
        return found

    def _elsewhere(self, k: int) -> Log:
        """The graph at other numbers: near its own first, then anywhere, then nearer and nearer."""
        own = self._here
        numbers = {}
        for node, copy in zip(self.log.nodes, own.nodes, strict=True):
            if node.op is None and self.log.name(node) == self.log.names[node]:
                x = float(facts.host(copy.data))
                near = x * (1 + self._rng.uniform(-0.4, 0.4) / (1 + k // 4))
                free = k % 2 == 1 or x == 0.0
                numbers[id(node)] = float(self._rng.uniform(-2, 2)) if free else near
        return self._built(numbers)


def _alive(log: Log, event: int, use: int) -> bool:
    """Whether numbers are finite at an event, and what arrives there is not 0."""
    upstream = float(log[event].upstream)
    handed = float(log[event].uses[use].contribution)
    return math.isfinite(upstream) and math.isfinite(handed) and upstream != 0.0
