"""Breakpoints on what a backward pass does: NaN, sizes, operations, names, lines, accumulation.

    hits = [e for e in log if Breakpoint.parse("second").reason(e)]

A breakpoint is asked about one event and answers with a reason, or with "" where it does not apply.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinygrad_edu.debugger.log import Event, Use
from tinygrad_edu.drawing import facts

__all__ = ["KINDS", "Breakpoint", "BreakpointError"]

Array = Any
Evaluate = Callable[[str, Event], Any]

KINDS = {
    "nan": "a number that is handed on is NaN",
    "inf": "a number that is handed on is infinite",
    "zero": "all numbers handed to an input are 0",
    "big > 1e3": "the largest |number| handed on is above 1e3",
    "small < 1e-8": "the largest |number| handed on is below 1e-8, and not 0",
    "op NAME": "the operation, such as op tanh or op *norm*",
    "name PATTERN": "a node or one of its inputs, such as name w* (also without the word name)",
    "module PATTERN": "the module's path, such as module *.attn*",
    "FILE.py:LINE": "the line of the program that made the node; also line 12",
    "second": "an input gets its second, third … contribution",
    "sign": "a gradient changes its sign",
    "if EXPR": "any expression, such as if abs(w.grad) > 2",
}
"""What one can stop at, with what it means."""


class BreakpointError(ValueError):
    """A breakpoint that cannot be understood; says what can."""


@dataclass
class Breakpoint:
    """One breakpoint.

    Attributes:
        text: as it was given.
        kind: the first word of an entry of `KINDS`, or "line".
        argument: the pattern, number or line after it.
        condition: an expression that must be true as well; "".
        message: a log-point: what to print instead of stopping; "".
        temporary: gone after its first stop.
        ignore: how many further hits to pass over.
        hits: how often it applied.
    """

    text: str
    kind: str
    argument: str = ""
    condition: str = ""
    message: str = ""
    temporary: bool = False
    ignore: int = 0
    hits: int = 0

    @classmethod
    def parse(cls, text: str) -> Breakpoint:
        """Read "nan", "big > 1e3", "op tanh if ...", "w* log {w.grad}", "train.py:12" and so on.

        Raises:
            BreakpointError: it is nothing of the kind.
        """
        rest, message, condition = text.strip(), "", ""
        found = re.search(r"(?:^|\s)log\s+(?:(['\"])(.*)\1|(\{.*))$", rest)
        if found:
            message, rest = found[2] or found[3], rest[: found.start()].strip()
        found = re.search(r"(?:^|\s)if\s+(.+)$", rest)
        if found:
            condition, rest = found[1].strip(), rest[: found.start()].strip()
        if not rest:
            if not condition:
                raise BreakpointError(_known(text))
            return cls(text.strip(), "if", "", condition, message)
        kind, argument = _kind(rest, text)
        return cls(text.strip(), kind, argument, condition, message)

    def reason(self, event: Event, evaluate: Evaluate | None = None) -> str:
        """Why to stop at an event; "" where it does not apply.

        Args:
            event: of a log.
            evaluate: gives the value of an expression at an event, for conditions.
        """
        why = "" if self.kind == "if" else _REASONS[self.kind](event, self.argument)
        if self.kind != "if" and not why:
            return ""
        if self.condition:
            if evaluate is None or not _true(evaluate(self.condition, event)):
                return ""
            why = f"{why}, and {self.condition}" if why else self.condition
        return why

    def __str__(self) -> str:
        more = " (once)" if self.temporary else ""
        more += f", {self.ignore} more to pass over" if self.ignore else ""
        return f"{self.text}{more}, {self.hits} hit{'s' * (self.hits != 1)}"


def _true(x: Any) -> bool:
    return bool(np.any(x))


def _known(text: str) -> str:
    return f"{text!r} is no breakpoint; these are: {', '.join(KINDS)}"


def _kind(rest: str, text: str) -> tuple[str, str]:
    word, _, argument = rest.partition(" ")
    argument = argument.strip()
    if word in ("nan", "inf", "zero", "second", "sign") and not argument:
        return word, ""
    if word in ("big", "small", ">", "<"):
        number = argument.lstrip("<> ") if word in ("big", "small") else argument
        try:
            return {">": "big", "<": "small"}.get(word, word), repr(float(number))
        except ValueError as error:
            raise BreakpointError(f"{text!r}: {word} takes a number, as in big > 1e3") from error
    if word in ("op", "name", "module"):
        if not argument:
            raise BreakpointError(f"{text!r}: {word} takes a name or pattern, as in {word} *a*")
        return word, argument
    if (word == "line" and argument.isdigit()) or rest.isdigit():
        return "line", argument or rest
    if re.fullmatch(r"[^\s]*:\d+", rest) and rest.partition(":")[0].endswith(".py"):
        return "line", rest
    if " " in rest:
        raise BreakpointError(_known(text))
    return "name", rest


def _numbers(use: Use) -> Array:
    return facts.host(use.contribution)


def _nan(event: Event, _: str) -> str:
    for use in event.uses:
        if np.isnan(_numbers(use)).any():
            return f"NaN is handed to {use.name}"
    return f"NaN has arrived at {event.name}" if np.isnan(facts.host(event.upstream)).any() else ""


def _inf(event: Event, _: str) -> str:
    for use in event.uses:
        if np.isinf(_numbers(use)).any():
            return f"inf is handed to {use.name}"
    return f"inf has arrived at {event.name}" if np.isinf(facts.host(event.upstream)).any() else ""


def _zero(event: Event, _: str) -> str:
    for use in event.uses:
        numbers = _numbers(use)
        if numbers.size and not numbers.any():
            return f"only 0 is handed to {use.name}"
    return ""


def _largest(use: Use) -> float:
    numbers = np.abs(_numbers(use))
    return float(numbers.max(initial=0.0)) if not np.isnan(numbers).all() else float("nan")


def _big(event: Event, bound: str) -> str:
    for use in event.uses:
        if _largest(use) > float(bound):
            return f"{facts.number(_largest(use))} is handed to {use.name}"
    return ""


def _small(event: Event, bound: str) -> str:
    for use in event.uses:
        if 0 < _largest(use) < float(bound):
            return f"no more than {facts.number(_largest(use))} is handed to {use.name}"
    return ""


def _op(event: Event, pattern: str) -> str:
    names = {facts.word(event.node), facts.op_name(event.node) or "", facts.symbol(event.node)}
    return f"operation {facts.word(event.node)}" if _any(names, pattern) else ""


def _name(event: Event, pattern: str) -> str:
    for name in (event.name, *(use.name for use in event.uses)):
        if _any({name}, pattern):
            return f"node {name}"
    return ""


def _module(event: Event, pattern: str) -> str:
    path = facts.module_path(event.node)
    return f"module {path}" if path and fnmatch.fnmatchcase(path, pattern) else ""


def _any(names: set[str], pattern: str) -> bool:
    return any(name == pattern or fnmatch.fnmatchcase(name, pattern) for name in names)


def _line(event: Event, wanted: str) -> str:
    file, _, number = event.source.rpartition(":")
    path, _, line = wanted.rpartition(":")
    if not file or number != line:
        return ""
    own = os.path.normpath(file).split(os.sep)
    asked = os.path.normpath(path).split(os.sep) if path else []
    fits = not asked or own[-len(asked) :] == [part for part in asked if part != "."]
    return f"line {os.path.basename(file)}:{number}" if fits else ""


def _second(event: Event, _: str) -> str:
    for use in event.uses:
        if use.nth > 1:
            return f"use {use.nth} of {use.total} of {use.name}"
    return ""


def _sign(event: Event, _: str) -> str:
    for use in event.uses:
        if use.before is None:
            continue
        before, after = np.sign(facts.host(use.before)), np.sign(facts.host(use.after))
        changed = int((before * after < 0).sum())
        if changed:
            of = f" in {changed} elements" if before.ndim else ""
            return f"the gradient of {use.name} changes its sign{of}"
    return ""


_REASONS: dict[str, Callable[[Event, str], str]] = {
    "nan": _nan, "inf": _inf, "zero": _zero, "big": _big, "small": _small, "op": _op,
    "name": _name, "module": _module, "line": _line, "second": _second, "sign": _sign,
}  # fmt: skip
