"""What a picture is made of, before anything is laid out: boxes, arrows, and their modules.

`build` makes it from a graph, `collapse` folds it, and every output (dot, svg, page, terminal) is
written from it. It holds text and numbers only: no node, so that no graph is kept alive.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Arrow", "Box", "Picture", "Span"]


@dataclass(slots=True)
class Box:
    """One node of a graph, or one folded module.

    Attributes:
        id: opaque and unique in the picture: "n" and a number, in topological order.
        kind: "leaf" (an input), "parameter" (a tracked leaf), "operation", "copy" (of a weight,
            drawn near one of its uses), "module" (a folded one).
        title: the operation's sign or name, the module's last name, or "".
        name: what the node is called; "" where neither the user nor a variable named it.
        lines: what stands below the title, a fact a line: value or shape and dtype, gradient.
        gradient: "–" where none has arrived, else the number or its norm, as text.
        module: names of the modules around it, from the outermost: ("GPT", "blocks.0", "attn").
        source: "file:line" of the user's line; "" where it is not known.
        formula: what the operation computes, in a line.
        hides: what a fused or folded box stands for, in a line; "".
        constants: text of the inputs drawn inside it, by slot: {1: "2.0"}.
        copy_of: id of the box that a copy stands for; "".
        count: how many equal blocks a folded box stands for; 1.
        inside: how many operations and weights a folded box holds, of one block; (0, 0).
        fill: an overlay's colour for it as "#rrggbb"; "" for the theme's own.
        strength: the number behind an overlay's colour, as text; "".
        marked: it is on the path asked for, or is the culprit.
        details: more facts for whoever points at it, in order: (what, text).
    """

    id: str
    kind: str
    title: str
    name: str = ""
    lines: tuple[str, ...] = ()
    gradient: str = "–"
    module: tuple[str, ...] = ()
    source: str = ""
    formula: str = ""
    hides: str = ""
    constants: dict[int, str] = field(default_factory=dict)
    copy_of: str = ""
    count: int = 1
    inside: tuple[int, int] = (0, 0)
    fill: str = ""
    strength: str = ""
    marked: bool = False
    details: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Arrow:
    """One argument slot: from the box of an input to the box of the node that uses it.

    Attributes:
        tail, head: ids of boxes.
        slot: which argument; -1 for an arrow between folded boxes.
        label: the slot's number where the order matters, else "".
        count: how many slots an arrow between folded boxes stands for; 1.
        marked: it is on a path asked for.
    """

    tail: str
    head: str
    slot: int
    label: str = ""
    count: int = 1
    marked: bool = False


@dataclass(slots=True)
class Span:
    """Some lines of the user's program, for a panel beside the graph.

    Attributes:
        file: its path, as the interpreter knows it.
        first: the number of the first line.
        lines: their text.
    """

    file: str
    first: int
    lines: tuple[str, ...]


@dataclass(slots=True)
class Picture:
    """A drawing before layout.

    Attributes:
        title: one line.
        boxes, arrows: in topological order, arrows by head and slot.
        direction: "LR" or "TB".
        legend: (colour "#rrggbb", text), what the overlay's colours mean.
        notes: sentences below the picture, such as what was folded and why.
        sources: the user's lines that boxes point to.
    """

    title: str
    boxes: list[Box]
    arrows: list[Arrow]
    direction: str = "LR"
    legend: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    sources: tuple[Span, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The same in dicts, lists, text and numbers, for JSON."""
        return asdict(self)
