"""Float arithmetic that never raises: where Python gives up, NumPy's answer is taken.

Python raises at 1/0, log(0) and exp(1000) and turns (-8)**(1/3) into a complex number. An engine
wants inf, -inf, inf and NaN there, so that a scalar graph and a tensor graph say the same. `math`
runs first, being ten times faster on one number; NumPy is asked only where `math` refuses.
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable
from typing import Any

import numpy as np


def _total(fast: Callable[..., float], everywhere: Any) -> Callable[..., float]:
    """`fast`, continued by the NumPy function `everywhere` where it raises."""

    def function(*numbers: float) -> float:
        try:
            return fast(*numbers)
        except (ArithmeticError, ValueError):
            with np.errstate(all="ignore"):
                return float(everywhere(*map(np.float64, numbers)))

    function.__name__ = fast.__name__
    return function


divide = _total(operator.truediv, np.divide)
power = _total(math.pow, np.power)
exp = _total(math.exp, np.exp)
expm1 = _total(math.expm1, np.expm1)
log = _total(math.log, np.log)
log1p = _total(math.log1p, np.log1p)
sqrt = _total(math.sqrt, np.sqrt)
sin = _total(math.sin, np.sin)
cos = _total(math.cos, np.cos)


def sigmoid(x: float) -> float:
    """1 / (1 + e**-x), by the form whose exponential cannot overflow."""
    if x >= 0.0:
        return 1.0 / (1.0 + math.exp(-x))
    e = math.exp(x)
    return e / (1.0 + e)


def power_partials(x: float, p: float, out: float) -> tuple[float, float]:
    """Derivatives of `out = x**p` by x and by p.

    By p it is x**p · ln x: 0 by choice where x is 0 (0**p is flat for p > 0, and 0**0 counts as the
    constant 1), and NaN for negative x, which has powers at whole p only.
    """
    if x == 0.0:
        return base_partial(x, p), 0.0
    return base_partial(x, p), out * log(x)


def base_partial(x: float, p: float) -> float:
    """Derivative of x**p by x: p · x**(p - 1), and 0 for p = 0 even at x = 0."""
    return p * power(x, p - 1.0) if p != 0.0 else 0.0


def maximum(x: float, y: float) -> tuple[float, float, float]:
    """max(x, y) and its derivatives by x and by y; a tie is shared equally, NaN spreads."""
    if x > y:
        return x, 1.0, 0.0
    if x < y:
        return y, 0.0, 1.0
    return (x, 0.5, 0.5) if x == y else (math.nan, math.nan, math.nan)


def sign(x: float) -> float:
    """-1, 0 or 1; NaN stays NaN."""
    return x if x == 0.0 or math.isnan(x) else math.copysign(1.0, x)


def real_number(thing: Any) -> float | None:
    """`thing` as a float if it is a real number of Python or NumPy, else None."""
    real = isinstance(thing, numbers.Real)
    if not real and isinstance(thing, (np.generic, np.ndarray)):
        real = thing.ndim == 0 and thing.dtype.kind in "fiubV"  # V: bfloat16 and its like
    if not real:
        return None
    try:
        return float(thing)
    except OverflowError:
        raise ValueError(
            f"{described(thing)} does not fit a float, whose largest number is about 1.8e308: "
            "scale it down first"
        ) from None


def described(thing: Any) -> str:
    """The type of a thing, and the thing itself where that is short: `a str ('3')`."""
    if thing is None:
        return "None"
    try:
        shown = repr(thing)
    except ValueError:  # an integer of more digits than Python is willing to print
        shown = ""
    article = "an" if type(thing).__name__[0] in "aeiouAEIOU" else "a"
    return f"{article} {type(thing).__name__}" + (f" ({shown})" if 0 < len(shown) <= 40 else "")
