"""What every prompt of ours can do: look at frames of the user's program, at pdb's commands.

`FramePrompt` has a stack of frames and the commands `p pp l w u d q h`; the stepper adds events,
the post-mortem and `breakpoint()` use it as it is.
"""

from __future__ import annotations

import cmd
import difflib
import linecache
import os
import pprint
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, TextIO

import numpy as np

from tinygrad_edu.autograd import origin
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.debugger.history import History
from tinygrad_edu.debugger.text import wrapped
from tinygrad_edu.scalar.value import Value

__all__ = ["Frame", "FramePrompt", "UserError", "frames_of", "frames_of_traceback"]

_WIDTH = 80
_ABBREVIATIONS = {"?": "h", "help": "h", "quit": "q", "exit": "q", "where": "w", "bt": "w",
                  "list": "l", "up": "u", "down": "d", "print": "p"}  # fmt: skip


class UserError(Exception):
    """What was typed cannot be done; said in a line."""


@dataclass(frozen=True)
class Frame:
    """A place in the user's program.

    Attributes:
        file, line, function: where.
        variables: the local variables there.
        shared: the module's.
    """

    file: str
    line: int
    function: str
    variables: Mapping[str, Any]
    shared: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        where = f" in {self.function}" if self.function not in ("", "<module>") else ""
        text = linecache.getline(self.file, self.line).strip()
        return f"{os.path.basename(self.file)}:{self.line}{where}" + (f"   {text}" if text else "")


def _passed_over(file: str) -> bool:
    """Whether a frame is ours, or Python's own that runs a script."""
    return origin._is_ours(file) or file.startswith("<frozen ")


def frames_of(frame: FrameType | None) -> list[Frame]:
    """The stack of the user's program, the innermost last; our own frames are left out."""
    found: list[Frame] = []
    while frame is not None:
        code = frame.f_code
        if not _passed_over(code.co_filename):
            variables = origin.variables(frame)
            found.append(
                Frame(code.co_filename, frame.f_lineno, code.co_name, variables, frame.f_globals)
            )
        frame = frame.f_back
    return found[::-1]


def frames_of_traceback(trace: TracebackType | None) -> list[Frame]:
    """The frames of an exception, the innermost last; ours are left out."""
    found: list[Frame] = []
    while trace is not None:
        code = trace.tb_frame.f_code
        if not _passed_over(code.co_filename):
            variables = origin.variables(trace.tb_frame)
            found.append(Frame(
                code.co_filename, trace.tb_lineno, code.co_name, variables, trace.tb_frame.f_globals
            ))  # fmt: skip
        trace = trace.tb_next
    return found


class FramePrompt(cmd.Cmd):
    """A prompt with frames.

    Args:
        frames: the stack, the innermost last; it is where the prompt begins.
        reads, writes: streams to use in place of the terminal.
    """

    prompt = "(tg) "
    file: TextIO | None = None

    def __init__(
        self, frames: Sequence[Frame], reads: TextIO | None = None, writes: TextIO | None = None
    ) -> None:
        super().__init__(stdin=reads, stdout=writes)
        self._reads, self._writes = reads, writes
        if reads is not None:
            self.use_rawinput = False
        self.frames = list(frames)
        self.level = len(self.frames) - 1
        self.left = False
        self._listed = 0

    # How it runs

    def start(self) -> None:
        """Read and do, until `q` or the end of the input; Ctrl-C comes back to the prompt."""
        with History(self.use_rawinput):
            intro: str | None = None
            while not self.left:
                try:
                    self.cmdloop(intro)
                    return
                except KeyboardInterrupt:
                    self.say("")
                    intro = ""
                except (OSError, RuntimeError, ValueError) as error:  # captured or closed
                    self.say(f"\nno commands can be read here ({error}), so the program goes on")
                    return

    def onecmd(self, line: str) -> bool:
        """Do one command; what cannot be done is said in a line."""
        word, rest = self.split(line)
        if word == "EOF":
            self.say("")
            self.left = True
            return True
        try:
            return bool(super().onecmd(f"{word} {rest}".strip() if word else line))
        except UserError as error:
            self.say(str(error))
        except Exception as error:  # noqa: BLE001 - a prompt has no traceback of ours
            ours = type(error).__module__.startswith("tinygrad_edu.")
            said = str(error) if ours else f"{type(error).__name__}: {error}"
            self.say("\n".join(part for line in said.splitlines() for part in wrapped(line)))
        return False

    def split(self, line: str) -> tuple[str, str]:
        """(the command, what follows it); "?b" is "h b", and "!x" is "p x"."""
        line = line.strip()
        if line[:1] in ("?", "!"):
            line = f"{'h' if line[0] == '?' else 'p'} {line[1:]}"
        word, _, rest = line.partition(" ")
        return self.abbreviations().get(word, word), rest.strip()

    def abbreviations(self) -> Mapping[str, str]:
        """Other words for commands."""
        return _ABBREVIATIONS

    def default(self, line: str) -> None:
        """A word that is no command: its value, if it has one."""
        word = line.split()[0]
        names = sorted({*self.commands(), *self.known()})
        near = difflib.get_close_matches(word, names, n=3, cutoff=0.6)
        try:
            self.do_p(line)
        except UserError as error:
            hint = f"did you mean {' or '.join(near)}?" if near else "h lists the commands"
            if word.isidentifier() and "NameError" in str(error):
                raise UserError(f"{word} is no command, node or variable; {hint}") from error
            raise UserError(f"{error}; {hint}") from error

    def emptyline(self) -> bool:
        """The last command again."""
        return self.onecmd(self.lastcmd) if self.lastcmd else False

    def say(self, text: str) -> None:
        """Print; what the terminal's encoding lacks as question marks."""
        encoding = getattr(self.stdout, "encoding", None) or "utf-8"
        self.stdout.write(text.encode(encoding, "replace").decode(encoding) + "\n")

    def coloured(self, text: str, code: str) -> str:
        """A text in colour, on a terminal whose user wants that."""
        terminal = getattr(self.stdout, "isatty", bool)() and "NO_COLOR" not in os.environ
        return f"\x1b[{code}m{text}\x1b[0m" if terminal else text

    def commands(self) -> list[str]:
        """The names of all commands."""
        return sorted({n[3:] for n in self.get_names() if n.startswith("do_")} - {"help"})

    # What it sees

    @property
    def frame(self) -> Frame | None:
        """The frame that is looked at."""
        return self.frames[self.level] if self.frames else None

    def evaluate(self, text: str) -> Any:
        """The value of an expression in the frame.

        Raises:
            UserError: it fails.
        """
        frame = self.frame
        names = {"np": np}
        if frame is not None:
            names.update(frame.shared)
            names.update(frame.variables)
        try:
            return eval(text.strip(), names)
        except (Exception, SystemExit) as error:  # exit() leaves no prompt
            raise UserError(f"{type(error).__name__}: {error}".splitlines()[0]) from error

    def node(self, text: str) -> Any:
        """The node that an expression gives.

        Raises:
            UserError: it gives none.
        """
        if not text:
            raise UserError("which one? give the name of a Value or Tensor")
        found = self.evaluate(text)
        if not isinstance(found, (Value, Tensor)):
            raise UserError(f"{text} is a {type(found).__name__}, no Value or Tensor")
        return found

    # Commands of pdb

    def do_p(self, text: str) -> None:
        """p EXPR: the value of an expression."""
        if not text:
            raise UserError("p takes an expression, as in p x")
        self.say(_shown(self.evaluate(text)))

    def do_pp(self, text: str) -> None:
        """pp EXPR: the value, in lines."""
        if not text:
            raise UserError("pp takes an expression, as in pp config")
        self.say(pprint.pformat(self.evaluate(text), width=_WIDTH))

    def do_l(self, text: str) -> None:
        """l [LINE]: the program around the current line, or around another."""
        frame = self.frame
        if frame is None:
            raise UserError("no line is known here; run the program within tg.record()")
        lines = linecache.getlines(frame.file)
        if not lines:
            raise UserError(f"the text of {frame.file} is not to be had")
        if text and not text.isdigit():
            raise UserError("l takes a line number, as in l 12")
        middle = int(text) if text else self._listed or frame.line
        first, last = max(1, middle - 5), min(len(lines), middle + 5)
        for number in range(first, last + 1):
            mark = "->" if number == frame.line else "  "
            shown = f"{number:>4} {mark} {lines[number - 1].rstrip()}"
            self.say(shown if len(shown) <= _WIDTH else shown[: _WIDTH - 1] + "…")
        self._listed = 0 if last == len(lines) else last + 6

    def do_w(self, text: str) -> None:
        """w: the stack of frames; > is the one that is looked at."""
        for level, frame in enumerate(self.frames):
            shown = f"{'>' if level == self.level else ' '} {frame}"
            self.say(shown if len(shown) <= _WIDTH else shown[: _WIDTH - 1] + "…")

    def do_u(self, text: str) -> None:
        """u: to the frame that called this one."""
        self._move(-1, "the outermost frame")

    def do_d(self, text: str) -> None:
        """d: to the frame that this one called."""
        self._move(1, "the innermost frame")

    def _move(self, by: int, end: str) -> None:
        if not 0 <= self.level + by < len(self.frames):
            raise UserError(f"this is {end}")
        self.level += by
        self._listed = 0
        self.say(f"> {self.frame}")

    def do_vars(self, text: str) -> None:
        """vars: the variables of the frame."""
        frame = self.frame
        for name, thing in (frame.variables if frame is not None else {}).items():
            if not name.startswith("__"):
                shown = f"{name} = {_shown(thing)}".splitlines()[0]
                self.say(shown if len(shown) <= _WIDTH else shown[: _WIDTH - 1] + "…")

    # Of graphs

    def do_tree(self, text: str) -> None:
        """tree NAME: the graph that it was made by."""
        from tinygrad_edu.drawing.draw import draw

        self.say(draw(self.node(text)).tree())

    def do_draw(self, text: str) -> None:
        """draw NAME FILE: its graph as a picture: .svg, .png, .html."""
        from tinygrad_edu.drawing.draw import DrawingError, draw

        name, _, file = text.rpartition(" ")
        if not name:
            raise UserError("draw takes a name and a file, as in draw loss loss.svg")
        try:
            self.say(f"{draw(self.node(name.strip())).save(Path(file))}")
        except (DrawingError, OSError) as error:
            raise UserError(str(error)) from error

    def do_why_nan(self, text: str) -> None:
        """why_nan NAME: where its first NaN or inf was born, and the usual cure."""
        from tinygrad_edu.debugger.why_nan import why_nan

        self.say(str(why_nan(self.node(text))))

    def do_debug(self, text: str) -> None:
        """debug NAME: step through the backward pass from it."""
        from tinygrad_edu.debugger.log import LIMIT, Log
        from tinygrad_edu.debugger.prompt import Stepper
        from tinygrad_edu.drawing.names import nodes_in
        from tinygrad_edu.errors import GraphError

        frame = self.frame
        variables = {**frame.shared, **frame.variables} if frame is not None else {}
        try:
            log = Log(self.node(text), None, LIMIT, nodes_in(variables))
        except GraphError as error:
            raise UserError(str(error)) from error
        Stepper(log, self.frames, self._reads, self._writes).start()

    def do_q(self, text: str) -> bool:
        """q: leave the prompt; the program goes on."""
        self.left = True
        return True

    def do_h(self, text: str) -> None:
        """h [COMMAND]: what there is, or one of them."""
        if text:
            name = self.abbreviations().get(text, text)
            made: Callable[..., Any] | None = getattr(self, f"do_{name}", None)
            if made is None:
                raise UserError(f"there is no command {text}; h lists them")
            self.say(textwrap.fill(" ".join((made.__doc__ or "").split()), _WIDTH))
            return
        known = self.commands()
        for heading, names in self.groups.items():
            self.say(self.coloured(heading, "1"))
            for name in names:
                self._help_line(name)
        rest = [name for name in known if not any(name in names for names in self.groups.values())]
        for name in rest:
            self._help_line(name)

    groups: Mapping[str, Sequence[str]] = {}
    """Commands by what they are for, in the order in which `h` shows them; others follow."""

    def _help_line(self, name: str) -> None:
        text = " ".join((getattr(self, f"do_{name}").__doc__ or "").split())
        usage, _, what = text.partition(": ")
        first = what.split("; ")[0].rstrip(".")
        self.say(textwrap.fill(f"{usage:<20} {first}", _WIDTH, subsequent_indent=" " * 21))

    def completenames(self, text: str, *ignored: Any) -> list[str]:
        """Commands and names that begin so."""
        return [n for n in (*self.commands(), *self.known()) if n.startswith(text)]

    def completedefault(self, text: str, *ignored: Any) -> list[str]:
        """Names that begin so."""
        return [name for name in self.known() if name.startswith(text)]

    def known(self) -> list[str]:
        """Names that an expression may have."""
        return list(self.frame.variables) if self.frame is not None else []


def _shown(thing: Any) -> str:
    text = repr(thing)
    return text if len(text) <= 2000 else text[:2000] + " …"
