"""Talking to the other processes of an MPI job: messages, sums, and how long to wait for them.

MPI's own waits keep a core busy, and last for ever where a process hangs. Here each is a question
that is asked again and again, at first without a pause, as most answers come within a step, and
given up after `patience` seconds.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from tinygrad_edu.parallel.worker_process import END
from tinygrad_edu.parallel.workers import WorkerError

__all__ = ["ANSWER", "JOB", "WORKED", "Link", "LostError", "world"]

PATIENCE = 120.0
"""Seconds that another process may take longer than this one; TINYGRAD_EDU_PATIENCE changes it."""
_LOOKING = 2e-3
_PAUSE = 2e-4
JOB, ANSWER, WORKED = 1, 2, 3
"""Kinds of messages: something to do, what came of it, and that one's own part is worked out."""


class LostError(WorkerError):
    """A process has not answered for as long as it may take."""


class Link:
    """This process's connection to the others of its job.

    Args:
        communicator: mpi4py's.
        patience: seconds after which a process that does not answer is given up.

    Attributes:
        rank, size: the number of this process, and how many there are.
        broken: whether one of them has been given up, so that none can end in peace.
    """

    def __init__(self, communicator: Any, patience: float = PATIENCE) -> None:
        self.communicator = communicator
        self.patience = patience
        self.rank: int = communicator.Get_rank()
        self.size: int = communicator.Get_size()
        self.broken = False
        self._sending: list[Any] = []

    def send(self, message: bytes, to: int, kind: int) -> None:
        """Put a message on its way."""
        self._sending = [request for request in self._sending if not request.test()[0]]
        self._sending.append(self.communicator.isend(message, to, kind))

    def receive(self, source: int, kind: int, doing: str, patience: float | None = None) -> bytes:
        """The next message of a kind.

        Args:
            source: whose.
            kind: JOB, ANSWER or WORKED.
            doing: what it is to be about, for the error.
            patience: seconds to wait, if not the usual ones; inf where nothing may be due.

        Raises:
            LostError: no message.
        """
        found = self.wait(
            lambda: self.communicator.improbe(source, kind),
            lambda: f"rank {source} of {self.size} has not answered ({doing})",
            patience,
        )
        message: bytes = found.recv()
        return message

    def there(self, source: int, kind: int) -> bool:
        """Whether a message of a kind has come; it is taken."""
        found = self.communicator.improbe(source, kind)
        if found is not None:
            found.recv()
        return found is not None

    def wait(
        self, answer: Callable[[], Any], who: Callable[[], str], patience: float | None = None
    ) -> Any:
        """The first answer that is neither None nor False.

        Raises:
            LostError: none within `patience` seconds; says who.
        """
        patience = self.patience if patience is None else patience
        begin = time.perf_counter()
        while True:
            found = answer()
            if found is not None and found is not False:
                return found
            waited = time.perf_counter() - begin
            if waited > patience:
                self.broken = True
                raise LostError(
                    f"{who()} for {patience:g} seconds, so it hangs or is far behind; the run ends "
                    "here, and goes on from its last checkpoint with --resume "
                    "(TINYGRAD_EDU_PATIENCE=SECONDS changes how long is waited)"
                )
            if waited > _LOOKING:
                time.sleep(_PAUSE)
            else:
                os.sched_yield()

    def end(self) -> None:
        """Let the others end; where one has been given up, the whole job, this process with it."""
        if self.broken:
            sys.stdout.flush()
            sys.stderr.flush()
            self.communicator.Abort(1)
        elif self.rank == 0:
            for rank in range(1, self.size):
                self.send(END, rank, JOB)


@functools.cache
def world() -> Link:
    """The link to all processes that `mpiexec` started. As rank 0 ends, so do the others.

    Raises:
        WorkerError: mpi4py, or an MPI, is not installed.
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise WorkerError(
            f"workers over MPI need mpi4py and an MPI ({error}); pip install 'tinygrad_edu[mpi]' "
            "brings both, and mpiexec"
        ) from error
    patience = float(os.environ.get("TINYGRAD_EDU_PATIENCE") or PATIENCE)
    link = Link(MPI.COMM_WORLD, patience)
    # Before mpi4py's own, which waits for all processes to end.
    atexit.register(link.end)
    return link
