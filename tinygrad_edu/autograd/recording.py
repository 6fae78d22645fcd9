"""Noting, while a program runs, where each node was made and what the variables were.

    with tg.record():
        loss = program(x)

A tensor always knows its line. A `Value` does not, as two more words a node would be felt by
everyone, and nobody's variables are kept; within `record()` both are noted. While a recording is
open the functions that make nodes are replaced by ones that look at the caller's frame, and the
plain ones are put back when the last one closes: where none is open, nothing is asked.

A note lives as long as its node, and keeps no node alive.
"""

from __future__ import annotations

import functools
import importlib
import threading
import types
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, Self

import numpy as np

from tinygrad_edu.autograd import origin
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.scalar import value as scalar
from tinygrad_edu.scalar.value import Value

__all__ = ["Note", "Recording", "note_of"]

# The module, whose name the package gives to its function.
applying = importlib.import_module("tinygrad_edu.autograd.apply")

_MOST = 20_000
"""Notes with variables, in all; further ones keep their line only."""
_LONG = 120
_MACHINERY = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)
"""Not noted: modules, functions and classes are no state."""
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


@dataclass(frozen=True, slots=True)
class Note:
    """Where a node was made.

    Attributes:
        source: "file:line" of the user's program.
        function: the name of the function that line stands in.
        variables: the local variables there, just before the node was made: a number, a text of at
            most 120 characters, or a `weakref` of a node.
    """

    source: str
    function: str
    variables: Mapping[str, Any]

    def alive(self) -> dict[str, Any]:
        """The variables, with nodes in place of their weak references; those that are gone left
        out.
        """
        found = {}
        for name, thing in self.variables.items():
            if isinstance(thing, weakref.ref):
                thing = thing()
                if thing is None:
                    continue
            found[name] = thing
        return found


_notes: dict[int, tuple[Any, Note]] = {}
_active = threading.local()
_lock = threading.Lock()
_open = 0
_plain: list[tuple[Any, str, Any]] = []


def note_of(node: Any) -> Note | None:
    """Where and among which variables a node was made, if that was recorded."""
    found = _notes.get(id(node))
    return found[1] if found is not None and found[0]() is node else None


class Recording:
    """Within it every node that this thread makes is noted; may be nested, and entered again."""

    def __enter__(self) -> Self:
        _active.depth = getattr(_active, "depth", 0) + 1
        _install()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _active.depth -= 1
        _remove()


def _note(node: Any) -> None:
    if not getattr(_active, "depth", 0):
        return
    frame = origin.here()
    key = id(node)
    variables = _snapshot(frame) if len(_notes) < _MOST else {}
    source = origin.line(frame.f_code, frame.f_lasti)
    reference = weakref.ref(node, functools.partial(_forget, key))
    _notes[key] = (reference, Note(source, frame.f_code.co_name, variables))


def _forget(key: int, reference: Any) -> None:
    found = _notes.get(key)
    if found is not None and found[0] is reference:
        del _notes[key]


def _snapshot(frame: FrameType) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, thing in origin.variables(frame).items():
        if name.startswith("__") or isinstance(thing, _MACHINERY):
            continue
        if isinstance(thing, (Tensor, Value)):
            found[name] = weakref.ref(thing)
        elif type(thing) in _PLAIN and not (isinstance(thing, str) and len(thing) > _LONG):
            found[name] = thing
        else:
            found[name] = _short(thing)
    return found


def _short(thing: Any) -> str:
    """A text for anything; never a repr that could run the user's code or take long."""
    if isinstance(thing, np.ndarray):
        return f"array of shape {thing.shape}, {thing.dtype}"
    if type(thing) in (list, tuple, dict, set, frozenset):
        return f"{type(thing).__name__} of {len(thing)}"
    if callable(thing):
        return f"<{getattr(thing, '__qualname__', type(thing).__name__)}>"
    return f"<{type(thing).__name__}>"


def _install() -> None:
    global _open
    with _lock:
        _open += 1
        if _open > 1:
            return
        for owner, attribute in (
            (applying, "_result"),
            (scalar, "node"),
            (Value, "__add__"),
            (Value, "__mul__"),
        ):
            made = getattr(owner, attribute)
            _plain.append((owner, attribute, made))
            setattr(owner, attribute, _noting(made))


def _noting(make: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(make)
    def noted(*args: Any, **named: Any) -> Any:
        made = make(*args, **named)
        if made is not NotImplemented and made.op is not None and id(made) not in _notes:
            _note(made)
        return made

    return noted


def _remove() -> None:
    global _open
    with _lock:
        _open -= 1
        while not _open and _plain:
            setattr(*_plain.pop())
