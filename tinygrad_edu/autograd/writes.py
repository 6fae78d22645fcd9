"""When memory was last written to, so that a changed number is an error and not a wrong gradient.

A clock counts the writes that tensors announce (`t.data = …`, `t.data -= …`, an optimizer's step).
A
node notes the clock when it is made; if the clock has not moved since, nothing has changed, and
that
one comparison is all a usual backward pass pays. A write belongs to the memory and not to a tensor:
it is kept by the array that owns the memory, so views and tensors that share an array see it too.
"""

from __future__ import annotations

import weakref
from typing import Any

Array = Any

clock = [0]


class _Write:
    __slots__ = ("owner", "time")

    def __init__(self, owner: Any, time: int) -> None:
        self.owner = owner
        self.time = time


_writes: dict[int, _Write] = {}


def _owner(array: Array) -> Array:
    """The array whose memory `array` is a view of, or itself."""
    base = getattr(array, "base", None)
    while base is not None and hasattr(base, "dtype"):
        array, base = base, base.base
    return array


def note(array: Array) -> None:
    """The numbers of `array` have been overwritten."""
    clock[0] += 1
    owner = _owner(array)
    key = id(owner)
    known = _writes.get(key)
    if known is None:
        gone = weakref.ref(owner, lambda _: _writes.pop(key, None))
        _writes[key] = _Write(gone, clock[0])
    else:
        known.time = clock[0]


def last(array: Array) -> int:
    """The time of the last write to the memory of `array`; 0 if there was none."""
    known = _writes.get(id(_owner(array)))
    return 0 if known is None else known.time
