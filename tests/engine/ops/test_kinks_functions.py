"""Kinks and singular points of the functions and activations beyond the basic ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from engine.ops.kinks import INF, NAN, gradients, kink, same

import tinygrad_edu as tg


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with np.errstate(all="ignore"):
        yield


def second(f: Any, x: float) -> float:
    """f'' at one point."""
    found: float = tg.grad(tg.grad(f))(np.array(x)).item()
    return found


# Angles.


@kink("arcsin", "|a| = 1: slope inf")
@kink("arcsin", "|a| > 1: NaN with slope NaN")
def test_arcsin_at_the_ends() -> None:
    assert gradients(tg.arcsin, [-1.0, 0.0, 1.0])[1] == [INF, 1, INF]
    assert gradients(tg.arcsin, [1.0, -1.0], g=[0, 0])[1] == [0, 0]
    assert same(gradients(tg.arcsin, [1.5])[1], [NAN])


@kink("arccos", "|a| = 1: slope -inf")
@kink("arccos", "|a| > 1: NaN with slope NaN")
def test_arccos_at_the_ends() -> None:
    assert gradients(tg.arccos, [-1.0, 0.0, 1.0])[1] == [-INF, -1, -INF]
    assert same(gradients(tg.arccos, [-1.5])[1], [NAN])


def test_arcsin_keeps_its_digits_near_1() -> None:
    a = 1 - 2.0**-40
    assert gradients(tg.arcsin, a)[1] == pytest.approx(2**20 / math.sqrt(1 + a), rel=4e-16)


@kink("arctan", "a = ±inf: ±π/2 with slope 0")
def test_arctan_far_out() -> None:
    value, slope = gradients(tg.arctan, [-INF, INF, 1e200])
    assert value == [-math.pi / 2, math.pi / 2, math.pi / 2]
    assert slope == [0, 0, 0]


@kink("tan", "near odd multiples of π/2: large, as tan is")
def test_tan_near_a_pole() -> None:
    a = math.pi / 2  # rounded: the true tangent there is 1.633e16
    value, slope = gradients(tg.tan, a)
    assert value == pytest.approx(math.tan(a), rel=1e-15)
    assert slope == pytest.approx(math.tan(a) ** 2, rel=1e-15)


@kink("arctan2", "y = x = 0: gradient 0 to both")
def test_the_angle_at_the_origin_moves_nothing_and_spoils_nothing() -> None:
    assert gradients(tg.arctan2, [0.0, 1.0], [0.0, 0.0])[1:] == [[0, 0], [0, -1]]
    assert tg.jvp(lambda y, x: tg.arctan2(y, x), [0.0, 0.0], [1.0, 1.0])[1].item() == 0


@kink("arctan2", "y = 0 and x < 0, where the angle jumps by 2π: the slope of either side")
def test_the_angle_along_its_cut() -> None:
    value, dy, dx = gradients(tg.arctan2, [0.0, -0.0], [-2.0, -2.0])
    assert value == [math.pi, -math.pi]
    assert dy == [-0.5, -0.5]
    assert dx == [0, 0]


def test_the_angle_of_tiny_and_huge_points() -> None:
    for scale in (1e-200, 1e200):
        _, dy, dx = gradients(tg.arctan2, [scale], [scale])
        assert dy == pytest.approx([0.5 / scale], rel=1e-15)
        assert dx == pytest.approx([-0.5 / scale], rel=1e-15)


# Hyperbolas.


@kink("arcsinh", "|a| large: no overflow, slope 1/|a|")
def test_arcsinh_far_out() -> None:
    value, slope = gradients(tg.arcsinh, [1e200, -1e200])
    assert value == pytest.approx([math.asinh(1e200), -math.asinh(1e200)], rel=1e-15)
    assert slope == pytest.approx([1e-200, 1e-200], rel=1e-15)


@kink("arccosh", "a = 1: 0 with slope inf")
@kink("arccosh", "a < 1: NaN")
def test_arccosh_at_its_end() -> None:
    assert gradients(tg.arccosh, [1.0]) == [[0], [INF]]
    assert same(gradients(tg.arccosh, [0.5]), [[NAN], [NAN]])
    assert gradients(tg.arccosh, [1e200])[1] == pytest.approx([1e-200], rel=1e-15)


@kink("arctanh", "|a| = 1: ±inf with slope inf")
def test_arctanh_at_its_ends() -> None:
    assert gradients(tg.arctanh, [-1.0, 1.0]) == [[-INF, INF], [INF, INF]]


# Logarithms, powers, roots.


@kink("log2", "a = 0: -inf, with slope inf")
@kink("log10", "a = 0: -inf, with slope inf")
@pytest.mark.parametrize("f", [tg.log2, tg.log10])
def test_logarithms_at_0(f: Any) -> None:
    assert gradients(f, [0.0]) == [[-INF], [INF]]
    assert gradients(f, [0.0], g=[0])[1] == [0]


@kink("logaddexp", "a = b = -inf: -inf with gradient 0")
@kink("logaddexp", "a = b = inf: half each")
@kink("logaddexp", "never overflows")
def test_sums_of_exponentials_at_infinity_and_far_out() -> None:
    left, right = [-INF, INF, INF, 1000.0, 3.0], [-INF, INF, 0.0, 1000.0, -INF]
    value, da, db = gradients(tg.logaddexp, left, right)
    assert value == [-INF, INF, INF, 1000 + math.log(2), 3]
    assert da == [0, 0.5, 1, 0.5, 1]
    assert db == [0, 0.5, 0, 0.5, 0]


def test_a_small_share_keeps_its_digits() -> None:
    assert gradients(tg.logaddexp, -700.0, 0.0)[1] == pytest.approx(math.exp(-700), rel=1e-12)
    assert gradients(tg.softplus, -700.0)[1] == pytest.approx(math.exp(-700), rel=1e-12)
    assert gradients(tg.sigmoid, -700.0)[0] == pytest.approx(math.exp(-700), rel=1e-12)
    assert gradients(tg.sigmoid, 40.0)[1] == pytest.approx(math.exp(-40), rel=1e-12)
    assert gradients(tg.log_sigmoid, 700.0) == pytest.approx([-math.exp(-700), math.exp(-700)])


@kink("xlogy", "a = 0: 0 at any b, with gradient ln b to a (-inf at b = 0) and 0 to b")
@kink("xlogy", "b < 0: NaN, and where a = 0 a NaN gradient to a alone")
def test_entropy_terms_at_0() -> None:
    value, da, db = gradients(tg.xlogy, [0.0, 0.0, 2.0], [2.0, 0.0, 3.0])
    assert value == [0, 0, 2 * math.log(3)]
    assert da == [math.log(2), -INF, math.log(3)]
    assert db == [0, 0, 2 / 3]
    value, da, db = gradients(tg.xlogy, [0.0, 1.0], [-1.0, -1.0])
    assert same(value, [0, NAN])
    assert same(da, [NAN, NAN])
    assert db == [0, -1]


def test_entropy_is_steep_where_a_probability_is_0() -> None:
    p = [0.0, 0.5, 1.0]
    value, slope = gradients(lambda x: -tg.xlogy(x, x), p)
    assert value == [0, 0.5 * math.log(2), 0]
    assert slope == [INF, math.log(2) - 1, -1]


@kink("reciprocal", "a = 0: inf, with slope -inf")
def test_reciprocal_of_0() -> None:
    assert gradients(tg.reciprocal, [0.0]) == [[INF], [-INF]]


@kink("cbrt", "a = 0: 0, with slope inf")
def test_cube_root_of_0_and_of_negative_numbers() -> None:
    assert gradients(tg.cbrt, [0.0]) == [[0], [INF]]
    assert gradients(tg.cbrt, [-8.0]) == [[-2], [1 / 12]]


@kink("hypot", "a = b = 0: gradient 0 to both")
@kink("hypot", "never overflows")
def test_the_length_at_the_origin_and_far_out() -> None:
    assert gradients(tg.hypot, [0.0], [0.0]) == [[0], [0], [0]]
    value, da, db = gradients(tg.hypot, [3e200], [-4e200])
    assert value == pytest.approx([5e200], rel=1e-15)
    assert (da, db) == (pytest.approx([0.6], rel=1e-15), pytest.approx([-0.8], rel=1e-15))
    assert gradients(tg.hypot, [INF, 1.0], [1.0, -INF])[1:] == [[1, 0], [0, -1]]
    x, y = np.float32(1e19), np.float32(1e19)  # JAX has 1.06 here
    leaf = tg.Tensor(np.array(x), requires_grad=True)
    tg.hypot(leaf, y).backward()
    assert leaf.grad is not None and leaf.grad.item() == pytest.approx(math.sqrt(0.5), rel=1e-6)


def test_the_length_bends_right_on_an_axis() -> None:
    assert second(lambda x: tg.hypot(x, 2.0), 0.0) == 0.5


# Steps.


@kink("round", "everywhere: gradient 0")
@kink("floor", "everywhere: gradient 0")
@kink("ceil", "everywhere: gradient 0")
@kink("trunc", "everywhere: gradient 0")
@pytest.mark.parametrize(
    ("f", "value"),
    [
        (tg.round, [-2, 0, 0, 2]), (tg.floor, [-2, 0, 0, 2]), (tg.ceil, [-1, 0, 1, 2]),
        (tg.trunc, [-1, 0, 0, 2]),
    ],
)  # fmt: skip
def test_steps_are_flat(f: Any, value: list[float]) -> None:
    assert gradients(f, [-1.5, 0.0, 0.5, 2.0]) == [value, [0, 0, 0, 0]]


@kink("floor_divide", "everywhere: gradient 0 to both")
@kink("remainder", "a a multiple of b, where it jumps: the slope of the side above")
def test_remainders() -> None:
    assert gradients(tg.floor_divide, [7.0, -7.0], [2.0, 2.0]) == [[3, -4], [0, 0], [0, 0]]
    assert gradients(tg.remainder, [7.0, -7.0, 6.0], [2.0, 2.0, 2.0]) == [
        [1, 1, 0], [1, 1, 1], [-3, 4, -3],
    ]  # fmt: skip
    assert gradients(lambda a: a % 2.0 + a // 2.0 + 7.0 % a, 3.0)[:2] == [3.0, 1 - 2]
    assert (tg.tensor(np.array([6, 5])) % 4).tolist() == [2, 1]
    assert (tg.tensor(np.array([6, 5])) << 1).tolist() == [12, 10]


def test_rounding_to_decimals() -> None:
    assert tg.round(tg.tensor([1.25, -0.04]), 1).tolist() == pytest.approx([1.2, 0])


# sinc and erfc.


@kink("sinc", "a = 0: 1 with slope 0, and right to any order")
def test_sinc_at_0_to_order_6() -> None:
    f: Any = tg.sinc
    for order in range(7):
        want = 0 if order % 2 else (-1) ** (order // 2) * math.pi**order / (order + 1)
        assert f(np.array(0.0)).item() == pytest.approx(want, rel=1e-14)
        f = tg.grad(f)


@kink("erfc", "a large: to full precision, where 1 - erf a is 0")
def test_erfc_in_the_tail() -> None:
    value, slope = gradients(tg.erfc, 20.0)
    assert value == pytest.approx(math.erfc(20), rel=1e-13)
    assert slope == pytest.approx(-2 / math.sqrt(math.pi) * math.exp(-400), rel=1e-13)


# Activations.


@kink("softplus", "|a| large: a or 0, slope 1 or 0, no overflow")
@kink("softplus", "a = 0: slope 1/2")
def test_softplus_far_out_and_at_0() -> None:
    value, slope = gradients(tg.softplus, [-1000.0, 0.0, 1000.0])
    assert value == [0, math.log(2), 1000]
    assert slope == [0, 0.5, 1]
    assert second(tg.softplus, 0.0) == 0.25


@kink("log_sigmoid", "|a| large: a or 0, slope 1 or 0, no overflow")
def test_log_sigmoid_far_out() -> None:
    value, slope = gradients(tg.log_sigmoid, [-1000.0, 0.0, 1000.0])
    assert value == [-1000, -math.log(2), 0]
    assert slope == [1, 0.5, 0]


@kink("silu", "a = inf: slope 1")
@kink("silu", "a = -inf: 0 with slope 0")
@kink("mish", "a = inf: slope 1")
@kink("mish", "a = -inf: 0 with slope 0")
@pytest.mark.parametrize("f", [tg.silu, tg.mish])
def test_smooth_relus_at_infinity(f: Any) -> None:
    assert gradients(f, [-INF, INF]) == [[0, INF], [0, 1]]
    assert gradients(f, [-1000.0, 1000.0]) == [[0, 1000], [0, 1]]


@kink("elu", "a = 0: slope α")
@kink("selu", "a = 0: slope λα")
@kink("leaky_relu", "a = 0: the slope below 0")
def test_activations_with_a_bend_at_0_take_the_side_below() -> None:
    assert gradients(lambda x: tg.elu(x, 0.5), [-0.0, 0.0, 1e4])[1] == [0.5, 0.5, 1]
    assert gradients(tg.selu, 0.0)[1] == pytest.approx(1.6732632423543772 * 1.0507009873554805)
    assert gradients(tg.leaky_relu, [0.0, -1.0, 1.0])[1] == [0.01, 0.01, 1]


@kink("softsign", "a = 0: slope 1; the second derivative, which jumps there, is 0")
def test_softsign_at_0() -> None:
    assert gradients(tg.softsign, 0.0)[1] == 1
    assert second(tg.softsign, 0.0) == 0


def test_a_beta_that_is_no_number_above_0_is_refused() -> None:
    with pytest.raises(ValueError, match="beta has to be above 0; got 0"):
        tg.softplus(1.0, beta=0)
