"""Tensors like others, and comparisons: nothing here is tracked."""

from __future__ import annotations

from typing import Any

from tinygrad_edu.autograd.apply import as_tensor
from tinygrad_edu.autograd.tensor import Tensor, as_array


def zeros_like(x: Any, dtype: Any = None) -> Tensor:
    """Zeros in the shape, dtype and library of x."""
    x = as_tensor(x)
    return Tensor(x._namespace.zeros_like(x._data, dtype=dtype))


def ones_like(x: Any, dtype: Any = None) -> Tensor:
    """Ones in the shape, dtype and library of x."""
    x = as_tensor(x)
    return Tensor(x._namespace.ones_like(x._data, dtype=dtype))


def full_like(x: Any, value: float, dtype: Any = None) -> Tensor:
    """`value` everywhere, in the shape, dtype and library of x."""
    x = as_tensor(x)
    return Tensor(x._namespace.full_like(x._data, value, dtype=dtype))


def compare(name: str, a: Any, b: Any) -> Tensor:
    """`numpy.<name>(a, b)` (less, equal, …) as an untracked bool tensor."""
    left, right = (v._data if isinstance(v, Tensor) else v for v in (a, b))
    F = as_tensor(a)._namespace
    if not isinstance(right, (int, float)):
        right = as_array(right)
    return Tensor(F.asarray(getattr(F, name)(left, right)))


def equal(a: Any, b: Any) -> Tensor:
    """Where two tensors agree, elementwise; untracked."""
    return compare("equal", a, b)


def logical_not(a: Any) -> Tensor:
    """Where `a` is false or 0; untracked."""
    a = as_tensor(a)
    return Tensor(a._namespace.logical_not(a._data))
