"""The layers: `Linear`, `Embedding`, `LayerNorm`, `RMSNorm`, `Dropout` and `MLP`.

Names, argument order, defaults and initialisation are PyTorch's. Each layer is one fused operation,
so what it does can be opened with `tg.unfused()`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tinygrad_edu.autograd import Tensor
from tinygrad_edu.autograd.functions import flatten, reshape
from tinygrad_edu.errors import ShapeError
from tinygrad_edu.nn import functional as F
from tinygrad_edu.nn import init
from tinygrad_edu.nn.containers import ModuleList
from tinygrad_edu.nn.module import Module
from tinygrad_edu.nn.parameter import checked_size, new_parameter

__all__ = ["MLP", "Dropout", "Embedding", "LayerNorm", "Linear", "RMSNorm"]


class Linear(Module):
    """y = x·Wᵀ + b, with W of shape (out_features, in_features).

    W and b start as U(-1/√in, 1/√in), as in PyTorch (kaiming_uniform_ with a=√5).
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = None,
        *,
        generator: np.random.Generator | None = None,
    ) -> None:
        super().__init__()
        checked_size("Linear", in_features=in_features, out_features=out_features)
        self.in_features = in_features
        self.out_features = out_features
        self.weight = new_parameter(out_features, in_features, device=device, dtype=dtype)
        self.bias = new_parameter(out_features, device=device, dtype=dtype) if bias else None
        self.reset_parameters(generator)

    def reset_parameters(self, generator: np.random.Generator | None = None) -> None:
        """Draw the starting weights again."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5.0), generator=generator)
        if self.bias is not None:
            bound = 1.0 / math.sqrt(self.in_features)
            init.uniform_(self.bias, -bound, bound, generator)

    def forward(
        self, x: Tensor, activation: str | None = None, residual: Tensor | None = None
    ) -> Tensor:
        """(..., in_features) -> (..., out_features): activation(x·Wᵀ + b) + residual in one
        operation.
        """
        return F.linear(x, self.weight, self.bias, activation=activation, residual=residual)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class Embedding(Module):
    """A table with one trained row a token; rows start as N(0, 1), the row `padding_idx` as 0 and
    stays so.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        device: str | None = None,
        dtype: Any = None,
        generator: np.random.Generator | None = None,
    ) -> None:
        super().__init__()
        checked_size("Embedding", num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(
                f"Embedding was given padding_idx={padding_idx}, expected a row of its table, "
                f"{-num_embeddings} to {num_embeddings - 1}."
            )
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.weight = new_parameter(num_embeddings, embedding_dim, device=device, dtype=dtype)
        self.reset_parameters(generator)

    def reset_parameters(self, generator: np.random.Generator | None = None) -> None:
        """Draw the table again."""
        init.normal_(self.weight, generator=generator)
        if self.padding_idx is not None:
            self.weight.data[self.padding_idx] = 0
            self.weight._written()

    def forward(self, ids: Any) -> Tensor:
        """Integer ids of any shape (...) -> (..., embedding_dim)."""
        return F.embedding(ids, self.weight, padding_idx=self.padding_idx)

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


class LayerNorm(Module):
    """(x - mean)/√(var + eps)·weight + bias over the last axes (Ba et al. 2016, eq. 3); weight
    starts at 1, bias at 0.

    `normalized_shape` is the shape of those axes: an int for the last one.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if isinstance(normalized_shape, (int, np.integer)):
            normalized_shape = (int(normalized_shape),)
        shape = tuple(normalized_shape)
        checked_size("LayerNorm", **{f"normalized_shape[{i}]": n for i, n in enumerate(shape)})
        if not shape:
            raise ValueError("LayerNorm was given normalized_shape=(), expected at least one axis.")
        self.normalized_shape: tuple[int, ...] = shape
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        affine = elementwise_affine
        self.weight = new_parameter(*shape, device=device, dtype=dtype) if affine else None
        self.bias = new_parameter(*shape, device=device, dtype=dtype) if affine and bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1 and bias 0 again."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(..., *normalized_shape) -> the same shape."""
        axes = len(self.normalized_shape)
        if tuple(x.shape[x.ndim - axes :]) != self.normalized_shape:
            raise ShapeError(
                f"LayerNorm was given shape {tuple(x.shape)}, expected it to end in "
                f"{self.normalized_shape}."
            )
        if axes == 1:
            return F.layer_norm(x, self.weight, self.bias, eps=self.eps)
        flat, weight, bias = (
            None if part is None else flatten(part, start_dim=-axes)
            for part in (x, self.weight, self.bias)
        )
        return reshape(F.layer_norm(flat, weight, bias, eps=self.eps), x.shape)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class RMSNorm(Module):
    """x/√(mean(x²) + eps)·weight over the last axis (Zhang & Sennrich 2019, eq. 4); weight starts
    at 1.

    LayerNorm without its mean: the size of a vector is taken out, its level stays.
    """

    def __init__(
        self,
        normalized_shape: int,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        checked_size("RMSNorm", normalized_shape=normalized_shape)
        self.normalized_shape = normalized_shape
        self.eps = eps
        affine = elementwise_affine
        place: dict[str, Any] = {"device": device, "dtype": dtype}
        self.weight = new_parameter(normalized_shape, **place) if affine else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1 again."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """(..., normalized_shape) -> the same shape."""
        if x.ndim == 0 or x.shape[-1] != self.normalized_shape:
            raise ShapeError(
                f"RMSNorm was given shape {tuple(x.shape)}, expected it to end in "
                f"({self.normalized_shape},)."
            )
        return F.rms_norm(x, self.weight, eps=self.eps)

    def extra_repr(self) -> str:
        affine = self.weight is not None
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={affine}"


class Dropout(Module):
    """In training, zeroes each element with probability p and scales the others by 1/(1-p); else
    passes all.
    """

    def __init__(self, p: float = 0.5, *, generator: np.random.Generator | None = None) -> None:
        super().__init__()
        if not 0.0 <= p < 1.0:  # as dropout everywhere else here: the scale 1/(1-p) has to exist
            raise ValueError(
                f"Dropout was given p={p}, expected a probability of at least 0 and below 1."
            )
        self.p = p
        self.generator = generator

    def forward(self, x: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return F.dropout(x, self.p, training=self.training, generator=self.generator)

    @property
    def active(self) -> bool:
        """Whether calling it now changes anything."""
        return self.training and self.p > 0

    def extra_repr(self) -> str:
        return f"p={self.p}"


class MLP(Module):
    """Linear layers with an activation after each but the last: what a transformer block calls its
    MLP.

    Args:
        in_features: width of the input.
        hidden_features: width of the hidden layer, or a sequence of widths.
        out_features: width of the output; None for that of the input.
        activation: "gelu", "gelu_tanh", "relu", "silu", "tanh" or "sigmoid", fused into each
            hidden layer.
    """

    def __init__(
        self,
        in_features: int,
        hidden_features: int | Sequence[int],
        out_features: int | None = None,
        activation: str = "gelu",
        bias: bool = True,
        device: str | None = None,
        dtype: Any = None,
        *,
        generator: np.random.Generator | None = None,
    ) -> None:
        super().__init__()
        if activation not in F.ACTIVATIONS:
            raise ValueError(
                f"MLP was given activation={activation!r}, expected one of "
                f"{', '.join(F.ACTIVATIONS)}."
            )
        if isinstance(hidden_features, (int, np.integer)):
            hidden_features = [int(hidden_features)]
        widths = [
            in_features,
            *hidden_features,
            in_features if out_features is None else out_features,
        ]
        self.activation = activation
        self.layers = ModuleList(
            Linear(before, after, bias, device, dtype, generator=generator)
            for before, after in pairwise(widths)
        )

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """(..., in_features) -> (..., out_features), plus `residual` of that shape if given."""
        *hidden, last = self.layers
        for layer in hidden:
            x = layer(x, activation=self.activation)
        return last(x, residual=residual)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        return f"activation={self.activation!r}"
