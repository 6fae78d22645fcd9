"""Where in the user's program a node was made."""

from __future__ import annotations

import inspect
import os
import sys
from pathlib import Path
from typing import Any

_PACKAGE = str(Path(__file__).resolve().parent.parent) + os.sep
# nn, optim and demos lie beside the package and are linked into it; demos count as the user's.
_BESIDE = tuple(str(Path(_PACKAGE).parent / room) + os.sep for room in ("nn", "optim"))
# Python's own `cmd` runs the commands of our prompts: no line of the user's.
_PROMPTS = os.path.join(os.path.dirname(os.__file__), "cmd.py")
_ours: dict[str, bool] = {_PROMPTS: True}


def _is_ours(filename: str) -> bool:
    found = _ours.get(filename)
    if found is None:
        demos = _PACKAGE + "demos" + os.sep
        real = os.path.realpath(filename)
        ours = any(name.startswith((_PACKAGE, *_BESIDE)) for name in (filename, real))
        found = ours and not any(name.startswith(demos) for name in (filename, real))
        _ours[filename] = found
    return found


def here() -> Any:
    """The nearest frame outside this package: where the user's program is now."""
    frame = sys._getframe(2)
    ours = _ours
    while True:
        filename = frame.f_code.co_filename
        known = ours.get(filename)
        if known is None:
            known = _is_ours(filename)
        if not known or frame.f_back is None:
            return frame
        frame = frame.f_back


def variables(frame: Any) -> dict[str, Any]:
    """The local variables of a frame, in a dict of our own.

    Before Python 3.13 a frame keeps the dict in which it showed its variables, and with it
    whatever they held; of a function's frame that dict is a copy, and is emptied here. (Not while
    a tracer runs, such as pdb, which writes the copy back.)
    """
    shown = frame.f_locals
    found = dict(shown)
    copied = frame.f_code.co_flags & inspect.CO_OPTIMIZED and sys.version_info < (3, 13)
    if copied and sys.gettrace() is None:
        shown.clear()
    return found


def line(code: Any, offset: int) -> str:
    """The instruction at `offset` of `code` as "file:line", as the interpreter knows the file."""
    if code is None:
        return "unknown"
    number = code.co_firstlineno
    for start, end, at in code.co_lines():
        if start <= offset < end and at is not None:
            number = at
    return f"{code.co_filename}:{number}"


def current_line() -> str:
    """The user's line that is running now."""
    frame = here()
    return line(frame.f_code, frame.f_lasti)
