"""What runs in the other processes of `ProcessBackward`, and how it is told what to do."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from tinygrad_edu.autograd import Tensor
from tinygrad_edu.nn import Module
from tinygrad_edu.optim import Optimizer
from tinygrad_edu.optim.clip import norm_of
from tinygrad_edu.parallel.memory import SharedMemory
from tinygrad_edu.parallel.workers import (
    Arguments,
    Gradients,
    Part,
    Setting,
    Share,
    WorkerError,
    part_gradient,
)

END = b"end"
"""What tells a worker to end."""
_LOOKING = 2e-3
"""Seconds; about as long as a worker waits for the next message within a step."""


def add_up(total: Any, others: Iterable[Any]) -> None:
    """Add the others to `total`, in their order and in place."""
    for other in others:
        total += other


def packed(message: Any) -> bytes:
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


def unpacked(message: bytes) -> Any:
    """What `packed` packed, or an error in words where this process does not know a name in it."""
    try:
        return pickle.loads(message)  # noqa: S301 - the caller packed it, a moment ago
    except AttributeError as error:
        raise WorkerError(
            f"a worker process does not know what it was given ({error}): it has the program as it "
            "was when the workers were made; define the function before"
        ) from error


@dataclass
class Updates:
    """What a worker is to move: numbers of stretches, or of parameters, each with its factors."""

    stretches: list[tuple[int, Any]] = field(default_factory=list)
    single: list[tuple[int, Any]] = field(default_factory=list)


@dataclass
class Inside:
    """What a worker's process has of its own, as it was when it was forked."""

    worker: int
    model: Module
    parameters: Sequence[Tensor]
    optimizer: Optimizer | None
    memory: SharedMemory
    kept: Gradients = field(default_factory=list)

    def __post_init__(self) -> None:
        self.modules = list(self.model.modules())

    def gradient(
        self, setting: Setting, loss_of: Callable[..., Tensor], part: Part, share: Share
    ) -> Any:
        """(share · loss, which parameters got a gradient); those of others' shards are sent."""
        setting.apply(self.worker, self.modules, self.parameters)
        loss, self.kept = part_gradient(self.model, self.parameters, loss_of, part, share)
        for i, sent in self.memory.sent[self.worker - 1].items():
            if self.kept[i] is not None:
                sent[...] = self.kept[i]
        return loss, [gradient is not None for gradient in self.kept]

    def add(self) -> None:
        """Sum the gradients of this shard in the workers' order; the first one's are there."""
        for i in self.memory.shard[self.worker]:
            arrived = [sent[i] if i in sent else self.kept[i] for sent in self.memory.sent]
            add_up(self.memory.total[i], arrived)
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

    def call(self, setting: Setting, function: Callable[..., Any], part: Arguments) -> Any:
        """What the function gives for the part."""
        setting.apply(self.worker, self.modules, self.parameters)
        return function(self.model, *part)

    def update(self, updates: Updates) -> None:
        """Move parameters of this shard."""
        assert self.optimizer is not None
        apply_updates(self.optimizer, self.memory, updates)


def apply_updates(optimizer: Optimizer, memory: SharedMemory, updates: Updates) -> None:
    """Move stretches and single parameters by the factors given for each."""
    for number, factors in updates.stretches:
        stretch = memory.stretches[number]
        slots = stretch.slots.values()
        optimizer.apply_update(factors, [stretch.weights, stretch.total, *slots])
    for i, factors in updates.single:
        slots = memory.slots[i].values()
        optimizer.apply_update(factors, [memory.weights[i], memory.total[i], *slots])


def heard(pipe: Connection) -> bytes:
    """What arrives next. A core that sleeps wakes slowly, so a short while is spent looking."""
    look = select.poll()
    look.register(pipe.fileno(), select.POLLIN)
    deadline = time.perf_counter() + _LOOKING
    while not look.poll(0) and time.perf_counter() < deadline:
        os.sched_yield()
    return pipe.recv_bytes()


def serve(pipe: Connection, parents: Sequence[Connection], inside: Inside) -> None:
    """Do what arrives, until nothing can arrive any more; `parents` are the caller's ends of this
    pipe and of earlier ones, which this process would keep open.
    """
    for end in parents:
        end.close()
    for number in (signal.SIGINT, signal.SIGTERM):  # the caller hears them, and finishes its step
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(EOFError, OSError):
        while True:
            message = heard(pipe)
            if message == END:
                return
            pipe.send_bytes(answer_to(message, inside))


def answer_to(message: bytes, inside: Any) -> bytes:
    """Do what a message says, by `inside`'s method of that name: (True, result), or (False, error),
    for the caller to raise.
    """
    try:
        (mode, numpy_warnings), (what, *arguments) = unpacked(message)
        with mode, np.errstate(**numpy_warnings):
            answer = True, getattr(inside, what)(*arguments)
    except Exception as error:  # noqa: BLE001 - the caller raises it
        answer = False, _portable(error)
    try:
        return packed(answer)
    except WorkerError as error:
        return packed((False, WorkerError(f"a result cannot be sent back: {error}")))


def _portable(error: Exception) -> Exception:
    """The error as it will arrive; one that cannot be sent is told in words."""
    said = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - made on this line
    except Exception:  # noqa: BLE001 - whatever is wrong with it, it shall be reported
        error = WorkerError(f"{type(error).__name__}: {error}")
    error.add_note("In another worker process:\n" + said)
    return error
