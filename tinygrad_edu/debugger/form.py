"""A log in other forms: JSON that is stable and documented (docs/log.md), a page, and the first
event in which two logs differ.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.debugger.text import element_text
from tinygrad_edu.drawing import facts
from tinygrad_edu.files import write_atomically
from tinygrad_edu.scalar.value import Value

if TYPE_CHECKING:
    from tinygrad_edu.debugger.log import Event, Log, Use

__all__ = ["Difference", "as_dict", "compare", "embedded", "save_html", "save_json"]

FORMAT, VERSION = "tinygrad_edu.log", 1
_SHOWN = 64
"""Arrays of at most so many numbers are written whole."""


def as_dict(log: Log) -> dict[str, Any]:
    """See docs/log.md."""
    at = {id(node): i for i, node in enumerate(log.nodes)}
    return {
        "format": FORMAT,
        "version": VERSION,
        "loss": log.loss,
        "nodes": [_node(log, node, at) for node in log.nodes],
        "events": [_event(event, at) for event in log],
        "gradients": [_numbers(log.gradient(node)) for node in log.nodes],
    }


def _node(log: Log, node: Any, at: dict[int, int]) -> dict[str, Any]:
    return {
        "name": log.names[node],
        "op": facts.op_name(node),
        "inputs": [
            at.get(id(x), {"value": _numbers(facts.host(x.data))}) for x in node.inputs
        ],
        "kind": "value" if isinstance(node, Value) else str(node.dtype),
        "value": _numbers(facts.host(node.data)),
        "module": facts.module_path(node),
        "source": _source(facts.source_line(node)),
    }


def _event(event: Event, at: dict[int, int]) -> dict[str, Any]:
    return {
        "node": at[id(event.node)],
        "upstream": _numbers(event.upstream),
        "function": event.function,
        "variables": {name: _variable(x) for name, x in event.variables.items()},
        "uses": [_use(use, at) for use in event.uses],
    }


def _use(use: Use, at: dict[int, int]) -> dict[str, Any]:
    formula = use.formula
    return {
        "input": at[id(use.input)],
        "slot": use.slot,
        "nth": use.nth,
        "total": use.total,
        "formula": formula.names,
        "numbers": formula.numbers,
        "shapes": formula.shapes,
        "element": "" if facts.is_scalar(use.event.node) else element_text(use),
        "summed_axes": list(use.summed_axes),
        "contribution": _numbers(use.contribution),
        "before": _numbers(use.before),
        "after": _numbers(use.after),
    }


def _source(line: str) -> str:
    """"file.py:12", without folders: the same on every machine."""
    file, _, number = line.rpartition(":")
    return f"{os.path.basename(file)}:{number}" if file else ""


def _variable(x: Any) -> Any:
    if isinstance(x, (Tensor, Value)):
        return facts.value_text(x)
    return _number(x) if isinstance(x, (int, float)) else str(x)


def _number(x: Any) -> Any:
    """JSON has no NaN and no inf: they are texts."""
    value = float(x)
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def _numbers(x: Any) -> Any:
    """A number as it is, an array by shape, health and contents; None as None."""
    if x is None:
        return None
    a = facts.host(x)
    if a.ndim == 0:
        return _number(a)
    health = facts.health(a)
    found: dict[str, Any] = {
        "shape": list(a.shape),
        "dtype": str(a.dtype),
        "norm": _number(health.norm),
        "low": _number(health.low),
        "high": _number(health.high),
        "zeros": health.zero,
        "nan": health.nan,
        "inf": health.plus_inf + health.minus_inf,
    }
    if a.size <= _SHOWN:
        found["values"] = [_number(v) for v in a.reshape(-1)]
    else:
        little = np.ascontiguousarray(a).astype(a.dtype.newbyteorder("<"))
        found["sha256"] = hashlib.sha256(little.tobytes()).hexdigest()[:16]
    return found


def save_json(log: Log, path: Any) -> None:
    """Write the log as JSON, whole or not at all."""
    text = json.dumps(as_dict(log), ensure_ascii=False, indent=1, allow_nan=False)
    write_atomically(Path(path), (text + "\n").encode())


def save_html(log: Log, path: Any) -> None:
    """Write the page that steps through the log."""
    from tinygrad_edu.debugger.page import html

    write_atomically(Path(path), html(log).encode())


def embedded(log: Log) -> str:
    """The page for a notebook's cell: in a frame of its own, so that two share nothing."""
    from html import escape

    from tinygrad_edu.debugger.page import html

    return (
        f'<iframe title="backward pass of {escape(log.loss, quote=True)}" '
        'style="width:100%;height:640px;border:1px solid #8888" '
        f'srcdoc="{escape(html(log), quote=True)}"></iframe>'
    )


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two logs part.

    Attributes:
        event: the index of the first event that differs; -1 where the graphs differ already.
        what: what differs there, such as "op" or "contribution to a".
        mine, theirs: both sides.
    """

    event: int
    what: str
    mine: Any
    theirs: Any

    def __str__(self) -> str:
        where = f"event {self.event + 1}, " if self.event >= 0 else "the graphs differ: "
        mine, theirs, at = self.mine, self.theirs, ""
        if isinstance(mine, dict) and isinstance(theirs, dict):
            pairs = zip(mine.get("values", ()), theirs.get("values", ()), strict=False)
            found = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
            if found is not None and mine["shape"] == theirs["shape"]:
                index = [int(i) for i in np.unravel_index(found, mine["shape"])]
                at, mine, theirs = f" at {index}", mine["values"][found], theirs["values"][found]
        return f"{where}{self.what}{at}: {_side(mine)} ≠ {_side(theirs)}"


def _side(x: Any) -> str:
    if isinstance(x, dict):
        return f"{tuple(x['shape'])} of norm {x['norm']}"
    return str(x)


def compare(log: Log, other: Any, rel: float = 0.0) -> Difference | None:
    """The first difference between a log and another one, or its dict; None where there is none.

    Names and lines may differ: operations, wiring and numbers count. `rel`: how far two numbers may
    be apart, as a share of the larger one, in an array of the largest there.
    """
    mine = as_dict(log)
    theirs = other if isinstance(other, dict) else as_dict(other)
    if theirs.get("format") != FORMAT or theirs.get("version") != VERSION:
        raise ValueError(
            f"compare() was given a dict of format {theirs.get('format')!r}, version "
            f"{theirs.get('version')!r}; it takes a Log, or what Log.as_dict() gives"
        )
    for i, (a, b) in enumerate(zip(mine["nodes"], theirs["nodes"], strict=False)):
        for what in ("op", "inputs", "value"):
            if not _same(a[what], b[what], rel):
                return Difference(-1, f"{what} of node {i} ({a['name']})", a[what], b[what])
    if len(mine["nodes"]) != len(theirs["nodes"]):
        return Difference(
            -1, "number of nodes", len(mine["nodes"]), len(theirs["nodes"])
        )
    for k, (a, b) in enumerate(zip(mine["events"], theirs["events"], strict=False)):
        found = _event_difference(mine, k, a, b, rel)
        if found is not None:
            return found
    if len(mine["events"]) != len(theirs["events"]):
        count = min(len(mine["events"]), len(theirs["events"]))
        return Difference(count, "number of events", len(mine["events"]), len(theirs["events"]))
    return None


def _event_difference(
    mine: dict[str, Any], k: int, a: dict[str, Any], b: dict[str, Any], rel: float
) -> Difference | None:
    name = mine["nodes"][a["node"]]["name"]
    for what in ("node", "upstream"):
        if not _same(a[what], b[what], rel):
            return Difference(k, f"{what} of {name}", a[what], b[what])
    if len(a["uses"]) != len(b["uses"]):
        return Difference(k, f"number of uses of {name}", len(a["uses"]), len(b["uses"]))
    for u, v in zip(a["uses"], b["uses"], strict=True):
        for what in ("input", "slot", "contribution", "after"):
            if not _same(u[what], v[what], rel):
                target = mine["nodes"][u["input"]]["name"]
                return Difference(k, f"{name}'s {what} to {target}", u[what], v[what])
    return None


def _same(a: Any, b: Any, rel: float) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        if "value" in a or "value" in b:
            return _same(a.get("value"), b.get("value"), rel)
        return _same_array(a, b, rel)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(_same(x, y, rel) for x, y in zip(a, b, strict=True))
    return _near(a, b, rel * max(abs(a), abs(b))) if _floats(a, b) else bool(a == b)


def _same_array(a: dict[str, Any], b: dict[str, Any], rel: float) -> bool:
    if a["shape"] != b["shape"]:
        return False
    if not rel:
        return bool(a.get("values") == b.get("values") and a.get("sha256") == b.get("sha256"))
    sizes = [abs(x[key]) for x in (a, b) for key in ("low", "high") if _floats(x[key])]
    largest = max(sizes, default=0.0)  # what is small beside the largest is rounding of that
    pairs = [(a[key], b[key]) for key in ("low", "high")]
    pairs += zip(a.get("values", ()), b.get("values", ()), strict=True)
    near = all(_near(x, y, rel * largest) if _floats(x, y) else x == y for x, y in pairs)
    return near and _near(a["norm"], b["norm"], rel * a["norm"])


def _floats(*xs: Any) -> bool:
    return all(isinstance(x, float) for x in xs)


def _near(a: float, b: float, allowed: float) -> bool:
    return a == b or abs(a - b) <= allowed
