"""`nn.functional`: layers and losses as functions.

The operations themselves belong to the engine and are only named here; this file adds what is a
composition of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_edu.autograd import Tensor
from tinygrad_edu.autograd.functions import (
    attention,
    cross_entropy,
    dropout,
    embedding,
    gelu,
    layer_norm,
    linear,
    log_softmax,
    mean,
    packed_attention,
    relu,
    sigmoid,
    softmax,
    sum,
    tanh,
)
from tinygrad_edu.errors import ShapeError

__all__ = [
    "ACTIVATIONS",
    "attention",
    "cross_entropy",
    "dropout",
    "embedding",
    "gelu",
    "layer_norm",
    "linear",
    "log_softmax",
    "mse_loss",
    "packed_attention",
    "relu",
    "scaled_dot_product_attention",
    "sigmoid",
    "softmax",
    "tanh",
]

ACTIVATIONS = ("gelu", "gelu_tanh", "relu", "tanh", "sigmoid")  # what `linear` can fuse


def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """(input - target)²: its mean over all elements, its "sum", or with "none" each one.

    The shapes must be equal: broadcasting (n, 1) against (n,) would silently compare every pair.

    Raises:
        ShapeError: for two shapes.
        ValueError: for an unknown reduction.
    """
    check_reduction("mse_loss", reduction)
    input = input if isinstance(input, Tensor) else Tensor(input)
    wanted = tuple(np.shape(target)) if not isinstance(target, Tensor) else tuple(target.shape)
    if tuple(input.shape) != wanted:
        raise ShapeError(
            f"mse_loss was given shapes {tuple(input.shape)} and {wanted}, expected two equal "
            "ones: reshape one."
        )
    difference = input - target
    squares: Tensor = difference * difference
    if reduction == "none":
        return squares
    return mean(squares) if reduction == "mean" else sum(squares)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """PyTorch's name and arguments for `attention`: softmax(q·kᵀ·scale + mask)·v, scale 1/√d by
    default.

    query (..., T, d), key (..., S, d), value (..., S, e) -> (..., T, e); a boolean mask is True
    where one may look.
    """
    return attention(
        query, key, value, mask=attn_mask, causal=is_causal, scale=scale, dropout=dropout_p
    )


def check_reduction(owner: str, reduction: str) -> None:
    """Raise ValueError unless `reduction` is one of the three."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(
            f"{owner} was given reduction={reduction!r}, expected 'mean', 'sum' or 'none'."
        )
