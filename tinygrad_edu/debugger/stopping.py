"""Prompts in the middle of a program: `breakpoint()` in forward code, `breakpoint(x)` where x's
gradient arrives, `post_mortem()` after an exception or a NaN.
"""

from __future__ import annotations

import sys
import traceback
from types import TracebackType
from typing import Any, TextIO

from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.debugger.frames import (
    Frame,
    FramePrompt,
    frames_of,
    frames_of_traceback,
)
from tinygrad_edu.debugger.log import recording_a_pass
from tinygrad_edu.debugger.text import gradient_text, wrapped
from tinygrad_edu.drawing import facts
from tinygrad_edu.drawing.names import names_in, users_frame
from tinygrad_edu.errors import AnomalyError
from tinygrad_edu.scalar.value import Value

__all__ = ["breakpoint", "post_mortem"]

_off = False


class _Stop(FramePrompt):
    """The prompt of a `breakpoint()`."""

    def do_c(self, text: str) -> bool:
        """c: go on, to the next breakpoint()."""
        self.left = True
        return True

    def do_q(self, text: str) -> bool:
        """q: go on, and stop at no breakpoint() any more."""
        global _off
        _off = True
        return self.do_c(text)


def breakpoint(  # noqa: A001 - it is what Python calls it, and `tg.breakpoint` here
    x: Any = None, *, reads: TextIO | None = None, writes: TextIO | None = None
) -> None:
    """Stop here at a prompt with the program's variables; with a tensor, stop in each backward pass
    where its gradient arrives (as `gradient`). `tg.record` and `tg.debug` do not stop there.

    `c` goes on, `q` goes on and stops no more. Nothing is changed.

    Args:
        x: a tracked `Tensor`, or nothing.
        reads: a stream to read commands from, in place of the terminal.
        writes: a stream to write to.

    Raises:
        TypeError: x is no tensor; a `Value` calls nobody back: step with `tg.debug(loss)`.
    """
    if x is None:
        if not _off:
            prompt = _Stop(frames_of(users_frame()), reads, writes)
            prompt.intro = f"> {prompt.frame}\np NAME, u, d, w, l, debug NAME, c to go on, h help"
            prompt.start()
        return
    if not isinstance(x, Tensor):
        raise TypeError(
            f"breakpoint() was given a {type(x).__name__}; it takes a tensor, or nothing. To stop "
            "where the gradient of a Value changes: tg.debug(loss), then b NAME"
        )
    name = x.name or names_in().get(id(x), "x")

    def stop(gradient: Any) -> None:
        if _off or recording_a_pass():
            return
        frames = frames_of(users_frame())
        array = facts.host(gradient)
        variables = {"gradient": array, name: x}
        frames.append(Frame("", 0, f"backward, gradient of {name}", variables))
        prompt = _Stop(frames, reads, writes)
        prompt.intro = "\n".join((
            *wrapped(f"the gradient of {name} has arrived: {gradient_text(x, array)}"),
            "p gradient, u to the program, c to go on, h help",
        ))  # fmt: skip
        prompt.start()

    x.register_hook(stop)


def post_mortem(
    error: BaseException | None = None, *, reads: TextIO | None = None,
    writes: TextIO | None = None,
) -> None:  # fmt: skip
    """A prompt in the frames of an exception: the one given, the one being handled, or the last.

    Where it tells of a NaN, or results are in sight, `why_nan NAME` and `debug NAME` go on from
    there.

    Args:
        error: the exception.
        reads: a stream to read commands from, in place of the terminal.
        writes: a stream to write to.

    Raises:
        ValueError: there has been no exception.
    """
    found = error or sys.exc_info()[1] or getattr(sys, "last_value", None)
    if found is None:
        raise ValueError(
            "post_mortem() found no exception; call it in an except block, or give it one"
        )
    frames = frames_of_traceback(_trace(found))
    prompt = FramePrompt(frames, reads, writes)
    lines = [part.rstrip() for part in traceback.format_exception_only(found)]
    lines = [piece for line in lines for part in line.splitlines() for piece in wrapped(part)]
    seen = [
        name for name, thing in (frames[-1].variables.items() if frames else ())
        if isinstance(thing, (Tensor, Value)) and thing.op is not None
    ]  # fmt: skip
    if seen:
        asks = f"why_nan {seen[-1]}, " if isinstance(found, AnomalyError) else ""
        lines.append(f"results in sight: {', '.join(seen[:6])}; {asks}debug {seen[-1]}, tree …")
    lines.append(f"> {prompt.frame}" if frames else "it passed no line of your program")
    prompt.intro = "\n".join(lines)
    prompt.start()


def _trace(error: BaseException) -> TracebackType | None:
    return error.__traceback__
