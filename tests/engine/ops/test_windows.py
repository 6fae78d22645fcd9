"""Convolution and pooling: against loops, and their gradients against differences."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from engine.ops.kinks import gradients, kink

import tinygrad_edu as tg
from tinygrad_edu.nn import functional as F
from tinygrad_edu.testing import check_jvp, check_second_order, check_vjp

RNG = np.random.default_rng(0)
X1, X2 = RNG.normal(size=(2, 4, 7)), RNG.normal(size=(2, 2, 6, 5))


def by_loops(x: Any, w: Any, step: Any, pad: Any, dilation: Any, groups: int) -> Any:
    """A convolution over one or two axes, one number at a time."""
    axes = x.ndim - 2
    x = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in pad)))
    sizes = w.shape[2:]
    many = [
        (n - d * (k - 1) - 1) // s + 1
        for n, d, k, s in zip(x.shape[2:], dilation, sizes, step, strict=True)
    ]
    out = np.zeros((len(x), len(w), *many))
    per = len(w) // groups
    for n, o, *place in product(*map(range, out.shape)):
        first = o // per * w.shape[1]
        for c, *inside in product(*map(range, w.shape[1:])):
            at = [place[i] * step[i] + inside[i] * dilation[i] for i in range(axes)]
            out[(n, o, *place)] += x[(n, first + c, *at)] * w[(o, c, *inside)]
    return out


@pytest.mark.parametrize(
    ("x", "shape", "step", "pad", "dilation", "groups"),
    [
        (X1, (3, 4, 3), (1,), (0,), (1,), 1), (X1, (4, 2, 2), (2,), (1,), (3,), 2),
        (X1, (4, 1, 7), (1,), (0,), (1,), 4), (X1, (1, 4, 1), (3,), (0,), (1,), 1),
        (X2, (3, 2, 2, 3), (1, 1), (0, 0), (1, 1), 1),
        (X2, (2, 1, 3, 2), (2, 1), (1, 2), (1, 2), 2),
    ],
)  # fmt: skip
def test_convolution_is_what_the_loops_say(
    x: Any, shape: Any, step: Any, pad: Any, dilation: Any, groups: int
) -> None:
    w, b = RNG.normal(size=shape), RNG.normal(size=shape[0])
    convolve = F.conv1d if x.ndim == 3 else F.conv2d
    how = {"stride": step, "padding": pad, "dilation": dilation, "groups": groups}
    want = by_loops(x, w, step, pad, dilation, groups) + b.reshape(-1, *(1,) * (x.ndim - 2))
    np.testing.assert_allclose(convolve(x, w, b, **how)._data, want, rtol=1e-12, atol=1e-12)

    def f(*given: Any) -> Any:
        return convolve(*given, **how)

    check_vjp(f, x, w, b)
    check_jvp(f, x, w, b)


def test_one_example_and_padding_by_name() -> None:
    w = RNG.normal(size=(3, 4, 4))
    one = F.conv1d(X1[0], w, padding="same")
    assert one.shape == (3, 7)
    np.testing.assert_allclose(one._data, F.conv1d(X1, w, padding="same")._data[0], rtol=1e-12)
    wide = np.pad(X1, ((0, 0), (0, 0), (1, 2)))
    np.testing.assert_allclose(F.conv1d(wide, w)._data[0], one._data, rtol=1e-12)
    assert F.conv1d(X1, w, padding="valid").shape == (2, 3, 4)


def test_a_batch_of_nothing() -> None:
    x = tg.tensor(np.zeros((0, 4, 7)), requires_grad=True)
    w = tg.tensor(np.ones((4, 2, 3)), requires_grad=True)
    out = F.conv1d(x, w, groups=2)
    assert out.shape == (0, 4, 5)
    out.sum().backward()
    assert w.grad is not None and not w.grad.data.any()
    assert F.max_pool1d(x, 2).shape == (0, 4, 3)


def test_convolution_twice() -> None:
    w = RNG.normal(size=(2, 4, 3))
    check_second_order(lambda a, b: F.conv1d(tg.tanh(a), b * b), X1[:1, :, :4], w)


def test_pooling_is_what_numpy_says() -> None:
    rows = np.lib.stride_tricks.sliding_window_view(X1, 3, -1)
    np.testing.assert_array_equal(F.max_pool1d(X1, 3)._data, rows[..., ::3, :].max(-1))
    np.testing.assert_array_equal(F.max_pool1d(X1, 3, 2)._data, rows[..., ::2, :].max(-1))
    np.testing.assert_allclose(F.avg_pool1d(X1, 3, 1)._data, rows.mean(-1), rtol=1e-14)
    edge = np.pad(X1, ((0, 0), (0, 0), (1, 1)), constant_values=-np.inf)
    wide = np.lib.stride_tricks.sliding_window_view(edge, 3, -1)
    np.testing.assert_array_equal(F.max_pool1d(X1, 3, 1, 1)._data, wide.max(-1))
    mean = F.avg_pool1d(np.ones((1, 1, 4)), 2, 2, 1)
    assert mean.tolist() == [[[0.5, 1.0, 0.5]]]
    mean = F.avg_pool1d(np.ones((1, 1, 4)), 2, 2, 1, count_include_pad=False)
    assert mean.tolist() == [[[1.0, 1.0, 1.0]]]
    blocks = X2[..., :4].reshape(2, 2, 3, 2, 2, 2)
    np.testing.assert_array_equal(F.max_pool2d(X2, 2)._data, blocks.max((3, 5)))
    np.testing.assert_allclose(F.avg_pool2d(X2, 2)._data, blocks.mean((3, 5)), rtol=1e-14)
    for f in (F.max_pool2d, F.avg_pool2d):
        check_vjp(lambda x, f=f: f(x, (2, 3), 2, 1), X2)


def test_ties_in_a_window_share_and_padding_gets_nothing() -> None:
    assert gradients(lambda x: F.max_pool2d(x, 2), np.ones((1, 2, 2)))[1] == [[[0.25] * 2] * 2]
    assert gradients(lambda x: F.max_pool1d(x, 3, 1, 1), [[-5.0, -6.0]])[1] == [[2, 0]]


@kink("windows", "an element of k windows gets the sum of k gradients")
def test_an_element_of_several_windows_gets_their_sum() -> None:
    slope = gradients(lambda x: F.avg_pool1d(x, 2, 1) * 2, [[1.0, 2.0, 3.0]], g=[[1, 10]])[1]
    assert slope == [[1, 11, 10]]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: F.conv1d(X2, np.ones((1, 2, 1))), r"needs x \(N, C, L\), or without N; got"),
        (lambda: F.conv1d(X1, np.ones((1, 3, 1))), "x with 4 channels and a weight"),
        (lambda: F.conv1d(X1, np.ones((3, 2, 1)), groups=2), "first is divisible by groups"),
        (lambda: F.conv1d(X1, np.ones((1, 4, 8))), "it does not fit once"),
        (lambda: F.conv1d(X1, np.ones((1, 4, 1)), np.ones(2)), r"expected \(1,\)"),
        (lambda: F.conv1d(X1, np.ones((1, 4, 1)), stride=0), "stride is a number .* at least 1"),
        (lambda: F.conv1d(X1, np.ones((1, 4, 1)), padding="full"), "'same' or 'valid'; got 'full'"),
        (lambda: F.conv1d(X1, np.ones((1, 4, 2)), stride=2, padding="same"), "for stride 1 alone"),
        (lambda: F.max_pool1d(X1, 2, padding=2), "more than half of its window"),
        (lambda: tg.nn.Conv1d(3, 4, 2, groups=2), "expected a divisor"),
        (lambda: tg.nn.Conv2d(3, 4, (2, 2, 2)), "a number or 2 of them"),
    ],
)
def test_refusals(call: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call()
