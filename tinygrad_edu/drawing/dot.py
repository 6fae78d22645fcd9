"""A picture as text in Graphviz' language, with all text escaped."""

from __future__ import annotations

import hashlib
import html
import json
import os
import unicodedata
from collections.abc import Iterator, Sequence

from tinygrad_edu.drawing.model import Arrow, Box, Picture

__all__ = ["FONT", "LIGHT", "body", "escaped", "plain", "prefix_of", "text_of"]

FONT = "Arial"
"""One name whose widths every renderer knows; the svg names a list of fonts instead."""
LIGHT: dict[str, tuple[str, str]] = {
    "leaf": ("#F3F4F6", "#6B7280"),
    "parameter": ("#DCEEFB", "#0072B2"),
    "copy": ("#DCEEFB", "#0072B2"),
    "operation": ("#FFF6E0", "#A86E00"),
    "module": ("#DDF3EA", "#007A5A"),
    "cluster": ("#FAFAFA", "#9CA3AF"),
    "marked": ("#FDE3D3", "#D55E00"),
}
"""Fill and line of each kind of box, on a light ground."""
INK, FAINT = "#1F2933", "#52606D"
_LONGEST = 48
_SPLINES = 300
"""Boxes above which arrows are drawn straight: curved ones take Graphviz minutes."""


def prefix_of(picture: Picture) -> str:
    """What ids in the svg begin with: made from the content, so equal pictures give equal text."""
    content = picture.as_dict()
    del content["sources"]
    for box in content["boxes"]:
        box["source"] = os.path.basename(box["source"])  # the same in every folder
    text = json.dumps(content, sort_keys=True, ensure_ascii=True)
    return "g" + hashlib.sha256(text.encode()).hexdigest()[:10]


def plain(text: str) -> str:
    """Text in one line, without control characters, and not too long."""
    shown = "".join(
        c if c.isprintable() or c == "\u200d" else _visible(c) for c in text
    )
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"


def _visible(character: str) -> str:
    if character in "\n\t\r":
        return {"\n": "⏎", "\t": "⇥", "\r": "⏎"}[character]
    return f"\\u{ord(character):04x}"


def escaped(text: str) -> str:
    """For an HTML-like label: nothing in it is markup, nor one of Graphviz' own escapes."""
    return html.escape(plain(text), quote=True).replace("\\", "\\\\")


def text_of(picture: Picture, alone: bool = False) -> str:
    """The picture in Graphviz' language; equal pictures give equal text.

    Args:
        picture: what to write.
        alone: for an image that no page is around: on white, with legend and notes below.
    """
    lines = [*body(picture), *(_below(picture) if alone else ())]
    return "\n".join(["digraph {", *("  " + line for line in lines), "}", ""])


def _below(picture: Picture) -> Iterator[str]:
    yield 'graph [bgcolor="white"]'
    rows = [*picture.legend, *(("", note) for note in picture.notes)]
    if not rows:
        return
    cells = "".join(
        f'<TR><TD WIDTH="16" BGCOLOR="{colour or "white"}"></TD>'
        f'<TD ALIGN="LEFT">{html.escape(text)}</TD></TR>'
        for colour, text in rows
    )
    table = f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="2" CELLPADDING="2">{cells}</TABLE>'
    yield f'graph [labelloc="b" labeljust="l" label=<{table}>]'


def body(picture: Picture) -> Iterator[str]:
    """The statements of the graph, a line each."""
    prefix = prefix_of(picture)
    splines = ' splines="line"' if len(picture.boxes) > _SPLINES else ""
    yield (
        f'graph [rankdir="{picture.direction}" nodesep="0.22" ranksep="0.42" pad="0.15" '
        f'bgcolor="transparent" fontname="{FONT}" fontsize="11" fontcolor="{FAINT}" '
        f'id="{prefix}"{splines}]'
    )
    yield (
        f'node [shape="box" style="rounded,filled" fontname="{FONT}" fontsize="11" '
        f'fontcolor="{INK}" margin="0.06,0.03" height="0.3" width="0.3"]'
    )
    yield (
        f'edge [color="{FAINT}" fontcolor="{FAINT}" fontname="{FONT}" '
        f'fontsize="9" arrowsize="0.6" labeldistance="1.7" labelangle="-22"]'
    )
    yield from _cluster(picture.boxes, (), prefix, [0])
    for number, arrow in enumerate(picture.arrows):
        yield _arrow(arrow, f"{prefix}-e{number}")


def _cluster(
    boxes: Sequence[Box], path: tuple[str, ...], prefix: str, counter: list[int]
) -> Iterator[str]:
    """Boxes of a module, and its modules inside it."""
    inner: dict[str, list[Box]] = {}
    for box in boxes:
        if len(box.module) > len(path):
            inner.setdefault(box.module[len(path)], []).append(box)
        else:
            yield _box(box, prefix)
    for name, inside in inner.items():
        fill, line = LIGHT["cluster"]
        counter[0] += 1
        number = counter[0]
        yield f"subgraph cluster_{number} {{"
        yield (
            f'  graph [label=<<B>{escaped(name)}</B>> labeljust="l" labelloc="t" '
            f'style="rounded,filled" color="{line}" fillcolor="{fill}" margin="10" '
            f'id="{prefix}-m{number}"]'
        )
        for line_ in _cluster(inside, (*path, name), prefix, counter):
            yield "  " + line_
        yield "}"


def _box(box: Box, prefix: str) -> str:
    fill, line = LIGHT[box.kind]
    classes = [box.kind]
    width = "1"
    if box.marked:
        classes.append("marked")
        fill, line = LIGHT["marked"]
        width = "2.4"
    if box.fill:
        classes.append("painted")
        fill = box.fill
    style = "rounded,filled,dashed" if box.kind == "copy" else "rounded,filled"
    return (
        f'{box.id} [label=<{_label(box)}> style="{style}" fillcolor="{fill}" color="{line}" '
        f'penwidth="{width}" class="{" ".join(classes)}" id="{prefix}-{box.id}"]'
    )


def _label(box: Box) -> str:
    head = []
    if box.title:
        head.append(f'<B><FONT POINT-SIZE="13">{escaped(box.title)}</FONT></B>')
    if box.name:
        mark = "↻ " if box.kind == "copy" else ""
        head.append(f"<B>{mark}{escaped(box.name)}</B>" if not box.title else escaped(box.name))
    if not head and box.kind == "copy":
        head.append("↻ again")
    rows = ["  ".join(head)] if head else []
    texts = [("  ".join(t for t in (box.title, box.name) if t))] if head else []
    for line in box.lines:
        rows.append(f'<FONT POINT-SIZE="10" COLOR="{FAINT}">{escaped(line)}</FONT>')
        texts.append(plain(line))
    if box.hides:
        hidden = box.hides if box.kind == "module" else box.formula
        rows.append(f'<FONT POINT-SIZE="9" COLOR="{FAINT}">{escaped(hidden)}</FONT>')
        texts.append(plain(hidden))
    if box.strength:
        rows.append(f'<FONT POINT-SIZE="9">{escaped(box.strength)}</FONT>')
        texts.append(box.strength)
    if not rows:
        rows, texts = ["input"], ["input"]
    least = max(_width(text) for text in texts)
    cells = "".join(
        f'<TR><TD WIDTH="{least}">{row}</TD></TR>' if i == 0 else f"<TR><TD>{row}</TD></TR>"
        for i, row in enumerate(rows)
    )
    return f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="2">{cells}</TABLE>'


def _width(text: str) -> int:
    """Points that letters take which renderers without the fonts do not know; else nothing."""
    if text.isascii():
        return 0
    ems = sum(
        1.15 if unicodedata.east_asian_width(c) in "WF" or ord(c) > 0x1F000
        else 0.0 if unicodedata.combining(c) else 0.58
        for c in text
    )  # fmt: skip
    return round(11 * ems)


def _arrow(arrow: Arrow, identity: str) -> str:
    facts = [f'id="{identity}"']
    if arrow.marked:
        facts.append(f'color="{LIGHT["marked"][1]}" penwidth="2.2" class="marked"')
    label = arrow.label or (f"× {arrow.count}" if arrow.count > 1 else "")
    if label:
        where = "headlabel" if arrow.label else "label"
        facts.append(f'{where}=<{escaped(label)}>')
    return f"{arrow.tail} -> {arrow.head} [{' '.join(facts)}]"
