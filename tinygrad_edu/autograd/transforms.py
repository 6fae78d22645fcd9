"""Functions of functions: `grad`, `value_and_grad`, `vjp`, `jvp`. They store nothing in tensors.

Arguments may be tensors, arrays or numbers; results are tensors. Nested, they give higher
derivatives: `tg.grad(tg.grad(f))(x)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinygrad_edu import graph
from tinygrad_edu.autograd import functions
from tinygrad_edu.autograd.apply import ABSENT, apply, as_tensor
from tinygrad_edu.autograd.backward import check_unchanged, gradients_of
from tinygrad_edu.autograd.modes import enable_grad, state
from tinygrad_edu.autograd.pull import edge_twin, rerun
from tinygrad_edu.autograd.tensor import Tensor, is_floating
from tinygrad_edu.autograd.twin import TWIN
from tinygrad_edu.errors import DTypeError, GraphError, ShapeError
from tinygrad_edu.ops import elementwise
from tinygrad_edu.ops.registry import Primitive

Function = Callable[..., Any]


def value_and_grad(f: Function, argnums: int | Sequence[int] = 0) -> Function:
    """A function that returns (f(…), its gradient to the arguments numbered `argnums`).

    The gradient is one tensor for an int, a tuple for a sequence; zeros where f does not depend on
    the argument.

    Raises:
        GraphError: f does not return one number.
        DTypeError: an argument of integers.
    """

    def run(*args: Any, **kwargs: Any) -> tuple[Tensor, Any]:
        numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        numbers = tuple([i + len(args) if -len(args) <= i < 0 else i for i in numbers])
        if len(set(numbers)) != len(numbers):
            raise ValueError(f"argnums names an argument twice: {argnums}")
        variables, out = _trace(f, args, numbers, kwargs)
        nested = _is_nested([args[i] for i in numbers]) or _sees_more(out, variables)
        if out.size != 1:
            raise GraphError(
                f"grad needs a function that returns one number; {_name(f)} returned shape "
                f"{out.shape}: sum it, or use vjp with a gradient of that shape"
            )
        found = _pull(out, variables, None, nested)
        value = out if nested else out.detach()
        return value, found[0] if isinstance(argnums, int) else tuple(found)

    return run


def grad(f: Function, argnums: int | Sequence[int] = 0) -> Function:
    """A function that returns the gradient of `f`; see `value_and_grad`."""
    both = value_and_grad(f, argnums)

    def run(*args: Any, **kwargs: Any) -> Any:
        return both(*args, **kwargs)[1]

    return run


def vjp(f: Function, *xs: Any) -> tuple[Tensor, Callable[[Any], Any]]:
    """(f(*xs), pull): `pull(g)` is the gradient of ⟨g, f⟩ to xs, one tensor or a tuple of them.

    `pull` may be called again, with other g, and its result differentiated with respect to g.
    """
    variables, out = _trace(f, xs, range(len(xs)), {})
    nested = _is_nested(xs) or _sees_more(out, variables)

    def pull(g: Any) -> Any:
        given = as_tensor(g)
        found = _pull(out, variables, given, nested or given.requires_grad)
        return found[0] if len(found) == 1 else tuple(found)

    return (out if nested else out.detach()), pull


def jvp(f: Function, xs: Any, vs: Any) -> tuple[Tensor, Tensor]:
    """(f(*xs), Jv): the value, and its rate of change as xs move with velocities vs.

    `xs` and `vs` are one argument each, or sequences of equal length. Forward mode: tangents go
    through the graph in the order it was computed.

    Raises:
        ShapeError: a tangent whose shape is not its argument's.
    """
    points = tuple(xs) if isinstance(xs, (tuple, list)) else (xs,)
    velocities = tuple(vs) if isinstance(vs, (tuple, list)) else (vs,)
    if len(points) != len(velocities):
        raise ShapeError(f"jvp was given {len(points)} arguments and {len(velocities)} tangents")
    variables, out = _trace(f, points, range(len(points)), {})
    nested = _is_nested((*points, *velocities)) or _sees_more(out, variables)
    tangents: dict[int, Tensor] = {}
    for x, v in zip(variables, velocities, strict=True):
        v = as_tensor(v)
        if v.shape != x.shape:
            raise ShapeError(f"jvp's tangent has shape {v.shape}; its argument has {x.shape}")
        tangents[id(x)] = v if v.dtype == x.dtype else functions.astype(v, x.dtype)
    tangent = push(out, tangents)
    if tangent is None:
        tangent = functions.zeros_like(out)
    return (out, tangent) if nested else (out.detach(), tangent.detach())


def push(root: Tensor, tangents: dict[int, Tensor]) -> Tensor | None:
    """The tangent of `root`, given those of some nodes by `id`; None where none reaches it."""
    order = graph.topological_order(
        root, inputs=lambda n: () if id(n) in tangents else n._tracked
    )
    with enable_grad(), np.errstate(all="ignore"):  # as in a backward pass
        for node in order:
            if id(node) in tangents or not node._tracked:
                continue
            arriving = [tangents.get(id(x)) for x in node._args]
            if any(t is not None for t in arriving):
                check_unchanged(node, rerun=True)
                moved = _push_node(node, arriving)
                if moved is not None:
                    tangents[id(node)] = moved
    return tangents.get(id(root))


def _push_node(node: Tensor, arriving: list[Tensor | None]) -> Tensor | None:
    op: Primitive = node.op
    args, params = node._args, node._params
    given = [None if x is ABSENT else x for x in args]
    if op.jvp is not None:
        return as_tensor(op.jvp(TWIN, arriving, *given, out=node, **params))
    if op.kind == "joint":
        return _push_reference(node, arriving)
    if op.kind == "linear":
        return _push_linear(op, given, arriving, params)
    total: Tensor | None = None
    for rule, t in zip(op.rules, arriving, strict=True):
        if t is None or rule is None:
            continue
        if isinstance(rule, (int, float)):
            term = t if rule == 1 else t * rule
        else:
            term = apply(
                elementwise.absorb, t, rule.twin(TWIN, args, node, params, None, None)
            )
        total = term if total is None else total + term
    return _as_output(total, node)


def _as_output(t: Tensor | None, node: Tensor) -> Tensor | None:
    return t if t is None or t.shape == node.shape else functions.broadcast_to(t, node.shape)


def _push_linear(
    op: Primitive, given: list[Any], arriving: list[Tensor | None], params: dict[str, Any]
) -> Tensor | None:
    if op.jointly:
        moved = [
            x if rule is None or x is None else functions.zeros_like(x) if t is None else t
            for x, t, rule in zip(given, arriving, op.rules, strict=True)
        ]
        return apply(op, *moved, **params)
    total: Tensor | None = None
    for i, t in enumerate(arriving):
        if t is not None:
            term = apply(op, *[*given[:i], t, *given[i + 1 :]], **params)
            total = term if total is None else total + term
    return total


def _push_reference(node: Tensor, arriving: list[Tensor | None]) -> Tensor | None:
    if node.op.reference is None:
        return _push_transposed(node, arriving)
    aliases, out = rerun(node)
    seeds = {
        id(a): t for a, t in zip(aliases, arriving, strict=True) if a is not None and t is not None
    }
    return push(out, seeds)


def _push_transposed(node: Tensor, arriving: list[Tensor | None]) -> Tensor | None:
    """J t as the gradient of ⟨vjp(g), t⟩, which is linear in g, to g: a transpose transposed."""
    rule = node.op.joint_rule
    g = Tensor(node._namespace.ones_like(node._data), requires_grad=True)
    need = tuple([t is not None for t in arriving])
    made = rule.twin(TWIN, node._args, node, node._params, g, need)
    total: Tensor | None = None
    for x, c, t in zip(node._args, made, arriving, strict=True):
        if c is not None and t is not None:
            term = functions.sum(edge_twin(c, x, node) * t)
            total = term if total is None else total + term
    if total is None or not total.requires_grad:
        return None
    return gradients_of(total, [g], None, create_graph=True)[0]  # type: ignore[no-any-return]


def _is_nested(xs: Sequence[Any]) -> bool:
    """Whether an outer transform or backward pass will differentiate what is computed here."""
    return state.grad and any(isinstance(x, Tensor) and x.requires_grad for x in xs)


def _sees_more(out: Tensor, variables: Sequence[Tensor]) -> bool:
    """Whether `out` depends on tracked tensors besides `variables`, which f closes over."""
    if not state.grad:
        return False
    own = {id(x) for x in variables}
    order = graph.topological_order(out, inputs=lambda n: () if id(n) in own else n._tracked)
    return any(n.requires_grad and not n._tracked and id(n) not in own for n in order)


def _trace(
    f: Function, args: Sequence[Any], numbers: Sequence[int], kwargs: dict[str, Any]
) -> tuple[list[Tensor], Tensor]:
    """Run f on fresh variables for the numbered arguments, each an alias of what was given."""
    given = list(args)
    variables: list[Tensor] = []
    with enable_grad():
        for i in numbers:
            if not 0 <= i < len(given):
                raise ValueError(f"argnums has {i}, but {len(given)} arguments were given")
            x = as_tensor(given[i])
            if not is_floating(x.dtype):
                raise DTypeError(
                    f"argument {i} of {_name(f)} is of {x.dtype}; only floating numbers have "
                    "gradients: pass floats, or convert with .astype(float)"
                )
            if x.requires_grad and state.grad:
                variable = apply(elementwise.identity, x)
            else:
                variable = Tensor(x._data, requires_grad=True, name=x.name)
            given[i] = variable
            variables.append(variable)
        out = f(*given, **kwargs)
    if not isinstance(out, Tensor):
        raise TypeError(f"{_name(f)} returned {type(out).__name__}; expected a tensor")
    return variables, out


def _pull(out: Tensor, variables: list[Tensor], g: Any, create_graph: bool) -> list[Tensor]:
    if not out.requires_grad:
        return [functions.zeros_like(x) for x in variables]
    found = gradients_of(out, variables, g, create_graph)
    return [
        functions.zeros_like(x) if d is None else d for x, d in zip(variables, found, strict=True)
    ]


def _name(f: Any) -> str:
    return getattr(f, "__name__", type(f).__name__)
