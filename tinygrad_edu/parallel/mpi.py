"""A batch split over the processes of an MPI job, on one machine or on many.

Rank 0 is the caller: it has the run's folder, says what is done, and is the only one that writes.
The others `serve` it. Each has the whole model and optimizer, and moves all weights itself, with
gradients that are summed over all of them by MPI's Allreduce, bucket by bucket while the backward
pass goes on (`buckets`). What travels besides are the parts of a batch, losses, and options.

    mpiexec -n 4 python program.py

    link = parallel.world()
    if link.rank:
        parallel.serve_mpi(link)  # until rank 0 ends
    else:
        workers = parallel.MPIBackward(model, optimizer, link)

The sum's order is MPI's own, so that gradients equal those of one worker on the whole batch up to
rounding; all ranks get the same bits.
"""

from __future__ import annotations

import math
import pickle
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinygrad_edu.autograd import Tensor, modes, writes
from tinygrad_edu.autograd.tensor import grad_array
from tinygrad_edu.nn import Module
from tinygrad_edu.optim import Optimizer
from tinygrad_edu.optim.clip import clip_factor, scale_grads
from tinygrad_edu.parallel.buckets import Buckets
from tinygrad_edu.parallel.link import ANSWER, JOB, WORKED, Link
from tinygrad_edu.parallel.worker_process import END, answer_to, packed
from tinygrad_edu.parallel.workers import (
    Arguments,
    Gradients,
    M,
    Part,
    Setting,
    Share,
    WorkerError,
    Workers,
    part_gradient,
)

__all__ = ["MPIBackward", "serve_mpi"]

CLOSE = b"close"
"""What tells a rank to forget the model: another may follow."""


@dataclass
class Member:
    """What each rank has, the caller too: the model, and the sums with the others."""

    link: Link
    model: Module
    optimizer: Optimizer | None
    parameters: list[Tensor]
    modules: list[Module]
    _buckets: Buckets | None = None

    @classmethod
    def of(cls, link: Link, model: Module, optimizer: Optimizer | None) -> Member:
        """With the model's own parameters."""
        return cls(link, model, optimizer, list(model.parameters()), list(model.modules()))

    def buckets(self) -> Buckets:
        """Those of the parameters that want a gradient now."""
        if self._buckets is None or not self._buckets.fits(self.parameters):
            self._buckets = Buckets(self.parameters, self.begin_sum, self.go_on)
        return self._buckets

    def begin_sum(self, array: Any) -> Any:
        """Start the sum of an array over all ranks, in place."""
        from mpi4py import MPI

        return self.link.communicator.Iallreduce(MPI.IN_PLACE, array)

    def go_on(self, under_way: list[Any]) -> None:
        """Let MPI work at the sums that are under way."""
        for request in under_way[-2:]:
            request.Test()

    def gradient(
        self, setting: Setting | None, kept: Sequence[bool], loss_of: Any, part: Any, share: Any
    ) -> Any:
        """(Σ over all ranks of share · loss, the sums by number of the parameter).

        A rank without a part, or whose part fails, joins the sums with zeros, as the others wait
        for it; then it raises. `kept` says which parameters have a gradient to be added to.
        """
        self.keep_before(kept)
        if setting is not None:
            setting.apply(self.link.rank, self.modules, self.parameters)
        buckets = self.buckets()
        buckets.begin()
        loss, failed = 0.0, None
        try:
            if part is not None:
                loss, gradients = part_gradient(
                    self.model, self.parameters, loss_of, part, share, buckets.arrived
                )
                for i, gradient in enumerate(gradients):
                    if gradient is not None and i not in buckets.came:
                        buckets.arrived(i, gradient)
        except Exception as error:  # noqa: BLE001 - raised below, once the others are not waiting
            failed = error
        if self.link.rank:
            self.link.send(b"", 0, WORKED)
        buckets.send_rest()
        facts = np.zeros(2 + len(self.parameters))
        facts[0], facts[1] = failed is not None, loss
        facts[[2 + i for i in buckets.came]] = 1
        for request in [*buckets.under_way, self.begin_sum(facts)]:
            self.link.wait(request.Test, self._late)
        for rank in range(1, self.link.size if not self.link.rank else 0):
            self.link.receive(rank, WORKED, "its part of a batch")
        if failed is not None:
            raise failed
        if facts[0]:
            return 0.0, {}  # another rank says why
        sums = {i: g for i, g in buckets.sums().items() if facts[2 + i]}
        for i, total in sums.items():
            parameter = self.parameters[i]
            before = grad_array(parameter)
            parameter._grad = total if before is None else before + total
        return float(facts[1]), sums

    def _late(self) -> str:
        """Who has not come to a sum."""
        if self.link.rank:
            return f"rank {self.link.rank} waits for a sum, to which not all have come,"
        late = [r for r in range(1, self.link.size) if not self.link.there(r, WORKED)]
        who = " and ".join(f"rank {r}" for r in late) or "one rank"
        return f"{who} of {self.link.size} has not worked out its part of a batch"

    def keep_before(self, kept: Sequence[bool]) -> None:
        """Gradients that are kept and lie in the buckets, which are about to be written to, get
        memory of their own; others are dropped.
        """
        views = self._buckets.sums() if self._buckets else {}
        for i, (parameter, keep) in enumerate(zip(self.parameters, kept, strict=True)):
            if not keep:
                parameter._grad = None
            elif i in views and grad_array(parameter) is views[i]:
                parameter._grad = views[i].copy()

    def scale(self, numbers: Sequence[int], factor: float) -> None:
        """Multiply gradients."""
        scale_grads([self.parameters[i] for i in numbers], factor)

    def call(self, setting: Setting, function: Callable[..., Any], part: Arguments) -> Any:
        """What the function gives for the part."""
        setting.apply(self.link.rank, self.modules, self.parameters)
        return function(self.model, *part)

    def weights(self, numbers: Sequence[int]) -> None:
        """Take the caller's numbers for these parameters."""
        for i in numbers:
            parameter = self.parameters[i]
            if self.link.rank:
                parameter._data = np.empty_like(parameter._data)
            self._spread(parameter._data)

    def _spread(self, array: Any) -> None:
        """Rank 0's array becomes that of all."""
        whole = np.ascontiguousarray(array)
        request = self.link.communicator.Ibcast(whole, 0)
        self.link.wait(request.Test, lambda: "a broadcast of rank 0 was not joined by all")

    def step(self, options: Sequence[dict[str, Any]], state: Any, loose: Sequence[int]) -> None:
        """Move the weights as the caller does.

        Args:
            options: of each group of the optimizer.
            state: what the optimizer remembers, where that has been changed from outside.
            loose: numbers of parameters whose gradient the caller sends, as it has its own.
        """
        assert self.optimizer is not None
        if state is not None and self.link.rank:
            self.optimizer.load_state_dict(state)
        for group, given in zip(self.optimizer.param_groups, options, strict=True):
            group.update(given)
        for i in loose:
            parameter = self.parameters[i]
            if self.link.rank:
                parameter._grad = np.empty_like(parameter._data)
            self._spread(grad_array(parameter))
        if self.link.rank:
            self.optimizer.step()


class MPIBackward(Workers[M]):
    """Workers that are the processes of an MPI job, of which this is rank 0; see `Workers`.

    Weights that are changed here, by other means than `step`, are sent to the others at the next
    call. The array of a gradient is written over by the next call.

    Args:
        model: sent to the others, with its optimizer, once.
        optimizer: whose `step` all ranks make. Without one, moved weights are sent.
        link: to the others, which are in `serve_mpi`.

    Raises:
        WorkerError: a rank has not answered for `link.patience` seconds, with its number; the
            job cannot go on then, and ends with this process.
    """

    kind = "MPI processes"

    def __init__(self, model: M, optimizer: Optimizer | None, link: Link) -> None:
        if link.rank:
            raise WorkerError(f"rank {link.rank} serves rank 0: call serve_mpi there")
        super().__init__(model, link.size)
        self._optimizer = optimizer
        self._link = link
        self._here = Member.of(link, model, optimizer)
        self._number = {id(p): i for i, p in enumerate(self._own)}
        self._known: dict[int, Any] = {}  # summed gradients, which all ranks have
        self._known_at = self._weights_at = writes.clock[0]  # when the others had the same
        self._weights = [p._data for p in self._own]
        self._state: list[Any] | None = None
        message = packed((model, optimizer))
        for rank in range(1, link.size):
            link.send(message, rank, JOB)
        for rank in range(1, link.size):
            link.receive(rank, ANSWER, "its beginning")

    def close(self) -> None:
        """The others wait for new workers, or for this process to end."""
        if not self._link.broken:
            for rank in range(1, self._link.size):
                self._link.send(CLOSE, rank, JOB)

    def clip_grad_norm_(self, max_norm: float) -> float:
        """As `Workers`; the others scale by the same factor."""
        before = self._loose()
        norm = super().clip_grad_norm_(max_norm)
        factor = clip_factor(norm, max_norm)
        if factor < 1.0 and not before:
            self._run(lambda: None, [("scale", list(self._known), factor)] * (self.count - 1))
            self._known_at = writes.clock[0]
        return norm

    def step(self, optimizer: Optimizer) -> None:
        """`optimizer.step()`, made by all ranks if it is the one they were made with."""
        if optimizer is not self._optimizer or self.count == 1:
            optimizer.step()
            return
        moving = {self._number[id(p)] for p, _ in optimizer.check() if id(p) in self._number}
        self._send_weights()
        loose = [i for i in self._loose() if i in moving]
        options = [
            {name: value for name, value in group.items() if name != "params"}
            for group in optimizer.param_groups
        ]
        now = self._remembered()
        state = None if self._same(now) else optimizer.state_dict()
        job = ("step", options, state, loose)

        def mine() -> None:
            self._here.step(options, None, loose)
            optimizer.step()

        self._run(mine, [job] * (self.count - 1))
        self._state = self._remembered()
        self._weights = [p._data for p in self._own]
        self._weights_at = writes.clock[0]

    def _remembered(self) -> list[Any]:
        """The arrays that the optimizer keeps, by which it is seen whether others took their
        place.
        """
        assert self._optimizer is not None
        kept = self._optimizer.state
        return [a for p in self._own for a in kept.get(p, {}).values() if hasattr(a, "dtype")]

    def _same(self, now: list[Any]) -> bool:
        before = self._state
        return (
            before is not None
            and len(now) == len(before)
            and all(a is b for a, b in zip(now, before, strict=True))
        )

    def _loose(self) -> list[int]:
        """Numbers of parameters whose gradient is not the sum that all ranks have."""
        found = []
        for i, parameter in enumerate(self._own):
            array = grad_array(parameter)
            if array is not None and (
                array is not self._known.get(i) or writes.last(array) > self._known_at
            ):
                found.append(i)
        return found

    def _send_weights(self) -> None:
        """Send weights that were changed here since the others had them."""
        changed = [
            i for i, (p, before) in enumerate(zip(self._own, self._weights, strict=True))
            if p._data is not before or writes.last(p._data) > self._weights_at
        ]  # fmt: skip
        if changed and self.count > 1:
            job = ("weights", changed)
            self._run(lambda: self._here.weights(changed), [job] * (self.count - 1))
        self._weights = [p._data for p in self._own]
        self._weights_at = writes.clock[0]

    def _gradients(
        self, loss_of: Callable[..., Tensor], parts: Sequence[Part], shares: Sequence[Share]
    ) -> list[tuple[float, Gradients]]:
        self._send_weights()
        setting = Setting.of(self._modules, self._own) if self.count > 1 else None
        kept = [p._grad is not None for p in self._own]
        missing = self.count - len(parts)
        every: list[Any] = [*parts, *[None] * missing]
        weights: list[Any] = [*shares, *[None] * missing]
        jobs = [
            ("gradient", setting, kept, loss_of, part, share)
            for part, share in zip(every[1:], weights[1:], strict=True)
        ]
        found = self._run(
            lambda: self._here.gradient(None, kept, loss_of, every[0], weights[0]), jobs
        )
        loss, sums = found[0]
        self._known = {i: array for i, array in sums.items() if not kept[i]}
        self._known_at = writes.clock[0]
        return [(loss, [])]

    def _sum(self, made: Sequence[Gradients]) -> None:
        """All is summed by now."""

    def _each(self, function: Callable[..., Any], parts: Sequence[Arguments]) -> list[Any]:
        self._send_weights()
        setting = Setting.of(self._modules, self._own) if len(parts) > 1 else None
        jobs = [("call", setting, function, part) for part in parts[1:]]
        return self._run(lambda: function(self.model, *parts[0]), jobs)

    def _run(self, mine: Callable[[], Any], jobs: Sequence[Any]) -> list[Any]:
        """`mine()` here while the others do their jobs; the results in order."""
        link = self._link
        if link.broken:
            raise WorkerError("a worker was given up before; this job cannot go on")
        setting = (modes.current(), np.geterr())
        messages = [packed((setting, job)) for job in jobs]
        results: list[tuple[bool, Any]] = []
        ended = False
        try:
            for rank, message in enumerate(messages, 1):
                link.send(message, rank, JOB)
            try:
                results.append((True, mine()))
            except Exception as error:
                if link.broken:
                    raise
                results.append((False, error))
            for rank in range(1, len(messages) + 1):
                answer = link.receive(rank, ANSWER, f"{jobs[rank - 1][0]}")
                results.append(pickle.loads(answer))  # noqa: S301 - another rank of this job
            ended = True
        finally:
            # Interrupted in the middle, as by a second Ctrl-C: nobody can tell what is whose.
            link.broken = link.broken or not ended
        for succeeded, result in results:
            if not succeeded:
                raise result
        return [result for _, result in results]


def serve_mpi(link: Link) -> None:
    """Work for rank 0 until it ends; on every other rank.

    Raises:
        WorkerError: rank 0, or another rank, does not take part any more.
    """
    for number in (signal.SIGINT, signal.SIGTERM):  # rank 0 hears them, and finishes its step
        signal.signal(number, signal.SIG_IGN)
    # Whoever is late shall be named by rank 0, which has to give up first.
    link.patience *= 2
    member: Member | None = None
    while (message := link.receive(0, JOB, "the next job", math.inf)) != END:
        if message == CLOSE:
            member = None
            continue
        if member is None:
            model, optimizer = pickle.loads(message)  # noqa: S301 - rank 0 of this job
            member = Member.of(link, model, optimizer)
            link.send(b"", 0, ANSWER)
            continue
        answer = answer_to(message, member)
        if link.broken:
            raise pickle.loads(answer)[1]  # noqa: S301 - made here
        link.send(answer, 0, ANSWER)
