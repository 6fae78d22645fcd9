"""New tensors. `shape` may be given as a tuple or as separate numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_edu import backend
from tinygrad_edu.autograd.functions.arguments import shape_of
from tinygrad_edu.autograd.modes import default_generator
from tinygrad_edu.autograd.tensor import Tensor, get_default_dtype
from tinygrad_edu.errors import GraphError


def tensor(
    data: Any, dtype: Any = None, requires_grad: bool = False, name: str | None = None
) -> Tensor:
    """A tensor of its own copy of `data`; Python numbers and lists become float32.

    Raises:
        DTypeError: not numbers, or `requires_grad` on integers.
        ShapeError: rows of different lengths.
        GraphError: a tracked tensor, whose history would be lost.
    """
    if isinstance(data, Tensor):
        if data.requires_grad:
            raise GraphError(
                f"tensor() copies numbers and would lose the history of {data.label()}; use it as "
                "it is, or copy it with tensor(x.detach())"
            )
        data = data._data
    if backend.is_array(data):
        data = data.copy()
    return Tensor(data, requires_grad=requires_grad, name=name, dtype=dtype)


def zeros(*shape: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros, float32 unless said otherwise."""
    return full(shape_of(shape), 0, dtype, requires_grad)


def ones(*shape: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones, float32 unless said otherwise."""
    return full(shape_of(shape), 1, dtype, requires_grad)


def full(shape: Any, value: float, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """`value` everywhere."""
    size = shape_of((shape,) if isinstance(shape, (int, np.integer)) else (tuple(shape),))
    array = backend.default_namespace().full(size, value, dtype=dtype or get_default_dtype())
    return Tensor(array, requires_grad=requires_grad)


def eye(n: int, m: int | None = None, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones on the diagonal of an n × m matrix (n × n), zeros elsewhere."""
    array = backend.default_namespace().eye(n, m, dtype=dtype or get_default_dtype())
    return Tensor(array, requires_grad=requires_grad)


def arange(
    start: float, stop: float | None = None, step: float = 1, dtype: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Evenly spaced numbers: whole numbers give integers, as in NumPy, others the default dtype."""
    if stop is None:
        start, stop = 0, start
    if dtype is None and any(isinstance(v, float) for v in (start, stop, step)):
        dtype = get_default_dtype()
    array = backend.default_namespace().arange(start, stop, step, dtype=dtype)
    return Tensor(array, requires_grad=requires_grad)


def randn(
    *shape: Any, dtype: Any = None, requires_grad: bool = False,
    generator: np.random.Generator | None = None,
) -> Tensor:  # fmt: skip
    """Draws of N(0, 1); drawn on the host, so every backend gets the same numbers."""
    draw = (generator or default_generator()).standard_normal(shape_of(shape))
    return _drawn(draw, dtype, requires_grad)


def rand(
    *shape: Any, dtype: Any = None, requires_grad: bool = False,
    generator: np.random.Generator | None = None,
) -> Tensor:  # fmt: skip
    """Draws of the uniform distribution on [0, 1)."""
    return _drawn((generator or default_generator()).random(shape_of(shape)), dtype, requires_grad)


def _drawn(draw: Any, dtype: Any, requires_grad: bool) -> Tensor:
    array = np.asarray(draw).astype(dtype or get_default_dtype())
    return Tensor(backend.default_namespace().asarray(array), requires_grad=requires_grad)
