"""`explain(x, loss)`: a gradient as the sum over paths that it is.

Along a path from x to the loss the local derivatives are multiplied; the gradient is the sum over
all paths. There may be 2⁶⁰ of them, so none of this walks them one by one: how many there are, and
what the positive and the negative ones add up to, are sums along the graph, and the largest few are
found by keeping the largest few at each node (exact, as sizes multiply along a path).
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinygrad_edu.debugger.checking import handed_on
from tinygrad_edu.debugger.log import Log, Use, record
from tinygrad_edu.debugger.text import wrapped
from tinygrad_edu.drawing import facts
from tinygrad_edu.errors import GraphError

__all__ = ["Explanation", "Path", "explain"]

Array = Any
_EXPANDED = 2000
"""Steps of the search for paths through tensors; with more paths than that the rest is summed."""
_SHOWN = 9
"""Nodes of a path that are named in full; longer ones are cut in the middle."""


@dataclass(frozen=True)
class Path:
    """One way from x to the loss.

    Attributes:
        nodes: names, from x to the loss.
        uses: the uses along it, in the same order: the first hands something to x.
        factors: the local derivative of each, for scalars; () for arrays.
        contribution: what the path adds to the gradient (to the element explained).
        share: of the gradient; NaN where that is 0.
    """

    nodes: tuple[str, ...]
    uses: tuple[Use, ...]
    factors: tuple[float, ...]
    contribution: float
    share: float

    def __str__(self) -> str:
        names = list(self.nodes)
        if len(names) > _SHOWN:
            left_out = len(names) - _SHOWN + 1
            names = [*names[: _SHOWN // 2], f"… {left_out} more …", *names[-(_SHOWN // 2) :]]
        return " → ".join(names)


@dataclass(frozen=True)
class Explanation:
    """Where a gradient comes from.

    Attributes:
        name, loss: the names of x and of the loss.
        index: the element of x that is explained; () for a scalar.
        gradient: its gradient, by the backward pass.
        count: how many paths there are.
        paths: the largest, by |contribution|.
        total: the sum over all paths: equal to the gradient, to rounding.
        positive, negative: what the paths of each sign add up to; None where that is not known
            (arrays with more paths than were followed).
        rest: what the paths that are not in `paths` add up to.
        exact: `paths` are the largest of all; False where a search had to stop.
        log: the event log.
    """

    name: str
    loss: str
    index: tuple[int, ...]
    gradient: float
    count: int
    paths: tuple[Path, ...]
    total: float
    positive: float | None
    negative: float | None
    rest: float
    exact: bool
    log: Log

    @property
    def cancellation(self) -> float | None:
        """|gradient| over the sum of the sizes of all paths: 1 where all have one sign, near 0
        where they cancel. None where that sum is not known, or is 0.
        """
        if self.positive is None or self.negative is None:
            return None
        size = self.positive - self.negative
        return abs(self.total) / size if size else None

    def __str__(self) -> str:
        at = f"[{', '.join(map(str, self.index))}]" if self.index else ""
        what = f"∂{self.loss}/∂{self.name}{at}"
        ways = "1 path" if self.count == 1 else f"{_count(self.count)} paths"
        lines = [f"{what} = {facts.number(self.gradient)}, the sum over {ways}"]
        ratio = self.cancellation
        if ratio is not None and ratio < 0.1 and self.count > 1:
            assert self.positive is not None and self.negative is not None
            lines.append(
                f"  they cancel: {facts.number(self.positive)} and {facts.number(self.negative)} "
                f"leave {facts.number(self.total)}"
            )
        for path in self.paths:
            share = "" if np.isnan(path.share) else f"{100 * path.share:6.1f} %"
            lines.append(f"  {facts.number(path.contribution):>10}  {share:>8}  {path}")
            if path.factors and len(path.factors) <= _SHOWN:
                product = " · ".join(facts.number(f) for f in path.factors)
                lines.append(f"  {'':10}  {'':8}  = {product}")
        left = self.count - len(self.paths)
        if left:
            exact = "" if self.exact else " (the search stopped: larger ones may be among them)"
            more = "1 more path adds" if left == 1 else f"{_count(left)} more paths add"
            lines.append(f"  {facts.number(self.rest):>10}  {'':8}  {more}{exact}")
        lines.append(
            f"  {facts.number(self.total):>10}  in all; the backward pass says "
            f"{facts.number(self.gradient)}"
        )
        return "\n".join(part for line in lines for part in wrapped(line))


def _count(n: int) -> str:
    return f"{n:,}" if n < 10**12 else f"about {n:.2e}"


def explain(x: Any, loss: Any, *, top: int = 10, index: Any = None) -> Explanation:
    """The paths from x to the loss, what each adds to x's gradient, and how they sum and cancel.

    Args:
        x: a node that the loss was made from.
        loss: a `Value` or a `Tensor` of one number, or its `Log`.
        top: how many paths to show.
        index: for an array x, the element; the default is the one with the largest |gradient|.

    Raises:
        GraphError: the loss does not depend on x; `why_zero(x, loss)` says why.
        IndexError: `index` is not in x's shape.
    """
    log = loss if isinstance(loss, Log) else record(loss)
    whole = log.gradient(x)
    if whole is None:
        raise GraphError(
            f"no path leads from {getattr(x, 'name', None) or 'x'} to {log.loss}; "
            "tg.why_zero(x, loss) looks for the reason"
        )
    at = _element(x, whole, index)
    below = _reached(x, log)
    scalar = all(facts.is_scalar(node) for node in below) and facts.is_scalar(log.root)
    count = _number_of_paths(x, log)
    gradient = float(facts.host(whole)[at])
    positive: float | None
    negative: float | None
    if scalar:
        found, total, positive, negative = _scalar_paths(x, log, top)
        exact = True
    else:
        found, exact = _array_paths(x, log, at, top, count)
        every = [path.contribution for path in found]
        total = float(np.sum(every)) if exact else gradient
        positive = float(sum(c for c in every if c > 0)) if exact else None
        negative = float(sum(c for c in every if c < 0)) if exact else None
        found = found[:top]
    paths = tuple(
        Path(p.nodes, p.uses, p.factors, p.contribution,
             p.contribution / gradient if gradient else float("nan"))
        for p in found
    )  # fmt: skip
    rest = total - sum(p.contribution for p in paths)
    return Explanation(
        log.names[x], log.loss, at, gradient, count, paths, total, positive, negative,
        rest if count > len(paths) else 0.0, exact, log,
    )  # fmt: skip


def _element(x: Any, whole: Array, index: Any) -> tuple[int, ...]:
    shape = facts.shape_of(x)
    if index is None:
        sizes = np.abs(np.nan_to_num(facts.host(whole)))
        return tuple(int(i) for i in np.unravel_index(int(sizes.argmax()), shape)) if shape else ()
    at = tuple(int(i) for i in (index if isinstance(index, tuple) else (index,)))
    if len(at) != len(shape) or any(not -n <= i < n for i, n in zip(at, shape, strict=False)):
        raise IndexError(f"index={index} names no element of {shape}: give one number an axis")
    return tuple(i % n for i, n in zip(at, shape, strict=True))


def _reached(x: Any, log: Log) -> list[Any]:
    """x and every node on a path from it to the loss, inputs first."""
    found = {id(x)}
    order = [x]
    for node in log.nodes:
        event = log.event_of(node)
        if event is None or id(node) in found:
            continue
        if any(id(use.input) in found for use in event.uses):
            found.add(id(node))
            order.append(node)
    return order


def _number_of_paths(x: Any, log: Log) -> int:
    number = {id(x): 1}
    for node in _reached(x, log)[1:]:
        event = log.event_of(node)
        assert event is not None
        number[id(node)] = sum(number.get(id(use.input), 0) for use in event.uses)
    return number.get(id(log.root), 0)


def _scalar_paths(x: Any, log: Log, top: int) -> tuple[list[Path], float, float, float]:
    """(the largest paths, the sum over all, over the positive, over the negative), exactly."""
    seed = float(facts.host(log.gradient(log.root)))
    # Of each node: (sum of positive products, of negative ones) over paths from x to it, and its
    # largest paths as (product, use, which of the input's largest), the largest first.
    sums: dict[int, tuple[float, float]] = {id(x): (1.0, 0.0)}
    largest: dict[int, list[tuple[float, Use | None, int]]] = {id(x): [(1.0, None, 0)]}
    for node in _reached(x, log)[1:]:
        event = log.event_of(node)
        assert event is not None
        positive = negative = 0.0
        ways: list[tuple[float, Use | None, int]] = []
        for use in event.uses:
            before = sums.get(id(use.input))
            if before is None:
                continue
            d = _local(use)
            high, low = (d * before[0], d * before[1]) if d >= 0 else (d * before[1], d * before[0])
            positive, negative = positive + high, negative + low
            ways += [
                (d * product, use, rank)
                for rank, (product, _, _) in enumerate(largest[id(use.input)])
            ]
        sums[id(node)] = (positive, negative)
        largest[id(node)] = heapq.nlargest(top, ways, key=lambda way: abs(way[0]))
    high, low = sums[id(log.root)]
    if seed < 0:
        high, low = low, high
    found = [
        _walked(log, x, way, largest, seed) for way in largest[id(log.root)]
    ]
    return found, seed * high + seed * low, seed * high, seed * low


def _walked(
    log: Log, x: Any, way: tuple[float, Use | None, int],
    largest: dict[int, list[tuple[float, Use | None, int]]], seed: float,
) -> Path:  # fmt: skip
    """The path that a way stands for, from x to the loss."""
    uses: list[Use] = []
    product, use, rank = way
    while use is not None:
        uses.append(use)
        _, use, rank = largest[id(use.input)][rank]
    uses.reverse()
    names = (log.names[x], *(use.event.name for use in uses))
    return Path(names, tuple(uses), tuple(_local(u) for u in uses), seed * product, float("nan"))


def _local(use: Use) -> float:
    """The local derivative of a scalar operation."""
    node = use.event.node
    one = np.ones((), facts.host(node.data).dtype)
    return float(facts.host(handed_on(node, use.slot, one)))


def _array_paths(
    x: Any, log: Log, at: tuple[int, ...], top: int, count: int
) -> tuple[list[Path], bool]:
    """Paths through arrays, each with what it adds to one element of x: the upstream gradient sent
    back along its uses alone. All of them where they are few, else those that the largest
    gradients lead to; largest first.
    """
    on_the_way = {id(node) for node in _reached(x, log)}
    found: list[Path] = []
    if log.root is x:
        seed = float(facts.host(log.gradient(x))[at])
        return [Path((log.names[x],), (), (), seed, float("nan"))], True
    waiting: list[tuple[float, int, Any, Array, tuple[Use, ...]]] = []
    tickets = itertools.count()

    def follow(node: Any, upstream: Array, uses: tuple[Use, ...], straight: bool) -> None:
        """One step back from a node, along each of its uses; straight to x, along the largest."""
        while True:
            event = log.event_of(node)
            ahead: list[tuple[float, int, Any, Array, tuple[Use, ...]]] = []
            for use in event.uses if event is not None else ():
                if id(use.input) not in on_the_way:
                    continue
                piece = facts.host(handed_on(node, use.slot, upstream))
                way = (*uses, use)
                if use.input is x:  # x comes first on a path, and so once
                    names = (log.names[x], *(u.event.name for u in reversed(way)))
                    found.append(Path(names, way[::-1], (), float(piece[at]), float("nan")))
                else:
                    size = facts.norm(np.nan_to_num(piece))
                    ahead.append((-size, next(tickets), use.input, piece, way))
            if not straight or not ahead:
                for each in ahead:
                    heapq.heappush(waiting, each)
                return
            _, _, node, upstream, uses = min(ahead)

    follow(log.root, log.gradient(log.root), (), straight=False)
    steps = 1
    while waiting and (steps < _EXPANDED or len(found) < top):
        _, _, node, upstream, uses = heapq.heappop(waiting)
        follow(node, upstream, uses, straight=steps >= _EXPANDED)
        steps += 1
    found.sort(key=lambda path: -abs(path.contribution))
    return found, len(found) == count
