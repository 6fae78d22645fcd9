"""The backward sweep over Values, written for speed; `graph.sweep` says the same with an observer.

Both visit the nodes in the same order, so both give the same bits (a test holds them together).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinygrad_edu import graph

if TYPE_CHECKING:
    from tinygrad_edu.scalar.value import Value


def order_and_clear(root: Value) -> list[Value]:
    """The nodes made by operations that `root` depends on, inputs before outputs, gradients at 0.

    The depth-first walk of `graph.topological_order`, without a set of visited nodes: the zero put
    into a node's gradient is one particular float object, and a node that holds it has been seen.
    Leaves keep what they have gathered; one that has no gradient yet gets 0. `root` is no leaf.
    """
    fresh = float("0")  # a new object at each call, unlike the literal 0.0
    order: list[Value] = []
    done = order.append
    path: list[Value | None] = [None]
    push, pop = path.append, path.pop
    root._grad = fresh
    node: Value | None = root
    while node is not None:
        # Down, along the left inputs not seen before.
        left = node._left
        while left._grad is not fresh:
            if left._rule is None:
                if left._grad is None:
                    left._grad = 0.0
                break
            left._grad = fresh
            push(node)
            node = left
            left = node._left
        # Up, as far as right inputs have been seen; down again from the first that has not.
        while node is not None:
            right = node._right
            if right is not None and right._grad is not fresh:
                if right._rule is not None:
                    right._grad = fresh
                    push(node)
                    node = right
                    break
                if right._grad is None:
                    right._grad = 0.0
            done(node)
            node = pop()
    return order


def sweep(order: list[Value], seed: float) -> None:
    """Carry `seed` from the last node of `order` down to the leaves.

    A node where exactly 0 arrives hands nothing on: zero absorbs even an infinite or NaN local
    derivative, as `absorb` does for arrays.
    """
    order[-1]._grad = seed
    for node in reversed(order):
        upstream = node._grad
        if upstream:
            left = node._left
            left._grad += upstream * node._d_left  # type: ignore[operator]
            right = node._right
            if right is not None:
                right._grad += upstream * node._d_right  # type: ignore[operator]


def observed_sweep(root: Value, seed: float, observer: graph.Observer) -> None:
    """The same sweep through `graph.sweep`, telling `observer` of every contribution."""
    order = graph.topological_order(root)
    for node in order:
        if node._rule is not None or node._grad is None:
            node._grad = 0.0

    def arrived(node: Value, upstream: float) -> float:
        node._grad = upstream if node._rule is not None else (node._grad or 0.0) + upstream
        return upstream

    def pull(node: Value, upstream: float) -> list[float]:
        return [upstream * d if upstream else 0.0 for d in node.local_derivatives]

    graph.sweep(order, {id(root): seed}, pull, arrived=arrived, observer=observer)
