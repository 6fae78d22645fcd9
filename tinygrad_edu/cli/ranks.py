"""Commands that `mpiexec` started several times: rank 0 does what they say, the others serve it."""

from __future__ import annotations

import os
import sys

from tinygrad_edu import lm

__all__ = ["quiet_but_first", "served"]

_RANKS = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PALS_RANKID")
"""What launchers call the variable with a process's rank."""
_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")


def _told(names: tuple[str, ...]) -> int:
    return next((int(os.environ[name]) for name in names if os.environ.get(name)), 0)


def quiet_but_first() -> None:
    """Of several processes that find the same mistake in one command line, the first says it."""
    if _told(_RANKS):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())


def served(options: lm.TrainConfig) -> bool:
    """Whether this process is one of those that serve rank 0, and has done so to the end.

    Raises:
        ConfigError: several processes, which know nothing of each other.
        WorkerError: mpi4py is not installed; a rank that does not answer.
    """
    if options.parallel != "mpi":
        if _told(_SIZES) > 1:
            raise lm.ConfigError(
                f"mpiexec started this {_told(_SIZES)} times without --parallel mpi, so each would "
                "train a run of its own; add --parallel mpi, or leave mpiexec out"
            )
        return False
    from tinygrad_edu.lm.interrupt import limited_threads
    from tinygrad_edu.parallel import serve_mpi, world

    link = world()
    if not link.rank:
        return False
    with limited_threads(1):
        if options.tune_allocator:
            lm.allocator.tune()
        serve_mpi(link)
    return True
