"""How a primitive is called in the generic tests: what a case holds, and builders for common ones.

A case holds inputs in the primitive's order (float arrays are differentiated; integers, bools and
None are not), its parameters, and an independent definition of its value in plain NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinygrad_edu.autograd import apply
from tinygrad_edu.ops import Primitive, registry

Array = Any


@dataclass(frozen=True)
class Case:
    """One way to call a primitive.

    `roundings` and `inner` are the check's, for terms that cancel inside; `why` says which.
    """

    name: str
    build: Callable[[Draw], tuple[Any, ...]]
    value: Callable[..., Any]
    params: dict[str, Any] = field(default_factory=dict)
    label: str = ""
    roundings: float = 64.0
    inner: float = 0.0
    why: str = ""
    fixed: tuple[int, ...] = ()  # float inputs that no gradient is defined for

    @property
    def primitive(self) -> Primitive:
        return registry[self.name]

    def inputs(self, dtype: Any = np.float64, seed: int = 0) -> list[Any]:
        """Fresh inputs: floats in `dtype`, the same numbers for the same seed."""
        made = self.build(Draw(self.primitive, np.random.default_rng(seed)))
        return [None if x is None else _in(np.asarray(x), dtype) for x in made]

    def floating(self, inputs: list[Any]) -> list[int]:
        """Which inputs are differentiated."""
        return [
            i
            for i, x in enumerate(inputs)
            if x is not None and x.dtype.kind == "f" and i not in self.fixed
        ]

    def function(self, inputs: list[Any]) -> tuple[Callable[..., Any], list[Any]]:
        """(f, xs): the primitive as a function of the inputs that are differentiated."""
        moving = self.floating(inputs)

        def f(*xs: Any) -> Any:
            given = list(inputs)
            for i, x in zip(moving, xs, strict=True):
                given[i] = x
            return apply(self.primitive, *given, **self.params)

        f.__name__ = self.name
        return f, [inputs[i] for i in moving]

    def __str__(self) -> str:
        return f"{self.name} {self.label}".strip().replace(" ", "-")


def _in(x: Any, dtype: Any) -> Any:
    return x.astype(dtype) if x.dtype.kind == "f" else x


class Draw:
    """Inputs for one case, inside the domains of its primitive."""

    def __init__(self, primitive: Primitive, rng: np.random.Generator) -> None:
        self.primitive = primitive
        self.rng = rng

    def __call__(self, *shape: int, slot: int = 0) -> Array:
        """Numbers from the domain of input `slot`."""
        domain = self.primitive.domain
        low, high = domain[min(slot, len(domain) - 1)]
        room = 0.1 * (high - low)
        return self.rng.uniform(low + room, high - room, shape)

    def apart(self, *shape: int) -> Array:
        """Numbers at least 0.2 from each other and 0.1 from 0, -1 and 1: no kink, no tie."""
        n = math.prod(shape)
        grid = 0.25 * (np.arange(n) - n // 2) + 0.125
        return self.rng.permutation(grid).reshape(shape) + self.rng.uniform(-0.02, 0.02, shape)

    def pair(self, first: tuple[int, ...], second: tuple[int, ...]) -> tuple[Array, Array]:
        """Two arrays no element of which is near another."""
        n = math.prod(first)
        both = self.apart(n + math.prod(second))
        return both[:n].reshape(first), both[n:].reshape(second)

    def ids(self, limit: int, *shape: int) -> Array:
        return self.rng.integers(0, limit, shape)

    def bools(self, *shape: int) -> Array:
        return self.rng.random(shape) < 0.6

    def keep(self, *shape: int) -> Array:
        """A dropout pattern, already scaled: 0 or 2."""
        return 2.0 * (self.rng.random(shape) < 0.5)


def one(name: str, value: Callable[..., Any], **facts: Any) -> list[Case]:
    return [
        Case(name, lambda d: (d(2, 3),), value, **facts),
        Case(name, lambda d: (d(),), value, label="0-d", **facts),
        Case(name, lambda d: (d(0, 2),), value, label="empty", **facts),
    ]


def two(name: str, value: Callable[..., Any], **facts: Any) -> list[Case]:
    def of(*shapes: tuple[int, ...]) -> Callable[[Draw], tuple[Any, ...]]:
        return lambda d: tuple(d(*shape, slot=i) for i, shape in enumerate(shapes))

    return [
        Case(name, of((2, 3), (2, 3)), value, **facts),
        Case(name, of((2, 1), (4, 1, 3)), value, label="broadcast", **facts),
        Case(name, of((), (3,)), value, label="0-d and 1-d", **facts),
        Case(name, of((0, 3), (1, 3)), value, label="empty", **facts),
    ]


def reduction(
    name: str, value: Callable[..., Any], tied: bool = False, **facts: Any
) -> list[Case]:
    def case(axis: Any, keepdims: bool, *shape: int) -> Case:
        params = {"axis": axis, "keepdims": keepdims, **facts.get("params", {})}
        others = {k: v for k, v in facts.items() if k != "params"}
        label = f"axis {axis} {'kept' if keepdims else 'dropped'} of {shape}"
        return Case(
            name, lambda d: (d.apart(*shape) if tied else d(*shape),), value,
            params=params, label=label, **others,
        )  # fmt: skip

    return [
        case(None, False, 2, 3), case(None, True, 2, 3), case((1,), False, 2, 3),
        case((0, 2), True, 2, 3, 2), case((0, 2), False, 2, 3, 2), case(None, False),
        case((0,), False, 1),
    ]  # fmt: skip
