"""Overlays: a number for each node as its box's colour, with a legend.

The colours are Okabe and Ito's, which stay apart for the colour-blind; dark text reads on each.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.drawing import facts
from tinygrad_edu.drawing.collapse import Amounts, Reduce, largest
from tinygrad_edu.drawing.model import Picture

__all__ = ["ERRORS", "Overlay", "overlay_of"]

Measure = Callable[[Any], "float | None"]
Legend = tuple[tuple[str, str], ...]

_BAD, _HIGH, _WARM, _FINE, _COOL, _LOW = (
    "#D55E00", "#E69F00", "#F5D08A", "#E8E8E8", "#B3DDF2", "#56B4E9",
)  # fmt: skip
_RAMP = ("#F4F4F4", "#CFE8F6", "#9CD1EE", "#56B4E9")
"""From little to much."""
ERRORS = "tinygrad_edu.debugger.checking"
"""Where the measure of "error" is: a room above this one, so it is found by its name."""


@dataclass(frozen=True)
class Overlay:
    """What an overlay measures and how it is coloured.

    Attributes:
        measure: a number for a node; None for one that has none.
        paint: the legend, and a colour for each number, given all of them.
        write: a number as text.
        reduce, across: one number for a folded module's, and for those of equal blocks.
    """

    measure: Measure
    paint: Callable[[Sequence[float]], tuple[Legend, Callable[[float], str]]]
    write: Callable[[float], str] = facts.number
    reduce: Reduce = largest
    across: Reduce = largest

    def amounts(self, picture: Picture, nodes: Sequence[Any]) -> Amounts:
        """The numbers of an open picture's boxes."""
        of: dict[str, float] = {}
        copies: dict[str, float] = {}
        for box, node in zip(picture.boxes, nodes, strict=True):
            if box.kind == "copy":
                if box.copy_of in of:
                    copies[box.id] = of[box.copy_of]
                continue
            found = self.measure(node)
            if found is not None:
                of[box.id] = float(found)
        return Amounts(of, self.reduce, self.across, copies)

    def painted(self, picture: Picture, amounts: Amounts) -> Picture:
        """The picture with a colour for each box that has a number, and the legend."""
        legend, colour = self.paint(list(amounts.of.values()))
        of = dict(amounts.of)
        for box in picture.boxes:  # its own original's, also where that is folded with others
            if box.kind == "copy" and box.id in amounts.copies:
                of[box.id] = amounts.copies[box.id]
        boxes = [
            replace(box, fill=colour(of[box.id]), strength=self.write(of[box.id]))
            if box.id in of else box
            for box in picture.boxes
        ]  # fmt: skip
        return replace(picture, boxes=boxes, legend=legend)


def overlay_of(
    what: str | Mapping[Any, float] | Callable[[Any], float | None],
) -> Overlay:
    """The overlay that a name, a mapping from nodes or a function of a node stands for.

    Raises:
        ValueError: there is none of that name.
    """
    if isinstance(what, Mapping):
        by_id = {id(node): number for node, number in what.items()}
        return Overlay(lambda node: by_id.get(id(node)), _ramp)
    if callable(what):
        return Overlay(what, _ramp)
    if what == "error":
        measure = importlib.import_module(ERRORS).local_error
        return Overlay(measure, _errors, lambda x: f"{x:.0e}")
    if what not in _NAMED:
        raise ValueError(
            f"overlay was {what!r}; give one of {', '.join(map(repr, [*_NAMED, 'error']))}, a "
            "mapping from nodes to numbers, or a function of a node"
        )
    return _NAMED[what]


# What is measured


def _gradient_size(node: Any) -> float | None:
    """Root mean square of the gradient: comparable between a bias and a large weight."""
    found = facts.gradient(node)
    if found is None:
        return None
    return facts.norm(found) / math.sqrt(max(1, np.asarray(found).size))


def _bad_numbers(node: Any) -> float:
    """How many numbers of its value and its gradient are NaN or infinite."""
    bad = 0
    for x in (node.data, facts.gradient(node)):
        a = np.asarray(facts.host(x)) if x is not None else np.zeros(0)
        if a.dtype.kind == "f":
            bad += int((~np.isfinite(a)).sum())
    return float(bad)


def _bytes(node: Any) -> float:
    """Bytes of its numbers; a view of another's has none of its own. A `Value` is 24."""
    if not isinstance(node, Tensor):
        return 24.0
    if node._data is None:
        return 0.0
    memory = _memory(node)
    shared = any(_memory(x) is memory for x in node.inputs if x._data is not None)
    return 0.0 if shared else float(node._data.nbytes)


def _memory(node: Tensor) -> Any:
    """The array whose memory a tensor's numbers lie in."""
    data: Any = node._data
    while getattr(data, "base", None) is not None:
        data = data.base
    return data


def _operations(node: Any) -> float | None:
    """Multiplications and additions of the forward pass: 2·m·k·n for a product of matrices, one
    for each number in or out (whichever are more) for what works number by number.
    """
    if node.op is None:
        return None
    name = facts.word(node)
    if not isinstance(node, Tensor):
        return 1.0
    shapes: list[tuple[int, ...]] = [x.shape for x in node.inputs]
    if name in ("linear", "matmul"):
        return 2.0 * node.size * shapes[0][-1]
    if name in ("attention", "packed_attention"):
        return _attention_operations(node)
    if name in _MOVES:
        return 0.0
    return float(max([node.size, *(math.prod(shape) for shape in shapes)]))


_MOVES = {
    "broadcast_to", "cast", "concatenate", "copy", "embedding", "expand_dims", "flip", "getitem",
    "identity", "pad", "reshape", "roll", "set_at", "squeeze", "stack", "swapaxes", "transpose",
    "windows",
}  # fmt: skip


def _attention_operations(node: Any) -> float:
    """4·T·S·C a sequence: every query with every key, then with every value."""
    width: int = node.shape[-1]
    length: int = node.inputs[0].shape[-2]
    keys: int = node.inputs[1].shape[-2] if facts.word(node) == "attention" else length
    batch: int = math.prod(node.shape[:-2])
    return 4.0 * batch * length * keys * width


# How it is coloured


def _sizes(numbers: Sequence[float]) -> tuple[Legend, Callable[[float], str]]:
    """Gradients by their size beside the median one of the picture."""
    finite = sorted(x for x in numbers if 0.0 < x < math.inf)
    middle = finite[len(finite) // 2] if finite else 1.0

    def colour(x: float) -> str:
        if not math.isfinite(x):
            return _BAD
        if x == 0.0:
            return _LOW
        off = math.log10(x) - math.log10(middle)
        if abs(off) < 1:
            return _FINE
        return (_WARM if off < 3 else _HIGH) if off > 0 else (_COOL if off > -3 else _LOW)

    legend = (
        (_LOW, "vanishing: 0, or below 1/1000 of the median gradient"),
        (_COOL, "small: below 1/10"),
        (_FINE, f"near the median, {facts.number(middle)} (root mean square)"),
        (_WARM, "large: above 10 ×"),
        (_HIGH, "exploding: above 1000 ×"),
        (_BAD, "NaN or inf"),
    )
    return legend, colour


def _finite(numbers: Sequence[float]) -> tuple[Legend, Callable[[float], str]]:
    bad = sum(x > 0 for x in numbers)
    legend = ((_BAD, f"NaN or inf in value or gradient: {bad}"), (_FINE, "all numbers finite"))
    return legend, lambda x: _BAD if x else _FINE


def _errors(numbers: Sequence[float]) -> tuple[Legend, Callable[[float], str]]:
    """Relative errors of local derivatives, against differences."""

    def colour(x: float) -> str:
        if not x <= 1e-2:
            return _BAD
        return _WARM if x > 1e-5 else _FINE

    legend = (
        (_FINE, "derivative agrees with differences"),
        (_WARM, "relative error above 1e-5"),
        (_BAD, "relative error above 1e-2: wrong, or at a kink"),
    )
    return legend, colour


def _ramp(
    numbers: Sequence[float], write: Callable[[float], str] = facts.number
) -> tuple[Legend, Callable[[float], str]]:
    """Four steps from the least to the largest; by powers where they span more than 100 ×."""
    finite = [x for x in numbers if math.isfinite(x)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
    least = min((x for x in finite if x > 0), default=0.0)
    powers = low >= 0 and least > 0 and high / least > 100

    def step(x: float) -> int:
        if high == low or (powers and x <= 0):
            return 0
        if powers:
            part = math.log(x / least) / math.log(high / least)
        else:
            part = (x - low) / (high - low)
        return min(3, max(0, int(4 * part)))

    def edge(i: int) -> float:
        if powers:
            return float(least * (high / least) ** (i / 4))
        return low + (high - low) * i / 4

    legend = [(_RAMP[i], f"{write(edge(i))} … {write(edge(i + 1))}") for i in range(4)]
    if high == low:
        legend = [(_RAMP[0], write(low))] if finite else []
    if len(finite) < len(numbers):
        legend.append((_BAD, "NaN or inf"))
    return tuple(legend), lambda x: _RAMP[step(x)] if math.isfinite(x) else _BAD


def _scaled(unit: str) -> Callable[[float], str]:
    def write(x: float) -> str:
        for size, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
            if x >= size:
                return f"{x / size:.3g} {prefix}{unit}"
        return f"{x:.3g} {unit}"

    return write


def _root_of_squares(numbers: Sequence[float]) -> float:
    """One size for many gradients: their root mean square."""
    if not all(map(math.isfinite, numbers)):
        return largest(numbers)
    return math.hypot(*numbers) / math.sqrt(len(numbers))


def _total(unit: str, measure: Measure) -> Overlay:
    write = _scaled(unit)
    return Overlay(measure, lambda numbers: _ramp(numbers, write), write, math.fsum, math.fsum)


_NAMED: dict[str, Overlay] = {
    "gradient": Overlay(
        _gradient_size, _sizes, lambda x: f"rms {facts.number(x)}", _root_of_squares
    ),
    "nan": Overlay(_bad_numbers, _finite, lambda x: f"{x:.0f}", math.fsum, math.fsum),
    "memory": _total("B", _bytes),
    "flops": _total("FLOP", _operations),
}
