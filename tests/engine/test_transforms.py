"""Functions of functions: grad, value_and_grad, vjp, jvp; nested, and over outer variables."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_edu as tg
from tinygrad_edu.errors import DTypeError, GraphError, MutationError, ShapeError

D = np.float64


def number(x: float) -> np.ndarray:
    return np.asarray(x, dtype=D)


# First derivatives.


def test_grad_returns_the_gradient_and_stores_nothing() -> None:
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    g = tg.grad(lambda a: (a * a).sum())(x)
    assert g.tolist() == [2.0, 4.0]
    assert x.grad is None


def test_value_and_grad_returns_both() -> None:
    value, g = tg.value_and_grad(lambda a: (a**3).sum())([1.0, 2.0])
    assert (value.item(), g.tolist()) == (9.0, [3.0, 12.0])
    assert not value.requires_grad and not g.requires_grad


def test_arguments_may_be_numbers_lists_arrays_or_tensors() -> None:
    square = tg.grad(lambda a: (a * a).sum())
    assert square(3).item() == 6.0
    assert square([3.0]).tolist() == [6.0]
    assert square(np.array([3.0])).dtype == D
    assert square(tg.tensor([3.0])).tolist() == [6.0]


def test_argnums_picks_one_argument_or_a_tuple_of_them() -> None:
    def f(a: Any, b: Any, c: Any) -> Any:
        return a * b + b * c

    at = (2.0, 3.0, 5.0)
    assert tg.grad(f)(*at).item() == 3.0
    assert tg.grad(f, argnums=1)(*at).item() == 7.0
    both = tg.grad(f, argnums=(2, 0))(*at)
    assert isinstance(both, tuple)
    assert [g.item() for g in both] == [3.0, 3.0]
    assert [g.item() for g in tg.grad(f, argnums=[1])(*at)] == [7.0]


def test_other_arguments_and_keywords_pass_through_untouched() -> None:
    marker = object()

    def f(a: Any, other: Any, *, scale: float) -> Any:
        assert other is marker
        return a * scale

    assert tg.grad(f)(1.0, marker, scale=4.0).item() == 4.0


def test_an_argument_that_f_ignores_gets_zeros() -> None:
    da, db = tg.grad(lambda a, b: (a * a).sum(), argnums=(0, 1))([1.0], [2.0, 3.0])
    assert da.tolist() == [2.0] and db.tolist() == [0.0, 0.0]
    assert tg.grad(lambda a: tg.tensor(1.0))([1.0, 2.0]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("tracked", [False, True])
def test_the_same_tensor_given_twice_is_two_arguments(tracked: bool) -> None:
    x = tg.tensor(3.0, requires_grad=tracked)
    da, db = tg.grad(lambda a, b: a * a * b, argnums=(0, 1))(x, x)
    assert (da.item(), db.item()) == (18.0, 9.0)


def test_grad_works_inside_no_grad() -> None:
    x = tg.tensor(3.0, requires_grad=True)
    with tg.no_grad():
        g = tg.grad(lambda a: a * a)(x)
        assert not tg.is_grad_enabled()
    assert g.item() == 6.0 and not g.requires_grad


def test_a_function_of_many_numbers_is_refused_by_name() -> None:
    def twice(a: Any) -> Any:
        return a * 2

    with pytest.raises(GraphError, match=r"twice returned shape \(2,\).*sum it, or use vjp"):
        tg.grad(twice)([1.0, 2.0])


def test_a_function_that_returns_no_tensor_is_refused() -> None:
    with pytest.raises(TypeError, match="returned float; expected a tensor"):
        tg.grad(lambda a: a.item())(2.0)
    with pytest.raises(TypeError, match="returned tuple"):
        tg.vjp(lambda a: (a, a), 2.0)


@pytest.mark.parametrize("argnums", [1, -2, (0, 7)])
def test_argnums_outside_the_arguments_is_refused(argnums: Any) -> None:
    with pytest.raises(ValueError, match=r"argnums has -?[0-9].*1 arguments were given"):
        tg.grad(lambda a: a, argnums=argnums)(1.0)


def test_an_integer_argument_is_refused() -> None:
    with pytest.raises(DTypeError, match=r"argument 0 of .* is of int64.*astype\(float\)"):
        tg.grad(lambda a: a * 1.0)(np.array(3))
    with pytest.raises(DTypeError, match=r"argument 1 of .* is of bool"):
        tg.vjp(lambda a, b: a * b, 1.0, True)


# vjp.


def test_vjp_pulls_as_often_as_asked() -> None:
    out, pull = tg.vjp(lambda a, b: a * b, [1.0, 2.0], [3.0, 4.0])
    assert out.tolist() == [3.0, 8.0]
    da, db = pull([1.0, 10.0])
    assert (da.tolist(), db.tolist()) == ([3.0, 40.0], [1.0, 20.0])
    assert pull(np.array([0.0, 1.0]))[0].tolist() == [0.0, 4.0]


def test_vjp_of_one_argument_pulls_one_tensor() -> None:
    _, pull = tg.vjp(lambda a: a.sum(), [1.0, 2.0])
    assert pull(2.0).tolist() == [2.0, 2.0]


def test_vjp_refuses_an_upstream_gradient_of_another_shape() -> None:
    _, pull = tg.vjp(lambda a: a * 2, [1.0, 2.0])
    with pytest.raises(ShapeError, match=r"\(2,\) was given a gradient of shape \(3,\)"):
        pull([1.0, 2.0, 3.0])


def test_the_pull_of_vjp_can_be_differentiated_by_what_it_pulls() -> None:
    a = np.array([[1.0, 2.0], [3.0, 4.0]])
    _, pull = tg.vjp(lambda x: tg.matmul(a, x), np.ones(2))
    g = tg.tensor(np.array([1.0, 1.0]), requires_grad=True)
    pull(g)[0].backward()
    assert g.grad is not None and g.grad.tolist() == [1.0, 3.0]


def test_vjp_finds_an_argument_that_changed_before_the_pull() -> None:
    x = tg.tensor([1.0, 2.0])

    def f(a: tg.Tensor) -> tg.Tensor:
        global kept
        kept = a
        return a * a

    _, pull = tg.vjp(f, x)
    kept.data -= 1
    with pytest.raises(MutationError):
        pull([1.0, 1.0])


kept: tg.Tensor


# jvp.


def test_jvp_is_the_derivative_along_the_tangent() -> None:
    out, tangent = tg.jvp(lambda a: a**2, tg.tensor([1.0, 3.0]), np.array([1.0, 0.5]))
    assert (out.tolist(), tangent.tolist()) == ([1.0, 9.0], [2.0, 3.0])


def test_jvp_adds_over_arguments() -> None:
    out, tangent = tg.jvp(lambda a, b: a * b, (2.0, 3.0), (1.0, 10.0))
    assert (out.item(), tangent.item()) == (6.0, 23.0)


def test_jvp_of_a_constant_function_is_zero() -> None:
    out, tangent = tg.jvp(lambda a: tg.ones(3), 1.0, 1.0)
    assert out.tolist() == [1.0] * 3 and tangent.tolist() == [0.0] * 3


def test_jvp_refuses_tangents_that_do_not_fit() -> None:
    with pytest.raises(ShapeError, match=r"tangent has shape \(3,\); its argument has \(2,\)"):
        tg.jvp(lambda a: a, np.ones(2), np.ones(3))
    with pytest.raises(ShapeError, match="2 arguments and 1 tangents"):
        tg.jvp(lambda a, b: a + b, (1.0, 2.0), (1.0,))


def network(w: tg.Tensor, x: tg.Tensor) -> tg.Tensor:
    h = tg.gelu(tg.layer_norm(x @ w) + x)
    return tg.softmax(h, axis=-1) @ h.mT


@given(st.integers(0, 10_000))
def test_forward_and_reverse_agree_on_a_network(seed: int) -> None:
    draw = np.random.default_rng(seed)
    w, x, dw, dx = (draw.standard_normal((3, 3)) for _ in range(4))
    _, tangent = tg.jvp(network, (w, x), (dw, dx))
    g = draw.standard_normal((3, 3))
    _, pull = tg.vjp(network, w, x)
    gw, gx = pull(g)
    forward = (tangent.data * g).sum()
    reverse = (gw.data * dw).sum() + (gx.data * dx).sum()
    assert forward == pytest.approx(reverse, rel=1e-9, abs=1e-9)


# Higher derivatives.


@pytest.mark.parametrize("x", [-1.3, 0.4, 2.0])
def test_derivatives_of_the_third_order_are_the_closed_forms(x: float) -> None:
    def third(f: Any) -> float:
        return float(tg.grad(tg.grad(tg.grad(f)))(number(x)).item())

    assert third(lambda a: a**5) == pytest.approx(60 * x**2)
    assert third(lambda a: a * a * a * a) == pytest.approx(24 * x)
    assert third(tg.sin) == pytest.approx(-math.cos(x))
    assert third(lambda a: tg.exp(2 * a)) == pytest.approx(8 * math.exp(2 * x))
    t = math.tanh(x)
    assert third(tg.tanh) == pytest.approx(-2 * (1 - t * t) * (1 - 3 * t * t))
    s = 1 / (1 + math.exp(-x))
    wanted = s * (1 - s) * (1 - 6 * s + 6 * s * s)
    assert third(tg.sigmoid) == pytest.approx(wanted)


def test_mixed_second_derivatives_are_equal() -> None:
    def f(a: Any, b: Any) -> Any:
        return tg.sin(a * b) * tg.exp(a)

    at = (number(0.7), number(-1.1))
    ab = tg.grad(tg.grad(f, 0), 1)(*at).item()
    ba = tg.grad(tg.grad(f, 1), 0)(*at).item()
    a, b = 0.7, -1.1
    wanted = math.exp(a) * ((1 + a) * math.cos(a * b) - a * b * math.sin(a * b))
    assert ab == pytest.approx(wanted) and ba == pytest.approx(wanted)


def test_modes_may_be_nested_in_any_order() -> None:
    x = number(0.8)
    wanted = 6 * 0.8

    def cube(a: Any) -> Any:
        return a * a * a

    def forward(f: Any) -> Any:
        return lambda a: tg.jvp(f, a, number(1.0))[1]

    def reverse(f: Any) -> Any:
        return lambda a: tg.vjp(f, a)[1](number(1.0))

    ways = [tg.grad, forward, reverse]
    for outer in ways:
        for inner in ways:
            assert outer(inner(cube))(x).item() == pytest.approx(wanted)


# One differentiation inside another, and over outer variables.


def test_the_inner_derivative_does_not_take_the_outer_variables_part() -> None:
    # Siskind & Pearlmutter 2005: d/dx (x · d/dy (x + y) at y = 1) is 1, and 2 with confusion.
    inner = lambda x: tg.grad(lambda y: x + y)(1.0)  # noqa: E731
    assert tg.grad(lambda x: x * inner(x))(1.0).item() == 1.0
    forward = lambda x: tg.jvp(lambda y: x + y, 1.0, 1.0)[1]  # noqa: E731
    assert tg.jvp(lambda x: x * forward(x), 1.0, 1.0)[1].item() == 1.0
    assert tg.grad(lambda x: x * forward(x))(1.0).item() == 1.0
    assert tg.jvp(lambda x: x * inner(x), 1.0, 1.0)[1].item() == 1.0


def derivative_by_grad(f: Any, at: Any) -> Any:
    return tg.grad(f)(at)


def derivative_by_jvp(f: Any, at: Any) -> Any:
    return tg.jvp(f, at, 1.0)[1]


def derivative_by_vjp(f: Any, at: Any) -> Any:
    return tg.vjp(f, at)[1](1.0)


WAYS = [derivative_by_grad, derivative_by_jvp, derivative_by_vjp]


@pytest.mark.parametrize("outer", WAYS)
@pytest.mark.parametrize("inner", WAYS)
def test_an_inner_derivative_depends_on_an_outer_variable_it_closes_over(
    outer: Any, inner: Any
) -> None:
    # d/dx (x · d/dy (x y) at y = 2) = d/dx x² = 2x.
    assert outer(lambda x: x * inner(lambda y: x * y, 2.0), 3.0).item() == 6.0
    # d/dx (d/dy (x² y³) at y = 2) = 2x · 12.
    assert outer(lambda x: inner(lambda y: x * x * y**3, 2.0), 3.0).item() == 72.0


def test_three_levels_each_see_their_own_variable() -> None:
    # d/dx d/dy d/dz x³y²z at (2, 3, 1) is 3x² · 2y · 1.
    def f(x: Any) -> Any:
        return tg.grad(lambda y: tg.grad(lambda z: x**3 * y**2 * z)(1.0))(3.0)

    assert tg.grad(f)(2.0).item() == 72.0


def test_a_gradient_over_closed_over_parameters_can_be_trained() -> None:
    w = tg.tensor(3.0, requires_grad=True)
    slope = tg.grad(lambda x: w * x * x)(2.0)
    assert slope.item() == 12.0 and slope.requires_grad
    (slope * slope).backward()
    assert w.grad is not None and w.grad.item() == 96.0


def test_a_value_over_closed_over_parameters_stays_tracked() -> None:
    w = tg.tensor(3.0, requires_grad=True)
    value, _ = tg.value_and_grad(lambda x: w * x)(2.0)
    value.backward()
    assert w.grad is not None and w.grad.item() == 2.0


def test_under_no_grad_closed_over_parameters_do_not_count() -> None:
    w = tg.tensor(3.0, requires_grad=True)
    with tg.no_grad():
        value, slope = tg.value_and_grad(lambda x: w * x * x)(2.0)
        _, tangent = tg.jvp(lambda x: w * x * x, 2.0, 1.0)
    assert not value.requires_grad and not slope.requires_grad and not tangent.requires_grad
    assert slope.item() == 12.0


def test_a_tracked_argument_keeps_its_history_through_grad() -> None:
    x = tg.tensor(2.0, requires_grad=True)
    g = tg.grad(lambda a: a**3)(x)
    g.backward()
    assert x.grad is not None and x.grad.item() == 12.0


def test_grad_of_a_function_that_runs_backward_itself() -> None:
    w = tg.tensor(2.0, requires_grad=True)

    def f(x: Any) -> Any:
        (w * w).backward()
        return x * x

    assert tg.grad(f)(3.0).item() == 6.0
    assert w.grad is not None and w.grad.item() == 4.0
