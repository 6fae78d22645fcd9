"""Rotary and sinusoidal positions, by what mathematics says of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import nn


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def test_rotary_turns_pairs_of_a_half_by_the_angles_of_the_paper() -> None:
    x = np.array([[1.0, 0.0, 0.0, 2.0]] * 3)
    turned = tg.rotary(x, start=4, theta=100.0).data
    for t in range(3):
        fast, slow = 4 + t, (4 + t) / 10  # 100^0 and 100^(-1/2)
        wanted = [math.cos(fast), -2 * math.sin(slow), math.sin(fast), 2 * math.cos(slow)]
        np.testing.assert_allclose(turned[t], wanted, rtol=1e-15, atol=1e-15)


def test_rotary_leaves_position_0_and_every_length_as_they_are() -> None:
    x = draw(2, 50, 8)
    turned = tg.rotary(x).data
    np.testing.assert_array_equal(turned[:, 0], x[:, 0])
    norms = np.linalg.norm(x, axis=-1)
    np.testing.assert_allclose(np.linalg.norm(turned, axis=-1), norms, rtol=1e-14)


def test_rotary_makes_a_product_depend_on_the_distance_only() -> None:
    q, k = draw(1, 8), draw(1, 8, seed=1)
    products = [
        (tg.rotary(q, start=start + 7).data * tg.rotary(k, start=start).data).sum()
        for start in (0, 1, 60, 5000)
    ]
    np.testing.assert_allclose(products, products[0], rtol=1e-11)
    other = (tg.rotary(q, start=8).data * tg.rotary(k).data).sum()
    assert abs(other - products[0]) > 1e-3


def test_a_text_in_two_pieces_is_turned_as_the_whole_is() -> None:
    x = draw(2, 3, 9, 4).astype(np.float32)
    whole = tg.rotary(x).data
    pieces = [tg.rotary(x[..., :5, :]).data, tg.rotary(x[..., 5:, :], start=5).data]
    np.testing.assert_array_equal(np.concatenate(pieces, axis=-2), whole)


def test_rotarys_gradient_is_the_rotation_back() -> None:
    x = tg.tensor(draw(5, 6), requires_grad=True)
    turned = tg.rotary(x, start=2)
    turned.backward(turned.data)
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.data, x.data, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("options", [{"start": -1}, {"theta": 0.0}])
def test_rotary_refuses_a_place_before_the_text(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="positions begin at 0 or later, and theta is above 0"):
        tg.rotary(tg.ones(2, 4), **options)


def test_sinusoids_are_the_papers() -> None:
    table = nn.SinusoidalPositions(50, 6)(tg.zeros(50, 6)).data
    for t in (0, 1, 49):
        for i in range(3):
            angle = t / 10000 ** (2 * i / 6)
            assert table[t, 2 * i] == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[t, 2 * i + 1] == pytest.approx(math.cos(angle), abs=1e-6)


def test_a_shift_of_sinusoids_is_one_rotation_for_all_positions() -> None:
    table = nn.SinusoidalPositions(40, 4, dtype=np.float64)(tg.tensor(np.zeros((40, 4)))).data
    for i in range(2):
        angle = 5 / 10000 ** (2 * i / 4)
        turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
        pair = table[:, 2 * i : 2 * i + 2]
        np.testing.assert_allclose(pair[5:], pair[:-5] @ turn.T, atol=1e-13)


def test_sinusoids_are_neither_trained_nor_saved_and_move_with_the_model() -> None:
    positions = nn.SinusoidalPositions(5, 3)
    assert list(positions.parameters()) == []
    assert dict(positions.state_dict()) == {}
    assert positions.weight.dtype == np.float32
    assert positions.to(np.float64).weight.dtype == np.float64


@pytest.mark.parametrize("kind", [nn.LearnedPositions, nn.SinusoidalPositions])
def test_positions_from_a_start_are_the_rows_from_there(kind: type) -> None:
    positions = kind(6, 4)
    x = tg.tensor(draw(2, 2, 4).astype(np.float32))
    np.testing.assert_array_equal(positions(x, 4).data, x.data + positions.weight.data[4:])
    with pytest.raises(tg.errors.ShapeError, match=r"from position 5, expected .* T at most 1"):
        positions(x, 5)
