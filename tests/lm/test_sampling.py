"""Drawing the next token."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_edu as tg
from tinygrad_edu import lm

LOGITS = np.array([[0.0, 1.0, 2.0, 2.0, -1.0]])


def draws(count: int = 4000, seed: int = 0, **options: float) -> np.ndarray:
    generator = np.random.default_rng(seed)
    rows = np.repeat(LOGITS, count, axis=0)
    return lm.next_token(rows, generator=generator, **options)


def test_tokens_come_as_often_as_softmax_says() -> None:
    expected = np.exp(LOGITS[0]) / np.exp(LOGITS[0]).sum()
    frequency = np.bincount(draws(20_000), minlength=5) / 20_000
    np.testing.assert_allclose(frequency, expected, atol=0.012)


def test_temperature_sharpens() -> None:
    expected = np.exp(LOGITS[0] / 0.5) / np.exp(LOGITS[0] / 0.5).sum()
    frequency = np.bincount(draws(20_000, temperature=0.5), minlength=5) / 20_000
    np.testing.assert_allclose(frequency, expected, atol=0.012)


def test_temperature_zero_takes_the_likeliest_and_of_equals_the_first() -> None:
    assert (draws(temperature=0) == 2).all()


def test_tiny_temperature_is_as_good_as_zero() -> None:
    assert set(draws(temperature=1e-300).tolist()) == {2, 3}


def test_top_k_keeps_exactly_k() -> None:
    assert (draws(top_k=1) == 2).all()
    assert set(draws(top_k=3).tolist()) == {1, 2, 3}
    np.testing.assert_array_equal(draws(top_k=0), draws())
    np.testing.assert_array_equal(draws(top_k=99), draws())


def test_same_seed_same_tokens() -> None:
    np.testing.assert_array_equal(draws(seed=5), draws(seed=5))
    assert (draws(seed=5) != draws(seed=6)).any()


def test_each_row_is_drawn_on_its_own() -> None:
    uniform = np.zeros((1000, 10))
    assert len(set(lm.next_token(uniform, generator=np.random.default_rng(0)).tolist())) == 10


@given(st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=8), st.integers(0, 2**32))
def test_a_token_is_always_in_the_vocabulary(logits: list[float], seed: int) -> None:
    token = lm.next_token(np.array([logits]), generator=np.random.default_rng(seed))
    assert 0 <= token[0] < len(logits)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temperature": -1.0}, "temperature is -1.0"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_k": -1}, "top_k is -1"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, float], words: str) -> None:
    with pytest.raises(lm.SamplingError, match=words):
        draws(**options)


def test_logits_that_are_not_numbers_are_refused() -> None:
    with pytest.raises(lm.SamplingError, match="not all finite"):
        lm.next_token(np.array([[0.0, np.nan]]), generator=np.random.default_rng(0))


def test_empty_prompt_and_negative_length_are_refused() -> None:
    model = lm.GPT(lm.GPTConfig(5, block_size=4, num_layers=1, num_heads=1, embed_dim=4))
    with pytest.raises(lm.SamplingError, match="prompt is empty"):
        model.generate([], 3)
    with pytest.raises(lm.SamplingError, match="max_new_tokens is -1"):
        model.generate([1], -1)
    assert model.generate([1], 0).tolist() == [1]
    with pytest.raises(lm.SamplingError, match="max_new_tokens is -1"):
        model.stream(np.array([[1]]), -1)  # at once, not when the first token is asked for


@pytest.mark.parametrize("ids", [[1.7], [1.0], [True], ["a"], [[[1]]]])
def test_a_prompt_that_is_no_ids_is_refused(ids: list[Any]) -> None:
    model = lm.GPT(lm.GPTConfig(5, block_size=4, num_layers=1, num_heads=1, embed_dim=4))
    with pytest.raises(lm.SamplingError, match=r"give integer ids of shape \(T,\) or \(B, T\)"):
        model.generate(ids, 3)


def test_ids_may_be_small_integers_or_a_tensor() -> None:
    model = lm.GPT(lm.GPTConfig(5, block_size=4, num_layers=1, num_heads=1, embed_dim=4))
    for ids in (np.array([1, 2], dtype=np.uint8), tg.tensor([1, 2], dtype=int), [1, 2]):
        assert model.generate(ids, 3, temperature=0)[:2].tolist() == [1, 2]
        assert model.generate(ids, 3).shape == (5,)
