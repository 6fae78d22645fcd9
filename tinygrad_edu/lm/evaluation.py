"""Measures a model on held-out text without moving a weight or touching any random state."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import tinygrad_edu as tg
from tinygrad_edu import nn
from tinygrad_edu.lm.data import Tokens, validation_batches

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


def evaluate(model: GPT, tokens: Tokens, batch_size: int) -> Evaluation:
    """The mean loss over every pair of `tokens`, each weighing the same whatever its batch.

    `batch_size` is a matter of speed and memory: up to rounding, the result does not depend on it.
    """
    total = 0.0
    count = 0
    with evaluating(model):
        for ids, targets in validation_batches(
            tokens, block_size=model.config.block_size, batch_size=batch_size
        ):
            total += model.loss(ids, targets).item() * targets.size
            count += targets.size
    return Evaluation(total / count, count)
