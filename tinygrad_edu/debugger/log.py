"""The event log of a backward pass: what every reader (prompt, page, notebook, questions) reads.

    log = tg.record(loss)
    log[3]                      # the fourth event, in words
    log.gradient(x, after=3)    # x's gradient at that moment

An event is one node handing on what arrived. The log keeps the graph, and of the pass only each
node's whole gradient, in a store of its own: `.grad` stays as it was. Contributions, and gradients
as they stood after any event, are computed from these again when asked, by the rules that made
them, so they are the same bits and going back costs nothing. Beyond a limit of memory gradients are
dropped as well, and found by running the pass again.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from tinygrad_edu import graph
from tinygrad_edu.autograd.backward import carried
from tinygrad_edu.autograd.pull import pull_raw
from tinygrad_edu.autograd.recording import note_of
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.debugger import formulas
from tinygrad_edu.drawing import facts
from tinygrad_edu.drawing.names import Names, names_in
from tinygrad_edu.errors import GraphError
from tinygrad_edu.scalar.value import Value

if TYPE_CHECKING:
    from tinygrad_edu.debugger.form import Difference

__all__ = ["Check", "Entry", "Event", "Log", "Use", "record"]

Array = Any

LIMIT = 1 << 30
"""Bytes of gradients that a log keeps by default."""
_CACHED = 32
"""Events whose contributions are kept once computed."""
_FEW, _BLOCKS = 8, 8
"""Uses that are simply added up again; blocks of sums that are kept for nodes with more uses."""


@dataclass(frozen=True, slots=True)
class Check:
    """A local derivative held to differences of the operation by itself.

    Attributes:
        numeric: the contribution as differences say, for a scalar; for an array the norm of the
            entries that were judged.
        got: the same of the contribution itself.
        error: the largest |contribution - differences|, over the largest of the terms added.
        ok: whether the two agree as far as differences can tell.
        judged, size: how many entries were judged, of how many.
        kink: some entry is at a kink, and between the slopes of both sides.
    """

    numeric: float
    got: float
    error: float
    ok: bool
    judged: int = 1
    size: int = 1
    kink: bool = False

    def __str__(self) -> str:
        mark = "✓" if self.ok else f"✗ the rule says {facts.number(self.got)}"
        error = f"{self.error:.0e}" if self.error else "0"
        what = facts.number(self.numeric)
        if self.size > 1:
            what = f"norm {what} over {self.judged} of {self.size} entries"
        at = " (at a kink: between the slopes of both sides)" if self.kink and self.ok else ""
        return f"{what}, relative error {error} {mark}{at}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One contribution to a gradient: a line of `Log.ledger`.

    Attributes:
        event: the index of the event that made it; -1 for the seed, which the root starts from.
        node: the name of the node that handed it on; "" for the seed.
        contribution: what was added.
        after: the gradient with it.
        source: "file:line" of the operation.
    """

    event: int
    node: str
    contribution: Array
    after: Array
    source: str


class Use:
    """What one event hands to one input.

    Attributes:
        event: the event it is a part of.
        slot: which input of the node; `x * x` has two uses of x, in slots 0 and 1.
        input: that input, a node.
        nth, total: the use is the nth of `total` uses of this input, in the order of the pass.
    """

    __slots__ = ("_log", "event", "input", "nth", "slot", "total")

    def __init__(
        self, log: Log, event: Event, slot: int, input: Any, nth: int, total: int
    ) -> None:
        self._log, self.event, self.slot, self.input = log, event, slot, input
        self.nth, self.total = nth, total

    @property
    def name(self) -> str:
        """The name of the input."""
        return self._log.names[self.input]

    @property
    def contribution(self) -> Array:
        """What is added to the input's gradient, in its shape."""
        found = self._log._pieces(self.event.index)[self.slot]
        assert found is not None  # there is a use only where something flows
        return found

    @property
    def before(self) -> Array | None:
        """The input's gradient before this use; None where nothing had arrived."""
        return self._log._partial(self.input, self.nth - 1)

    @property
    def after(self) -> Array:
        """The input's gradient with this use."""
        return self._log._partial(self.input, self.nth)

    @property
    def formula(self) -> formulas.Formula:
        """The contribution in words: in names, in numbers, with shapes."""
        event = self.event
        log = self._log
        return formulas.of_use(event.node, self.slot, event.upstream, log.name, log.loss)

    @property
    def summed_axes(self) -> tuple[int, ...]:
        """Axes of the node's shape over which the contribution was summed, because the input had
        been broadcast along them; () where none was.
        """
        node, x = self.event.node, self.input
        if not isinstance(node, Tensor) or not node.op.broadcasts or node.op.kind == "linear":
            return ()
        lead = node.ndim - x.ndim
        return tuple(range(lead)) + tuple(
            i + lead for i, n in enumerate(x.shape) if n == 1 and node.shape[i + lead] != 1
        )

    def check(self) -> Check | None:
        """Hold the contribution to differences of the operation by itself; None where they cannot
        be formed: the `clip` of a `Value` does not keep its bounds.
        """
        from tinygrad_edu.debugger.checking import check

        return check(self)


class Event:
    """One node handing on its gradient.

    Attributes:
        index: its place in the log, from 0.
        node: the node whose gradient had arrived.
        uses: what it hands to its inputs, a `Use` each.
    """

    __slots__ = ("_log", "index", "node", "uses")

    def __init__(self, log: Log, index: int, node: Any) -> None:
        self._log, self.index, self.node = log, index, node
        self.uses: tuple[Use, ...] = ()

    @property
    def name(self) -> str:
        """The name of the node."""
        return self._log.names[self.node]

    @property
    def upstream(self) -> Array:
        """The whole gradient of the node, as it arrived."""
        return self._log._upstream(self.index)

    @property
    def source(self) -> str:
        """"file:line" of the operation; "" where it is not known."""
        return facts.source_line(self.node)

    @property
    def function(self) -> str:
        """The function that line stands in, where it was recorded; else ""."""
        note = note_of(self.node)
        return note.function if note is not None else ""

    @property
    def variables(self) -> dict[str, Any]:
        """The local variables of that function as they were, where they were recorded."""
        note = note_of(self.node)
        return note.alive() if note is not None else {}

    def __repr__(self) -> str:
        from tinygrad_edu.debugger.text import event_text

        return event_text(self)


class Log(Sequence[Event]):
    """The events of one backward pass, in its order; made by `record`.

    Attributes:
        root: what was differentiated.
        nodes: everything it was made from that gradients reach or could reach, in topological
            order (inputs first), the root last.
        names: the name of each node (`Names`).
        loss: the name of the root, the L in "∂L/∂x".
        limit: bytes of gradients that are kept at most.
    """

    def __init__(
        self, root: Any, gradient: Any, limit: int, variables: dict[int, str] | None
    ) -> None:
        self.root, self.limit, self._seed = root, limit, gradient
        self._kept: dict[int, Array] = {}
        self._bytes = self.dropped = 0
        arrived: list[Any] = []
        met: list[tuple[Any, int]] = []

        def told(node: Any, g: Array) -> None:
            arrived.append(node)
            self._keep(node, g)

        def observed(each: graph.Event) -> None:
            met.append((each.node, each.slot))

        self.nodes: list[Any] = _sweep(root, gradient, told, observed)
        self._variables = _variables(self.nodes, variables or {})
        self.names = Names(self.nodes, self._variables)
        self.loss = self.names[root] if root.name or id(root) in (variables or {}) else "L"
        self._cache: OrderedDict[int, Sequence[Array | None]] = OrderedDict()
        self._starts: dict[int, list[Array | None]] = {}
        self._blocks: OrderedDict[tuple[int, int], list[Array | None]] = OrderedDict()
        self._events = [
            Event(self, i, node) for i, node in enumerate(n for n in arrived if n.inputs)
        ]
        self._at = {id(event.node): event.index for event in self._events}
        self._arrived = {id(node) for node in arrived}
        self._list_uses(met)

    def _keep(self, node: Any, g: Array) -> None:
        size = g.nbytes if hasattr(g, "nbytes") else 8
        if self._bytes + size <= self.limit:
            self._kept[id(node)] = g
            self._bytes += size
        else:
            self.dropped += 1

    def _list_uses(self, met: list[tuple[Any, int]]) -> None:
        """Who hands something to whom, in the order of the pass."""
        self._consumers: dict[int, list[tuple[int, int]]] = {}
        for node, slot in met:
            target = node.inputs[slot]
            self._consumers.setdefault(id(target), []).append((self._at[id(node)], slot))
        uses: list[list[Use]] = [[] for _ in self._events]
        seen: dict[int, int] = {}
        for node, slot in met:
            target = node.inputs[slot]
            nth = seen[id(target)] = seen.get(id(target), 0) + 1
            event = self._events[self._at[id(node)]]
            total = len(self._consumers[id(target)])
            uses[event.index].append(Use(self, event, slot, target, nth, total))
        for event, found in zip(self._events, uses, strict=True):
            event.uses = tuple(found)

    # As a sequence.

    def __len__(self) -> int:
        return len(self._events)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        return self._events[index]

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events)

    def __repr__(self) -> str:
        more = f", {self.dropped} of {len(self.nodes)} gradients not kept" if self.dropped else ""
        return (
            f"<log of ∂{self.loss}: {len(self)} events on {len(self.nodes)} nodes, "
            f"{self.memory:,} bytes of gradients{more}>"
        )

    @property
    def memory(self) -> int:
        """Bytes of the gradients that are kept."""
        return self._bytes

    def name(self, node: Any) -> str:
        """What a formula calls a node: its name; a leaf that has none by its number or shape."""
        found = node.name or self._variables.get(id(node))
        if found or node.op is not None:
            return self.names.get(node, str(found))
        if facts.is_scalar(node):
            return facts.value_text(node)
        return f"array({', '.join(map(str, facts.shape_of(node)))})"

    # Gradients, at any moment.

    def event_of(self, node: Any) -> Event | None:
        """The event in which a node hands on its gradient; None for a leaf, and for a node that no
        gradient reached.
        """
        index = self._at.get(id(node))
        return None if index is None else self._events[index]

    def gradient(self, node: Any, after: int | None = None) -> Array | None:
        """The gradient of a node as it stood after an event; the default is the last one.

        None where nothing had arrived yet. `after=-1` is the start, when the root has its seed.
        """
        if after is None or after >= len(self) - 1:
            return self._whole(node) if id(node) in self._arrived else None
        return self._partial(node, self.arrived(node, after))

    def arrived(self, node: Any, after: int) -> int:
        """How many uses of a node have handed something on, up to and with an event."""
        return bisect_right(self._consumers.get(id(node), ()), after, key=_event_of)

    def uses_of(self, node: Any) -> int:
        """How many uses hand something to a node over the whole pass."""
        return len(self._consumers.get(id(node), ()))

    def ledger(self, node: Any) -> list[Entry]:
        """Every contribution to a node's gradient, in order; the last `after` is the gradient."""
        entries = []
        total: Array | None = None
        if node is self.root:
            total = self._whole(node) if not self.uses_of(node) else None
            if total is not None:
                entries.append(Entry(-1, "", total, total, ""))
        for index, slot in self._consumers.get(id(node), ()):
            piece = self._pieces(index)[slot]
            total = piece if total is None else total + piece
            event = self._events[index]
            entries.append(Entry(index, event.name, piece, total, event.source))
        return entries

    def _upstream(self, index: int) -> Array:
        return self._whole(self._events[index].node)

    def _whole(self, node: Any) -> Array:
        found = self._kept.get(id(node))
        return self._find(node) if found is None else found

    def _find(self, node: Any) -> Array:
        """A gradient that was dropped, with those that come after it in the pass as far as there is
        room, by running the pass again.
        """
        window: dict[int, Array] = {}
        size = 0

        def told(other: Any, g: Array) -> None:
            nonlocal size
            if other is node or (window and size + np.asarray(g).nbytes <= self.limit // 4):
                window[id(other)] = g
                size += np.asarray(g).nbytes

        _sweep(self.root, self._seed, told, None)
        for key in self._window:
            del self._kept[key]
        self._window = [key for key in window if key not in self._kept]
        self._kept.update({key: window[key] for key in self._window})
        return window[id(node)]

    _window: Sequence[int] = ()

    def _pieces(self, index: int) -> Sequence[Array | None]:
        """What an event hands to each input, None where nothing flows."""
        found = self._cache.get(index)
        if found is None:
            found = _pull(self._events[index].node, self._upstream(index))
            self._cache[index] = found
            if len(self._cache) > _CACHED:
                self._cache.popitem(last=False)
        else:
            self._cache.move_to_end(index)
        return found

    def _partial(self, node: Any, count: int) -> Array | None:
        """The sum of the first `count` contributions to a node.

        Of n contributions √n sums are kept, and those of the block between two of them that was
        last asked for: going through all, in either direction, costs a sum each.
        """
        consumers = self._consumers.get(id(node), ())
        if node is self.root and not consumers:
            return self._whole(node)
        count = min(count, len(consumers))
        if count <= 0:
            return None
        if len(consumers) <= _FEW:
            return self._sums(consumers[:count], None)[-1]
        width = math.isqrt(len(consumers) - 1) + 1
        number, place = divmod(count - 1, width)
        found = self._blocks.get((id(node), number))
        if found is None:
            starts = self._starts.setdefault(id(node), [None])
            while len(starts) <= number:
                first = (len(starts) - 1) * width
                starts.append(self._sums(consumers[first : first + width], starts[-1])[-1])
            first = number * width
            found = self._sums(consumers[first : first + width], starts[number])
            self._blocks[id(node), number] = found
            if len(self._blocks) > _BLOCKS:
                self._blocks.popitem(last=False)
        return found[place]

    def _sums(self, uses: Sequence[tuple[int, int]], total: Array | None) -> list[Array | None]:
        """The gradient after each of some uses that follow one another, `total` before them."""
        found: list[Array | None] = []
        for index, slot in uses:
            piece = self._pieces(index)[slot]
            total = piece if total is None else total + piece
            found.append(total)
        return found

    # Other forms.

    def as_dict(self) -> dict[str, Any]:
        """The log as dicts, lists, text and numbers; docs/log.md describes the form."""
        from tinygrad_edu.debugger.form import as_dict

        return as_dict(self)

    def save_json(self, path: Any) -> None:
        """Write `as_dict()` as JSON."""
        from tinygrad_edu.debugger.form import save_json

        save_json(self, path)

    def save_html(self, path: Any) -> None:
        """Write one page that steps through the log, offline, with a slider and keys."""
        from tinygrad_edu.debugger.form import save_html

        save_html(self, path)

    def compare(self, other: Any, rel: float = 0.0) -> Difference | None:
        """The first difference from another log, or its dict: of the graphs, else of an event. None
        where there is none. `rel`: how far two numbers may be apart, as a share of the larger one.
        """
        from tinygrad_edu.debugger.form import compare

        return compare(self, other, rel)

    def _repr_html_(self) -> str:
        from tinygrad_edu.debugger.form import embedded

        return embedded(self)


def record(loss: Any = None, *, gradient: Any = None, limit: int = LIMIT) -> Any:
    """`record(loss)`: the event log of a backward pass from `loss`, whose `.grad` stay as they are.
    `with record():` notes, for every node made inside, its line and the variables there.

    Args:
        loss: a `Value` or a `Tensor`; left out to open a recording.
        gradient: the upstream gradient of `loss`; 1 for one number.
        limit: bytes of gradients to keep; what is beyond is computed again when asked for.

    Raises:
        GraphError: `loss` is not tracked, or its graph was freed by `backward(retain_graph=False)`.
        MutationError: data that a rule needs has changed since the forward pass.
        TypeError: `loss` is neither a `Value` nor a `Tensor`.
    """
    if loss is None:
        from tinygrad_edu.autograd.recording import Recording

        return Recording()
    if not isinstance(loss, (Tensor, Value)):
        raise TypeError(
            f"record() was given a {type(loss).__name__}; it takes the Value or Tensor to "
            "differentiate, or nothing, as in `with tg.record():`"
        )
    return Log(loss, gradient, limit, names_in())


_passes = threading.local()


def recording_a_pass() -> bool:
    """Whether this thread is inside a pass of a log; hooks run there as in `backward()`."""
    return getattr(_passes, "running", False)


def _sweep(root: Any, gradient: Any, told: Any, observed: Any) -> list[Any]:
    if isinstance(root, Tensor):
        before, _passes.running = recording_a_pass(), True
        try:
            return list(carried(root, gradient, told, observed))
        finally:
            _passes.running = before
    if root.op is None:
        raise GraphError(
            f"{root!r} was made by no operation, so there is no backward pass to record; record "
            "what was computed from it"
        )
    order = graph.topological_order(root)
    seed = 1.0 if gradient is None else float(gradient)

    def arrived(node: Value, g: float) -> float:
        told(node, np.float64(g))
        return g

    graph.sweep(
        list(order), {id(root): seed}, _pull_value, arrived=arrived, observer=observed, release=True
    )
    return order


def _pull_value(node: Value, g: float) -> list[float]:
    return [g * d if g else 0.0 for d in node.local_derivatives]


def _pull(node: Any, g: Array) -> Sequence[Array | None]:
    if isinstance(node, Value):
        return [np.float64(c) for c in _pull_value(node, float(g))]
    with np.errstate(all="ignore"):
        return list(pull_raw(node, g))


def _event_of(consumer: tuple[int, int]) -> int:
    return consumer[0]


def _variables(nodes: Sequence[Any], given: dict[int, str]) -> dict[int, str]:
    """Names from the caller's variables, and from those recorded while the nodes were made."""
    found: dict[int, str] = {}
    for node in nodes:
        note = note_of(node)
        if note is not None:
            for name, thing in note.alive().items():
                if isinstance(thing, (Tensor, Value)):
                    found.setdefault(id(thing), name)
    return {**found, **given}
