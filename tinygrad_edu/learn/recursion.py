"""What goes wrong without topological order: plain recursion, which hands on as it is called.

    a = tg.Value(1.0, name="a"); b = a + a; c = b + b
    print(without_order(c))

It visits a node once a path, with what has arrived by then, so that a value used twice hands on too
early, and again. The engine is not touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tinygrad_edu.debugger.log import Log, record
from tinygrad_edu.drawing import facts
from tinygrad_edu.errors import GraphError
from tinygrad_edu.scalar.value import Value

__all__ = ["Recursion", "without_order"]

_MOST = 10_000


@dataclass(frozen=True)
class Recursion:
    """A pass by plain recursion beside the right one.

    Attributes:
        gradients: what it leaves at each node, by name.
        right: what the right pass gives.
        steps: its additions, as lines.
        first_wrong: the line of the first number that no right pass has; -1 where all are right.
    """

    gradients: dict[str, float]
    right: dict[str, float]
    steps: tuple[str, ...]
    first_wrong: int

    def __str__(self) -> str:
        lines = ["Plain recursion, without topological order:"]
        for i, step in enumerate(self.steps):
            mark = "   ← the first wrong number" if i == self.first_wrong else ""
            lines.append(f"  {step}{mark}")
        lines.append("In the end:")
        for name, got in self.gradients.items():
            mark = "✓" if got == self.right[name] else f"✗ it is {facts.number(self.right[name])}"
            lines.append(f"  {name}.grad = {facts.number(got)} {mark}")
        return "\n".join(lines)


def without_order(loss: Any) -> Recursion:
    """Run a backward pass of Values by plain recursion.

    Args:
        loss: a `Value`, or its log.

    Raises:
        GraphError: it takes more than 10,000 steps, as a graph of many paths does.
        TypeError: `loss` is no `Value`.
    """
    log = loss if isinstance(loss, Log) else record(loss)
    if not isinstance(log.root, Value):
        raise TypeError("without_order() takes a Value: its gradients are single numbers")
    final = {id(x): float(log.gradient(x) or 0.0) for x in log.nodes}
    got: dict[int, float] = {id(log.root): 1.0}
    steps: list[str] = []
    first_wrong = -1
    allowed = _allowed(log)
    waiting: list[tuple[Any, int]] = [(log.root, 0)]
    while waiting:
        node, slot = waiting.pop()
        if slot == len(node.inputs):
            continue
        waiting.append((node, slot + 1))
        x = node.inputs[slot]
        before = got.get(id(x), 0.0)
        after = got[id(x)] = before + got[id(node)] * node.local_derivatives[slot]
        steps.append(
            f"{log.names[node]} hands on {facts.number(got[id(node)])}: {log.name(x)}.grad "
            f"{facts.number(before)} → {facts.number(after)}"
        )
        if first_wrong < 0 and after not in allowed[id(x)]:
            first_wrong = len(steps) - 1
        if len(steps) > _MOST:
            raise GraphError("plain recursion walks every path, and here are too many of them")
        waiting.append((x, 0))
    names = {log.names[x]: x for x in log.nodes if not facts.is_constant(x)}
    return Recursion(
        {name: got.get(id(x), 0.0) for name, x in names.items()},
        {name: final[id(x)] for name, x in names.items()}, tuple(steps), first_wrong,
    )  # fmt: skip


def _allowed(log: Log) -> dict[int, set[float]]:
    """The numbers that a gradient has on its way in the right pass."""
    found: dict[int, set[float]] = {id(x): set() for x in log.nodes}
    for x in log.nodes:
        found[id(x)].update(float(entry.after) for entry in log.ledger(x))
    return found
