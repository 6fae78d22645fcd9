"""One process at a time in a run folder: two would cut and overwrite each other's files.

The system holds the lock, on the open file `.lock`, and drops it when the process ends, however it
ends. The file stays behind and means nothing by itself: removing it would let a third process lock
a new file of that name while the second still waits on the old one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from tinygrad_edu.lm.errors import RunError

LOCK = ".lock"
_HELD = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
_NO_LOCKS_HERE = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)
_LOCKED_BYTE = 2**20
"""Windows lets nobody read a byte that is locked; this one lies behind the process's number."""


@contextlib.contextmanager
def held(run: Path, doing: str = "trained", option: str = "--run") -> Iterator[None]:
    """Hold the run folder inside; on a file system without locks nothing is held.

    `doing` and `option` are words of the error.

    Raises:
        RunError: another process holds it (or another thread); its number is named.
    """
    path = run / LOCK
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            _lock(descriptor)
        except OSError as error:
            if error.errno in _HELD:
                raise RunError(
                    f"{run} is being {doing} by {_holder(path)}; wait until it ends, or give "
                    f"another folder with {option}"
                ) from error
            if error.errno not in _NO_LOCKS_HERE:
                raise
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(descriptor)


def _holder(path: Path) -> str:
    number = path.read_text(encoding="utf-8").strip()
    return f"process {number}" if number else "another process"


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)
else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
