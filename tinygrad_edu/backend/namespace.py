"""`F`, the array namespace that gradient rules are written in.

A rule such as `lambda F, a: F.cos(a)` runs on whatever `F` is: an array library (this file), the
Tensor functions (`autograd.functions`), or arrays of `Value` (`scalar.arrays`). `F` has NumPy's
names, a few that NumPy lacks (`absorb`, `scatter_add`, `erf`), and every primitive of `ops`, whose
tables register themselves here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tinygrad_edu.backend import special

Array = Any

_registered: dict[str, Callable[..., Any]] = {}


def register(name: str, function: Callable[..., Any]) -> None:
    """Give every array namespace a function `name`; `function` takes the namespace first."""
    _registered[name] = function


class Namespace:
    """What all array namespaces share: registered primitives, looked up once and then kept."""

    name: str

    def __getattr__(self, attribute: str) -> Any:
        if attribute not in _registered:
            raise AttributeError(f"the array namespace {self.name!r} has no function {attribute!r}")
        bound = partial(_registered[attribute], self)
        setattr(self, attribute, bound)
        return bound


class ArrayNamespace(Namespace):
    """NumPy's names over an array library `xp` that has them (NumPy, CuPy)."""

    def __init__(self, name: str, xp: Any) -> None:
        self.name = name
        self.xp = xp

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        found = getattr(self.xp, attribute, None)
        if found is None:
            return super().__getattr__(attribute)
        setattr(self, attribute, found)
        return found

    def absorb(self, g: Array, d: Array) -> Array:
        """g·d, and 0 where `g` is exactly 0, even where `d` is inf or NaN.

        This is where an upstream gradient meets a local derivative: what no gradient reaches
        cannot poison what it does reach. (On a GPU the repair is unconditional: to look for a NaN
        would make the device wait.)
        """
        xp = self.xp
        return xp.where(g == 0, xp.zeros((), dtype=g.dtype), g * d)

    def erf(self, x: Array) -> Array:
        """The error function; see `backend.special`."""
        return special.erf(self.xp, x)

    def erfc(self, x: Array) -> Array:
        """1 - erf; see `backend.special`."""
        return special.erfc(self.xp, x)

    def scatter_add(self, g: Array, index: Any, shape: tuple[int, ...]) -> Array:
        """Zeros of `shape` with `g` added at `index`: the transpose of `a[index]`; repeats add
        up.
        """
        xp = self.xp
        total = xp.zeros(shape, dtype=g.dtype)
        if is_basic(index):
            total[index] = g
        else:
            xp.add.at(total, index, g)
        return total

    def constant(self, x: Array) -> Array:
        """`x` as something no gradient flows through: on raw arrays, `x` itself."""
        return x

    def cast(self, x: Array, *, dtype: Any) -> Array:
        """`x` in another dtype."""
        return x.astype(dtype)

    def to_numpy(self, x: Array) -> Any:
        """`x` as a NumPy array on the host."""
        return x.get() if hasattr(x, "get") else np.asarray(x)


_SMALL = 4096
"""Numbers in a factor; `dot` fills its result with zeros first, which larger ones would feel."""


class NumpyNamespace(ArrayNamespace):
    """NumPy itself, where a look for NaN costs less than a `where`."""

    def absorb(self, g: Array, d: Array) -> Array:
        product = g * d
        # vdot(p, p) is NaN if and only if some element is: squares cannot cancel.
        check = np.vdot(product, product)
        if check == check:
            return product
        return np.where(g == 0, np.zeros((), dtype=product.dtype), product)

    # The functions rules use most, without the wrappers that NumPy has around them.

    def sum(self, a: Array, axis: Any = None, keepdims: bool = False) -> Array:
        reduce: Any = np.add.reduce
        return reduce(a, axis=axis, keepdims=keepdims)

    def matmul(self, a: Array, b: Array, out: Array | None = None) -> Array:
        if out is None and a.ndim == 2 and b.ndim == 2 and a.size < _SMALL and b.size < _SMALL:
            return a.dot(b)  # the same BLAS call, at half the cost of getting there
        return np.matmul(a, b, out=out)

    def swapaxes(self, a: Array, axis1: int, axis2: int) -> Array:
        return a.swapaxes(axis1, axis2)

    def reshape(self, a: Array, shape: Any) -> Array:
        return a.reshape(shape)

    def transpose(self, a: Array, axes: Any) -> Array:
        return a.transpose(axes)


def is_basic(index: Any) -> bool:
    """Whether `index` selects each element at most once by slices, integers, None and Ellipsis."""
    parts = index if type(index) is tuple else (index,)
    return all(
        part is None or part is Ellipsis or isinstance(part, (int, slice, np.integer))
        for part in parts
        if not isinstance(part, bool)
    ) and not any(isinstance(part, bool) for part in parts)


NUMPY = NumpyNamespace("numpy", np)
