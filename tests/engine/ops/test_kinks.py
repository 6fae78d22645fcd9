"""What happens at kinks, singular points, extremes: each line of the registry's `kinks` is a test.

Most are choices: another would often be as good, but there is one, and it is kept.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from engine.ops.kinks import INF, NAN, gradients, kink, same

import tinygrad_edu as tg
from tinygrad_edu.testing import check_second_order

# Elementwise.


@kink("relu", "a = 0: gradient 0")
def test_relu_at_0() -> None:
    assert gradients(tg.relu, [-1.0, 0.0, -0.0, 2.0])[1] == [0, 0, 0, 1]


@kink("abs", "a = 0: gradient 0")
def test_abs_at_0() -> None:
    assert gradients(tg.abs, [-1.0, 0.0, 2.0])[1] == [-1, 0, 1]


@kink("sign", "everywhere: gradient 0")
def test_sign_is_flat() -> None:
    assert gradients(tg.sign, [-1.0, 0.0, 2.0]) == [[-1, 0, 1], [0, 0, 0]]


@kink("clip", "a on a bound: gradient 1")
@pytest.mark.parametrize("unit", [1.0, 6.0], ids=["hardtanh", "relu6"])
def test_clip_on_its_bounds(unit: float) -> None:
    x = [-2 * unit, -unit, 0.0, unit, 2 * unit]
    assert gradients(lambda t: tg.clip(t, -unit, unit), x)[1] == [0, 1, 1, 1, 0]


@kink("maximum", "a = b: each gets half")
@kink("minimum", "a = b: each gets half")
@pytest.mark.parametrize("f", [tg.maximum, tg.minimum])
def test_ties_of_two_are_shared(f: Any) -> None:
    assert gradients(f, [1.0, 0.0], [1.0, 0.0]) == [[1, 0], [0.5, 0.5], [0.5, 0.5]]


@pytest.mark.parametrize("f", [tg.maximum, tg.minimum])
def test_infinite_ties_are_shared_too(f: Any) -> None:
    assert gradients(f, [INF, -INF], [INF, -INF])[1:] == [[0.5, 0.5], [0.5, 0.5]]


@kink("divide", "b = 0: the gradient is inf or NaN as the quotient is, and 0 where nothing arrives")
def test_division_by_0() -> None:
    with np.errstate(all="ignore"):
        value, da, db = gradients(tg.divide, [1.0, 0.0, 1.0], [0.0, 0.0, 0.0], g=[1, 1, 0])
    assert same(value, [INF, NAN, INF])
    assert same(da, [INF, INF, 0])
    assert same(db, [-INF, NAN, 0])


@kink("power", "0 ** 0 is 1 with gradient 0 to both")
@kink("power", "b = 0: the gradient to a is 0")
@kink("power", "a = 0: the gradient to b is 0")
def test_power_with_base_0() -> None:
    value, da, db = gradients(tg.power, [0.0, 0.0, 0.0, 2.0], [0.0, 1.0, 2.0, 0.0])
    assert value == [1, 0, 0, 1]
    assert da == [0, 1, 0, 0]  # HIPS/autograd#149: d/dx x² at 0 is 0, of x¹ 1, of x⁰ 0
    assert db[:3] == [0, 0, 0]
    assert db[3] == math.log(2)


def test_power_with_base_0_and_a_negative_exponent_is_never_nan() -> None:
    with np.errstate(all="ignore"):
        value, da, db = gradients(tg.power, [0.0], [-1.0])
    assert (value, da, db) == ([INF], [-INF], [0])


@kink("power", "a < 0: the gradient to b is NaN (ln a), the gradient to a is b·a**(b-1)")
def test_power_with_a_negative_base() -> None:
    with np.errstate(all="ignore"):
        value, da, db = gradients(tg.power, [-2.0], [3.0])
    assert (value, da) == ([-8], [12])
    assert math.isnan(db[0])


@kink("power_constant", "n = 0: 1 with gradient 0, also at a = 0")
def test_power_0_is_flat() -> None:
    assert gradients(lambda x: x**0, [0.0, 2.0]) == [[1, 1], [0, 0]]


@kink("power_constant", "a = 0 and n < 1: the slope is inf")
def test_a_root_by_power_is_steep_at_0() -> None:
    assert gradients(lambda x: x**0.5, [0.0, 4.0])[1] == [INF, 0.25]


@pytest.mark.parametrize(("n", "slope"), [(1, 1), (2, 0), (3, 0)])
def test_whole_powers_at_0(n: int, slope: float) -> None:
    assert gradients(lambda x: x**n, [0.0])[1] == [slope]


@kink("log", "a = 0: -inf, with slope inf")
@kink("log1p", "a = -1: -inf, with slope inf")
@kink("sqrt", "a = 0: 0, with slope inf")
@pytest.mark.parametrize(
    ("f", "at", "value"), [(tg.log, 0.0, -INF), (tg.log1p, -1.0, -INF), (tg.sqrt, 0.0, 0.0)]
)
def test_the_ends_of_domains_are_steep(f: Any, at: float, value: float) -> None:
    with np.errstate(all="ignore"):
        assert gradients(f, [at]) == [[value], [INF]]
        assert gradients(f, [at], g=[0])[1] == [0]  # nothing arrives: nothing leaves


@kink("sigmoid", "|a| large: 0 or 1 with gradient 0, no overflow")
def test_sigmoid_far_out() -> None:
    assert gradients(tg.sigmoid, [-1000.0, 1000.0, -INF, INF]) == [[0, 1, 0, 1], [0, 0, 0, 0]]


def test_tanh_far_out() -> None:
    assert gradients(tg.tanh, [-1000.0, 1000.0]) == [[-1, 1], [0, 0]]


@kink("gelu", "a = +inf: slope 1; a = -inf: value 0, slope 0")
@pytest.mark.parametrize("form", ["none", "tanh"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gelu_far_out(form: str, dtype: Any) -> None:
    x = tg.Tensor(np.array([1e3, -1e3, 1e30, -1e30, INF, -INF], dtype), requires_grad=True)
    out = tg.gelu(x, form)
    out.sum().backward()
    big = dtype(1e30)
    assert x.grad is not None
    assert same(out._data, [1e3, 0, big, 0, INF, 0])
    assert same(x.grad._data, [1, 0, 1, 0, 1, 0])


def test_gelu_keeps_nan() -> None:
    assert np.isnan(gradients(tg.gelu, [NAN])).all()


@pytest.mark.parametrize(
    "f",
    [tg.relu, tg.abs, tg.tanh, tg.sigmoid, tg.exp]
    + [lambda x, a=a: tg.linear(x, np.eye(1), None, a) for a in ("relu", "gelu", "tanh")],
)
def test_nan_is_never_swallowed(f: Any) -> None:
    assert np.isnan(gradients(f, [[NAN]])[0]).all()


# Where.


@kink("where", "the branch not taken gets 0, never NaN")
@pytest.mark.parametrize(
    ("f", "x", "want"),
    [
        (lambda x: tg.where(x >= 0, x, tg.sqrt(-x)), 1.0, 1.0),  # HIPS/autograd#802
        (lambda x: tg.where(x > 0, tg.log(x), x * 0), -1.0, 0.0),
        (lambda x: tg.where(x > 0, tg.sqrt(x), x * 0), 0.0, 0.0),
        (lambda x: tg.where(x > 1, 0.0, tg.exp(x)), 1000.0, 0.0),
        (lambda x: tg.where(x != 0, tg.sin(x) / x, 1.0), 0.0, 0.0),
        (lambda x: tg.where(x > -1, tg.log1p(x), 0.0), -1.0, 0.0),
        (lambda x: tg.where(x > 0, x**0.5, 0.0), 0.0, 0.0),
    ],
)
def test_a_masked_branch_cannot_poison(f: Any, x: float, want: float) -> None:
    with np.errstate(all="ignore"):
        assert gradients(f, x)[1] == want
        assert tg.jvp(f, np.array(x), np.array(1.0))[1].item() == want


def test_where_with_a_scalar_branch_sums_its_gradient() -> None:
    mask = np.array([True, False, True])  # HIPS/autograd#396
    assert gradients(lambda a, b: tg.where(mask, a, b), 1.0, [2.0, 3.0, 4.0])[1:] == [2, [0, 1, 0]]


def test_absorb_keeps_the_second_derivative_where_the_first_is_0() -> None:
    """z·eʷ at z = 0: the gradient to w is 0, but its slope along z is eʷ."""
    z, w = np.array([0.0]), np.array([1.0])
    slope = tg.grad(lambda a, b: tg.grad(lambda c, d: (c * tg.exp(d)).sum(), 1)(a, b).sum())(z, w)
    assert slope.tolist() == [math.e]
    check_second_order(lambda a, b: a * tg.exp(b), z, w)


# Reductions.


@kink("max", "ties: shared equally")
@kink("min", "ties: shared equally")
def test_ties_of_many_are_shared() -> None:
    assert gradients(tg.max, [1.0, 1.0, 0.0])[1] == [0.5, 0.5, 0]
    assert gradients(tg.min, [1.0, 1.0, 0.0, 0.0, 0.0])[1] == [0, 0, 1 / 3, 1 / 3, 1 / 3]
    rows = [[1.0, 1.0], [2.0, 3.0]]
    assert gradients(lambda x: tg.max(x, axis=1), rows)[1] == [[0.5, 0.5], [0, 1]]


def test_ties_beyond_what_the_dtype_can_count_are_shared() -> None:
    """tinygrad#12296: half precision counts to 2048 only."""
    x = tg.Tensor(np.zeros(5000, np.float16), requires_grad=True)
    tg.max(x).backward()
    assert x.grad is not None
    assert float(x.grad._data.astype(float).sum()) == pytest.approx(1, rel=2e-3)


@kink("var", "all equal: 0 with gradient 0")
def test_variance_of_a_constant() -> None:
    assert gradients(tg.var, [2.0, 2.0, 2.0]) == [0, [0, 0, 0]]
    assert gradients(tg.var, [2.0]) == [0, [0]]


@kink("logsumexp", "all -inf: -inf with gradient 0")
@kink("logsumexp", "never overflows")
def test_logsumexp_far_out() -> None:
    assert gradients(tg.logsumexp, [-INF, -INF]) == [-INF, [0, 0]]
    assert gradients(tg.logsumexp, [1e4, -1e4]) == [1e4, [1, 0]]
    assert gradients(tg.logsumexp, [-1e4, -INF]) == [-1e4, [1, 0]]
    rows = [[-INF, -INF], [0.0, 0.0]]
    value, slope = gradients(lambda x: tg.logsumexp(x, axis=1), rows)
    assert value == [-INF, math.log(2)]
    assert slope == [[0, 0], [0.5, 0.5]]


@kink("softmax", "a row of -inf alone: 0 with gradient 0")
@kink("softmax", "never overflows")
def test_softmax_far_out() -> None:
    assert gradients(tg.softmax, [-INF, -INF], g=[1, 2]) == [[0, 0], [0, 0]]
    assert gradients(tg.softmax, [1e4, -1e4], g=[1, 2]) == [[1, 0], [0, 0]]
    assert gradients(tg.softmax, [0.0, -INF], g=[1, 2]) == [[1, 0], [0, 0]]


@kink("log_softmax", "a row of -inf alone: -inf, never NaN")
@kink("log_softmax", "never overflows")
def test_log_softmax_far_out() -> None:
    assert gradients(tg.log_softmax, [1e4, -1e4], g=[0, 1]) == [[0, -2e4], [-1, 1]]
    assert gradients(tg.log_softmax, [-INF, -INF], g=[0, 1]) == [[-INF, -INF], [0, 1]]


@pytest.mark.parametrize("f", [tg.softmax, tg.logsumexp, tg.log_softmax])
@pytest.mark.parametrize("x", [[-INF, -INF], [1e4, -1e4]])
def test_extremes_are_the_same_unfused(f: Any, x: list[float]) -> None:
    fused = gradients(f, x)
    with tg.unfused(), np.errstate(all="ignore"):
        assert gradients(f, x) == fused
    tangent = tg.jvp(f, np.array(x), np.array([1.0, -1.0]))[1]._data
    assert not np.isnan(tangent).any()


# Products and indices.


@kink("matmul", "a contraction does not absorb: 0 · inf inside a sum is NaN")
def test_matmul_does_not_absorb() -> None:
    with np.errstate(all="ignore"):
        assert math.isnan(gradients(tg.matmul, [0.0, 1.0], [INF, 1.0])[0])


def test_matrix_times_vector_golden() -> None:
    value, da, db = gradients(tg.matmul, [[1.0, 2.0], [3.0, 4.0]], [1.0, 2.0])
    assert value == [5, 11]
    assert da == [[1, 2], [1, 2]]
    assert db == [4, 6]


@kink("getitem", "an element read k times gets the sum of k gradients")
def test_repeats_add_up() -> None:
    assert gradients(lambda x: x[[0, 0, 1]], [5.0, 6.0, 7.0])[1] == [2, 1, 0]


def test_broadcast_to_sums_back() -> None:
    assert gradients(lambda x: tg.broadcast_to(x, (4, 3)), [1.0, 1.0, 1.0])[1] == [4, 4, 4]


@pytest.mark.parametrize("axis", [(1, 2), (0, -1), 1, None])
def test_mean_over_several_axes(axis: Any) -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    value, slope = gradients(lambda t: t.mean(axis=axis), x)
    assert np.allclose(value, x.mean(axis=axis), rtol=1e-15)
    assert np.allclose(slope, np.size(value) / x.size, rtol=1e-15)


# Fused.


@kink("layer_norm", "a constant row: 0 with a finite gradient, because of eps")
def test_layer_norm_of_a_constant_row() -> None:
    value, slope = gradients(tg.layer_norm, [[3.0, 3.0]], g=[[1, 0]])
    assert value == [[0, 0]]
    assert np.allclose(slope, [[0.5 / math.sqrt(1e-5), -0.5 / math.sqrt(1e-5)]], rtol=1e-12)


@kink("rms_norm", "a row of zeros: 0 with a finite gradient, because of eps")
def test_rms_norm_of_a_row_of_zeros() -> None:
    value, slope = gradients(tg.rms_norm, [[0.0, 0.0]], g=[[1, -2]])
    assert value == [[0, 0]]
    assert np.allclose(slope, [[1 / math.sqrt(1e-5), -2 / math.sqrt(1e-5)]], rtol=1e-12)


@kink("cross_entropy", "a target of ignore_index gets 0 and is not counted")
def test_ignored_targets() -> None:
    targets = np.array([0, -100])
    value, slope = gradients(lambda z: tg.cross_entropy(z, targets), [[0.0, 0.0], [5.0, 1.0]])
    assert value == pytest.approx(math.log(2), rel=1e-15)
    assert slope == [[-0.5, 0.5], [0, 0]]


@kink("cross_entropy", "no target to count: a mean is NaN, with gradient 0")
@pytest.mark.parametrize("targets", [[-100, -100], []])
def test_cross_entropy_of_no_target(targets: list[int]) -> None:
    z = np.ones((len(targets), 4))
    value, slope = gradients(lambda x: tg.cross_entropy(x, targets), z)
    assert np.isnan(value)
    assert slope == np.zeros_like(z).tolist()
    with tg.unfused():
        value, slope = gradients(lambda x: tg.cross_entropy(x, targets), z)
    assert np.isnan(value)
    assert slope == np.zeros_like(z).tolist()
    assert gradients(lambda x: tg.cross_entropy(x, targets, reduction="sum"), z)[0] == 0


@kink("cross_entropy", "never overflows")
def test_cross_entropy_of_large_logits() -> None:
    targets = np.array([0, 1])
    value, slope = gradients(
        lambda z: tg.cross_entropy(z, targets, reduction="none"), [[1e4, -1e4], [1e4, -1e4]]
    )
    assert value == [0, 2e4]
    assert slope == [[0, 0], [1, -1]]


@kink("embedding", "a row read k times gets the sum of k gradients")
@kink("embedding", "the padding row gets 0")
@pytest.mark.parametrize("rows", [3, 600])  # the two ways to add rows up
def test_embedding_rows_add_up_and_padding_gets_nothing(rows: int) -> None:
    ids = np.array([[0, 0, 1], [2, 2, 2]])
    table = np.ones((rows, 2))
    slope = gradients(lambda w: tg.embedding(ids, w), table)[1]
    assert slope[:3] == [[2, 2], [1, 1], [3, 3]]
    slope = gradients(lambda w: tg.embedding(ids, w, padding_idx=2), table)[1]
    assert slope[:3] == [[2, 2], [1, 1], [0, 0]]
    assert not np.any(slope[3:])


@kink("attention", "a row that may look nowhere: 0 with gradient 0")
def test_attention_of_a_row_that_may_look_nowhere() -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, 2)) for _ in range(3))
    mask = np.array([[False, False], [True, True]])
    for added in (mask, np.where(mask, 0, -INF)):
        value, dq, dk, dv = gradients(lambda q, k, v, m=added: tg.attention(q, k, v, m), q, k, v)
        assert value[0] == [0, 0] and value[1] != [0, 0]
        assert dq[0] == [0, 0]
        assert np.isfinite([dq, dk, dv]).all()


@kink("packed_attention", "a row that may look nowhere: 0 with gradient 0")
def test_packed_attention_of_a_row_that_may_look_nowhere() -> None:
    qkv = np.random.default_rng(0).standard_normal((1, 3, 6))
    mask = np.array([[True, False, False], [False, False, False], [True, True, True]])
    value, slope = gradients(lambda x: tg.packed_attention(x, 1, mask=mask), qkv)
    assert value[0][1] == [0, 0]
    assert slope[0][1][:2] == [0, 0]  # its query
    assert np.isfinite(slope).all()


def test_cross_entropy_of_a_row_of_minus_infinity_is_infinite_and_silent() -> None:
    z = tg.tensor([[-np.inf, -np.inf], [0.0, 0.0]], requires_grad=True)
    losses = tg.cross_entropy(z, np.array([0, 1]), reduction="none")
    assert losses.data[0] == np.inf
    losses[1].backward()
    assert z.grad is not None
    np.testing.assert_allclose(z.grad.data, [[0, 0], [0.5, -0.5]])


def test_an_infinite_gradient_of_one_embedding_row_stays_in_its_row() -> None:
    table = tg.tensor(np.zeros((3, 2)), requires_grad=True)
    tg.embedding(np.array([0, 2, 2]), table).backward(np.array([[np.inf, 1], [1, 1], [1, 1]]))
    assert table.grad is not None
    np.testing.assert_array_equal(table.grad.data, [[np.inf, 1], [0, 0], [2, 2]])
