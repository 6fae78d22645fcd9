"""What the trainer tells while it works. Who listens, terminal, test or page, it does not know."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tinygrad_edu.lm.plan import Plan


@dataclass(frozen=True, slots=True)
class StepReport:
    """One update.

    Attributes:
        step: updates made, this one included.
        steps: updates in all.
        loss: mean loss of the batch, in nats, before the update.
        learning_rate: of the update.
        gradient_norm: before clipping.
        tokens_per_second: over the recent steps.
        seconds_left: an estimate from the pace so far.
    """

    step: int
    steps: int
    loss: float
    learning_rate: float
    gradient_norm: float
    tokens_per_second: float
    seconds_left: float


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """One reading of the held-out part, after `step` updates.

    Attributes:
        loss: mean loss, in nats, over all its pairs; None where nothing is held out.
        perplexity: e to the loss; None likewise.
        sample: what the model writes now; empty where no sample was asked for.
    """

    step: int
    loss: float | None
    perplexity: float | None
    sample: str


@dataclass(frozen=True, slots=True)
class Result:
    """How training ended.

    Attributes:
        run: the folder with everything in it.
        step: updates made over all.
        loss: the training loss of the last step; None where no step was made.
        validation_loss: the last one measured; None where nothing is held out.
        seconds: spent, over all resumptions.
        interrupted: ended by Ctrl-C, to be resumed.
    """

    run: Path
    step: int
    loss: float | None
    validation_loss: float | None
    seconds: float
    interrupted: bool


class Reporter:
    """Hears what happens; this one says nothing. A subclass overrides what it cares for."""

    def planned(self, plan: Plan, step: int) -> None:
        """Before the first step; `step` is above 0 where a run goes on."""

    def stepped(self, report: StepReport) -> None:
        """After each update."""

    def validated(self, report: ValidationReport) -> None:
        """After each validation."""

    def stopping(self) -> None:
        """At the first Ctrl-C: what was begun will be finished and saved."""

    def finished(self, result: Result) -> None:
        """At the end, except where an error ends it."""

    def closed(self) -> None:
        """Last of all, whatever happened: give the terminal back."""
