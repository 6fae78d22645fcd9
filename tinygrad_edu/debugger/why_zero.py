"""`why_zero(x, loss)`: why a gradient is 0, or is not there at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tinygrad_edu import graph
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.debugger.log import LIMIT, Log, Use
from tinygrad_edu.debugger.text import made_text, place_text, wrapped
from tinygrad_edu.drawing import facts
from tinygrad_edu.drawing.names import names_in
from tinygrad_edu.scalar.value import Value

__all__ = ["Reason", "ZeroReport", "why_zero"]

Array = Any
_MOST = 8
_SMALL = 1e-3
"""A gradient that shrinks below this share of what arrived is said to vanish there."""


@dataclass(frozen=True)
class Reason:
    """One place where a gradient is lost.

    Attributes:
        kind: a word: "dead relu", "saturated", "times 0", "masked", "clipped", "not the largest",
            "flat", "not selected", "cancels", "underflow", "small factor", "stopped", "detached",
            "not tracked", "integers", "not an ancestor", "no gradient arrives".
        text: a sentence.
        use: the use that hands on nothing; None where the graph itself does not lead there.
        share: of the elements of the use's input, how many get nothing.
    """

    kind: str
    text: str
    use: Use | None = None
    share: float = 1.0


@dataclass(frozen=True)
class ZeroReport:
    """What `why_zero` found.

    Attributes:
        name, loss: names of x and of the loss.
        gradient: x's gradient; None where there is none.
        zeros, size: how many of its elements are 0, of how many.
        reasons: places where it is lost, those nearest to x first.
        log: the event log; None where the loss is not tracked.
    """

    name: str
    loss: str
    gradient: Array | None
    zeros: int
    size: int
    reasons: tuple[Reason, ...]
    log: Log | None

    def __str__(self) -> str:
        what = f"∂{self.loss}/∂{self.name}"
        if self.gradient is None:
            head = f"{what} does not exist"
        elif self.size == 1:
            head = f"{what} = {facts.number(self.gradient.reshape(())[()])}"
        else:
            head = f"{what} is 0 in {self.zeros} of {self.size} elements"
        if not self.reasons:
            head += ": nothing is lost on the way"
        lines = [head, *(f"  {reason.kind}: {reason.text}" for reason in self.reasons)]
        return "\n".join(part for line in lines for part in wrapped(line))


def why_zero(x: Any, loss: Any, gradient: Any = None) -> ZeroReport:
    """Why x's gradient is 0 in some or all elements, very small, or None.

    Nothing is stored: `.grad` stays as it is. What was computed outside of the graph (through
    NumPy, or under `no_grad`) leaves no trace, and can only be guessed at from shared memory.

    Args:
        x: a `Value` or a `Tensor`.
        loss: a `Value` or a `Tensor`, or its `Log`.
        gradient: the upstream gradient of `loss`; 1 for one number.
    """
    given = loss if isinstance(loss, Log) else None
    loss = given.root if given is not None else loss
    variables = names_in()
    name = str(x.name or variables.get(id(x)) or (given and given.names.get(x, "")) or "x")
    called = str(given.loss if given else loss.name or variables.get(id(loss)) or "L")
    size = int(np.size(facts.host(x.data)))
    lost = _outside(x, loss, name, called)
    if lost is not None:
        return ZeroReport(name, called, None, size, size, (lost,), None)
    log = given if given is not None else Log(loss, gradient, LIMIT, variables)
    found = log.gradient(x)
    if found is None:
        reasons = _not_arriving(x, log)
        return ZeroReport(name, called, None, size, size, reasons, log)
    g = facts.host(found)
    zeros = int((g == 0).sum())
    reasons = _lost(x, log) if zeros else _shrunk(x, log)
    return ZeroReport(name, called, g, zeros, size, reasons, log)


# Where the graph does not lead to x.


def _outside(x: Any, loss: Any, name: str, called: str) -> Reason | None:
    for thing, what in ((x, "x"), (loss, "loss")):
        if not isinstance(thing, (Tensor, Value)):
            raise TypeError(
                f"why_zero() was given a {type(thing).__name__} as {what}; it takes a Value or a "
                "Tensor"
            )
    if isinstance(x, Tensor) and x.dtype.kind not in "fV":
        return Reason(
            "integers", f"{name} holds {x.dtype}, and whole numbers have no derivative; make it a "
            "floating tensor",
        )  # fmt: skip
    if isinstance(loss, Tensor) and not loss.requires_grad:
        return Reason(
            "not tracked", f"{called} remembers nothing: it was made under no_grad(), or from "
            "tensors of which none has requires_grad=True, or is itself a detached copy",
        )  # fmt: skip
    if isinstance(x, Tensor) and not x.requires_grad:
        why = "requires_grad is False" if x.op is None else "it was made under no_grad()"
        hint = f"{name}.requires_grad_() before the forward pass" if x.op is None else (
            "take its making out of no_grad()"
        )
        return Reason("not tracked", f"{name} is not followed: {why}; call {hint}")
    order = graph.topological_order(loss)
    if any(node is x for node in order):
        return None
    return _not_an_ancestor(x, order, name, called)


def _not_an_ancestor(x: Any, order: list[Any], name: str, called: str) -> Reason:
    if isinstance(x, Tensor):
        for node in order:
            shares = isinstance(node, Tensor) and node.op is None and _shares(node, x)
            if shares:
                use = next(n for n in order if any(i is node for i in n.inputs))
                return Reason(
                    "detached", f"{called} is made of a detached copy of {name} (the same memory, "
                    f"without its history), which enters in {facts.word(use)} at "
                    f"{facts.source_line(use)}",
                )  # fmt: skip
    return Reason(
        "not an ancestor", f"{called} was not made from {name}; if it should have been, look for "
        ".detach(), .numpy(), .item(), no_grad(), an index or argmax made from it, or for a name "
        "that was assigned again",
    )  # fmt: skip


def _shares(node: Tensor, x: Tensor) -> bool:
    a, b = node._data, x._data
    return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.shares_memory(a, b)


def _not_arriving(x: Any, log: Log) -> tuple[Reason, ...]:
    users = [
        node for node in log.nodes if any(i is x for i in node.inputs)
    ]
    found = []
    for node in users[:_MOST]:
        found.append(
            Reason(
                "stopped", f"{log.names[node]} hands nothing to it: {made_text(log, node)}, at "
                f"{facts.source_line(node)}",
            )
        )  # fmt: skip
    return tuple(found) or (Reason("no gradient arrives", "no event hands anything to it"),)


# Where something arrives at x, and it is 0.


def _lost(x: Any, log: Log) -> tuple[Reason, ...]:
    """From x towards the loss, along what hands on only zeros, to where each way is lost."""
    found: list[Reason] = []
    seen = {id(x)}
    waiting = [x]
    while waiting and len(found) < _MOST:
        node = waiting.pop(0)
        uses = [use for event in log for use in event.uses if use.input is node]
        sums = [facts.host(use.contribution) for use in uses]
        whole = facts.host(log.gradient(node))
        if any(s.any() for s in sums) and not whole.all():
            cancelled = np.logical_and(whole == 0, np.any([s != 0 for s in sums], axis=0))
            if cancelled.any():
                found.append(_cancels(node, uses, sums, cancelled, log))
        for use, piece in zip(uses, sums, strict=True):
            if piece.all():
                continue
            upstream = facts.host(use.event.upstream)
            if not upstream.any():
                if id(use.event.node) not in seen:
                    seen.add(id(use.event.node))
                    waiting.append(use.event.node)
                continue
            found.append(_lost_in(use, piece, upstream))
    return tuple(found[:_MOST])


def _cancels(
    node: Any, uses: list[Use], sums: list[Array], cancelled: Array, log: Log
) -> Reason:
    at = tuple(int(i) for i in np.argwhere(cancelled)[0]) if cancelled.ndim else ()
    terms = " + ".join(
        f"{facts.number(s[at])} (through {use.event.name})"
        for use, s in zip(uses, sums, strict=True)
    )
    return Reason(
        "cancels", f"the ways to {log.names[node]} add up to 0: {terms}", uses[0],
        float(cancelled.mean()),
    )  # fmt: skip


def _lost_in(use: Use, piece: Array, upstream: Array) -> Reason:
    share = float((piece == 0).mean())
    word = facts.word(use.event.node)
    kind, why = _why(use, word, upstream)
    amount = "" if piece.size == 1 else f" in {int((piece == 0).sum())} of {piece.size} elements"
    place = place_text(use.event)
    at = f" at {place}" if place else ""
    text = f"{made_text(use.event._log, use.event.node)}{at} hands on 0{amount}: {why}"
    return Reason(kind, text, use, share)


_REASONS: tuple[tuple[str, str, str], ...] = (
    ("relu", "dead relu", "its input is not above 0 there (the slope of relu is 0)"),
    (
        "tanh sigmoid erf softsign hardtanh softmax log_sigmoid", "saturated",
        "its input is too large in size there: {range}, where it is flat",
    ),
    (
        "exp exp2 gelu silu mish elu selu softplus", "underflow",
        "its input is so far below 0 that the slope is 0: {range}",
    ),
    ("multiply", "times 0", "the other factor, {other}, is 0 there"),
    (
        "maximum minimum max min cummax cummin topk sort", "not the largest",
        "another element is chosen there, and gets the gradient",
    ),
    ("where", "masked", "the mask takes the other branch there"),
    ("dropout", "masked", "dropout took these out in this pass"),
    ("clip", "clipped", "its input lies beyond the bounds there"),
    (
        "sign round floor ceil trunc floor_divide", "flat",
        "it is a step, whose slope is 0 everywhere",
    ),
    (
        "getitem embedding take diagonal tril triu set_at pad", "not selected",
        "only what is selected gets a gradient",
    ),
    ("matmul linear einsum", "times 0", "what it is multiplied with is 0 there"),
    ("power square", "flat", "its input is 0 there, where a power above 1 has slope 0"),
)  # fmt: skip
_BY_WORD = {word: (kind, text) for words, kind, text in _REASONS for word in words.split()}


def _why(use: Use, word: str, upstream: Array) -> tuple[str, str]:
    """(kind, sentence) of a place where a gradient is lost."""
    x = facts.host(use.input.data)
    found = _BY_WORD.get(word)
    if found is not None:
        others = [i for k, i in enumerate(use.event.node.inputs) if k != use.slot]
        other = use.event._log.name(others[0]) if others else ""
        return found[0], found[1].format(range=_range(x), other=other)
    if not np.all(upstream):
        return "no gradient arrives", "nothing arrives there from further on"
    return "underflow", "the product is too small for its dtype, or the local derivative is 0"


def _range(x: Array) -> str:
    return f"{facts.number(np.min(x))} … {facts.number(np.max(x))}" if x.size > 1 else (
        facts.number(x.reshape(())[()])
    )


# Where it is small.


def _shrunk(x: Any, log: Log) -> tuple[Reason, ...]:
    """The places on the way to x where a gradient shrinks most, if it does."""
    on_the_way = {id(x)}
    for node in log.nodes:
        event = log.event_of(node)
        if event is not None and any(id(use.input) in on_the_way for use in event.uses):
            on_the_way.add(id(node))
    found: list[tuple[float, Reason]] = []
    for event in log:
        for use in event.uses:
            if id(use.input) not in on_the_way:
                continue
            before = facts.norm(facts.host(event.upstream))
            after = facts.norm(facts.host(use.contribution))
            if before and 0 < after < _SMALL * before:
                word = facts.word(event.node)
                kind, why = _why(use, word, facts.host(event.upstream))
                place = place_text(event)
                text = (
                    f"{made_text(log, event.node)}" + (f" at {place}" if place else "")
                    + f" hands on {facts.number(after / before)} of what arrives"
                    + (f": {why}" if kind in ("saturated", "underflow") else "")
                )
                found.append((after / before, Reason("small factor", text, use)))
    found.sort(key=lambda pair: pair[0])
    return tuple(reason for _, reason in found[:_MOST])
