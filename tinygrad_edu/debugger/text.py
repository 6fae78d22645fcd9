"""An event in words, for the terminal: formula and numbers on one line, before and after."""

from __future__ import annotations

import os
import re
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from tinygrad_edu.drawing import facts

if TYPE_CHECKING:
    from tinygrad_edu.debugger.log import Event, Log, Use

_WIDTH = 80
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Characters that move the cursor, end a line or turn the direction of writing."""

__all__ = [
    "element_text", "event_text", "gradient_text", "made_text", "place_text", "plain",
    "use_lines", "wrapped",
]  # fmt: skip

def event_text(event: Event, *, check: bool = False, element: tuple[int, ...] | None = None) -> str:
    """The event in a few lines of at most about 80 columns.

    Args:
        event: of a log.
        check: hold each contribution to differences too.
        element: for arrays, the element to show in numbers: of the node, for a matrix product of
            the input's gradient. Where there is no such element, and by default, the one with the
            largest gradient.
    """
    log = event._log
    head = f"[{event.index + 1}/{len(log)}] {made_text(log, event.node)}"
    place = place_text(event)
    beside = place and len(head) <= 44 and len(place) <= 34
    lines = [f"{head:<44}  {place}" if beside else head]
    if place and not beside:
        lines.append(f"      {place}")
    upstream = event.upstream
    lines.append(f"  upstream  ∂{log.loss}/∂{event.name} = {gradient_text(event.node, upstream)}")
    for use in event.uses:
        if facts.is_constant(use.input):
            continue  # a number of the program, such as the 2 of x * 2: nobody asks for its slope
        lines += use_lines(use)
        if not facts.is_scalar(event.node):
            shown = element_text(use, element)
            if shown:
                lines.append(f"      {shown}")
        if check:
            found = use.check()
            said = "cannot be formed: the bounds of a clip of Values are not kept"
            lines.append(f"      by differences {said if found is None else found}")
    return "\n".join(part for line in lines for part in wrapped(line))


def wrapped(line: str) -> list[str]:
    """A line in pieces of at most 80 columns, the further ones indented, broken at spaces."""
    line = plain(line)
    if len(line) <= _WIDTH:
        return [line]
    indent = len(line) - len(line.lstrip())
    further = " " * (indent + 4)
    return textwrap.wrap(
        line, _WIDTH, subsequent_indent=further, break_long_words=False, break_on_hyphens=False
    )


def plain(text: str) -> str:
    """A text for one line of a terminal, whatever is in a name: control characters as escapes."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def made_text(log: Log, node: Any) -> str:
    """How a node was made: "e = a × b"."""
    inputs = [log.name(x) for x in node.inputs]
    sign = facts.symbol(node)
    if len(inputs) == 2 and not sign.isalpha() and len(sign) == 1:
        made = f"{inputs[0]} {sign} {inputs[1]}"
    elif isinstance(node.op, str) and node.op.startswith("**"):
        made = f"{inputs[0]}{node.op}"
    else:
        settings = [
            f"{key}={value}" for key, value in facts.parameters(node).items()
            if value is not None and value is not False
        ]
        made = f"{facts.op_name(node)}({', '.join(inputs + settings)})"
        if facts.op_name(node) == "power_constant":
            made = f"{inputs[0]}**{node._params['exponent']:g}"
    return plain(f"{log.names[node]} = {made}")


def use_lines(use: Use) -> list[str]:
    """The formula line of a use, and what it does to the gradient."""
    log, formula = use.event._log, use.formula
    left = f"∂{log.loss}/∂{use.name} += "
    which = f"  (use {use.nth} of {use.total})" if use.total > 1 else ""
    if facts.is_scalar(use.event.node) and facts.is_scalar(use.input):
        numbers = formula.numbers or facts.number(use.contribution)
        result = facts.number(use.contribution)
        first = f"  {left}{formula.names} = {numbers}"
        if numbers != result:
            first += f" = {result}"
        before = "–" if use.before is None else facts.number(use.before)
        change = f"{use.name}.grad {before} → {facts.number(use.after)}{which}"
        for line in (f"{first:<50}    {change}", f"{first}    {change}"):
            if len(line) <= _WIDTH:
                return [line]
        return [first, f"      {change}"]
    lines = [f"  {left}{formula.names}"]
    if "@" in formula.shapes:
        lines.append(f"      shapes {formula.shapes}")
    if use.summed_axes:
        lines.append(
            f"      summed over axes {use.summed_axes}, along which {use.name} was broadcast"
        )
    had = use.before
    before = "–" if had is None else f"norm {facts.number(facts.norm(facts.host(had)))}"
    lines.append(
        f"      {facts.shape_of(use.input)}: {facts.health(use.contribution)}"
    )
    after = facts.number(facts.norm(facts.host(use.after)))
    lines.append(f"      {use.name}.grad {before} → norm {after}{which}")
    return lines


def gradient_text(node: Any, g: Any) -> str:
    """A gradient: the number of a scalar, shape and health of an array."""
    if facts.is_scalar(node):
        return facts.number(facts.host(g))
    return f"{np.shape(g)}: {facts.health(g)}"


def element_text(use: Use, at: tuple[int, ...] | None = None) -> str:
    """One element in numbers: "at [0, 2]: -2.0 × -3.0 = 6.0"; "" where there is no such line."""
    event = use.event
    g = facts.host(event.upstream)
    if not g.size:
        return ""
    if use.formula.local:
        if at is None or not _within(at, g.shape):
            at = tuple(int(i) for i in np.unravel_index(int(np.abs(g).argmax()), g.shape))
        local = _local(use, at)
        product = float(g[at]) * local if g[at] else 0.0
        shown = f"at {list(at)}: {facts.number(g[at])} × {facts.number(local)}"
        return f"{shown} = {facts.number(product)}"
    c = facts.host(use.contribution)
    if not c.size or not c.ndim:
        return ""
    if at is None or not _within(at, c.shape):
        largest = int(np.abs(np.nan_to_num(c)).argmax())
        at = tuple(int(i) for i in np.unravel_index(largest, c.shape))
    terms = _terms(use, at)
    value = facts.number(c[at])
    if not terms:
        return f"at {list(at)}: {value}"
    shown = " + ".join(f"{facts.number(a)}×{facts.number(b)}" for a, b in terms[:3])
    more = f" + … ({len(terms)} products)" if len(terms) > 3 else ""
    return f"at {list(at)}: {shown}{more} = {value}"


def _within(at: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether an index names one element of a shape."""
    inside = (-n <= i < n for i, n in zip(at, shape, strict=False))
    return len(at) == len(shape) and all(inside)


def _local(use: Use, at: tuple[int, ...]) -> float:
    """The local derivative of an elementwise operation at one element of its result."""
    from tinygrad_edu.debugger.checking import local_at

    return local_at(use, at)


def _terms(use: Use, at: tuple[int, ...]) -> list[tuple[float, float]]:
    """The products that a matrix product adds up for one element of a gradient."""
    node = use.event.node
    if facts.op_name(node) == "linear" and node._params.get("activation") is None:
        return _linear_terms(use, at)
    if facts.op_name(node) != "matmul" or any(x.ndim != 2 for x in node.inputs):
        return []
    g = facts.host(use.event.upstream)
    other = facts.host(node.inputs[1 - use.slot].data)
    i, j = at
    left, right = (g[i], other[j]) if use.slot == 0 else (other[:, i], g[:, j])
    return [(float(a), float(b)) for a, b in zip(left, right, strict=True)]


def _linear_terms(use: Use, at: tuple[int, ...]) -> list[tuple[float, float]]:
    """The same of a linear layer: y = x Wᵀ, so dx = dy W, and dW = dyᵀ x over all rows."""
    node = use.event.node
    x, weight = node._args[:2]
    g = facts.host(use.event.upstream)
    if use.input is x:
        left, right = g[at[:-1]], facts.host(weight.data)[:, at[-1]]
    elif use.input is weight:
        left = g.reshape(-1, g.shape[-1])[:, at[0]]
        right = facts.host(x.data).reshape(-1, x.shape[-1])[:, at[1]]
    else:
        return []
    return [(float(a), float(b)) for a, b in zip(left, right, strict=True)]


def place_text(event: Event) -> str:
    """Where the operation stands: "model.py:12 in forward, GPT.blocks.0"; "" where not known."""
    source = event.source
    if not source or source.startswith("<frozen "):  # Python itself, which runs the program
        return ""
    file, _, line = source.rpartition(":")
    inside = f" in {event.function}" if event.function not in ("", "<module>") else ""
    module = facts.module_path(event.node)
    return f"{os.path.basename(file)}:{line}{inside}" + (f", {module}" if module else "")
