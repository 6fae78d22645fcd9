"""Standard output whose reader may go away, as `| head` does, without taking the training along."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable
from typing import TextIO


class Output(io.TextIOBase):
    """A stream that drops what can no longer be written.

    Args:
        stream: where the text goes.
        on_lost: told the first error; from then on nothing is written any more.
    """

    def __init__(self, stream: TextIO, on_lost: Callable[[OSError], None]) -> None:
        super().__init__()
        self.stream = stream
        self.on_lost = on_lost
        self.lost: OSError | None = None

    def write(self, text: str) -> int:
        """Write, unless an earlier write failed."""
        if self.lost is None:
            try:
                self.stream.write(text)
            except OSError as error:
                self._lose(error)
        return len(text)

    def flush(self) -> None:
        """Flush, unless an earlier write failed or the stream's owner has closed it.

        (Python flushes an object of this kind once more when it is freed, maybe after that.)
        """
        if self.lost is None and not self.stream.closed:
            try:
                self.stream.flush()
            except OSError as error:
                self._lose(error)

    def _lose(self, error: OSError) -> None:
        self.lost = error
        discard(self.stream)
        self.on_lost(error)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Of the stream; rich chooses symbols by it."""
        return self.stream.encoding

    def isatty(self) -> bool:
        return self.stream.isatty()

    def fileno(self) -> int:
        return self.stream.fileno()


def discard(stream: TextIO) -> None:
    """Let what `stream` still holds, which Python writes at its exit, go nowhere."""
    with contextlib.suppress(OSError):  # a stream without a file holds nothing back
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
