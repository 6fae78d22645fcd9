"""Early stopping: when to give up, and which weights to keep.

Two questions, two answers. The weights kept are those of the lowest validation loss, by however
little. Patience begins anew only where a validation is better than the one it last began at by more
than `min_delta`: a loss that creeps is no reason to go on.
(Prechelt 1998, "Early stopping, but when?", counts the same way.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Best:
    """The validations so far, as far as they matter.

    Attributes:
        step, loss: the lowest loss, and the updates made before it.
        reference: the loss from which `waited` counts.
        waited: validations since `reference` that were not better than it by `min_delta`.
        tokens: that each validation read; losses over other tokens are not compared.
    """

    step: int
    loss: float
    reference: float
    waited: int
    tokens: int

    def exhausted(self, patience: int) -> bool:
        """Whether it is time to stop; never with a patience of 0."""
        return 0 < patience <= self.waited


def after(
    before: Best | None, step: int, loss: float, tokens: int, min_delta: float
) -> Best | None:
    """`before`, None at first, with one validation more.

    A loss that is no number improves nothing: it is waited through like any other that is worse.
    """
    if before is None or before.tokens != tokens:
        return Best(step, loss, loss, 0, tokens) if math.isfinite(loss) else before
    lowest = (step, loss) if loss < before.loss else (before.step, before.loss)
    if loss < before.reference - min_delta:
        return Best(*lowest, loss, 0, tokens)
    return Best(*lowest, before.reference, before.waited + 1, tokens)
