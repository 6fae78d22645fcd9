"""What a node hands to each of its inputs: on raw arrays at speed, and as tensors.

A primitive's raw pull is compiled from its table entry the first time it is used: a straight line
of
code that calls each rule on exactly what the rule names, absorbs the upstream gradient, and brings
the result to the shape and dtype of its input. `explain_pull(primitive)` shows that code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from tinygrad_edu import backend
from tinygrad_edu.autograd import functions
from tinygrad_edu.autograd.apply import ABSENT, apply, as_tensor
from tinygrad_edu.autograd.modes import enable_grad
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.autograd.twin import TWIN
from tinygrad_edu.errors import ShapeError
from tinygrad_edu.ops import elementwise
from tinygrad_edu.ops.registry import BoundRule, Primitive

Array = Any
Pull = Callable[[Tensor, Array], Sequence[Any]]


def pull_raw(node: Tensor, g: Array) -> Sequence[Any]:
    """One contribution an input (None where nothing flows), as raw arrays."""
    op: Primitive = node.op
    pull = op.pull
    if pull is None:
        pull = compiled(op)
    return pull(node, g)


def compiled(primitive: Primitive) -> Pull:
    """The primitive's raw pull, compiled the first time it is asked for."""
    if primitive.pull is None:
        primitive.pull = _compile(primitive)
    return primitive.pull


def pull_and_free(node: Tensor, g: Array) -> Sequence[Any]:
    """`pull_raw`, and then forget how the node was made, so that its inputs can go."""
    pieces = pull_raw(node, g)
    node.inputs = node._args = node._tracked = ()
    node._params = {}
    node._saved = node._grad = None
    node._freed = True
    return pieces


def explain_pull(primitive: Primitive) -> str:
    """The code that a backward pass runs for `primitive`."""
    return _source(primitive) if primitive.joint_rule is None else _JOINT


def _compile(primitive: Primitive) -> Pull:
    if primitive.joint_rule is not None:
        return _joint(primitive)
    scope: dict[str, Any] = {
        "NUMPY": backend.NUMPY, "ndarray": np.ndarray, "namespace_of": backend.namespace_of,
        "edge": edge, "own": own,
        **{f"rule{i}": r.rule for i, r in enumerate(primitive.rules) if isinstance(r, BoundRule)},
    }  # fmt: skip
    exec(_source(primitive), scope)  # the text is made of names checked at registration
    pull: Pull = scope["pull"]
    return pull


def _source(primitive: Primitive) -> str:
    count = len(primitive.rules)
    names = ", ".join([f"x{i}" for i in range(count)])
    lines = [
        "def pull(node, g):",
        f"    {names}, = node._args",
        "    F = NUMPY if g.__class__ is ndarray else namespace_of(node._data)",
        "    params = node._params",
        "    " + " = ".join([f"c{i}" for i in range(count)]) + " = None",
    ]
    for i, rule in enumerate(primitive.rules):
        if rule is None:
            value = f"F.zeros_like(x{i}._data)"
        elif isinstance(rule, BoundRule):
            value = f"rule{i}({rule.raw_text})"
            if primitive.kind == "elementwise":
                value = f"F.absorb(g, {value})"
        else:
            value = "g" if rule == 1 else "-g" if rule == -1 else f"g * {rule}"
        lines += [
            f"    if x{i}.requires_grad:",
            f"        c = {value}",
            f"        like = x{i}._data",
            "        if c.shape != like.shape or c.dtype is not like.dtype:",
            f"            c = edge(F, c, like, {'None' if primitive.broadcasts else 'node'})",
            f"        c{i} = c if x{i}._tracked else own(g, c)",
        ]
    lines.append("    return " + ", ".join([f"c{i}" for i in range(count)]) + ",")
    return "\n".join(lines)


_JOINT = """def pull(node, g):
    made = vjp(...)                  # all gradients at once
    return [own(g, edge(F, c, x)) for each input x that wants its gradient c]"""


def _joint(primitive: Primitive) -> Pull:
    assert primitive.joint_rule is not None
    raw = primitive.joint_rule.raw
    broadcasts = primitive.broadcasts

    def pull(node: Tensor, g: Array) -> Sequence[Any]:
        args = node._args
        data = node._data
        F: Any = backend.NUMPY if data.__class__ is np.ndarray else backend.namespace_of(data)
        need = tuple([x.requires_grad for x in args])
        pieces: list[Any] = []
        made = raw(F, args, node, node._params, g, need)
        for x, c in zip(args, made, strict=True):
            if x is ABSENT:
                continue
            if c is not None and x.requires_grad:
                c = edge(F, c, x._data, None if broadcasts else node)
                pieces.append(c if x._tracked else own(g, c))
            else:
                pieces.append(None)
        return pieces

    return pull


def own(g: Array, c: Array) -> Array:
    """`c` in memory of its own: what reaches a leaf is stored, and must not be `g` or a view."""
    return c.copy() if c is g or c.base is not None else c


def edge(F: Any, c: Any, like: Array, exact: Tensor | None = None) -> Any:
    """A contribution in the shape and dtype of the input it is for: broadcast axes are summed.

    `exact` is the node where its primitive does not broadcast, so that another shape is a wrong
    rule.

    Raises:
        ShapeError: the rule of `exact` returned another shape than its input's.
    """
    shape = like.shape
    if c.shape != shape:
        if exact is not None:
            _refuse(exact, tuple(c.shape), shape)
        lead = c.ndim - len(shape)
        axes = tuple(range(lead)) + tuple(
            [i + lead for i, n in enumerate(shape) if n == 1 and c.shape[i + lead] != 1]
        )
        if axes:
            c = F.sum(c, axis=axes)
        if c.shape != shape:
            c = F.reshape(c, shape) if c.size == like.size else F.broadcast_to(c, shape)
    return c if c.dtype == like.dtype else c.astype(like.dtype)


def pull_twin(node: Tensor, g: Tensor) -> Sequence[Any]:
    """What a node hands to each of its inputs, as tensors that remember how they were made."""
    op: Primitive = node.op
    args = node._args
    if op.joint_rule is not None:
        need = tuple([x.requires_grad for x in args])
        if op.saves:
            made = _pull_reference(node, g)
        else:
            made = op.joint_rule.twin(TWIN, args, node, node._params, g, need)
        pairs = [(x, c) for x, c in zip(args, made, strict=True) if x is not ABSENT]
        return [
            edge_twin(c, x, node) if c is not None and x.requires_grad else None for x, c in pairs
        ]
    pieces: list[Any] = []
    for x, rule in zip(args, op.rules, strict=True):
        if not x.requires_grad:
            pieces.append(None)
        elif rule is None:
            pieces.append(TWIN.zeros_like(x))
        elif isinstance(rule, (int, float)):
            pieces.append(edge_twin(g if rule == 1 else g * rule, x, node))
        else:
            c = rule.twin(TWIN, args, node, node._params, g, None)
            if op.kind == "elementwise":
                c = apply(elementwise.absorb, g, c)
            pieces.append(edge_twin(c, x, node))
    return pieces


def edge_twin(c: Any, like: Tensor, node: Tensor) -> Tensor:
    """`edge` for tensors: what it does is itself remembered."""
    c = as_tensor(c)
    if c.shape != like.shape:
        if not node.op.broadcasts:
            _refuse(node, c.shape, like.shape)
        lead = c.ndim - like.ndim
        axes = tuple(range(lead)) + tuple(
            i + lead for i, n in enumerate(like.shape) if n == 1 and c.shape[i + lead] != 1
        )
        c = functions.sum(c, axis=axes) if axes else c
        if c.shape != like.shape:
            c = functions.broadcast_to(c, like.shape) if c.size == 1 else c
            c = functions.reshape(c, like.shape)
    return c if c.dtype == like.dtype else functions.astype(c, like.dtype)


def rerun(node: Tensor) -> tuple[list[Any], Tensor]:
    """The node's reference on aliases of its inputs: (aliases, result), a graph of its own."""
    aliases: list[Any] = []
    for x in node._args:
        if x is ABSENT:
            aliases.append(None)
        elif x.requires_grad:
            aliases.append(apply(elementwise.identity, x))
        else:
            aliases.append(x)
    return aliases, as_tensor(node.op.reference(TWIN, *aliases, **node._params))


def _refuse(node: Tensor, got: tuple[int, ...], wanted: tuple[int, ...]) -> NoReturn:
    raise ShapeError(
        f"the gradient rule of {node.op.name} returned shape {got} for an input of shape {wanted}; "
        "an operation that does not broadcast has to return the input's own shape"
    )


def _pull_reference(node: Tensor, g: Tensor) -> list[Any]:
    from tinygrad_edu.autograd.backward import gradients_of

    with enable_grad():
        aliases, out = rerun(node)
        asked = [a for a in aliases if a is not None and a.requires_grad]
        found = iter(gradients_of(out, asked, g, create_graph=True))
    return [next(found) if a is not None and a.requires_grad else None for a in aliases]
