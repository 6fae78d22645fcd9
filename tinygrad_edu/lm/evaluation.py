"""Measures a model on held-out text without moving a weight or touching any random state."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import tinygrad_edu as tg
from tinygrad_edu import nn
from tinygrad_edu.lm.data import Tokens, validation_batches
from tinygrad_edu.lm.errors import TextError

if TYPE_CHECKING:
    from tinygrad_edu.lm.gpt import GPT


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What `tokens` predictions cost on average, in nats; e to that power is the perplexity."""

    loss: float
    tokens: int

    @property
    def perplexity(self) -> float:
        """The number of equally likely choices the model is torn between (inf above e**709)."""
        return math.exp(self.loss) if self.loss < 709 else math.inf


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
    model: GPT,
    tokens: Tokens,
    batch_size: int,
    max_pairs: int = 0,
    after_batch: Callable[[], object] | None = None,
) -> Evaluation:
    """The mean loss over the pairs of `tokens`, each weighing the same whatever its batch.

    `batch_size` is a matter of speed and memory: up to rounding, the result does not depend on it.
    Where there are more than `max_pairs` pairs, it is the mean over windows spread evenly
    (`validation_windows`). `after_batch` is called after each batch.

    Raises:
        TextError: fewer than two tokens.
    """
    if len(tokens) < 2:
        raise TextError(
            f"evaluate was given {len(tokens)} of the 2 tokens that it takes to make a pair; give "
            "a longer text"
        )
    total = 0.0
    count = 0
    with evaluating(model):
        for ids, targets in validation_batches(
            tokens,
            block_size=model.config.block_size,
            batch_size=batch_size,
            max_pairs=max_pairs,
        ):
            total += model.loss(ids, targets).item() * targets.size
            count += targets.size
            if after_batch is not None:
                after_batch()
    return Evaluation(total / count, count)
