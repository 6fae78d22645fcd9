"""Whole runs of a model of nothing: what they learn, write, and how they end."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lm.recording import Recorder, rows, untimed

from tinygrad_edu import lm, text
from tinygrad_edu.lm import session

MakeConfig = Callable[..., lm.TrainConfig]


def test_a_run_learns_and_its_folder_is_whole(make_config: MakeConfig) -> None:
    result = lm.train(make_config(steps=150, sample_length=20, validation_interval=50))
    assert sorted(path.name for path in result.run.iterdir()) == [
        ".lock", "checkpoint", "config.toml", "metrics.jsonl", "model.safetensors", "samples.txt",
        "tokenizer.json",
    ]  # fmt: skip
    validation = [row["validation_loss"] for row in rows(result.run) if "validation_loss" in row]
    assert validation[0] == pytest.approx(math.log(22), abs=0.3)
    assert validation[-1] < 2.3
    assert result.validation_loss == validation[-1]
    assert [row["step"] for row in rows(result.run) if "loss" in row] == list(range(1, 151))
    assert (result.run / "samples.txt").read_text().count("--- step") == 4


def test_the_plan_counts_right(make_config: MakeConfig) -> None:
    recorder = Recorder()
    lm.train(make_config(), recorder)
    (plan,) = recorder.plans
    assert (plan.characters, plan.training_tokens, plan.validation_tokens) == (2000, 1800, 200)
    assert plan.tokens_per_step == 32
    assert plan.steps_per_epoch == 56
    assert plan.epochs == pytest.approx(8 * 32 / 1800)
    assert all(len(f"{heading:<8}{said}") <= 80 for heading, said in plan.lines()[:-1])
    assert recorder.ended == ["finished", "closed"]


def test_the_plan_says_how_much_of_a_long_held_out_part_a_validation_reads(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    evaluate = session.evaluate_batches

    def noted(*arguments: Any, **options: Any) -> lm.Evaluation:
        found = evaluate(*arguments, **options)
        read.append(found.tokens)
        return found

    monkeypatch.setattr(session, "evaluate_batches", noted)
    recorder = Recorder()
    lm.train(make_config(max_validation_tokens=50), recorder)
    assert read == [48, 48, 48], "six whole windows of 8"
    said = dict(recorder.plans[0].lines())["tokens"]
    assert said == "1,800 to train on, 200 held out; a validation reads 48"
    lm.train(make_config(max_validation_tokens=0, run=make_config().run / "b"), recorder)
    assert read[3:] == [199, 199, 199]
    assert dict(recorder.plans[1].lines())["tokens"] == "1,800 to train on, 200 held out"


def test_same_seed_same_bits_and_another_seed_others(
    make_config: MakeConfig, tmp_path: Path
) -> None:
    runs = [lm.train(make_config(run=tmp_path / name)).run for name in "ab"]
    assert (runs[0] / "model.safetensors").read_bytes() == (
        runs[1] / "model.safetensors"
    ).read_bytes()
    assert (runs[0] / "samples.txt").read_text() == (runs[1] / "samples.txt").read_text()
    other = lm.train(make_config(run=tmp_path / "c", seed=2)).run
    assert untimed(other) != untimed(runs[0])


def test_validating_more_often_changes_nothing(make_config: MakeConfig, tmp_path: Path) -> None:
    often = lm.train(make_config(run=tmp_path / "a", validation_interval=1, dropout=0.2)).run
    seldom = lm.train(
        make_config(run=tmp_path / "b", validation_interval=100, sample_length=0, dropout=0.2)
    ).run
    assert (often / "model.safetensors").read_bytes() == (seldom / "model.safetensors").read_bytes()


def test_validating_twice_gives_the_same_number_and_moves_nothing(tiny_text: str) -> None:
    tokenizer = text.CharTokenizer.from_text(tiny_text)
    tokens = tokenizer.encode_array(tiny_text)
    config = lm.GPTConfig(
        tokenizer.vocab_size, block_size=8, num_layers=1, num_heads=2, embed_dim=16, dropout=0.5
    )
    model = lm.GPT(config, np.random.default_rng(0))
    before = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    random_state = model.generator.bit_generator.state
    first = lm.evaluate(model, tokens, batch_size=4)
    assert lm.evaluate(model, tokens, batch_size=4) == first
    assert lm.evaluate(model, tokens, batch_size=7).loss == pytest.approx(first.loss, rel=1e-6)
    assert first.tokens == len(tokens) - 1
    assert first.perplexity == pytest.approx(math.exp(first.loss))
    assert model.generator.bit_generator.state == random_state
    assert model.training
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])


def test_the_handler_of_ctrl_c_is_given_back(make_config: MakeConfig) -> None:
    before = signal.getsignal(signal.SIGINT)
    lm.train(make_config(steps=1))
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("where", ["a batch", "a sample"])
def test_ctrl_c_in_a_validation_is_told_at_once_and_the_validation_finished(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, where: str
) -> None:
    whole = lm.train(make_config(run=tmp_path / "whole")).run
    heard: list[str] = []

    class Listener(Recorder):
        def stopping(self) -> None:
            heard.append("stopping")

        def validated(self, report: lm.ValidationReport) -> None:
            heard.append("validated")

    def pressed(method: Any, times: int) -> Any:
        def call(*arguments: Any) -> Any:
            heard.append("called")
            if heard.count("called") == times:
                signal.raise_signal(signal.SIGINT)
            return method(*arguments)

        return call

    if where == "a batch":
        monkeypatch.setattr(lm.GPT, "loss", pressed(lm.GPT.loss, 3))
    else:
        press = pressed(lm.GPT.continued_logits, 3)
        monkeypatch.setattr(lm.GPT, "continued_logits", press)
    run = tmp_path / "run"
    result = lm.train(make_config(), Listener())
    assert (result.interrupted, result.step) == (True, 0)
    before = heard.index("stopping")
    assert heard[before - 1 : before + 2] == ["called", "stopping", "called"]
    assert heard.count("validated") == heard.count("stopping") == 1
    monkeypatch.undo()
    lm.resume(run)
    assert untimed(run) == untimed(whole)


@pytest.fixture
def python_handles_ctrl_c() -> Iterator[None]:
    """Even where the tests run in the background, which has SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("python_handles_ctrl_c")
def test_a_second_ctrl_c_aborts(make_config: MakeConfig) -> None:
    def twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        lm.train(make_config(), Recorder({2: twice}))


def test_training_works_outside_the_main_thread(make_config: MakeConfig) -> None:
    results: list[lm.Result] = []
    thread = threading.Thread(target=lambda: results.append(lm.train(make_config(steps=2))))
    thread.start()
    thread.join()
    assert results[0].step == 2


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_very_short_runs_work(make_config: MakeConfig, steps: int) -> None:
    result = lm.train(make_config(steps=steps, warmup_steps=10))
    assert result.step == steps
    assert lm.load_trained(result.run).model.num_parameters() > 0


def test_a_run_without_validation_or_samples_works(make_config: MakeConfig) -> None:
    recorder = Recorder()
    result = lm.train(make_config(validation_fraction=0.0, sample_length=0), recorder)
    assert result.validation_loss is None
    assert recorder.validations[-1] == lm.ValidationReport(8, None, None, "")
    assert not (result.run / "samples.txt").exists()


def test_decay_is_for_matrices_only(make_config: MakeConfig) -> None:
    from tinygrad_edu.lm.learner import make_optimizer

    model = lm.GPT(lm.GPTConfig(5, 4, 1, 1, 4), np.random.default_rng(0))
    matrices, vectors = make_optimizer(model, make_config(weight_decay=0.3)).param_groups
    assert (matrices["weight_decay"], vectors["weight_decay"]) == (0.3, 0.0)
    assert all(p.ndim == 2 for p in matrices["params"])
    assert all(p.ndim == 1 for p in vectors["params"])
    assert len(matrices["params"]) + len(vectors["params"]) == len(list(model.parameters()))


def test_learning_rate_climbs_and_falls_as_written(make_config: MakeConfig) -> None:
    recorder = Recorder()
    config = make_config(steps=10, warmup_steps=4, learning_rate=1.0, min_learning_rate=0.1)
    from tinygrad_edu.lm.learner import schedule_of

    schedule = schedule_of(config)
    assert [schedule(step) for step in range(5)] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert schedule(7) == pytest.approx(0.55)
    assert schedule(10) == schedule(50) == pytest.approx(0.1)
    lm.train(make_config(), recorder)
    assert [report.learning_rate for report in recorder.steps][-1] > 0


def test_minutes_become_steps_that_the_config_keeps(make_config: MakeConfig) -> None:
    seconds = iter(range(10**6))
    recorder = Recorder()
    result = lm.train(make_config(minutes=1.0), recorder, clock=lambda: float(next(seconds)))
    kept = lm.read_config(result.run)
    assert kept.minutes is None
    assert kept.steps == result.step
    assert 10 < result.step < 60


def test_pace_is_told_from_the_clock(make_config: MakeConfig) -> None:
    from tinygrad_edu.lm.pace import Pace

    now = 100.0
    pace = Pace(lambda: now)
    pace.before = 7.0
    pace.start()
    assert math.isinf(pace.left(10, 1)) and pace.rate() == 0
    now += 2.0
    pace.tick()
    assert pace.rate() == pytest.approx(0.5)
    assert pace.left(9, 3) == pytest.approx(18.0)
    with pace.pause():
        now += 6.0
    assert pace.left(9, 3) == pytest.approx(18.0 + 3 * 6.0)
    assert pace.total() == pytest.approx(15.0)
    now += 2.0
    pace.tick()
    assert pace.rate() == pytest.approx(0.5), "a validation is no step"


def test_the_next_free_folder_is_taken(
    make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runs = [lm.train(make_config(run=None, steps=0)).run for _ in range(2)]
    assert runs == [Path("runs/tiny-1"), Path("runs/tiny-2")]


def test_a_taken_folder_is_refused(make_config: MakeConfig, tmp_path: Path) -> None:
    lm.train(make_config(steps=0))
    with pytest.raises(lm.RunError, match=r"already holds a run.*--resume"):
        lm.train(make_config(steps=0))
    with pytest.raises(lm.RunError, match="not an empty folder"):
        lm.train(make_config(steps=0, run=tmp_path))


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        (b"", text.CorpusError, "empty"),
        (b"caf\xe9 noir", text.CorpusError, "not UTF-8"),
        (b"aaaaaaaaaaaaaaaaaaaa", text.CorpusError, "nothing to predict"),
        (b"abcdefgh", lm.TextError, "block of 8 needs 9.*--block-size"),
    ],
)
def test_a_text_that_cannot_be_learnt_is_refused_and_leaves_no_folder(
    make_config: MakeConfig, tmp_path: Path, content: bytes, error: type[ValueError], words: str
) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    with pytest.raises(error, match=words):
        lm.train(make_config(corpus=(str(path),), validation_fraction=0.0))
    assert not (tmp_path / "run").exists()
