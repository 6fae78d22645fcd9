"""What a gradient has to be before its numbers are looked at: form, purity, linearity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tinygrad_edu.testing import errors
from tinygrad_edu.testing.compare import Expected, describe, excess
from tinygrad_edu.testing.oracle import Oracle
from tinygrad_edu.testing.subject import Pull, Traced

Array = npt.NDArray[Any]
Gradients = list[Array | None]


def check_pure(pull: Pull, arrays: Sequence[Array], g: Array) -> Gradients:
    """The gradients, made without writing to an input or to g."""
    inputs, upstream = [x.tobytes() for x in arrays], g.tobytes()
    found = pull(g)
    for k, (x, before) in enumerate(zip(arrays, inputs, strict=True)):
        if x.tobytes() != before:
            raise errors.MutatedInput(f"input {k} was written to by the backward pass")
    if g.tobytes() != upstream:
        raise errors.MutatedCotangent("the upstream gradient was written to by the backward pass")
    return found


def check_form(found: Gradients, arrays: Sequence[Array], g: Array, *, finite: bool) -> None:
    """Shape, dtype, memory, and no NaN or inf where `finite` says there is no reason for one."""
    for k, (d, x) in enumerate(zip(found, arrays, strict=True)):
        if d is None:
            continue
        if d.shape != x.shape:
            raise errors.GradShapeError(f"input {k} is {x.shape}, its gradient {d.shape}")
        if d.dtype != x.dtype:
            raise errors.GradDtypeError(f"input {k} is {x.dtype}, its gradient {d.dtype}")
        if finite and np.isfinite(x).all() and np.isnan(d).any():
            raise errors.GradNaN(f"the gradient to input {k} is NaN at {_first(np.isnan(d))}")
        if finite and np.isfinite(x).all() and np.isinf(d).any():
            raise errors.GradInf(f"the gradient to input {k} is infinite at {_first(np.isinf(d))}")
        others = [g, *arrays, *(e for e in found[:k] if e is not None)]
        if any(d.flags.writeable and np.shares_memory(d, other) for other in others):
            raise errors.AliasedGradient(
                f"the gradient to input {k} shares memory with an input, with g or with another "
                "gradient; return a copy"
            )


def check_same_value(first: Array, second: Array) -> None:
    """Run twice on the same input, a function gives the same bits."""
    if not _same(first, second):
        raise errors.NotDeterministic(
            "the function gave two different values for the same input: let it draw random numbers "
            "from a generator that it makes anew each time, or hold them outside"
        )


def check_repeats(pull: Pull, found: Gradients, g: Array) -> None:
    """The same call, the same bits."""
    for k, (d, e) in enumerate(zip(found, pull(g), strict=True)):
        if not _same(d, e):
            raise errors.NotReentrant(f"the gradient to input {k} changed from call to call")


def check_accumulates(traced: Traced, g: Array) -> None:
    """Two passes into the leaves add up."""
    once = [None if d is None else d.copy() for d in traced.pull(g)]
    for k, (d, e) in enumerate(zip(once, traced.add(g), strict=True)):
        if not _same(None if d is None else d + d, e):
            raise errors.NotAccumulated(f"after a second pass, input {k} does not hold the sum")


def check_scales(pull: Pull, found: Gradients, g: Array) -> None:
    """Twice g, minus g and no g at all: exact in binary, so to the bit."""
    for factor in (2.0, -1.0, 0.0):
        for k, (d, e) in enumerate(zip(found, pull(g * g.dtype.type(factor)), strict=True)):
            if d is None or e is None:
                continue
            if not np.array_equal(e, d * d.dtype.type(factor), equal_nan=factor != 0):
                raise errors.GradNotLinear(
                    f"the gradient to input {k} for {factor:g}·g is not {factor:g} times that for g"
                )


def check_adds(pull: Pull, oracle: Oracle, g: Array, h: Array, roundings: float) -> None:
    """The gradient for g + h is that for g plus that for h."""
    parts = zip(pull(g), pull(h), pull(g + h), strict=True)
    for k, (for_g, for_h, for_both) in enumerate(parts):
        if for_g is None or for_h is None or for_both is None:
            continue
        at = oracle.entries[k]
        size = oracle.gradient(k, g).size + oracle.gradient(k, h).size
        added = for_g.astype(np.float64) + for_h
        own = np.abs(for_g.astype(np.float64)) + np.abs(for_h)
        size = size + own.reshape(-1)[at]
        want = Expected(added.reshape(-1)[at], size, np.zeros(size.shape))
        got = for_both.reshape(-1)[at]
        bad = excess(got, want, roundings)
        if bad.any():
            raise errors.GradNotLinear(
                f"the gradient to input {k} for g + h is not the sum of those for g and h "
                f"{describe(got, want, bad, 'adding them')}"
            )


def _same(d: Array | None, e: Array | None) -> bool:
    if d is None or e is None:
        return d is e
    return d.shape == e.shape and d.dtype == e.dtype and d.tobytes() == e.tobytes()


def _first(bad: Array) -> list[int]:
    return [int(i) for i in np.argwhere(bad)[0]]
