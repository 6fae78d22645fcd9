"""`bisect_gradient(loss)`: the first operation whose own derivative disagrees with differences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinygrad_edu.debugger.checking import check_rule, handed_on
from tinygrad_edu.debugger.log import Check, Event, Log, Use, record
from tinygrad_edu.debugger.text import made_text, place_text, wrapped
from tinygrad_edu.drawing import facts

__all__ = ["Bisection", "bisect_gradient"]


@dataclass(frozen=True)
class Bisection:
    """What was found: the first operation, in the order of the forward pass, whose rule is wrong.

    Attributes:
        event: the event of that operation in `log`; None where every rule agrees.
        use: the input whose derivative is wrong; None where every rule agrees.
        check: what differences say of it.
        checked: how many derivatives were held to differences, up to and with the wrong one.
        skipped: how many could not be: at numbers that are not finite, and clips of Values.
        log: the event log.
        errors: relative error by `id` of a node, the largest over its inputs.
    """

    event: Event | None
    use: Use | None
    check: Check | None
    checked: int
    skipped: int
    log: Log
    errors: dict[int, float] = field(repr=False)

    @property
    def found(self) -> bool:
        """Whether some operation's derivative is wrong."""
        return self.event is not None

    @property
    def overlay(self) -> Callable[[Any], float | None]:
        """`tg.draw(loss, overlay=found.overlay)` colours each operation by its error."""
        return lambda node: self.errors.get(id(node))

    def __str__(self) -> str:
        skipped = f", {self.skipped} could not be" if self.skipped else ""
        if self.event is None or self.use is None:
            return "\n".join(
                wrapped(
                    f"each of {self.checked} local derivatives agrees with differences{skipped}: "
                    "what is wrong is not a rule. Look for a detach, for numbers computed outside "
                    "of the graph, or for data written to between forward and backward"
                )
            )
        log, node = self.log, self.event.node
        formula = self.use.formula
        said = facts.formula(node)
        lines = [
            f"the first operation whose derivative is wrong is {log.names[node]}",
            f"  {made_text(log, node)}" + (f"   ({said})" if said else ""),
        ]
        if self.event.source:
            lines.append(f"  at {place_text(self.event)}")
        lines.append(f"  its rule for {self.use.name}: {formula.names}")
        lines.append(f"  by differences {self.check}")
        lines.append(f"  ({self.checked} local derivatives were checked{skipped})")
        return "\n".join(part for line in lines for part in wrapped(line))


def bisect_gradient(loss: Any, gradient: Any = None) -> Bisection:
    """Check each operation that `loss` is made of by itself, inputs first, on the numbers it had.

    Each is given an upstream gradient of its own without zeros, so that a rule that is wrong where
    nothing arrives is found too. At a kink, what lies between the slopes of both sides is right.

    Args:
        loss: a `Value` or a `Tensor` that operations made.
        gradient: the upstream gradient of `loss` in the log; 1 for one number.

    Raises:
        GraphError: as `tg.record`.
    """
    log = loss if isinstance(loss, Log) else record(loss, gradient=gradient)
    errors: dict[int, float] = {}
    first: tuple[Event, Use, Check] | None = None
    checked = skipped = 0
    for event in reversed(log):
        for use in event.uses:
            found = _checked(event.node, use)
            if found is None:
                skipped += first is None
                continue
            errors[id(event.node)] = max(errors.get(id(event.node), 0.0), found.error)
            checked += first is None
            if not found.ok and first is None:
                first = event, use, found
    event, use, check = first if first is not None else (None, None, None)
    return Bisection(event, use, check, checked, skipped, log, errors)


def _checked(node: Any, use: Use) -> Check | None:
    numbers = [facts.host(x.data) for x in (node, *node.inputs)]
    if not all(np.isfinite(x).all() for x in numbers if x.dtype.kind == "f"):
        return None
    shape = facts.shape_of(node)
    rng = np.random.default_rng(0)
    upstream = rng.integers(4, 13, shape) / 8 * rng.choice([-1.0, 1.0], shape)
    g = np.asarray(upstream).astype(facts.host(node.data).dtype)
    return check_rule(node, use.slot, g, handed_on(node, use.slot, g))


