"""A log as one page that needs nothing else: the graph stands still, a slider moves in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinygrad_edu.debugger.text import made_text
from tinygrad_edu.drawing.build import build
from tinygrad_edu.drawing.collapse import grouped
from tinygrad_edu.drawing.page import page

if TYPE_CHECKING:
    from tinygrad_edu.debugger.log import Log

__all__ = ["html"]


def html(log: Log) -> str:
    """The page of a log: forward pass and backward pass by slider and keys, with its panels."""
    names = {id(node): log.names[node] for node in log.nodes if log.name(node) == log.names[node]}
    given = {key: name for key, name in names.items() if ":" not in name}
    picture, nodes = build([log.root], given, title=log.loss)
    place = {id(node): i for i, node in enumerate(log.nodes)}
    data = {
        "picture": grouped(picture).as_dict(),
        "log": log.as_dict(),
        "nodes": [place.get(id(node), -1) for node in nodes],
        "made": [made_text(log, node) if node.op else log.names[node] for node in log.nodes],
    }
    start = (
        "const data = JSON.parse(document.getElementById('data').textContent);\n"
        "window.stepper = new Stepper(document.querySelector('.tg'), data);"
    )
    return page(f"{log.loss}: backward pass", data, start, ["stepper.js"])
