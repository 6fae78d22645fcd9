"""`why_nan(loss)`: where the first NaN or inf was born, forward or backward, and the usual cure.

A value is the birthplace of a NaN if none of the values it was made from is NaN; of an inf, if they
are all finite. What cannot reach the loss (the branch that a `where` does not take) is told apart
from what does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinygrad_edu import graph
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.debugger.log import Event, Log, Use, record
from tinygrad_edu.debugger.text import gradient_text, wrapped
from tinygrad_edu.drawing import facts
from tinygrad_edu.drawing.names import Names, names_in
from tinygrad_edu.scalar.value import Value

__all__ = ["NanReport", "why_nan"]

Array = Any

_CURES = {
    "log 0": "keep its argument above 0: log(x + 1e-12), log1p(x) for 1 + x, or log_softmax and "
    "cross_entropy on logits instead of log(softmax)",
    "log of a negative number": "look at what made it negative; log takes positive numbers",
    "square root of a negative number": "look at what made it negative (rounding below 0 can be "
    "clipped: x.clip(0, None))",
    "square root at 0": "its slope there is inf: add a small number under the root, or take the "
    "root of where(x > 0, x, 1) inside a where(x > 0, …, 0)",
    "0/0": "keep the divisor from 0: divide by where(d == 0, 1, d), or by d + 1e-12",
    "division by 0": "keep the divisor from 0: divide by where(d == 0, 1, d), or by d + 1e-12",
    "0·∞": "the 0 does not undo the inf: select with tg.where(mask, x, 0), and keep the inf from "
    "being made, tg.where(mask, f(tg.where(mask, x, 1)), 0)",
    "∞ - ∞": "one of the two is too large: subtract the maximum first, as logsumexp and softmax do",
    "∞/∞": "both are too large: divide by the maximum first, as softmax does",
    "overflow": "the result is beyond the largest number of its dtype: subtract the maximum before "
    "exp (softmax, logsumexp), scale down, clip gradients, or use a wider dtype",
    "power of a negative number": "a negative base has whole powers only: take x.abs()**p",
    "0 to a negative power": "keep the base from 0, as in where(x == 0, 1, x)",
    "outside of its domain": "keep the argument inside: x.clip(-1 + eps, 1 - eps), say",
    "a number that was given": "look at where it comes from: data, a division outside of the "
    "graph, a weight that a diverging step has moved",
    "inside a sum": "a product in it is 0·∞, or two terms are ∞ - ∞: look at the inputs for inf",
    "slope of inf": "a gradient arrives where the operation has slope inf: keep the input away "
    "from that point, or select with where before the operation, not after",
}  # fmt: skip


@dataclass(frozen=True)
class NanReport:
    """What `why_nan` found.

    Attributes:
        kind: "NaN" or "inf"; "" where every number is finite.
        phase: "forward" or "backward"; "".
        culprit: the node where the first one was born; None.
        use: in the backward pass, the use whose contribution it is; None.
        pattern: what happened, such as "0·∞" or "log 0".
        cure: the usual remedy, in a sentence.
        index: the first element it is in; () for a scalar.
        count, size: how many elements, of how many.
        inputs: (name, the number at that element, or a summary) of what the culprit was made from.
        reaches: whether it reaches the loss (forward) or a leaf (backward).
        subgraph: the nodes from the culprit to where it arrives, and the culprit's inputs.
        others: births that do not reach, each in a line.
        looked_at: how many values and contributions were looked at.
        text: the report as it is printed.
    """

    kind: str
    phase: str
    culprit: Any
    use: Use | None
    pattern: str
    cure: str
    index: tuple[int, ...]
    count: int
    size: int
    inputs: tuple[tuple[str, str], ...]
    reaches: bool
    subgraph: tuple[Any, ...]
    others: tuple[str, ...]
    looked_at: int
    text: str
    loss: Any

    def __str__(self) -> str:
        return self.text

    def draw(self, **options: Any) -> Any:
        """The graph with the culprit and the way of its NaN marked; options as of `tg.draw`."""
        from tinygrad_edu.drawing.draw import draw

        return draw(self.loss, marked=list(self.subgraph), overlay="nan", **options)


def why_nan(loss: Any, gradient: Any = None) -> NanReport:
    """Where the first NaN or inf of a program was born, forward or else backward.

    Nothing is stored: `.grad` stays as it is.

    Args:
        loss: a `Value` or a `Tensor`.
        gradient: the upstream gradient of `loss`; 1 for one number.
    """
    order = graph.topological_order(loss)
    names = Names(order, names_in())
    births = [node for node in order if _born(node)]
    reached = {id(node): _way(node, loss, order) for node in births}
    reaching = [node for node in births if reached[id(node)]]
    # A NaN says more than an inf that is born before it, where that never becomes one.
    aside = [node for node in births if not reached[id(node)]]
    if reaching:
        bad = _kind(_data(loss))
        first = next((n for n in reaching if _kind(_data(n)) == bad or bad == "NaN"), reaching[0])
        later = [n for n in reaching if n is not first and _kind(_data(n)) == "NaN"]
        return _forward(first, loss, names, reached[id(first)], aside, later, len(order))
    found = None
    if _differentiable(loss, gradient):
        found = _backward(loss, gradient, names, aside, len(order))
    return found if found is not None else _nothing(loss, names, aside, order)


def _data(node: Any) -> Array:
    return facts.host(node.data)


def _kind(a: Array) -> str:
    """"NaN", "inf" or ""; whole numbers are neither."""
    if a.dtype.kind != "f":
        return ""
    if np.isnan(a).any():
        return "NaN"
    return "inf" if np.isinf(a).any() else ""


def _born(node: Any) -> bool:
    kind = _kind(_data(node))
    if not kind:
        return False
    kinds = [_kind(_data(x)) for x in node.inputs]
    return "NaN" not in kinds if kind == "NaN" else not any(kinds)


def _way(start: Any, loss: Any, order: Sequence[Any]) -> list[Any]:
    """A chain of values that are not finite from `start` to the loss; [] where there is none."""
    came: dict[int, Any] = {id(start): None}
    for node in order:
        if id(node) in came or not _kind(_data(node)):
            continue
        previous = next((x for x in node.inputs if id(x) in came), None)
        if previous is not None:
            came[id(node)] = previous
    if id(loss) not in came:
        return []
    way = [loss]
    while came[id(way[-1])] is not None:
        way.append(came[id(way[-1])])
    return way[::-1]


def _first(a: Array, kind: str) -> tuple[tuple[int, ...], int]:
    """(the index of the first element of a kind, how many there are)."""
    bad = np.isnan(a) if kind == "NaN" else np.isinf(a)
    where = np.argwhere(bad)
    return tuple(int(i) for i in where[0]) if a.ndim else (), int(bad.sum())


def _at(x: Any, shape: tuple[int, ...], index: tuple[int, ...]) -> Any:
    """The number of an input that belongs to an element of an elementwise result; else None."""
    a = _data(x)
    try:
        return np.broadcast_to(a, shape)[index]
    except ValueError:
        return None


def _forward(
    node: Any, loss: Any, names: Names, way: list[Any], aside: list[Any], later: list[Any],
    looked_at: int,
) -> NanReport:  # fmt: skip
    data = _data(node)
    kind = _kind(data)
    index, count = _first(data, kind)
    numbers = _numbers_at(node, index)
    pattern = _pattern(node, kind, numbers, index)
    inputs = tuple(
        (names.get(x, "?"), _shown(x, numbers[i] if i < len(numbers) else None))
        for i, x in enumerate(node.inputs)
    )
    what = f"the first {kind} was made in the forward pass"
    if node.op is None:
        what = f"{kind} was given in {names[node]}"
    lines = [
        f"{what}{_made_by(node, names)}: {pattern}",
        *_where_lines(node, data, index, count, kind),
        *(f"  {name} = {text}" for name, text in dict.fromkeys(inputs)),
        "  reaches the loss: " + _chain([names[n] for n in way]),
        *(_then(n, names) for n in later[:2] if kind == "inf"),
        *_aside_lines(aside, names),
        f"  cure: {_cure(pattern)}",
    ]
    subgraph = (*node.inputs, *way)
    return NanReport(
        kind, "forward", node, None, pattern, _cure(pattern), index, count, data.size, inputs, True,
        subgraph, tuple(_aside_lines(aside, names)), looked_at, _text(lines), loss,
    )  # fmt: skip


def _numbers_at(node: Any, index: tuple[int, ...]) -> list[Any]:
    """The inputs' numbers that an element of an elementwise result was made of; else []."""
    made_of_one = not isinstance(node, Tensor) or (
        node.op is not None and node.op.kind == "elementwise"
    )
    shape = facts.shape_of(node)
    return [_at(x, shape, index) for x in node.inputs] if made_of_one else []


def _then(node: Any, names: Names) -> str:
    """Where an inf became NaN."""
    index, _ = _first(_data(node), "NaN")
    pattern = _pattern(node, "NaN", _numbers_at(node, index), index)
    source = facts.place(node)
    return f"  becomes NaN in {names[node]}" + (f" at {source}" if source else "") + f": {pattern}"


def _chain(names: list[str]) -> str:
    if len(names) > 7:
        names = [*names[:3], f"… {len(names) - 6} more …", *names[-3:]]
    return " → ".join(names)


def _made_by(node: Any, names: Names) -> str:
    if node.op is None:
        return ""
    said = facts.formula(node)
    return f" by {names[node]}, {facts.word(node)}" + (f" ({said})" if said else "")


def _where_lines(
    node: Any, a: Array, index: tuple[int, ...], count: int, kind: str
) -> list[str]:
    lines = []
    source, module = facts.place(node), facts.module_path(node)
    if source:
        lines.append(f"  at {source}" + (f", in {module}" if module else ""))
    if a.ndim:
        lines.append(f"  in {count} of {a.size} elements of shape {a.shape}, first {list(index)}")
    return lines


def _shown(x: Any, at: Any) -> str:
    if at is not None:
        value = facts.number(at)
        return value if facts.is_scalar(x) else f"{value} there, of shape {facts.shape_of(x)}"
    return f"{facts.shape_text(x)}: {facts.health(_data(x))}" if _data(x).ndim else facts.number(
        _data(x)
    )


def _aside_lines(aside: list[Any], names: Names) -> list[str]:
    found = []
    for node in aside[:3]:
        source = facts.place(node)
        place = f" at {source}" if source else ""
        found.append(
            f"  ({_kind(_data(node))} of {names[node]}{place} does not reach the loss: it is "
            "masked, or not chosen)"
        )
    return found


def _text(lines: list[str]) -> str:
    return "\n".join(part for line in lines for part in wrapped(line))


def _cure(pattern: str) -> str:
    for key, cure in _CURES.items():
        if pattern.startswith(key):
            return cure
    return _CURES["inside a sum"]


# What happened, from the operation and the numbers.


def _pattern(node: Any, kind: str, numbers: list[Any], index: tuple[int, ...]) -> str:
    if node.op is None:
        return "a number that was given"
    word = facts.word(node)
    a = float(numbers[0]) if numbers and numbers[0] is not None else None
    b = float(numbers[1]) if len(numbers) > 1 and numbers[1] is not None else None
    if a is not None:
        classify = _PATTERNS.get(word)
        found = classify(a, b) if classify is not None else ""
        if found:
            return found
        if word == "power" and b is None:
            exponent = float(node._params["exponent"]) if isinstance(node, Tensor) else float(
                node.op[2:]
            )
            return _power(a, exponent)
    inputs = [_kind(_data(x)) for x in node.inputs]
    if kind == "NaN" and any(inputs):
        return "inside a sum" if word not in ("add", "subtract", "multiply") else "0·∞"
    return "overflow" if kind == "inf" or not any(inputs) else "inside a sum"


def _log(a: float, b: float | None) -> str:
    return "log 0" if a == 0 else "log of a negative number" if a < 0 else ""


def _divide(a: float, b: float | None) -> str:
    if b == 0:
        return "0/0" if a == 0 else "division by 0"
    return "∞/∞" if np.isinf(a) and b is not None and np.isinf(b) else "overflow"


def _power(a: float, b: float | None) -> str:
    if a < 0 and b is not None and b != int(b):
        return "power of a negative number to a fraction"
    return "0 to a negative power" if a == 0 and b is not None and b < 0 else "overflow"


def _multiply(a: float, b: float | None) -> str:
    zero_by_inf = b is not None and ((a == 0 and np.isinf(b)) or (b == 0 and np.isinf(a)))
    return "0·∞" if zero_by_inf else "overflow"


def _add(a: float, b: float | None) -> str:
    return "∞ - ∞" if np.isinf(a) else "overflow"


def _root(a: float, b: float | None) -> str:
    return "square root of a negative number" if a < 0 else ""


def _limited(a: float, b: float | None) -> str:
    return "outside of its domain" if np.isfinite(a) else ""


_PATTERNS: dict[str, Callable[[float, float | None], str]] = {
    "log": _log, "log2": _log, "log10": _log, "divide": _divide, "multiply": _multiply,
    "add": _add, "subtract": _add, "sqrt": _root, "arcsin": _limited, "arccos": _limited,
    "arctanh": _limited, "arccosh": _limited,
    "log1p": lambda a, b: "log 0" if a == -1 else "log of a negative number" if a < -1 else "",
    "power": lambda a, b: _power(a, b) if b is not None else "",
    "reciprocal": lambda a, b: "division by 0" if a == 0 else "",
}  # fmt: skip


# The backward pass.


def _differentiable(loss: Any, gradient: Any) -> bool:
    if isinstance(loss, Value):
        return loss.op is not None
    tracked = isinstance(loss, Tensor) and loss.requires_grad and loss.op is not None
    return tracked and (loss.size == 1 or gradient is not None)


def _backward(
    loss: Any, gradient: Any, names: Names, aside: list[Any], looked_at: int
) -> NanReport | None:
    log = record(loss, gradient=gradient)
    for event in log:
        upstream = facts.host(event.upstream)
        for use in event.uses:
            looked_at += 1
            piece = facts.host(use.contribution)
            kind = _kind(piece)
            if kind and (not _kind(upstream) or (kind == "NaN" != _kind(upstream))):
                return _born_backward(log, event, use, piece, kind, names, aside, looked_at)
            if not kind and _kind(facts.host(use.after)):
                return _born_backward(
                    log, event, use, facts.host(use.after), _kind(facts.host(use.after)), names,
                    aside, looked_at, summed=True,
                )  # fmt: skip
    return None


def _born_backward(
    log: Log, event: Event, use: Use, piece: Array, kind: str, names: Names, aside: list[Any],
    looked_at: int, summed: bool = False,
) -> NanReport:  # fmt: skip
    node, x = event.node, use.input
    index, count = _first(piece, kind)
    pattern = "overflow" if summed else _pattern_backward(event, use, piece, kind, index)
    way = [n for n in (node, x) if n is not None] + _onwards(log, x)
    leaf = bool(log.gradient(x) is not None)
    number = _at(x, piece.shape, index)
    inputs = ((names.get(x, "?"), _shown(x, number)),)
    lines = [
        f"every value is finite; the first {kind} of the backward pass is made"
        f"{_made_by(node, names)}: {pattern}",
        *_where_lines(node, np.zeros(()), (), 1, kind),
        f"  it hands {kind} to the gradient of {use.name}: {use.formula.names}",
    ]
    if piece.ndim:
        lines.append(f"  in {count} of {piece.size} elements, first {list(index)}")
    lines += [
        *(f"  {name} = {text}" for name, text in inputs),
        f"  upstream: {gradient_text(node, event.upstream)}",
        *_aside_lines(aside, names),
        f"  cure: {_cure(pattern)}",
    ]
    return NanReport(
        kind, "backward", node, use, pattern, _cure(pattern), index, count, piece.size, inputs,
        leaf, tuple(way), tuple(_aside_lines(aside, names)), looked_at, _text(lines), log.root,
    )  # fmt: skip


def _pattern_backward(
    event: Event, use: Use, piece: Array, kind: str, index: tuple[int, ...]
) -> str:
    node, x = event.node, use.input
    word = facts.word(node)
    at = _at(x, piece.shape, index)
    if word == "sqrt" and at == 0:
        return "square root at 0"
    if word in ("log", "log2", "log10") and at == 0:
        return "slope of inf: log at 0"
    if word in ("divide", "reciprocal"):
        return "division by 0" if at == 0 or any((_data(i) == 0).any() for i in node.inputs) else (
            "overflow"
        )
    if word in ("power", "cbrt") and at == 0:
        return "slope of inf: a power below 1 at 0"
    if word in ("arcsin", "arccos", "arctanh", "arccosh") and at is not None:
        return "slope of inf: at the end of its domain"
    return "overflow" if kind == "inf" else "inside a sum"


def _onwards(log: Log, x: Any) -> list[Any]:
    """From x to a leaf, along inputs."""
    way = []
    event = log.event_of(x)
    while event is not None and event.uses:
        x = event.uses[0].input
        way.append(x)
        event = log.event_of(x)
    return way


def _nothing(loss: Any, names: Names, aside: list[Any], order: Sequence[Any]) -> NanReport:
    looked = f"{len(order)} values"
    lines = [f"no NaN and no inf reaches the loss: looked at {looked} and at the backward pass"]
    if not _differentiable(loss, None):
        lines = [f"no NaN and no inf reaches the loss: looked at {looked}; it is not tracked, or "
                 "not one number, so there was no backward pass to look at"]  # fmt: skip
    lines += _aside_lines(aside, names)
    return NanReport(
        "", "", None, None, "", "", (), 0, 0, (), False, (), tuple(_aside_lines(aside, names)),
        len(order), _text(lines), loss,
    )  # fmt: skip
