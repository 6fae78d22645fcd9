"""The keys and values of tokens that an attention has read, kept while a text is being written.

A new token's query looks at all keys before it, which do not depend on it: where they are kept, it
costs one row of each layer instead of all of them.
"""

from __future__ import annotations

from typing import Any

from tinygrad_edu.autograd import Tensor
from tinygrad_edu.autograd.modes import is_grad_enabled
from tinygrad_edu.backend import namespace_of
from tinygrad_edu.errors import ShapeError

__all__ = ["KeyValueCache"]


class KeyValueCache:
    """Keys and values of one attention, for texts of at most `capacity` tokens.

    The memory is allocated once, with the first tokens: what `extend` returns are views of it.

    Attributes:
        capacity: tokens that there is room for.
        length: tokens kept.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.length = 0
        self._arrays: tuple[Any, ...] = ()

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Keep keys (…, T, d) and values (…, T, e) of the next T tokens; all that are kept.

        Raises:
            ShapeError: there is no room for so many.
            RuntimeError: gradients are wanted, which could not flow into what was kept.
        """
        if is_grad_enabled():
            raise RuntimeError(
                "a KeyValueCache was used where gradients are recorded; it is for writing text: "
                "call the model within tg.no_grad()"
            )
        end = self.length + keys.shape[-2]
        if end > self.capacity:
            raise ShapeError(
                f"a KeyValueCache of {self.capacity} tokens was given token {end}; truncate it, or "
                "make one with a larger capacity"
            )
        if not self._arrays:
            self._arrays = tuple(self._room(part) for part in (keys, values))
        found = []
        for array, part in zip(self._arrays, (keys, values), strict=True):
            array[..., self.length : end, :] = part.data
            found.append(Tensor(array[..., :end, :]))
        self.length = end
        return found[0], found[1]

    def _room(self, part: Tensor) -> Any:
        *lead, _, width = part.shape
        return namespace_of(part.data).empty((*lead, self.capacity, width), dtype=part.dtype)

    def truncate(self, length: int) -> None:
        """Forget all but the first `length` tokens."""
        self.length = min(self.length, length)
