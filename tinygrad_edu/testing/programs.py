"""Random programs: graphs with fan-out, diamonds, constants and detached parts, drawn as data.

A program runs on tensors, where it is one function to differentiate, and on dual numbers, which
know its derivatives without a graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import tinygrad_edu.autograd.functions as functions
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.testing import dual

Two = tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]
One = tuple[Callable[[Any], Any], Callable[[Any], Any]]

UNARY: dict[str, One] = {
    "tanh": (functions.tanh, dual.tanh), "sin": (functions.sin, dual.sin),
    "square": (functions.square, dual.square), "sum": (functions.sum, dual.total),
    "transpose": (functions.transpose, dual.flipped),
    "first": (lambda x: x[:1] if x.ndim else functions.sum(x), dual.first),
    "detach": (lambda x: x.detach(), lambda x: dual.Dual(x.value)),
}  # fmt: skip
BINARY: dict[str, Two] = {
    "add": (functions.add, dual.add), "subtract": (functions.subtract, dual.subtract),
    "multiply": (functions.multiply, dual.multiply),
}  # fmt: skip


@dataclass(frozen=True)
class Program:
    """Steps, each an operation on earlier results (inputs first, by number), or a constant."""

    inputs: int
    steps: tuple[tuple[str, Any, Any], ...]

    def __call__(self, *xs: Any) -> Any:
        """Σ of every result that no later step uses, on tensors."""
        return self._run(list(xs), 0, lambda c: Tensor(np.asarray(c)), functions.sum, functions.add)

    def dual(self, *xs: Any) -> dual.Dual:
        """The same on dual numbers, whose leaves are named by their place."""
        leaves = [dual.leaf(i, np.asarray(x, float)) for i, x in enumerate(xs)]
        constant = lambda c: dual.Dual(np.asarray(c))  # noqa: E731
        return self._run(leaves, 1, constant, dual.total, dual.add)  # type: ignore[no-any-return]

    def _run(self, found: list[Any], side: int, constant: Any, total: Any, add: Any) -> Any:
        used: set[int] = set()
        for name, i, j in self.steps:
            if name == "constant":
                found.append(constant(i))
            elif name in UNARY:
                found.append(UNARY[name][side](found[i]))
                used.add(i)
            else:
                found.append(BINARY[name][side](found[i], found[j]))
                used |= {i, j}
        ends = [total(v) for k, v in enumerate(found) if k not in used]
        whole = ends[0] if ends else total(found[-1])
        for end in ends[1:]:
            whole = add(whole, end)
        return whole


@st.composite
def programs(draw: Any, inputs: int = 2, steps: int = 8) -> Program:
    """A program of up to `steps` steps on inputs that broadcast together, such as (2, 3) and (3,)
    or numbers. (Whether two results of it broadcast is not known here: shapes are kept alike by
    leaving `transpose` and `first` to what is then summed.)
    """
    made: list[tuple[str, Any, Any]] = []
    moved: set[int] = set()  # results whose shape may not fit the others
    for _ in range(draw(st.integers(1, steps))):
        count = inputs + len(made)
        name = draw(st.sampled_from(["constant", *UNARY, *BINARY]))
        fitting = [k for k in range(count) if k not in moved]
        if name == "constant":
            made.append((name, draw(st.sampled_from([0.0, 0.5, -1.0, 2.0])), None))
        elif name in BINARY:
            made.append((name, draw(st.sampled_from(fitting)), draw(st.sampled_from(fitting))))
        else:
            source = draw(st.integers(0, count - 1))
            if name in ("transpose", "first") or (source in moved and name != "sum"):
                moved.add(count)
            made.append((name, source, None))
    return Program(inputs, tuple(made))
