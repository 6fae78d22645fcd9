"""The fused operations: what a network is made of, one node each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_edu.autograd import origin
from tinygrad_edu.autograd.apply import apply, as_tensor
from tinygrad_edu.autograd.functions.arguments import integers, one_float
from tinygrad_edu.autograd.modes import default_generator
from tinygrad_edu.autograd.tensor import Tensor, is_floating
from tinygrad_edu.errors import DTypeError, ShapeError
from tinygrad_edu.ops import fused as _f
from tinygrad_edu.ops import rotation as _r


def embedding(ids: Any, weight: Any, padding_idx: int | None = None) -> Tensor:
    """Rows of a table: ids (…), weight (V, C) -> (…, C). The padding row gets no gradient.

    Raises:
        IndexError: an id outside [0, V).
    """
    weight = as_tensor(weight)
    if weight.ndim != 2:
        raise ShapeError(f"embedding needs a table of shape (V, C); got {weight.shape}")
    ids = integers(ids, "embedding ids", weight.shape[0])
    if padding_idx is not None:
        if not -weight.shape[0] <= padding_idx < weight.shape[0]:
            raise IndexError(
                f"padding_idx has to be from {-weight.shape[0]} to {weight.shape[0] - 1}; got "
                f"{padding_idx}"
            )
        padding_idx %= weight.shape[0]
    return apply(_f.embedding, ids, weight, padding_idx=padding_idx)


_ACTIVATIONS = (None, "relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid")


def linear(
    x: Any, weight: Any, bias: Any = None, activation: str | None = None, residual: Any = None
) -> Tensor:
    """act(x Wᵀ + b) + r: x (…, in), weight (out, in), bias (out), residual (…, out) -> (…, out)."""
    x, weight, bias, residual = one_float(x, weight, bias, residual)
    if activation not in _ACTIVATIONS:
        raise ValueError(f"linear's activation is one of {_ACTIVATIONS}; got {activation!r}")
    if x.ndim == 0 or weight.ndim != 2 or x.shape[-1] != weight.shape[1]:
        raise ShapeError(
            f"linear cannot take x {x.shape} and weight {weight.shape} at {origin.current_line()}; "
            "the last axis of x has to equal the second of weight (out, in)"
        )
    out = (*x.shape[:-1], weight.shape[0])
    for what, given, wanted in (("bias", bias, out[-1:]), ("residual", residual, out)):
        if given is not None and tuple(given.shape) != wanted:
            raise ShapeError(f"linear's {what} has shape {given.shape}; expected {wanted}")
    return apply(_f.linear_, x, weight, bias, residual, activation=activation)


def layer_norm(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """(x - μ)/√(σ² + eps)·weight + bias over the last axis. Ba, Kiros & Hinton 2016."""
    x, weight, bias = one_float(x, weight, bias)
    for what, given in (("weight", weight), ("bias", bias)):
        if given is not None and tuple(given.shape) != x.shape[-1:]:
            raise ShapeError(
                f"layer_norm's {what} has shape {given.shape}; expected {x.shape[-1:]}"
            )
    return apply(_f.layer_norm, x, weight, bias, eps=eps)


def rms_norm(x: Any, weight: Any = None, eps: float = 1e-5) -> Tensor:
    """x/√(mean(x²) + eps)·weight over the last axis. Zhang & Sennrich 2019, eq. 4."""
    x, weight = one_float(x, weight)
    if weight is not None and tuple(weight.shape) != x.shape[-1:]:
        raise ShapeError(f"rms_norm's weight has shape {weight.shape}; expected {x.shape[-1:]}")
    return apply(_f.rms_norm, x, weight, eps=eps)


def rotary(x: Any, start: int = 0, theta: float = 10000.0) -> Tensor:
    """Vectors turned by their positions: x (…, T, d) -> the same shape. Su et al. 2021.

    Row t stands at position start + t. Its numbers i and i + d/2 are the two coordinates of a point
    that turns by (start + t)·theta^(-2i/d). Lengths stay, and the product of two turned vectors
    depends on how far apart they stand and not on where.
    """
    (x,) = one_float(x)
    if x.ndim < 2 or x.shape[-1] % 2:
        raise ShapeError(
            f"rotary was given shape {x.shape}; expected (…, T, d) with an even d, as numbers are "
            "turned in pairs"
        )
    if start < 0 or theta <= 0:
        raise ValueError(
            f"rotary was given start={start} and theta={theta}; positions begin at 0 or later, and "
            "theta is above 0"
        )
    return apply(_r.rotary, x, start=start, theta=theta, back=False)


def cross_entropy(
    logits: Any, targets: Any, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """-ln softmax(logits)[target] in nats: logits (…, V), targets (…) of integers.

    "mean" averages over the targets that are not `ignore_index`, "sum" adds, "none" keeps them. A
    mean over no target at all is NaN, with gradient 0.

    Raises:
        IndexError: a target outside [0, V) that is not `ignore_index`.
    """
    (logits,) = one_float(logits)
    if logits.ndim == 0:
        raise ShapeError("cross_entropy needs logits of shape (…, V); got one number")
    targets = integers(targets, "targets", logits.shape[-1], ignore_index)
    if targets.shape != logits.shape[:-1]:
        raise ShapeError(
            f"cross_entropy was given logits {logits.shape} and targets {targets.shape}; targets "
            f"have to be {logits.shape[:-1]}, one a row of logits"
        )
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"cross_entropy's reduction is 'mean', 'sum' or 'none'; got {reduction!r}")
    return apply(_f.cross_entropy, logits, targets, ignore_index=ignore_index, reduction=reduction)


def _keep(shape: tuple[int, ...], p: float, generator: Any, like: Tensor) -> Tensor:
    """True with probability 1 - p, drawn on the host so that every backend drops alike."""
    draw = (generator or default_generator()).random(shape, dtype=np.float32) >= p
    return Tensor(like._namespace.asarray(draw))


def _check_probability(p: float, what: str) -> None:
    if not 0 <= p < 1:
        raise ValueError(f"{what} has to be at least 0 and less than 1; got {p}")


def dropout(x: Any, p: float = 0.5, training: bool = True, generator: Any = None) -> Tensor:
    """Zeros with probability p, the others scaled by 1/(1 - p). Srivastava et al. 2014."""
    x = as_tensor(x)
    _check_probability(p, "dropout's p")
    if not training or p == 0:
        same: Tensor = x
        return same
    return apply(_f.dropout, x, _keep(x.shape, p, generator, x), scale=1 / (1 - p))


def _with_mask(xs: list[Any], mask: Any) -> list[Any]:
    """The arguments of attention in one dtype, the mask bool or floating."""
    if mask is None:
        return [*one_float(*xs), None]
    mask = as_tensor(np.asarray(mask) if isinstance(mask, (list, tuple)) else mask)
    if mask.dtype == bool:
        return [*one_float(*xs), mask]
    if not is_floating(mask.dtype):
        raise DTypeError(
            f"an attention mask is bool (True may be seen) or floating (added to the scores); got "
            f"{mask.dtype}: make it bool with mask != 0"
        )
    return one_float(*xs, mask)


def attention(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
    generator: Any = None,
) -> Tensor:
    """softmax(q kᵀ·scale) v: q (…, T, d), k (…, S, d), v (…, S, e) -> (…, T, e). Vaswani 2017.

    `mask` is bool (True may be seen) or added to the scores, and broadcasts to (…, T, S); `causal`
    hides what lies ahead; `scale` is 1/√d. A row that may see nothing gives 0.
    """
    q, k, v, mask = _with_mask([q, k, v], mask)
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ShapeError(
            f"attention was given q {q.shape}, k {k.shape}, v {v.shape}; q and k need the same "
            "last axis, k and v the same length"
        )
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    keep = None
    if dropout:
        _check_probability(dropout, "attention's dropout")
        lead = np.broadcast_shapes(q.shape[:-2], k.shape[:-2])
        keep = _scaled_keep((*lead, q.shape[-2], k.shape[-2]), dropout, generator, q)
    return apply(_f.attention, q, k, v, mask, keep, causal=causal, scale=scale)


def _scaled_keep(shape: tuple[int, ...], p: float, generator: Any, like: Tensor) -> Tensor:
    keep = _keep(shape, p, generator, like)
    return Tensor(keep._data * like._namespace.asarray(1 / (1 - p), dtype=like.dtype))


def packed_attention(
    qkv: Any,
    num_heads: int,
    causal: bool = True,
    mask: Any = None,
    dropout: float = 0.0,
    generator: Any = None,
) -> Tensor:
    """Self-attention of all heads from one packed product: (B, T, 3C) -> (B, T, C)."""
    qkv, mask = _with_mask([qkv], mask)
    if num_heads < 1:
        raise ValueError(f"packed_attention needs at least one head; got num_heads={num_heads}")
    if qkv.ndim != 3 or qkv.shape[2] % (3 * num_heads):
        raise ShapeError(
            f"packed_attention needs (B, T, 3·C) with C divisible by {num_heads} heads; got "
            f"{qkv.shape}"
        )
    batch, time, width = qkv.shape
    keep = None
    if dropout:
        _check_probability(dropout, "attention's dropout")
        keep = _scaled_keep((batch, num_heads, time, time), dropout, generator, qkv)
    scale = 1 / math.sqrt(width // (3 * num_heads))
    return apply(
        _f.packed_attention, qkv, mask, keep, num_heads=num_heads, causal=causal, scale=scale
    )
