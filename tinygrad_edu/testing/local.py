"""Which operation is wrong: each node of a graph, checked by itself on the numbers it was given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tinygrad_edu import graph
from tinygrad_edu.autograd.apply import ABSENT, apply
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.testing import errors

Array = npt.NDArray[Any]
Function = Callable[..., Any]

_MOST_NODES = 500


def alone(node: Tensor) -> tuple[Function, list[Array]]:
    """(f, xs): the operation of `node` as a function of the inputs it passes gradients to."""
    given: list[Any] = [None if x is ABSENT else x.detach() for x in node._args]
    moving = [
        i for i, x in enumerate(node._args) if x is not ABSENT and x.requires_grad
    ]

    def f(*xs: Any) -> Any:
        filled = list(given)
        for i, x in zip(moving, xs, strict=True):
            filled[i] = x
        return apply(node.op, *filled, **node._params)

    f.__name__ = node.op.name
    return f, [np.array(node._args[i]._data) for i in moving]


def wrong_node(f: Function, arrays: Sequence[Array], **options: Any) -> tuple[Tensor, Any] | None:
    """The first node of f's graph, in the order it was computed, whose own derivative is wrong, and
    the error; None where each by itself is right.
    """
    from tinygrad_edu.testing.checks import check_vjp

    out = f(*[Tensor(x, requires_grad=True) for x in arrays])
    for node in graph.topological_order(out)[:_MOST_NODES]:
        if node.op is None:
            continue
        own, xs = alone(node)
        if not xs or any(not np.isfinite(x).all() for x in (*xs, node._data)):
            continue
        try:
            check_vjp(own, *xs, localise=False, **options)
        except errors.DerivativeError as error:
            return node, error
    return None


def explain(f: Function, arrays: Sequence[Array], error: errors.DerivativeError) -> None:
    """Add to the error of a composite function which of its operations is wrong, and its line."""
    try:
        found = wrong_node(f, arrays)
    except Exception as other:  # noqa: BLE001 - an explanation that fails must not hide the error
        error.add_note(f"(looking for the operation that is wrong failed: {other})")
        return
    if found is None:
        error.add_note(
            "each operation by itself has the right derivative: look for a detach, a value that "
            "was computed outside the graph, or a write between forward and backward"
        )
        return
    node, own = found
    error.add_note(f"wrong by itself: {node.op.name} ({node.op.formula}) at {node.line}: {own}")


def check_graph(f: Function, *xs: Any, **options: Any) -> int:
    """Check every operation that f(*xs) is made of by itself, on the numbers it was given there.

    Returns how many were checked; options are those of `check_vjp`.

    Raises:
        DerivativeError: of the first that is wrong, with its name and the line it stands on.
    """
    from tinygrad_edu.testing.subject import points

    arrays = points(xs)
    found = wrong_node(f, arrays, **options)
    if found is not None:
        node, error = found
        error.add_note(f"in {node.op.name} ({node.op.formula}) at {node.line}")
        raise error
    out = f(*[Tensor(x, requires_grad=True) for x in arrays])
    return sum(node.op is not None for node in graph.topological_order(out))
