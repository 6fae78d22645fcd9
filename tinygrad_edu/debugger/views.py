"""What names mean in an expression at the prompt: nodes with their gradients at that moment."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.debugger.cursor import Cursor
from tinygrad_edu.debugger.text import gradient_text, made_text, wrapped
from tinygrad_edu.drawing import facts
from tinygrad_edu.scalar.value import Value

__all__ = ["ExpressionError", "NodeView", "NotYetError", "Scope"]

Array = Any
_KEPT = 256


class ExpressionError(ValueError):
    """An expression could not be evaluated; says why in a line."""


class NotYetError(ExpressionError):
    """It reads a gradient that has not arrived at this moment."""


class NodeView(NDArrayOperatorsMixin):
    """A node as an expression sees it: `w.grad` is its gradient at the moment of the pass, and in
    arithmetic, `w * 2`, it is its numbers. What it shows cannot be written to.
    """

    def __init__(self, node: Any, cursor: Cursor, missing: list[str] | None = None) -> None:
        self._node, self._cursor = node, cursor
        self._missing = [] if missing is None else missing

    @property
    def data(self) -> Any:
        """Its number or array."""
        return _still(self._node.data)

    @property
    def grad(self) -> Any:
        """Its gradient at this moment; None where nothing has arrived."""
        found = self._cursor.gradient(self._node)
        if found is None:
            self._missing.append(self.name)
            return None
        return _still(found)

    @property
    def name(self) -> str:
        """What it is called."""
        return self._cursor.log.names.get(self._node)

    @property
    def op(self) -> str:
        """The operation that made it."""
        return facts.word(self._node)

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return facts.shape_of(self._node)

    @property
    def module(self) -> str:
        """The module it was made in."""
        return facts.module_path(self._node)

    def __getattr__(self, name: str) -> Any:
        """What its numbers have, such as `w.sum()` and `w.T`."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.data, name)

    def __getitem__(self, index: Any) -> Any:
        return self.data[index]

    def __len__(self) -> int:
        return len(self.data)

    def __bool__(self) -> bool:
        return bool(self.data)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.data, dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        numbers = [x.data if isinstance(x, NodeView) else x for x in inputs]
        with np.errstate(all="ignore"):
            return getattr(ufunc, method)(*numbers, **options)

    def __float__(self) -> float:
        return float(self.data)

    def __repr__(self) -> str:
        node, log = self._node, self._cursor.log
        made = made_text(log, node) if node.op is not None else self.name
        found = self._cursor.gradient(node)
        gradient = "–" if found is None else gradient_text(node, found)
        total = log.uses_of(node)
        count = self._cursor.arrived(node)
        so_far = f"  ({count} of {total} uses)" if total > 1 and count < total else ""
        first = wrapped(f"{made} = {facts.value_text(node)}")
        return "\n".join([*first, *wrapped(f"  grad {gradient}{so_far}")])


class Scope:
    """Evaluates expressions at a moment of a pass; nothing in them can change a gradient there."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        log = cursor.log
        self.nodes: dict[str, Any] = {}
        for node in log.nodes:
            self.nodes.setdefault(log.names[node], node)
        odd = (n for n in self.nodes if not n.isidentifier() or keyword.iskeyword(n))
        self._odd = sorted(odd, key=len, reverse=True)
        self._read: dict[str, _Read] = {}
        self._missing: list[str] = []

    def evaluate(self, text: str, variables: Mapping[str, Any], nodes_first: bool = True) -> Any:
        """The value of an expression; names of nodes may be any, such as multiply:2.grad.

        Args:
            text: the expression.
            variables: of the program.
            nodes_first: what a name means that a node and a variable have.

        Raises:
            NotYetError: it fails, and reads a gradient that has not arrived.
            ExpressionError: it is no expression, or fails.
        """
        text = text.strip()
        if text in self.nodes and (nodes_first or text not in variables):
            return self._view(self.nodes[text])
        read = self._read.get(text)
        if read is None:
            read = self._reading(text)
            if len(self._read) < _KEPT:
                self._read[text] = read
        names: dict[str, Any] = {"__builtins__": builtins}
        names.update({name: self._view(node) for name, node in read.stand_ins.items()})
        for name in read.names:
            found, thing = self._meaning(name, variables, nodes_first)
            if found:
                names[name] = thing
        self._missing.clear()
        try:
            return eval(read.code, names)
        except (Exception, SystemExit) as error:  # exit() leaves no prompt
            said = f"{type(error).__name__}: {error}".splitlines()[0]
            if self._missing:
                name = self._missing[0]
                raise NotYetError(f"{name}.grad has not arrived yet ({said})") from error
            raise ExpressionError(said) from error

    def _reading(self, text: str) -> _Read:
        """An expression, compiled, with stand-ins for names that Python cannot read."""
        stand_ins: dict[str, Any] = {}
        source = text
        for place, odd in enumerate(self._odd):
            if odd in source:
                stand_in = f"_node_{place}_"
                pattern = rf"(?<![\w.]){re.escape(odd)}(?!\w)"
                source, count = re.subn(pattern, stand_in, source)
                if count:
                    stand_ins[stand_in] = self.nodes[odd]
        try:
            code = compile(source, "<expression>", "eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            said = error.msg if isinstance(error, SyntaxError) else str(error)
            raise ExpressionError(f"{type(error).__name__}: {said}: {text}") from error
        return _Read(code, tuple(_names(code)), stand_ins)

    def _meaning(self, name: str, variables: Mapping[str, Any], nodes_first: bool) -> Any:
        """(whether a name means something, what)."""
        node = name in self.nodes
        if node and (nodes_first or name not in variables):
            return True, self._view(self.nodes[name])
        if name in variables:
            return True, self._seen(variables[name])
        event = self._cursor.event
        if name == "event" and event is not None:
            return True, event
        if name == "upstream" and event is not None:
            return True, _still(event.upstream)
        return (True, np) if name == "np" else (False, None)

    def _view(self, node: Any) -> NodeView:
        return NodeView(node, self._cursor, self._missing)

    def _seen(self, thing: Any) -> Any:
        known = isinstance(thing, (Tensor, Value)) and self._cursor.log.names.get(thing, "") != ""
        return self._view(thing) if known else thing

    def near(self, text: str) -> Iterator[str]:
        """Names of nodes like one that is not there."""
        import difflib

        yield from difflib.get_close_matches(text, list(self.nodes), n=3, cutoff=0.4)


@dataclass(frozen=True)
class _Read:
    """An expression that was read: its code, the names in it, nodes by their stand-in's name."""

    code: CodeType
    names: tuple[str, ...]
    stand_ins: dict[str, Any]


def _names(code: CodeType) -> Iterator[str]:
    """The names that code looks up, and the code inside it: that of a lambda."""
    yield from code.co_names
    for thing in code.co_consts:
        if isinstance(thing, CodeType):
            yield from _names(thing)


def _still(x: Any) -> Any:
    """Numbers that cannot be written to."""
    found = facts.host(x)[()]
    if isinstance(found, np.ndarray):
        found = found.view()
        found.flags.writeable = False
    return found
