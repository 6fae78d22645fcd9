"""What a learner is told about optimizers, on real numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import optim


def stepped(rule: Any, weight: Any, gradient: Any, steps: int = 1, **options: Any) -> Any:
    """The weight after `steps` steps with a gradient that stays the same."""
    parameter = tg.Tensor(np.array(weight, dtype=np.float64), requires_grad=True)
    optimizer = rule([parameter], **options)
    for _ in range(steps):
        parameter.grad = tg.Tensor(np.array(gradient, dtype=np.float64))
        optimizer.step()
    return parameter.data


@pytest.mark.parametrize(("lr", "factor"), [(0.1, 0.8), (0.5, 0.0), (1.0, -1.0), (1.1, -1.2)])
def test_on_a_square_each_step_multiplies_the_weight_by_one_minus_two_lr(
    lr: float, factor: float
) -> None:
    w = tg.Tensor(np.array(3.0), requires_grad=True)
    optimizer = optim.SGD([w], lr=lr)
    for step in range(1, 6):
        optimizer.zero_grad()
        (w * w).backward()
        optimizer.step()
        np.testing.assert_allclose(w.data, 3.0 * factor**step, rtol=1e-12, atol=1e-15)


def test_momentum_reaches_the_speed_lr_over_one_minus_momentum() -> None:
    before = stepped(optim.Momentum, 0.0, 1.0, steps=200, lr=0.1)
    after = stepped(optim.Momentum, 0.0, 1.0, steps=201, lr=0.1)
    np.testing.assert_allclose(before - after, 0.1 / (1 - 0.9), rtol=1e-6)


@pytest.mark.parametrize("rule", [optim.Adam, optim.AdamW])
@pytest.mark.parametrize("gradient", [1.0, -1.0, 1e-3, -250.0, 1e-8, 3e-9, 1e6])
def test_adams_first_step_is_lr_times_g_over_abs_g_plus_eps(rule: Any, gradient: float) -> None:
    moved = stepped(rule, 0.0, gradient, lr=0.01)
    np.testing.assert_allclose(-moved, 0.01 * gradient / (abs(gradient) + 1e-8), rtol=1e-9)


def test_adams_first_step_is_half_lr_where_the_gradient_is_eps() -> None:
    np.testing.assert_allclose(stepped(optim.Adam, 0.0, 1e-8, lr=0.01), -0.005, rtol=1e-9)


def test_adam_takes_steps_of_lr_whatever_the_scale_of_a_constant_gradient() -> None:
    small = stepped(optim.Adam, 0.0, 1e-4, steps=30, lr=0.01)
    large = stepped(optim.Adam, 0.0, 1e4, steps=30, lr=0.01)
    np.testing.assert_allclose(small, large, rtol=2e-4)
    np.testing.assert_allclose(large, -0.3, rtol=1e-6)


def test_adamw_at_zero_gradient_moves_by_lr_times_decay_times_weight() -> None:
    moved = stepped(optim.AdamW, [2.0, -3.0], [0.0, 0.0], lr=0.1, weight_decay=0.5)
    np.testing.assert_allclose(moved, [2.0 * (1 - 0.05), -3.0 * (1 - 0.05)], rtol=1e-14)


@pytest.mark.parametrize("decay", [1e-3, 0.5, 100.0])
def test_adam_with_l2_at_zero_gradient_steps_by_lr_for_any_decay(decay: float) -> None:
    moved = stepped(optim.Adam, [2.0, -3.0], [0.0, 0.0], lr=0.1, weight_decay=decay)
    np.testing.assert_allclose(moved, [2.0 - 0.1, -3.0 + 0.1], rtol=1e-5)


def test_for_plain_sgd_l2_and_decoupled_decay_are_the_same() -> None:
    l2 = stepped(optim.SGD, [2.0, -3.0], [0.5, 0.5], lr=0.1, weight_decay=0.5)
    decoupled = np.array([2.0, -3.0]) * (1 - 0.1 * 0.5) - 0.1 * 0.5
    np.testing.assert_allclose(l2, decoupled, rtol=1e-14)


def test_a_rare_feature_moves_under_adam_and_hardly_under_sgd() -> None:
    travelled = {}
    for rule in (optim.SGD, optim.Adam):
        w = tg.Tensor(np.zeros(2), requires_grad=True)
        optimizer = rule([w], lr=0.01)
        for step in range(200):  # weight 1 has a gradient in one step of twenty
            w.grad = tg.Tensor(np.array([1.0, 1.0 if step % 20 == 0 else 0.0]))
            optimizer.step()
        travelled[rule] = w.data[1] / w.data[0]
    assert travelled[optim.SGD] == pytest.approx(0.05)
    assert travelled[optim.Adam] > 0.2


def bytes_of_state(rule: Any, **options: Any) -> int:
    w = tg.Tensor(np.ones(1000, dtype=np.float32), requires_grad=True)
    w.grad = tg.Tensor(np.ones(1000, dtype=np.float32))
    optimizer = rule([w], **options)
    optimizer.step()
    return sum(getattr(value, "nbytes", 0) for value in optimizer.state[w].values())


def test_memory_is_0_4_and_8_bytes_a_float32_weight() -> None:
    assert bytes_of_state(optim.SGD) == 0
    assert bytes_of_state(optim.Momentum) == 4000
    assert bytes_of_state(optim.Adam) == 8000
    assert bytes_of_state(optim.AdamW) == 8000
