"""A batch split over threads: each works out the gradient of its part, and the parts are summed.

NumPy releases Python's lock while it computes, so two threads with one BLAS thread each keep two
cores busy through every operation, where BLAS threads help its matrix products only and all else
waits. There is one meeting point a step.

Each worker has a replica of the model whose parameters share the model's numbers and have
gradients of
their own. The sum is taken in the workers' order, so the same number of workers gives the same
bits.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from typing import Any, Generic, TypeVar

import numpy as np

from tinygrad_edu.autograd import Tensor, modes
from tinygrad_edu.nn import Module

Part = tuple[Any, ...]
M = TypeVar("M", bound=Module)


def split_batch(arrays: Sequence[Any], workers: int) -> list[Part]:
    """Arrays of one batch (first axis: examples) as one tuple a worker, sizes as even as can be.

    Raises:
        ValueError: fewer examples than workers.
    """
    size = len(arrays[0])
    if not 1 <= workers <= size:
        raise ValueError(
            f"a batch of {size} examples cannot be split over {workers} workers; use 1 to {size}"
        )
    cuts = [size * i // workers for i in range(workers + 1)]
    return [
        tuple(array[start:stop] for array in arrays)
        for start, stop in pairwise(cuts)
    ]


class ThreadedBackward(Generic[M]):
    """Works out the gradients of `model` on a batch by `workers` threads.

    Args:
        model: its parameters receive the summed gradients; the caller moves them.
        workers: how many parts at most, each in a thread of its own.

    Raises:
        ValueError: fewer than one worker.
    """

    def __init__(self, model: M, workers: int) -> None:
        if workers < 1:
            raise ValueError(f"at least one worker has to work; got workers={workers}")
        self._models: list[M] = [model, *[copy.deepcopy(model) for _ in range(workers - 1)]]
        self._parameters = [list(m.parameters()) for m in self._models]
        self._pool = ThreadPoolExecutor(workers, "gradient")

    @property
    def models(self) -> list[M]:
        """The model and its replicas, in the workers' order."""
        return self._models

    def __call__(
        self,
        loss_of: Callable[..., Tensor],
        parts: Sequence[Part],
        weights: Sequence[float] | None = None,
    ) -> float:
        """Add the gradient of Σ weight·loss to the model's parameters; the value of that sum.

        Args:
            loss_of: `loss_of(model, *part)`, one number; runs once a part, in a thread of its own.
            parts: at most one a worker.
            weights: each part's share of the batch, such as its number of targets over all of
                them; by default all the same.

        Raises:
            ValueError: more parts than workers, or as many weights as parts is not the case.
            Exception: the first that a worker raised, in order; no gradient has changed then.
        """
        shares = [1 / len(parts)] * len(parts) if weights is None else list(weights)
        if len(parts) > len(self._models) or len(shares) != len(parts):
            raise ValueError(
                f"{len(parts)} parts with {len(shares)} weights were given to "
                f"{len(self._models)} workers; give each worker at most one part, with its weight"
            )
        self._share()
        jobs = [(loss_of, i, part, shares[i]) for i, part in enumerate(parts)]
        if len(jobs) == 1:
            made = [self._work(*jobs[0])]
        else:
            inherited = modes.current(), np.geterr()
            futures = [self._pool.submit(self._as_here, inherited, *job) for job in jobs]
            wait(futures)  # all of them end before the first failure is reported
            made = [future.result() for future in futures]
        self._sum([gradients for _, gradients in made])
        return float(sum(loss for loss, _ in made))

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()

    def _share(self) -> None:
        """Replicas see the model's numbers, also those that were assigned rather than written."""
        for replica in self._parameters[1:]:
            for mine, theirs in zip(self._parameters[0], replica, strict=True):
                theirs._data = mine._data

    def _as_here(self, inherited: tuple[Any, Any], *job: Any) -> tuple[float, list[Any]]:
        """`_work` under the modes and the NumPy warnings of the thread that asked."""
        mode, warnings = inherited
        with mode, np.errstate(**warnings):
            return self._work(*job)

    def _work(
        self, loss_of: Callable[..., Tensor], worker: int, part: Part, share: float
    ) -> tuple[float, list[Any]]:
        """(share · loss, the gradients of this worker's part), the replica left without any."""
        parameters = self._parameters[worker]
        before = [p._grad for p in parameters]
        try:
            for p in parameters:
                p._grad = None
            loss = loss_of(self._models[worker], *part)
            loss.backward(np.full(loss.shape, share, loss.dtype), retain_graph=False)
            return share * float(loss.item()), [p.grad for p in parameters]
        finally:
            for p, grad in zip(parameters, before, strict=True):
                p._grad = grad

    def _sum(self, made: Sequence[list[Any]]) -> None:
        for parameter, *gradients in zip(self._parameters[0], *made, strict=True):
            arrived = [g.data for g in gradients if g is not None]
            if not arrived:
                continue
            total, *others = arrived
            for other in others:
                total += other
            if parameter._grad is None:
                parameter.grad = total
            else:
                parameter.grad = parameter.grad.data + total
