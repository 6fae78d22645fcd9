"""Initialisation: the formulas, the fans, the refusals."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu.nn import init


def empty(*shape: int) -> Any:
    return tg.Tensor(np.full(shape, np.nan), requires_grad=True)


@pytest.mark.parametrize(
    ("nonlinearity", "param", "gain"),
    [
        ("linear", None, 1.0),
        ("identity", None, 1.0),
        ("sigmoid", None, 1.0),
        ("tanh", None, 5 / 3),
        ("relu", None, math.sqrt(2)),
        ("leaky_relu", None, math.sqrt(2 / (1 + 0.01**2))),
        ("leaky_relu", math.sqrt(5), math.sqrt(1 / 3)),
        ("selu", None, 0.75),
    ],
)
def test_gains(nonlinearity: str, param: float | None, gain: float) -> None:
    assert init.calculate_gain(nonlinearity, param) == pytest.approx(gain)


def test_fans_count_the_window_in_both() -> None:
    assert init.calculate_fan_in_and_fan_out(empty(5, 3)) == (3, 5)
    assert init.calculate_fan_in_and_fan_out(empty(5, 3, 2, 2)) == (12, 20)
    with pytest.raises(ValueError, match=r"shape \(5,\)"):
        init.calculate_fan_in_and_fan_out(empty(5))


UNIFORM: list[tuple[Callable[..., Any], dict[str, Any], float]] = [
    (init.xavier_uniform_, {}, math.sqrt(6 / 500)),
    (init.xavier_uniform_, {"gain": 2.0}, 2 * math.sqrt(6 / 500)),
    (init.kaiming_uniform_, {}, math.sqrt(6 / 100)),
    (init.kaiming_uniform_, {"a": math.sqrt(5)}, 1 / math.sqrt(100)),
    (init.kaiming_uniform_, {"mode": "fan_out"}, math.sqrt(6 / 400)),
    (init.kaiming_uniform_, {"nonlinearity": "tanh"}, 5 / 3 * math.sqrt(3 / 100)),
]
NORMAL: list[tuple[Callable[..., Any], dict[str, Any], float]] = [
    (init.xavier_normal_, {}, math.sqrt(2 / 500)),
    (init.xavier_normal_, {"gain": 2.0}, 2 * math.sqrt(2 / 500)),
    (init.kaiming_normal_, {}, math.sqrt(2 / 100)),
    (init.kaiming_normal_, {"mode": "fan_out", "nonlinearity": "linear"}, math.sqrt(1 / 400)),
    (init.normal_, {"std": 0.02}, 0.02),
]


@pytest.mark.parametrize(("fill", "options", "bound"), UNIFORM)
def test_uniform_forms_fill_to_their_bound(
    fill: Callable[..., Any], options: dict[str, Any], bound: float
) -> None:
    tensor = empty(400, 100)
    assert fill(tensor, generator=np.random.default_rng(0), **options) is tensor
    assert 0.999 * bound < np.abs(tensor.data).max() <= bound
    assert tensor.data.std() == pytest.approx(bound / math.sqrt(3), rel=0.01)


@pytest.mark.parametrize(("fill", "options", "std"), NORMAL)
def test_normal_forms_have_their_deviation(
    fill: Callable[..., Any], options: dict[str, Any], std: float
) -> None:
    tensor = empty(400, 100)
    assert fill(tensor, generator=np.random.default_rng(0), **options) is tensor
    assert tensor.data.std() == pytest.approx(std, rel=0.02)
    assert abs(tensor.data.mean()) < 0.02 * std


def test_uniform_normal_and_constants() -> None:
    tensor = init.uniform_(empty(100, 100), 2.0, 3.0)
    assert 2.0 <= tensor.data.min() < 2.01 and 2.99 < tensor.data.max() < 3.0
    assert init.normal_(empty(100, 100), mean=5.0).data.mean() == pytest.approx(5.0, abs=0.05)
    assert np.array_equal(init.constant_(empty(2), 3.5).data, [3.5, 3.5])
    assert np.array_equal(init.zeros_(empty(2)).data, [0, 0])
    assert np.array_equal(init.ones_(empty(2)).data, [1, 1])


def test_filling_writes_in_place_and_is_noticed_by_a_waiting_backward() -> None:
    weight = tg.Tensor(np.ones(3), requires_grad=True)
    memory = weight.data
    loss = (weight * weight).sum()
    init.zeros_(weight)
    assert weight.data is memory
    with pytest.raises(tg.errors.MutationError):
        loss.backward()


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'gelu', expected one of linear.*leaky_relu"):
        init.calculate_gain("gelu")
    with pytest.raises(ValueError, match="mode was 'fan'"):
        init.kaiming_uniform_(empty(2, 2), mode="fan")
