"""The stepper in the terminal: a backward pass walked at a prompt with pdb's habits, both ways.

    tg.debug(loss)          # or: tinygrad-edu debug SCRIPT.py

It reads an event log, so that going back is free, nothing of the program runs again and no `.grad`
changes.
"""

from __future__ import annotations

import difflib
import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from tinygrad_edu.debugger.breakpoints import KINDS, Breakpoint, BreakpointError
from tinygrad_edu.debugger.cursor import Cursor
from tinygrad_edu.debugger.frames import Frame, FramePrompt, UserError, frames_of
from tinygrad_edu.debugger.log import LIMIT, Event, Log, record
from tinygrad_edu.debugger.text import event_text, place_text, use_lines, wrapped
from tinygrad_edu.debugger.views import ExpressionError, NodeView, NotYetError, Scope
from tinygrad_edu.drawing import facts
from tinygrad_edu.drawing.names import users_frame
from tinygrad_edu.errors import GraphError

__all__ = ["Stepper", "debug"]

_OTHER_WORDS = {
    "next": "n", "step": "s", "continue": "c", "cont": "c", "break": "b", "reverse-next": "rn",
    "reverse-step": "rs", "reverse-continue": "rc", "back": "rn", "jump": "goto",
    "watch": "display", "r": "run", "info": "i",
}  # fmt: skip


class _NotYetError(UserError):
    """An expression reads a gradient that has not arrived."""


class Stepper(FramePrompt):
    """A prompt on a log.

    Args:
        log: the events.
        frames: the stack of the program where the prompt was opened.
        reads, writes: streams to use in place of the terminal.
    """

    def __init__(
        self, log: Log, frames: list[Frame] | None = None, reads: TextIO | None = None,
        writes: TextIO | None = None,
    ) -> None:  # fmt: skip
        super().__init__(frames or [], reads, writes)
        self._outer = self.frames
        self.log = log
        self.cursor = Cursor(log)
        self.scope = Scope(self.cursor)
        self.breakpoints: dict[int, Breakpoint] = {}
        self._made = 0
        self.watches: dict[str, str] = {}
        self.checks = False
        self.element: tuple[int, ...] | None = None
        self._look()
        seed = facts.host(log.gradient(log.root))
        seed_text = facts.number(seed) if seed.ndim == 0 else f"shape {seed.shape}"
        self.intro = "\n".join((
            f"{len(log)} events from {log.loss}, whose gradient {seed_text} is where it begins",
            "n next event   s one contribution   rn rs back   c to a breakpoint   h help",
        ))  # fmt: skip

    def abbreviations(self) -> Mapping[str, str]:
        """Other words for commands."""
        return {**super().abbreviations(), **_OTHER_WORDS}

    # Where it is

    def _look(self) -> None:
        """The frames of the event: the forward line with its variables, below the program's."""
        event = self.cursor.event
        self.frames = list(self._outer)
        if event is not None and event.source:
            file, _, line = event.source.rpartition(":")
            number = int(line) if line.isdigit() else 0
            self.frames.append(Frame(file, number, event.function, event.variables))
        self.level = len(self.frames) - 1
        self._listed = 0

    def _arrive(self, moved: bool, end: str) -> None:
        """Show the event where the cursor stands, and the watches."""
        if not moved:
            raise UserError(end)
        self._look()
        self._show()
        self._watch()

    def _show(self) -> None:
        event = self.cursor.event
        if event is None:
            self.say(f"at the start: only {self.log.loss} has a gradient")
            return
        if self.cursor.within:
            self.say("\n".join(self._in_part(event)))
            return
        text = event_text(event, check=self.checks, element=self.element)
        head, *rest = text.split("\n")
        self.say("\n".join((self.coloured(head, "1"), *rest)))

    def _in_part(self, event: Event) -> list[str]:
        """One contribution of an event that has more to make."""
        use = self.cursor.use
        done = event.uses.index(use) + 1 if use is not None else 0
        head = f"[{event.index + 1}/{len(self.log)}, {done} of {len(event.uses)}] {event.name}"
        place = place_text(event)
        lines = [self.coloured(f"{head}  {place}".rstrip(), "1")]
        lines += use_lines(use) if use is not None else []
        return [part for line in lines for part in wrapped(line)]

    def _watch(self) -> None:
        for text, old in self.watches.items():
            new = self._value_text(text)
            if new != old:
                self.say(f"  watch {text}: {old} → {new}")
                self.watches[text] = new

    def _value_text(self, text: str) -> str:
        try:
            found = self.evaluate(text)
            return found if isinstance(found, str) else _brief(found)
        except _NotYetError:
            return "–"
        except UserError as error:
            return str(error)

    def evaluate(self, text: str) -> Any:
        """The value of an expression among nodes and the frame's variables.

        Raises:
            UserError: it fails.
        """
        frame = self.frame
        variables = {**frame.shared, **frame.variables} if frame is not None else {}
        try:
            return self.scope.evaluate(text, variables, self.level == len(self.frames) - 1)
        except NotYetError as error:
            raise _NotYetError(str(error)) from error
        except ExpressionError as error:
            near = list(self.scope.near(text.split(".")[0].split("[")[0]))
            missing = near and "NameError" in str(error)
            hint = f"; nodes like it: {', '.join(near)}" if missing else ""
            raise UserError(f"{error}{hint}") from error

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

    # Moving

    def do_n(self, text: str) -> None:
        """n [COUNT]: next event: a node hands its gradient on to its inputs."""
        count, moved = _count(text), False
        for _ in range(count):
            moved = self.cursor.next_event() or moved
        self._arrive(moved, "this is the last event; rn goes back, restart begins again")

    def do_s(self, text: str) -> None:
        """s [COUNT]: one contribution on, to one input of the event."""
        moved = self.cursor.step(_count(text))
        self._arrive(moved, "this is the end of the pass; rs goes back")

    def do_rn(self, text: str) -> None:
        """rn [COUNT]: an event back; gradients are as they were then."""
        count, moved = _count(text), False
        for _ in range(count):
            moved = self.cursor.previous_event() or moved
        self._arrive(moved, "this is the start")

    def do_rs(self, text: str) -> None:
        """rs [COUNT]: one contribution back."""
        self._arrive(self.cursor.step(-_count(text)), "this is the start")

    def do_c(self, text: str) -> None:
        """c: on to the next breakpoint, or to the end."""
        self._run_to_breakpoint(1)

    def do_rc(self, text: str) -> None:
        """rc: back to the breakpoint before, or to the start."""
        self._run_to_breakpoint(-1)

    def _run_to_breakpoint(self, by: int) -> None:
        here = self.cursor.event.index if self.cursor.event is not None else -1
        first = here if self.cursor.within and by > 0 else here + by
        end = len(self.log) if by > 0 else -1
        for index in range(first, end, by):
            try:
                self.cursor.go_event(index)
                self._look()
                stops = self._hits(self.log[index])
            except KeyboardInterrupt:
                stops = [(0, "interrupted")]
            if stops:
                said = (f"breakpoint {number}: {why}" if number else why for number, why in stops)
                self.say("\n".join(said))
                self._arrive(True, "")
                return
        self.cursor.go_event(end - 1 if by > 0 else -1)
        self._look()
        self.say("the end of the pass" if by > 0 else "the start of the pass")
        self._watch()

    def _hits(self, event: Event) -> list[tuple[int, str]]:
        """Breakpoints that stop here; log-points are printed, and ignored ones counted."""
        stops = []
        for number, point in list(self.breakpoints.items()):
            try:
                why = point.reason(event, lambda text, _: self.evaluate(text))
            except _NotYetError:
                continue
            except UserError as error:
                stops.append((number, f"its condition fails here ({error})"))
                continue
            if not why:
                continue
            point.hits += 1
            if point.ignore:
                point.ignore -= 1
            elif point.message:
                self.say(f"[{event.index + 1}] {self._filled(point.message)}")
            else:
                stops.append((number, why))
                if point.temporary:
                    del self.breakpoints[number]
        return stops

    def _filled(self, message: str) -> str:
        """A log-point's message with {expressions} replaced by their values."""
        parts = message.split("{")
        out = [parts[0]]
        for part in parts[1:]:
            inside, closed, rest = part.partition("}")
            out.append(f"{self._value_text(inside)}{rest}" if closed else "{" + part)
        return "".join(out)

    def do_goto(self, text: str) -> None:
        """goto K: to event K, as counted in [K/N]; 0 is the start."""
        if not text.isdigit() or int(text) > len(self.log):
            raise UserError(f"goto takes the number of an event, from 0 to {len(self.log)}")
        self._arrive(self.cursor.go_event(int(text) - 1), "that is where you are")

    def do_until(self, text: str) -> None:
        """until NODE: on to where the gradient of a node is whole."""
        node = self.node(text)
        self._arrive(self.cursor.until(node), f"the gradient of {text} changes no more")

    def do_last(self, text: str) -> None:
        """last NODE: back to the last change of a node's gradient."""
        moved = self.cursor.last_change(self.node(text))
        self._arrive(moved, f"the gradient of {text} has not changed before this")

    def do_first(self, text: str) -> None:
        """first NODE: to the first change of a node's gradient."""
        moved = self.cursor.first_change(self.node(text))
        self._arrive(moved, f"that is here, or the gradient of {text} never changes")

    def do_run(self, text: str) -> None:
        """run: to the end of the pass, past all breakpoints."""
        self._arrive(self.cursor.go_event(len(self.log) - 1), "this is the end of the pass")

    def do_restart(self, text: str) -> None:
        """restart: back to the start; breakpoints and watches stay."""
        self._arrive(self.cursor.go(0), "this is the start")

    # Breakpoints and watches

    def do_b(self, text: str) -> None:
        """b [WHAT]: stop where WHAT happens, such as b nan, b op tanh, b w1; without WHAT a list.
        Behind it may stand: if EXPR, and log "text {expr}", which prints and goes on.
        """
        if not text:
            for number, point in self.breakpoints.items():
                self.say(f"{number}: {point}")
            if not self.breakpoints:
                self.say("no breakpoints; one can stop at:")
                for kind, what in KINDS.items():
                    self.say(f"  b {kind:<16} {what}")
            return
        self._add(text, temporary=False)

    def do_tbreak(self, text: str) -> None:
        """tbreak WHAT: a breakpoint that stops once."""
        self._add(text, temporary=True)

    def _add(self, text: str, temporary: bool) -> None:
        try:
            point = Breakpoint.parse(text)
        except BreakpointError as error:
            raise UserError("\n".join(wrapped(str(error)))) from error
        if point.kind == "name" and not self._names_something(point.argument):
            near = list(self.scope.near(point.argument))
            like = f"; like it: {', '.join(near)}" if near else ""
            raise UserError(f"no node is called {point.argument}{like}")
        point.temporary = temporary
        self._made += 1
        self.breakpoints[self._made] = point
        self.say(f"breakpoint {self._made}: {point.text}")

    def _names_something(self, pattern: str) -> bool:
        import fnmatch

        return any(n == pattern or fnmatch.fnmatchcase(n, pattern) for n in self.scope.nodes)

    def do_clear(self, text: str) -> None:
        """clear [N]: take a breakpoint away, or all."""
        if not text:
            self.breakpoints.clear()
            self.say("no breakpoints any more")
        else:
            del self.breakpoints[self._number(text)]

    def do_ignore(self, text: str) -> None:
        """ignore N COUNT: pass over the next COUNT hits of a breakpoint."""
        number, _, count = text.partition(" ")
        if not count.strip().isdigit():
            raise UserError("ignore takes a breakpoint and a count, as in ignore 1 3")
        self.breakpoints[self._number(number)].ignore = int(count)

    def do_condition(self, text: str) -> None:
        """condition N [EXPR]: stop there only where an expression is true."""
        number, _, condition = text.partition(" ")
        self.breakpoints[self._number(number)].condition = condition.strip()

    def _number(self, text: str) -> int:
        if not text.strip().isdigit() or int(text) not in self.breakpoints:
            known = ", ".join(map(str, self.breakpoints)) or "none"
            raise UserError(f"there is no breakpoint {text.strip() or '?'}; there are: {known}")
        return int(text)

    def do_display(self, text: str) -> None:
        """display [EXPR]: show an expression whenever its value has changed: old → new."""
        if not text:
            for watched, value in self.watches.items():
                self.say(f"{watched} = {value}")
            return
        self.watches[text] = self._value_text(text)
        self.say(f"  watch {text}: {self.watches[text]}")

    def do_undisplay(self, text: str) -> None:
        """undisplay [EXPR]: watch it no more, or nothing."""
        if not text:
            self.watches.clear()
        elif self.watches.pop(text, None) is None:
            raise UserError(f"{text} is not watched; display lists what is")

    # Looking

    def do_p(self, text: str) -> None:
        """p EXPR: a node's name, or an expression: p w.grad, p upstream, p a.data * b.data."""
        if not text:
            text = self.cursor.event.name if self.cursor.event is not None else self.log.loss
        self.say(_brief(self.evaluate(text)))

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
        """ledger [NODE]: each contribution to a gradient, in order, with what it came to."""
        event = self.cursor.event
        name = text or (event.uses[0].name if event is not None and event.uses else self.log.loss)
        node = self.node(name)
        kept = facts.gradient(node)
        for entry in self.log.ledger(node):
            mark = "·" if entry.event < 0 or self._happened(entry.event, node) else " "
            who = f"[{entry.event + 1}] {entry.node}" if entry.node else "[0] where it begins"
            amount, after = _brief(facts.host(entry.contribution)), _brief(facts.host(entry.after))
            self.say(f" {mark} {who:<28} {amount:>16} → {after}")
        if kept is not None and not np.array_equal(kept, np.asarray(self.log.gradient(node))):
            self.say(f"   {name}.grad holds {_brief(kept)}: other passes have added to it")

    def _happened(self, index: int, node: Any) -> bool:
        event = self.cursor.event
        if event is None or index > event.index:
            return False
        return index < event.index or not self.cursor.within or self.cursor.use in event.uses

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

    def do_check(self, text: str) -> None:
        """check: hold each contribution to differences as well, or no more."""
        self.checks = not self.checks
        self.say(f"contributions are {'' if self.checks else 'not '}held to differences")
        if self.checks and self.cursor.event is not None:
            self._show()

    def do_element(self, text: str) -> None:
        """element [I,J]: the element of arrays that is shown in numbers; without, the largest."""
        if not text:
            self.element = None
            return
        try:
            self.element = tuple(int(part) for part in text.replace(",", " ").split())
        except ValueError as error:
            raise UserError("element takes an index, as in element 0,2") from error
        self._show()

    # Questions

    def do_explain(self, text: str) -> None:
        """explain NODE: its gradient as a sum over paths, with the product along each."""
        from tinygrad_edu.debugger.explain import explain

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


def _count(text: str) -> int:
    if not text:
        return 1
    if not text.isdigit() or int(text) == 0:
        raise UserError(f"{text!r} is no count; give a whole number, or nothing for 1")
    return int(text)


def _brief(thing: Any) -> str:
    """A value in a line or a few: numbers as they are shown elsewhere."""
    if isinstance(thing, NodeView):
        return repr(thing)
    if isinstance(thing, (float, np.floating)):
        return facts.number(thing)
    if isinstance(thing, np.ndarray):
        if thing.ndim == 0:
            return facts.number(thing) if thing.dtype.kind == "f" else str(thing[()])
        if thing.size <= 8 and thing.ndim == 1 and thing.dtype.kind in "fiu":
            return "[" + " ".join(facts.number(x) for x in thing) + "]"
        if thing.size > 64 and thing.dtype.kind == "f":
            return f"{thing.shape}: {facts.health(thing)}"
    text = repr(thing)
    return text if len(text) <= 2000 else text[:2000] + " …"


class _Typed(io.StringIO):
    """Commands given beforehand, which show in the output as if they were typed."""

    def __init__(self, commands: Sequence[str], writes: TextIO) -> None:
        super().__init__("".join(f"{command}\n" for command in [*commands, "q"]))
        self._writes = writes

    def readline(self, size: int | None = -1, /) -> str:
        line = super().readline(-1 if size is None else size)
        self._writes.write(line)
        return line


def debug(
    loss: Any, *, commands: Sequence[str] | None = None, gradient: Any = None,
    limit: int = LIMIT, reads: TextIO | None = None, writes: TextIO | None = None,
) -> None:  # fmt: skip
    """Step through the backward pass of a result at a prompt; `.grad` stays as it is.

    Args:
        loss: a `Value` or a `Tensor`, or the `Log` of one.
        commands: what to do, such as ["n", "p w.grad"], in place of asking: for a text, a test, or
            a notebook.
        gradient: the upstream gradient of `loss`; 1 for one number.
        limit: bytes of gradients that are kept; see `record`.
        reads: a stream to read commands from, in place of the terminal.
        writes: a stream to write to.

    Raises:
        GraphError: `loss` is not tracked, or its graph was freed.
        TypeError: `loss` is neither a `Value` nor a `Tensor`.
    """
    log = loss if isinstance(loss, Log) else record(loss, gradient=gradient, limit=limit)
    if commands is not None:
        writes = sys.stdout if writes is None else writes
        reads = _Typed(commands, writes)
    Stepper(log, frames_of(users_frame()), reads, writes).start()
