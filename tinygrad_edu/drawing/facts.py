"""What there is to say of a node, in a line: the same words for pictures, stepper and questions.

A `Value` and a `Tensor` answer alike. Nothing here computes a gradient or changes a node.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinygrad_edu.autograd.recording import note_of
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.ops.registry import Primitive

__all__ = [
    "Health", "exact", "formula", "gradient", "health", "host", "is_constant", "is_scalar",
    "module_path", "norm", "number", "op_name", "parameters", "place", "shape_of", "shape_text",
    "source_line", "symbol", "value_text", "word",
]  # fmt: skip

_WORDS = {
    "+": "add", "-": "subtract", "*": "multiply", "/": "divide", "**": "power", "neg": "negative",
    "power_constant": "power",
}  # fmt: skip
_SYMBOLS = {
    "add": "+", "subtract": "-", "multiply": "×", "divide": "/", "negative": "-", "neg": "-",
    "power": "^", "**": "^", "matmul": "@", "*": "×", "sum": "Σ", "sqrt": "√", "maximum": "max",
    "minimum": "min", "transpose": "ᵀ",
}  # fmt: skip


def op_name(node: Any) -> str | None:
    """The operation that made a node, by its name in the registry or `Value`'s; None for a leaf."""
    op = node.op
    return op.name if isinstance(op, Primitive) else op


def symbol(node: Any) -> str:
    """The operation as a sign where it has one, such as "×", else its name; "" for a leaf."""
    name = op_name(node)
    return "" if name is None else _SYMBOLS.get(name, name)


def word(node: Any) -> str:
    """The operation as a word, the same for a `Value` and a `Tensor`: "multiply"; "leaf" for one
    that no operation made.
    """
    name = op_name(node)
    if name is None:
        return "leaf"
    return _WORDS.get("**" if name.startswith("**") else name, name)


def formula(node: Any) -> str:
    """What the operation computes, in a line; "" for a leaf and for a `Value`."""
    return node.op.formula if isinstance(node.op, Primitive) else ""


def parameters(node: Any) -> dict[str, Any]:
    """What the operation was told beside its inputs, such as axis and keepdims."""
    found: dict[str, Any] = getattr(node, "_params", None) or {}
    return {key: value for key, value in found.items() if not key.startswith("_")}


def module_path(node: Any) -> str:
    """The module that ran when the node was made, such as "GPT.blocks.0.attn"; "" outside of any
    and for a `Value`.
    """
    found: str = getattr(node, "module", "")
    return found


def source_line(node: Any) -> str:
    """"file:line" where the operation was called; "" where it is not known: a `Value` has a line
    only if it was made within `tg.record()`.
    """
    if node.op is None:
        return ""
    if isinstance(node, Tensor):
        return node.line
    note = note_of(node)
    return note.source if note is not None else ""


def place(node: Any) -> str:
    """The same without folders, "file.py:12", for people."""
    file, _, line = source_line(node).rpartition(":")
    return f"{os.path.basename(file)}:{line}" if file else ""


def is_scalar(node: Any) -> bool:
    """Whether it holds one number: a `Value`, or a tensor without axes."""
    return not isinstance(node, Tensor) or node.ndim == 0


def is_constant(node: Any) -> bool:
    """Whether it is a number that stands in the program, such as the 2 of `x * 2`."""
    if not isinstance(node, Tensor):
        return bool(node.is_constant)
    return node.op is None and node.name is None and not node.requires_grad and node.ndim == 0


def shape_of(node: Any) -> tuple[int, ...]:
    """The length of each axis; () for a `Value`."""
    return node.shape if isinstance(node, Tensor) else ()


def host(x: Any) -> Any:
    """Numbers of any kind (a node's, a gradient's, from any device) as a NumPy array."""
    if isinstance(x, Tensor):
        x = x._data
    return x.get() if hasattr(x, "get") and hasattr(x, "device") else np.asarray(x)


def number(x: Any, digits: int = 4) -> str:
    """One number for people: "2.0", "-0.1234", "1.2e-07", "nan"; 1.000000001 is "1.000"."""
    value = float(x)
    if math.isnan(value) or math.isinf(value):
        return str(value)
    if value == int(value) and abs(value) < 1e6:
        return f"{value:.1f}"
    text = f"{value:.{digits}g}" if 1e-3 <= abs(value) < 1e6 else f"{value:.{digits - 1}g}"
    if "e+0" in text and abs(value) < 1e6:
        return f"{value:.0f}"
    return text if "." in text or "e" in text else f"{value:#.{digits}g}".rstrip(".")


def norm(x: Any) -> float:
    """The root of the sum of the squares, also where these lie beyond the range of a float."""
    a = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        found = float(np.linalg.norm(a))
        if a.size and (found == 0.0 or math.isinf(found)):
            largest = float(np.abs(a).max())
            if 0.0 < largest < math.inf:
                found = largest * float(np.linalg.norm(a / largest))
    return found


def exact(x: Any) -> str:
    """One number as its dtype has it: "2" and "True" for those that are no floats."""
    kind = getattr(x, "dtype", np.dtype(float)).kind
    return str(x[()]) if kind in "biu" else number(x)


def shape_text(node: Any) -> str:
    """Shape and dtype, such as "(3, 4) float32"; "" for a `Value`."""
    return f"{node.shape} {node.dtype}" if isinstance(node, Tensor) else ""


def value_text(node: Any) -> str:
    """The number of a scalar; shape and dtype of an array."""
    if isinstance(node, Tensor) and node._data is None:
        return "–"
    return exact(host(node.data)) if is_scalar(node) else shape_text(node)


def gradient(node: Any) -> Any:
    """The gradient that a backward pass left in a node, as an array; None where none has arrived
    (a `Value` whose gradient reads 0 before any pass has none).
    """
    if isinstance(node, Tensor):
        found = node._grad
        return None if found is None else host(found)
    return np.asarray(node.grad) if node.has_grad else None


@dataclass(frozen=True, slots=True)
class Health:
    """Counts by kind of number, and the range and size of the finite ones.

    Attributes:
        size: how many numbers.
        minus_inf, negative, zero, positive, plus_inf, nan: how many of each; they add up to size.
        low, high: the least and the largest finite number; NaN where there is none.
        norm: the root of the sum of the squares of the finite ones.
    """

    size: int
    minus_inf: int
    negative: int
    zero: int
    positive: int
    plus_inf: int
    nan: int
    low: float
    high: float
    norm: float

    @property
    def finite(self) -> bool:
        """Whether no number is NaN or infinite."""
        return not (self.nan or self.minus_inf or self.plus_inf)

    def __str__(self) -> str:
        parts = [f"norm {number(self.norm)}", f"{number(self.low)} … {number(self.high)}"]
        for count, what in (
            (self.zero, "zero"), (self.nan, "NaN"), (self.minus_inf, "-inf"),
            (self.plus_inf, "inf"),
        ):  # fmt: skip
            if count:
                parts.append(f"{count} of {self.size} {what}")
        return ", ".join(parts)


def health(x: Any) -> Health:
    """What kind of numbers an array holds."""
    a = np.asarray(host(x), np.float64)
    finite = a[np.isfinite(a)]
    some = finite.size > 0
    return Health(
        size=a.size,
        minus_inf=int((a == -np.inf).sum()),
        negative=int((finite < 0).sum()),
        zero=int((finite == 0).sum()),
        positive=int((finite > 0).sum()),
        plus_inf=int((a == np.inf).sum()),
        nan=int(np.isnan(a).sum()),
        low=float(finite.min()) if some else math.nan,
        high=float(finite.max()) if some else math.nan,
        norm=norm(finite),
    )
