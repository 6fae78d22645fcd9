"""Training shown in a terminal: the plan, a live line, validations and samples as they come.

Where the output is not a terminal (a file, a pipe) there is no live line, but one now and then.
"""

from __future__ import annotations

import math
import shlex
import unicodedata

from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from tinygrad_edu.lm.plan import Plan
from tinygrad_edu.lm.reporting import Reporter, Result, StepReport, ValidationReport

PLAIN_LINES = 20
"""About so many lines tell of the steps where nothing is live."""


class TerminalReporter(Reporter):
    """Writes to a rich `Console`, by default standard output."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = Console(highlight=False) if console is None else console
        self.smooth = _Smooth()
        self._progress: Progress | None = None
        self._task = TaskID(0)

    def planned(self, plan: Plan, step: int) -> None:
        """The plan, one heading a line, and the live line where there is a terminal."""
        for heading, sentence in plan.lines():
            line = Text(f"{heading:<8}", style="bold").append(sentence, style="not bold")
            self.console.print(line, soft_wrap=not self.console.is_terminal)
        if step:
            self.console.print(f"Going on from step {step:,}.")
        self.console.print()
        if self.console.is_terminal:
            self._progress = Progress(
                TextColumn("step {task.completed:,.0f}/{task.total:,.0f}"),
                BarColumn(bar_width=None),
                TextColumn("{task.fields[numbers]}"),
                console=self.console,
                expand=True,
                refresh_per_second=8,
            )
            self._task = self._progress.add_task(
                "", total=plan.config.steps, completed=step, numbers=""
            )
            self._progress.start()

    def stepped(self, report: StepReport) -> None:
        """Move the live line, or write a line now and then."""
        loss = self.smooth.add(report.loss)
        numbers = (
            f"loss {loss:.3f}  lr {report.learning_rate:.1e}  "
            f"{report.tokens_per_second:,.0f} tokens/s  {duration(report.seconds_left)} left"
        )
        if self._progress is not None:
            self._progress.update(self._task, completed=report.step, numbers=numbers)
        elif report.step % max(1, report.steps // PLAIN_LINES) == 0 or report.step == report.steps:
            self._write(f"step {report.step:,}/{report.steps:,}  {numbers}")

    def validated(self, report: ValidationReport) -> None:
        """The loss on the held-out text, and the sample below it."""
        parts = [f"step {report.step:,}"]
        if report.loss is not None:
            parts.append(f"validation loss {report.loss:.3f}")
            parts.append(f"perplexity {report.perplexity:,.1f}")
        self._write("  ".join(parts), style="bold")
        if report.sample:
            sample = Text(printable(report.sample.strip("\n")), style="dim")
            self.console.print(Padding(sample, (0, 0, 1, 2)))

    def finished(self, result: Result) -> None:
        """Where everything is, and what to type next."""
        self.closed()
        folder = shlex.quote(str(result.run))
        if result.interrupted:
            self._write(f"Stopped at step {result.step:,} and saved. To go on:")
            self._write(f"  tinygrad-edu train --resume {folder}", style="bold")
            return
        self._write(
            f"Done in {duration(result.seconds)}. The model and its logs are in {result.run}. "
            "To let it write:"
        )
        self._write(f"  tinygrad-edu sample {folder}", style="bold")

    def closed(self) -> None:
        """Take the live line off the screen's hands."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def _write(self, line: str, style: str = "") -> None:
        self.console.print(Text(line, style=style), soft_wrap=not self.console.is_terminal)


class _Smooth:
    """An exponential average of the loss, unbiased from the first value on."""

    def __init__(self, keep: float = 0.95) -> None:
        self.keep = keep
        self.total = 0.0
        self.weight = 0.0

    def add(self, value: float) -> float:
        self.total = self.keep * self.total + (1 - self.keep) * value
        self.weight = self.keep * self.weight + (1 - self.keep)
        return self.total / self.weight


def duration(seconds: float) -> str:
    """`0:07`, `2:05`, `1:02:05`; `-:--` where it is not known."""
    if not math.isfinite(seconds):
        return "-:--"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def printable(text: str) -> str:
    """`text` with control characters, which a terminal would obey, replaced; line breaks stay."""
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if _is_control(symbol) else symbol for symbol in text
    )


def _is_control(symbol: str) -> bool:
    return symbol not in "\n\t" and unicodedata.category(symbol) == "Cc"
