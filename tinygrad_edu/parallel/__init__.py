"""Gradients of one batch by several workers, each with its part of it."""

from tinygrad_edu.optim import Optimizer
from tinygrad_edu.parallel.processes import ProcessBackward, can_fork
from tinygrad_edu.parallel.threads import ThreadedBackward
from tinygrad_edu.parallel.workers import M, WorkerError, Workers, split_batch


def make_workers(
    model: M, count: int, optimizer: Optimizer | None = None, *, processes: bool = True
) -> Workers[M]:
    """Processes where the system has them for this model and `count` is above 1, else threads.

    `processes` set to False asks for threads; `optimizer` is the one whose step they share.
    """
    if processes and count > 1 and can_fork(model):
        return ProcessBackward(model, count, optimizer)
    return ThreadedBackward(model, count)


__all__ = [
    "ProcessBackward",
    "ThreadedBackward",
    "WorkerError",
    "Workers",
    "can_fork",
    "make_workers",
    "split_batch",
]
