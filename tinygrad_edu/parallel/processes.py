"""A batch split over processes that share the weights' memory.

Two threads hand Python's lock to each other at every NumPy call; two processes have a lock each.
The first worker is the caller itself. The others are forked from it, so that they have model and
optimizer without their being sent; weights, gradients and the optimizer's averages stand in memory
that all of them see, and what travels through a pipe is the part of a batch and its loss.

Forking needs a POSIX system, and only Linux does it safely where libraries have started threads
(macOS's own do not survive it): `can_fork` says whether it is one. A worker ends when its pipe
does, so none outlives the process that made it, however that ends.
"""

from __future__ import annotations

import contextlib
import io
import math
import mmap
import multiprocessing
import os
import pickle
import select
import signal
import sys
import time
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from tinygrad_edu.autograd import Tensor, modes, writes
from tinygrad_edu.autograd.tensor import grad_array
from tinygrad_edu.nn import Module
from tinygrad_edu.optim import Optimizer
from tinygrad_edu.optim.clip import clip_factor, joint_norm, norm_of, scale_grads
from tinygrad_edu.parallel.workers import (
    Gradients,
    M,
    Part,
    WorkerError,
    Workers,
    part_gradient,
)

_ALIGNED = 64
"""Bytes; arrays in shared memory begin at multiples, as NumPy's kernels like it."""

_LOOKING = 2e-3
"""Seconds; about as long as a worker waits for the next message within a step."""

Arrays = dict[int, Any]
"""Arrays by the number of their parameter."""


def can_fork(model: Module) -> bool:
    """Whether processes can share this model: on Linux, its parameters in arrays of their own in
    the CPU's memory, and not from a process that may have no children itself.
    """
    arrays = [p._data for p in model.parameters()]
    return (
        sys.platform.startswith("linux")
        and all(array.__class__ is np.ndarray for array in arrays)
        and len({array.ctypes.data for array in arrays if array.size}) == len(arrays)
        and not multiprocessing.current_process().daemon
    )


@dataclass
class _Memory:
    """What the processes see in common; each worker has a shard of the parameters to itself.

    Attributes:
        weights: of each parameter.
        shard: of each worker, the numbers of the parameters that it sums and moves.
        sent: of each worker but the first, its gradients of the parameters in others' shards.
        total: the gradients of the parameters in shards of other workers than the first: what the
            first sends, to which they add theirs.
        slots: of the same parameters, what the optimizer keeps.
    """

    weights: list[Any]
    shard: list[list[int]]
    sent: list[Arrays]
    total: Arrays
    slots: dict[int, dict[str, Any]]


class ProcessBackward(Workers[M]):
    """Workers that are this process and others forked from it; see `Workers`.

    The model's parameters move into shared memory for good. Those that are assigned (`p.data = …`)
    rather than written are copied back into it at the next call. Changes to the model that are no
    numbers of its parameters do not reach the other processes. The array of a gradient may be one
    that they share, too: `p.grad` stays right, but an array taken from it is written over by the
    next call.

    Args:
        model, workers: as for `Workers`.
        optimizer: whose `step` the workers share, each moving some of the parameters; what it keeps
            for them moves into shared memory too. Without one all is moved by the caller.

    Raises:
        WorkerError: where `can_fork` says no; at a call whose function cannot be sent to another
            process; when a process has ended by itself or was killed, with its exit code.
    """

    kind = "processes"

    def __init__(self, model: M, workers: int, optimizer: Optimizer | None = None) -> None:
        super().__init__(model, workers)
        if not can_fork(model):
            raise WorkerError(
                "processes can share a model on Linux, its parameters in arrays of their own in "
                "the CPU's memory, and not from a daemon process; use ThreadedBackward"
            )
        self._optimizer = optimizer
        self._number = {id(p): i for i, p in enumerate(self._own)}
        self._memory = self._shared_memory(optimizer)
        self._place()
        self._pipes: list[Connection] = []
        self._processes: list[Any] = []
        # Also where nobody closes it: a pipe that ends, ends its worker.
        self._end = weakref.finalize(self, _end, self._pipes, self._processes)
        for worker in range(1, workers):
            here, there = multiprocessing.Pipe()
            inside = _Inside(worker, model, self._own, optimizer, self._memory)
            process = multiprocessing.get_context("fork").Process(
                target=_serve, args=(there, here, inside), daemon=True
            )
            with warnings.catch_warnings():
                # Python 3.12 warns of any thread, such as BLAS' idle ones, which survive a fork.
                warnings.filterwarnings("ignore", "This process .* is multi-threaded")
                process.start()
            there.close()
            self._pipes.append(here)
            self._processes.append(process)

    def close(self) -> None:
        """End the other processes."""
        self._end()

    def clip_grad_norm_(self, max_norm: float) -> float:
        """As `Workers`; each worker measures and scales what it summed."""
        mine, theirs = self._by_owner()
        found = self._run(
            lambda: [(i, norm_of(grad_array(self._own[i]))) for i in mine],
            [("norms", numbers) for numbers in theirs],
        )
        norm = joint_norm([norm for _, norm in sorted(pair for some in found for pair in some)])
        factor = clip_factor(norm, max_norm)
        if factor < 1.0:
            self._run(
                lambda: scale_grads([self._own[i] for i in mine], factor),
                [("scale", numbers, factor) for numbers in theirs],
            )
            self._written(theirs)
        return norm

    def step(self, optimizer: Optimizer) -> None:
        """`optimizer.step()`, shared by the workers if it is the one they were made with."""
        if optimizer is not self._optimizer or self.count == 1:
            optimizer.step()
            return
        moving = optimizer.check()
        self._place()
        _, shards = self._by_owner()
        worker_of = {i: worker for worker, shard in enumerate(shards) for i in shard}
        mine: list[Any] = []
        theirs: list[list[Any]] = [[] for _ in shards]
        for parameter, group in moving:
            i = self._number.get(id(parameter), -1)
            factors, arrays = optimizer.prepare(parameter, group)
            if i in worker_of and self._lent(i, optimizer.state[parameter]):
                theirs[worker_of[i]].append((i, factors))
            else:
                mine.append((factors, arrays))

        def move() -> None:
            for factors, arrays in mine:
                optimizer.apply_update(factors, arrays)

        self._run(move, [("update", updates) for updates in theirs])
        for parameter, _ in moving:
            parameter._written()

    def _by_owner(self) -> tuple[list[int], list[list[int]]]:
        """The parameters with a gradient: those that the caller sees to, and each other worker's.

        A worker sees to those of its shard whose gradient stands where that worker left it.
        """
        theirs = [
            [i for i in shard if grad_array(self._own[i]) is self._memory.total[i]]
            for shard in self._memory.shard[1:]
        ]
        taken = {i for shard in theirs for i in shard}
        have = [i for i, p in enumerate(self._own) if p._grad is not None]
        return [i for i in have if i not in taken], theirs

    def _written(self, shards: Sequence[Sequence[int]]) -> None:
        for i in (i for shard in shards for i in shard):
            writes.note(self._memory.total[i])

    def _shared_memory(self, optimizer: Optimizer | None) -> _Memory:
        own = self._own
        shard = _shards(own, self.count)
        everyone = range(len(own))
        total = _shared_arrays(own, [i for some in shard[1:] for i in some])
        sent = [
            _shared_arrays(own, [i for i in everyone if i not in some]) for some in shard[1:]
        ]
        slots: dict[int, dict[str, Any]] = {}
        for group in optimizer.param_groups if optimizer else ():
            names = optimizer.slots_of(group) if optimizer else ()
            for parameter in group["params"]:
                i = self._number.get(id(parameter), -1)
                if i in total:
                    slots[i] = {name: _shared_arrays(own, [i])[i] for name in names}
        weights = _shared_arrays(own, everyone)
        return _Memory([weights[i] for i in everyone], shard, sent, total, slots)

    def _lent(self, i: int, state: dict[str, Any]) -> bool:
        """Whether another worker can do this update: what the optimizer keeps is shared by now."""
        slots = self._memory.slots.get(i)
        if slots is None or slots.keys() != state.keys() - {"step"}:
            return False
        for name, shared in slots.items():
            if state[name] is not shared:
                shared[...] = state[name]
                state[name] = shared
        return True

    def _gradients(
        self, loss_of: Callable[..., Tensor], parts: Sequence[Part], shares: Sequence[float]
    ) -> list[tuple[float, Gradients]]:
        for i, total in self._memory.total.items():  # it is about to be written over
            if grad_array(self._own[i]) is total:
                self._own[i]._grad = total.copy()
        theirs = [
            ("gradient", loss_of, part, share)
            for part, share in zip(parts[1:], shares[1:], strict=True)
        ]
        return self._run(lambda: self._first(loss_of, parts[0], shares[0]), theirs)

    def _first(self, loss_of: Callable[..., Tensor], part: Part, share: float) -> Any:
        """The caller's own part, its gradients of others' shards sent, as the others do."""
        loss, gradients = part_gradient(self.model, self._own, loss_of, part, share)
        for i, total in self._memory.total.items():
            if gradients[i] is not None:
                total[...] = gradients[i]
        return loss, gradients

    def _sum(self, made: Sequence[Gradients]) -> None:
        """As `Workers`; made[1:] say which gradients there are, and the workers have them."""
        if len(made) == self.count and all(
            p._grad is None and g is not None and all(there)
            for p, g, *there in zip(self._own, *made, strict=True)
        ):
            self._sum_by_shard(made[0])
        else:  # some are missing, or there were gradients before: summed by the caller alone
            super()._sum([made[0], *self._fetched(made[1:])])

    def _sum_by_shard(self, first: Gradients) -> None:
        memory = self._memory

        def mine() -> None:
            for i in memory.shard[0]:
                _add_up(first[i], [sent[i] for sent in memory.sent])

        self._run(mine, [("add",)] * (self.count - 1))
        for i, parameter in enumerate(self._own):
            parameter._grad = memory.total.get(i, first[i])

    def _fetched(self, there: Sequence[list[bool]]) -> list[Gradients]:
        """The other workers' gradients, in memory of our own."""
        self._run(lambda: None, [("hand_over",)] * len(there))
        total = self._memory.total
        return [
            [(sent[i] if i in sent else total[i]).copy() if here else None
             for i, here in enumerate(flags)]
            for sent, flags in zip(self._memory.sent, there, strict=False)
        ]  # fmt: skip

    def _each(self, function: Callable[..., Any], parts: Sequence[Part]) -> list[Any]:
        theirs = [("call", function, part) for part in parts[1:]]
        return self._run(lambda: function(self.model, *parts[0]), theirs)

    def _run(self, mine: Callable[[], Any], theirs: Sequence[Any]) -> list[Any]:
        """`mine()` here while the others do `theirs`; the results in order."""
        self._place()
        setting = (modes.current(), np.geterr())
        for worker, message in enumerate([_packed((setting, job)) for job in theirs]):
            self._send(worker, message)
        results: list[tuple[bool, Any]] = []
        try:
            results.append((True, mine()))
        except Exception as error:  # noqa: BLE001 - raised again below, once all have ended
            results.append((False, error))
        finally:  # also at Ctrl-C: an answer left in its pipe would be taken for the next one
            results += [self._receive(worker) for worker in range(len(theirs))]
        for succeeded, result in results:
            if not succeeded:
                raise result
        return [result for _, result in results]

    def _place(self) -> None:
        """Move parameters whose array is not the shared one there."""
        for parameter, shared in zip(self._own, self._memory.weights, strict=True):
            data = parameter._data
            if data is shared:
                continue
            if data.shape != shared.shape or data.dtype != shared.dtype:
                raise WorkerError(
                    f"{parameter.label()} was {shared.dtype} {shared.shape} when the workers began "
                    f"and is {data.dtype} {data.shape} now; make new workers for the changed model"
                )
            shared[...] = data
            parameter._data = shared

    def _send(self, worker: int, message: bytes) -> None:
        if not self._end.alive:
            raise WorkerError("the workers were closed; make new ones")
        try:
            self._pipes[worker].send_bytes(message)
        except OSError as error:
            raise self._lost(worker) from error

    def _receive(self, worker: int) -> tuple[bool, Any]:
        try:
            answer: tuple[bool, Any] = pickle.loads(_heard(self._pipes[worker]))  # noqa: S301
        except (EOFError, OSError):
            return False, self._lost(worker)
        return answer

    def _lost(self, worker: int) -> WorkerError:
        """The error for a worker that is gone; the others are ended too."""
        process = self._processes[worker]
        process.join(1)
        code = process.exitcode
        self._end()
        return WorkerError(
            f"worker {worker + 2} of {self.count} (process {process.pid}) has ended with exit code "
            f"{code}" + ("; the system ends a process so that runs out of memory" * (code == -9))
        )


def _shared_arrays(parameters: Sequence[Tensor], numbers: Iterable[int]) -> Arrays:
    """Zeros like the parameters of these numbers, in memory that forked processes share.

    Each is a view of a buffer and of no other array, so that the write clock takes it for a block
    of its own.
    """
    arrays = {i: parameters[i]._data for i in numbers}
    room = {i: math.ceil(array.nbytes / _ALIGNED) * _ALIGNED for i, array in arrays.items()}
    memory = mmap.mmap(-1, max(1, sum(room.values())))
    made, start = {}, 0
    for i, array in arrays.items():
        flat = np.frombuffer(memory, array.dtype, array.size, start)
        made[i] = flat.reshape(array.shape)
        start += room[i]
    return made


def _add_up(total: Any, others: Iterable[Any]) -> None:
    for other in others:
        total += other


def _shards(parameters: Sequence[Tensor], workers: int) -> list[list[int]]:
    """Numbers of parameters by worker, of about the same size in all: the largest go first."""
    shards: list[list[int]] = [[] for _ in range(workers)]
    sizes = [0] * workers
    for i in sorted(range(len(parameters)), key=lambda i: -parameters[i].size):
        least = sizes.index(min(sizes))
        shards[least].append(i)
        sizes[least] += parameters[i].size
    return shards


def _packed(message: Any) -> bytes:
    """`message` for a pipe, or an error in words where a function cannot be sent."""
    buffer = io.BytesIO()
    try:
        ForkingPickler(buffer, pickle.HIGHEST_PROTOCOL).dump(message)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise WorkerError(
            f"what was given cannot be sent to another process ({error}); use a function that "
            "stands at the top of a module, and arrays, or ThreadedBackward"
        ) from error
    return buffer.getvalue()


def _unpacked(message: bytes) -> Any:
    try:
        return pickle.loads(message)  # noqa: S301 - the caller packed it, a moment ago
    except AttributeError as error:
        raise WorkerError(
            f"a worker process does not know what it was given ({error}): it has the program as it "
            "was when the workers were made; define the function before"
        ) from error


# In the other processes


@dataclass
class _Inside:
    """What a worker's process has of its own, as it was when it was forked."""

    worker: int
    model: Module
    parameters: Sequence[Tensor]
    optimizer: Optimizer | None
    memory: _Memory
    kept: Gradients = field(default_factory=list)

    def gradient(self, loss_of: Callable[..., Tensor], part: Part, share: float) -> Any:
        """(share · loss, which parameters got a gradient); those of others' shards are sent."""
        loss, self.kept = part_gradient(self.model, self.parameters, loss_of, part, share)
        for i, sent in self.memory.sent[self.worker - 1].items():
            if self.kept[i] is not None:
                sent[...] = self.kept[i]
        return loss, [gradient is not None for gradient in self.kept]

    def add(self) -> None:
        """Sum the gradients of this shard in the workers' order; the first one's are there."""
        for i in self.memory.shard[self.worker]:
            arrived = [sent[i] if i in sent else self.kept[i] for sent in self.memory.sent]
            _add_up(self.memory.total[i], arrived)
        self.kept = []

    def hand_over(self) -> None:
        """Send those of this shard too."""
        for i in self.memory.shard[self.worker]:
            if self.kept[i] is not None:
                self.memory.total[i][...] = self.kept[i]
        self.kept = []

    def norms(self, numbers: list[int]) -> list[tuple[int, float]]:
        """The norms of summed gradients."""
        return [(i, norm_of(self.memory.total[i])) for i in numbers]

    def scale(self, numbers: list[int], factor: float) -> None:
        """Multiply summed gradients."""
        for i in numbers:
            self.memory.total[i] *= factor

    def call(self, function: Callable[..., Any], part: Part) -> Any:
        """What the function gives for the part."""
        return function(self.model, *part)

    def update(self, updates: list[tuple[int, Any]]) -> None:
        """Move parameters of this shard: their numbers, and the rule's for each."""
        memory = self.memory
        assert self.optimizer is not None
        for i, factors in updates:
            slots = memory.slots[i].values()
            self.optimizer.apply_update(factors, [memory.weights[i], memory.total[i], *slots])


def _heard(pipe: Connection) -> bytes:
    """What arrives next. A core that sleeps wakes slowly, so a short while is spent looking."""
    look = select.poll()
    look.register(pipe.fileno(), select.POLLIN)
    deadline = time.perf_counter() + _LOOKING
    while not look.poll(0) and time.perf_counter() < deadline:
        os.sched_yield()
    return pipe.recv_bytes()


def _serve(pipe: Connection, parent_end: Connection, inside: _Inside) -> None:
    """Do what arrives, until nothing can arrive any more."""
    parent_end.close()  # or it would keep this pipe open itself
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller hears Ctrl-C, and finishes its step
    with contextlib.suppress(EOFError, OSError):
        while True:
            message = _heard(pipe)
            try:
                (mode, numpy_warnings), (what, *arguments) = _unpacked(message)
                with mode, np.errstate(**numpy_warnings):
                    answer = True, getattr(inside, what)(*arguments)
            except Exception as error:  # noqa: BLE001 - the caller raises it
                answer = False, _portable(error)
            pipe.send(answer)


def _portable(error: Exception) -> Exception:
    """The error as it will arrive; one that cannot be sent is told in words."""
    said = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - made on this line
    except Exception:  # noqa: BLE001 - whatever is wrong with it, it shall be reported
        error = WorkerError(f"{type(error).__name__}: {error}")
    error.add_note("In another worker process:\n" + said)
    return error


def _end(pipes: list[Connection], processes: list[Any]) -> None:
    """Close the pipes, and wait for the processes that this ends."""
    for pipe in pipes:
        pipe.close()
    for process in processes:
        process.join(5)
        if process.is_alive():
            process.kill()
            process.join()
