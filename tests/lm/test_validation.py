"""What a validation tells, what it is compared with, and training on one batch over and over."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from lm.recording import Recorder, rows

from tinygrad_edu import lm, text
from tinygrad_edu.lm import checkpoint
from tinygrad_edu.lm.evaluation import evaluate, window_losses
from tinygrad_edu.lm.material import read_material
from tinygrad_edu.lm.verdict import batch_floor
from tinygrad_edu.lm.yardsticks import held_out, per_window
from tinygrad_edu.parallel import ProcessBackward, ThreadedBackward, can_fork

MakeConfig = Callable[..., lm.TrainConfig]


def model_of(vocab_size: int, block: int = 8) -> lm.GPT:
    return lm.GPT(lm.GPTConfig(vocab_size, block, 1, 2, 16), np.random.default_rng(0))


def test_bits_per_byte_count_the_bytes_of_the_targets_in_utf_8() -> None:
    words = "é€a😀b" * 30
    tokenizer = text.CharTokenizer.from_text(words)
    tokens = tokenizer.encode_array(words)
    token_bytes = np.array([len(s.encode()) for s in tokenizer.symbols])
    found = evaluate(model_of(tokenizer.vocab_size), tokens, 4, token_bytes=token_bytes)
    assert found.bytes == len(words.encode()) - len("é".encode())
    assert found.bits_per_byte == pytest.approx(
        found.loss * (len(words) - 1) / math.log(2) / found.bytes
    )
    assert evaluate(model_of(tokenizer.vocab_size), tokens, 4).bits_per_byte is None


def test_a_byte_a_symbol_makes_bits_per_byte_nats_over_ln_2(make_config: MakeConfig) -> None:
    run = lm.train(make_config()).run
    for row in rows(run):
        if "validation_loss" in row:
            assert row["bits_per_byte"] == pytest.approx(row["validation_loss"] / math.log(2))


@pytest.mark.parametrize("workers", [2, 3])
def test_any_number_of_workers_gives_the_same_bits(workers: int) -> None:
    tokens = np.random.default_rng(0).integers(0, 11, 300)
    model = model_of(11)
    alone = evaluate(model, tokens, 4)
    teams = [ThreadedBackward(model, workers)]
    if can_fork(model):
        teams.append(ProcessBackward(model, workers))  # type: ignore[arg-type]
    for team in teams:
        assert evaluate(model, tokens, 4, workers=team) == alone
        again = per_window(window_losses(model, tokens, 4, workers=team))
        np.testing.assert_array_equal(again.sums, per_window(window_losses(model, tokens, 4)).sums)
        team.close()


@pytest.mark.parametrize("length", [10, 65, 300])
def test_the_loss_does_not_depend_on_how_many_windows_are_read_at_once(length: int) -> None:
    tokens = np.random.default_rng(1).integers(0, 11, length)
    whole = evaluate(model_of(11), tokens, 1)
    assert whole.tokens == length - 1
    for batch in (2, 3, 7, 64):
        found = evaluate(model_of(11), tokens, batch)
        assert found.tokens == whole.tokens
        assert found.loss == pytest.approx(whole.loss, rel=1e-6)


def test_losses_by_window_have_the_mean_of_the_validation() -> None:
    tokens = np.random.default_rng(0).integers(0, 11, 301)
    model = model_of(11)
    losses = window_losses(model, tokens, 4)
    assert [part.shape for part in losses][-1] == (1, 300 % 8)
    assert per_window(losses).mean == pytest.approx(evaluate(model, tokens, 4).loss, rel=1e-6)


def test_windows_held_out_are_those_that_a_validation_reads(make_config: MakeConfig) -> None:
    config = make_config()
    material = read_material(config)
    parts = held_out(material, config)
    targets = np.concatenate([part[:, 1:].reshape(-1) for part in parts])
    np.testing.assert_array_equal(targets, material.split.validation[1:])


def test_yardsticks_are_measured_once_and_logged(make_config: MakeConfig) -> None:
    run = lm.train(make_config(steps=4)).run
    (first,) = [row for row in rows(run) if "uniform" in row]
    assert first["step"] == 0
    symbols = text.CharTokenizer.load(run / "tokenizer.json").vocab_size
    assert first["uniform"] == math.log(symbols)
    assert first["ngram"] <= first["unigram"] < first["uniform"]
    result = lm.resume(run, make_config(steps=8))
    assert [row for row in rows(run) if "uniform" in row] == [first]
    assert any("n-gram" in said or "unigram" in said for said in result.verdict)


def test_on_the_grammar_the_floor_is_known_and_no_model_is_below_it(
    make_config: MakeConfig,
) -> None:
    config = make_config(corpus=("grammar",), steps=30, validation_fraction=0.01, block_size=32,
                         validation_interval=30)  # fmt: skip
    result = lm.train(config)
    (row,) = [row for row in rows(result.run) if "floor" in row]
    material = read_material(config)
    want = per_window([
        text.load_corpus("grammar").source.losses(  # type: ignore[union-attr]
            [material.tokenizer.decode(window) for window in part]
        )
        for part in held_out(material, config)
    ]).mean  # fmt: skip
    assert row["floor"] == pytest.approx(want)
    assert row["floor"] < row["ngram"]
    (said,) = [said for said in result.verdict if "true probabilities" in said]
    excess = float(said.split("loses ")[1].split(" ±")[0])
    assert excess == pytest.approx(result.validation_loss - want, abs=1e-4)
    assert "honest" not in said


def test_a_model_that_read_the_held_out_part_is_caught(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tinygrad_edu.lm import session

    def too_good(*arguments: object, **options: object) -> list[np.ndarray]:
        return [losses - 0.5 for losses in told]

    config = make_config(corpus=("grammar",), steps=1, validation_fraction=0.01, block_size=32)
    material = read_material(config)
    source = text.load_corpus("grammar").source
    assert source is not None
    told = [
        source.losses([material.tokenizer.decode(window) for window in part])
        for part in held_out(material, config)
    ]
    monkeypatch.setattr(session, "window_losses", too_good)
    assert any("no honest measurement" in said for said in lm.train(config).verdict)


def test_one_batch_read_over_and_over_is_learnt(make_config: MakeConfig) -> None:
    recorder = Recorder()
    result = lm.train(make_config(overfit_one_batch=True, steps=150, embed_dim=32), recorder)
    losses = [report.loss for report in recorder.steps]
    config = lm.read_config(result.run)
    material = read_material(config)
    ids, targets = lm.training_batch(
        material.split.training, block_size=8, batch_size=4, seed=1, step=0
    )
    floor = batch_floor(ids, targets)
    assert floor <= losses[-1] < floor + 0.1 < losses[0]
    (said,) = result.verdict
    assert "One batch was read 150 times" in said and "The model can learn." in said
    assert not any("uniform" in row for row in rows(result.run)), "no comparison"
    assert dict(recorder.plans[0].lines())["plan"] == "150 steps, all on the batch of the first"


def test_a_validation_moves_nothing(make_config: MakeConfig, tmp_path: Path) -> None:
    often = lm.train(make_config(run=tmp_path / "a", validation_interval=1, dropout=0.1))
    seldom = lm.train(make_config(run=tmp_path / "b", validation_interval=8, dropout=0.1))
    assert often.loss == seldom.loss and often.validation_loss == seldom.validation_loss


def test_what_was_measured_is_told_beside_the_plan(make_config: MakeConfig) -> None:
    recorder = Recorder()
    ticks = iter(range(10_000))
    result = lm.train(make_config(threads=1), recorder, clock=lambda: float(next(ticks)))
    found, (plan,) = result.measured, recorder.plans
    assert found is not None and found.steps == 8
    assert found.step_seconds + found.pauses_seconds == pytest.approx(result.seconds, abs=3)
    assert found.tokens_per_second == pytest.approx(8 * 32 / found.step_seconds)
    flops = 8 * (plan.cost.forward_flops + plan.cost.backward_flops)
    assert found.flops_per_second == pytest.approx(flops / found.step_seconds)
    assert plan.flops == flops
    assert found.weight_bytes == plan.cost.weight_bytes
    assert found.optimizer_bytes == plan.cost.optimizer_bytes


def test_threads_and_processes_train_to_the_same_bits(
    make_config: MakeConfig, tmp_path: Path
) -> None:
    runs = []
    for processes in (True, False):
        recorder = Recorder()
        config = make_config(
            run=tmp_path / str(processes), threads=2, processes=processes, dropout=0.1
        )
        runs.append(lm.train(config, recorder).run)
        kind = "processes" if processes and sys.platform.startswith("linux") else "threads"
        assert recorder.plans[0].workers == (2, kind)
    first, second = (checkpoint.read_arrays(run / "model.safetensors") for run in runs)
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])
