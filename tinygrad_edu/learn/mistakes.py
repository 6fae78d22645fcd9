"""The mistakes that a bug hunt hides: each kind with the places where it can be made in a graph.

Every one is a bug that people write when they build their first engine. `sites(kind, …)` finds the
nodes of a graph where it would show, and makes the `Fault` for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.drawing import facts
from tinygrad_edu.learn.passes import Fault, Pass, preorder, run, uses
from tinygrad_edu.learn.wrong_rules import WRONG_RULES, Handed, dropped_factor, fitted

__all__ = ["KINDS", "Mistake", "sites"]

Array = Any

KINDS: dict[str, str] = {
    "sign": "what is handed on has the wrong sign",
    "factor": "a factor was dropped from the product of the chain rule",
    "derivative": "the local derivative is a wrong formula",
    "detached": "nothing is handed on to an input that should get something",
    "accumulation": "= in place of +=: what other uses had handed over is lost",
    "order": "a node hands on before all of its uses have handed to it",
    "zero_grad": "a gradient of the step before was never set back to zero",
    "broadcast": "a broadcast input's gradient was not summed to its shape",
    "axis": "a broadcast input's gradient was summed along the wrong axis",
    "transposed": "a matrix product's gradient has its transpose wrong",
}
"""Every kind of mistake, with what it is in a line."""

PLAIN = 0.03
"""How much a mistake changes a number at least, as a share of it."""


@dataclass(frozen=True)
class Mistake:
    """One mistake, made at one place.

    Attributes:
        kind: one of `KINDS`.
        fault: how the pass departs from the right one.
        wrong: what was done, in words, such as "∂L/∂e · a".
        right: what should have been done.
    """

    kind: str
    fault: Fault
    wrong: str
    right: str


Names = Callable[[Any], str]


def sites(
    kind: str, nodes: Sequence[Any], name: Names, before: Mapping[int, Array]
) -> list[Mistake]:
    """The places where a mistake of a kind can be made so that it shows, and is no other kind.

    Args:
        kind: one of `KINDS`.
        nodes: the graph in topological order, its root last.
        name: gives the name of a node.
        before: the gradients of the step before by `id`, for "zero_grad".
    """
    right = run(nodes)
    found = list(_FINDERS[kind](right, nodes, name, before))
    return [m for m in found if _shows(m, right, nodes) and not _ambiguous(m, right, nodes, name)]


def _shows(mistake: Mistake, right: Pass, nodes: Sequence[Any]) -> bool:
    """Whether some leaf's gradient comes out plainly wrong, and none as a NaN."""
    wrong = run(nodes, mistake.fault)
    plain = False
    for node in nodes:
        if node.op is None and node.name is not None:
            theirs, ours = wrong.gradient(node), right.gradient(node)
            if theirs is not None and not np.isfinite(theirs).all():
                return False
            plain = plain or _differ(theirs, ours)
    return plain


def _ambiguous(mistake: Mistake, right: Pass, nodes: Sequence[Any], name: Names) -> bool:
    """Whether a mistake of another kind at the same place would give the same numbers."""
    fault = mistake.fault
    if fault.handed is None:
        return False
    step = right.step_of(fault.node)
    assert step is not None  # only what hands on can do so wrongly
    share = next(each for each in step.shares if each.slot == fault.slot)
    ours = fault.handed(step.upstream, share.contribution)
    if not _differ(ours, share.contribution):
        return True
    for kind, find in _FINDERS.items():
        if kind == mistake.kind:
            continue
        for other in find(right, nodes, name, {}):
            same = other.fault.node is fault.node and other.fault.slot == fault.slot
            if same and other.fault.handed is not None:
                theirs = other.fault.handed(step.upstream, share.contribution)
                if not _differ(ours, theirs):
                    return True
    return False


def _differ(a: Array | None, b: Array | None) -> bool:
    """Whether two gradients are plainly not the same."""
    if a is None or b is None:
        return (a is None) != (b is None)
    if np.shape(a) != np.shape(b):
        return True
    size = max(float(np.linalg.norm(a)), float(np.linalg.norm(b)))
    return float(np.linalg.norm(np.subtract(a, b))) > PLAIN * size


def _edges(right: Pass) -> Iterator[tuple[Any, int, Any]]:
    """(node, slot, input) wherever something is handed to an input that has a name."""
    for step in right:
        for share in step.shares:
            if share.input.name is not None:
                yield step.node, share.slot, share.input


# One finder a kind: all places where it could be made.

_Found = Iterator[Mistake]


def _sign(right: Pass, nodes: Sequence[Any], name: Names, before: Mapping[int, Array]) -> _Found:
    for node, slot, target in _edges(right):
        g, x = f"∂L/∂{name(node)}", name(target)
        yield Mistake(
            "sign", Fault(node, slot, lambda g, c: -c),
            f"what {name(node)} hands to {x} has its sign turned around",
            f"∂L/∂{x} gets {g} times the local derivative, with the sign that this has",
        )  # fmt: skip


def _factor(right: Pass, nodes: Sequence[Any], name: Names, before: Mapping[int, Array]) -> _Found:
    for node, slot, target in _edges(right):
        made = dropped_factor(node, slot, name)
        if made is not None:
            handed, wrong = made
            yield Mistake(
                "factor", Fault(node, slot, handed), wrong,
                f"∂L/∂{name(target)} gets a product: what arrived at {name(node)}, times the "
                "whole local derivative",
            )  # fmt: skip


def _derivative(
    right: Pass, nodes: Sequence[Any], name: Names, before: Mapping[int, Array]
) -> _Found:
    for node, slot, target in _edges(right):
        rule = WRONG_RULES.get(facts.word(node))
        made = rule(node, slot, name) if rule is not None else None
        if made is not None:
            local, wrong, should = made
            yield Mistake(
                "derivative",
                Fault(node, slot, _times(local)),
                f"the local derivative ∂{name(node)}/∂{name(target)} was taken to be {wrong}",
                f"it is {should}",
            )


def _detached(
    right: Pass, nodes: Sequence[Any], name: Names, before: Mapping[int, Array]
) -> _Found:
    times = uses(nodes)
    for node, slot, target in _edges(right):
        if times[id(target)] > 1 or target.op is None:
            yield Mistake(
                "detached", Fault(node, slot, lambda g, c: None),
                f"{name(node)} hands nothing to {name(target)}, as if it had been detached",
                f"{name(target)} acts on L through {name(node)}, so it gets a share from there",
            )  # fmt: skip


def _accumulation(
    right: Pass, nodes: Sequence[Any], name: Names, before: Mapping[int, Array]
) -> _Found:
    for step in right:
        for share in step.shares:
            if share.nth > 1:
                x = name(share.input)
                yield Mistake(
                    "accumulation", Fault(step.node, share.slot, replaces=True),
                    f"{name(step.node)} sets {x}'s gradient (=), where it should add to it (+=)",
                    f"{x} is used more than once, and its gradient is the sum over its uses",
                )  # fmt: skip


def _order(right: Pass, nodes: Sequence[Any], name: Names, before: Mapping[int, Array]) -> _Found:
    order = preorder(nodes[-1])
    wrong = run(nodes, Fault(order=order))
    early = [
        step.node for step in wrong
        if not np.array_equal(step.upstream, wrong.gradients[id(step.node)])
    ]  # fmt: skip
    if len(early) == 1:
        (node,) = early
        yield Mistake(
            "order", Fault(node, order=order),
            f"the pass follows plain recursion, so {name(node)} hands on when the first of its "
            "uses has handed to it; what the others bring comes too late",
            f"{name(node)} must wait for all of its uses: topological order, backwards",
        )  # fmt: skip


def _zero_grad(
    right: Pass, nodes: Sequence[Any], name: Names, before: Mapping[int, Array]
) -> _Found:
    for leaf in nodes:
        if id(leaf) in before and right.gradient(leaf) is not None:
            yield Mistake(
                "zero_grad", Fault(leaf, start=before[id(leaf)]),
                f"{name(leaf)}.grad still held the gradient of the step before",
                f"{name(leaf)}.grad has to be set to zero before each backward pass, as leaves add "
                "up over passes",
            )  # fmt: skip


def _broadcast(
    right: Pass, nodes: Sequence[Any], name: Names, before: Mapping[int, Array]
) -> _Found:
    for node, slot, target in _edges(right):
        if facts.word(node) in ("add", "multiply") and target.op is None:
            other = node.inputs[1 - slot]
            times = facts.host(other.data) if facts.word(node) == "multiply" else 1.0
            if facts.shape_of(target) != facts.shape_of(node):
                yield Mistake(
                    "broadcast", Fault(node, slot, _unsummed(times)),
                    f"what {name(node)} hands to {name(target)} has shape {node.shape}",
                    f"{name(target)} has shape {target.shape}: the shares of all its copies are "
                    "added up",
                )  # fmt: skip


def _axis(right: Pass, nodes: Sequence[Any], name: Names, before: Mapping[int, Array]) -> _Found:
    for node, slot, target in _edges(right):
        square = isinstance(node, Tensor) and node.ndim == 2 and node.shape[0] == node.shape[1]
        if square and facts.word(node) in ("add", "multiply") and target.ndim == 1:
            other = node.inputs[1 - slot]
            times = facts.host(other.data) if facts.word(node) == "multiply" else 1.0
            yield Mistake(
                "axis", Fault(node, slot, _summed(times, 1)),
                f"what {name(node)} hands to {name(target)} was summed over axis 1",
                f"{name(target)} was repeated along axis 0, so that is the one to sum over",
            )  # fmt: skip


def _transposed(
    right: Pass, nodes: Sequence[Any], name: Names, before: Mapping[int, Array]
) -> _Found:
    for node, slot, target in _edges(right):
        if facts.word(node) != "matmul" or target.ndim != 2 or len(set(target.shape)) > 1:
            continue
        w, g = name(node.inputs[1 - slot]), f"∂L/∂{name(node)}"
        if slot == 1:
            yield Mistake(
                "transposed", Fault(node, slot, lambda g, c: c.T),
                f"{name(target)} gets {g}ᵀ @ {w}", f"it is {w}ᵀ @ {g}",
            )  # fmt: skip
            continue
        other = facts.host(node.inputs[1].data)
        if other.shape[0] == other.shape[1]:
            yield Mistake(
                "transposed", Fault(node, slot, _before(other)),
                f"{name(target)} gets {g} @ {w}", f"it is {g} @ {w}ᵀ",
            )  # fmt: skip


# What is handed on instead: functions of what arrived and of what would be right.


def _times(local: Array) -> Handed:
    return lambda g, c: fitted(g * local, c)


def _unsummed(times: Array) -> Handed:
    return lambda g, c: g * times


def _summed(times: Array, axis: int) -> Handed:
    return lambda g, c: (g * times).sum(axis=axis)


def _before(matrix: Array) -> Handed:
    return lambda g, c: g @ matrix


_FINDERS: dict[str, Callable[..., _Found]] = {
    "sign": _sign, "factor": _factor, "derivative": _derivative, "detached": _detached,
    "accumulation": _accumulation, "order": _order, "zero_grad": _zero_grad,
    "broadcast": _broadcast, "axis": _axis, "transposed": _transposed,
}  # fmt: skip
