"""Where a function or its derivative is delicate: each choice is written here and tested."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinygrad_edu.scalar import Value

inf, nan = math.inf, math.nan

# operation, at, number, gradients
TABLE: list[tuple[str, Callable[..., Value], tuple[float, ...], float, tuple[float, ...]]] = [
    ("0**2", lambda x: x**2, (0.0,), 0.0, (0.0,)),
    ("0**1", lambda x: x**1, (0.0,), 0.0, (1.0,)),
    ("0**0 is 1, flat", lambda x: x**0, (0.0,), 1.0, (0.0,)),
    ("x**0 is flat", lambda x: x**0, (3.0,), 1.0, (0.0,)),
    ("inf**0 is flat", lambda x: x**0, (inf,), 1.0, (0.0,)),
    ("0**0.5", lambda x: x**0.5, (0.0,), 0.0, (inf,)),
    ("0**-1", lambda x: x**-1, (0.0,), inf, (-inf,)),
    ("(-0)**-1", lambda x: x**-1, (-0.0,), -inf, (-inf,)),
    ("(-8)**(1/3) is no complex number", lambda x: x ** (1 / 3), (-8.0,), nan, (nan,)),
    ("(-8)**3", lambda x: x**3, (-8.0,), -512.0, (192.0,)),
    ("overflow of a power", lambda x: x**2, (1e200,), inf, (2e200,)),
    ("variable 0**2", lambda x, p: x**p, (0.0, 2.0), 0.0, (0.0, 0.0)),
    ("variable 0**0", lambda x, p: x**p, (0.0, 0.0), 1.0, (0.0, 0.0)),
    ("variable 0**-1", lambda x, p: x**p, (0.0, -1.0), inf, (-inf, 0.0)),
    ("variable (-2)**3", lambda x, p: x**p, (-2.0, 3.0), -8.0, (12.0, nan)),
    ("1/0", lambda x, y: x / y, (1.0, 0.0), inf, (inf, -inf)),
    ("-1/0", lambda x, y: x / y, (-1.0, 0.0), -inf, (inf, inf)),
    ("0/0", lambda x, y: x / y, (0.0, 0.0), nan, (inf, nan)),
    ("exp overflows to inf", lambda x: x.exp(), (1000.0,), inf, (inf,)),
    ("expm1 overflows to inf", lambda x: x.expm1(), (1000.0,), inf, (inf,)),
    ("exp underflows to 0", lambda x: x.exp(), (-1000.0,), 0.0, (0.0,)),
    ("log 0", lambda x: x.log(), (0.0,), -inf, (inf,)),
    ("log of a negative", lambda x: x.log(), (-1.0,), nan, (-1.0,)),
    ("log1p(-1)", lambda x: x.log1p(), (-1.0,), -inf, (inf,)),
    ("sqrt 0", lambda x: x.sqrt(), (0.0,), 0.0, (inf,)),
    ("sqrt of a negative", lambda x: x.sqrt(), (-1.0,), nan, (nan,)),
    ("sin inf", lambda x: x.sin(), (inf,), nan, (nan,)),
    ("tanh saturates", lambda x: x.tanh(), (1000.0,), 1.0, (0.0,)),
    ("tanh saturates below", lambda x: x.tanh(), (-1000.0,), -1.0, (0.0,)),
    ("sigmoid saturates", lambda x: x.sigmoid(), (1000.0,), 1.0, (0.0,)),
    ("sigmoid saturates below", lambda x: x.sigmoid(), (-1000.0,), 0.0, (0.0,)),
    ("erf saturates", lambda x: x.erf(), (1e200,), 1.0, (0.0,)),
    ("relu at 0", lambda x: x.relu(), (0.0,), 0.0, (0.0,)),
    ("abs at 0", abs, (0.0,), 0.0, (0.0,)),
    ("clip at its low bound", lambda x: x.clip(-1, 1), (-1.0,), -1.0, (1.0,)),
    ("clip at its high bound", lambda x: x.clip(-1, 1), (1.0,), 1.0, (1.0,)),
    ("clip with bounds exchanged", lambda x: x.clip(1, -1), (0.0,), -1.0, (0.0,)),
    ("a tie of maximum", Value.maximum, (2.0, 2.0), 2.0, (0.5, 0.5)),
    ("a tie of minimum", Value.minimum, (2.0, 2.0), 2.0, (0.5, 0.5)),
    ("a value tied with itself", lambda x: x.maximum(x), (2.0,), 2.0, (1.0,)),
    ("zero absorbs an infinite derivative", lambda x: x.sqrt() * 0, (0.0,), 0.0, (0.0,)),
    ("zero absorbs a NaN derivative", lambda x: (x.sqrt() - x.sqrt()) ** 0, (-1.0,), 1.0, (0.0,)),
]


@pytest.mark.parametrize("operation, at, number, expected", [row[1:] for row in TABLE],
                         ids=[row[0] for row in TABLE])  # fmt: skip
def test_the_edge_table_holds(
    operation: Callable[..., Value], at: Any, number: float, expected: Any
) -> None:
    leaves = [Value(x) for x in at]
    out = operation(*leaves)
    out.backward()
    assert out.data == pytest.approx(number, nan_ok=True)
    assert [leaf.grad for leaf in leaves] == pytest.approx(list(expected), nan_ok=True)


def test_the_unused_branch_of_a_choice_never_reaches_the_gradient() -> None:
    x = Value(1.0)
    (x if x >= 0 else (-x).sqrt()).backward()
    assert x.grad == 1.0


FUNCTIONS = {
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt,
    "tanh": np.tanh, "sin": np.sin, "cos": np.cos,
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
@given(x=st.floats(allow_nan=True, allow_infinity=True))
def test_a_function_says_what_numpy_says_everywhere(name: str, x: float) -> None:
    with np.errstate(all="ignore"):
        expected = float(FUNCTIONS[name](np.float64(x)))
    assert getattr(Value(x), name)().data == pytest.approx(expected, rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "power", "maximum",
                                  "minimum"])  # fmt: skip
@given(x=st.floats(), y=st.floats())
def test_arithmetic_says_what_numpy_says_everywhere(name: str, x: float, y: float) -> None:
    a, b = Value(x), Value(y)
    result = {
        "add": lambda: a + b, "subtract": lambda: a - b, "multiply": lambda: a * b,
        "divide": lambda: a / b, "power": lambda: a**b, "maximum": lambda: a.maximum(b),
        "minimum": lambda: a.minimum(b),
    }[name]()  # fmt: skip
    with np.errstate(all="ignore"):
        expected = float(getattr(np, name)(np.float64(x), np.float64(y)))
    assert result.data == pytest.approx(expected, rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("name", [*FUNCTIONS, "sigmoid", "relu", "erf", "abs"])
def test_nan_is_never_swallowed(name: str) -> None:
    x = Value(nan)
    out = getattr(x, name)()
    out.backward()
    assert math.isnan(out.data) and math.isnan(x.grad)


def test_nan_spreads_through_choices_from_either_side() -> None:
    for x, y in ((nan, 1.0), (1.0, nan)):
        assert math.isnan(Value(x).maximum(y).data) and math.isnan(Value(x).minimum(y).data)
    assert math.isnan(Value(nan).clip(0, 1).data)


def test_infinity_goes_through_relu_abs_clip_and_maximum() -> None:
    assert Value(inf).relu().data == inf and Value(-inf).relu().data == 0.0
    assert abs(Value(-inf)).data == inf
    assert Value(inf).clip(0, 1).data == 1.0
    assert Value(inf).maximum(inf).data == inf
