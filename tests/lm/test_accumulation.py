"""A step that adds up several batches: as the whole batch at once, each target weighed the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from lm.recording import Recorder

from tinygrad_edu import lm
from tinygrad_edu.lm import curve
from tinygrad_edu.lm.learner import Learner, new_model
from tinygrad_edu.lm.lessons import IGNORED, Batch
from tinygrad_edu.lm.material import read_material

MakeConfig = Callable[..., lm.TrainConfig]


@dataclasses.dataclass(frozen=True)
class Ragged:
    """Eight rows of which some have no target at all, and others few."""

    training_targets: int = 100
    validation_targets: int = 0

    def batch(self, step: int) -> Batch:
        generator = np.random.default_rng(step)
        ids = generator.integers(0, 20, (8, 8))
        targets = generator.integers(0, 20, (8, 8))
        targets[0] = IGNORED
        targets[1, 1:] = IGNORED
        targets[5, :6] = IGNORED
        return ids, targets

    def held_out(self) -> Iterator[Batch]:
        return iter(())


def gradients(config: lm.TrainConfig, lessons: Any) -> tuple[float, dict[str, Any]]:
    learner = Learner(config, new_model(config, 20), lessons)
    with closing(learner):
        found = learner.gradient()
        return found.loss, {
            name: p.grad.numpy().copy() for name, p in learner.model.named_parameters()
        }


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("batch", "accumulate"), [(4, 2), (2, 4), (1, 8)])
def test_batches_added_up_are_the_whole_batch_weighted_by_targets(
    make_config: MakeConfig, threads: int, batch: int, accumulate: int
) -> None:
    whole = gradients(make_config(batch_size=8, threads=1), Ragged())
    options = {"batch_size": batch, "accumulate": accumulate, "threads": threads}
    parts = gradients(make_config(**options), Ragged())
    assert parts[0] == pytest.approx(whole[0], rel=1e-6)
    for name, gradient in whole[1].items():
        np.testing.assert_allclose(parts[1][name], gradient, rtol=1e-4, atol=1e-6, err_msg=name)


def test_the_loss_is_the_mean_over_all_targets_by_hand(make_config: MakeConfig) -> None:
    config = make_config(batch_size=2, accumulate=4, threads=2)
    ids, targets = Ragged().batch(0)
    with closing(Learner(config, new_model(config, 20), Ragged())) as learner:
        logits = learner.model(ids).detach().numpy().astype(np.float64)
        logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        scored = targets != IGNORED
        expected = -np.take_along_axis(logs, np.where(scored, targets, 0)[..., None], -1)[..., 0]
        assert learner.gradient().loss == pytest.approx(expected[scored].mean(), rel=1e-6)


def test_the_norm_is_clipped_after_everything_is_summed(make_config: MakeConfig) -> None:
    options: dict[str, Any] = {"batch_size": 2, "accumulate": 4, "threads": 2, "clip_norm": 0.01}
    _, found = gradients(make_config(**options), Ragged())
    norm = np.sqrt(sum((g.astype(np.float64) ** 2).sum() for g in found.values()))
    assert norm == pytest.approx(0.01, rel=1e-4)


def test_the_same_windows_are_read_however_they_are_cut(make_config: MakeConfig) -> None:
    material = read_material(make_config())
    whole = material.lessons(make_config(batch_size=12)).batch(3)
    parts = material.lessons(make_config(batch_size=3, accumulate=4)).batch(3)
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_run_that_accumulates_is_told_so_and_counts_its_tokens(make_config: MakeConfig) -> None:
    recorder = Recorder()
    run = lm.train(make_config(batch_size=2, accumulate=3, dropout=0.1, curve=True), recorder).run
    drawn = (run / "loss.svg").read_bytes()
    curve.draw(run)
    assert (run / "loss.svg").read_bytes() == drawn, "tokens seen, at the upper axis, are the same"
    (plan,) = recorder.plans
    assert plan.tokens_per_step == 2 * 3 * 8
    said = dict(plan.lines())["step"]
    assert said.startswith("3 × 2 windows of 8, added up: 48 tokens")


def test_dropout_differs_between_the_batches_that_are_added_up(make_config: MakeConfig) -> None:
    @dataclasses.dataclass(frozen=True)
    class Twice(Ragged):
        def batch(self, step: int) -> Batch:
            ids, targets = super().batch(step)
            return np.concatenate([ids[4:], ids[4:]]), np.concatenate([targets[4:], targets[4:]])

    options: dict[str, Any] = {"dropout": 0.5, "threads": 1, "batch_size": 4}
    once = gradients(make_config(**options, accumulate=2), Twice())[0]

    class Half(Twice):
        def batch(self, step: int) -> Batch:
            ids, targets = super().batch(step)
            return ids[:4], targets[:4]

    assert gradients(make_config(**options), Half())[0] != pytest.approx(once, rel=1e-9)
