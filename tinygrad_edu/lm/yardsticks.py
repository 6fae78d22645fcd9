"""What a validation loss is compared with: guessing, counting, and the truth where it is known.

Each is measured on the windows that a validation reads, of the held-out part that nobody has
counted or learnt from:

    uniform    every symbol as likely as every other: ln V
    unigram    each as likely as it is in the training text
    n-gram     what followed the last n-1 symbols in the training text, smoothed; the best n
    floor      the probabilities that the text was drawn with: no model can do better on average
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_edu import text
from tinygrad_edu.lm.config import TrainConfig
from tinygrad_edu.lm.data import Stored, Tokens, validation_windows
from tinygrad_edu.lm.material import Material, Source

MOST_COUNTED = 5_000_000
"""Of a longer training text n-grams are counted in so many symbols at its end, next to the held-out
part: counting takes memory and time in proportion, and the best order hardly changes."""
ROUNDING = 1e-6
"""Nats by which float32 may be off."""
TARGETS_AT_ONCE = 1 << 18
"""Targets that n-grams are asked for at a time."""
AT_ONCE = 256
"""Windows that the source's probabilities are worked out for at a time."""


@dataclass(frozen=True, slots=True)
class Yardsticks:
    """Mean losses on the held-out windows, in nats.

    Attributes:
        uniform: ln V.
        unigram: of symbols by their frequency.
        ngram, order: of the best n-gram, and its n.
        counted: training tokens that the n-grams were counted in.
        floor: of the text's true source; None where it is not known.
    """

    uniform: float
    unigram: float
    ngram: float
    order: int
    counted: int
    floor: float | None = None

    def to_row(self) -> dict[str, Any]:
        """As a line of the log; what is not known is left out."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> Yardsticks:
        """What `to_row` wrote."""
        return cls(
            row["uniform"], row["unigram"], row["ngram"], row["order"], row["counted"],
            row.get("floor"),
        )  # fmt: skip


def measure(material: Material, config: TrainConfig, floor: float | None = None) -> Yardsticks:
    """Count n-grams in the training part, and score them on the windows of a validation."""
    counted = counted_part(material)
    found = text.yardsticks(counted, held_out(material, config), material.tokenizer.vocab_size)
    return Yardsticks(
        found.uniform, found.unigram, found.best, found.order, len(counted), floor
    )


def counted_part(material: Material) -> Tokens:
    """The training tokens that n-grams are counted in."""
    return np.asarray(material.split.training[-MOST_COUNTED:], np.int64)


def held_out(material: Material, config: TrainConfig) -> Iterator[Tokens]:
    """The windows of a validation, each with its last target, in arrays of (B, T+1) with at most
    about `TARGETS_AT_ONCE` targets: what is held out may be larger than memory.
    """
    tokens: Stored = material.split.validation
    block = config.block_size
    windows = validation_windows(len(tokens), block, config.max_validation_tokens)
    at_once = max(1, TARGETS_AT_ONCE // block)
    for first in range(0, len(windows.starts), at_once):
        starts = windows.starts[first : first + at_once]
        yield np.asarray(tokens[starts[:, None] + np.arange(block + 1)], np.int64)
    tail = np.asarray(tokens[windows.tail :], np.int64)
    if len(tail) > 1:
        yield tail[None, :]


@dataclass(frozen=True, slots=True)
class PerWindow:
    """Losses summed over each window, (W,), and the targets in it: a window stands for itself."""

    sums: NDArray[np.float64]
    targets: NDArray[np.int64]

    @property
    def mean(self) -> float:
        """Over all targets, each weighing the same."""
        return float(self.sums.sum() / self.targets.sum())


def per_window(losses: Sequence[NDArray[np.float64]]) -> PerWindow:
    """From (B, T) losses a batch."""
    return PerWindow(
        np.concatenate([part.sum(axis=1) for part in losses]),
        np.concatenate([np.full(len(part), part.shape[1]) for part in losses]),
    )


def source_losses(source: Source, material: Material, config: TrainConfig) -> PerWindow:
    """What the true probabilities lose on the windows of a validation."""
    return per_window(list(_source_losses(source, material, config)))


def _source_losses(
    source: Source, material: Material, config: TrainConfig
) -> Iterator[NDArray[np.float64]]:
    for windows in held_out(material, config):
        for first in range(0, len(windows), AT_ONCE):
            part = windows[first : first + AT_ONCE]
            yield source.losses([material.tokenizer.decode(window) for window in part])


@dataclass(frozen=True, slots=True)
class Excess:
    """How much more a model loses than the source of its text, in nats a target.

    Attributes:
        mean: over all targets.
        error: its standard error.
        windows: that it was measured on.
    """

    mean: float
    error: float
    windows: int

    @property
    def impossible(self) -> bool:
        """Below the floor by more than chance explains: the true probabilities are the best there
        are (Gibbs' inequality), so a held-out text was not held out, or a number is wrong.
        """
        return self.mean < -3 * self.error - ROUNDING


def excess(model: PerWindow, source: PerWindow) -> Excess:
    """The paired difference and its standard error, clustered by window.

    Targets of a window share their past, so their differences vary together: a window counts as one
    observation. With its difference d and its n targets the mean is m = Σd / Σn, a ratio, and

        error² = W / (W-1) · Σ (d - m·n)² / (Σn)²       (Cochran 1977, Sampling Techniques, 6.3)
    """
    difference, targets = model.sums - source.sums, model.targets
    windows, total = len(targets), int(targets.sum())
    mean = float(difference.sum()) / total
    if windows < 2:
        return Excess(mean, math.inf, windows)
    spread = float(((difference - mean * targets) ** 2).sum()) * windows / (windows - 1)
    return Excess(mean, math.sqrt(spread) / total, windows)
