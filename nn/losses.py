"""Losses as modules: how far a prediction is from its target, as one number to go downhill on.

Each calls the function of `nn.functional` of the like name, which says what it computes.
"""

from __future__ import annotations

from typing import Any

from tinygrad_edu.autograd import Tensor
from tinygrad_edu.autograd.functions.losses import check_reduction
from tinygrad_edu.nn import functional as F
from tinygrad_edu.nn.module import Module

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CrossEntropyLoss",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "MSELoss",
    "NLLLoss",
    "SmoothL1Loss",
]


class _Loss(Module):
    """A function of (input, target) with options, `reduction` among them."""

    def __init__(self, function: Any, options: dict[str, Any], *more: str) -> None:
        super().__init__()
        check_reduction(type(self).__name__, options["reduction"], *more)
        self._function = function
        self._options = options

    @property
    def reduction(self) -> str:
        """How the terms become the loss."""
        found: str = self._options["reduction"]
        return found

    def forward(self, input: Tensor, target: Any) -> Tensor:
        """Prediction and target -> a scalar, or one number a term with reduction "none"."""
        found: Tensor = self._function(input, target, **self._options)
        return found

    def extra_repr(self) -> str:
        return ", ".join(f"{k}={v!r}" for k, v in self._options.items() if v is not None)


class CrossEntropyLoss(_Loss):
    """-ln softmax(logits)[target], averaged over the targets that are not `ignore_index`.

    The classes are on the last axis, also for more than two dimensions (PyTorch puts them on axis 1
    there). `weight` is one number a class.
    """

    def __init__(
        self,
        weight: Any = None,
        *,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        options = {
            "weight": weight, "ignore_index": ignore_index, "reduction": reduction,
            "label_smoothing": label_smoothing,
        }  # fmt: skip
        super().__init__(F.cross_entropy, options)

    def forward(self, logits: Tensor, targets: Any) -> Tensor:
        """Logits (..., V) and integer targets (...) -> a scalar, or (...) with reduction "none"."""
        return super().forward(logits, targets)


class NLLLoss(_Loss):
    """-input[target] of log-probabilities (..., V) and integer targets (...)."""

    def __init__(
        self, weight: Any = None, *, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        options = {"weight": weight, "ignore_index": ignore_index, "reduction": reduction}
        super().__init__(F.nll_loss, options)


class MSELoss(_Loss):
    """(input - target)², averaged over all elements."""

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__(F.mse_loss, {"reduction": reduction})


class L1Loss(_Loss):
    """|input - target|, averaged over all elements."""

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__(F.l1_loss, {"reduction": reduction})


class HuberLoss(_Loss):
    """Squares up to `delta`, straight lines from there."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(F.huber_loss, {"reduction": reduction, "delta": delta})


class SmoothL1Loss(_Loss):
    """`HuberLoss` over its `beta`."""

    def __init__(self, *, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(F.smooth_l1_loss, {"reduction": reduction, "beta": beta})


class HingeEmbeddingLoss(_Loss):
    """The input where the target is 1, max(0, margin - input) where it is -1."""

    def __init__(self, margin: float = 1.0, *, reduction: str = "mean") -> None:
        super().__init__(F.hinge_embedding_loss, {"margin": margin, "reduction": reduction})


class KLDivLoss(_Loss):
    """t·(ln t - input) of log-probabilities `input` and probabilities t."""

    def __init__(self, *, reduction: str = "mean", log_target: bool = False) -> None:
        options = {"reduction": reduction, "log_target": log_target}
        super().__init__(F.kl_div, options, "batchmean")


class BCELoss(_Loss):
    """Binary cross entropy of probabilities."""

    def __init__(self, weight: Any = None, *, reduction: str = "mean") -> None:
        options = {"weight": weight, "reduction": reduction}
        super().__init__(F.binary_cross_entropy, options)


class BCEWithLogitsLoss(_Loss):
    """Binary cross entropy of logits, exact for any."""

    def __init__(
        self, weight: Any = None, *, reduction: str = "mean", pos_weight: Any = None
    ) -> None:
        options = {"weight": weight, "reduction": reduction, "pos_weight": pos_weight}
        super().__init__(F.binary_cross_entropy_with_logits, options)
