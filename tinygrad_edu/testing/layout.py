"""How an array lies in memory, and which library holds it, changes no gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tinygrad_edu import backend
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.testing import errors
from tinygrad_edu.testing.subject import Traced, by_hand, points, reproducible, upstream

Array = npt.NDArray[Any]

# Sums over another order of numbers differ by roundings of their terms.
_ROUNDINGS = 64.0


def backwards(x: Array) -> Array:
    """The same numbers, walked from the end."""
    flip = (slice(None, None, -1),) * x.ndim
    found: Array = x[flip].copy()[flip]
    return found


def gaps(x: Array) -> Array:
    """Every other element of a larger array."""
    wide = np.zeros([2 * n for n in x.shape], x.dtype)
    every = (slice(None, None, 2),) * x.ndim
    wide[every] = x
    found: Array = wide[every]
    return found


def unaligned(x: Array) -> Array:
    """One byte beside where a number should start."""
    found = np.empty(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    found[...] = x
    return np.asarray(found)


def frozen(x: Array) -> Array:
    """Read-only."""
    found = x.copy()
    found.flags.writeable = False
    return found


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "by columns": np.asfortranarray, "backwards": backwards, "with gaps": gaps,
    "unaligned": unaligned, "read-only": frozen,
}  # fmt: skip


def check_layout(
    f: Callable[..., Any],
    *xs: Any,
    g: Any = None,
    vjp: Callable[..., Any] | None = None,
    seed: int = 0,
) -> None:
    """Hold the gradients of f to be the same whether inputs and upstream gradient are contiguous,
    by columns, backwards, with gaps, unaligned or read-only.

    Raises:
        LayoutDependent: they are not, or an error in one layout alone.
    """
    arrays = points(xs)
    traced = Traced(f, arrays)
    given = upstream(traced.out, g, np.random.default_rng(seed))
    with reproducible("check_layout", arrays, given):
        want = _gradients(f, arrays, given, vjp)
        for name, lay in LAYOUTS.items():
            moved = [lay(x) if x.ndim else x for x in arrays]
            seed_g = lay(given) if given.ndim else given
            try:
                found = _gradients(f, moved, seed_g, vjp)
            except (ValueError, TypeError, RuntimeError) as error:
                raise errors.LayoutDependent(f"arrays {name} are refused: {error}") from error
            _compare(found, want, f"with arrays {name}", errors.LayoutDependent)


def check_backend(
    f: Callable[..., Any], *xs: Any, to: str = "cuda", g: Any = None, seed: int = 0
) -> None:
    """Hold the gradients of f on another array library (`to`: "cuda", or a name that
    `backend.add_array_library` was given) to NumPy's: shape, dtype, NaN and, to rounding, numbers.

    Raises:
        BackendMismatch: they differ.
    """
    arrays = points(xs)
    given = upstream(Traced(f, arrays).out, g, np.random.default_rng(seed))
    want = _gradients(f, arrays, given, None)
    other = backend.namespace_named(to)
    leaves = [Tensor(other.asarray(x), requires_grad=True) for x in arrays]
    f(*leaves).backward(Tensor(other.asarray(given)))
    found = [None if x.grad is None else other.to_numpy(x.grad._data) for x in leaves]
    _compare(found, want, f"on {to}", errors.BackendMismatch)


def _gradients(
    f: Callable[..., Any], arrays: Sequence[Array], g: Array, vjp: Callable[..., Any] | None
) -> list[Array | None]:
    pull = Traced(f, arrays).pull if vjp is None else by_hand(vjp, arrays)
    return [None if d is None else np.array(d) for d in pull(g)]


def _compare(
    found: Sequence[Array | None], want: Sequence[Array | None], where: str, kind: Any
) -> None:
    for k, (d, e) in enumerate(zip(found, want, strict=True)):
        if d is None or e is None:
            if d is not e:
                raise kind(f"the gradient to input {k} is there in one of two cases only, {where}")
            continue
        if d.shape != e.shape or d.dtype != e.dtype:
            raise kind(f"the gradient to input {k} is {d.dtype} {d.shape} {where}, not {e.dtype} "
                       f"{e.shape}")  # fmt: skip
        wide, size = e.astype(np.float64), np.abs(e[np.isfinite(e)]).max(initial=0)
        allowed = _ROUNDINGS * float(np.finfo(e.dtype).eps) * float(size)
        with np.errstate(invalid="ignore"):
            near = np.abs(d.astype(np.float64) - wide) <= allowed
        if not (near | (d == e) | (np.isnan(d) & np.isnan(e))).all():
            raise kind(f"the gradient to input {k} has other numbers {where}")
