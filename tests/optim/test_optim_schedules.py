"""Schedules at the steps that matter: 0, the end of the warm-up, the end, beyond."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinygrad_edu.optim import schedules

near = pytest.approx


def test_constant_is_the_same_everywhere() -> None:
    assert [schedules.constant(0.3)(step) for step in (0, 1, 10**9)] == [0.3] * 3


def test_linear_goes_straight_from_lr_to_the_final_one_and_stays() -> None:
    f = schedules.linear(1.0, total_steps=10, final_lr=0.2)
    assert [f(0), f(5), f(10), f(11), f(1000)] == near([1.0, 0.6, 0.2, 0.2, 0.2])


def test_cosine_is_half_way_in_the_middle_and_flat_at_both_ends() -> None:
    f = schedules.cosine(1.0, total_steps=100, final_lr=0.2)
    quarter = 0.2 + 0.8 * 0.8535533906
    assert [f(0), f(25), f(50), f(100), f(101)] == near([1.0, quarter, 0.6, 0.2, 0.2])
    assert f(0) - f(1) < 0.01 * (f(50) - f(51)) * 2
    assert f(100) == 0.2


@pytest.mark.parametrize("make", [schedules.warmup_cosine, schedules.warmup_linear])
def test_warm_up_then_decay_at_its_landmarks(make: Callable[..., Any]) -> None:
    f = make(3e-4, warmup_steps=9, total_steps=109, final_lr=3e-5)
    assert f(0) == near(3e-5)  # a tenth: 1/(9 + 1), not a step at rate 0
    assert f(4) == near(1.5e-4)
    assert f(8) == near(2.7e-4)
    assert f(9) == near(3e-4)  # the end of the warm-up
    assert f(59) == near((3e-4 + 3e-5) / 2)
    assert f(109) == near(3e-5)  # the end
    assert f(110) == f(10**9) == near(3e-5)  # beyond


def test_no_warm_up_starts_at_the_full_rate() -> None:
    assert schedules.warmup_cosine(0.5, 0, 10)(0) == 0.5
    assert schedules.warmup(schedules.constant(0.5), 0)(0) == 0.5


def test_the_default_ends_at_zero() -> None:
    for f in (
        schedules.linear(1.0, 7),
        schedules.cosine(1.0, 7),
        schedules.warmup_cosine(1.0, 2, 7),
    ):
        assert f(7) == f(8) == 0.0


@given(
    lr=st.floats(1e-6, 1.0),
    share=st.floats(0.0, 1.0),
    warm=st.integers(0, 50),
    rest=st.integers(1, 200),
    make=st.sampled_from([schedules.warmup_cosine, schedules.warmup_linear]),
)
def test_a_schedule_rises_then_falls_and_stays_between_its_rates(
    lr: float, share: float, warm: int, rest: int, make: Callable[..., Any]
) -> None:
    f = make(lr, warm, warm + rest, share * lr)
    rates = [f(step) for step in range(warm + rest + 5)]
    assert all(a < b for a, b in pairwise(rates[: warm + 1]))
    assert all(a >= b - 1e-12 for a, b in pairwise(rates[warm:]))
    assert max(rates) == near(rates[warm]) == near(lr)
    assert rates[-1] == near(share * lr)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: schedules.constant(-0.1), r"lr=-0\.1"),
        (lambda: schedules.linear(float("nan"), 10), "lr=nan"),
        (lambda: schedules.cosine(0.1, 10, -0.1), r"final_lr=-0\.1"),
        (lambda: schedules.cosine(0.1, 0), "total_steps=0"),
        (lambda: schedules.warmup(schedules.constant(0.1), -1), "warmup_steps=-1"),
        (lambda: schedules.warmup_cosine(0.1, 10, 10), "warmup_steps=10 and total_steps=10"),
        (lambda: schedules.linear(0.1, 10)(-1), "step -1"),
        (lambda: schedules.warmup_linear(0.1, 5, 10)(-1), "step -1"),
    ],
)
def test_bad_rates_and_steps_are_named(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
