"""Buckets of gradients: what is sent together, when, and in which order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinygrad_edu import Tensor, nn, ones
from tinygrad_edu.parallel.buckets import Buckets
from tinygrad_edu.parallel.workers import part_gradient


class Sums:
    """Takes down which arrays were sent, and when they were asked after."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.asked = 0

    def begin(self, array: Any) -> Any:
        self.sent.append(array)
        return len(self.sent)

    def go_on(self, under_way: list[Any]) -> None:
        assert under_way == list(range(1, len(self.sent) + 1))
        self.asked += 1


def chain(width: int = 4, layers: int = 5) -> nn.Sequential:
    return nn.Sequential(*[nn.Linear(width, width) for _ in range(layers)])


def loss_of(model: nn.Module, x: Any) -> Tensor:
    return model(Tensor(x)).sum()  # type: ignore[operator, no-any-return]


def test_gradients_leave_in_buckets_while_the_backward_pass_goes_on() -> None:
    model, sums = chain(), Sums()
    parameters = list(model.parameters())
    buckets = Buckets(parameters, sums.begin, sums.go_on, size=4 * 20)  # one layer each
    layers = [bucket.numbers for bucket in buckets.buckets]
    assert layers == [[9, 8], [7, 6], [5, 4], [3, 2], [1, 0]]
    buckets.begin()
    sent_when: list[int] = []

    def arrived(i: int, gradient: Any) -> None:
        buckets.arrived(i, gradient)
        sent_when.append(len(sums.sent))

    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    _, gradients = part_gradient(model, parameters, loss_of, (x,), 0.5, arrived)
    assert sent_when[0] == 0 and sent_when[3] >= 1, "the last layer's are off before the first's"
    assert sent_when == sorted(sent_when) and sums.asked == 10
    buckets.send_rest()
    assert len(sums.sent) == 5 and buckets.came == set(range(10))
    for i, view in buckets.sums().items():
        np.testing.assert_array_equal(view, gradients[i])


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]])
def test_buckets_leave_in_one_order_whatever_order_gradients_come_in(order: list[int]) -> None:
    parameters = [Tensor(np.full(2, float(i)), requires_grad=True) for i in range(4)]
    sums = Sums()
    buckets = Buckets(parameters, sums.begin, sums.go_on, size=1)
    buckets.begin()
    for i in order:
        buckets.arrived(i, np.full(2, 10.0 + i))
    buckets.send_rest()
    assert [array[0] for array in sums.sent] == [13, 12, 11, 10]


def test_what_gets_no_gradient_is_sent_as_zeros_and_known() -> None:
    parameters = [ones(3, requires_grad=True), ones(2, requires_grad=True)]
    sums = Sums()
    buckets = Buckets(parameters, sums.begin, sums.go_on)
    buckets.begin()
    buckets.buckets[0].memory[:] = 7  # left from the step before
    buckets.arrived(0, np.ones(3))
    assert not sums.sent
    buckets.send_rest()
    np.testing.assert_array_equal(sums.sent[0], [0, 0, 1, 1, 1])
    assert buckets.came == {0}


def test_dtypes_and_sizes_cut_buckets_and_frozen_ones_are_in_none() -> None:
    parameters = [
        Tensor(np.ones(4, np.float32), requires_grad=True),
        Tensor(np.ones(100, np.float32), requires_grad=True),
        Tensor(np.ones(1, np.float32)),
        Tensor(np.ones(2, np.float64), requires_grad=True),
        Tensor(np.ones(2, np.float32), requires_grad=True),
    ]
    sums = Sums()
    buckets = Buckets(parameters, sums.begin, sums.go_on, size=64)
    assert [b.numbers for b in buckets.buckets] == [[4], [3], [1], [0]]
    assert buckets.fits(parameters)
    parameters[2].requires_grad = True
    assert not buckets.fits(parameters)


def test_gradients_of_several_pieces_are_told_once_with_their_sum() -> None:
    model = chain(layers=2)
    parameters = list(model.parameters())
    told: dict[int, Any] = {}

    def arrived(i: int, gradient: Any) -> None:
        assert i not in told
        told[i] = gradient.copy()

    rng = np.random.default_rng(2)
    pieces = [(rng.normal(size=(n, 4)).astype(np.float32),) for n in (2, 3, 1)]
    value, gradients = part_gradient(model, parameters, loss_of, pieces, [0.2, 0.5, 0.3], arrived)
    assert told.keys() == set(range(4))
    for i, gradient in enumerate(gradients):
        np.testing.assert_allclose(told[i], gradient, rtol=1e-6)
    assert all(p._hooks is None for p in parameters)
    alone, plain = part_gradient(model, parameters, loss_of, pieces, [0.2, 0.5, 0.3])
    assert alone == value
    for one, other in zip(gradients, plain, strict=True):
        np.testing.assert_array_equal(one, other)
