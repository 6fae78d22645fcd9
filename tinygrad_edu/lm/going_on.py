"""A run that goes on: from which state, and what makes it differ from one never stopped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tinygrad_edu.lm import checkpoint
from tinygrad_edu.lm.checkpoint import METRICS, SAMPLES, Checkpoint
from tinygrad_edu.lm.errors import RunError
from tinygrad_edu.lm.machine import environment


def newest_state(run: Path) -> Checkpoint | None:
    """The newest whole checkpoint; None of a run that was stopped before its first.

    Where the best weights that it names are gone or damaged, it names none: they would be missed
    at the end of the run, and not before.

    Raises:
        RunError: as `load_checkpoint`.
    """
    if not checkpoint.begun(run):
        return None
    state = checkpoint.load_checkpoint(run)
    best = state.progress.best
    if best is None:
        return state
    try:
        checkpoint.read_best(run, best["step"])
    except RunError as error:
        said = (
            f"the weights of the best validation, of step {best['step']:,}, are lost ({error}); "
            "the next validation is the best one until another is better"
        )
        return replace(state, progress=replace(state.progress, best=None), best_lost=said)
    return state


def remarks(state: Checkpoint | None, run: Path, workers: tuple[int, str]) -> Iterator[str]:
    """What is to be known of a run that goes on from `state`, a sentence each.

    `workers` as `machine.environment` takes them.
    """
    if state is None:
        return
    progress = state.progress
    if state.damaged:
        yield f"{state.damaged}; it goes on from step {progress.step:,}, which is whole"
    if state.best_lost:
        yield state.best_lost
    for log, length in ((METRICS, progress.metrics_bytes), (SAMPLES, progress.samples_bytes)):
        if checkpoint.length(run / log) < length:
            yield (
                f"{run / log} has lost its end since step {progress.step:,} was saved: the "
                "training is not changed by it, but what was logged there is not shown any more"
            )
    now = environment(workers)
    for what, before in progress.environment.items():
        if now.get(what, before) != before:
            yield (
                f"{what}: {now[what]} now, {before} before; from here the run is equal to one that "
                "was not interrupted up to rounding only"
            )
