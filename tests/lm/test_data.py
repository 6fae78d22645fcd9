"""Batches are pure functions; the validation reads each held-out pair once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinygrad_edu import lm
from tinygrad_edu.lm.data import STREAMS, stream, validation_windows

TOKENS = np.arange(100)


def batch(step: int, seed: int = 1, tokens: np.ndarray = TOKENS) -> tuple[np.ndarray, np.ndarray]:
    return lm.training_batch(tokens, block_size=8, batch_size=5, seed=seed, step=step)


def test_targets_are_the_next_tokens() -> None:
    ids, targets = batch(0)
    assert ids.shape == targets.shape == (5, 8)
    np.testing.assert_array_equal(ids + 1, targets)


def test_a_batch_depends_on_seed_and_step_only() -> None:
    first = batch(7)[0]
    batch(8)
    np.testing.assert_array_equal(batch(7)[0], first)
    assert (batch(8)[0] != first).any()
    assert (batch(7, seed=2)[0] != first).any()


def test_windows_start_anywhere_up_to_the_last_whole_one() -> None:
    tokens = np.arange(11)
    starts = {int(row[0]) for step in range(40) for row in batch(step, tokens=tokens)[0]}
    assert starts == {0, 1, 2}


def test_a_text_of_one_window_is_enough() -> None:
    ids, targets = batch(0, tokens=np.arange(9))
    assert (ids[:, 0] == 0).all() and (targets[:, -1] == 8).all()


@given(st.integers(2, 80), st.integers(1, 12), st.integers(1, 7))
def test_validation_reads_each_of_n_minus_1_pairs_once(n: int, block: int, batch_size: int) -> None:
    seen = [
        pair
        for ids, targets in lm.validation_batches(
            np.arange(n), block_size=block, batch_size=batch_size
        )
        for pair in zip(ids.ravel().tolist(), targets.ravel().tolist(), strict=True)
    ]
    assert seen == [(k, k + 1) for k in range(n - 1)]


@given(st.integers(2, 300), st.integers(1, 12), st.integers(1, 7), st.integers(1, 300))
def test_of_a_long_text_the_validation_reads_windows_spread_evenly(
    n: int, block: int, batch_size: int, most: int
) -> None:
    windows = validation_windows(n, block, most)
    batches = list(
        lm.validation_batches(np.arange(n), block_size=block, batch_size=batch_size, max_pairs=most)
    )
    seen = np.concatenate([ids.ravel() for ids, _ in batches])
    assert all((ids + 1 == targets).all() for ids, targets in batches)
    assert len(set(seen.tolist())) == len(seen) == windows.pairs
    if n - 1 <= most:
        assert windows.pairs == n - 1
    else:
        assert windows.pairs <= max(most, block)
        assert windows.pairs > min(most, n - 1) - block
    gaps = np.diff(windows.starts) // block
    to_the_end = (n - 1) // block - (windows.starts // block).max(initial=0)
    assert len(gaps) == 0 or (gaps.max() - gaps.min() <= 1 and to_the_end <= gaps.max() + 1)


def test_held_out_part_is_the_end() -> None:
    split = lm.split_tokens(TOKENS, 8, 0.1)
    assert split.training.tolist() == list(range(90))
    assert split.validation.tolist() == list(range(90, 100))
    assert len(lm.split_tokens(TOKENS, 8, 0.0).validation) == 0


def test_a_block_longer_than_the_text_is_refused() -> None:
    with pytest.raises(lm.TextError, match=r"90 tokens to train on.*needs 257.*--block-size to 89"):
        lm.split_tokens(TOKENS, 256, 0.1)
    lm.split_tokens(TOKENS, 89, 0.1)


def test_a_held_out_part_without_a_pair_is_refused() -> None:
    with pytest.raises(lm.TextError, match=r"holds out 1, but it takes 2.*--validation-fraction"):
        lm.split_tokens(TOKENS, 8, 0.01)


def test_streams_of_purposes_and_steps_are_different() -> None:
    first = {(p, s): stream(3, p, s).random() for p in STREAMS for s in range(3)}
    assert len(set(first.values())) == len(first)
