"""A profile's rows as a table for people: repeated modules in one line, times in milliseconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tinygrad_edu.autograd.profiling import BACKWARD, FORWARD, PYTHON, Row

MEBI = 2**20


@dataclass
class Line:
    """One primitive in one module, or in several of the same make; seconds and bytes."""

    label: str
    primitive: str
    calls: int = 0
    forward: float = 0.0
    backward: float = 0.0
    made: int = 0

    @property
    def seconds(self) -> float:
        """Of both passes."""
        return self.forward + self.backward


def table(rows: Sequence[Row], own_seconds: float, width: int) -> str:
    """See `Profile.table`."""
    whole = sum(row.seconds for row in rows)
    lines = gathered(rows, folded(rows))
    head = ("module", "primitive", "calls", "forward", "backward", "share", "made")
    body = [
        (line.label, line.primitive, str(line.calls), milliseconds(line.forward),
         milliseconds(line.backward), percent(line.seconds, whole), mebibytes(line.made))
        for line in lines
    ]  # fmt: skip
    foot = [
        (name, "", "", milliseconds(forward), milliseconds(backward),
         percent(forward + backward, whole), "")
        for name, forward, backward in between(rows)
    ]  # fmt: skip
    all_of_it = ("all", "", "", "", milliseconds(whole), percent(whole, whole), "")
    text = aligned([head, ("", "", "", "ms", "ms", "%", "MiB"), *body, *foot, all_of_it], width)
    if own_seconds:
        text += f"\nThe profiler itself took {own_seconds * 1e3:.2f} ms more."
    return text


def gathered(rows: Iterable[Row], labels: dict[str, str]) -> list[Line]:
    """The rows of primitives by (label of their module, primitive), the slowest first."""
    found: dict[tuple[str, str], Line] = {}
    for row in rows:
        if row.primitive == PYTHON:
            continue
        key = (labels[row.module], row.primitive)
        line = found.setdefault(key, Line(*key))
        if row.phase == FORWARD:
            line.calls += row.calls
            line.forward += row.seconds
            line.made += row.made_bytes
        else:
            line.backward += row.seconds
    return sorted(found.values(), key=lambda line: -line.seconds)


def between(rows: Iterable[Row]) -> list[tuple[str, float, float]]:
    """(what, seconds forward, seconds backward) of all that lies between primitives.

    What belongs to neither pass, such as a section, stands in the second column.
    """
    found: dict[str, float] = {}
    for row in rows:
        if row.primitive == PYTHON:
            found[row.phase] = found.get(row.phase, 0.0) + row.seconds
    both = found.pop(FORWARD, 0.0), found.pop(BACKWARD, 0.0)
    others = sorted(found.items(), key=lambda item: -item[1])
    return [("Python and graph", *both), *[(name, 0.0, seconds) for name, seconds in others]]


# Folding.


def folded(rows: Iterable[Row]) -> dict[str, str]:
    """A label for each module's path: "blocks × 4: attn.qkv" for GPT.blocks.0.attn.qkv to 3's.

    Numbered modules fold where the same primitives run at the same places below them, and where
    there are such places: the layers of an MLP are no repetition. A root that all modules share is
    left out of the labels of those below it.
    """
    below: dict[tuple[str, str], set[tuple[str, str]]] = {}  # (list, number): what runs there
    modules = set()
    for row in rows:
        modules.add(row.module)
        cut = _cut(row.module)
        if cut is not None and row.primitive != PYTHON:
            below.setdefault(cut[:2], set()).add((cut[2], row.primitive))
    alike: dict[tuple[str, frozenset[tuple[str, str]]], int] = {}
    for (prefix, _), places in below.items():
        key = prefix, frozenset(places)
        alike[key] = alike.get(key, 0) + 1
    roots = {module.partition(".")[0] for module in modules if module}
    root = roots.pop() + "." if len(roots) == 1 else "."
    labels = {module: _label(module, below, alike) for module in modules}
    return {
        module: label if label[len(root) :][:1].isdecimal() else label.removeprefix(root)
        for module, label in labels.items()
    }


def _label(
    module: str,
    below: dict[tuple[str, str], set[tuple[str, str]]],
    alike: dict[tuple[str, frozenset[tuple[str, str]]], int],
) -> str:
    cut = _cut(module)
    if cut is None or cut[:2] not in below:
        return module or "(no module)"
    prefix, number, place = cut
    places = below[prefix, number]
    count = alike[prefix, frozenset(places)]
    if count < 2 or not any(where for where, _ in places):
        return module
    return f"{prefix} × {count}" + (f": {place}" if place else "")


def _cut(module: str) -> tuple[str, str, str] | None:
    """A path at its first number: "GPT.blocks.0.attn" is ("GPT.blocks", "0", "attn")."""
    parts = module.split(".")
    for i, part in enumerate(parts):
        if i and part.isdecimal():
            return ".".join(parts[:i]), part, ".".join(parts[i + 1 :])
    return None


# Columns.


def milliseconds(seconds: float) -> str:
    """Two decimals; nothing for nothing."""
    return f"{seconds * 1e3:.2f}" if seconds else ""


def percent(part: float, whole: float) -> str:
    """One decimal."""
    return f"{100 * part / whole:.1f}" if whole else ""


def mebibytes(size: int) -> str:
    """Two decimals; nothing for nothing."""
    return f"{size / MEBI:.2f}" if size else ""


def aligned(cells: Sequence[Sequence[str]], width: int, left: int = 2) -> str:
    """Columns side by side, the first `left` of them aligned left, the others right.

    Where that is wider than `width`, the first column gives way: the start of its words is cut.
    """
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    gaps = ["  "] * left + [" "] * (len(widths) - left - 1) + [""]
    excess = sum(widths) + sum(map(len, gaps)) - width
    widths[0] = max(widths[0] - max(0, excess), 8)
    lines = []
    for row in cells:
        first = row[0] if len(row[0]) <= widths[0] else "…" + row[0][1 - widths[0] :]
        padded = [
            (cell.ljust(room) if i < left else cell.rjust(room)) + gap
            for i, (cell, room, gap) in enumerate(zip([first, *row[1:]], widths, gaps, strict=True))
        ]
        lines.append("".join(padded).rstrip())
    return "\n".join(lines)
