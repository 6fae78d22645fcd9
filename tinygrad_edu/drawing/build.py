"""A graph of nodes as a picture with everything open: a box a value, an arrow an argument slot.

Numbers stand inside the box that uses them. An input that is used far apart is drawn near each of
its uses. Nothing is computed, and nothing of the graph is kept.
"""

from __future__ import annotations

import linecache
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tinygrad_edu import graph
from tinygrad_edu.autograd.apply import ABSENT
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.drawing import facts
from tinygrad_edu.drawing.model import Arrow, Box, Picture, Span
from tinygrad_edu.drawing.names import Names

__all__ = ["ancestors_of_all", "build", "modules_of", "shown_value"]

_COMMUTES = {"add", "multiply", "maximum", "minimum", "logaddexp", "equal", "not_equal"}
_USES = 4
"""An input with more uses than this is drawn at each of them."""
_NUMBERS = 4
"""A vector of at most so many numbers is written out."""
_CONTEXT = 3
"""Lines of the program around those that made a node."""


def ancestors_of_all(roots: Sequence[Any]) -> list[Any]:
    """Every node that any of the roots depends on, each once, inputs before outputs."""
    if len(roots) == 1:
        return graph.topological_order(roots[0])
    top = object()

    def inputs(node: Any) -> Iterable[Any]:
        return roots if node is top else node.inputs

    return graph.topological_order(top, inputs=inputs)[:-1]


def modules_of(path: str) -> tuple[str, ...]:
    """"GPT.blocks.0.attn" as ("GPT", "blocks.0", "attn"): the number of a list goes with its name;
    that of a `Sequential` itself stands alone.
    """
    parts: list[str] = []
    for part in path.split(".") if path else ():
        if part.isdigit() and len(parts) > 1:
            parts[-1] += "." + part
        else:
            parts.append(part)
    return tuple(parts)


def build(
    roots: Sequence[Any], variables: Mapping[int, str], *, title: str = "", direction: str = "LR",
    values: bool = True, gradients: bool = True, marked: Iterable[Any] = (),
) -> tuple[Picture, list[Any]]:  # fmt: skip
    """The open picture of a graph, and the node of each box, in the boxes' order.

    Args:
        roots: what to draw, with all it was made from.
        variables: names by `id(node)`, as `names.names_in` gives them.
        title: of the picture.
        direction: of the picture.
        values: whether boxes show the numbers.
        gradients: whether boxes show the gradients.
        marked: nodes to mark; an arrow between two of them is marked as well.
    """
    order = ancestors_of_all(roots)
    builder = _Builder(order, roots, variables, values, gradients, {id(x) for x in marked})
    for node in order:
        builder.add(node)
    picture = Picture(
        title, builder.boxes, builder.arrows, direction, sources=_spans(builder.boxes)
    )
    return picture, builder.nodes


class _Builder:
    """Gathers the boxes of one picture."""

    def __init__(
        self, order: Sequence[Any], roots: Sequence[Any], variables: Mapping[int, str],
        values: bool, gradients: bool, marked: set[int],
    ) -> None:  # fmt: skip
        self.names = Names(order, variables)
        self._variables = variables
        self._values, self._gradients, self._marked = values, gradients, marked
        self.boxes: list[Box] = []
        self.arrows: list[Arrow] = []
        self.nodes: list[Any] = []
        self._ids: dict[int, str] = {}
        self._copies: dict[tuple[int, Any], str] = {}
        self._constants: set[int] = set()
        kept = {id(root) for root in roots} | set(variables)
        self._uses = _uses(order)
        self._roots = _roots_of_one_name(order)
        self._said: dict[int, tuple[str, tuple[str, ...], tuple[tuple[str, str], ...]]] = {}
        for node in order:
            if facts.is_constant(node) and id(node) not in kept and self._uses.get(id(node)):
                self._constants.add(id(node))

    def add(self, node: Any) -> None:
        """The box of a node and the arrows into it."""
        if node.op is None:
            if id(node) not in self._constants and not self._uses.get(id(node)):
                self._leaf(node, (), ())
            return
        module = modules_of(facts.module_path(node))
        if module and module[0] in self._roots:
            module = (self._roots[module[0]], *module[1:])
        tails: list[tuple[int, Any, str]] = []
        constants: dict[int, str] = {}
        for slot, x in enumerate(node.inputs):
            if id(x) in self._constants:
                constants[slot] = facts.value_text(x)
            elif x.op is None:
                tails.append((slot, x, self._leaf(x, module, self._place(x, node, module))))
            else:
                tails.append((slot, x, self._ids[id(x)]))
        box = self._box(node, "operation", module)
        box.constants = constants
        box.title = _title(node, constants)
        box.formula = facts.formula(node)
        if getattr(node.op, "reference", None) is not None:
            box.hides = f"in one step: {box.formula}"
        self._ids[id(node)] = box.id
        for slot, x, tail in tails:
            both = id(node) in self._marked and id(x) in self._marked
            label = _slot_label(node, slot, constants)
            self.arrows.append(Arrow(tail, box.id, slot, label, marked=both))

    def _place(self, x: Any, consumer: Any, module: tuple[str, ...]) -> tuple[Any, ...]:
        """Which copy of an input a consumer takes: its own where there are many, else its
        module's.
        """
        consumers = self._uses[id(x)]
        if len(consumers) > _USES:
            return (id(consumer),)
        if self._given(x):
            return ()
        return () if len({facts.module_path(c) for c in consumers}) == 1 else module

    def _given(self, x: Any) -> bool:
        """Whether it comes from outside of modules: a named tensor that is no module's own."""
        return type(x) is Tensor and bool(x.name or id(x) in self._variables)

    def _leaf(self, x: Any, module: tuple[str, ...], place: tuple[Any, ...]) -> str:
        known = self._copies.get((id(x), place))
        if known is not None:
            return known
        first = self._ids.get(id(x), "")
        tracked = not isinstance(x, Tensor) or x.requires_grad
        if self._given(x):
            module = ()
        box = self._box(x, "copy" if first else "parameter" if tracked else "leaf", module)
        if first:
            box.copy_of = first
        self._ids.setdefault(id(x), box.id)
        self._copies[id(x), place] = box.id
        return box.id

    def _box(self, node: Any, kind: str, module: tuple[str, ...]) -> Box:
        given = node.name or self._variables.get(id(node))
        name = _within(self.names[node], module) if given else ""
        box = Box(
            f"n{len(self.boxes)}", kind, facts.symbol(node), name,
            module=module, source=facts.source_line(node), marked=id(node) in self._marked,
        )  # fmt: skip
        if id(node) not in self._said:  # once for all its copies
            self._said[id(node)] = self._facts(node)
        box.gradient, box.lines, box.details = self._said[id(node)]
        self.boxes.append(box)
        self.nodes.append(node)
        return box

    def _facts(self, node: Any) -> tuple[str, tuple[str, ...], tuple[tuple[str, str], ...]]:
        """A box's gradient, lines and details."""
        lines = [shown_value(node)] if self._values else []
        tracked = not isinstance(node, Tensor) or node.requires_grad
        gradient = _gradient_text(node) if tracked else "–"
        if tracked and self._gradients:
            lines.append(f"grad {gradient}")
        return gradient, tuple(lines), _details(node, self.names[node], tracked, gradient)


def _within(name: str, module: tuple[str, ...]) -> str:
    """A weight's name where its module is drawn around it: "weight" in place of "0.fc.weight"."""
    for start in range(1, len(module)):
        rest = name.removeprefix(".".join(module[start:]) + ".")
        if rest != name:
            return rest
    return name


def _roots_of_one_name(order: Sequence[Any]) -> dict[str, str]:
    """Titles of outermost modules whose name stands for several: the paths of two `Sequential`
    begin alike, and only their weights tell that there are two.
    """
    weights: dict[tuple[str, str], set[int]] = {}
    for node in order:
        path = facts.module_path(node)
        for x in node.inputs if path else ():
            if x.op is None and type(x) is not Tensor and x.name:
                weights.setdefault((path, x.name), set()).add(id(x))
    titles: dict[str, str] = {}
    most: dict[str, int] = {}
    for (path, _), found in weights.items():
        root = path.partition(".")[0]
        most[root] = max(most.get(root, 1), len(found))
    for root, count in most.items():
        if count > 1:
            titles[root] = f"{root} ({count} sets of weights)"
    return titles


def _uses(order: Sequence[Any]) -> dict[int, list[Any]]:
    """The consumers of each node by `id`, one an edge."""
    found: dict[int, list[Any]] = {}
    for node in order:
        for x in node.inputs:
            found.setdefault(id(x), []).append(node)
    return found


def _title(node: Any, constants: Mapping[int, str]) -> str:
    sign = facts.symbol(node)
    parameters = facts.parameters(node)
    if sign == "power_constant":
        return f"^ {parameters['exponent']:g}"
    if isinstance(node.op, str) and sign.startswith("**"):  # "**3"; "**" is "^" already
        return f"^ {sign[2:]}"
    if not constants:
        return sign
    inside = [constants.get(slot, "·") for slot in range(len(node.inputs))]
    if len(inside) == 2 and not sign[:1].isalpha():
        left, right = inside
        return " ".join(part for part in (left, sign, right) if part != "·")
    return f"{sign}({', '.join(inside)})"


def _slot_label(node: Any, slot: int, constants: Mapping[int, str]) -> str:
    """What an arrow into an operation says, where it matters which input it is."""
    if len(node.inputs) - len(constants) < 2 or facts.word(node) in _COMMUTES:
        return ""
    known: Sequence[str] = getattr(node.op, "inputs", ())
    given = getattr(node, "_args", ())
    telling = len(known) > 2 or any(len(name) > 1 for name in known)
    if telling and len(given) == len(known):
        here = [name for name, x in zip(known, given, strict=True) if x is not ABSENT]
        return here[slot]
    return str(slot + 1)


def shown_value(node: Any) -> str:
    """The number of a scalar, the numbers of a short vector, else shape and dtype."""
    if isinstance(node, Tensor) and node._data is not None and node.ndim == 1:
        a = facts.host(node._data)
        if 0 < a.size <= _NUMBERS and a.dtype.kind in "fiub":
            return "[" + " ".join(map(facts.exact, a)) + "]"
    return facts.value_text(node)


def _gradient_text(node: Any) -> str:
    """"–" where none has arrived, a number, or the norm of an array."""
    found = facts.gradient(node)
    if found is None:
        return "–"
    a = np.asarray(found)
    if a.ndim == 0:
        return facts.number(a)
    return f"norm {facts.number(facts.norm(a))}"


def _details(node: Any, name: str, tracked: bool, gradient: str) -> tuple[tuple[str, str], ...]:
    found = [("name", name)]
    if node.op is not None:
        found.append(("operation", facts.word(node)))
    text = ", ".join(f"{key} {_brief(value)}" for key, value in facts.parameters(node).items())
    if text:
        found.append(("told", text))
    if isinstance(node, Tensor):
        found.append(("shape", facts.shape_text(node)))
        if node._data is not None and node.dtype.kind == "f" and node.ndim:
            found.append(("numbers", str(facts.health(node._data))))
    else:
        found.append(("value", facts.number(node.data, 8)))
    if tracked:
        found.append(("gradient", gradient))
        arrived = facts.gradient(node)
        if arrived is not None and np.ndim(arrived):
            found.append(("of it", str(facts.health(arrived))))
    path = facts.module_path(node)
    if path:
        found.append(("module", path))
    return tuple(found)


def _brief(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    text = "…" if isinstance(value, np.ndarray) and value.size > _NUMBERS else repr(value)
    return text if len(text) <= 60 else text[:59] + "…"


def _spans(boxes: Sequence[Box]) -> tuple[Span, ...]:
    """The lines of the program that made boxes, with a few around them, file by file."""
    wanted: dict[str, set[int]] = {}
    for box in boxes:
        file, _, line = box.source.rpartition(":")
        if file and line.isdigit():
            wanted.setdefault(file, set()).add(int(line))
    found: list[Span] = []
    for file, numbers in wanted.items():
        text = [line.rstrip("\n") for line in linecache.getlines(file)]
        if not text:
            continue
        for first, last in _runs(sorted(numbers), len(text)):
            found.append(Span(file, first, tuple(text[first - 1 : last])))
    return tuple(found)


def _runs(numbers: Sequence[int], total: int) -> Iterable[tuple[int, int]]:
    """Stretches (first, last) around line numbers; near ones are joined."""
    first = last = 0
    for number in numbers:
        if last and number <= last + 2 * _CONTEXT:
            last = min(total, number + _CONTEXT)
            continue
        if last:
            yield first, last
        first, last = max(1, number - _CONTEXT), min(total, number + _CONTEXT)
    if last:
        yield first, last
