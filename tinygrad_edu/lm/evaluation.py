"""Measures a model on held-out text without moving a weight or touching any random state."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import tinygrad_edu as tg
from tinygrad_edu import nn
from tinygrad_edu.lm.data import Stored, Tokens, validation_batches
from tinygrad_edu.lm.errors import TextError
from tinygrad_edu.lm.lessons import IGNORED, Batch
from tinygrad_edu.nn import functional as F
from tinygrad_edu.parallel import Workers

if TYPE_CHECKING:
    from tinygrad_edu.lm.language_model import LanguageModel


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What `tokens` predictions cost on average, in nats; e to that power is the perplexity.

    Attributes:
        loss: the mean of -ln p(target).
        tokens: targets.
        bytes: of those targets in UTF-8; None where they were not counted.
    """

    loss: float
    tokens: int
    bytes: int | None = None

    @property
    def perplexity(self) -> float:
        """The number of equally likely choices the model is torn between (inf above e**709)."""
        return math.exp(self.loss) if self.loss < 709 else math.inf

    @property
    def bits_per_byte(self) -> float | None:
        """Σ -log₂ p over the bytes of the text: what compares models of different tokenizers."""
        if not self.bytes:
            return None
        return self.loss * self.tokens / (math.log(2) * self.bytes)


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Inside, no graph is kept and nothing drops out; afterwards every module is as it was."""
    before = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with tg.no_grad():
            yield
    finally:
        for module, training in before:
            module.training = training


def evaluate(
    model: LanguageModel,
    tokens: Stored,
    batch_size: int,
    max_pairs: int = 0,
    after_batch: Callable[[], object] | None = None,
    *,
    workers: Workers[LanguageModel] | None = None,
    token_bytes: NDArray[np.int64] | None = None,
) -> Evaluation:
    """The mean loss over the pairs of `tokens`, each weighing the same whatever its batch.

    `batch_size` is a matter of speed and memory: up to rounding, the result does not depend on it.
    Where there are more than `max_pairs` pairs, it is the mean over windows spread evenly
    (`validation_windows`). `after_batch` is called after each batch, or after as many at once as
    there are workers. `workers` of the same model take a batch each at a time; batches and the
    order of their sum are the same with any number, so the bits are. `token_bytes` (V,) are the
    bytes of each token in UTF-8, for `bits_per_byte`.

    Raises:
        TextError: fewer than two tokens.
    """
    if len(tokens) < 2:
        raise TextError(
            f"evaluate was given {len(tokens)} of the 2 tokens that it takes to make a pair; give "
            "a longer text"
        )
    batches = validation_batches(
        tokens, block_size=model.config.block_size, batch_size=batch_size, max_pairs=max_pairs
    )
    return evaluate_batches(
        model, batches, after_batch, workers=workers, token_bytes=token_bytes
    )


def evaluate_batches(
    model: LanguageModel,
    batches: Iterable[Batch],
    after_batch: Callable[[], object] | None = None,
    *,
    workers: Workers[LanguageModel] | None = None,
    token_bytes: NDArray[np.int64] | None = None,
) -> Evaluation:
    """`evaluate`, of batches of ids and targets; those that are `IGNORED` do not count.

    Raises:
        TextError: no batch has a target.
    """
    total, count, length = 0.0, 0, 0
    for (_, targets), loss in _each(batch_loss, model, iter(batches), workers, after_batch):
        scored = targets[targets != IGNORED]
        if not len(scored):
            continue
        total += loss * len(scored)
        count += len(scored)
        if token_bytes is not None:
            length += int(token_bytes[scored].sum())
    if not count:
        raise TextError("there is no target to be scored; give examples with some")
    return Evaluation(total / count, count, None if token_bytes is None else length)


def window_losses(
    model: LanguageModel,
    tokens: Stored,
    batch_size: int,
    max_pairs: int = 0,
    *,
    workers: Workers[LanguageModel] | None = None,
) -> list[NDArray[np.float64]]:
    """The loss of each target, as `evaluate` reads them: one (B, T) array a batch, in its order."""
    batches = validation_batches(
        tokens, block_size=model.config.block_size, batch_size=batch_size, max_pairs=max_pairs
    )
    return [losses for _, losses in _each(target_losses, model, batches, workers)]


def _each(
    measure: Callable[..., Any],
    model: LanguageModel,
    batches: Iterator[Batch],
    workers: Workers[LanguageModel] | None,
    after_batch: Callable[[], object] | None = None,
) -> Iterator[tuple[Batch, Any]]:
    """(batch, `measure(model, *batch)`), in order, whoever works it out."""
    at_once = workers.count if workers else 1
    while batch := list(itertools.islice(batches, at_once)):
        found = [measure(model, *batch[0])] if workers is None else workers.each(measure, batch)
        yield from zip(batch, found, strict=True)
        if after_batch is not None:
            after_batch()


def batch_loss(model: LanguageModel, ids: Tokens, targets: Tokens) -> float:
    """The mean loss of a batch. (At the top of a module, so that another process can be told.)"""
    with evaluating(model):
        return float(model.loss(ids, targets).item())


def target_losses(model: LanguageModel, ids: Tokens, targets: Tokens) -> NDArray[np.float64]:
    """The loss of each target of a batch, (B, T)."""
    with evaluating(model):
        losses = F.cross_entropy(model(ids), targets, reduction="none").numpy()
    return np.asarray(losses, np.float64)
