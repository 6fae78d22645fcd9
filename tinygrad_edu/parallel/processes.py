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
import multiprocessing
import pickle
import select
import sys
import warnings
import weakref
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from tinygrad_edu.autograd import Tensor, modes, writes
from tinygrad_edu.autograd.tensor import grad_array
from tinygrad_edu.nn import Module
from tinygrad_edu.optim import Optimizer
from tinygrad_edu.optim.clip import clip_factor, joint_norm, norm_of, scale_grads
from tinygrad_edu.parallel.memory import shared_memory
from tinygrad_edu.parallel.worker_process import (
    END,
    Inside,
    Updates,
    add_up,
    apply_updates,
    heard,
    packed,
    serve,
)
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
        self._memory = shared_memory(self._own, workers, self._groups(optimizer))
        self._owner = {i: w for w, some in enumerate(self._memory.shard) for i in some}
        self._place()
        self._pipes: list[Connection] = []
        self._processes: list[Any] = []
        # Also where nobody closes it: a pipe that ends, ends its worker.
        self._end = weakref.finalize(self, _end, self._pipes, self._processes)
        for worker in range(1, workers):
            here, there = multiprocessing.Pipe()
            _open.add(here)
            inside = Inside(worker, model, self._own, optimizer, self._memory)
            process = multiprocessing.get_context("fork").Process(
                target=serve, args=(there, list(_open), inside), daemon=True
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
        shares: list[dict[int, Any]] = [{} for _ in self._memory.shard]  # factors by parameter
        loose: list[Any] = []
        for parameter, group in moving:
            i = self._number.get(id(parameter), -1)
            factors, arrays = optimizer.prepare(parameter, group)
            if i >= 0 and arrays[1] is self._memory.total[i] and self._lent(
                i, optimizer.state[parameter]
            ):
                shares[self._owner[i]][i] = factors
            else:
                loose.append((factors, arrays))
        mine, *theirs = [self._updates(worker, share) for worker, share in enumerate(shares)]

        def move() -> None:
            apply_updates(optimizer, self._memory, mine)
            for factors, arrays in loose:
                optimizer.apply_update(factors, arrays)

        self._run(move, [("update", updates) for updates in theirs])
        for parameter, _ in moving:
            parameter._written()

    def _updates(self, worker: int, factors: dict[int, Any]) -> Updates:
        """A worker's share, by stretches where all of one is moved, and alike."""
        found = Updates()
        for number, stretch in enumerate(self._memory.stretches):
            if stretch.worker != worker:
                continue
            first = factors.get(stretch.numbers[0])
            if first is not None and all(factors.get(i) == first for i in stretch.numbers):
                found.stretches.append((number, first))
            else:
                found.single += [(i, factors[i]) for i in stretch.numbers if i in factors]
        return found

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

    def _groups(self, optimizer: Optimizer | None) -> list[tuple[list[int], Sequence[str]]]:
        """The optimizer's groups, as `shared_memory` wants them."""
        groups = optimizer.param_groups if optimizer else []
        return [
            ([self._number[id(p)] for p in group["params"] if id(p) in self._number],
             optimizer.slots_of(group) if optimizer else ())
            for group in groups
        ]  # fmt: skip

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
        self, loss_of: Callable[..., Tensor], parts: Sequence[Part], shares: Sequence[Share]
    ) -> list[tuple[float, Gradients]]:
        for i, total in self._memory.total.items():  # it is about to be written over
            if grad_array(self._own[i]) is total:
                self._own[i]._grad = total.copy()
        setting = self._setting(parts)
        theirs = [
            ("gradient", setting, loss_of, part, share)
            for part, share in zip(parts[1:], shares[1:], strict=True)
        ]
        return self._run(lambda: self._first(loss_of, parts[0], shares[0]), theirs)

    def _first(self, loss_of: Callable[..., Tensor], part: Part, share: Share) -> Any:
        """The caller's own part, its gradients of others' shards sent, as the others do."""
        loss, gradients = part_gradient(self.model, self._own, loss_of, part, share)
        for shard in self._memory.shard[1:]:
            for i in shard:
                if gradients[i] is not None:
                    self._memory.total[i][...] = gradients[i]
        return loss, gradients

    def _sum(self, made: Sequence[Gradients]) -> None:
        """As `Workers`; made[1:] say which gradients there are, and the workers have them."""
        if len(made) == self.count > 1 and all(
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
                np.add(first[i], memory.sent[0][i], out=memory.total[i])
                add_up(memory.total[i], [sent[i] for sent in memory.sent[1:]])

        self._run(mine, [("add",)] * (self.count - 1))
        for i, parameter in enumerate(self._own):
            parameter._grad = memory.total[i]

    def _fetched(self, there: Sequence[list[bool]]) -> list[Gradients]:
        """The other workers' gradients, in memory of our own."""
        self._run(lambda: None, [("hand_over",)] * len(there))
        total = self._memory.total
        return [
            [(sent[i] if i in sent else total[i]).copy() if here else None
             for i, here in enumerate(flags)]
            for sent, flags in zip(self._memory.sent, there, strict=False)
        ]  # fmt: skip

    def _each(self, function: Callable[..., Any], parts: Sequence[Arguments]) -> list[Any]:
        setting = self._setting(parts)
        theirs = [("call", setting, function, part) for part in parts[1:]]
        return self._run(lambda: function(self.model, *parts[0]), theirs)

    def _setting(self, parts: Sequence[Part]) -> Setting | None:
        return Setting.of(self._modules, self._own) if len(parts) > 1 else None

    def _run(self, mine: Callable[[], Any], theirs: Sequence[Any]) -> list[Any]:
        """`mine()` here while the others do `theirs`; the results in order."""
        self._place()
        setting = (modes.current(), np.geterr())
        results: list[tuple[bool, Any]] = []
        messages = [packed((setting, job)) for job in theirs]
        heard_all = False
        try:
            for worker, message in enumerate(messages):
                self._send(worker, message)
            try:
                results.append((True, mine()))
            except Exception as error:  # noqa: BLE001 - raised again below, once all have ended
                results.append((False, error))
            finally:  # also at Ctrl-C: an answer left in its pipe would be taken for the next one
                results += [self._receive(worker) for worker in range(len(theirs))]
                heard_all = True
        finally:
            if not heard_all:  # interrupted in the middle: no later call can know what is whose
                self._end()
        for succeeded, result in results:
            if not succeeded:
                raise result
        return [result for _, result in results]

    def _place(self) -> None:
        """Move parameters whose array is not the shared one there."""
        for i, parameter in enumerate(self._own):
            shared = self._memory.weights[i]
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
            answer: tuple[bool, Any] = pickle.loads(heard(self._pipes[worker]))  # noqa: S301
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


# The caller's ends of all pipes: a process that is forked later must not keep them open.
_open: weakref.WeakSet[Connection] = weakref.WeakSet()


def _end(pipes: list[Connection], processes: list[Any]) -> None:
    """Close the pipes, and wait for the processes that this ends.

    A process that was forked meanwhile may hold a pipe open, so each worker is told, too.
    """
    for pipe in pipes:
        with contextlib.suppress(OSError):
            if select.select([], [pipe], [], 0)[1]:
                pipe.send_bytes(END)
        pipe.close()
    for process in processes:
        process.join(5)
        if process.is_alive():
            process.kill()
            process.join()
