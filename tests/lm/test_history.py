"""The log of a run, read back."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from lm.recording import Recorder

from tinygrad_edu import lm
from tinygrad_edu.lm.history import History, Smooth, read_history
from tinygrad_edu.lm.yardsticks import Yardsticks

MakeConfig = Callable[..., lm.TrainConfig]


def test_the_log_comes_back_as_what_was_heard(make_config: MakeConfig) -> None:
    recorder = Recorder()
    result = lm.train(make_config(), recorder)
    read = read_history(result.run / "metrics.jsonl")
    assert read == result.history
    assert read.losses == [report.loss for report in recorder.steps]
    assert read.validations == [(r.step, r.loss) for r in recorder.validations]


def test_a_torn_last_line_is_left_alone_and_another_is_named(tmp_path: Path) -> None:
    log = tmp_path / "metrics.jsonl"
    log.write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "lo')
    assert read_history(log).losses == [2.0]
    log.write_text('{"step": 1, "loss": 2.0}\n[]\n')
    with pytest.raises(lm.RunError, match=r"line 2 of .* is not a JSON object"):
        read_history(log)
    assert read_history(tmp_path / "none").losses == []


@pytest.mark.parametrize(
    "line",
    [
        b"[]", b"7", b"null", b"{", b"\xff\xfe", b'{"loss": 2.0}', b'{"step": 2, "loss": "low"}',
        b'{"step": "two", "loss": 2.0}', b'{"step": 2, "validation_loss": []}',
        b'{"step": 0, "uniform": 4.6}',
    ],
)  # fmt: skip
def test_a_damaged_line_is_named_by_its_number(tmp_path: Path, line: bytes) -> None:
    log = tmp_path / "metrics.jsonl"
    log.write_bytes(b'{"step": 1, "loss": 2.0}\n' + line + b"\n")
    with pytest.raises(lm.RunError, match=r"^line 2 of .*restore the file"):
        read_history(log)


def test_losses_validations_and_yardsticks_are_told_apart(tmp_path: Path) -> None:
    log = tmp_path / "metrics.jsonl"
    log.write_text(
        '{"step": 0, "validation_loss": 4.5, "perplexity": 90.0}\n'
        '{"step": 0, "uniform": 4.6, "unigram": 3.2, "ngram": 1.5, "order": 6, "counted": 9}\n'
        '{"step": 1, "loss": 4, "gradient_norm": 2.0}\n'
        '{"step": 2, "loss": null}\n'
        '{"step": 3, "loss": 2.0, "new": true}\n'
        '{"step": 3, "validation_loss": 2.5}\n'
    )
    found = read_history(log)
    assert (found.steps, found.losses) == ([1, 3], [4.0, 2.0])
    assert found.validations == [(0, 4.5), (3, 2.5)]
    assert found.best() == (3, 2.5)
    assert found.yardsticks == Yardsticks(4.6, 3.2, 1.5, 6, 9)
    assert found.smoothed[1] == pytest.approx((0.95 * 4 + 2) / 1.95)


def test_the_training_loss_now_is_of_the_last_tenth_and_at_most_100_steps() -> None:
    assert History().recent_loss() is None
    for steps, mean in ((1, 1.0), (9, 9.0), (40, 38.5), (2000, 1950.5)):
        found = History()
        for step in range(1, steps + 1):
            found.add({"step": step, "loss": float(step)})
        assert found.recent_loss() == pytest.approx(mean), steps


def test_the_average_is_unbiased_from_the_first_value_on() -> None:
    smooth = Smooth(0.9)
    assert smooth.add(5.0) == pytest.approx(5.0)
    assert smooth.add(3.0) == pytest.approx((0.9 * 5 + 3) / 1.9)


def test_a_loss_that_is_no_number_does_not_stay_in_the_average() -> None:
    smooth = Smooth(0.9)
    assert math.isnan(smooth.add(math.inf))
    assert smooth.add(5.0) == pytest.approx(5.0)
    assert smooth.add(math.nan) == pytest.approx(5.0)
    assert smooth.add(3.0) == pytest.approx((0.9 * 5 + 3) / 1.9)
