"""Training shown in a terminal: the plan, a live line, validations and samples as they come.

Where the output is not a terminal (a file, a pipe) there is no live line, but one now and then.
Where it can no longer be written (`| head` has read enough) training goes on unseen, standard error
says so, and at the end where everything is.
"""

from __future__ import annotations

import math
import shlex
import sys
import textwrap
import unicodedata
from typing import IO, cast

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tinygrad_edu.lm import textplot
from tinygrad_edu.lm.history import Smooth
from tinygrad_edu.lm.machine import mebibytes
from tinygrad_edu.lm.output import Output, discard
from tinygrad_edu.lm.plan import Plan, scaled
from tinygrad_edu.lm.reporting import Measured, Reporter, Result, StepReport, ValidationReport

PLAIN_LINES = 20
"""About so many lines tell of the steps where nothing is live."""
SHORTEST_BAR = 4


class TerminalReporter(Reporter):
    """Writes to a rich `Console`, by default standard output.

    Attributes:
        lost: the error with which standard output could no longer be written, or None.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.lost: OSError | None = None
        self.console = self._on_standard_output() if console is None else console
        self.smooth = Smooth()
        self._errors = sys.stderr
        self._plan: Plan | None = None
        self._live: Live | None = None
        self._line = LiveLine(0, 0)

    def _on_standard_output(self) -> Console:
        if sys.stdout is None:  # a process without one, such as pythonw
            return Console(highlight=False)
        output = Output(sys.stdout, self._lose)
        return Console(file=cast(IO[str], output), highlight=False)

    def _lose(self, error: OSError) -> None:
        self.lost = error
        where = f" in {self._plan.run}" if self._plan else ""
        self._complain(
            f"the output can no longer be written ({error.strerror or error}); training goes on "
            f"unseen{where}, and Ctrl-C saves it"
        )

    def _complain(self, sentence: str) -> None:
        """To standard error, which may be the same closed pipe: then there is nobody to tell."""
        if self._errors is not None:
            try:
                print(f"tinygrad-edu: {sentence}", file=self._errors, flush=True)
            except OSError:
                discard(self._errors)
                self._errors = None

    def planned(self, plan: Plan, step: int) -> None:
        """The plan, one heading a line, and the live line where there is a terminal."""
        self._plan = plan
        for heading, sentence in plan.lines():
            line = Text(f"{heading:<8}", style="bold").append(sentence, style="not bold")
            self.console.print(line, soft_wrap=not self.console.is_terminal)
        if step:
            self.console.print(f"Going on from step {step:,}.")
        self.console.print()
        if self.console.is_terminal:
            self._line = LiveLine(step, plan.config.steps)
            self._live = Live(self._line, console=self.console, refresh_per_second=8)
            self._live.start()

    def measuring(self, what: str) -> None:
        """Say what takes a moment."""
        self._write(f"Measuring {what} …")

    def stepped(self, report: StepReport) -> None:
        """Move the live line, or write a line now and then."""
        loss = self.smooth.add(report.loss)
        self._line = LiveLine(
            report.step,
            report.steps,
            f"{duration(report.seconds_left)} left",
            loss=f"loss {loss:.3f}",
            rate=f"lr {report.learning_rate:.1e}",
            speed=f"{report.tokens_per_second:,.0f} tokens/s",
        )
        if self._live is not None:
            self._live.update(self._line)
        elif report.step % max(1, report.steps // PLAIN_LINES) == 0 or report.step == report.steps:
            self._write(f"{self._line.count}  {self._line.numbers()}")

    def validated(self, report: ValidationReport) -> None:
        """The loss on the held-out text, and the sample below it."""
        parts = [f"step {report.step:,}"]
        if report.loss is not None:
            parts.append(f"validation loss {report.loss:.3f}")
            parts.append(f"perplexity {report.perplexity:,.1f}")
            if report.bits_per_byte is not None:
                parts.append(f"{report.bits_per_byte:.3f} bits a byte")
        self._write("  ".join(parts), style="bold")
        if report.sample:
            self._write_sample(printable(report.sample.strip("\n")))

    def _write_sample(self, sample: str) -> None:
        if self.console.is_terminal:
            self.console.print(Padding(Text(sample, style="dim"), (0, 0, 1, 2)))
        else:  # rich would fill each line with spaces up to its idea of a width
            self._write(textwrap.indent(sample, "  ") + "\n")

    def stopping(self) -> None:
        """Ctrl-C was heard."""
        self._write("Stopping: what was begun is finished, then saved. Ctrl-C again ends at once.")

    def finished(self, result: Result) -> None:
        """What was learnt and measured, where everything is, and what to type next."""
        self.closed()
        self._write_curve(result)
        for sentence in result.verdict:
            self._write(sentence)
        if result.measured and self._plan:
            self._write_measured(result.measured, self._plan)
        if result.report:
            self._write(f"A page to look at it all: {result.report}")
        folder = shlex.quote(str(result.run))
        if result.interrupted:
            said = f"Stopped at step {result.step:,} and saved. To go on:"
            command = f"tinygrad-edu train --resume {folder}"
        else:
            said = f"Done in {duration(result.seconds)}. The model and its logs are in {result.run}"
            said += ". To let it write:"
            command = f"tinygrad-edu sample {folder}"
        self._write(said)
        self._write(f"  {command}", style="bold")
        if self.lost:
            self._complain(f"{said} {command}")

    def _write_curve(self, result: Result) -> None:
        if self._plan is None or result.history is None or not result.step:
            return
        marks = textplot.UNICODE if _can_show(self.console, "·●│└┈╌─═") else textplot.ASCII
        width = min(80, self.console.width) if self.console.is_terminal else 80
        self.console.print()
        for row in textplot.plot(result.history, self._plan.symbols, width=width, marks=marks):
            line = Text()
            for piece in row:
                line.append(piece.text, style=_STYLES.get(piece.kind, ""))
            line.rstrip()
            self.console.print(line, soft_wrap=not self.console.is_terminal)
        self.console.print()

    def _write_measured(self, found: Measured, plan: Plan) -> None:
        """The plan's rows again, as they came to be."""
        self.console.print()
        for heading, sentence in measured_lines(found, plan):
            line = Text(f"{heading:<8}", style="bold").append(sentence, style="not bold")
            self.console.print(line, soft_wrap=not self.console.is_terminal)
        self.console.print()

    def closed(self) -> None:
        """Take the live line off the screen's hands."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _write(self, line: str, style: str = "") -> None:
        self.console.print(Text(line, style=style), soft_wrap=not self.console.is_terminal)


class LiveLine:
    """`step 7/2,000 ━━━ loss 4.21  lr 2.0e-03  14,000 tokens/s  2:01 left`, as much of it as fits.

    The count and the time left stay; the bar goes first, then the learning rate, the speed, the
    loss.

    Args:
        step, steps: updates made, and in all.
        left: the time left, with the word.
        loss, rate, speed: likewise.
    """

    def __init__(
        self,
        step: int,
        steps: int,
        left: str = "-:-- left",
        *,
        loss: str = "",
        rate: str = "",
        speed: str = "",
    ) -> None:
        self.done = (step, max(1, steps))
        self.count = f"step {step:,}/{steps:,}"
        self.parts = {"loss": loss, "rate": rate, "speed": speed, "left": left}

    def numbers(self, room: float = math.inf) -> str:
        """What fits of them into `room` columns."""
        parts = {name: part for name, part in self.parts.items() if part}
        for dropped in ("rate", "speed", "loss"):
            if len("  ".join(parts.values())) <= room:
                break
            parts.pop(dropped, None)
        return "  ".join(parts.values())

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        numbers = self.numbers(options.max_width - len(self.count) - 1)
        bar = options.max_width - len(self.count) - len(numbers) - 2
        line = Table.grid(padding=(0, 1))
        if bar >= SHORTEST_BAR:
            step, steps = self.done
            line.add_row(self.count, ProgressBar(steps, step, width=bar), numbers)
        else:
            line.add_row(self.count, numbers)
        yield line


_STYLES = {
    "training": "cyan",
    "validation": "bold red",
    "uniform": "dim",
    "unigram": "green",
    "ngram": "magenta",
    "floor": "bold",
}


def _can_show(console: Console, symbols: str) -> bool:
    """Whether the output's encoding has these symbols."""
    try:
        symbols.encode(console.encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def measured_lines(found: Measured, plan: Plan) -> list[tuple[str, str]]:
    """(heading, sentence): what the plan foresaw, as it came to be."""
    steps = found.steps
    share = steps / plan.config.steps if plan.config.steps else 0.0
    made = (
        f"{steps:,} of {plan.config.steps:,} planned steps in {duration(found.step_seconds)}, "
        f"{1e3 * found.step_seconds / steps:.1f} ms each"
    )
    rates = f"{found.tokens_per_second:,.0f} tokens/s"
    if plan.flops:
        rates += (
            f", {scaled(found.flops_per_second)}FLOP/s in matrix products "
            f"({scaled(share * plan.flops)}FLOP)"
        )
    return [
        ("made", made),
        ("", f"{rates}"),
        ("besides", f"validations, samples and checkpoints took {duration(found.pauses_seconds)}"),
        (
            "memory",
            f"weights {mebibytes(found.weight_bytes)}, AdamW {mebibytes(found.optimizer_bytes)}",
        ),
        ("", _resident(found)),
    ]


def _resident(found: Measured) -> str:
    if not found.resident_bytes:
        return "the system does not tell how much was resident"
    first, *others = found.resident_bytes
    said = f"resident at most {mebibytes(first)}"
    if others:
        said += " and " + ", ".join(mebibytes(size) for size in others)
    if found.resident_before is not None:
        said += f" ({mebibytes(found.resident_before)} before)"
    return said


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
