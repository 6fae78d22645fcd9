"""Every operation of `Value`: its number, its derivatives, its reflected form, its refusals."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinygrad_edu.scalar import Value

inf, nan = math.inf, math.nan


def gradients(function: Callable[..., Value], *numbers: float) -> tuple[float, ...]:
    leaves = [Value(number) for number in numbers]
    function(*leaves).backward()
    return tuple(leaf.grad for leaf in leaves)


# name: (on Values, on floats, derivative as a formula, where to look)
UNARY: dict[str, tuple[Any, Any, Any, tuple[float, ...]]] = {
    "neg": (lambda v: -v, lambda x: -x, lambda x: -1.0, (-2.0, 0.0, 3.5)),
    "pos": (lambda v: +v, lambda x: x, lambda x: 1.0, (-2.0, 3.5)),
    "abs": (abs, abs, lambda x: math.copysign(1, x), (-2.0, 3.5)),
    "exp": (Value.exp, math.exp, math.exp, (-3.0, 0.0, 2.0)),
    "expm1": (Value.expm1, math.expm1, math.exp, (-3.0, 1e-9, 2.0)),
    "log": (Value.log, math.log, lambda x: 1 / x, (0.1, 1.0, 7.0)),
    "log1p": (Value.log1p, math.log1p, lambda x: 1 / (1 + x), (-0.5, 1e-9, 7.0)),
    "sqrt": (Value.sqrt, math.sqrt, lambda x: 0.5 / math.sqrt(x), (0.1, 1.0, 9.0)),
    "tanh": (Value.tanh, math.tanh, lambda x: 1 / math.cosh(x) ** 2, (-2.0, 0.0, 0.7)),
    "sigmoid": (
        Value.sigmoid,
        lambda x: 1 / (1 + math.exp(-x)),
        lambda x: 1 / (2 + math.exp(x) + math.exp(-x)),
        (-5.0, 0.0, 0.7),
    ),
    "sin": (Value.sin, math.sin, math.cos, (-2.0, 0.0, 0.7)),
    "cos": (Value.cos, math.cos, lambda x: -math.sin(x), (-2.0, 0.0, 0.7)),
    "erf": (
        Value.erf,
        math.erf,
        lambda x: 2 / math.sqrt(math.pi) * math.exp(-x * x),
        (-2.0, 0.0, 0.7),
    ),
    "relu": (Value.relu, lambda x: max(x, 0.0), lambda x: float(x > 0), (-2.0, 3.5)),
    "clip": (
        lambda v: v.clip(-1, 2),
        lambda x: min(max(x, -1.0), 2.0),
        lambda x: float(-1 <= x <= 2),
        (-2.0, 0.5, 3.5),
    ),
    "square": (lambda v: v**2, lambda x: x * x, lambda x: 2 * x, (-2.0, 0.0, 3.5)),
    "power": (lambda v: v**-1.5, lambda x: x**-1.5, lambda x: -1.5 * x**-2.5, (0.5, 3.0)),
    "1 + v": (lambda v: 1 + v, lambda x: 1 + x, lambda x: 1.0, (-2.0, 0.5)),
    "1 - v": (lambda v: 1 - v, lambda x: 1 - x, lambda x: -1.0, (-2.0, 0.5)),
    "v - 1": (lambda v: v - 1, lambda x: x - 1, lambda x: 1.0, (-2.0, 0.5)),
    "3 * v": (lambda v: 3 * v, lambda x: 3 * x, lambda x: 3.0, (-2.0, 0.5)),
    "3 / v": (lambda v: 3 / v, lambda x: 3 / x, lambda x: -3 / x**2, (-2.0, 0.5)),
    "v / 3": (lambda v: v / 3, lambda x: x / 3, lambda x: 1 / 3, (-2.0, 0.5)),
    "2 ** v": (lambda v: 2**v, lambda x: 2**x, lambda x: 2**x * math.log(2), (-2.0, 0.5)),
}

BINARY: dict[str, tuple[Any, Any, Any]] = {
    "+": (lambda a, b: a + b, lambda x, y: x + y, lambda x, y: (1.0, 1.0)),
    "-": (lambda a, b: a - b, lambda x, y: x - y, lambda x, y: (1.0, -1.0)),
    "*": (lambda a, b: a * b, lambda x, y: x * y, lambda x, y: (y, x)),
    "/": (lambda a, b: a / b, lambda x, y: x / y, lambda x, y: (1 / y, -x / y**2)),
    "**": (
        lambda a, b: a**b,
        lambda x, y: x**y,
        lambda x, y: (y * x ** (y - 1), x**y * math.log(x)),
    ),
    "maximum": (Value.maximum, max, lambda x, y: (float(x > y), float(y > x))),
    "minimum": (Value.minimum, min, lambda x, y: (float(x < y), float(y < x))),
}


@pytest.mark.parametrize("name", UNARY)
def test_a_unary_operation_has_the_number_and_derivative_of_its_formula(name: str) -> None:
    operation, plain, derivative, points = UNARY[name]
    for x in points:
        assert operation(Value(x)).data == pytest.approx(plain(x), rel=1e-15, abs=1e-300)
        assert gradients(operation, x)[0] == pytest.approx(derivative(x), rel=1e-13, abs=1e-300)


@pytest.mark.parametrize("name", UNARY)
def test_a_unary_derivative_agrees_with_central_differences(name: str) -> None:
    operation, _, _, points = UNARY[name]
    h = 1e-5
    for x in points:
        slope = (operation(Value(x + h)).data - operation(Value(x - h)).data) / (2 * h)
        assert gradients(operation, x)[0] == pytest.approx(slope, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("x, y", [(2.0, 3.0), (0.7, -1.3), (5.0, 0.25)])
def test_a_binary_operation_has_the_number_and_derivatives_of_its_formula(
    name: str, x: float, y: float
) -> None:
    operation, plain, derivatives = BINARY[name]
    assert operation(Value(x), Value(y)).data == pytest.approx(plain(x, y), rel=1e-15)
    assert gradients(operation, x, y) == pytest.approx(derivatives(x, y), rel=1e-13)


@pytest.mark.parametrize("name", BINARY)
def test_a_number_on_either_side_acts_as_a_value_would(name: str) -> None:
    operation, plain, derivatives = BINARY[name]
    assert gradients(lambda a: operation(a, 3.0), 2.0)[0] == pytest.approx(derivatives(2.0, 3.0)[0])
    if name not in ("maximum", "minimum"):
        found = gradients(lambda b: operation(2.0, b), 3.0)[0]
        assert found == pytest.approx(derivatives(2.0, 3.0)[1])
        assert operation(2.0, Value(3.0)).data == pytest.approx(plain(2.0, 3.0))


@pytest.mark.parametrize(
    "number",
    [3, 3.0, True, Fraction(3, 2), np.float64(3), np.float32(3), np.int64(3), np.bool_(True),
     np.array(3.0)],
    ids=lambda n: type(n).__name__,
)  # fmt: skip
@pytest.mark.parametrize("name", ["+", "-", "*", "/", "**"])
def test_every_kind_of_real_number_combines_from_both_sides(name: str, number: Any) -> None:
    operation = BINARY[name][0]
    for result, expected in (
        (operation(Value(2.0), number), operation(2.0, float(number))),
        (operation(number, Value(2.0)), operation(float(number), 2.0)),
    ):
        assert isinstance(result, Value)
        assert type(result.data) is float
        assert result.data == pytest.approx(expected, rel=1e-15)


def test_an_array_of_numbers_combines_element_by_element() -> None:
    v: Any = Value(2.0)
    array = np.array([1.0, 4.0])
    for result in (v * array, array * v):
        assert [element.data for element in result] == [2.0, 8.0]
    for result, numbers in ((v - array, [1.0, -2.0]), (array / v, [0.5, 2.0])):
        assert [element.data for element in result] == numbers


def test_numpy_functions_reach_the_operations() -> None:
    v: Any = Value(1.0)
    assert np.exp(v).op == "exp"
    assert [v.op for v in np.tanh(np.array([Value(1.0), Value(2.0)]))] == ["tanh", "tanh"]


@pytest.mark.parametrize("other", [[1.0], "3", None, (1,), {1}, 1j, np.complex128(1j)], ids=repr)
@pytest.mark.parametrize("name", ["+", "-", "*", "/", "**"])
def test_what_is_no_real_number_is_refused_with_a_sentence(name: str, other: Any) -> None:
    operation = BINARY[name][0]
    for left, right in ((Value(1.0), other), (other, Value(1.0))):
        if isinstance(left, np.generic):  # NumPy answers first, for itself
            continue
        with pytest.raises(TypeError, match="a Value combines with Values and real numbers"):
            operation(left, right)


def test_a_list_is_answered_with_what_to_write_instead() -> None:
    with pytest.raises(TypeError, match=r"Value \+ a list \(\[1, 2\]\).*\[v \+ x for x in xs\]"):
        Value(1.0) + [1, 2]


def test_another_class_may_answer_for_itself() -> None:
    class Guest:
        def __rtruediv__(self, other: Any) -> str:
            return "guest"

        __radd__ = __rsub__ = __rmul__ = __rpow__ = __rtruediv__

    for operation in ("+", "-", "*", "/", "**"):
        assert BINARY[operation][0](Value(1.0), Guest()) == "guest"


@pytest.mark.parametrize("data", ["3", None, 1j, [1.0], np.ones(2), Value(1.0)], ids=repr)
def test_a_value_is_made_of_one_real_number(data: Any) -> None:
    with pytest.raises(TypeError, match=r"Value\(data\) takes one real number, got"):
        Value(data)
    with pytest.raises(TypeError, match=r"Value\.data takes one real number, got"):
        Value(1.0).data = data


@pytest.mark.parametrize("data", [10**400, 10**5000, Fraction(10**400)], ids=["int", "long", "f"])
def test_a_number_beyond_floats_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match="does not fit a float"):
        Value(data)


def test_a_name_is_a_string() -> None:
    assert Value(1.0, name="a").name == "a"
    assert Value(1.0).name is None
    assert (Value(1.0) * 2).name is None
    with pytest.raises(TypeError, match="the name of a Value is a string"):
        Value(1.0, name=3)  # type: ignore[arg-type]
    named = Value(1.0) + 2
    named.name = "sum"
    assert named.name == "sum"


def test_comparisons_bool_float_and_int_look_at_the_number() -> None:
    a, b = Value(1.5), Value(2.5)
    assert a < b and a <= b and b > a and b >= a and a <= a
    assert a < 2 and a > 1 and a >= 1.5 and a <= 1.5
    assert 2 > a and 1 < a  # noqa: SIM300
    assert max([a, b]) is b and min([a, b]) is a
    assert sorted([b, a]) == [a, b]
    assert float(a) == 1.5 and int(b) == 2
    assert a and not Value(0.0)
    assert not Value(nan) < 1 and not Value(nan) >= 1
    with pytest.raises(TypeError, match="not supported between"):
        a < "2"  # noqa: B015


def test_equality_and_hash_are_identity() -> None:
    a, b = Value(1.0), Value(1.0)
    assert a == a and a != b
    assert len({a, b, a}) == 2


def test_sum_of_a_list_adds_up() -> None:
    parts = [Value(1.0), Value(2.0), Value(3.0)]
    total = sum(parts)
    assert isinstance(total, Value)
    total.backward()
    assert total.data == 6.0
    assert [part.grad for part in parts] == [1.0, 1.0, 1.0]


def test_the_node_protocol_lists_one_input_an_edge() -> None:
    x, y = Value(3.0), Value(4.0)
    assert (x * x).inputs == (x, x)
    assert (x * x).local_derivatives == (3.0, 3.0)
    assert (x - y).inputs == (x, y) and (x - y).op == "-"
    assert (x - y).local_derivatives == (1.0, -1.0)
    assert x.tanh().inputs == (x,) and x.tanh().op == "tanh"
    assert (x**2).inputs == (x,) and (x**2).op == "**2" and (x**-0.5).op == "**-0.5"
    assert x.inputs == () and x.op is None and x.local_derivatives == ()


def test_micrograds_drawing_code_finds_its_attributes() -> None:
    x, y = Value(3.0), Value(4.0)
    assert (x * y)._prev == {x, y} and (x * y)._op == "*"
    assert x._prev == set() and x._op == ""


def test_repr_shows_what_is_there() -> None:
    a = Value(-4.0, name="a")
    assert repr(Value(2)) == "Value(data=2.0)"
    assert repr(a) == "Value(data=-4.0, name='a')"
    (a * 1).backward()
    assert repr(a) == "Value(data=-4.0, grad=1.0, name='a')"


def test_int_data_becomes_float_and_stays_so_after_assignment() -> None:
    v = Value(np.float32(2))
    assert type(v.data) is float
    v.data -= np.float64(0.5)
    assert type(v.data) is float and v.data == 1.5


@given(st.floats(-700, 700), st.floats(-700, 700))
def test_sub_and_add_and_mul_are_exactly_float_arithmetic(x: float, y: float) -> None:
    a, b = Value(x), Value(y)
    assert ((a + b).data, (a - b).data, (a * b).data) == (x + y, x - y, x * y)
