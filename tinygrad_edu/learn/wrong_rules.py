"""Local derivatives as beginners write them: right in spirit, wrong by a square or a name.

For each operation the wrong rule, what it says in words, and the right one beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.drawing import facts

__all__ = ["WRONG_RULES", "dropped_factor", "fitted"]

Array = Any
Names = Callable[[Any], str]
Handed = Callable[[Array, Array], Array | None]


def fitted(piece: Array, like: Array) -> Array:
    """A contribution summed to the shape of the right one, where the input was broadcast."""
    piece = np.asarray(piece)
    shape = np.shape(like)
    piece = piece.sum(axis=tuple(range(piece.ndim - len(shape))))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and piece.shape[i] != 1)
    return piece.sum(axis=axes, keepdims=True) if axes else piece


def _exponent(node: Any) -> float | None:
    """The number that a power has as its exponent; None where that is a node."""
    if isinstance(node, Tensor):
        found = node._params.get("exponent")
        return None if found is None else float(found)
    return float(node.op[2:]) if len(node.op) > 2 else None


_Wrong = tuple[Array, str, str]
"""The wrong local derivative, what it says, and what it should."""


def _of_input(node: Any, slot: int) -> Array:
    return facts.host(node.inputs[slot].data)


def _wrong_tanh(node: Any, slot: int, name: Names) -> _Wrong:
    x, a, out = _of_input(node, 0), name(node.inputs[0]), name(node)
    return 1 - x**2, f"1 - {a}²", f"1 - {out}²: of the result, not of the input"


def _wrong_sigmoid(node: Any, slot: int, name: Names) -> _Wrong:
    x, a, out = _of_input(node, 0), name(node.inputs[0]), name(node)
    return x * (1 - x), f"{a} · (1 - {a})", f"{out} · (1 - {out}): of the result, not of the input"


def _wrong_exp(node: Any, slot: int, name: Names) -> _Wrong:
    x, a, out = _of_input(node, 0), name(node.inputs[0]), name(node)
    wrong = x * np.exp(x - 1)
    return wrong, f"{a} · exp({a} - 1), as if it were a power", f"{out} itself"


def _wrong_log(node: Any, slot: int, name: Names) -> _Wrong:
    out = facts.host(node.data)
    return 1 / out, f"1/{name(node)}", f"1/{name(node.inputs[0])}: of the input, not of the result"


def _wrong_sqrt(node: Any, slot: int, name: Names) -> _Wrong:
    out = facts.host(node.data)
    return out / 2, f"{name(node)}/2", f"1/(2·{name(node)}): the result stands below"


def _wrong_power(node: Any, slot: int, name: Names) -> _Wrong | None:
    n, x, a = _exponent(node), _of_input(node, 0), name(node.inputs[0])
    if n is None or n in (0.0, 1.0):
        return None
    return n * x**n, f"{n:g}·{a}^{n:g}", f"{n:g}·{a}^{n - 1:g}: the exponent is one less"


def _wrong_multiply(node: Any, slot: int, name: Names) -> _Wrong | None:
    own, other = node.inputs[slot], node.inputs[1 - slot]
    if own is other:
        return None
    return _of_input(node, slot), name(own), f"{name(other)}, the other factor"


def _wrong_divide(node: Any, slot: int, name: Names) -> _Wrong:
    a, b = _of_input(node, 0), _of_input(node, 1)
    over, under = name(node.inputs[0]), name(node.inputs[1])
    if slot == 0:
        return b, under, f"1/{under}"
    return -a / b, f"-{over}/{under}", f"-{over}/{under}²"


WRONG_RULES: dict[str, Callable[[Any, int, Names], _Wrong | None]] = {
    "tanh": _wrong_tanh, "sigmoid": _wrong_sigmoid, "exp": _wrong_exp, "log": _wrong_log,
    "sqrt": _wrong_sqrt, "power": _wrong_power, "multiply": _wrong_multiply,
    "divide": _wrong_divide,
}  # fmt: skip


def dropped_factor(node: Any, slot: int, name: Names) -> tuple[Handed, str] | None:
    """What is handed on where a factor of the chain rule was forgotten, and which one that was."""
    word, arrived = facts.word(node), f"∂L/∂{name(node)}"
    if word in ("multiply", "divide"):
        left_out = "the other factor" if word == "multiply" else f"{name(node)}'s derivative"
        return (
            fitted,
            f"{name(node)} hands on {arrived} as it is, without {left_out}",
        )
    if word == "power":
        n = _exponent(node)
        if n is None or n in (0.0, 1.0):
            return None
        return lambda g, c: c / n, f"{name(node)} hands on without the exponent {n:g} in front"
    if word == "mean":
        n = node.inputs[0].size / max(node.size, 1)
        return (
            lambda g, c: c * n,
            f"{name(node)}, a mean of {n:g} numbers, hands on without 1/{n:g}",
        )
    if word in _ONE_INPUT:
        return _local_alone, f"{name(node)} hands on its local derivative alone, without {arrived}"
    return None


def _local_alone(g: Array, c: Array) -> Array:
    return np.where(g == 0, 0.0, c / np.where(g == 0, 1.0, g))[()]


_ONE_INPUT = ("tanh", "exp", "log", "sqrt", "sigmoid")
