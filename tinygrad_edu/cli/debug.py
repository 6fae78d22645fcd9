"""`tinygrad-edu debug SCRIPT.py`: run it, then step through the backward pass of its result."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from tinygrad_edu.autograd.recording import Recording
from tinygrad_edu.cli.scripts import ScriptError, result_of
from tinygrad_edu.debugger.log import LIMIT, Log
from tinygrad_edu.debugger.prompt import Stepper
from tinygrad_edu.debugger.stopping import post_mortem
from tinygrad_edu.drawing.names import nodes_in
from tinygrad_edu.errors import GraphError

__all__ = ["debug_script"]


def debug_script(
    path: Path, name: str = "", arguments: Sequence[str] = (), reads: TextIO | None = None,
    writes: TextIO | None = None,
) -> int:  # fmt: skip
    """Run a script with lines and variables noted, and open the prompt on its result.

    An exception of the script opens a prompt in its frames. The exit code: 0, or 1 after an
    exception.

    Args:
        path: the script.
        name: the variable to step from; without it loss, or the last result of one number.
        arguments: what the script finds in `sys.argv`.
        reads: a stream to read commands from, in place of the terminal.
        writes: a stream to write to.

    Raises:
        ScriptError: there is no such file or variable, or nothing to differentiate.
    """
    try:
        with Recording():
            root, variables = result_of(path, name, arguments)
    except (ScriptError, SystemExit, KeyboardInterrupt):
        raise
    except Exception as error:  # noqa: BLE001 - whatever the script raises is what to look at
        post_mortem(error, reads=reads, writes=writes)
        return 1
    try:
        log = Log(root, None, LIMIT, nodes_in(variables))
    except (GraphError, TypeError) as error:
        raise ScriptError(str(error)) from error
    sys.stdout.flush()
    Stepper(log, [], reads, writes).start()
    return 0
