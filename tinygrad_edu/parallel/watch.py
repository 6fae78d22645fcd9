"""Says which process of a job ended first, where `mpiexec` ends all others at once.

An MPI launcher kills every process as soon as one is gone, without a word to them, and names a
process number at best. So a small program beside rank 0 looks at the job's processes on its machine
(Linux tells of an end by a descriptor), and prints the rank of the one that was first.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Sequence

__all__ = ["Place", "Watcher", "place"]

Place = tuple[int, str, int]
"""Rank, machine, process."""
_ENDING = b"end\n"


def place() -> tuple[str, int]:
    """(machine, process) of this one."""
    return socket.gethostname(), os.getpid()


class Watcher:
    """The program, as rank 0 has it. (Where the system has no such descriptors, nothing.)

    Args:
        places: of all ranks; those on this machine are looked at.
    """

    def __init__(self, places: Sequence[Place]) -> None:
        near = [one for one in places if one[1] == place()[0]]
        self._program: subprocess.Popen[bytes] | None = None
        if len(near) > 1 and hasattr(os, "pidfd_open"):
            told = json.dumps({"near": near, "count": len(places)})
            self._program = subprocess.Popen(
                [sys.executable, "-I", __file__, told],
                stdin=subprocess.PIPE, start_new_session=True,
            )  # fmt: skip

    def close(self) -> None:
        """The job ends in peace."""
        if self._program is not None and self._program.stdin is not None:
            with contextlib.suppress(OSError):
                self._program.stdin.write(_ENDING)
                self._program.stdin.close()
            self._program.wait()
            self._program = None


def watch(near: Sequence[Place], count: int) -> str | None:
    """Wait for the first process to end: a sentence about it; None where the job ends in peace."""
    ranks: dict[int, Place] = {}
    looks = select.poll()
    for one in near:
        try:
            descriptor = os.pidfd_open(one[2])
        except ProcessLookupError:
            return _said([one], count)
        ranks[descriptor] = one
        looks.register(descriptor, select.POLLIN)
    looks.register(sys.stdin.fileno(), select.POLLIN)
    ready = [descriptor for descriptor, _ in looks.poll()]
    if sys.stdin.fileno() in ready and sys.stdin.buffer.read() == _ENDING:
        return None
    return _said([ranks[descriptor] for descriptor in ready if descriptor in ranks], count)


def _said(ended: Sequence[Place], count: int) -> str | None:
    if not ended:
        return None
    who = " and ".join(f"rank {rank} (process {number} on {host})" for rank, host, number in ended)
    return (
        f"tinygrad-edu: {who} of {count} has ended, or was killed, while the others worked; the "
        "job ends with it. What the last checkpoint holds is whole: go on with --resume"
    )


if __name__ == "__main__":
    said = watch(**json.loads(sys.argv[1]))
    if said:
        sys.stderr.write(said + "\n")
