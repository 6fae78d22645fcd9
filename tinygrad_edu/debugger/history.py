"""What readline does for a prompt: completion, and a history that outlives it."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Any

__all__ = ["History"]

_DELIMITERS = " \t\n`~!@$%^&*()-=+{}\\|;'\",<>/?"
"""Where a word begins for completion: the names of nodes have : . # and brackets inside."""


class History:
    """readline for as long as a prompt is open: its completion, and a history that is kept between
    sessions where the folder for it can be written. A Python prompt that was there before finds its
    own again.
    """

    def __init__(self, wanted: bool) -> None:
        self._readline: Any = None
        self._path: Path | None = None
        if wanted and sys.stdin is not None and sys.stdin.isatty():
            with contextlib.suppress(ImportError):  # Windows has none: a prompt without history
                import readline

                self._readline = readline

    def __enter__(self) -> None:
        readline = self._readline
        if readline is None:
            return
        length = readline.get_current_history_length()
        self._typed = [readline.get_history_item(i) for i in range(1, length + 1)]
        self._delimiters, self._length = (
            readline.get_completer_delims(), readline.get_history_length(),
        )  # fmt: skip
        readline.set_completer_delims(_DELIMITERS)
        readline.clear_history()
        folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        path = folder / "tinygrad_edu" / "history"
        with contextlib.suppress(OSError):  # nowhere to write: nothing is kept
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            readline.read_history_file(path)
            self._path = path

    def __exit__(self, *_: object) -> None:
        readline = self._readline
        if readline is None:
            return
        if self._path is not None:
            with contextlib.suppress(OSError):
                readline.set_history_length(1000)
                readline.write_history_file(self._path)
        readline.set_history_length(self._length)
        readline.set_completer_delims(self._delimiters)
        readline.clear_history()
        for line in self._typed:
            readline.add_history(line)
