"""The svg that Graphviz writes, made fit for a page: colours for light and dark, a title and a
description, what each box says on pointing at it, fonts as a list, ids of its own.
"""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator

from tinygrad_edu.drawing import dot
from tinygrad_edu.drawing.model import Arrow, Box, Picture

__all__ = ["described", "dressed", "legend_height"]

_SVG = "http://www.w3.org/2000/svg"
_FONTS = "Arial, 'Liberation Sans', Helvetica, sans-serif"
_DARK: dict[str, tuple[str, str]] = {
    "leaf": ("#2B3038", "#9AA5B1"),
    "parameter": ("#12324A", "#56B4E9"),
    "copy": ("#12324A", "#56B4E9"),
    "operation": ("#3A2F14", "#E69F00"),
    "module": ("#12382D", "#35C293"),
    "marked": ("#4A2412", "#FF8A3D"),
}
_DARK_CLUSTER = ("#1C2128", "#5B6673")
_ROW, _PAD = 15.0, 10.0


def dressed(raw: bytes, picture: Picture) -> str:
    """Graphviz' svg of a picture, as it is saved and shown.

    Every box is a group with `data-box`, every arrow one with `data-tail`, `data-head` and
    `data-slot`.
    """
    ET.register_namespace("", _SVG)
    root = ET.fromstring(re.sub(rb"<!DOCTYPE[^>]*>", b"", raw))
    prefix = dot.prefix_of(picture)
    _ground(root)
    _label_groups(root, picture, prefix)
    _fonts(root)
    _below(root, picture)
    title, text = ET.Element("title"), ET.Element("desc")
    title.text = dot.plain(picture.title)
    title.set("id", f"{prefix}-title")
    text.text = described(picture)
    text.set("id", f"{prefix}-desc")
    style = ET.Element("style")
    style.text = _style(prefix)
    for place, element in enumerate((title, text, style)):
        root.insert(place, element)
    root.set("id", f"{prefix}-svg")
    root.set("role", "img")
    root.set("aria-labelledby", f"{prefix}-title {prefix}-desc")
    root.set("style", "max-width:100%;height:auto")
    return ET.tostring(root, encoding="unicode") + "\n"


def _ground(root: ET.Element) -> None:
    """No ground of its own: the page's shows."""
    graph = root.find(f"{{{_SVG}}}g")
    if graph is None:
        return
    for child in list(graph):
        ground = child.tag.endswith("polygon") and child.get("stroke") in ("none", "transparent")
        if ground or child.tag.endswith("title"):
            graph.remove(child)


def _label_groups(root: ET.Element, picture: Picture, prefix: str) -> None:
    boxes = {f"{prefix}-{box.id}": box for box in picture.boxes}
    arrows = {f"{prefix}-e{i}": arrow for i, arrow in enumerate(picture.arrows)}
    for group in root.iter(f"{{{_SVG}}}g"):
        identity = group.get("id", "")
        title = group.find(f"{{{_SVG}}}title")
        if identity in boxes:
            box = boxes[identity]
            group.set("data-box", box.id)
            _say(title, _about(box))
        elif identity in arrows:
            arrow = arrows[identity]
            group.set("data-tail", arrow.tail)
            group.set("data-head", arrow.head)
            group.set("data-slot", str(arrow.slot))
            _say(title, _slot(arrow, boxes, prefix))
        elif title is not None:
            group.remove(title)


def _say(title: ET.Element | None, text: str) -> None:
    if title is not None:
        title.text = text


def _about(box: Box) -> str:
    lines = [f"{what}: {text}" for what, text in box.details]
    for what, text in (
        ("formula", box.formula), ("holds", box.hides if box.kind == "module" else ""),
        ("line", os.path.basename(box.source)),
        ("stands for", f"{box.count} equal boxes" if box.count > 1 else ""),
        ("overlay", box.strength),
    ):  # fmt: skip
        if text and not any(line.startswith(what + ":") for line in lines):
            lines.append(f"{what}: {text}")
    return "\n".join("".join(c for c in line if c.isprintable()) for line in lines)


def _slot(arrow: Arrow, boxes: dict[str, Box], prefix: str) -> str:
    tail, head = boxes[f"{prefix}-{arrow.tail}"], boxes[f"{prefix}-{arrow.head}"]
    slot = f", input {arrow.slot + 1}" if arrow.slot >= 0 else ""
    return f"{_called(tail)} to {_called(head)}{slot}"


def _called(box: Box) -> str:
    return dot.plain(" ".join(t for t in (box.title, box.name) if t) or "input")


def _fonts(root: ET.Element) -> None:
    for text in root.iter(f"{{{_SVG}}}text"):
        text.set("font-family", _FONTS)


def _below(root: ET.Element, picture: Picture) -> None:
    """The legend and the notes, in rows below the graph."""
    rows = [*picture.legend, *(("", note) for note in picture.notes)]
    if not rows:
        return
    x, y, width, height = map(float, root.get("viewBox", "0 0 1 1").split())
    needed = max(len(text) for _, text in rows) * 5.6 + 40
    group = ET.SubElement(root, f"{{{_SVG}}}g", {"class": "legend"})
    for i, (colour, text) in enumerate(rows):
        top = y + height + _PAD + i * _ROW
        if colour:
            ET.SubElement(group, f"{{{_SVG}}}rect", {
                "x": f"{x + 8:g}", "y": f"{top:g}", "width": "16", "height": "10", "rx": "2",
                "fill": colour, "stroke": dot.FAINT, "stroke-width": "0.5",
            })  # fmt: skip
        label = ET.SubElement(group, f"{{{_SVG}}}text", {
            "x": f"{x + (30 if colour else 8):g}", "y": f"{top + 9:g}", "font-size": "10",
            "font-family": _FONTS, "fill": dot.FAINT,
        })  # fmt: skip
        label.text = text
    height += legend_height(picture)
    width = max(width, needed)
    root.set("viewBox", f"{x:g} {y:g} {width:g} {height:g}")
    root.set("width", f"{width:g}pt")
    root.set("height", f"{height:g}pt")


def legend_height(picture: Picture) -> float:
    """Points that legend and notes take below the graph."""
    rows = len(picture.legend) + len(picture.notes)
    return rows * _ROW + 2 * _PAD if rows else 0.0


def described(picture: Picture) -> str:
    """The graph in words, for those who do not see it: each operation with what it is made from."""
    into: dict[str, list[str]] = {}
    boxes = {box.id: box for box in picture.boxes}
    for arrow in picture.arrows:
        into.setdefault(arrow.head, []).append(_called(boxes[arrow.tail]))
    shown = [box for box in picture.boxes if box.id in into]
    parts = [
        f"{_called(box)} of {', '.join(into[box.id])}"
        + (f": {dot.plain(box.lines[0])}" if box.lines else "")
        for box in shown[:40]
    ]
    more = f"; and {len(shown) - 40} more" if len(shown) > 40 else ""
    count = f"{len(picture.boxes)} boxes, {len(picture.arrows)} arrows"
    return f"{count}. " + "; ".join(parts) + more


def _style(prefix: str) -> str:
    """Colours on a dark ground; on a light one those of the elements hold."""
    rules = list(_dark(f"#{prefix}-svg"))
    return "@media (prefers-color-scheme: dark) {" + " ".join(rules) + "}"


def _dark(scope: str) -> Iterator[str]:
    for kind, (fill, line) in _DARK.items():
        own = f"{scope} .node.{kind}:not(.painted)"
        yield f"{own} path, {own} polygon {{fill:{fill};stroke:{line}}}"
    fill, line = _DARK_CLUSTER
    yield f"{scope} .cluster > path, {scope} .cluster > polygon {{fill:{fill};stroke:{line}}}"
    yield f"{scope} text {{fill:#E4E7EB}}"
    yield f"{scope} .painted text {{fill:{dot.INK}}}"
    yield f"{scope} .edge path {{stroke:#9AA5B1;fill:none}}"
    yield f"{scope} .edge polygon {{stroke:#9AA5B1;fill:#9AA5B1}}"
    yield f"{scope} .edge.marked path {{stroke:#FF8A3D;fill:none}}"
    yield f"{scope} .edge.marked polygon {{stroke:#FF8A3D;fill:#FF8A3D}}"
