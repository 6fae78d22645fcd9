"""What a prompt on a log can show of the moment where it stands: values, watches, nodes, pictures,
and the questions about gradients.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from tinygrad_edu.debugger.cursor import Cursor
from tinygrad_edu.debugger.frames import Frame, FramePrompt, UserError
from tinygrad_edu.debugger.log import Log
from tinygrad_edu.debugger.text import plain, wrapped
from tinygrad_edu.debugger.views import ExpressionError, NodeView, NotYetError, Scope
from tinygrad_edu.drawing import facts

__all__ = ["Looking", "NoGradientYetError"]

_LINE = 60


class NoGradientYetError(UserError):
    """An expression reads a gradient that has not arrived."""


class Looking(FramePrompt):
    """A prompt that looks at a moment of a log; `prompt.Stepper` moves it.

    Args:
        log: the events.
        frames: the stack of the program where the prompt was opened.
        reads, writes: streams to use in place of the terminal.
    """

    def __init__(
        self, log: Log, frames: Sequence[Frame] = (), reads: TextIO | None = None,
        writes: TextIO | None = None,
    ) -> None:  # fmt: skip
        super().__init__(frames, reads, writes)
        self._outer = self.frames
        self.log = log
        self.cursor = Cursor(log)
        self.scope = Scope(self.cursor)
        self.watches: dict[str, tuple[str, Any]] = {}

    # Names

    def evaluate(self, text: str) -> Any:
        """The value of an expression among nodes and the frame's variables; in the frames further
        up the variables come first.

        Raises:
            NoGradientYetError: it fails, as it reads a gradient that has not arrived.
            UserError: it fails.
        """
        frame = self.frame
        variables = {**frame.shared, **frame.variables} if frame is not None else {}
        try:
            return self.scope.evaluate(text, variables, self.level == len(self.frames) - 1)
        except NotYetError as error:
            raise NoGradientYetError(str(error)) from error
        except ExpressionError as error:
            near = list(self.scope.near(text.split(".")[0].split("[")[0]))
            if near and "NameError" in str(error):
                raise UserError(f"{error}; nodes like it: {', '.join(near)}") from error
            raise UserError(self._unreadable(text) or str(error)) from error

    def _unreadable(self, text: str) -> str:
        """What to say of a name that no node has, where Python's own words would not help: such as
        multiply:9, or model.layers.0.weight where the node is called layers.0.weight.
        """
        name = re.sub(r"\.(grad|data)\b.*$", "", text)
        shorter = next((name.split(".", i)[i] for i in range(1, name.count(".") + 1)
                        if name.split(".", i)[i] in self.scope.nodes), "")  # fmt: skip
        if shorter:
            return f"no node is called {name}; there is {shorter}"
        found = re.match(r"[\w.\[\]'\"]+[:#]\d+", text)
        if found is None or found[0] in self.scope.nodes:
            return ""
        near = list(self.scope.near(found[0]))
        return f"no node is called {found[0]}" + (f"; like it: {', '.join(near)}" if near else "")

    def node(self, text: str) -> Any:
        """The node of a name, or that an expression gives.

        Raises:
            UserError: there is none.
        """
        if text in self.scope.nodes:
            return self.scope.nodes[text]
        if not text:
            raise UserError("which one? give a node's name; tree shows them all")
        found = self.evaluate(text)
        if isinstance(found, NodeView):
            return found._node
        near = difflib.get_close_matches(text, list(self.scope.nodes), n=3, cutoff=0.3)
        hint = f": {', '.join(near)}?" if near else "; tree shows them"
        raise UserError(f"{text} is no node of this pass{hint}")

    def known(self) -> list[str]:
        """Names that an expression may have."""
        return [*self.scope.nodes, *super().known()]

    # Watches

    def watch(self) -> None:
        """Say what has changed of that which is watched."""
        for text, (shown, old) in self.watches.items():
            new_shown, new = self.value(text)
            if _same(old, new):
                continue
            by = ""
            numbers = isinstance(old, float) and isinstance(new, float)
            if numbers and float(shown) == float(new_shown):
                by = f" (by {facts.number(new - old)})"
            for line in wrapped(f"  watch {text}: {shown} → {new_shown}{by}"):
                self.say(line)
            self.watches[text] = new_shown, new

    def value(self, text: str) -> tuple[str, Any]:
        """(an expression's value in a line, what tells it from others)."""
        try:
            found = self.evaluate(text)
        except NoGradientYetError:
            return "–", "–"
        except UserError as error:
            return str(error), str(error)
        if isinstance(found, str):
            return plain(found), found
        if isinstance(found, NodeView):
            found = found.data
        if isinstance(found, np.ndarray):
            return line_of(found), np.array(found)
        number = isinstance(found, (float, np.floating))
        return line_of(found), float(found) if number else line_of(found)

    def do_display(self, text: str) -> None:
        """display [EXPR]: show an expression whenever its value has changed: old → new."""
        if not text:
            for watched, (shown, _) in self.watches.items():
                self.say(f"{watched} = {shown}")
            if not self.watches:
                self.say("nothing is watched; display w.grad would watch that")
            return
        shown, value = self.value(text)
        if shown.startswith(("SyntaxError", "no node is called")):
            raise UserError(shown)
        self.watches[text] = shown, value
        self.say("\n".join(wrapped(f"  watch {text}: {shown}")))

    def do_undisplay(self, text: str) -> None:
        """undisplay [EXPR]: watch it no more, or nothing."""
        if not text:
            self.watches.clear()
        elif self.watches.pop(text, None) is None:
            raise UserError(f"{text} is not watched; display lists what is")

    # Values and nodes

    def do_p(self, text: str) -> None:
        """p EXPR: a node's name, or an expression: p w.grad, p upstream, p a.data * b.data."""
        if not text:
            text = self.cursor.event.name if self.cursor.event is not None else self.log.loss
        self.say(shown_of(self.evaluate(text)))

    def do_pp(self, text: str) -> None:
        """pp EXPR: the same with all its numbers, in lines."""
        found = self.evaluate(text) if text else None
        if not isinstance(found, NodeView):
            super().do_pp(text)
            return
        self.say(repr(found))
        for what, numbers in (("data", found.data), ("grad", found.grad)):
            if isinstance(numbers, np.ndarray):
                self.say(f"{what}\n{np.array2string(numbers, precision=4, max_line_width=80)}")

    def do_i(self, text: str) -> None:
        """i [NODE]: everything about a node: how it was made, its numbers, who uses it."""
        event = self.cursor.event
        node = self.node(text) if text else event.node if event is not None else self.log.root
        self.say(repr(NodeView(node, self.cursor)))
        for what, fact in (
            ("formula", facts.formula(node)), ("line", facts.source_line(node)),
            ("module", facts.module_path(node)),
            ("numbers", "" if facts.is_scalar(node) else str(facts.health(node.data))),
        ):  # fmt: skip
            if fact:
                self.say("\n".join(wrapped(f"  {what}: {fact}")))
        users = {entry.node for entry in self.log.ledger(node) if entry.node}
        if users:
            self.say("\n".join(wrapped(f"  used by: {', '.join(sorted(users))}")))

    def do_ledger(self, text: str) -> None:
        """ledger [NODE]: each contribution to a gradient, in order, with what it came to; those
        that have arrived are marked.
        """
        event = self.cursor.event
        name = text or (event.uses[0].name if event is not None and event.uses else self.log.loss)
        node = self.node(name)
        if not text:
            self.say(f"   contributions to the gradient of {plain(name)}")
        arrived = self.cursor.arrived(node)
        number = 0
        for entry in self.log.ledger(node):
            number += entry.event >= 0
            mark = "·" if number <= arrived else " "
            who = f"[{entry.event + 1}] {entry.node}" if entry.node else "[0] where it begins"
            amount, after = (_size_of(x) for x in (entry.contribution, entry.after))
            for line in wrapped(f" {mark} {who:<28} {amount:>16} → {after}"):
                self.say(line)
        kept = facts.gradient(node)
        found = self.log.gradient(node)
        if kept is not None and found is not None and not _same(kept, facts.host(found)):
            self.say(f"   {name}.grad holds {_size_of(kept)}: other passes have added to it")

    # Pictures

    def do_tree(self, text: str) -> None:
        """tree [NODE]: the graph that it was made by, in lines."""
        from tinygrad_edu.drawing.draw import draw

        root = self.node(text) if text else self.log.root
        self.say(draw(root, names=self._titles(), gradients=False).tree())

    def do_draw(self, text: str) -> None:
        """draw FILE: the graph, the current node marked, as a picture; .html steps through it."""
        from tinygrad_edu.drawing.draw import DrawingError, draw

        if not text:
            raise UserError("draw takes a file, as in draw loss.svg")
        try:
            if text.endswith(".html"):
                self.log.save_html(Path(text))
            else:
                event = self.cursor.event
                marked = [event.node] if event is not None else []
                draw(self.log.root, marked=marked, names=self._titles()).save(Path(text))
        except (DrawingError, OSError) as error:
            raise UserError(str(error)) from error
        self.say(text)

    def _titles(self) -> dict[str, Any]:
        return {
            name: node for name, node in self.scope.nodes.items() if self.log.name(node) == name
            and ":" not in name
        }  # fmt: skip

    # Questions

    def do_explain(self, text: str) -> None:
        """explain NODE: its gradient as a sum over paths, with the product along each."""
        from tinygrad_edu.debugger.explain import explain
        from tinygrad_edu.errors import GraphError

        try:
            self.say(str(explain(self.node(text), self.log)))
        except GraphError as error:
            raise UserError(str(error)) from error

    def do_why_nan(self, text: str) -> None:
        """why_nan: where the first NaN or inf was born, and the usual cure."""
        from tinygrad_edu.debugger.why_nan import why_nan

        self.say(str(why_nan(self.node(text) if text else self.log.root)))

    def do_why_zero(self, text: str) -> None:
        """why_zero NODE: why its gradient is 0."""
        from tinygrad_edu.debugger.why_zero import why_zero

        self.say(str(why_zero(self.node(text), self.log)))

    def do_bisect(self, text: str) -> None:
        """bisect: the first operation whose own derivative disagrees with differences."""
        from tinygrad_edu.debugger.bisect import bisect_gradient

        self.say(str(bisect_gradient(self.log)))


def _same(a: Any, b: Any) -> bool:
    """Whether two values are the same; NaN is NaN."""
    if isinstance(a, str) or isinstance(b, str):
        return bool(isinstance(a, str) and isinstance(b, str) and a == b)
    return np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True)


def _size_of(g: Any) -> str:
    """A scalar gradient, or the norm of an array's."""
    array = facts.host(g)
    return facts.number(array) if array.ndim == 0 else f"norm {facts.number(facts.norm(array))}"


def _numbers(thing: Any) -> Iterator[str]:
    return (facts.number(x) for x in thing)


def shown_of(thing: Any) -> str:
    """A value in a line or a few: numbers as they are shown elsewhere."""
    if isinstance(thing, NodeView):
        return repr(thing)
    if isinstance(thing, (float, np.floating)):
        return facts.number(thing)
    if isinstance(thing, np.ndarray):
        if thing.ndim == 0:
            return facts.number(thing) if thing.dtype.kind == "f" else str(thing[()])
        if thing.size <= 8 and thing.ndim == 1 and thing.dtype.kind in "fiu":
            return f"[{' '.join(_numbers(thing))}]"
        if thing.size > 64 and thing.dtype.kind == "f":
            return f"{thing.shape}: {facts.health(thing)}"
    text = repr(thing)
    return text if len(text) <= 2000 else text[:2000] + " …"


def line_of(thing: Any) -> str:
    """A value in one line: arrays by their health where their numbers need more."""
    text = plain(" ".join(shown_of(thing).split()))
    if not isinstance(thing, np.ndarray) or thing.ndim == 0:
        return text
    if thing.dtype.kind == "f" and (thing.ndim > 1 or len(text) > _LINE):
        return f"{thing.shape}: {facts.health(thing)}"
    return text if len(text) <= _LINE else f"{thing.shape} {thing.dtype}"
