"""What training looks like, at 80 columns, in a terminal and in a file."""

from __future__ import annotations

import io
import math
import re
from pathlib import Path

import pytest
from rich.console import Console

from tinygrad_edu import lm
from tinygrad_edu.lm.display import TerminalReporter, duration, printable

PLAN = lm.Plan(
    config=lm.TrainConfig(steps=20_000),
    run=Path("runs/python-docs-1"),
    text="python-docs",
    characters=464_970,
    symbols=103,
    training_tokens=418_473,
    validation_tokens=46_497,
    groups=lm.parameters_by_group(lm.GPT(lm.GPTConfig(103))),
    cost=lm.step_cost(lm.GPTConfig(103), 12),
    workers=(2, "processes"),
    blas="openblas 0.3.31",
    allocator_tuned=True,
)
RESULT = lm.Result(
    run=Path("runs/a b"),
    step=20_000,
    loss=1.5,
    validation_loss=1.9,
    seconds=125.0,
    interrupted=False,
)


def tell(reporter: lm.Reporter, result: lm.Result = RESULT) -> None:
    reporter.planned(PLAN, step=10_000)
    for step in (10_001, 15_000, 20_000):
        reporter.stepped(lm.StepReport(step, 20_000, 12.5, 1e-3, 1.0, 14_000.0, 7325.0))
    reporter.validated(lm.ValidationReport(20_000, 1.9, math.exp(1.9), "\nThe cat\x1b[31m sat\n"))
    reporter.finished(result)
    reporter.closed()


def shown(*, terminal: bool, result: lm.Result = RESULT, width: int = 80) -> str:
    output = io.StringIO()
    console = Console(
        file=output, width=width, force_terminal=terminal, color_system=None, highlight=False
    )
    tell(TerminalReporter(console), result)
    return output.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_everything_worth_knowing_is_shown(terminal: bool) -> None:
    text = shown(terminal=terminal)
    for said in (
        "python-docs: 464,970 characters, 103 symbols",
        "418,473 to train on, 46,497 held out",
        "814,720 parameters",
        "768 tokens; 545 steps an epoch",
        "token embedding 13,184, position embedding 8,192, norms 2,304,\n",
        "attention 264,192, MLP 526,848",
        "20,000 steps: 36.70 epochs",
        "a step 1.33 G forward, 2.66 G backward (2.0 ×); in all 79.7 T",
        "weights 3.1 MiB, gradients 3.1 MiB, AdamW 6.2 MiB, activations 28.8 MiB",
        "2 processes share a batch, one BLAS thread each (openblas 0.3.31)",
        "mallopt",
        "Going on from step 10,000.",
        "20,000/20,000",
        "loss 12.500  lr 1.0e-03  14,000 tokens/s  2:02:05 left",
        "step 20,000  validation loss 1.900  perplexity 6.7",
        "  The cat",
        "Done in 2:05",
        "tinygrad-edu sample 'runs/a b'",
    ):
        assert said in text, said


def test_lines_of_a_terminal_fit_80_columns() -> None:
    for line in shown(terminal=True).replace("\r", "\n").split("\n"):
        visible = line.replace("\x1b[2K", "").replace("\x1b[1A", "")
        visible = visible.replace("\x1b[?25l", "").replace("\x1b[?25h", "")
        assert len(visible) <= 80, visible


def live_lines(width: int) -> list[str]:
    found = shown(terminal=True, width=width).replace("\r", "\n").split("\n")
    visible = [re.sub(r"\x1b\[[?\d]*\w", "", line).rstrip() for line in found]
    return [line for line in visible if line.startswith("step 20,000/")]


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (80, "step 20,000/20,000 ━━━━━━ loss 12.500  lr 1.0e-03  14,000 tokens/s  2:02:05 left"),
        (70, "step 20,000/20,000 ━━━━━━━━ loss 12.500  14,000 tokens/s  2:02:05 left"),
        (46, "step 20,000/20,000 loss 12.500  2:02:05 left"),
        (40, "step 20,000/20,000 ━━━━━━━━ 2:02:05 left"),
        (31, "step 20,000/20,000 2:02:05 left"),
    ],
)
def test_step_count_and_time_left_stay_on_a_narrow_terminal(width: int, line: str) -> None:
    assert live_lines(width)[-1] == line


def test_lines_of_a_file_end_in_no_spaces() -> None:
    for line in shown(terminal=False).splitlines():
        assert line == line.rstrip(), line


def test_a_file_gets_no_control_sequences() -> None:
    assert "\x1b" not in shown(terminal=False)


def test_ctrl_c_is_answered_before_the_run_ends() -> None:
    output = io.StringIO()
    TerminalReporter(Console(file=output, width=80)).stopping()
    assert output.getvalue().startswith("Stopping: ")
    assert len(output.getvalue().rstrip("\n")) <= 80


def test_an_interrupted_run_says_how_to_go_on() -> None:
    stopped = lm.Result(Path("runs/x"), 7, 1.0, None, 3.0, interrupted=True)
    text = shown(terminal=False, result=stopped)
    assert "Stopped at step 7 and saved" in text
    assert "tinygrad-edu train --resume runs/x" in text


def test_control_characters_of_a_sample_do_not_reach_the_terminal() -> None:
    assert printable("a\x1b[31m\x07\n\tb\r") == "a�[31m�\n\tb�"


@pytest.mark.parametrize(
    ("seconds", "text"), [(6.6, "0:07"), (125, "2:05"), (3725, "1:02:05"), (math.inf, "-:--")]
)
def test_durations_read_as_clocks(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_batch_is_shared_by_as_many_threads_as_it_has_windows_at_most() -> None:
    from tinygrad_edu.lm.config import TrainConfig, worker_count

    assert worker_count(TrainConfig(threads=3)) == 3
    assert worker_count(TrainConfig(threads=3, batch_size=2)) == 2
    assert worker_count(TrainConfig()) >= 1
