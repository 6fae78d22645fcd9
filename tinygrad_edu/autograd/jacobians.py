"""Whole matrices of derivatives, and products with the Hessian: `jacobian`, `hessian`, `hvp`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tinygrad_edu.autograd import functions
from tinygrad_edu.autograd.apply import as_tensor
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.autograd.transforms import _name, grad, jvp, vjp
from tinygrad_edu.errors import GraphError, ShapeError

Function = Callable[..., Any]

MOST_ENTRIES = 2**28
"""What `jacobian` makes without being asked twice: 2 GiB of float64."""


def jacobian(
    f: Function, argnum: int = 0, mode: str = "auto", most_entries: int = MOST_ENTRIES
) -> Function:
    """A function that returns ∂f/∂x, of shape (*f(x).shape, *x.shape), at argument `argnum`.

    `mode` "forward" pushes one tangent for each number of x, "reverse" pulls one gradient for each
    number of f(x); "auto" takes whichever there are fewer of. The result can be differentiated.

    Raises:
        ValueError: another mode, or more than `most_entries` numbers, before any is computed.
    """
    if mode not in ("auto", "forward", "reverse"):
        raise ValueError(f"jacobian's mode is 'auto', 'forward' or 'reverse'; got {mode!r}")

    def run(*args: Any, **kwargs: Any) -> Tensor:
        x = as_tensor(args[argnum])

        def of_x(v: Any) -> Any:
            given = list(args)
            given[argnum] = v
            return f(*given, **kwargs)

        out, pull = vjp(of_x, args[argnum])
        _check_size(f, out.shape, x, most_entries)
        forward = mode == "forward" or (mode == "auto" and x.size < out.size)
        shape = (*out.shape, *x.shape)
        if not out.size or not x.size:
            return Tensor(out._namespace.zeros(shape, dtype=out.dtype))
        if forward:
            columns = [jvp(of_x, args[argnum], u)[1] for u in _units(x)]
            return functions.reshape(functions.stack(columns, axis=-1), shape)
        rows = [pull(u) for u in _units(out)]
        return functions.reshape(functions.stack(rows), shape)

    return run


def _units(like: Tensor) -> list[Tensor]:
    """For each number of `like` an array of 0 with a 1 in its place."""
    F = like._namespace
    found = []
    for i in range(like.size):
        unit = F.zeros(like.size, dtype=like.dtype)
        unit[i] = 1
        found.append(Tensor(unit.reshape(like.shape)))
    return found


def _check_size(f: Function, rows: tuple[int, ...], x: Tensor, most: int) -> None:
    entries = math.prod(rows) * x.size
    if entries > most:
        gib = entries * x._data.dtype.itemsize / 2**30
        raise ValueError(
            f"the Jacobian of {_name(f)} would be {rows} by {x.shape}: {entries:,} numbers, "
            f"{gib:.1f} GiB. Use vjp, jvp or hvp for products with it, or pass most_entries="
        )


def hessian(f: Function, argnum: int = 0, most_entries: int = MOST_ENTRIES) -> Function:
    """A function that returns ∂²f/∂x², of shape (*x.shape, *x.shape), of an f that returns one
    number: tangents of the gradient.

    Raises:
        ValueError: more than `most_entries` numbers, before any is computed.
    """
    return jacobian(grad(f, argnum), argnum, "forward", most_entries)


def hvp(f: Function, x: Any, v: Any) -> Tensor:
    """The Hessian of f at x times v, at about four times the cost of f: a tangent of the gradient.

    Raises:
        ShapeError: v is not of the shape of x.
        GraphError: f does not return one number.
    """
    if isinstance(x, (list, tuple)) and any(isinstance(part, Tensor) for part in x):
        raise GraphError(
            "hvp takes one tensor x; for several close over them, or use jvp(grad(f), xs, vs)"
        )
    point, direction = as_tensor(x), as_tensor(v)
    if point.shape != direction.shape:
        raise ShapeError(f"hvp's v has shape {direction.shape}; x has {point.shape}")
    return jvp(grad(f), (point,), (direction,))[1]
