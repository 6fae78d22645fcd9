"""A backward pass run apart from the engine, in which one thing may be done wrongly.

It follows the engine's own rules, keeps its gradients to itself and changes nothing: neither a
node, nor a `.grad`, nor the registry of operations. A `Fault` says where it departs from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np

from tinygrad_edu.autograd.pull import pull_raw
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.drawing import facts

__all__ = ["Fault", "Pass", "Share", "Step", "preorder", "run", "uses", "wants_gradient"]

Array = Any


@dataclass(frozen=True)
class Fault:
    """One departure from how a backward pass should run; all fields left out are none at all.

    Attributes:
        node: the node whose step goes wrong, or the leaf that starts wrong.
        slot: which of its inputs gets the wrong thing; -1 for all or none.
        handed: `handed(g, right)` is handed on in place of `right`, where g arrived; None is
            nothing.
        replaces: what is handed on takes the place of the input's gradient: = and not +=.
        order: the nodes in the order in which they hand on, the root first.
        start: the gradient that the leaf begins with.
    """

    node: Any = None
    slot: int = -1
    handed: Callable[[Array, Array], Array | None] | None = None
    replaces: bool = False
    order: Sequence[Any] | None = None
    start: Array | None = None


@dataclass(frozen=True)
class Share:
    """What a step handed to one input.

    Attributes:
        slot: which input of the node.
        input: that input.
        contribution: what was handed; None where nothing was.
        before: the input's gradient until then; None where it had none.
        after: the input's gradient with it.
        nth: how many uses of the input have handed something on, with this one.
    """

    slot: int
    input: Any
    contribution: Array | None
    before: Array | None
    after: Array | None
    nth: int


@dataclass(frozen=True, repr=False)
class Step:
    """One node handing on what it had at that moment.

    Attributes:
        index: its place in the pass, from 0.
        node: the node.
        upstream: the gradient it had then, and used.
        shares: what each input got that wants a gradient.
        text: all of this in words.
    """

    index: int
    node: Any
    upstream: Array
    shares: tuple[Share, ...]
    text: str = ""

    def __repr__(self) -> str:
        return self.text


@dataclass(repr=False)
class Pass(Sequence[Step]):
    """The steps of a pass, and the gradients it left."""

    steps: list[Step] = field(default_factory=list)
    gradients: dict[int, Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.steps)

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> list[Step]: ...
    def __getitem__(self, index: int | slice) -> Step | list[Step]:
        return self.steps[index]

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __repr__(self) -> str:
        return "\n".join(step.text for step in self.steps)

    def gradient(self, node: Any) -> Array | None:
        """What the pass left at a node; None where nothing arrived."""
        return self.gradients.get(id(node))

    def step_of(self, node: Any) -> Step | None:
        """The step in which a node handed on; None for a leaf."""
        return next((step for step in self.steps if step.node is node), None)


def run(nodes: Sequence[Any], fault: Fault | None = None) -> Pass:
    """A backward pass from the last of `nodes`, which are in topological order, with gradient 1."""
    fault = fault or Fault()
    root = nodes[-1]
    done = Pass()
    done.gradients[id(root)] = np.ones(facts.shape_of(root))
    if fault.start is not None:
        done.gradients[id(fault.node)] = fault.start
    arrived: dict[int, int] = {}
    order = fault.order if fault.order is not None else list(reversed(nodes))
    for node in order:
        upstream = done.gradient(node)
        if node.op is None or upstream is None:
            continue
        shares = []
        for slot, right in enumerate(_pieces(node, upstream)):
            if right is not None:
                shares.append(_share(done.gradients, arrived, fault, node, slot, upstream, right))
        done.steps.append(Step(len(done.steps), node, upstream, tuple(shares)))
    return done


def _share(
    gradients: dict[int, Array], arrived: dict[int, int], fault: Fault, node: Any, slot: int,
    upstream: Array, right: Array,
) -> Share:  # fmt: skip
    """Hand one contribution on, rightly or wrongly."""
    target = node.inputs[slot]
    key = id(target)
    here = node is fault.node and slot == fault.slot
    piece = fault.handed(upstream, right) if here and fault.handed is not None else right
    before = gradients.get(key)
    after = before
    if piece is not None:
        plain = before is None or (here and fault.replaces)
        after = gradients[key] = piece if plain else before + piece
        arrived[key] = arrived.get(key, 0) + 1
    return Share(slot, target, piece, before, after, arrived.get(key, 0))


def _pieces(node: Any, g: Array) -> Sequence[Array | None]:
    """What the engine's own rules hand to each input."""
    if not isinstance(node, Tensor):
        return [np.float64(g * d) if g else np.float64(0.0) for d in node.local_derivatives]
    with np.errstate(all="ignore"):
        return [None if c is None else np.array(c) for c in pull_raw(node, g)]


def wants_gradient(node: Any) -> bool:
    """Whether a node takes part in the backward pass."""
    return node.requires_grad if isinstance(node, Tensor) else True


def preorder(root: Any) -> list[Any]:
    """Nodes in the order in which plain recursion from the root meets them first.

    That is not an order for a backward pass: a node comes before all of its uses have been met.
    """
    order: list[Any] = []
    seen: set[int] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            order.append(node)
            stack.extend(x for x in reversed(node.inputs) if wants_gradient(x))
    return order


def uses(nodes: Sequence[Any]) -> Mapping[int, int]:
    """How often each node is an input of another one, by `id`."""
    found: dict[int, int] = {}
    for node in nodes:
        for x in node.inputs:
            if wants_gradient(x):
                found[id(x)] = found.get(id(x), 0) + 1
    return found
