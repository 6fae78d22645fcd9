"""What is checked: points, upstream gradients and directions, and the gradients that come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from tinygrad_edu.autograd.modes import enable_grad
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.errors import DTypeError
from tinygrad_edu.testing import errors

Array = npt.NDArray[Any]
Pull = Callable[[Array], list[Array | None]]

# Dyadic and away from 0: products with them are short numbers, and none hides an entry.
_NUMBERS = (-2.0, -1.0, -0.5, 0.5, 1.0, 2.0)


def points(xs: Sequence[Any]) -> list[Array]:
    """The inputs as float arrays of the check's own; Python numbers and lists become float64.

    Raises:
        DTypeError: an input of integers, which has no derivative: close the function over it.
    """
    found = []
    for k, x in enumerate(xs):
        data = x._data if isinstance(x, Tensor) else x
        given = hasattr(data, "dtype")
        array = np.array(data) if given else np.array(data, dtype=np.float64)
        if array.dtype.kind != "f":
            raise DTypeError(
                f"input {k} is of {array.dtype}; derivatives are checked for floats: let the "
                "function hold its integers itself"
            )
        found.append(array)
    return found


def numbers(shape: tuple[int, ...], dtype: Any, rng: np.random.Generator) -> Array:
    """Dyadic numbers away from 0, not all equal where there is more than one."""
    drawn = np.asarray(rng.choice(_NUMBERS, size=shape))
    flat = drawn.reshape(-1)
    if flat.size > 1 and (flat == flat[0]).all():
        flat[0] = -2.0 if flat[0] != -2.0 else 0.5
    return drawn.astype(dtype)


class Traced:
    """A function run once on leaves of its own; `pull(g)` is a backward pass through that graph."""

    def __init__(self, f: Callable[..., Any], arrays: Sequence[Array]) -> None:
        self.leaves = [Tensor(x, requires_grad=True) for x in arrays]
        before = [x.tobytes() for x in arrays]
        with enable_grad():
            out = f(*self.leaves)
        for k, (x, held) in enumerate(zip(arrays, before, strict=True)):
            if x.tobytes() != held:
                raise errors.MutatedInput(f"input {k} was written to by the function")
        if not isinstance(out, Tensor):
            raise TypeError(f"the function returned {type(out).__name__}; expected one tensor")
        self.out = out

    def pull(self, g: Array) -> list[Array | None]:
        """The gradient of ⟨g, f⟩ at each leaf; None where no gradient arrived."""
        for leaf in self.leaves:
            leaf.zero_grad()
        return self.add(g)

    def add(self, g: Array) -> list[Array | None]:
        """`pull`, on top of what the leaves hold already."""
        if not self.out.requires_grad:
            return [None] * len(self.leaves)
        self.out.backward(Tensor(g))
        found = [leaf.grad for leaf in self.leaves]
        return [None if d is None else d._data for d in found]


def by_hand(vjp: Callable[..., Any], arrays: Sequence[Array]) -> Pull:
    """A rule vjp(g, *xs) that someone wrote, as a pull; it returns one array or a tuple of them."""

    def pull(g: Array) -> list[Array | None]:
        made = vjp(g, *arrays)
        pieces = list(made) if isinstance(made, (tuple, list)) else [made]
        if len(pieces) != len(arrays):
            raise TypeError(f"the rule returned {len(pieces)} gradients for {len(arrays)} inputs")
        return [
            None if d is None else d._data if isinstance(d, Tensor) else np.asarray(d)
            for d in pieces
        ]

    return pull


def upstream(out: Tensor, g: Any, rng: np.random.Generator) -> Array:
    """The upstream gradient g in the output's dtype; by default dyadic numbers, not all equal."""
    if out._data.dtype.kind != "f":
        raise TypeError(f"the function returned {out.dtype}; a derivative needs floats")
    if g is None:
        return numbers(out.shape, out.dtype, rng)
    given = np.array(g._data if isinstance(g, Tensor) else g, dtype=out.dtype)
    if given.shape != out.shape:
        raise ValueError(f"g has shape {given.shape}; the function's output has {out.shape}")
    return given


def directions(
    arrays: Sequence[Array], us: Sequence[Any] | None, rng: np.random.Generator
) -> list[Array]:
    """One direction an input, in its dtype; by default dyadic numbers away from 0."""
    if us is None:
        return [numbers(x.shape, x.dtype, rng) for x in arrays]
    if len(us) != len(arrays):
        raise ValueError(f"us has {len(us)} arrays; the function was given {len(arrays)} inputs")
    return [np.array(u, dtype=x.dtype) for u, x in zip(us, arrays, strict=True)]


@contextmanager
def reproducible(check: str, arrays: Sequence[Array], g: Array) -> Iterator[None]:
    """Add to a failure the call that shows it again."""
    try:
        yield
    except errors.DerivativeError as error:
        with np.printoptions(floatmode="unique", threshold=200):
            shown = ", ".join(f"np.{x!r}" for x in arrays)
            error.add_note(f"again: {check}(f, {shown}, g=np.{g!r})")
        raise
