"""`nn.functional`: layers and losses as functions.

The operations themselves belong to the engine and are only named here; this file adds what is a
composition of them.
"""

from __future__ import annotations

from typing import Any

from tinygrad_edu.autograd import Tensor
from tinygrad_edu.autograd.functions import (
    attention,
    dropout,
    embedding,
    gelu,
    layer_norm,
    linear,
    log_softmax,
    packed_attention,
    relu,
    rms_norm,
    rotary,
    sigmoid,
    softmax,
    tanh,
)
from tinygrad_edu.autograd.functions.activations import (
    elu,
    hardtanh,
    leaky_relu,
    log_sigmoid,
    logsigmoid,
    mish,
    selu,
    silu,
    softplus,
    softsign,
)
from tinygrad_edu.autograd.functions.convolution import (
    avg_pool1d,
    avg_pool2d,
    conv1d,
    conv2d,
    max_pool1d,
    max_pool2d,
)
from tinygrad_edu.autograd.functions.losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    hinge_embedding_loss,
    hinge_loss,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
)

__all__ = [
    "ACTIVATIONS",
    "attention",
    "avg_pool1d",
    "avg_pool2d",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "conv1d",
    "conv2d",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "gelu",
    "hardtanh",
    "hinge_embedding_loss",
    "hinge_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_sigmoid",
    "log_softmax",
    "logsigmoid",
    "max_pool1d",
    "max_pool2d",
    "mish",
    "mse_loss",
    "nll_loss",
    "packed_attention",
    "relu",
    "rms_norm",
    "rotary",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "softmax",
    "softplus",
    "softsign",
    "tanh",
]

ACTIVATIONS = ("gelu", "gelu_tanh", "relu", "silu", "tanh", "sigmoid")  # what `linear` can fuse


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
