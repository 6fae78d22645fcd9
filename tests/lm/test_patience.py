"""When training stops early, and which weights are kept."""

from __future__ import annotations

import dataclasses
import math
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from lm.recording import Killed, Recorder, assert_same, rows, untimed

from tinygrad_edu import lm
from tinygrad_edu.lm import checkpoint
from tinygrad_edu.lm.evaluation import Evaluation
from tinygrad_edu.lm.patience import Best, after

MakeConfig = Callable[..., lm.TrainConfig]


def course(losses: list[float], min_delta: float = 0.0) -> Best | None:
    best = None
    for number, loss in enumerate(losses):
        best = after(best, 10 * number, loss, 100, min_delta)
    return best


def test_patience_counts_validations_that_are_no_better() -> None:
    assert course([3.0, 2.0, 2.5, 2.4]) == Best(10, 2.0, 2.0, 2, 100)
    assert course([3.0, 2.0, 2.5, 1.9]) == Best(30, 1.9, 1.9, 0, 100)
    assert course([3.0, 3.0]) == Best(0, 3.0, 3.0, 1, 100), "equal is no better"


def test_a_loss_that_creeps_is_kept_and_does_not_restore_patience() -> None:
    assert course([3.0, 2.95, 2.92, 2.91], min_delta=0.1) == Best(30, 2.91, 3.0, 3, 100)
    assert course([3.0, 2.95, 2.85], min_delta=0.1) == Best(20, 2.85, 2.85, 0, 100)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_no_number_never_improves(bad: float) -> None:
    assert course([bad]) is None
    assert course([2.0, bad, bad]) == Best(0, 2.0, 2.0, 2, 100)
    assert course([bad, 2.0]) == Best(10, 2.0, 2.0, 0, 100)


def test_losses_over_other_tokens_are_not_compared() -> None:
    assert after(Best(5, 1.0, 1.0, 3, 100), 9, 2.0, 200, 0.0) == Best(9, 2.0, 2.0, 0, 200)


def test_patience_ends_when_it_is_used_up_and_never_where_there_is_none() -> None:
    best = Best(0, 1.0, 1.0, 3, 100)
    assert best.exhausted(3) and best.exhausted(2)
    assert not best.exhausted(4) and not best.exhausted(0)


LOSSES = {0: 3.0, 4: 2.0, 8: 2.5, 12: 2.6, 16: 1.0, 20: 0.9}
"""Of the validations, by step, in the runs below."""


@pytest.fixture
def told_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Validations give what LOSSES says, while training goes on as it does."""
    from tinygrad_edu.lm import session

    validation = session.Session._validation

    def told(self: session.Session, counts: bool) -> lm.ValidationReport:
        loss = LOSSES.get(self.learner.step, 9.0)
        monkeypatch.setattr(session, "evaluate_batches", lambda *a, **k: Evaluation(loss, 100, 100))
        return validation(self, counts)

    monkeypatch.setattr(session.Session, "_validation", told)


@pytest.mark.usefixtures("told_losses")
def test_a_run_stops_early_and_the_best_model_is_restored(make_config: MakeConfig) -> None:
    recorder = Recorder()
    result = lm.train(make_config(steps=40, patience=2), recorder)
    assert (result.step, result.interrupted, result.stopped_early) == (12, False, True)
    assert result.best is not None and (result.best.step, result.best.loss) == (4, 2.0)
    assert recorder.ended == ["finished", "closed"]
    kept = checkpoint.read_arrays(result.run / "model.safetensors")
    at_4 = lm.train(make_config(steps=40, run=result.run.parent / "b", checkpoint_interval=1,
                                patience=0), Recorder({4: _press})).run  # fmt: skip
    for name, array in checkpoint.read_arrays(at_4 / "model.safetensors").items():
        np.testing.assert_array_equal(kept[name], array)
    assert not np.array_equal(
        kept["final_norm.weight"],
        checkpoint.load_checkpoint(result.run).weights["final_norm.weight"],
    ), "the checkpoint is that of the last step"
    assert "2 validations in a row were no better. The model kept is that of step 4" in (
        result.verdict[0]
    )


def _press() -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("told_losses")
def test_a_run_that_was_stopped_early_goes_on_with_more_patience_only(
    make_config: MakeConfig,
) -> None:
    run = lm.train(make_config(steps=40, patience=2)).run
    words = r"2 validations since step 4 .* larger --patience than 2"
    with pytest.raises(lm.RunError, match=words):
        lm.resume(run)
    config = dataclasses.replace(lm.read_config(run), patience=3, steps=20)
    result = lm.resume(run, config)
    assert (result.step, result.stopped_early) == (20, False)
    assert result.best is not None and result.best.step == 20


@pytest.mark.usefixtures("told_losses")
def test_patience_and_best_weights_survive_a_kill(make_config: MakeConfig, tmp_path: Path) -> None:
    whole = lm.train(make_config(run=tmp_path / "whole", steps=40, patience=2))

    def kill() -> None:
        raise Killed

    run = tmp_path / "parts"
    with pytest.raises(Killed):
        lm.train(make_config(run=run, steps=40, patience=2), Recorder({11: kill}))
    resumed = lm.resume(run)
    assert (resumed.step, resumed.best) == (whole.step, whole.best)
    assert untimed(run) == untimed(whole.run)
    assert_same(checkpoint.load_checkpoint(run), checkpoint.load_checkpoint(whole.run))
    assert (run / "model.safetensors").read_bytes() == (
        whole.run / "model.safetensors"
    ).read_bytes()
    assert sorted(path.name for path in (run / "checkpoint").iterdir()) == [
        "best-00000004.safetensors", "step-00000008", "step-00000012",
    ]  # fmt: skip


@pytest.mark.usefixtures("told_losses")
def test_a_kill_between_a_better_validation_and_its_checkpoint_loses_no_best_weights(
    make_config: MakeConfig, tmp_path: Path
) -> None:
    run = tmp_path / "parts"
    config = make_config(run=run, steps=24, patience=9, checkpoint_interval=10)

    class KilledAt16(Recorder):
        def validated(self, report: lm.ValidationReport) -> None:
            if report.step == 16:
                raise Killed

    with pytest.raises(Killed):
        lm.train(config, KilledAt16())
    kept = sorted(path.name for path in (run / "checkpoint").glob("best-*"))
    assert kept == [f"best-{step:08d}.safetensors" for step in (0, 4, 16)], (
        "that of step 0 is named by the checkpoint before the last"
    )
    assert checkpoint.load_checkpoint(run).progress.best == {
        "step": 4, "loss": 2.0, "reference": 2.0, "waited": 1, "tokens": 100
    }  # fmt: skip
    result = lm.resume(run)
    assert result.best is not None and result.best.step == 20


@pytest.mark.usefixtures("told_losses")
def test_without_patience_the_best_weights_are_kept_aside_and_the_last_stay(
    make_config: MakeConfig,
) -> None:
    result = lm.train(make_config(keep_checkpoints=1))
    assert sorted(path.name for path in (result.run / "checkpoint").iterdir()) == [
        "best-00000004.safetensors", "step-00000008",
    ]  # fmt: skip
    at_4 = lm.train(make_config(run=result.run.parent / "b"), Recorder({4: _press})).run
    best = checkpoint.read_best(result.run, 4)
    for name, array in checkpoint.load_checkpoint(at_4).weights.items():
        np.testing.assert_array_equal(best[name], array)
    state = checkpoint.load_checkpoint(result.run).weights
    for name, array in checkpoint.read_arrays(result.run / "model.safetensors").items():
        np.testing.assert_array_equal(state[name], array)


def test_ctrl_c_validates_and_the_logs_of_a_resumed_run_show_no_trace_of_it(
    make_config: MakeConfig, tmp_path: Path
) -> None:
    whole = lm.train(make_config(run=tmp_path / "whole", patience=5)).run
    recorder = Recorder({6: _press})
    result = lm.train(make_config(run=tmp_path / "parts", patience=5), recorder)
    assert result.interrupted and result.step == 6
    assert [report.step for report in recorder.validations] == [0, 4, 6]
    assert rows(result.run)[-1]["step"] == 6 and "validation_loss" in rows(result.run)[-1]
    assert result.validation_loss == rows(result.run)[-1]["validation_loss"]
    lm.resume(result.run)
    assert untimed(result.run) == untimed(whole)
    assert (result.run / "model.safetensors").read_bytes() == (
        whole / "model.safetensors"
    ).read_bytes()
