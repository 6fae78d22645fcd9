"""What training takes over from the process while it runs: Ctrl-C, SIGTERM, BLAS threads."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any, Self


class Interruption:
    """Within it the first Ctrl-C, or SIGTERM, only sets `requested`; the second one acts as usual.

    Outside the main thread, where Python allows no signal handlers, nothing changes.

    Attributes:
        signal: the number of the one that came; None before.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._previous: dict[int, Any] = {}

    @property
    def requested(self) -> bool:
        """Whether one came."""
        return self.signal is not None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
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
        self.signal = number

    def _restore(self) -> None:
        for number, before in self._previous.items():
            signal.signal(number, before)
        self._previous = {}


@contextlib.contextmanager
def limited_threads(count: int) -> Iterator[None]:
    """Let the array library use `count` threads inside."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=count):
        yield
