"""`gradcheck`: everything about one function at one point, called as PyTorch's is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.testing.checks import check_jvp, check_second_order, check_vjp
from tinygrad_edu.testing.errors import DerivativeError


def gradcheck(
    fn: Callable[..., Any],
    inputs: Any,
    *,
    eps: float | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = True,
    check_forward_ad: bool = True,
    fast_mode: bool = False,
    check_second: bool = True,
    **options: Any,
) -> bool:
    """True where first derivatives in both modes, and second ones, of fn at `inputs` are right.

    `inputs` is one tensor, array, number or list of numbers, or a tuple of them. Tensors that are
    not tracked, integers and bools are held fixed, as in PyTorch; if no tensor is tracked, all
    floats are checked. Where fn returns several tensors, each is checked.

    `eps`, `atol`, `rtol`, `nondet_tol`, `check_undefined_grad`, `check_grad_dtypes` and
    `fast_mode` are taken for PyTorch's sake and change nothing: what is allowed is a number of
    roundings of the terms that were added, dtypes always count, and the oracle chooses its own
    steps. Further options are those of `check_vjp` (`roundings`, `inner`, `step`, `seed`).

    Raises:
        DerivativeError: what is wrong, unless `raise_exception` is False.
        TypeError: nothing among the inputs that could be checked.
    """
    several = isinstance(inputs, tuple) or (
        isinstance(inputs, list) and any(hasattr(x, "dtype") for x in inputs)
    )
    given = list(inputs) if several else [inputs]
    moving = _moving(given)
    if not moving:
        raise TypeError("gradcheck was given no floating input: there is nothing to differentiate")

    def call(*xs: Any) -> Any:
        filled = list(given)
        for i, x in zip(moving, xs, strict=True):
            filled[i] = x
        return fn(*filled)

    points = [_array(given[i]) for i in moving]
    try:
        for part in _parts(call, points):
            check_vjp(part, *points, **options)
            if check_forward_ad:
                check_jvp(part, *points, **options)
            if check_second:
                second = {k: v for k, v in options.items() if k in ("g", "seed", "step")}
                check_second_order(part, *points, **second)
    except DerivativeError:
        if raise_exception:
            raise
        return False
    return True


def _array(x: Any) -> Any:
    data = x._data if isinstance(x, Tensor) else x
    return data if hasattr(data, "dtype") else np.asarray(data, dtype=np.float64)


def _moving(given: Sequence[Any]) -> list[int]:
    tracked = [i for i, x in enumerate(given) if isinstance(x, Tensor) and x.requires_grad]
    if tracked:
        return tracked
    return [
        i for i, x in enumerate(given)
        if not isinstance(x, (bool, int, np.integer)) and _kind(x) == "f"
    ]  # fmt: skip


def _kind(x: Any) -> str:
    kind: str = _array(x).dtype.kind
    return kind


def _parts(call: Callable[..., Any], points: Sequence[Any]) -> list[Callable[..., Any]]:
    """`call`, or one function an output where there are several."""
    out = call(*[Tensor(x) for x in points])
    if not isinstance(out, (tuple, list)):
        return [call]
    return [lambda *xs, k=k: call(*xs)[k] for k, o in enumerate(out) if isinstance(o, Tensor)]
