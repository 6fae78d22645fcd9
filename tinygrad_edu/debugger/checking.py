"""Each contribution of a backward pass, held to differences of the operation by itself."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tinygrad_edu.autograd.apply import ABSENT, apply
from tinygrad_edu.autograd.differences import Slope, by_differences
from tinygrad_edu.autograd.modes import no_grad
from tinygrad_edu.autograd.pull import pull_raw
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.debugger.log import Check
from tinygrad_edu.drawing import facts
from tinygrad_edu.scalar.value import Value

if TYPE_CHECKING:
    from tinygrad_edu.debugger.log import Use

__all__ = ["alone", "applied", "check", "check_rule", "handed_on", "local_at"]

Array = Any
_STEP = 2.0**-7
_SIDE = 2.0**-20
_MOST, _LARGEST = 16, 4
"""Entries of an input that are held to differences, one by one; of larger inputs as many, some of
them those with the largest contribution and the others at random."""


def alone(node: Any, slot: int) -> Any:
    """The operation of `node` as a function of its input number `slot` alone, on float64 arrays.

    Inputs that are the same node in other slots stay as they are: each slot has its own share.
    """
    if not isinstance(node, Tensor):
        return _alone_value(node, slot)
    wide = [
        x if x is ABSENT or x.dtype.kind != "f" else Tensor(facts.host(x._data).astype(np.float64))
        for x in node._args
    ]
    present = [i for i, x in enumerate(node._args) if x is not ABSENT]
    at = present[slot] if node.op.kind == "joint" else slot

    def f(array: Array) -> Array:
        args = list(wide)
        args[at] = Tensor(np.asarray(array))
        with no_grad():
            return apply(node.op, *args, **node._params)._data

    return f


def _alone_value(node: Any, slot: int) -> Any:
    numbers = [float(x.data) for x in node.inputs]

    def f(x: Array) -> Array:
        given = list(numbers)
        given[slot] = float(x)
        return np.asarray(applied(node.op, [Value(number) for number in given]).data)

    return f


def applied(op: str, values: list[Value]) -> Value:
    """A `Value` operation on other Values, by its name (`Value.op`)."""
    a, others = values[0], values[1:]
    made: Value
    if op in ("+", "-", "*", "/"):
        b = others[0]
        made = {"+": a + b, "-": a - b, "*": a * b, "/": a / b}[op]
    elif op == "**":
        made = a ** others[0]
    elif op.startswith("**"):
        made = a ** float(op[2:])
    elif op == "neg":
        made = -a
    else:
        made = getattr(a, op)(*others)
    return made


def check(use: Use) -> Check | None:
    """See `log.Use.check`."""
    return check_rule(use.event.node, use.slot, use.event.upstream, use.contribution)


def handed_on(node: Any, slot: int, upstream: Array) -> Array:
    """What a node hands to an input, where `upstream` arrives."""
    if isinstance(node, Value):
        return np.float64(float(upstream) * node.local_derivatives[slot])
    with np.errstate(all="ignore"):
        return pull_raw(node, upstream)[slot]


def check_rule(node: Any, slot: int, upstream: Array, contribution: Array) -> Check | None:
    """Hold what a node hands to one input to differences of its operation.

    At a kink, where the slopes of both sides differ, whatever lies between them is right. None
    where differences cannot be formed: the `clip` of a `Value` does not keep its bounds.
    """
    if facts.op_name(node) == "clip" and not isinstance(node, Tensor):
        return None
    g = facts.host(upstream).astype(np.float64)
    f = alone(node, slot)
    at = facts.host(node.inputs[slot].data).astype(np.float64)
    whole = facts.host(contribution).astype(np.float64).reshape(-1)
    entries = _judged(whole)
    got = whole[entries]
    wanted, size, error = (np.zeros(len(entries)) for _ in range(3))
    with np.errstate(all="ignore"):
        for k, entry in enumerate(entries.tolist()):
            slope = _slope(f, at, entry)
            # Where nothing arrives nothing is handed on, be the slope NaN (of a mask's -inf).
            terms, doubts = (np.where(g == 0, 0.0, g * s) for s in (slope.value, slope.error))
            wanted[k], size[k], error[k] = terms.sum(), np.abs(terms).sum(), np.abs(doubts).sum()
    eps = float(np.finfo(facts.host(contribution).dtype).eps)
    # Rounding of terms that cancel inside an operation (a softmax's) is as large as those terms:
    # an entry is judged beside the largest of them.
    scale = max(float(size.max(initial=0.0)), float(np.abs(whole).max(initial=0.0)))
    off = np.abs(got - wanted)
    bad = ~(off <= 256 * eps * scale + error + 1e-7 * size)
    kink = False
    for k in np.flatnonzero(bad).tolist():
        with np.errstate(all="ignore"):
            low, high = _sides(f, at, int(entries[k]), g)
        room = 1e-5 * max(abs(low), abs(high), scale)
        if high - low > room and low - room <= got[k] <= high + room:
            bad[k], off[k], kink = False, 0.0, True
    numeric, said = (
        (float(x[0]) if at.ndim == 0 else facts.norm(x)) for x in (wanted, got)
    )
    largest = float(off.max(initial=0.0))
    error_share = largest / scale if largest else 0.0
    return Check(numeric, said, error_share, not bad.any(), len(entries), whole.size, kink)


def local_error(node: Any) -> float | None:
    """The largest relative error of what a node's rule hands to its inputs, against differences;
    0 where it agrees at a kink. Where no gradient has arrived, for an upstream gradient of ones.
    None for a leaf, and where no input takes a gradient.
    """
    if node.op is None or (isinstance(node, Tensor) and not node.requires_grad):
        return None
    upstream = facts.gradient(node)
    if upstream is None or not np.isfinite(upstream).all():
        upstream = np.ones_like(np.asarray(facts.host(node.data), np.float64))
    errors = []
    for slot, x in enumerate(node.inputs):
        contribution = None
        if not isinstance(x, Tensor) or x.requires_grad:
            contribution = handed_on(node, slot, upstream)
        if contribution is not None:
            found = check_rule(node, slot, upstream, contribution)
            if found is not None:
                errors.append(math.nan if math.isnan(found.error) else found.error)
    return max(errors, default=None)


def _unit(at: Array, entry: int) -> Array:
    v = np.zeros(at.shape)
    v.reshape(-1)[entry] = 1.0
    return v


def _slope(f: Any, at: Array, entry: int) -> Slope:
    """Differences over a usual step; beside 0, where a domain may end (√ of 0.0003), over one much
    shorter than the number itself, wherever that is good to four digits.
    """
    v, x = _unit(at, entry), float(at.reshape(-1)[entry])
    usual = by_differences(f, [at], [v], step=_STEP)
    if x == 0 or abs(x) > 2 * _STEP:
        return usual
    short = by_differences(f, [at], [v], step=_STEP * abs(x))
    good = short.error <= 1e-4 * np.abs(short.value)
    return Slope(
        np.where(good, short.value, usual.value), np.where(good, short.error, usual.error)
    )


def _sides(f: Any, at: Array, entry: int, g: Array) -> tuple[float, float]:
    """The least and the greatest of what the slopes of both sides make of `g`."""
    h = _SIDE * max(1.0, abs(float(at.reshape(-1)[entry])))
    v = _unit(at, entry) * h
    here = np.asarray(f(at))
    ahead, behind = (np.asarray(f(at + v)) - here) / h, (here - np.asarray(f(at - v))) / h
    sides = [np.where(g == 0, 0.0, g * s) for s in (ahead, behind)]
    return float(np.minimum(*sides).sum()), float(np.maximum(*sides).sum())


def _judged(contribution: Array) -> Array:
    """Which entries (flat) are held to differences."""
    if contribution.size <= _MOST:
        return np.arange(contribution.size)
    largest = np.argsort(-np.abs(np.nan_to_num(contribution)), kind="stable")[:_LARGEST]
    others = np.random.default_rng(0).choice(contribution.size, _MOST - _LARGEST, replace=False)
    return np.unique(np.concatenate([largest, others]))


def local_at(use: Use, at: tuple[int, ...]) -> float:
    """The local derivative of an elementwise operation at one element of its result: what its rule
    hands on where 1 arrives at that element alone.
    """
    node = use.event.node
    one = np.zeros(node.shape, node.dtype)
    one[at] = 1
    return float(np.sum(facts.host(handed_on(node, use.slot, one))))
