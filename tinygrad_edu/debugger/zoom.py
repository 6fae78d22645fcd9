"""Into a node: the scalar graph of one element of a tensor, or the reference of a fused operation.

    zoom(scores, at=(0, 3))     # its multiplications and additions, each a `Value`
    zoom(softmaxed)             # its exp, sum and division, each a `Tensor`

Both are the operation's own definition run again on the numbers it was given, so their gradients
are the node's, to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tinygrad_edu.autograd.apply import ABSENT
from tinygrad_edu.autograd.modes import enable_grad
from tinygrad_edu.autograd.pull import rerun
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.debugger.log import LIMIT, Log
from tinygrad_edu.drawing import facts
from tinygrad_edu.drawing.names import Names, names_in
from tinygrad_edu.errors import GraphError

__all__ = ["Zoom", "zoom"]

Array = Any
_MOST = 50_000


@dataclass(frozen=True)
class Zoom:
    """What a node is made of.

    Attributes:
        root: a `Value` (of one element) or a `Tensor` (the result of the reference).
        inputs: what the node was made from, in its order: arrays of Values, or tensors; None for an
            input that was left out, raw arrays for what holds whole numbers or truth values.
        names: names of the inputs' Values or tensors by `id`.
    """

    root: Any
    inputs: tuple[Any, ...]
    names: dict[int, str]

    def log(self, gradient: Any = None) -> Log:
        """The event log of a backward pass through it; `gradient` is what arrives, by default 1."""
        return Log(self.root, gradient, LIMIT, self.names)

    def gradients(self, gradient: Any = None) -> tuple[Array | None, ...]:
        """The gradient of `root` to each input, in its shape; None where nothing flows."""
        moved = self.root.op is None  # the element is an input's own: nothing was computed
        log = None if moved else self.log(gradient)
        seed = 1.0 if gradient is None else gradient

        def of(value: Any) -> Any:
            if log is None:
                return seed if value is self.root else None
            return log.gradient(value)

        found: list[Array | None] = []
        for x in self.inputs:
            if isinstance(x, np.ndarray) and x.dtype == object:
                each = [of(value) for value in x.reshape(-1)]
                numbers = [0.0 if g is None else float(g) for g in each]
                found.append(np.array(numbers, np.float64).reshape(x.shape))
            else:
                found.append(of(x) if isinstance(x, Tensor) else None)
        return tuple(found)


def zoom(node: Any, at: tuple[int, ...] | int | None = None) -> Zoom:
    """What a node is made of: see the top of this file.

    Args:
        node: a tensor that an operation made, and whose graph was kept.
        at: an element's index: its graph of single numbers. None: the reference of a fused
            operation, as a graph of tensors; for one number, its scalar graph.

    Raises:
        GraphError: the node is a leaf or was freed; its operation is not fused (give `at`); it
            takes more than 50,000 numbers; or it has no definition in single numbers.
    """
    if not isinstance(node, Tensor) or node.op is None:
        raise GraphError(
            f"zoom() was given {' '.join(repr(node).split()):.60}, which no tensor operation made; "
            "give it a result, "
            "such as the output of a matmul or of a layer"
        )
    names = Names(node.inputs, names_in())
    if at is None and node.op.reference is not None:
        return _reference(node, names)
    if at is None and node.ndim:
        raise GraphError(
            f"{node.op.name} is no fused operation: it is its own definition. Give the index of an "
            f"element, as in at={tuple(0 for _ in node.shape)}, to see that in single numbers"
        )
    return _element(node, () if at is None else at, names)


def _reference(node: Tensor, names: Names) -> Zoom:
    leaves = [
        x if x is ABSENT else Tensor(x._data, requires_grad=x.requires_grad) for x in node._args
    ]
    twin = Tensor(node._data)
    twin.op, twin._args, twin._params = node.op, tuple(leaves), node._params
    with enable_grad():
        _, root = rerun(twin)
    called = {
        id(leaf): names[x]
        for leaf, x in zip(leaves, node._args, strict=True) if x is not ABSENT
    }
    return Zoom(root, tuple(None if x is ABSENT else x for x in leaves), called)


def _element(node: Tensor, at: Any, names: Names) -> Zoom:
    from tinygrad_edu.scalar import arrays

    numbers = sum(x.size for x in node._args if x is not ABSENT) + node.size
    if numbers > _MOST:
        raise GraphError(
            f"{node.op.name} takes {numbers:,} numbers, too many to open one by one; zoom into a "
            "smaller run of the program"
        )
    given: list[Any] = []
    for x in node._args:
        if x is ABSENT:
            given.append(None)
        elif x.dtype.kind == "f":
            given.append(arrays.values(facts.host(x._data), names[x]))
        else:
            given.append(facts.host(x._data))
    try:
        whole = np.asarray(getattr(arrays.F, node.op.name)(*given, **node._params), dtype=object)
    except (AttributeError, TypeError, NotImplementedError) as error:
        raise GraphError(
            f"{node.op.name} has no definition in single numbers ({error}); zoom into another node"
        ) from error
    try:
        root = whole[at]
    except IndexError as error:
        raise GraphError(f"{node.op.name} made shape {node.shape}; at={at} is not in it") from error
    if isinstance(root, np.ndarray):
        raise GraphError(
            f"at={at} names {root.size} elements of shape {node.shape}; give one index an axis"
        )
    return Zoom(root, tuple(given), {})
