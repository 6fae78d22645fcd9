"""The backward pass over tensors: rules, broadcasting, dtypes, hooks, and where gradients go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from operator import attrgetter
from typing import Any

import numpy as np

from tinygrad_edu import backend, graph
from tinygrad_edu.autograd import writes
from tinygrad_edu.autograd.apply import apply, as_tensor, fingerprints, guarded
from tinygrad_edu.autograd.modes import enable_grad, state
from tinygrad_edu.autograd.pull import pull_and_free, pull_raw, pull_twin
from tinygrad_edu.autograd.tensor import Tensor, _is_bfloat, as_array
from tinygrad_edu.autograd.writes import clock
from tinygrad_edu.errors import AnomalyError, DTypeError, GraphError, MutationError, ShapeError
from tinygrad_edu.ops import elementwise

Array = Any
Rule = Callable[[Tensor, Any], Sequence[Any]]
_follow = attrgetter("_tracked")


def backward(
    root: Tensor, gradient: Any, retain_graph: bool, create_graph: bool, observer: Any = None
) -> None:
    """See `Tensor.backward`; `observer` is called with a `graph.Event` for each contribution."""
    seed = _seed(root, gradient)
    release = not retain_graph and not create_graph
    order = graph.topological_order(root, inputs=_follow)
    watched = _check_usable(order, create_graph) or state.anomaly
    leaves = [node for node in order if not node._tracked]

    def arrived(node: Tensor, upstream: Any) -> Any:
        if node._hooks is not None:
            upstream = _run_hooks(node, upstream, create_graph)
        if state.anomaly:
            _check_backward(node, upstream)
        return upstream

    pull: Rule = pull_twin if create_graph else pull_and_free if release else pull_raw
    gradients: dict[int, Any] = {id(root): seed if create_graph else seed._data}
    with np.errstate(all="ignore"), enable_grad() if create_graph else nullcontext():
        graph.sweep(
            order,
            gradients,
            _watch(pull) if state.anomaly else pull,
            arrived=arrived if watched else None,
            observer=observer,
            release=release,
        )
    # Stored only now that the whole pass has succeeded, so that a failed one changes nothing.
    for node in order:
        if node._tracked:
            node._grad = gradients.get(id(node))
    for leaf in leaves:
        arriving = gradients.get(id(leaf))
        if arriving is not None:
            _accumulate(leaf, arriving, create_graph)


def _check_usable(order: list[Tensor], rerun: bool) -> bool:
    """Raise before anything has moved if a node was freed or its data was written to.

    Returns whether any node has a hook.
    """
    now = clock[0]
    hooked = False
    for node in order:
        if node._hooks is not None:
            hooked = True
        if node._tracked:
            if node._stamp != now or node._fingerprint is not None:
                check_unchanged(node, rerun)
        elif node._freed:
            raise GraphError(
                f"{node.label()}, made at {node.line}, was freed by an earlier "
                "backward(retain_graph=False); run the forward pass again, or keep the graph with "
                "retain_graph=True"
            )
        elif node._data.dtype.kind != "f" and not _is_bfloat(node._data):
            raise DTypeError(
                f"{node.label()} is of {node.dtype}; only floating numbers have gradients"
            )
    return hooked


def gradients_of(
    output: Tensor, inputs: Sequence[Tensor], upstream: Any, create_graph: bool
) -> list[Any]:
    """The gradient of `output` to each of `inputs` (a Tensor, or None where nothing flows).

    Stores nothing in the graph, and walks only what lies between.
    """
    wanted = {id(x) for x in inputs}
    order = graph.topological_order(output, inputs=lambda n: () if id(n) in wanted else n._tracked)
    useful = set(wanted)
    for node in order:
        if any(id(x) in useful for x in node._tracked):
            useful.add(id(node))
    kept = [node for node in order if id(node) in useful]

    def arrived(node: Tensor, g: Any) -> Any:
        if node._hooks is not None:
            g = _run_hooks(node, g, create_graph)
        if state.anomaly:
            _check_backward(node, g)
        return g

    rule: Rule = pull_twin if create_graph else pull_raw
    if state.anomaly:
        rule = _watch(rule)

    def pull(node: Tensor, g: Any) -> Sequence[Any]:
        return () if id(node) in wanted else rule(node, g)

    seed = _seed(output, upstream)
    watched = _check_usable(kept, create_graph) or state.anomaly
    found: dict[int, Any] = {id(output): seed if create_graph else seed._data}
    with np.errstate(all="ignore"), enable_grad() if create_graph else nullcontext():
        graph.sweep(kept, found, pull, arrived=arrived if watched else None)
    results = [found.get(id(x)) for x in inputs]
    return [None if g is None else _owned(g) for g in results]


def carried(
    root: Tensor, gradient: Any, arrived: Callable[[Tensor, Array], None], observer: Any = None
) -> list[Tensor]:
    """A backward pass that stores nothing: `arrived(node, g)` is told each node's whole gradient,
    as a raw array, in the order of the pass. Hooks run as in `Tensor.backward`. `observer` is
    called with a `graph.Event` for each contribution.

    Returns the nodes in topological order; those that nothing reached were not told of.
    """
    seed = _seed(root, gradient)
    order = graph.topological_order(root, inputs=_follow)
    _check_usable(order, False)

    def told(node: Tensor, g: Array) -> Array:
        if node._hooks is not None:
            g = _run_hooks(node, g, False)
        arrived(node, g)
        return g

    with np.errstate(all="ignore"):
        graph.sweep(
            list(order), {id(root): seed._data}, pull_raw, arrived=told, observer=observer,
            release=True,
        )
    return order


def _owned(g: Any) -> Tensor:
    """A gradient as a tensor that shares no memory with another: rules pass arrays through and on.

    A tensor stays linked to what it was made from, as its history is the point of `create_graph`.
    """
    if not isinstance(g, Tensor):
        return as_tensor(g.copy())
    with enable_grad():
        return apply(elementwise.copy, g)


def _seed(root: Tensor, gradient: Any) -> Tensor:
    if not root.requires_grad:
        raise GraphError(
            f"backward on {root.label()}, which is not tracked: nothing it was made from has "
            "requires_grad=True, or it was made under no_grad()"
        )
    F = backend.namespace_of(root._data)
    if gradient is None:
        if root.size != 1:
            raise GraphError(
                f"backward on {root.label()} of shape {root.shape} needs a gradient of that shape "
                "to start from; reduce it to one number first (.sum(), .mean()), or pass "
                "gradient=..."
            )
        return Tensor(F.ones(root.shape, dtype=root.dtype))
    wide = None if backend.is_array(gradient) else root.dtype  # a list has no dtype of its own
    given = gradient if isinstance(gradient, Tensor) else Tensor(as_array(gradient, wide))
    if given.shape != root.shape:
        raise ShapeError(
            f"backward on {root.label()} of shape {root.shape} was given a gradient of shape "
            f"{given.shape}; the two have to be equal"
        )
    if given.dtype != root.dtype:
        given = given.astype(root.dtype)
    # A copy, because what is stored as a gradient is nobody else's memory.
    return given if given.requires_grad else Tensor(given._data.copy())


def _accumulate(leaf: Tensor, upstream: Any, create_graph: bool) -> None:
    """Add to a leaf's `grad`: what is stored is the leaf's own memory, never one passed through."""
    before = leaf._grad
    if create_graph:
        leaf._grad = _owned(upstream) if before is None else as_tensor(before) + upstream
        return
    if before is None:
        leaf._grad = upstream
    else:
        leaf._grad = (before._data if isinstance(before, Tensor) else before) + upstream


def _run_hooks(node: Tensor, upstream: Any, create_graph: bool) -> Any:
    for hook in node._hooks or ():
        given = as_tensor(upstream)
        replaced = hook(given)
        if replaced is not None:
            replaced = as_tensor(replaced)
            if replaced.shape != node.shape:
                raise ShapeError(
                    f"a hook on {node.label()} of shape {node.shape} returned a gradient of shape "
                    f"{replaced.shape}; the two have to be equal"
                )
            if replaced.dtype != node.dtype:
                replaced = replaced.astype(node.dtype)
            upstream = replaced if create_graph else replaced._data.copy()
    return upstream


def _watch(pull: Rule) -> Rule:
    """`pull`, whose first NaN or inf is an error that names the operation whose rule made it."""

    def watched(node: Tensor, g: Any) -> Sequence[Any]:
        inputs = node.inputs
        pieces = pull(node, g)
        for x, piece in zip(inputs, pieces, strict=True):
            kind = None if piece is None else _not_finite(piece)
            if kind:
                op = node.op
                raise AnomalyError(
                    f"{op.name} ({op.formula}) made the first {kind} in the backward pass: its "
                    f"gradient to {x.label()} of shape {x.shape}, from a finite upstream gradient "
                    f"of shape {node.shape}; the operation is at {node.line}" + _in_module(node)
                )
        return pieces

    return watched


def _not_finite(g: Any) -> str | None:
    data = g._data if isinstance(g, Tensor) else g
    F = backend.namespace_of(data) if backend.is_array(data) else backend.NUMPY
    if F.isfinite(data).all():
        return None
    return "NaN" if F.isnan(data).any() else "inf"


def _in_module(node: Tensor) -> str:
    return f", in module {node.module}" if node.module else ""


def _check_backward(node: Tensor, upstream: Any) -> None:
    """What no single rule made: a seed, what a hook returned, or a sum that overflowed."""
    kind = _not_finite(upstream)
    if kind:
        raise AnomalyError(
            f"the first {kind} of the backward pass arrived at {node.label()} of shape "
            f"{node.shape}" + (f", made at {node.line}" if node.op is not None else "")
            + _in_module(node)
        )


def check_unchanged(node: Tensor, rerun: bool = False) -> None:
    """Raise if data that the node's rule names was written to since the node was made.

    `rerun` as in `apply.guarded`.
    """
    stamp = node._stamp
    kept = guarded(node, rerun)
    for x in kept:
        if x._replaced > stamp or writes.last(x._data) > stamp:
            _complain(node, x)
    if node._fingerprint is not None:
        now = fingerprints(node)
        for x in kept:
            if node._fingerprint[id(x)] != now[id(x)]:
                _complain(node, x)


def _complain(node: Tensor, x: Tensor) -> None:
    what = f"the data of {x.label()} (shape {x.shape})"
    raise MutationError(
        f"{what} was changed after {node.op.name} used it at {node.line}, so its gradient would be "
        "wrong; run backward() before changing it, or change a copy"
    )


__all__ = ["backward", "carried", "check_unchanged", "gradients_of"]
