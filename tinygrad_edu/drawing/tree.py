"""A graph in the terminal: a tree from the result to what it was made from, at 80 columns.

A box is opened once; where it comes again it is named with its number. What would lie too far to
the right goes on below, at the left.
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterator, Sequence

from tinygrad_edu.drawing import dot
from tinygrad_edu.drawing.model import Arrow, Box, Picture

__all__ = ["tree_text"]

_DEEPEST = 14
"""Levels that are indented; below, the tree goes on at the left."""
_WIDTH = 80
_COLUMN = 44
_FACTS = 26
"""Columns that a long name leaves to numbers."""


def tree_text(picture: Picture, limit: int = 200) -> str:
    """The picture as lines of at most 80 columns.

    Args:
        picture: what to write.
        limit: lines at most.
    """
    lines: list[str] = []
    for line in _lines(picture):
        if len(lines) == limit:
            lines.append(f"… more than {limit} lines; draw(…, collapse='auto') folds")
            break
        lines.append(line)
    notes = [row for note in picture.notes for row in textwrap.wrap(note, _WIDTH)]
    return "\n".join([*lines, *notes])


def _lines(picture: Picture) -> Iterator[str]:
    boxes = {box.id: box for box in picture.boxes}
    into: dict[str, list[Arrow]] = {}
    used: dict[str, int] = {}
    for arrow in picture.arrows:
        into.setdefault(arrow.head, []).append(arrow)
        used[arrow.tail] = used.get(arrow.tail, 0) + 1
    numbers: dict[str, int] = {}
    opened: set[str] = set()
    waiting = [box.id for box in reversed(picture.boxes) if not used.get(box.id)]
    later: list[str] = []
    while True:
        if not waiting:
            waiting, later = [x for x in later if x not in opened], []
        if not waiting:  # but for a ring: folded modules may use each other
            waiting = [box.id for box in reversed(picture.boxes) if box.id not in opened][:1]
        if not waiting:
            return
        start = waiting.pop(0)
        if start in opened:
            continue
        stack: list[tuple[str, str, str, str]] = [(start, "", "", "")]
        while stack:
            key, first, rest, slot = stack.pop()
            box = boxes[key]
            children = into.get(key, [])
            again = key in opened
            shared = used.get(key, 0) > 1 and children
            if shared and key not in numbers:
                numbers[key] = len(numbers) + 1
            deep = len(first) // 3 >= _DEEPEST and children and not again
            if deep and key not in numbers:
                numbers[key] = len(numbers) + 1
            mark = f" #{numbers[key]}" if key in numbers else ""
            note = " (above)" if again and children else " (below)" if deep else ""
            yield _row(first, slot, box, mark + note)
            if deep:
                later.append(key)
            elif not again:
                opened.add(key)
                stack += reversed(_branches(children, rest))


def _branches(children: Sequence[Arrow], rest: str) -> list[tuple[str, str, str, str]]:
    found = []
    for i, arrow in enumerate(children):
        last = i == len(children) - 1
        found.append((
            arrow.tail, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "),
            f"{arrow.label}: " if arrow.label else "",
        ))  # fmt: skip
    return found


def _row(first: str, slot: str, box: Box, mark: str) -> str:
    name = dict(box.details).get("name", box.name) if box.name else ""
    named = f"{name} = {box.title}" if name and box.title else name or box.title
    facts = [dot.plain(line) for line in box.lines]
    taken = _columns(first + slot + mark) + min(_FACTS, _columns("  ".join(facts))) + 2
    head = first + slot + _cut(dot.plain(named or "input"), _WIDTH - taken) + mark
    room = max(_COLUMN, _columns(head) + 2)
    over = room + _columns("  ".join(facts)) - _WIDTH
    if over > 0 and facts and len(facts[0]) > over + 2:
        facts[0] = facts[0][: -over - 1] + "…"  # the gradient is the more telling
    line = head + " " * (room - _columns(head)) + "  ".join(facts) if facts else head
    return _cut(line.rstrip(), _WIDTH)


def _cut(text: str, most: int) -> str:
    """The beginning of a text, with an ellipsis, where it is wider than `most` columns."""
    if _columns(text) <= most:
        return text
    while text and _columns(text) >= most:
        text = text[:-1]
    return text + "…"


def _columns(text: str) -> int:
    """Columns of a terminal that a text takes: two for a wide letter, none for one put on top."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.category(c) in ("Mn", "Me", "Cf")
        else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )  # fmt: skip
