"""Going on with a run: from where, with what, and when it is refused."""

from __future__ import annotations

import dataclasses
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lm.recording import Killed, Recorder, assert_same, rows, untimed

from tinygrad_edu import lm
from tinygrad_edu.lm.checkpoint import load_checkpoint

MakeConfig = Callable[..., lm.TrainConfig]


@pytest.mark.parametrize("stop", [3, 4, 6])
def test_interrupted_and_resumed_equals_uninterrupted(
    make_config: MakeConfig, tmp_path: Path, stop: int
) -> None:
    whole = lm.train(make_config(run=tmp_path / "whole", dropout=0.1)).run
    ctrl_c = Recorder({stop: lambda: signal.raise_signal(signal.SIGINT)})
    first = lm.train(make_config(run=tmp_path / "parts", dropout=0.1), ctrl_c)
    assert first.interrupted
    assert first.step == stop
    seconds_then = load_checkpoint(first.run).progress.seconds
    second = lm.resume(first.run)
    assert not second.interrupted
    assert second.seconds > seconds_then > 0
    assert_same(load_checkpoint(whole), load_checkpoint(second.run))
    assert untimed(whole) == untimed(second.run)
    assert (whole / "samples.txt").read_text() == (second.run / "samples.txt").read_text()


def test_a_killed_run_resumes_from_its_checkpoint_with_the_later_logs_cut(
    make_config: MakeConfig, tmp_path: Path
) -> None:
    def kill() -> None:
        raise Killed

    whole = lm.train(make_config(run=tmp_path / "whole")).run
    killed = Recorder({7: kill})
    with pytest.raises(Killed):
        lm.train(make_config(run=tmp_path / "parts"), killed)
    assert killed.ended == ["closed"]
    run = tmp_path / "parts"
    assert rows(run)[-1]["step"] == 7
    with open(run / "metrics.jsonl", "a") as file:
        file.write('{"step": 8, "lo')
    (run / "checkpoint" / ".step-00000008.1.partial").mkdir()
    resumed = Recorder()
    lm.resume(run, reporter=resumed)
    assert [report.step for report in resumed.steps] == [5, 6, 7, 8]
    assert untimed(run) == untimed(whole)
    kept = sorted(path.name for path in (run / "checkpoint").iterdir())
    assert [name for name in kept if not name.startswith("best")] == [
        "step-00000004", "step-00000008"
    ]  # fmt: skip
    assert_same(load_checkpoint(whole), load_checkpoint(run))


class KilledAtFirst(Recorder):
    """Dies where the first validation has been logged, before the first checkpoint."""

    def validated(self, report: lm.ValidationReport) -> None:
        raise Killed


@pytest.mark.parametrize("tokenizer_too", [True, False])
def test_a_run_stopped_before_its_first_checkpoint_begins_at_step_0(
    make_config: MakeConfig, tmp_path: Path, tokenizer_too: bool
) -> None:
    whole = lm.train(make_config(run=tmp_path / "whole", dropout=0.1)).run
    run = tmp_path / "parts"
    with pytest.raises(Killed):
        lm.train(make_config(run=run, dropout=0.1), KilledAtFirst())
    assert not list((run / "checkpoint").glob("step-*"))
    if not tokenizer_too:
        (run / "tokenizer.json").unlink()
    assert lm.resume(run).step == 8
    assert untimed(run) == untimed(whole)
    assert (run / "samples.txt").read_text() == (whole / "samples.txt").read_text()
    assert_same(load_checkpoint(whole), load_checkpoint(run))
    assert lm.load_trained(run).tokenizer == lm.load_trained(whole).tokenizer


def test_a_run_can_be_made_longer(make_config: MakeConfig) -> None:
    run = lm.train(make_config(steps=2)).run
    with pytest.raises(lm.RunError, match=r"all its 2 steps.*larger --steps"):
        lm.resume(run)
    result = lm.resume(run, make_config(steps=5))
    assert result.step == 5
    assert lm.read_config(run).steps == 5


def test_resuming_cannot_change_the_model_or_the_text(
    make_config: MakeConfig, text_file: Path
) -> None:
    run = lm.train(make_config(steps=2)).run
    with pytest.raises(lm.ConfigError, match=r"--embed-dim was 16 .* cannot become 32"):
        lm.resume(run, make_config(steps=4, embed_dim=32))
    text_file.write_text(text_file.read_text() + "more")
    with pytest.raises(lm.RunError, match="not the text"):
        lm.resume(run, make_config(steps=4))


def test_fewer_steps_than_were_made_are_named_with_those(make_config: MakeConfig) -> None:
    run = lm.train(make_config(steps=5)).run
    with pytest.raises(
        lm.RunError, match=r"has made 5 steps already, more than --steps 3; give a larger --steps"
    ):
        lm.resume(run, make_config(steps=3))


def test_a_run_goes_on_from_another_directory(
    make_config: MakeConfig, text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    run = lm.train(make_config(corpus=("tiny.txt",), run=Path("here/run"), steps=4)).run
    assert lm.read_config(run).corpus == (str(text_file),)
    monkeypatch.chdir(tmp_path / "elsewhere")
    run = Path("../here/run")
    assert lm.resume(run, dataclasses.replace(lm.read_config(run), steps=6)).step == 6


def test_the_name_of_a_corpus_stays_a_name() -> None:
    from tinygrad_edu.lm.material import anchored

    assert anchored(("python-docs", "b/*.txt")) == ("python-docs", str(Path("b/*.txt").absolute()))


def test_a_text_that_moved_can_be_named(
    make_config: MakeConfig, text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = lm.train(make_config(steps=4)).run
    text_file.rename(tmp_path / "moved.txt")
    with pytest.raises(lm.RunError, match=r"text of .* cannot be read .*tiny\.txt.*--corpus"):
        lm.resume(run, make_config(steps=8))
    assert lm.resume(run, make_config(steps=8, corpus=("moved.txt",))).step == 8
    assert lm.read_config(run).corpus == (str(tmp_path / "moved.txt"),)
    (tmp_path / "other.txt").write_text("another text\n" * 99)
    with pytest.raises(lm.RunError, match=r"other\.txt is not the text .* name that text with"):
        lm.resume(run, make_config(steps=9, corpus=("other.txt",)))


def test_a_longer_schedule_is_told_and_the_warm_up_stays(make_config: MakeConfig) -> None:
    first, second, third = Recorder(), Recorder(), Recorder()
    run = lm.train(make_config(steps=40), first).run
    assert lm.read_config(run).warmup_steps == 4
    lm.resume(run, dataclasses.replace(lm.read_config(run), steps=400), second)
    assert lm.read_config(run).warmup_steps == 4
    assert "rate" not in dict(first.plans[0].lines())
    rate = second.steps[0].learning_rate
    assert dict(second.plans[0].lines())["rate"] == (
        f"{rate:.3g} now, not 0.001: the schedule follows the new options"
    )
    assert rate > 0.009
    lm.resume(run, dataclasses.replace(lm.read_config(run), steps=401), third)
    assert "rate" not in dict(third.plans[0].lines()), "too small a change to be seen"


def test_steps_and_warm_up_of_a_run_made_longer_are_those_of_one_planned_so(
    make_config: MakeConfig, tmp_path: Path
) -> None:
    planned, longer = Recorder(), Recorder()
    lm.train(make_config(run=tmp_path / "a", steps=400, warmup_steps=4), planned)
    run = lm.train(make_config(run=tmp_path / "b", steps=40)).run
    lm.resume(run, dataclasses.replace(lm.read_config(run), steps=400), longer)
    assert [report.learning_rate for report in longer.steps] == [
        report.learning_rate for report in planned.steps[40:]
    ]


def test_a_run_goes_on_in_its_own_folder_only(make_config: MakeConfig, tmp_path: Path) -> None:
    run = lm.train(make_config(steps=4)).run
    with pytest.raises(lm.ConfigError, match=r"--run \S+other was given with --resume"):
        lm.resume(run, make_config(run=tmp_path / "other"))
    assert not (tmp_path / "other").exists()
    assert lm.resume(run, make_config(run=run.parent / "x" / ".." / "run")).step == 8


def test_minutes_are_for_new_runs(make_config: MakeConfig) -> None:
    run = lm.train(make_config(steps=4)).run
    with pytest.raises(lm.ConfigError, match=r"--minutes was given with --resume.*give --steps"):
        lm.resume(run, make_config(minutes=1.0))


@pytest.mark.parametrize(
    ("line", "edited", "words"),
    [
        ("seed = 1", "seed = 2", "has seed = 2, but the run was started with 1; put that back"),
        ("batch_size = 4", "batch_size = 5", "has batch_size = 5, but .* with 4"),
        ("bias = true", "bias = false", "has bias = false, but .* with true"),
        ("betas = [0.9, 0.99]", "betas = [0.9, 0.98]", r"has betas = \[0.9, 0.98\], but"),
        ("num_heads = 2", "num_heads = 4", "has num_heads = 4, but .* with 2"),
    ],
)
def test_an_edited_config_cannot_change_what_is_trained(
    make_config: MakeConfig, line: str, edited: str, words: str
) -> None:
    run = lm.train(make_config(steps=4)).run
    path = run / "config.toml"
    content = path.read_text().replace("steps = 4\n", "steps = 8\n", 1)
    assert content.count(line + "\n") == 1
    path.write_text(content.replace(line + "\n", edited + "\n"))
    with pytest.raises(lm.ConfigError, match=words):
        lm.resume(run)
    path.write_text(content)
    assert lm.resume(run).step == 8


def test_the_last_losses_are_known_after_a_resume_that_measured_none(
    make_config: MakeConfig,
) -> None:
    ctrl_c = Recorder({6: lambda: signal.raise_signal(signal.SIGINT)})
    first = lm.train(make_config(), ctrl_c)
    assert first.validation_loss is not None

    calls: list[int] = []

    def pressed_as_the_clock_starts() -> float:
        calls.append(1)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return 0.0

    second = lm.resume(first.run, clock=pressed_as_the_clock_starts)
    assert (second.step, second.interrupted) == (6, True)
    assert (second.loss, second.validation_loss) == (first.loss, first.validation_loss)


def test_a_run_of_no_steps_made_longer_is_validated_at_step_0_once(
    make_config: MakeConfig, tmp_path: Path
) -> None:
    whole = lm.train(make_config(run=tmp_path / "whole", warmup_steps=0)).run
    run = lm.train(make_config(steps=0, warmup_steps=0)).run
    lm.resume(run, make_config())
    assert untimed(run) == untimed(whole)


def test_a_perplexity_beyond_all_numbers_is_null_in_the_log(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_loss = lm.GPT.loss

    def far_off(self: lm.GPT, ids: Any, targets: Any) -> Any:
        return model_loss(self, ids, targets) + (0.0 if self.training else 800.0)

    monkeypatch.setattr(lm.GPT, "loss", far_off)
    run = lm.train(make_config()).run
    for line in (run / "metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert [row["perplexity"] for row in rows(run) if "perplexity" in row] == [None] * 3
