"""Activations as modules, for use in `Sequential`: each calls the function of the same name."""

from __future__ import annotations

from typing import Any

from tinygrad_edu.autograd import Tensor
from tinygrad_edu.nn import functional as F
from tinygrad_edu.nn.module import Module

__all__ = ["GELU", "Identity", "LogSoftmax", "ReLU", "Sigmoid", "Softmax", "Tanh"]


class Identity(Module):
    """Passes its input on; takes and ignores any arguments, to stand in for another layer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        """Any shape -> the same tensor."""
        return x


class ReLU(Module):
    """max(x, 0)."""

    def forward(self, x: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return F.relu(x)


class GELU(Module):
    """x·Φ(x), Φ the normal distribution function (Hendrycks & Gimpel 2016); "tanh" for their
    approximation.
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        if approximate not in ("none", "tanh"):
            raise ValueError(
                f"GELU was given approximate={approximate!r}, expected 'none' or 'tanh'."
            )
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return F.gelu(x, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Tanh(Module):
    """tanh x."""

    def forward(self, x: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return F.tanh(x)


class Sigmoid(Module):
    """1/(1 + exp(-x))."""

    def forward(self, x: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return F.sigmoid(x)


class _AlongAxis(Module):
    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_AlongAxis):
    """exp(x)/Σ exp(x) along `dim`, by default the last axis."""

    def forward(self, x: Tensor) -> Tensor:
        """Any shape -> the same shape, summing to 1 along `dim`."""
        return F.softmax(x, axis=self.dim)


class LogSoftmax(_AlongAxis):
    """x - log Σ exp(x) along `dim`, by default the last axis."""

    def forward(self, x: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return F.log_softmax(x, axis=self.dim)
