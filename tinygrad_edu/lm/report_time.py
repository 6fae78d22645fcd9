"""Where a run's time and memory went: from its log, and from a few steps taken apart."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinygrad_edu.autograd import profile_table
from tinygrad_edu.autograd.profiling import BACKWARD, FORWARD, PYTHON, Row
from tinygrad_edu.lm.config import TrainConfig
from tinygrad_edu.lm.interrupt import limited_threads
from tinygrad_edu.lm.learner import Learner, new_model
from tinygrad_edu.lm.lessons import Batch
from tinygrad_edu.lm.profiling import peak_bytes, rows_of_a_step

STEPS = 3
"""That are taken apart."""
_KINDS = {
    "matrix products": ("linear", "matmul", "matvec"),
    "attention": ("attention", "packed_attention"),
    "norms": ("layer_norm", "rms_norm"),
    "embedding": ("embedding", "embedding_rows"),
    "loss": ("cross_entropy",),
}
BETWEEN, OTHERS = "Python and graph", "other operations"


@dataclass(frozen=True)
class Kind:
    """A kind of work in one step: seconds of its two passes, or of neither (`rest`)."""

    name: str
    forward: float
    backward: float
    rest: float

    @property
    def seconds(self) -> float:
        """In all."""
        return self.forward + self.backward + self.rest


@dataclass(frozen=True)
class StepCost:
    """What one step of a run's model takes, by one worker.

    Attributes:
        kinds: the slowest first.
        table: the same by module, as text.
        weight_bytes, optimizer_bytes: of the arrays that there are.
        kept_bytes: what the forward pass keeps for the backward pass.
        peak_bytes: the most a step holds above weights and optimizer.
    """

    kinds: Sequence[Kind]
    table: str
    weight_bytes: int
    optimizer_bytes: int
    kept_bytes: int
    peak_bytes: int

    @property
    def seconds(self) -> float:
        """Of a step."""
        return sum(kind.seconds for kind in self.kinds)


@dataclass(frozen=True)
class Spent:
    """Seconds of a run, from its log: on steps, and on validations, samples and checkpoints."""

    steps: float
    besides: float
    median_step: float


class _Noise:
    """Batches of tokens by chance: what a step takes does not depend on them."""

    training_targets = 1
    validation_targets = 0

    def __init__(self, config: TrainConfig, symbols: int) -> None:
        shape = (config.batch_size, config.block_size + 1)
        ids = np.random.default_rng(0).integers(0, symbols, shape)
        self._batch = ids[:, :-1], ids[:, 1:]

    def batch(self, step: int) -> Batch:
        return self._batch

    def held_out(self) -> Iterator[Batch]:
        return iter(())


def step_cost(config: TrainConfig, symbols: int) -> StepCost:
    """Take a few steps of a new model apart; it is thrown away."""
    alone = replace(config, threads=1, accumulate=1)
    with limited_threads(1), np.errstate(all="ignore"):
        learner = Learner(alone, new_model(alone, symbols), _Noise(alone, symbols))
        with closing(learner):
            rows = rows_of_a_step(learner, STEPS)
            peak = peak_bytes(learner)
            weights = sum(parameter.data.nbytes for parameter in learner.model.parameters())
            averages = learner.optimizer_bytes()
    return StepCost(
        kinds=kinds_of(rows),
        table=profile_table.table(rows, 0.0, 80),
        weight_bytes=weights,
        optimizer_bytes=averages,
        kept_bytes=sum(row.made_bytes for row in rows if row.phase == FORWARD),
        peak_bytes=peak,
    )


def kinds_of(rows: Iterable[Row]) -> list[Kind]:
    """The rows of a profile by kind of work, the slowest first; nothing is left out."""
    names = {primitive: kind for kind, primitives in _KINDS.items() for primitive in primitives}
    found: dict[str, list[float]] = {}
    for row in rows:
        pass_ = {FORWARD: 0, BACKWARD: 1}.get(row.phase, 2)
        name = names.get(row.primitive, OTHERS)
        if row.primitive == PYTHON:
            name = BETWEEN if pass_ < 2 else row.phase
        found.setdefault(name, [0.0, 0.0, 0.0])[pass_] += row.seconds
    kinds = [Kind(name, *seconds) for name, seconds in found.items()]
    return sorted(kinds, key=lambda kind: -kind.seconds)


def spent(rows: Sequence[dict[str, Any]]) -> Spent | None:
    """From the lines of metrics.jsonl; None where there are not two steps.

    What passes between two updates is a step, and more where a validation or a checkpoint lies
    between: the median stands for the step then, as it does for each that is that long.
    """
    times = [row["seconds"] for row in rows if row.get("loss") is not None]
    if len(times) < 2:
        return None
    between = np.diff([0.0, *times])
    median = statistics.median(map(float, between))
    steps = float(np.minimum(between, 2 * median).sum())
    whole = max(row["seconds"] for row in rows if "seconds" in row)
    return Spent(steps, max(0.0, whole - steps), median)
