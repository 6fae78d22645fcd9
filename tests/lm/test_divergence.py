"""Training whose numbers are no longer finite: it stops, says so, and keeps what was good."""

from __future__ import annotations

import contextlib
import math
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lm.recording import Recorder, rows

from tinygrad_edu import lm
from tinygrad_edu.lm.checkpoint import load_checkpoint
from tinygrad_edu.lm.learner import Learner, new_model
from tinygrad_edu.lm.material import read_material
from tinygrad_edu.lm.plan import Plan
from tinygrad_edu.lm.session import Session

MakeConfig = Callable[..., lm.TrainConfig]


def kept_loss(run: Path) -> float:
    """The loss, on the whole text, of the model that a run folder keeps."""
    trained = lm.load_trained(run)
    weights = load_checkpoint(run).weights
    for name, tensor in trained.model.state_dict().items():
        np.testing.assert_array_equal(tensor.numpy(), weights[name])
    tokens = read_material(trained.config).split.training
    return lm.evaluate(trained.model, tokens, batch_size=64).loss


def test_a_loss_that_is_no_number_stops_and_keeps_the_last_checkpoint(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_loss = lm.GPT.loss
    calls = []

    def poisoned(self: lm.GPT, ids: Any, targets: Any) -> Any:
        loss = model_loss(self, ids, targets)
        if self.training:
            calls.append(1)
        return loss * float("nan") if len(calls) == 7 and self.training else loss

    monkeypatch.setattr(lm.GPT, "loss", poisoned)
    recorder = Recorder()
    with pytest.raises(lm.DivergenceError) as caught:
        lm.train(make_config(threads=1), recorder)
    error = caught.value
    assert (error.step, recorder.ended) == (6, ["closed"])
    assert error.loss is not None and math.isnan(error.loss)
    assert error.gradient_norm is not None and math.isnan(error.gradient_norm)
    assert error.learning_rate > 0
    run = make_config().run
    assert "step 7 gave a loss of nan and a gradient norm of nan at learning rate" in str(error)
    assert f"{run} keeps the checkpoint of step 4" in str(error)
    kept = load_checkpoint(run)
    assert kept.progress.step == 4
    assert all(np.isfinite(array).all() for array in kept.weights.values())
    monkeypatch.undo()
    assert lm.resume(run).step == 8


@pytest.mark.parametrize("validation_fraction", [0.1, 0.0])
@pytest.mark.parametrize("intervals", [(1, 1), (100, 1), (1, 100)])
@pytest.mark.parametrize("steps", [1, 2, 50])
def test_a_model_that_diverged_never_replaces_one_that_did_not(
    make_config: MakeConfig, intervals: tuple[int, int], steps: int, validation_fraction: float
) -> None:
    config = make_config(
        steps=steps,
        learning_rate=1e30,
        warmup_steps=3,
        validation_interval=intervals[0],
        checkpoint_interval=intervals[1],
        validation_fraction=validation_fraction,
        sample_length=0,
    )
    with pytest.raises(lm.DivergenceError, match=r"keeps the checkpoint of step 0; try a lower"):
        lm.train(config)
    assert config.run is not None
    assert kept_loss(config.run) == pytest.approx(math.log(22), abs=0.5)
    for row in rows(config.run):
        norms = row.pop("gradient_norms", {})
        assert all(math.isfinite(value) for value in [*row.values(), *norms.values()])
    assert lm.resume(config.run, make_config(**{**vars(config), "learning_rate": 1e-2})).step


def test_ctrl_c_saves_no_model_that_diverged(make_config: MakeConfig) -> None:
    ctrl_c = Recorder({1: lambda: signal.raise_signal(signal.SIGINT)})
    with pytest.raises(lm.DivergenceError, match="keeps the checkpoint of step 0"):
        lm.train(make_config(learning_rate=1e30, warmup_steps=3, sample_length=0), ctrl_c)
    assert ctrl_c.ended == ["stopping", "closed"]


def test_a_validation_loss_that_is_no_number_says_what_led_to_it(make_config: MakeConfig) -> None:
    with pytest.raises(lm.DivergenceError) as caught:
        lm.train(make_config(learning_rate=1e30, warmup_steps=3, validation_interval=1))
    error = caught.value
    assert (error.step, error.learning_rate) == (1, 2.5e29)
    assert error.gradient_norm is not None and 0 < error.gradient_norm < 10
    assert error.loss is not None and not math.isfinite(error.loss)
    assert (
        f"after step 1 (learning rate 2.5e+29, gradient norm {error.gradient_norm:.3g}) the "
        f"validation loss is {error.loss:g}" in str(error)
    )


def test_a_sample_that_cannot_be_drawn_is_a_divergence(make_config: MakeConfig) -> None:
    config = make_config(
        learning_rate=1e30, warmup_steps=3, validation_interval=1, validation_fraction=0.0
    )
    with pytest.raises(
        lm.DivergenceError, match=r"after step 1 .* the logits of a sample"
    ) as caught:
        lm.train(config)
    error = caught.value
    assert (error.step, error.learning_rate, error.loss) == (1, 2.5e29, None)
    assert error.gradient_norm is not None and 0 < error.gradient_norm < 10


def test_minutes_are_measured_on_a_training_that_diverges(make_config: MakeConfig) -> None:
    seconds = iter(range(10**6))
    config = make_config(learning_rate=1e30, warmup_steps=3, validation_interval=1, minutes=1.0)
    with pytest.raises(lm.DivergenceError, match="after step 1"):
        lm.train(config, clock=lambda: float(next(seconds)))


@pytest.mark.parametrize("learning_rate", [1e5, 1e30, 1e300])
@pytest.mark.parametrize("clip_norm", [0.0, 1.0])
def test_a_learning_rate_beyond_reason_leaves_a_model_with_a_finite_loss(
    make_config: MakeConfig, learning_rate: float, clip_norm: float
) -> None:
    config = make_config(
        steps=200, learning_rate=learning_rate, clip_norm=clip_norm, warmup_steps=0
    )
    with contextlib.suppress(lm.DivergenceError):
        lm.train(config)
    assert config.run is not None
    assert math.isfinite(kept_loss(config.run))


def test_weights_that_are_no_numbers_are_never_saved(make_config: MakeConfig) -> None:
    config = make_config()
    run = lm.train(config).run
    material = read_material(config)
    model = new_model(config, material.tokenizer.vocab_size)
    learner = Learner(config, model, material.lessons(config))
    cost = lm.step_cost(learner.model.config, 4)
    plan = Plan(config, run, "tiny", 1, 1, 1, 1, {"all": 1}, cost, (1, "threads"), "", False)
    session = Session(plan, learner, material, lm.Reporter(), lambda: 0.0)
    session.restore(load_checkpoint(run))
    learner.model.final_norm.weight.data[0] = np.inf
    with pytest.raises(lm.DivergenceError, match="the weights are not all finite") as caught:
        session.save()
    assert caught.value.gradient_norm is None, "no step was made, so there is none to tell"
    assert "gradient norm" not in str(caught.value)
    assert np.isfinite(load_checkpoint(run).weights["final_norm.weight"]).all()
