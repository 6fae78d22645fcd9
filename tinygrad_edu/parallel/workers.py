"""What workers that share a batch have in common: the parts, a part's gradient, and the sum.

Each worker has a model whose parameters share the caller's numbers and have gradients of their own.
The sum is taken in the workers' order, so the same number of workers gives the same bits, whether
they are threads or processes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Generic, TypeVar

import numpy as np

from tinygrad_edu.autograd import Tensor, modes
from tinygrad_edu.autograd.tensor import grad_array
from tinygrad_edu.nn import Module
from tinygrad_edu.optim import Optimizer, clip_grad_norm_

Arguments = tuple[Any, ...]
Part = Arguments | list[Arguments]
"""The arguments of one loss; or those of several, which are worked through in turn."""
Share = float | list[float]
"""A part's weight; of a list, one each."""
Gradients = list[Any]
M = TypeVar("M", bound=Module)


class WorkerError(RuntimeError):
    """A worker is no longer there, or was given what cannot reach it."""


def split_batch(arrays: Sequence[Any], workers: int) -> list[Arguments]:
    """Arrays of one batch (first axis: examples) as one tuple a worker, sizes as even as can be.

    Raises:
        ValueError: fewer examples than workers, or arrays of different lengths.
    """
    size = len(arrays[0])
    lengths = [len(array) for array in arrays]
    if lengths != [size] * len(arrays):
        raise ValueError(f"the arrays of a batch have to be of one length; got {lengths}")
    if not 1 <= workers <= size:
        raise ValueError(
            f"a batch of {size} examples cannot be split over {workers} workers; use 1 to {size}"
        )
    cuts = [size * i // workers for i in range(workers + 1)]
    return [
        tuple(array[start:stop] for array in arrays)
        for start, stop in pairwise(cuts)
    ]


class Workers(ABC, Generic[M]):
    """Works out the gradients of `model` on a batch, each worker those of its part.

    Args:
        model: its parameters receive the summed gradients; the caller moves them.
        workers: how many parts at most.

    Attributes:
        count: the same number.
        model: the same model.

    Raises:
        ValueError: fewer than one worker.
    """

    kind = "workers"

    def __init__(self, model: M, workers: int) -> None:
        if workers < 1:
            raise ValueError(f"at least one worker has to work; got workers={workers}")
        self.model = model
        self.count = workers
        self._own = list(model.parameters())
        self._modules = list(model.modules())

    def __call__(
        self,
        loss_of: Callable[..., Tensor],
        parts: Sequence[Part],
        weights: Sequence[Share] | None = None,
    ) -> float:
        """Add the gradient of Σ weight·loss to the model's parameters; the value of that sum.

        A part that is a list of tuples is worked through one after the other, and its gradients
        are added up before they are exchanged: gradient accumulation, in the memory of one of them.

        Args:
            loss_of: `loss_of(model, *part)`, one number; runs once a part, in a worker of its own.
                (Processes need a function that can be sent to them: one at the top of a module.)
            parts: at most one a worker.
            weights: each part's share of the batch, such as its number of targets over all of
                them (a list for a part that is one); by default all the same.

        Raises:
            ValueError: more parts than workers, or as many weights as parts is not the case.
            Exception: the first that a worker raised, in order; no gradient has changed then.
        """
        self._check(parts)
        shares = _even(parts) if weights is None else list(weights)
        if len(shares) != len(parts):
            raise ValueError(
                f"{len(parts)} parts were given with {len(shares)} weights; give one a part"
            )
        made = self._gradients(loss_of, parts, shares)
        self._sum([gradients for _, gradients in made])
        return float(sum(loss for loss, _ in made))

    def each(self, function: Callable[..., Any], parts: Sequence[Arguments]) -> list[Any]:
        """`function(model, *part)` for each part, in a worker of its own; the results in order.

        Raises:
            ValueError: more parts than workers.
            Exception: the first that a worker raised, in order.
        """
        self._check(parts)
        return self._each(function, parts)

    def clip_grad_norm_(self, max_norm: float) -> float:
        """`optim.clip_grad_norm_` of the model's parameters, which the workers may share."""
        return clip_grad_norm_(self._own, max_norm)

    def step(self, optimizer: Optimizer) -> None:
        """`optimizer.step()`, which the workers may share."""
        optimizer.step()

    @abstractmethod
    def close(self) -> None:
        """End the workers."""

    @abstractmethod
    def _gradients(
        self, loss_of: Callable[..., Tensor], parts: Sequence[Part], shares: Sequence[Share]
    ) -> list[tuple[float, Gradients]]:
        """A part's (share · loss, gradients) each; the first's gradients may be written to."""

    @abstractmethod
    def _each(self, function: Callable[..., Any], parts: Sequence[Arguments]) -> list[Any]: ...

    def _check(self, parts: Sequence[Part]) -> None:
        if not 1 <= len(parts) <= self.count:
            raise ValueError(
                f"{len(parts)} parts were given to {self.count} workers; give each at most one"
            )

    def _sum(self, made: Sequence[Gradients]) -> None:
        for parameter, *gradients in zip(self._own, *made, strict=True):
            arrived = [g for g in gradients if g is not None]
            if not arrived:
                continue
            total, *others = arrived
            for other in others:
                total += other
            before = grad_array(parameter)
            parameter._grad = total if before is None else before + total


def _even(parts: Sequence[Part]) -> list[Share]:
    """Shares that give each part the same weight, and each tuple of a list."""
    return [
        [1 / len(parts) / len(part)] * len(part) if isinstance(part, list) else 1 / len(parts)
        for part in parts
    ]


@dataclass(frozen=True)
class Setting:
    """What holds in the caller, and is to hold in the other workers while they work for it.

    Attributes:
        tracked: which parameters want a gradient.
        training: which modules are in training mode.
        seed: of the default random stream that each worker gets, numbered by the worker.
    """

    tracked: tuple[bool, ...]
    training: tuple[bool, ...]
    seed: int

    @classmethod
    def of(cls, modules: Sequence[Module], parameters: Sequence[Tensor]) -> Setting:
        """The caller's; it draws one number from the caller's own stream."""
        return cls(
            tuple([p.requires_grad for p in parameters]),
            tuple([module.training for module in modules]),
            int(modes.default_generator().integers(2**63)),
        )

    def apply(
        self, worker: int, modules: Sequence[Module], parameters: Sequence[Tensor]
    ) -> None:
        """Make it hold in this worker, which is not the caller."""
        for parameter, tracked in zip(parameters, self.tracked, strict=True):
            parameter.requires_grad = tracked
        for module, training in zip(modules, self.training, strict=True):
            module.__dict__["training"] = training  # by hand, as no module's children change
        modes.state.generator = np.random.default_rng([self.seed, worker])


@contextmanager
def _told(parameters: Sequence[Tensor], arrived: Callable[[int, Any], None]) -> Iterator[None]:
    """Within it, `arrived` hears of each gradient that a backward pass has made, with what was
    there before.
    """

    def hook_of(i: int, parameter: Tensor) -> Callable[[Tensor], None]:
        def heard(gradient: Tensor) -> None:
            before = grad_array(parameter)
            arrived(i, gradient._data if before is None else before + gradient._data)

        return heard

    before = [p._hooks for p in parameters]
    try:
        for i, p in enumerate(parameters):
            if p.requires_grad:
                p._hooks = [*(p._hooks or ()), hook_of(i, p)]
        yield
    finally:
        for p, hooks in zip(parameters, before, strict=True):
            p._hooks = hooks


def part_gradient(
    model: Module,
    parameters: Sequence[Tensor],
    loss_of: Callable[..., Tensor],
    part: Part,
    share: Share,
    arrived: Callable[[int, Any], None] | None = None,
) -> tuple[float, Gradients]:
    """(share · loss, its gradients as arrays or None), with those of `parameters` as before.

    `arrived(i, gradient)` is called while the last backward pass goes on, as soon as parameter i
    has all of its gradient.
    """
    pieces = part if isinstance(part, list) else [part]
    shares = share if isinstance(share, list) else [share]
    value = 0.0
    before = [p._grad for p in parameters]
    try:
        for p in parameters:
            p._grad = None
        for n, (piece, weight) in enumerate(zip(pieces, shares, strict=True), 1):
            loss = loss_of(model, *piece)
            last = arrived is not None and n == len(pieces)
            with _told(parameters, arrived) if last and arrived else nullcontext():
                loss.backward(np.full(loss.shape, weight, loss.dtype), retain_graph=False)
            value += weight * float(loss.item())
        return value, [grad_array(p) for p in parameters]
    finally:
        for p, grad in zip(parameters, before, strict=True):
            p._grad = grad
