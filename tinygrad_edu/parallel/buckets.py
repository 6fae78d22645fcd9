"""Gradients on their way to a sum over all workers, while the backward pass makes the next ones.

A backward pass ends at the first layer and begins at the last one, whose gradients are ready long
before. Parameters are therefore gathered from the last to the first into buckets that lie in one
stretch of memory each, and a bucket is sent as soon as all its gradients are there (Li et al. 2020,
"PyTorch Distributed"). Every worker sends the same buckets in the same order, whatever order its
gradients came in: a sum over processes is matched by its place in that order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tinygrad_edu.autograd import Tensor
from tinygrad_edu.backend import namespace_of

__all__ = ["BUCKET_BYTES", "Bucket", "Buckets"]

BUCKET_BYTES = 1 << 20
"""A bucket's size, unless one parameter alone is larger."""


@dataclass
class Bucket:
    """Parameters whose gradients travel together.

    Attributes:
        numbers: of the parameters.
        memory: all gradients as one flat array.
        views: each parameter's part of it, in the parameter's shape.
        missing: numbers of those whose gradient has not come yet.
    """

    numbers: list[int]
    memory: Any
    views: dict[int, Any]
    missing: set[int] = field(default_factory=set)


class Buckets:
    """The buckets of some parameters.

    Args:
        parameters: of the model, in its order.
        begin_sum: starts the sum of an array over all workers, in place, and returns what
            `go_on` is asked with.
        go_on: called after each gradient, with the sums under way: MPI works while it is asked.
        size: bytes of a bucket.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        begin_sum: Callable[[Any], Any],
        go_on: Callable[[list[Any]], None],
        size: int = BUCKET_BYTES,
    ) -> None:
        self._begin_sum = begin_sum
        self._go_on = go_on
        self._tracked = tuple(p.requires_grad for p in parameters)
        self._parameters = list(parameters)
        self.buckets = [self._made(numbers) for numbers in self._cut(size)]
        self._bucket_of = {i: bucket for bucket in self.buckets for i in bucket.numbers}
        self.under_way: list[Any] = []
        self.came: set[int] = set()
        self._sent = 0

    def fits(self, parameters: Sequence[Tensor]) -> bool:
        """Whether these are the buckets of the parameters as they are now."""
        return self._tracked == tuple(p.requires_grad for p in parameters) and all(
            view.shape == parameters[i].shape and view.dtype == parameters[i]._data.dtype
            for bucket in self.buckets
            for i, view in bucket.views.items()
        )

    def _cut(self, size: int) -> list[list[int]]:
        found: list[list[int]] = []
        filled, dtype = size, None
        for i in reversed(range(len(self._parameters))):
            data = self._parameters[i]._data
            if not self._tracked[i]:
                continue
            if filled + data.nbytes > size or data.dtype != dtype:
                found.append([])
                filled, dtype = 0, data.dtype
            found[-1].append(i)
            filled += data.nbytes
        return found

    def _made(self, numbers: list[int]) -> Bucket:
        arrays = [self._parameters[i]._data for i in numbers]
        memory = namespace_of(arrays[0]).empty(sum(a.size for a in arrays), dtype=arrays[0].dtype)
        views, start = {}, 0
        for i, array in zip(numbers, arrays, strict=True):
            views[i] = memory[start : start + array.size].reshape(array.shape)
            start += array.size
        return Bucket(numbers, memory, views)

    def begin(self) -> None:
        """Before a backward pass: no gradient has come."""
        self.under_way, self.came, self._sent = [], set(), 0
        for bucket in self.buckets:
            bucket.missing = set(bucket.numbers)

    def arrived(self, number: int, gradient: Any) -> None:
        """A parameter's gradient is there: into its bucket, and off with what is full."""
        bucket = self._bucket_of[number]
        bucket.views[number][...] = gradient
        bucket.missing.discard(number)
        self.came.add(number)
        while self._sent < len(self.buckets) and not self.buckets[self._sent].missing:
            self._send_next()
        self._go_on(self.under_way)

    def send_rest(self) -> None:
        """After a backward pass: what got no gradient is 0, and all that is left is sent."""
        while self._sent < len(self.buckets):
            bucket = self.buckets[self._sent]
            for i in bucket.missing:
                bucket.views[i][...] = 0
            self._send_next()

    def _send_next(self) -> None:
        self.under_way.append(self._begin_sum(self.buckets[self._sent].memory))
        self._sent += 1

    def sums(self) -> dict[int, Any]:
        """Of each parameter, its place in a bucket, where the sum is once it has been made."""
        return {i: view for bucket in self.buckets for i, view in bucket.views.items()}
