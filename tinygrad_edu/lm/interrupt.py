"""What training takes over from the process for as long as it runs: Ctrl-C, BLAS threads."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any, Self


class Interruption:
    """Within it the first Ctrl-C only sets `requested`; the second one interrupts as usual.

    Outside the main thread, where Python allows no signal handlers, nothing changes.
    """

    def __init__(self) -> None:
        self.requested = False
        self._previous: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._restore()
        self.requested = True

    def _restore(self) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
            self._previous = None


@contextlib.contextmanager
def limited_threads(count: int) -> Iterator[None]:
    """Let the array library use `count` threads inside."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=count):
        yield
