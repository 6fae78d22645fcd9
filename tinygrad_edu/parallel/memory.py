"""The memory that the processes of `ProcessBackward` share, and which of them has what to do."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinygrad_edu.autograd import Tensor

Arrays = dict[int, Any]
"""Arrays by the number of their parameter."""


@dataclass
class Stretch:
    """Parameters that lie side by side, so that one update moves all: one worker's, of one group
    of the optimizer and one dtype.

    Attributes:
        numbers: of the parameters.
        worker: who moves them.
        weights, total: all their weights, and gradients, as one flat array each.
        slots: what the optimizer keeps for them, likewise, by name.
    """

    numbers: list[int]
    worker: int
    weights: Any
    total: Any
    slots: dict[str, Any]


@dataclass
class SharedMemory:
    """What the processes see in common; each worker has a shard of the parameters to itself.

    Attributes:
        weights: of each parameter.
        shard: of each worker, the numbers of the parameters that it sums and moves.
        sent: of each worker but the first, its gradients of the parameters in others' shards.
        total: the summed gradients; in shards of other workers, first what the first one sends.
        slots: of each parameter, what the optimizer keeps, by name.
        stretches: the same weights, gradients and slots as long arrays.
    """

    weights: Arrays
    shard: list[list[int]]
    sent: list[Arrays]
    total: Arrays
    slots: dict[int, dict[str, Any]]
    stretches: list[Stretch]


def shared_memory(
    parameters: Sequence[Tensor], workers: int, groups: Sequence[tuple[list[int], Sequence[str]]]
) -> SharedMemory:
    """Memory for these parameters; `groups` are numbers of those that are moved alike, and the
    names of what is kept for each.
    """
    shard = shards(parameters, workers)
    found = SharedMemory({}, shard, [], {}, {}, [])
    for some in shard[1:]:
        others = [i for i in range(len(parameters)) if i not in some]
        found.sent.append(side_by_side(parameters, others)[1])
    grouped = {i for numbers, _ in groups for i in numbers}
    rest = [i for i in range(len(parameters)) if i not in grouped]
    for numbers, names in [*groups, (rest, ())]:
        for worker, some in enumerate(shard):
            for dtype in {parameters[i]._data.dtype for i in numbers}:
                _add_stretch(found, parameters, worker, names, [
                    i for i in numbers if i in some and parameters[i]._data.dtype == dtype
                ])  # fmt: skip
    return found


def _add_stretch(
    memory: SharedMemory,
    parameters: Sequence[Tensor],
    worker: int,
    names: Sequence[str],
    numbers: list[int],
) -> None:
    if not numbers:
        return
    weights, each_weight = side_by_side(parameters, numbers)
    total, each_total = side_by_side(parameters, numbers)
    memory.weights |= each_weight
    memory.total |= each_total
    kept = {name: side_by_side(parameters, numbers) for name in names}
    for i in numbers:
        memory.slots[i] = {name: each[i] for name, (_, each) in kept.items()}
    flat = {name: whole for name, (whole, _) in kept.items()}
    memory.stretches.append(Stretch(numbers, worker, weights, total, flat))


def side_by_side(parameters: Sequence[Tensor], numbers: Sequence[int]) -> tuple[Any, Arrays]:
    """Zeros like the parameters of these numbers, in memory that forked processes share: all in one
    flat array (of the first one's dtype), and each by itself.

    Each is a view of a buffer and of no other array, so that the write clock takes it for a block
    of its own.
    """
    arrays = {i: parameters[i]._data for i in numbers}
    memory = mmap.mmap(-1, max(1, sum(array.nbytes for array in arrays.values())))
    made, start = {}, 0
    for i, array in arrays.items():
        made[i] = np.frombuffer(memory, array.dtype, array.size, start).reshape(array.shape)
        start += array.nbytes
    dtype = next((array.dtype for array in arrays.values()), np.dtype(np.uint8))
    return np.frombuffer(memory, dtype, start // dtype.itemsize), made


def shards(parameters: Sequence[Tensor], workers: int) -> list[list[int]]:
    """Numbers of parameters by worker, of about the same size in all: the largest go first."""
    shards: list[list[int]] = [[] for _ in range(workers)]
    sizes = [0] * workers
    for i in sorted(range(len(parameters)), key=lambda i: -parameters[i].size):
        least = sizes.index(min(sizes))
        shards[least].append(i)
        sizes[least] += parameters[i].size
    return shards
