"""What a node is, and how a graph of nodes is walked.

`Value` (one float) and `Tensor` (an array of them) answer to one protocol, `Node`: the value *is*
the
node. Everything that walks a graph, be it a backward pass, a drawing or a question, does it through
this file: iteratively, so that a chain of a million nodes is ordinary, and in time linear in nodes
and edges, so that a diamond of depth 60 (2**60 paths, 181 nodes) is too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable


@runtime_checkable
class Node(Protocol):
    """A value that remembers how it was made.

    `inputs` has one entry per argument slot: `x * x` lists x twice, because it has two edges.
    """

    @property
    def data(self) -> Any: ...

    @property
    def grad(self) -> Any: ...

    @property
    def op(self) -> Any: ...

    @property
    def inputs(self) -> Sequence[Any]: ...

    @property
    def name(self) -> str | None: ...


N = TypeVar("N")


@dataclass(frozen=True, slots=True)
class Event:
    """One contribution of a backward pass: what `node` hands to its input number `slot`."""

    node: Any
    upstream: Any
    slot: int
    input: Any
    contribution: Any
    before: Any
    after: Any


Observer = Callable[[Event], None]


def topological_order(
    root: N, *, inputs: Callable[[N], Iterable[N]] | None = None
) -> list[N]:
    """Every node that `root` depends on, each once, inputs before outputs, `root` last.

    Depth first, with its own stack. `inputs(node)` may narrow what is walked (the default is
    `node.inputs`); the order depends on the graph alone, so equal graphs give equal orders.
    """
    follow = inputs if inputs is not None else _inputs
    order: list[N] = []
    seen = {id(root)}
    stack: list[tuple[N, Iterator[N]]] = [(root, iter(follow(root)))]
    while stack:
        node, remaining = stack[-1]
        for child in remaining:
            if id(child) not in seen:
                seen.add(id(child))
                stack.append((child, iter(follow(child))))
                break
        else:
            order.append(node)
            stack.pop()
    return order


def _inputs(node: Any) -> Iterable[Any]:
    found: Iterable[Any] = node.inputs
    return found


def ancestors(root: N) -> Iterator[N]:
    """`root` and every node it depends on, each once, in no particular order (needs no path
    stack).
    """
    seen = {id(root)}
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        for child in _inputs(node):
            if id(child) not in seen:
                seen.add(id(child))
                stack.append(child)


def sweep(
    order: list[Any],
    gradients: dict[int, Any],
    pull: Callable[[Any, Any], Sequence[Any]],
    *,
    arrived: Callable[[Any, Any], Any] | None = None,
    observer: Observer | None = None,
    release: bool = False,
) -> None:
    """Carry gradients from the last node of `order` to the first: the chain rule, once a node.

    Args:
        order: inputs before outputs, as `topological_order` gives it. Consumed from its end where
            `release` is set, so that a node no one else holds is freed as soon as it is used.
        gradients: upstream gradient by `id(node)`; holds the seed on entry, and every node's
            whole gradient afterwards.
        pull: `pull(node, upstream)` returns one contribution an input, None where nothing flows.
        arrived: called once a node with its whole upstream gradient, before `pull`; what it returns
            goes on (a hook may replace it).
        observer: called with an `Event` for each contribution; None costs nothing.
        release: drop each node from `order`, and its gradient, once its contributions are made;
            leaves keep their gradient.
    """
    get = gradients.get
    index = len(order)
    while index:
        index -= 1
        node = order.pop() if release else order[index]
        key = id(node)
        upstream = get(key)
        if upstream is None:
            continue
        if arrived is not None:
            upstream = gradients[key] = arrived(node, upstream)
        inputs = node.inputs
        if not inputs:
            continue
        if release:
            del gradients[key]
        for slot, contribution in enumerate(pull(node, upstream)):
            if contribution is not None:
                target = inputs[slot]
                key = id(target)
                before = get(key)
                after = contribution if before is None else before + contribution
                gradients[key] = after
                if observer is not None:
                    observer(Event(node, upstream, slot, target, contribution, before, after))
