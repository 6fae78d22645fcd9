"""The checker at kinks, by Taylor's rate, of adjoints, of single operations, and called quickly."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import testing
from tinygrad_edu.autograd import apply
from tinygrad_edu.ops import elementwise
from tinygrad_edu.ops.registry import _bind
from tinygrad_edu.testing import (
    check_adjoint,
    check_convention,
    check_graph,
    check_jvp,
    check_second_order,
    check_taylor,
    check_vjp,
    gradcheck,
)

X = np.array([0.3, -1.2, 2.1])


# Kinks.


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (tg.relu, [0.0, -1.0, 2.0]), (tg.abs, [0.0, 3.0]), (tg.max, [1.0, 1.0, 0.0]),
        (lambda x: tg.clip(x, -1, 1), [-1.0, 1.0, 0.5]), (tg.sort, [1.0, 1.0, 0.0]),
        (lambda x: tg.maximum(x, 0.0), [0.0, 1.0]), (lambda x: tg.elu(x, 0.5), [0.0, 1.0]),
        (tg.norm, [0.0, 0.0]), (lambda x: tg.hypot(x, x * 2), [0.0]), (tg.median, [1.0, 1.0, 1.0]),
        (tg.cummax, [1.0, 1.0, 0.0]), (tg.std, [2.0, 2.0, 2.0]),
        (lambda x: tg.nn.functional.max_pool1d(x, 2), [[1.0, 1.0]]),
    ],
)  # fmt: skip
def test_at_a_kink_what_lies_between_the_slopes_is_right(f: Any, x: Any) -> None:
    check_vjp(f, x)
    check_jvp(f, x)
    check_second_order(f, x)


def test_a_kink_within_the_step_is_stepped_over() -> None:
    near = [2.0**-7, -(2.0**-8), 1.0]
    check_vjp(tg.relu, near)
    check_jvp(tg.relu, near)
    check_second_order(lambda x: tg.relu(x) * x, near)




def test_what_lies_below_the_rounding_of_differences_is_not_called_wrong() -> None:
    """A slope of 3e-211, which central differences, being symmetric, see as exactly 0."""
    x = [[0.5546875], [0.5546875]]
    check_vjp(tg.hypot, x, 4.434799e-212, g=[[1.0], [0.5]])
    check_second_order(tg.hypot, x, 4.434799e-212, g=[[0.5], [-0.5]])
    with pytest.raises(testing.GradValueError):  # but where nothing changes, 0 is exact
        check_vjp(tg.sign, [0.3], vjp=lambda g, x: g * 1e-211)


@pytest.mark.parametrize("rule", [
    lambda g, x: g * np.where(x > 0, 1.0, np.where(x < -3, 0.1, 0.0)),  # wrong below -3
    lambda g, x: g * np.where(x == 0, 1.5, x > 0),  # not between 0 and 1
])  # fmt: skip
def test_a_wrong_relu_is_found_where_it_is_wrong(rule: Any) -> None:
    check_vjp(tg.relu, X, vjp=rule)
    with pytest.raises(testing.GradValueError):
        check_vjp(tg.relu, [-4.0, 0.0], vjp=rule)


def test_an_error_is_not_taken_for_a_kink() -> None:
    """A rule off by a rounding too many is outside the interval of a smooth point."""
    with pytest.raises(testing.GradValueError):
        check_vjp(tg.abs, X, vjp=lambda g, x: g * np.sign(x) * (1 + 1e-7))


def test_the_convention_is_a_check_of_its_own() -> None:
    check_convention(tg.relu, [0.0, -0.0], 0.0)
    check_convention(tg.sqrt, 0.0, np.inf)
    check_convention(lambda x: tg.maximum(x, [1.0, 0.0]), [1.0, 2.0], [0.5, 1.0])
    with pytest.raises(testing.GradConventionError, match=r"at .*0.0.* is .*0.0.*convention .*1.0"):
        check_convention(tg.relu, 0.0, 1.0)


# Taylor's remainder.


@pytest.mark.parametrize(
    "f", [tg.exp, tg.sin, lambda x: x * 3, tg.sum, lambda x: x * x, lambda x: tg.sin(x) * 1e-9,
          tg.softmax, lambda x: x * 0.0],
)  # fmt: skip
def test_the_remainder_falls_with_the_square(f: Any) -> None:
    assert check_taylor(f, X).what == "taylor"


@pytest.mark.parametrize(
    ("f", "rule"),
    [
        (tg.sin, lambda g, x: g * np.cos(x) * 1.001), (tg.exp, lambda g, x: 0 * x),
        (lambda x: x * 3, lambda g, x: g * 3.0001),
        (lambda x: tg.sin(x) * 1e-9, lambda g, x: 0 * x),
    ],
)  # fmt: skip
def test_a_wrong_gradient_leaves_a_remainder_of_another_rate(f: Any, rule: Any) -> None:
    with pytest.raises(testing.TaylorRateError, match=r"falls like h\^.*, expected h\^2"):
        check_taylor(f, X, vjp=rule)


# Adjoints.


def test_both_modes_of_one_function_are_adjoint() -> None:
    check_adjoint(lambda a, b: tg.tanh(a @ b), X, np.ones((3, 2)))
    wrong = dataclasses.replace(elementwise.tanh, pull=None, jvp=lambda F, t, a, *, out: t[0] * 2.0)
    with pytest.raises(testing.AdjointMismatch):
        check_adjoint(lambda a: apply(wrong, a), X)


# Single operations.

WRONG = dataclasses.replace(elementwise.sin, name="wrong_sin", pull=None)
WRONG.rules = (_bind(lambda F, a: F.sin(a), WRONG),)


def composite(x: Any) -> Any:
    y = tg.exp(x) * 2
    z = apply(WRONG, y)  # the wrong line
    return (z + y).sum()


def test_in_a_composite_function_the_wrong_operation_is_named_with_its_line() -> None:
    with pytest.raises(testing.GradValueError) as caught:
        check_vjp(composite, X)
    note = next(n for n in caught.value.__notes__ if "wrong by itself" in n)
    line = composite.__code__.co_firstlineno + 2
    assert "wrong_sin (sin a)" in note
    assert f"{__file__}:{line}" in note
    with pytest.raises(testing.GradValueError) as caught:
        check_graph(composite, X)
    assert f":{line}" in caught.value.__notes__[-1]
    assert check_graph(lambda x: tg.exp(x) * x, X) == 2


def test_where_every_operation_is_right_it_says_what_to_look_for() -> None:
    with pytest.raises(testing.GradValueError) as caught:
        check_vjp(lambda x: x * tg.sin(x).detach(), X)
    assert any("look for a detach" in n for n in caught.value.__notes__)


# What is wrong with a function.


def test_a_function_that_writes_to_its_input_is_found() -> None:
    def f(x: Any) -> Any:
        x.data[0] = 5.0
        return x * 2

    with pytest.raises(testing.MutatedInput, match="written to by the function"):
        check_vjp(f, X.copy())


def test_a_function_that_detaches_everything_is_found() -> None:
    with pytest.raises(testing.GradMissing, match="gets no gradient, but the output depends"):
        check_vjp(lambda x: (x * 2).detach(), X)
    check_vjp(lambda x: tg.ones(3), X)  # constant: nothing to miss


def test_half_precision_is_judged_in_roundings_of_its_own() -> None:
    report = check_vjp(lambda x: tg.exp(x) * x, X.astype(np.float16))
    assert 2 < min(report.digits) < 17


# Called as PyTorch's is.


def test_gradcheck_takes_pytorchs_arguments() -> None:
    x = tg.tensor(X, requires_grad=True)
    w = tg.tensor(np.ones((3, 2)), requires_grad=True)
    assert gradcheck(lambda a, b: tg.tanh(a @ b), (x, w), eps=1e-6, atol=1e-4, fast_mode=True)
    assert gradcheck(tg.exp, x)
    assert gradcheck(tg.exp, [0.5, 1.0])
    assert gradcheck(tg.exp, [[0.5, 1.0]])
    assert gradcheck(lambda a, b: a * b, (0.5, 1.0))
    assert gradcheck(lambda a, b: a * b, [x, x])
    assert gradcheck(lambda a, i: a[i], (X, np.array([0, 0, 2])))
    assert gradcheck(lambda a: (tg.exp(a), tg.sin(a)), X)


def test_gradcheck_holds_what_is_not_tracked_fixed() -> None:
    x = tg.tensor(X, requires_grad=True)
    assert gradcheck(lambda a, b: a * b.detach(), (x, tg.tensor(X)))
    assert not gradcheck(lambda a, b: a * b.detach(), (X, X), raise_exception=False)


def test_gradcheck_finds_a_wrong_output_among_several() -> None:
    assert not gradcheck(lambda a: (tg.exp(a), apply(WRONG, a)), X, raise_exception=False)
    with pytest.raises(testing.GradValueError):
        gradcheck(lambda a: (tg.exp(a), apply(WRONG, a)), X)


def test_gradcheck_of_nothing_is_refused() -> None:
    with pytest.raises(TypeError, match="there is nothing to differentiate"):
        gradcheck(lambda i: i, (np.arange(3),))
