"""A graph built once more from its operations, with other numbers: what would L be if b were 3?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tinygrad_edu.autograd.apply import ABSENT, apply
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.debugger.checking import applied
from tinygrad_edu.drawing import facts
from tinygrad_edu.scalar.value import Value

__all__ = ["can_rebuild", "rebuild"]

Array = Any


def can_rebuild(nodes: Sequence[Any]) -> bool:
    """Whether the operations say all of what they do: the `clip` of a `Value` keeps no bounds."""
    return not any(isinstance(x, Value) and x.op == "clip" for x in nodes)


def rebuild(nodes: Sequence[Any], changed: Mapping[int, Any]) -> list[Any]:
    """The same graph once more, node by node, in float64.

    Args:
        nodes: in topological order, inputs first.
        changed: other numbers, by `id(node)`. A node that an operation made and that is named here
            becomes a leaf with that number.

    Returns:
        A new node for each of `nodes`, in their order, of the same name.
    """
    made: dict[int, Any] = {}
    for node in nodes:
        if node.op is None or id(node) in changed:
            new = _leaf(node, changed.get(id(node)))
        else:
            new = _applied(node, made)
        new.name = node.name
        made[id(node)] = new
    return [made[id(node)] for node in nodes]


def _leaf(node: Any, number: Any) -> Any:
    if isinstance(node, Value):
        return Value(float(node.data if number is None else number))
    data = facts.host(node._data if number is None else number)
    return Tensor(_wide(data), requires_grad=node.requires_grad)


def _applied(node: Any, made: dict[int, Any]) -> Any:
    if isinstance(node, Value):
        return applied(str(node.op), [made[id(x)] for x in node.inputs])
    for x in node._args:
        if x is not ABSENT and id(x) not in made:  # data, which no gradient reaches
            made[id(x)] = Tensor(_wide(x._data), name=x.name)
    args = [x if x is ABSENT else made[id(x)] for x in node._args]
    return apply(node.op, *args, **node._params)


def _wide(data: Array) -> Array:
    """In float64, where it holds floating numbers."""
    data = facts.host(data)
    return np.array(data, np.float64) if data.dtype.kind == "f" else data
