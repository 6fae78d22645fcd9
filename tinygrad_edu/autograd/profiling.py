"""Where the time of a program went, operation by operation.

    with tg.profile() as p:
        loss = model.loss(x, y)
        loss.backward()
    print(p.table())

While a profile is open, every primitive's forward function and backward step is replaced by one
that looks at the clock before and after; when the last profile closes, the plain ones are put back.
So nothing is asked and nothing slower where no profile is open.

The clock divides all time from opening to closing into pieces that follow one another: operations,
and what lies between two of them. So the rows add up to the whole, and what the profiler itself
takes is kept apart.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from tinygrad_edu.autograd.functions import fused as _fused
from tinygrad_edu.autograd.modes import state
from tinygrad_edu.autograd.pull import compiled
from tinygrad_edu.errors import ProfileError
from tinygrad_edu.ops.registry import Primitive, registry

FORWARD, BACKWARD, REST = "forward", "backward", "rest"
"""Phases; every other one is the name of a `section`."""
PYTHON = "python"
"""Stands in place of a primitive for what lies between two of them."""
MASK = "dropout mask"
"""The random numbers that dropout draws before its primitive runs."""


@dataclass(frozen=True)
class Row:
    """What one primitive in one module took in one phase.

    Attributes:
        module: the path of the module that ran, such as "GPT.blocks.0.attn"; "" outside of any.
        primitive: its name in the registry, or "python" for what lies between two primitives:
            calls of modules, checks, the making of nodes, and in the backward phase the sums of
            gradients that meet and the freeing of what has been used.
        phase: "forward", "backward", "rest", or the name of a section.
        calls: how often it ran.
        seconds: in all.
        made_bytes: new memory of what it returned. In the forward phase: results and what was saved
            for the backward phase, which lives until then. In the backward phase: gradients.
    """

    module: str
    primitive: str
    phase: str
    calls: int
    seconds: float
    made_bytes: int


class Profile:
    """A record of the operations of one thread; see `tg.profile`.

    Attributes:
        own_seconds: what the profiler itself took, which is in no row.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.own_seconds = 0.0
        self._found: dict[tuple[str, str, str], list[Any]] = {}
        self._sections: list[str] = []
        self._last = 0.0
        self._pulled: str | None = None

    def __enter__(self) -> Self:
        if _active.profile is not None:
            raise ProfileError(
                "a profile was opened inside another in the same thread; close the outer one first"
            )
        _install()
        _active.profile = self
        self._pulled = None
        self._last = self.clock()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._until(self.clock(), REST, "")
        _active.profile = None
        _remove()

    @property
    def rows(self) -> list[Row]:
        """The slowest first."""
        made = [Row(*key, *found) for key, found in self._found.items()]
        return sorted(made, key=lambda row: -row.seconds)

    @property
    def seconds(self) -> float:
        """All time while the profile was open, less the profiler's own: the sum of the rows."""
        return float(sum(found[1] for found in self._found.values()))

    def section(self, name: str) -> Any:
        """Within it, what lies between operations counts to `name`, such as "data"."""
        return section(name)

    def table(self, width: int = 80) -> str:
        """The rows as text of at most `width` columns; modules that repeat, such as the blocks of a
        GPT, stand in one line.
        """
        from tinygrad_edu.autograd.profile_table import table

        return table(self.rows, self.own_seconds, width)

    # What the timed functions call.

    def _operation(
        self, start: float, stop: float, module: str, primitive: str, phase: str, made: int
    ) -> None:
        """Add one that began at `start`; what came before it belongs to the same phase.

        In the backward phase the time before a pull was spent on what the pull before it returned.
        """
        self._until(start, phase, (self._pulled or "") if phase == BACKWARD else module)
        self._pulled = module if phase == BACKWARD else None
        self._add(module, primitive, phase, stop - start, made)
        self._last = self.clock()
        self.own_seconds += self._last - stop

    def _until(self, now: float, phase: str, module: str) -> None:
        """Add what lies between the last operation and `now`."""
        if self._sections:
            phase, module = self._sections[-1], ""
        self._add(module, PYTHON, phase, now - self._last, 0)
        self._last = now

    def _add(self, module: str, primitive: str, phase: str, seconds: float, made: int) -> None:
        found = self._found.setdefault((module, primitive, phase), [0, 0.0, 0])
        found[0] += 1
        found[1] += seconds
        found[2] += made


def profile(clock: Callable[[], float] = time.perf_counter) -> Profile:
    """Time every operation of this thread within a `with` block, forward and backward.

    What other threads do meanwhile is not seen, nor slowed by more than one look. A profile may be
    opened again, and then adds up. Operations that fail count to what lies between. Under
    `create_graph=True` the backward pass is itself made of operations, and is listed as such. On a
    GPU the times are those of starting the work, unless something waits for it.

    Args:
        clock: gives seconds.

    Raises:
        ProfileError: opened while another one is open in this thread.
    """
    return Profile(clock)


@contextmanager
def section(name: str) -> Iterator[None]:
    """Within it, what lies between operations counts to `name`, if this thread is being profiled.

    Inside another section the inner name counts.
    """
    profile = _active.profile
    if profile is None:
        yield
        return
    profile._until(profile.clock(), REST, "")
    profile._sections.append(name)
    try:
        yield
    finally:
        profile._until(profile.clock(), REST, "")
        profile._sections.pop()


# Putting the timed functions in place.


class _Active(threading.local):
    profile: Profile | None = None


_active = _Active()
_lock = threading.Lock()
_open = 0  # profiles, in all threads
_plain: list[tuple[Any, str, Any]] = []  # (owner, attribute, what stood there)


def _install() -> None:
    global _open
    with _lock:
        _open += 1
        if _open > 1:
            return
        for primitive in registry.values():
            _replace(primitive, "forward", _timed_forward(primitive, primitive.forward))
            primitive.pull = compiled(primitive)  # now, so that it is in nobody's time
            _replace(primitive, "pull", _timed_pull(primitive, primitive.pull))
        _replace(_fused, "_keep", _timed_mask(_fused._keep))


def _replace(owner: Any, attribute: str, timed: Any) -> None:
    _plain.append((owner, attribute, getattr(owner, attribute)))
    setattr(owner, attribute, timed)


def _remove() -> None:
    global _open
    with _lock:
        _open -= 1
        while not _open and _plain:
            setattr(*_plain.pop())


def _timed_forward(primitive: Primitive, plain: Callable[..., Any]) -> Callable[..., Any]:
    name = primitive.name
    mask = primitive.inputs.index("keep") if "keep" in primitive.inputs else None

    def forward(F: Any, *inputs: Any, **params: Any) -> Any:
        profile = _active.profile
        if profile is None:
            return plain(F, *inputs, **params)
        start = profile.clock()
        result = plain(F, *inputs, **params)
        stop = profile.clock()
        made = new_bytes(result, inputs)
        if mask is not None and inputs[mask] is not None:
            made += inputs[mask].nbytes  # drawn for this node alone
        profile._operation(start, stop, state.module, name, FORWARD, made)
        return result

    return forward


def _timed_pull(primitive: Primitive, plain: Callable[..., Any]) -> Callable[..., Any]:
    name = primitive.name

    def pull(node: Any, g: Any) -> Any:
        profile = _active.profile
        if profile is None:
            return plain(node, g)
        start = profile.clock()
        pieces = plain(node, g)
        stop = profile.clock()
        made = new_bytes(tuple(pieces), [g, *[x._data for x in node._args]])
        profile._operation(start, stop, node.module, name, BACKWARD, made)
        return pieces

    return pull


def _timed_mask(plain: Callable[..., Any]) -> Callable[..., Any]:
    def keep(*args: Any) -> Any:
        profile = _active.profile
        if profile is None:
            return plain(*args)
        start = profile.clock()
        result = plain(*args)
        profile._operation(start, profile.clock(), state.module, MASK, FORWARD, 0)
        return result

    return keep


def new_bytes(made: Any, given: Sequence[Any]) -> int:
    """Bytes of the memory behind the arrays in `made` (nested tuples) that is not behind `given`.

    A view counts as the whole array it looks into, which it keeps alive.
    """
    known = {id(_owner(array)) for array in given if array is not None}
    total = 0
    waiting = [made]
    while waiting:
        piece = waiting.pop()
        if isinstance(piece, (tuple, list)):
            waiting += piece
        elif hasattr(piece, "nbytes"):
            memory = _owner(piece)
            if id(memory) not in known:
                known.add(id(memory))
                total += memory.nbytes
    return total


def _owner(array: Any) -> Any:
    base = getattr(array, "base", None)
    while base is not None and type(base) is type(array):
        array, base = base, getattr(base, "base", None)
    return array
