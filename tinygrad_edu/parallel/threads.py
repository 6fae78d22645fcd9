"""A batch split over threads.

NumPy releases Python's lock while it computes, so two threads with one BLAS thread each keep two
cores busy through every operation, where BLAS threads help its matrix products only and all else
waits. There is one meeting point a step. The lock is handed over at each NumPy call, though, which
costs a wake-up of the other thread now and then: `processes` do without, where the system has them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import numpy as np

from tinygrad_edu.autograd import Tensor, modes
from tinygrad_edu.parallel.workers import (
    Arguments,
    Gradients,
    M,
    Part,
    Setting,
    Share,
    Workers,
    part_gradient,
)


class ThreadedBackward(Workers[M]):
    """Workers that are threads of this process; see `Workers`."""

    kind = "threads"

    def __init__(self, model: M, workers: int) -> None:
        super().__init__(model, workers)
        self._models: list[M] = [model, *[copy.deepcopy(model) for _ in range(workers - 1)]]
        self._parameters = [list(m.parameters()) for m in self._models]
        self._replica_modules = [list(m.modules()) for m in self._models]
        self._pool = ThreadPoolExecutor(workers, "gradient")

    @property
    def models(self) -> list[M]:
        """The model and its replicas, in the workers' order."""
        return self._models

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()

    def _gradients(
        self, loss_of: Callable[..., Tensor], parts: Sequence[Part], shares: Sequence[Share]
    ) -> list[tuple[float, Gradients]]:
        def work(worker: int) -> tuple[float, Gradients]:
            model, parameters = self._models[worker], self._parameters[worker]
            return part_gradient(model, parameters, loss_of, parts[worker], shares[worker])

        return self._run(work, len(parts))

    def _each(self, function: Callable[..., Any], parts: Sequence[Arguments]) -> list[Any]:
        return self._run(lambda worker: function(self._models[worker], *parts[worker]), len(parts))

    def _run(self, work: Callable[[int], Any], count: int) -> list[Any]:
        """`work(0)`, `work(1)` …, each in a thread; a single one in the caller's."""
        self._share()
        if count == 1:
            return [work(0)]
        inherited = modes.current(), np.geterr()
        setting = Setting.of(self._modules, self._own)
        own = modes.default_generator()

        def in_place(worker: int) -> Any:
            if worker:
                setting.apply(worker, self._replica_modules[worker], self._parameters[worker])
            else:
                modes.state.generator = own
            return work(worker)

        futures = [self._pool.submit(_as_there, inherited, in_place, i) for i in range(count)]
        wait(futures)  # all of them end before the first failure is reported
        return [future.result() for future in futures]

    def _share(self) -> None:
        """Replicas see the model's numbers, also those that were assigned rather than written."""
        for replica in self._parameters[1:]:
            for mine, theirs in zip(self._own, replica, strict=True):
                theirs._data = mine._data


def _as_there(inherited: tuple[Any, Any], work: Callable[[int], Any], worker: int) -> Any:
    """`work` under the modes and the NumPy warnings of the thread that asked."""
    mode, warnings = inherited
    with mode, np.errstate(**warnings):
        return work(worker)
