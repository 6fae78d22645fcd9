"""Arithmetic with more digits than float64 has, for the judge of derivatives to run references in.

`longdouble` is NumPy's own, wider than float64 on x86 under Linux and macOS; `mpmath`, where it is
installed, has as many digits as one asks for. References are written against a namespace `F`, so a
namespace of mpmath's functions on object arrays is all that a run with 120 digits needs.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tinygrad_edu.autograd.differences import Slope
from tinygrad_edu.backend.namespace import NumpyNamespace

__all__ = ["LONG", "by_tiny_step", "high_precision", "noise", "to_numbers"]

Array = npt.NDArray[Any]

LONG: Any = np.longdouble if np.finfo(np.longdouble).eps < np.finfo(np.float64).eps else None
"""NumPy's long double where it has more digits than float64, else None."""

# The square of the step 2⁻¹⁵⁰ is beyond float64, and 250 bits are left of the quotient.
_BITS = 400
_TINY = 150

_SAME_NAME = (
    "exp", "expm1", "log", "log1p", "log10", "sqrt", "sin", "cos", "tan", "sinh", "cosh",
    "tanh", "erf", "erfc", "floor", "ceil", "hypot",
)  # fmt: skip
_OTHER_NAME = {
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2",
    "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "sinc": "sincpi", "rint": "nint",
}  # fmt: skip


class MpmathNamespace(NumpyNamespace):
    """NumPy's names on object arrays of mpmath's numbers; the rest is NumPy's, or refused by it."""

    def __init__(self, context: Any) -> None:
        super().__init__("mpmath", np)
        self.context = context
        for name, made in self._elementwise():
            setattr(self, name, made)

    def _elementwise(self) -> Iterator[tuple[str, Callable[..., Any]]]:
        mp = self.context
        for name in _SAME_NAME:
            yield name, _vectorised(getattr(mp, name), 2 if name == "hypot" else 1)
        for name, theirs in _OTHER_NAME.items():
            yield name, _vectorised(getattr(mp, theirs), 2 if name == "arctan2" else 1)
        yield "exp2", _vectorised(lambda x: mp.mpf(2) ** x, 1)
        yield "log2", _vectorised(lambda x: mp.log(x) / mp.ln2, 1)
        yield "logaddexp", _vectorised(lambda a, b: mp.log(mp.exp(a) + mp.exp(b)), 2)
        yield "cbrt", _vectorised(lambda x: mp.cbrt(x) if x >= 0 else -mp.cbrt(-x), 1)
        yield "trunc", _vectorised(lambda x: mp.floor(x) if x > 0 else mp.ceil(x), 1)
        yield "copysign", _vectorised(lambda a, b: abs(a) if b >= 0 else -abs(a), 2)
        for name in ("isfinite", "isnan", "isinf"):
            yield name, _vectorised(getattr(mp, name), 1, bool)


def _vectorised(f: Callable[..., Any], inputs: int, dtype: Any = object) -> Callable[..., Any]:
    each = np.frompyfunc(f, inputs, 1)

    def over_arrays(*xs: Any, out: Any = None) -> Any:
        made = np.asarray(each(*xs), dtype)
        if out is None:
            return made
        out[...] = made
        return out

    return over_arrays


@functools.lru_cache(1)
def high_precision() -> MpmathNamespace | None:
    """mpmath's functions with 400 bits (120 digits); None where mpmath is not installed."""
    try:
        mpmath = importlib.import_module("mpmath")
    except ImportError:
        return None
    context = mpmath.mp.clone()  # the user's own precision stays as it is
    context.prec = _BITS
    return MpmathNamespace(context)


def to_numbers(F: MpmathNamespace, x: Array) -> Array:
    """A float array as an object array of exactly the same numbers."""
    return np.asarray(np.frompyfunc(lambda e: F.context.mpf(float(e)), 1, 1)(x), object)


def by_tiny_step(
    F: MpmathNamespace, f: Callable[..., Any], xs: Sequence[Array], vs: Sequence[Array]
) -> Slope:
    """The rate at which f(*xs) changes as xs move with velocities vs: a central difference over a
    step so small that what it leaves out is beyond float64.

    Raises:
        TypeError: f is not a real number at some point, or has a step mpmath cannot do.
    """
    h = F.context.ldexp(1, -_TINY)
    wide = [to_numbers(F, x) for x in xs]
    moves = [to_numbers(F, v) * h for v in vs]
    ahead = f(*[np.asarray(x + m) for x, m in zip(wide, moves, strict=True)])
    behind = f(*[np.asarray(x - m) for x, m in zip(wide, moves, strict=True)])
    value = np.asarray((np.asarray(ahead) - np.asarray(behind)) / (2 * h), object)
    numbers = np.array([float(e) for e in value.reshape(-1)], np.float64).reshape(value.shape)
    return Slope(numbers, np.zeros(numbers.shape))


def noise(f: Callable[..., Any], xs: Sequence[Array], vs: Sequence[Array], step: float) -> Array:
    """How much rounding each number of f(*xs) carries: sixth differences of seven values near by,
    where a smooth function has none left (Moré & Wild 2011, "Estimating computational noise").

    `step`: the distance between two of them, so short that step⁶ is beyond the digits of f.
    """
    values = [
        np.asarray(f(*[x + (i * step) * v for x, v in zip(xs, vs, strict=True)])) for i in range(7)
    ]
    weights = (1, -6, 15, -20, 15, -6, 1)
    total = np.tensordot(weights, np.stack(values), 1)
    return np.asarray(np.abs(total) / np.sqrt(np.dot(weights, weights)))
