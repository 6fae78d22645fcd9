"""`checkpoint`: a part of a graph that is thrown away and computed again when it is needed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from tinygrad_edu import graph
from tinygrad_edu.autograd import modes
from tinygrad_edu.autograd.apply import apply, as_tensor
from tinygrad_edu.autograd.backward import gradients_of
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.autograd.writes import clock
from tinygrad_edu.ops import elementwise
from tinygrad_edu.ops.registry import joint

Function = Callable[..., Any]


class _Recipe:
    """How to compute a part again: the function, its other arguments, and where chance stood."""

    def __init__(self, f: Function, count: int, kwargs: dict[str, Any]) -> None:
        self.f, self.count, self.kwargs = f, count, kwargs
        self.chance = copy.deepcopy(modes.default_generator().bit_generator.state)

    def __call__(self, xs: Sequence[Any]) -> Tensor:
        """The part again, on these arguments, with the random numbers it had."""
        bits = modes.default_generator().bit_generator
        now = copy.deepcopy(bits.state)
        bits.state = self.chance
        try:
            with modes.enable_grad():
                return self._checked(self.f(*xs[: self.count], **self.kwargs))
        finally:
            bits.state = now

    def first(self, xs: Sequence[Any]) -> Tensor:
        """The part for the first time, which moves the random numbers on."""
        with modes.enable_grad():
            return self._checked(self.f(*xs, **self.kwargs))

    def _checked(self, out: Any) -> Tensor:
        if not isinstance(out, Tensor):
            raise TypeError(
                f"checkpoint's function has to return one tensor; it returned {type(out).__name__}"
            )
        return out


def _vjp(F: Any, need: Any, g: Any, xs: Any, recipe: _Recipe, value: Any, others: Any) -> Any:
    raw = not isinstance(g, Tensor)
    asked = [i for i in range(recipe.count) if need[i]]
    given = [Tensor(x) if raw else x for x in xs[: recipe.count]]
    for i in asked:
        given[i] = Tensor(xs[i], requires_grad=True) if raw else _alias(xs[i])
    out = recipe(given)
    wanted = [*[given[i] for i in asked], *others]
    found = gradients_of(out, wanted, g, create_graph=not raw) if out.requires_grad else []
    pieces: list[Any] = [None] * len(xs)
    for i, d in zip([*asked, *range(recipe.count, len(xs))], found, strict=False):
        pieces[i] = d._data if raw and d is not None else d
    return pieces


def _alias(x: Tensor) -> Tensor:
    return apply(elementwise.identity, x)


def _jvp(
    F: Any, tangents: Any, *xs: Any, out: Any, recipe: _Recipe, value: Any, others: Any
) -> Any:
    from tinygrad_edu.autograd.transforms import push

    with modes.enable_grad():
        variables = [
            _alias(x) if t is not None else x
            for x, t in zip(xs[: recipe.count], tangents, strict=False)
        ]
    seeds = {id(v): t for v, t in zip(variables, tangents, strict=False) if t is not None}
    for leaf, t in zip(others, tangents[recipe.count :], strict=True):
        if t is not None:
            seeds[id(leaf)] = t
    return push(recipe(variables), seeds)


_checkpoint = joint(
    "checkpoint", "a part that is computed again in the backward pass",
    forward=lambda F, *xs, recipe, value, others: value, vjp=_vjp, jvp=_jvp,
    listed=False,
)  # fmt: skip


def checkpoint(f: Function, *args: Any, **kwargs: Any) -> Tensor:
    """f(*args, **kwargs), keeping nothing that f computes on the way: a backward pass runs f again.

    Memory for a second forward pass (Chen et al. 2016, "Training deep nets with sublinear memory
    cost"). f returns one tensor. Tensors that f closes over, a module's parameters say, get their
    gradients too; random numbers from the default generator are drawn again as they were.

    Raises:
        TypeError: f returns something else.
    """
    if not modes.state.grad:
        out = f(*args, **kwargs)
        return out if isinstance(out, Tensor) else as_tensor(out)
    inputs = [as_tensor(x) for x in args]
    recipe = _Recipe(f, len(inputs), kwargs)
    # Once with its graph, to see which tensors it closes over; then the graph goes.
    variables = [_alias(x) if x.requires_grad else x for x in inputs]
    own = {id(v) for v in variables}
    clock[0] += 1  # what is made from here on carries a later time than what was there before
    start = clock[0]
    out = recipe.first(variables)
    if not out.requires_grad:
        return out

    def inside(node: Tensor) -> tuple[Tensor, ...]:
        return () if id(node) in own or node._stamp < start else node._tracked

    order = graph.topological_order(out, inputs=inside)
    others = [n for n in order if n.requires_grad and not inside(n) and id(n) not in own]
    value = out._data
    return apply(_checkpoint, *inputs, *others, recipe=recipe, value=value, others=tuple(others))


