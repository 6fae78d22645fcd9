"""The memory that the processes of `ProcessBackward` share, and which of them has what to do."""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinygrad_edu.autograd import Tensor

_ALIGNED = 64
"""Bytes; arrays in shared memory begin at multiples, as NumPy's kernels like it."""

Arrays = dict[int, Any]
"""Arrays by the number of their parameter."""


@dataclass
class SharedMemory:
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


def shared_arrays(parameters: Sequence[Tensor], numbers: Iterable[int]) -> Arrays:
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


def shards(parameters: Sequence[Tensor], workers: int) -> list[list[int]]:
    """Numbers of parameters by worker, of about the same size in all: the largest go first."""
    shards: list[list[int]] = [[] for _ in range(workers)]
    sizes = [0] * workers
    for i in sorted(range(len(parameters)), key=lambda i: -parameters[i].size):
        least = sizes.index(min(sizes))
        shards[least].append(i)
        sizes[least] += parameters[i].size
    return shards
