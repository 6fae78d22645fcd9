"""What a run learns from: a batch for each step, and batches that are held out.

The trainer knows no more of its data than this. Plain text gives windows (`Windows`); other
examples, such as conversations of which only the answers are scored, are lessons of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tinygrad_edu.lm.config import TrainConfig
from tinygrad_edu.lm.data import Split, Tokens, training_batch, validation_batches

IGNORED = -100
"""The target of a position that is read and not scored, as `cross_entropy` has it."""

Batch = tuple[Tokens, Tokens]
"""Ids and targets, (B, T) each; at t the target is the id at t+1, or `IGNORED`."""


class Lessons(Protocol):
    """Batches as pure functions of what they were made with, so that a run can be resumed.

    Attributes:
        training_targets: scored positions in one pass over what is trained on.
        validation_targets: scored positions of a validation; 0 where nothing is held out.
    """

    @property
    def training_targets(self) -> int: ...

    @property
    def validation_targets(self) -> int: ...

    def batch(self, step: int) -> Batch:
        """The whole batch of step number `step` (from 0), of all its parts and workers."""
        ...

    def held_out(self) -> Iterator[Batch]:
        """What a validation reads, each target once, always in this order."""
        ...


def epoch_steps(config: TrainConfig, training_targets: int) -> int:
    """Steps of an epoch, where the order is by epochs; the last may read less than the others."""
    windows = -(-training_targets // config.block_size)
    return -(-windows // (config.batch_size * config.accumulate))


def steps_for(config: TrainConfig, training_targets: int, epochs: float) -> int:
    """The steps that make so many epochs whole."""
    if config.order == "epochs":
        return math.ceil(epochs * epoch_steps(config, training_targets))
    a_step = config.batch_size * config.accumulate * config.block_size
    return math.ceil(epochs * training_targets / a_step)


def targets_in(targets: Tokens) -> int:
    """How many of them are scored."""
    return int(np.count_nonzero(targets != IGNORED))


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of a token array, which may be a file mapped into memory.

    Attributes:
        split: the tokens to train on, and those held out.
        config: sizes, seed, and how much a validation reads.
    """

    split: Split
    config: TrainConfig

    @property
    def training_targets(self) -> int:
        """Tokens to train on: a pass over them is an epoch."""
        return len(self.split.training)

    @property
    def validation_targets(self) -> int:
        """Pairs in the held-out part, whatever a validation reads of it."""
        return max(0, len(self.split.validation) - 1)

    def batch(self, step: int) -> Batch:
        """(batch_size · accumulate, block_size) ids and targets."""
        config = self.config
        return training_batch(
            self.split.training,
            block_size=config.block_size,
            batch_size=config.batch_size * config.accumulate,
            seed=config.seed,
            step=step,
        )

    def held_out(self) -> Iterator[Batch]:
        """`data.validation_batches` of the held-out part."""
        config = self.config
        return validation_batches(
            self.split.validation,
            block_size=config.block_size,
            batch_size=config.batch_size,
            max_pairs=config.max_validation_tokens,
        )
