"""Activations as modules, for use in `Sequential`: each calls the function of the same name."""

from __future__ import annotations

from typing import Any

from tinygrad_edu.autograd import Tensor
from tinygrad_edu.nn import functional as F
from tinygrad_edu.nn.module import Module

__all__ = [
    "ELU",
    "GELU",
    "SELU",
    "Flatten",
    "Hardtanh",
    "Identity",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "ReLU",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Softsign",
    "Tanh",
]


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


class SiLU(Module):
    """x·sigmoid(x)."""

    def forward(self, x: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return F.silu(x)


class Mish(Module):
    """x·tanh(softplus(x))."""

    def forward(self, x: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return F.mish(x)


class SELU(Module):
    """λ·elu with the α and λ that keep mean 0 and variance 1 (Klambauer et al. 2017)."""

    def forward(self, x: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return F.selu(x)


class Softsign(Module):
    """x/(1 + |x|)."""

    def forward(self, x: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return F.softsign(x)


class LogSigmoid(Module):
    """ln sigmoid(x), without overflow."""

    def forward(self, x: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return F.log_sigmoid(x)


class ELU(Module):
    """x, and α(eˣ - 1) at 0 and below."""

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return F.elu(x, self.alpha)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}"


class LeakyReLU(Module):
    """x, and negative_slope·x at 0 and below."""

    def __init__(self, negative_slope: float = 0.01) -> None:
        super().__init__()
        self.negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return F.leaky_relu(x, self.negative_slope)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}"


class Softplus(Module):
    """ln(1 + e^(βx))/β, without overflow."""

    def __init__(self, beta: float = 1.0) -> None:
        super().__init__()
        self.beta = beta

    def forward(self, x: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return F.softplus(x, self.beta)

    def extra_repr(self) -> str:
        return f"beta={self.beta}"


class Hardtanh(Module):
    """x held between two bounds."""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0) -> None:
        super().__init__()
        self.min_val, self.max_val = min_val, max_val

    def forward(self, x: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return F.hardtanh(x, self.min_val, self.max_val)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"


class Flatten(Module):
    """Axes start_dim to end_dim made one, all but the batch by default."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: Tensor) -> Tensor:
        """(N, ...) -> (N, the rest)."""
        return x.flatten(self.start_dim, self.end_dim)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"
