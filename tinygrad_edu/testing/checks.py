"""`check_vjp`, `check_jvp`, `check_second_order`: is this derivative right?

A function maps tensors to one tensor. Each check returns a `Report`, or raises the subclass of
`DerivativeError` that says what is wrong, where, and with which call it shows again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tinygrad_edu.autograd import transforms
from tinygrad_edu.testing import errors, form
from tinygrad_edu.testing.compare import Expected, Report, describe, digits, excess
from tinygrad_edu.testing.kinks import any_kink, still_bad, tangent_still_bad
from tinygrad_edu.testing.local import explain
from tinygrad_edu.testing.oracle import Oracle
from tinygrad_edu.testing.second_order import hessian
from tinygrad_edu.testing.subject import (
    Traced,
    by_hand,
    directions,
    numbers,
    points,
    reproducible,
    upstream,
)

Array = npt.NDArray[Any]
Function = Callable[..., Any]

# Wide enough for any rounding seen, narrow enough for a formula off in its tenth digit.
_ROUNDINGS = 64.0
_SECOND_ROUNDINGS = 1024.0
_STEP = 2.0**-5


def check_vjp(
    f: Function,
    *xs: Any,
    g: Any = None,
    vjp: Function | None = None,
    roundings: float = _ROUNDINGS,
    inner: float = 0.0,
    step: float = _STEP,
    seed: int = 0,
    localise: bool = True,
) -> Report:
    """Hold the gradients of ⟨g, f(*xs)⟩ to an oracle that knows values only.

    Checked: shape and dtype are the input's; inputs and g are left as they were; no memory is
    shared; finite points give finite gradients; the same call gives the same bits; linear in g,
    with g = 0 giving 0; a second pass adds; and every number is right. At a kink, where the slopes
    of both sides differ, whatever lies between them is right (`check_convention` pins it).

    Args:
        f: tensors to one tensor, differentiable (no kink) within `step` of xs.
        xs: arrays, tensors or numbers, all floating.
        g: upstream gradient in the output's shape; dyadic numbers, not all equal, by default.
        vjp: a rule by hand, `vjp(g, *xs)` on arrays, to be judged instead of the engine's.
        roundings: how many roundings of the terms added a number may be off.
        inner: for a function inside which terms cancel that its derivative does not show: they
            are taken to be at least this share of the largest in the same array.
        step: the largest move of an input, where the oracle is differences.
        seed: of the default g.
        localise: where a number is wrong, look for the operation of f that is wrong by itself.

    Raises:
        DerivativeError: the first thing found wrong, as one of its subclasses.
    """
    arrays = points(xs)
    rng = np.random.default_rng(seed)
    traced = Traced(f, arrays)
    given = upstream(traced.out, g, rng)
    pull = traced.pull if vjp is None else by_hand(vjp, arrays)
    with reproducible("check_vjp", arrays, given):
        finite = np.isfinite(traced.out._data).all() and np.isfinite(given).all()
        found = form.check_pure(pull, arrays, given)
        form.check_form(found, arrays, given, finite=bool(finite))
        form.check_repeats(pull, found, given)
        if vjp is None:
            again = Traced(f, arrays)
            form.check_same_value(traced.out._data, again.out._data)
            form.check_repeats(again.pull, found, given)
            form.check_accumulates(traced, given)
        form.check_scales(pull, found, given)
        oracle = Oracle(f, arrays, step, seed, inner)
        form.check_adds(pull, oracle, given, numbers(given.shape, given.dtype, rng), roundings)
        try:
            agreed = [
                _check_gradient(k, d, oracle, given, roundings) for k, d in enumerate(found)
            ]
        except errors.GradValueError as error:
            if vjp is None and localise:
                explain(f, arrays, error)
            raise
        if not oracle.complete:
            _check_projections(found, oracle, given, rng, roundings)
    return Report("vjp", oracle.name, tuple(agreed), sum(e.size for e in oracle.entries))


def _check_gradient(
    k: int, got: Array | None, oracle: Oracle, g: Array, roundings: float
) -> float:
    want = oracle.gradient(k, g)
    if got is None:
        if (want.value != 0).any():
            raise errors.GradMissing(
                f"input {k} gets no gradient, but the output depends on it: "
                f"{describe(np.zeros(want.value.shape), want, want.value != 0, oracle.name)}"
            )
        return digits(want.value, want)
    flat = got.reshape(-1)[oracle.entries[k]]
    bad = excess(flat, want, roundings)
    if bad.any():
        bad = still_bad(oracle, k, g, flat, bad, roundings)
    if bad.any():
        raise errors.GradValueError(
            f"the gradient to input {k} of shape {got.shape} is wrong (entries counted flat) "
            f"{describe(flat, want, bad, oracle.name)}"
        )
    return digits(flat, want)


def _check_projections(
    found: form.Gradients, oracle: Oracle, g: Array, rng: np.random.Generator, roundings: float
) -> None:
    """What was not judged one by one, in three random directions."""
    for _ in range(3):
        us = [numbers(x.shape, np.float64, rng) for x in oracle.xs]
        slope = oracle.along(us)
        terms = [
            d.astype(np.float64) * u for d, u in zip(found, us, strict=True) if d is not None
        ]
        got = np.asarray(sum(t.sum() for t in terms), dtype=g.dtype)
        size = sum(np.abs(t).sum() for t in terms) + np.abs(g * slope.value).sum()
        want = Expected(
            np.asarray((g * slope.value).sum()), np.asarray(size), (np.abs(g) * slope.error).sum()
        )
        bad = excess(got, want, roundings)
        if bad.any():
            raise errors.GradValueError(
                f"a projection of the gradients is wrong {describe(got, want, bad, oracle.name)}"
            )


def check_jvp(
    f: Function,
    *xs: Any,
    us: Sequence[Any] | None = None,
    g: Any = None,
    roundings: float = _ROUNDINGS,
    inner: float = 0.0,
    step: float = _STEP,
    seed: int = 0,
) -> Report:
    """Hold the tangent of f at xs along us to an oracle, and to vjp: ⟨g, J u⟩ = ⟨Jᵀ g, u⟩.

    Args are those of `check_vjp`; `us` has one array an input, dyadic and away from 0 by default.

    Raises:
        DerivativeError: the first thing found wrong, as one of its subclasses.
    """
    arrays = points(xs)
    rng = np.random.default_rng(seed)
    traced = Traced(f, arrays)
    given = upstream(traced.out, g, rng)
    moves = directions(arrays, us, rng)
    with reproducible("check_jvp", arrays, given):
        before = [x.tobytes() for x in (*arrays, *moves)]
        got = transforms.jvp(f, arrays, moves)[1]._data
        if [x.tobytes() for x in (*arrays, *moves)] != before:
            raise errors.MutatedInput("jvp wrote to an input or a tangent")
        like = traced.out._data
        if got.shape != like.shape:
            raise errors.TangentShapeError(f"the tangent is {got.shape}, the output {like.shape}")
        if got.dtype != like.dtype:
            raise errors.TangentDtypeError(f"the tangent is {got.dtype}, the output {like.dtype}")
        oracle = Oracle(f, arrays, step, seed, inner)
        want = oracle.tangent(moves, like.shape)
        bad = excess(got, want, roundings)
        if bad.any():
            bad = tangent_still_bad(oracle, moves, got, bad, roundings)
        if bad.any():
            raise errors.TangentValueError(
                f"the tangent of shape {got.shape} is wrong "
                f"{describe(got, want, bad, oracle.name)}"
            )
        _check_adjoint(traced, given, moves, got, want)
    return Report("jvp", oracle.name, (digits(got, want),), got.size)


def _check_adjoint(
    traced: Traced, g: Array, us: Sequence[Array], tangent: Array, want: Expected
) -> None:
    pushed = g.astype(np.float64) * tangent
    pulled = [
        d.astype(np.float64) * u for d, u in zip(traced.pull(g), us, strict=True) if d is not None
    ]
    left, right = pushed.sum(), sum(p.sum() for p in pulled)
    # Cancellation inside J u is in want.size, that inside Jᵀ g in the terms of the other product.
    size = (np.abs(g) * want.size).sum() + sum(np.abs(p).sum() for p in pulled)
    count = pushed.size + sum(p.size for p in pulled)
    if not abs(left - right) <= 8 * count * np.finfo(g.dtype).eps * size:
        raise errors.AdjointMismatch(
            f"⟨g, J u⟩ is {left!r} by jvp, ⟨Jᵀ g, u⟩ is {right!r} by vjp; the two have to be equal"
        )


def check_adjoint(
    f: Function, *xs: Any, us: Sequence[Any] | None = None, g: Any = None, seed: int = 0
) -> None:
    """Hold jvp and vjp to each other at one point: ⟨g, J u⟩ = ⟨Jᵀ g, u⟩, with no oracle at all.

    Raises:
        AdjointMismatch: the two products differ by more than the rounding of their terms.
    """
    arrays = points(xs)
    rng = np.random.default_rng(seed)
    traced = Traced(f, arrays)
    given = upstream(traced.out, g, rng)
    moves = directions(arrays, us, rng)
    with reproducible("check_adjoint", arrays, given):
        tangent = transforms.jvp(f, arrays, moves)[1]._data
        size = np.abs(tangent)
        _check_adjoint(traced, given, moves, tangent, Expected(tangent, size, np.zeros(size.shape)))


def check_second_order(
    f: Function,
    *xs: Any,
    g: Any = None,
    us: Sequence[Any] | None = None,
    roundings: float = _SECOND_ROUNDINGS,
    step: float = _STEP,
    seed: int = 0,
) -> Report:
    """Hold H u, H the Hessian of ⟨g, f⟩ at xs, to differences of the gradient, however it is made.

    The ways: a gradient of the gradient, a tangent of the gradient, a gradient of the tangent, and,
    for ⟨u, H u⟩, a tangent of the tangent. H has to be symmetric too. At a kink
    there is no H: the report then says that nothing was judged.

    Raises:
        HessianValueError: one of them is wrong. The gradient itself is for `check_vjp` to judge.
        HessianAsymmetry: ⟨v, H u⟩ is not ⟨u, H v⟩.
    """
    arrays = points(xs)
    rng = np.random.default_rng(seed)
    given = upstream(Traced(f, arrays).out, g, rng)
    moves = directions(arrays, us, rng)
    with reproducible("check_second_order", arrays, given):
        try:
            return hessian(f, arrays, given, moves, rng, roundings, step)
        except (errors.HessianValueError, errors.HessianAsymmetry):
            if any_kink(Oracle(f, arrays, step, seed, 0.0)):
                return Report("second order", "none: the point is a kink", (), 0)
            return hessian(f, arrays, given, moves, rng, roundings, step / 2**8)


check_hessian = check_second_order
