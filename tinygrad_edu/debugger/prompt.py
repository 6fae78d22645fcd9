"""The stepper in the terminal: a backward pass walked at a prompt with pdb's habits, both ways.

    tg.debug(loss)          # or: tinygrad-edu debug SCRIPT.py

It reads an event log, so that going back is free, nothing of the program runs again and no `.grad`
changes.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.debugger.breakpoints import KINDS, Breakpoint, BreakpointError
from tinygrad_edu.debugger.frames import Frame, UserError, frames_of
from tinygrad_edu.debugger.log import LIMIT, Event, Log, record
from tinygrad_edu.debugger.looking import Looking, NoGradientYetError
from tinygrad_edu.debugger.text import event_text, place_text, use_lines, wrapped
from tinygrad_edu.drawing import facts
from tinygrad_edu.drawing.names import users_frame

__all__ = ["Stepper", "debug"]

_OTHER_WORDS = {
    "next": "n", "step": "s", "continue": "c", "cont": "c", "break": "b", "reverse-next": "rn",
    "reverse-step": "rs", "reverse-continue": "rc", "back": "rn", "jump": "goto",
    "watch": "display", "r": "run", "info": "i",
}  # fmt: skip


_GROUPS = {
    "moving": "n s c rn rs rc goto until last first run restart".split(),
    "stopping": "b tbreak clear ignore condition".split(),
    "looking": "p pp display undisplay i ledger tree draw zoom check element".split(),
    "the program": "l w u d vars".split(),
    "asking": "explain why_nan why_zero bisect".split(),
}


class Stepper(Looking):
    """A prompt that walks a log.

    Args:
        log: the events.
        frames: the stack of the program where the prompt was opened.
        reads, writes: streams to use in place of the terminal.
    """

    groups = _GROUPS

    def __init__(
        self, log: Log, frames: Sequence[Frame] = (), reads: TextIO | None = None,
        writes: TextIO | None = None,
    ) -> None:  # fmt: skip
        super().__init__(log, frames, reads, writes)
        self.breakpoints: dict[int, Breakpoint] = {}
        self._made = 0
        self.checks = False
        self.element: tuple[int, ...] | None = None
        self._look()
        seed = facts.host(log.gradient(log.root))
        seed_text = facts.number(seed) if seed.ndim == 0 else f"shape {seed.shape}"
        self.intro = "\n".join((
            f"{len(log)} event{'s' * (len(log) != 1)} from {log.loss}, "
            f"whose gradient {seed_text} is where it begins",
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
        self.watch()

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
        first = [self.coloured(part, "1") for part in wrapped(f"{head}  {place}".rstrip())]
        lines = use_lines(use) if use is not None else []
        return first + [part for line in lines for part in wrapped(line)]

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
        self.watch()

    def _hits(self, event: Event) -> list[tuple[int, str]]:
        """Breakpoints that stop here; log-points are printed, and ignored ones counted."""
        stops = []
        for number, point in list(self.breakpoints.items()):
            try:
                why = point.reason(event, lambda text, _: self.evaluate(text))
            except NoGradientYetError:
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
            out.append(f"{self.value(inside)[0]}{rest}" if closed else "{" + part)
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

    # What a step shows

    def do_check(self, text: str) -> None:
        """check: hold each contribution to differences as well, or no more."""
        self.checks = not self.checks
        self.say(f"contributions are {'' if self.checks else 'not '}held to differences")
        if self.checks and self.cursor.event is not None:
            self._show()

    def do_element(self, text: str) -> None:
        """element [I,J]: the element of arrays that is shown in numbers, where they have it;
        without, the largest.
        """
        self.element = _index(text) if text else None
        self._show()

    def do_zoom(self, text: str) -> None:
        """zoom NODE [I,J]: step through what a node is made of: the scalar graph of an element, or
        the operations that a fused one stands for; q comes back.
        """
        from tinygrad_edu.debugger.zoom import zoom

        name, _, at = text.partition(" ") if text not in self.scope.nodes else (text, "", "")
        node, index = self.node(name), _index(at) if at else None
        opened = zoom(node, index)
        found = self.log.gradient(node)
        arriving = None if found is None else facts.host(found)
        if arriving is not None and not isinstance(opened.root, Tensor):
            arriving = arriving[index or ()]
        inside = Stepper(opened.log(arriving), self.frames, self._reads, self._writes)
        inside.prompt = "(tg zoom) "
        inside.start()


def _index(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.strip("[]() ").replace(",", " ").split())
    except ValueError as error:
        raise UserError(f"{text!r}: it takes an index, such as 0,2") from error


def _count(text: str) -> int:
    if not text:
        return 1
    if not text.isdigit() or int(text) == 0:
        raise UserError(f"{text!r} is no count; give a whole number, or nothing for 1")
    return int(text)


class _Typed(io.StringIO):
    """Commands given beforehand, which show in the output as if they were typed."""

    def __init__(self, commands: Sequence[str], writes: TextIO) -> None:
        super().__init__("".join(f"{command}\n" for command in [*commands, "q"]))
        self._writes = writes

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]
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
