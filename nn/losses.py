"""Losses as modules: how far a prediction is from its target, as one number to go downhill on."""

from __future__ import annotations

from typing import Any

from tinygrad_edu.autograd import Tensor
from tinygrad_edu.nn import functional as F
from tinygrad_edu.nn.module import Module

__all__ = ["CrossEntropyLoss", "MSELoss"]


class CrossEntropyLoss(Module):
    """-log softmax(logits)[target], averaged over the targets that are not `ignore_index`.

    The classes are on the last axis, also for more than two dimensions (PyTorch puts them on axis 1
    there).
    """

    def __init__(self, *, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__()
        F.check_reduction("CrossEntropyLoss", reduction)
        self.ignore_index = ignore_index
        self.reduction = reduction

    def forward(self, logits: Tensor, targets: Any) -> Tensor:
        """Logits (..., V) and integer targets (...) -> a scalar, or (...) with reduction "none"."""
        return F.cross_entropy(
            logits, targets, ignore_index=self.ignore_index, reduction=self.reduction
        )

    def extra_repr(self) -> str:
        return f"ignore_index={self.ignore_index}, reduction={self.reduction!r}"


class MSELoss(Module):
    """(input - target)², averaged over all elements."""

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__()
        F.check_reduction("MSELoss", reduction)
        self.reduction = reduction

    def forward(self, input: Tensor, target: Any) -> Tensor:
        """Two equal shapes -> a scalar, or that shape with reduction "none"."""
        return F.mse_loss(input, target, reduction=self.reduction)

    def extra_repr(self) -> str:
        return f"reduction={self.reduction!r}"
