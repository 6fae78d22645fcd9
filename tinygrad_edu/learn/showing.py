"""The texts of a bug hunt: a step in numbers, a table, a gradient in brief."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_edu.debugger.log import Log
from tinygrad_edu.debugger.text import made_text
from tinygrad_edu.drawing import facts
from tinygrad_edu.learn.passes import Step, uses

__all__ = ["Text", "brief", "matrix", "step_text", "table", "wrapped"]

Array = Any
_SMALL = 12
"""Numbers of an array that are shown one by one."""
_WIDTH = 80


class Text(str):
    """A text that a prompt shows as it is."""

    def __repr__(self) -> str:
        return str(self)


def wrapped(text: str, indent: str = "") -> str:
    """In lines of at most 80 columns, all but the first of them indented."""
    return textwrap.fill(
        text, _WIDTH, subsequent_indent=indent + "  ", initial_indent=indent,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def step_text(step: Step, log: Log, total: int) -> str:
    """What a step handed on, in numbers; which rule it went by is left to the reader."""
    value = brief(facts.host(step.node.data))
    head = f"[{step.index + 1}/{total}] {made_text(log, step.node)}"
    lines = [f"{head} = {value}" if facts.is_scalar(step.node) else head]
    lines += matrix(f"  had arrived  ∂L/∂{log.name(step.node)} = ", step.upstream)
    times = uses(log.nodes)
    for share in step.shares:
        if share.input.name is None:
            continue
        x = share.input.name
        if share.contribution is None:
            lines.append(f"  hands nothing to {x}")
            continue
        total_uses = times[id(share.input)]
        which = f"  (use {share.nth} of {total_uses})" if total_uses > 1 else ""
        lines += matrix(f"  hands to {x}  ", share.contribution)
        before = "–" if share.before is None else brief(share.before)
        lines.append(f"      {x}.grad: {before} → {brief(share.after)}{which}")
    return "\n".join(lines)


def matrix(label: str, x: Array) -> list[str]:
    """A number after its label; a small matrix below it, a row a line."""
    x = np.asarray(x)
    if x.ndim == 0:
        return [label + brief(x)]
    text = label.rstrip(" =") + f" {x.shape}"
    if x.ndim > 2 or x.size > _SMALL:
        return [f"{text}: {facts.health(x)}"]
    rows = [[facts.number(cell) for cell in row] for row in np.atleast_2d(x)]
    wide = max(len(cell) for row in rows for cell in row)
    return [text, *("      [ " + "  ".join(f"{c:>{wide}}" for c in row) + " ]" for row in rows)]


def brief(x: Any) -> str:
    """A number, or the shape and size of an array."""
    if np.ndim(x) == 0:
        return facts.number(x)
    return f"{np.shape(x)}, norm {facts.number(np.linalg.norm(x))}"


def table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows as lines, each column as wide as it must be."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        ("  " + "   ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True))).rstrip()
        for row in rows
    ]
