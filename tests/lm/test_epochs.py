"""An epoch reads each target once; the batch of a step depends on seed and step only."""

from __future__ import annotations

import dataclasses
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lm.recording import Recorder, assert_same, untimed

from tinygrad_edu import lm
from tinygrad_edu.lm import checkpoint
from tinygrad_edu.lm.checkpoint import load_checkpoint
from tinygrad_edu.lm.data import Split
from tinygrad_edu.lm.epochs import Epochs
from tinygrad_edu.lm.lessons import IGNORED, epoch_steps, targets_in
from tinygrad_edu.lm.shuffling import places

MakeConfig = Callable[..., lm.TrainConfig]


def lessons(n: int, block: int, batch: int, accumulate: int = 1, seed: int = 1) -> Epochs:
    config = lm.TrainConfig(
        order="epochs", block_size=block, batch_size=batch, accumulate=accumulate, seed=seed
    )
    return Epochs(Split(np.arange(n), np.arange(0)), config)


SIZES = (st.integers(1, 12), st.integers(0, 60), st.integers(1, 5), st.integers(1, 3))


@given(*SIZES, st.integers(0, 3), st.integers(0, 5))
def test_each_token_is_a_target_once_an_epoch(
    block: int, more: int, batch: int, accumulate: int, seed: int, epoch: int
) -> None:
    n = block + 1 + more
    made = lessons(n, block, batch, accumulate, seed)
    steps = epoch_steps(made.config, made.training_targets)
    seen: Counter[int] = Counter()
    for step in range(epoch * steps, (epoch + 1) * steps):
        ids, targets = made.batch(step)
        assert ids.shape == targets.shape and ids.shape[1] == block
        assert 1 <= len(ids) <= batch * accumulate
        scored = targets != IGNORED
        assert scored[:, 0].all()  # no row without a target, and what is filled up is behind
        assert (np.diff(scored.astype(int), axis=1) <= 0).all()
        np.testing.assert_array_equal(ids[scored] + 1, targets[scored])
        assert (ids >= 0).all() and (ids < n).all()
        seen.update(targets[scored].tolist())
    assert seen == Counter(range(1, n)) and made.training_targets == n - 1


def test_a_batch_depends_on_seed_and_step_only() -> None:
    first = lessons(100, 8, 3).batch(9)
    made = lessons(100, 8, 3)
    made.batch(2), made.batch(40)
    np.testing.assert_array_equal(made.batch(9), first)
    assert (lessons(100, 8, 3, seed=2).batch(0)[0] != made.batch(0)[0]).any()


def test_epochs_differ_in_order_and_in_where_the_text_is_cut() -> None:
    made = lessons(103, 8, 13)
    assert epoch_steps(made.config, 102) == 1
    starts = [tuple(made.batch(epoch)[0][:, 0].tolist()) for epoch in range(20)]
    assert len(set(starts)) == 20
    assert len({min(s for s in row if s) % 8 for row in starts}) > 1


def test_the_smallest_text_has_one_window() -> None:
    ids, targets = lessons(9, 8, 4).batch(3)
    assert ids.tolist() == [list(range(8))] and targets.tolist() == [list(range(1, 9))]


@given(st.integers(1, 300), st.integers(0, 5), st.booleans())
def test_an_order_has_each_place_once(n: int, seed: int, drawn_anew: bool) -> None:
    found = places(np.arange(n), n, (seed, 1), held=0 if drawn_anew else 1 << 20)
    assert sorted(found.tolist()) == list(range(n))
    some = np.arange(0, n, 3)
    np.testing.assert_array_equal(
        places(some, n, (seed, 1), held=0 if drawn_anew else 1 << 20), found[some]
    )


def test_a_billion_places_are_not_written_down() -> None:
    n = 10**12 + 7
    some = np.arange(n - 1000, n)
    found = places(some, n, (1, 2))
    assert len(set(found.tolist())) == 1000 and found.min() >= 0 and found.max() < n
    assert abs(found.mean() / n - 0.5) < 0.05
    assert abs(np.corrcoef(found[:-1], found[1:])[0, 1]) < 0.1


def test_orders_of_the_network_are_about_equally_likely() -> None:
    """Of 5 things, each at each place a fifth of the time: chi² with 16 degrees of freedom."""
    counts = np.zeros((5, 5))
    for seed in range(2000):
        counts[np.arange(5), places(np.arange(5), 5, (seed,), held=0)] += 1
    assert ((counts - 400) ** 2 / 400).sum() < 45  # 0.01 %


@pytest.mark.parametrize("stop", [3, 5, 7])
def test_interrupted_and_resumed_equals_uninterrupted(
    make_config: MakeConfig, tmp_path: Path, stop: int
) -> None:
    options = {"order": "epochs", "dropout": 0.1, "batch_size": 67, "steps": 9, "accumulate": 2}
    whole = lm.train(make_config(run=tmp_path / "whole", **options)).run
    ctrl_c = Recorder({stop: lambda: signal.raise_signal(signal.SIGINT)})
    first = lm.train(make_config(run=tmp_path / "parts", **options), ctrl_c)
    assert first.interrupted and first.step == stop
    second = lm.resume(first.run)
    assert_same(load_checkpoint(whole), load_checkpoint(second.run))
    assert untimed(whole) == untimed(second.run)
    changed = dataclasses.replace(checkpoint.read_config(whole), steps=12, order="windows")
    with pytest.raises(lm.ConfigError, match='--order was "epochs"'):
        lm.resume(whole, changed)


def test_the_plan_counts_epochs_exactly(make_config: MakeConfig) -> None:
    """1800 tokens to train on: 1799 targets in 225 windows of 8, 57 steps of 4, the last of 1."""
    recorder = Recorder()
    lm.train(make_config(order="epochs", epochs=2, sample_length=0), recorder)
    (plan,) = recorder.plans
    assert plan.training_tokens == 1799 and plan.steps_per_epoch == 57
    assert plan.config.steps == 114 and plan.epochs == 2


def test_a_batch_of_one_short_row_is_learnt_from_by_two_workers(make_config: MakeConfig) -> None:
    """The gradient is that of its targets alone, whoever reads them."""
    from tinygrad_edu.lm.learner import Learner, new_model

    found = []
    for workers in (1, 2):
        config = make_config(order="epochs", batch_size=5, threads=workers)
        made = Epochs(Split(np.arange(44) % 18, np.arange(0)), config)
        learner = Learner(config, new_model(config, 18), made)
        learner.step = epoch_steps(config, made.training_targets) - 1
        try:
            ids, targets = learner.batch()
            gradient = learner.gradient()
            kept = [targets_in(row[None]) for row in targets]
            losses = [
                float(learner.model.loss(ids[k : k + 1, :n], targets[k : k + 1, :n]).item()) * n
                for k, n in enumerate(kept)
            ]
            assert len(ids) == 1 and gradient.loss == pytest.approx(sum(losses) / sum(kept))
            found.append(gradient.norm)
        finally:
            learner.close()
    assert found[0] == pytest.approx(found[1], rel=1e-6)
