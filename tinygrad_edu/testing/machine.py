"""`EngineMachine`: hypothesis drives the engine at random, a twin of dual numbers watches it.

    TestEngine = EngineMachine.TestCase

Tensors are created, combined, viewed, written to, differentiated, forgotten, in any order; after
every step the gradients of all leaves are what the twin adds up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from tinygrad_edu.autograd import functions, modes
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.errors import MutationError
from tinygrad_edu.testing import dual
from tinygrad_edu.testing.programs import BINARY, UNARY

SHAPES = ((), (3,), (2, 3))
_LARGE = 16.0
NUMBERS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)


@dataclass(eq=False)
class Leaf:
    """A leaf's gradient as the twin adds it up, and when it was last written to."""

    tensor: Tensor
    gradient: Any = None
    writes: int = 0


@dataclass(eq=False)
class Held:
    """A tensor, its twin, and the state of each leaf's data when it was computed."""

    tensor: Tensor
    twin: dual.Dual
    seen: dict[Any, int] = field(default_factory=dict)


class EngineMachine(RuleBasedStateMachine):
    """See the module."""

    held = Bundle("held")

    def __init__(self) -> None:
        super().__init__()
        self.leaves: dict[int, Leaf] = {}

    @rule(target=held, shape=st.sampled_from(SHAPES), data=st.data())
    def create(self, shape: tuple[int, ...], data: Any) -> Held:
        """A leaf of small numbers."""
        size = int(np.prod(shape))
        drawn = data.draw(st.lists(st.sampled_from(NUMBERS), min_size=size, max_size=size))
        value = np.array(drawn).reshape(shape)
        tensor = Tensor(value.copy(), requires_grad=True)
        name = len(self.leaves)
        self.leaves[name] = Leaf(tensor)
        return Held(tensor, dual.leaf(name, value), {name: 0})

    @rule(target=held, x=held, name=st.sampled_from(sorted(UNARY)))
    def operate_on_one(self, x: Held, name: str) -> Held:
        """A function, a view, a sum, or a detached copy."""
        ours, theirs = UNARY[name]
        tensor, twin = _tamed(x)
        return Held(ours(tensor), theirs(twin), dict(x.seen))

    @rule(target=held, x=held, y=held, name=st.sampled_from(sorted(BINARY)))
    def operate_on_two(self, x: Held, y: Held, name: str) -> Held:
        """Arithmetic, broadcast; where shapes do not fit, a sum of each first."""
        ours, theirs = BINARY[name]
        (a, left), (b, right) = _tamed(x), _tamed(y)
        try:
            np.broadcast_shapes(a.shape, b.shape)
        except ValueError:
            a, left = functions.sum(a), dual.total(left)
            b, right = functions.sum(b), dual.total(right)
        seen = {k: min(x.seen.get(k, 10**9), y.seen.get(k, 10**9)) for k in {*x.seen, *y.seen}}
        return Held(ours(a, b), theirs(left, right), seen)

    @rule(target=held, x=held)
    def operate_untracked(self, x: Held) -> Held:
        """Under no_grad nothing is remembered."""
        with modes.no_grad():
            return Held(functions.tanh(x.tensor), dual.Dual(np.tanh(x.twin.value)))

    @rule(x=held, data=st.data())
    def assign(self, x: Held, data: Any) -> None:
        """Write to a leaf: what was computed from its old numbers may not be differentiated."""
        for leaf in self.leaves.values():
            if leaf.tensor is x.tensor:
                leaf.writes += 1
                value = data.draw(st.sampled_from(NUMBERS))
                leaf.tensor.data = np.full(leaf.tensor.shape, value)
                x.twin.value = leaf.tensor.data.copy()
                name = next(iter(x.twin.jacobian))
                x.seen[name] = leaf.writes

    @rule(x=held, data=st.data())
    def backward(self, x: Held, data: Any) -> None:
        """A pass from any tensor; an error that nothing may follow if old numbers were needed."""
        if not x.tensor.requires_grad:
            return
        size = x.tensor.size
        drawn = data.draw(st.lists(st.sampled_from(NUMBERS), min_size=size, max_size=size))
        g = np.array(drawn).reshape(x.tensor.shape)
        stale = any(self.leaves[k].writes > seen for k, seen in x.seen.items())
        try:
            x.tensor.backward(g)
        except MutationError:
            assert stale, "a MutationError, but nothing was written to"
            return
        for name in x.twin.jacobian:
            leaf = self.leaves[name]
            piece = x.twin.gradient(name, g)
            leaf.gradient = piece if leaf.gradient is None else leaf.gradient + piece

    @rule(x=held)
    def zero(self, x: Held) -> None:
        """Forget a leaf's gradient."""
        for leaf in self.leaves.values():
            if leaf.tensor is x.tensor:
                leaf.tensor.zero_grad()
                leaf.gradient = None

    @rule(x=consumes(held))
    def delete(self, x: Held) -> None:
        """Drop a tensor; graphs that need it keep it."""

    @invariant()
    def gradients_are_what_the_twin_adds_up(self) -> None:
        """Of every leaf, after every step."""
        for leaf in self.leaves.values():
            found = leaf.tensor.grad
            if leaf.gradient is None:
                assert found is None
                continue
            assert found is not None
            size = np.abs(leaf.gradient).max(initial=1.0)
            np.testing.assert_allclose(found._data, leaf.gradient, rtol=1e-9, atol=1e-11 * size)


def _tamed(x: Held) -> tuple[Tensor, dual.Dual]:
    """A tensor and its twin, through tanh where numbers have grown large."""
    if np.abs(x.twin.value).max(initial=0) <= _LARGE:
        return x.tensor, x.twin
    return functions.tanh(x.tensor), dual.tanh(x.twin)
