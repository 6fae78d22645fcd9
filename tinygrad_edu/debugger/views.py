"""What names mean in an expression at the prompt: nodes with their gradients at that moment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.debugger.cursor import Cursor
from tinygrad_edu.debugger.text import gradient_text, made_text
from tinygrad_edu.drawing import facts
from tinygrad_edu.scalar.value import Value

__all__ = ["ExpressionError", "NodeView", "Scope"]

Array = Any


class ExpressionError(ValueError):
    """An expression could not be evaluated; says why in a line."""


class NodeView:
    """A node as an expression sees it: `w.grad` is its gradient at the moment of the pass."""

    def __init__(self, node: Any, cursor: Cursor) -> None:
        self._node, self._cursor = node, cursor

    @property
    def data(self) -> Any:
        """Its number or array."""
        return facts.host(self._node.data)[()]

    @property
    def grad(self) -> Any:
        """Its gradient at this moment; None where nothing has arrived."""
        found = self._cursor.gradient(self._node)
        return None if found is None else facts.host(found)[()]

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

    def __getitem__(self, index: Any) -> Any:
        return self.data[index]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.data, dtype)

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
        return f"{made} = {facts.value_text(node)}\n  grad {gradient}{so_far}"


class Scope:
    """Evaluates expressions at a moment of a pass; nothing in them can change a gradient there."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        log = cursor.log
        self.nodes: dict[str, Any] = {}
        for node in log.nodes:
            self.nodes.setdefault(log.names[node], node)
        self._odd = sorted((n for n in self.nodes if not n.isidentifier()), key=len, reverse=True)

    def names(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Everything a name may mean: the program's variables, nodes, `upstream`, `event`, `np`."""
        found: dict[str, Any] = {"np": np}
        event = self._cursor.event
        if event is not None:
            found["event"] = event
            found["upstream"] = facts.host(event.upstream)[()]
        for name, thing in variables.items():
            found[name] = self._seen(thing)
        for name, node in self.nodes.items():
            if name.isidentifier():
                found[name] = NodeView(node, self._cursor)
        return found

    def _seen(self, thing: Any) -> Any:
        known = isinstance(thing, (Tensor, Value)) and self._cursor.log.names.get(thing, "") != ""
        return NodeView(thing, self._cursor) if known else thing

    def evaluate(self, text: str, variables: Mapping[str, Any]) -> Any:
        """The value of an expression; names of nodes may be any, such as multiply:2.grad.

        Raises:
            ExpressionError: it is no expression, or fails.
        """
        if text in self.nodes:
            return NodeView(self.nodes[text], self._cursor)
        names = self.names(variables)
        for place, odd in enumerate(self._odd):
            if odd in text:
                stand_in = f"_node_{place}_"
                pattern = rf"(?<![\w.]){re.escape(odd)}(?!\w)"
                text, count = re.subn(pattern, stand_in, text)
                if count:
                    names[stand_in] = NodeView(self.nodes[odd], self._cursor)
        try:
            return eval(text, {"__builtins__": __builtins__}, names)
        except Exception as error:
            raise ExpressionError(f"{type(error).__name__}: {error}") from error

    def near(self, text: str) -> Iterator[str]:
        """Names of nodes like one that is not there."""
        import difflib

        yield from difflib.get_close_matches(text, list(self.nodes), n=3, cutoff=0.4)
