"""Gradients of one batch by several workers, each with its part of it."""

from tinygrad_edu.optim import Optimizer
from tinygrad_edu.parallel.link import Link, world
from tinygrad_edu.parallel.mpi import MPIBackward, serve_mpi
from tinygrad_edu.parallel.processes import ProcessBackward, can_fork
from tinygrad_edu.parallel.threads import ThreadedBackward
from tinygrad_edu.parallel.workers import M, WorkerError, Workers, split_batch


def make_workers(
    model: M, count: int, optimizer: Optimizer | None = None, *, processes: bool = True,
    mpi: bool = False,
) -> Workers[M]:  # fmt: skip
    """Processes where the system has them for this model and `count` is above 1, else threads.

    `processes` set to False asks for threads, `mpi` for the processes that `mpiexec` started, of
    which this is the first, however many; `optimizer` is the one whose step they share.
    """
    if mpi:
        return MPIBackward(model, optimizer, world())
    if processes and count > 1 and can_fork(model):
        return ProcessBackward(model, count, optimizer)
    return ThreadedBackward(model, count)


__all__ = [
    "Link",
    "MPIBackward",
    "ProcessBackward",
    "ThreadedBackward",
    "WorkerError",
    "Workers",
    "can_fork",
    "make_workers",
    "serve_mpi",
    "split_batch",
    "world",
]
