"""What the trainer tells while it works. Who listens, terminal, test or page, it does not know."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tinygrad_edu.lm.history import History
from tinygrad_edu.lm.patience import Best
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
        bits_per_byte: what the held-out text takes as a file that this model has coded.
    """

    step: int
    loss: float | None
    perplexity: float | None
    sample: str
    bits_per_byte: float | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """What the plan foresaw, as it came to be in this process.

    Attributes:
        steps: made here; a resumed run made others before.
        step_seconds: spent on them.
        pauses_seconds: spent on validations, samples, drawings and checkpoints.
        tokens_per_second: of the steps.
        flops_per_second: of their matrix products; 0 where they are not counted.
        weight_bytes, optimizer_bytes: of the arrays that there are.
        resident_bytes: memory held at most by each process that worked, this one first; empty
            where the system does not tell.
        resident_before: held at most by this process before it began.
    """

    steps: int
    step_seconds: float
    pauses_seconds: float
    tokens_per_second: float
    flops_per_second: float
    weight_bytes: int
    optimizer_bytes: int
    resident_bytes: tuple[int, ...] = ()
    resident_before: int | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """How training ended.

    Attributes:
        run: the folder with everything in it.
        step: updates made over all.
        loss: the training loss of the last step; None where no step was made.
        validation_loss: the last one measured; None where nothing is held out.
        seconds: spent, over all resumptions.
        interrupted: ended by Ctrl-C or SIGTERM, to be resumed.
        stopped_early: ended by its patience.
        best: the lowest validation loss and its step; None where there was none.
        verdict: what is to be said of it all, a sentence or two each.
        measured: speed and memory; None where no step was made.
        history: every loss, for a drawing; None likewise.
        signal: the number of the signal that came, if one did.
        report: the page of it all, if one was written.
    """

    run: Path
    step: int
    loss: float | None
    validation_loss: float | None
    seconds: float
    interrupted: bool
    stopped_early: bool = False
    best: Best | None = None
    verdict: tuple[str, ...] = ()
    measured: Measured | None = None
    history: History | None = None
    signal: int | None = None
    report: Path | None = None


class Reporter:
    """Hears what happens; this one says nothing. A subclass overrides what it cares for."""

    def planned(self, plan: Plan, step: int) -> None:
        """Before the first step; `step` is above 0 where a run goes on."""

    def measuring(self, what: str) -> None:
        """Something is worked out that takes a moment: `what`, as a sentence goes on after "…"."""

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
