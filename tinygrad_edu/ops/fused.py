"""Fused primitives: each is defined twice.

The *reference* is a composition of primitives, which says what the operation means; the *kernel*
(`kernels.py`) is what training runs. `with tg.unfused():` runs references, so that a learner can
open
a softmax and see its exp, its sum and its division; a property test holds kernel to reference.
"""

from __future__ import annotations

import math
from typing import Any

from tinygrad_edu import backend
from tinygrad_edu.ops import kernels
from tinygrad_edu.ops.registry import joint, linear

_ANY = (-4.0, 4.0)


def _activation(F: Any, y: Any, activation: Any) -> Any:
    if activation is None:
        return y
    if activation == "gelu":
        return F.gelu(y, approximate="none")
    if activation == "gelu_tanh":
        return F.gelu(y, approximate="tanh")
    named = {"relu": F.relu, "silu": F.silu, "tanh": F.tanh, "sigmoid": F.sigmoid}
    return named[activation](y)


def _linear_reference(
    F: Any, x: Any, weight: Any, bias: Any, residual: Any, *, activation: Any
) -> Any:
    y = F.matmul(x, F.swapaxes(weight, -1, -2))
    y = _activation(F, y if bias is None else y + bias, activation)
    return y if residual is None else y + residual


linear_ = joint(
    "linear", "act(x Wᵀ + b) + r", forward=kernels.linear, vjp=kernels.linear_vjp,
    reference=_linear_reference, domain=(_ANY, _ANY, _ANY, _ANY),
)


def _layer_norm_reference(F: Any, x: Any, weight: Any, bias: Any, *, eps: Any) -> Any:
    centred = x - F.mean(x, axis=-1, keepdims=True)
    variance = F.mean(centred * centred, axis=-1, keepdims=True)
    y = centred / F.sqrt(variance + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


layer_norm = joint(
    "layer_norm", "(x - μ)/σ · w + b", forward=kernels.layer_norm, vjp=kernels.layer_norm_vjp,
    reference=_layer_norm_reference, domain=(_ANY, _ANY, _ANY),
    kinks=("a constant row: 0 with a finite gradient, because of eps",),
)


def _rms_norm_reference(F: Any, x: Any, weight: Any, *, eps: Any) -> Any:
    y = x / F.sqrt(F.mean(x * x, axis=-1, keepdims=True) + eps)
    return y if weight is None else y * weight


rms_norm = joint(
    "rms_norm", "x/rms(x) · w", forward=kernels.rms_norm, vjp=kernels.rms_norm_vjp,
    reference=_rms_norm_reference, domain=(_ANY, _ANY),
    kinks=("a row of zeros: 0 with a finite gradient, because of eps",),
)


def _cross_entropy_reference(
    F: Any, logits: Any, targets: Any, *, ignore_index: Any, reduction: Any
) -> Any:
    wanted = F.constant(targets).reshape(-1)
    counted = wanted != ignore_index
    safe = wanted * counted
    p = F.log_softmax(F.reshape(logits, (-1, logits.shape[-1])), axis=-1)
    everyone = tuple(range(p.shape[0]))
    losses = -F.getitem(p, index=(list(everyone), safe))
    losses = F.where(counted, losses, F.zeros_like(losses))
    if reduction == "none":
        return F.reshape(losses, targets.shape)
    total = F.sum(losses, axis=None, keepdims=False)
    return total if reduction == "sum" else total / (counted.sum().item() or math.nan)


cross_entropy = joint(
    "cross_entropy", "-ln softmax(z)[target]", forward=kernels.cross_entropy,
    vjp=kernels.cross_entropy_vjp, reference=_cross_entropy_reference, domain=(_ANY, _ANY),
    kinks=(
        "a target of ignore_index gets 0 and is not counted", "no target to count: a mean is NaN, "
        "with gradient 0", "never overflows",
    ),
)


def _embedding_vjp(F: Any, g: Any, ids: Any, weight_shape: Any, padding_idx: Any) -> Any:
    return None, F.embedding_rows(g, ids, rows=weight_shape[0], padding_idx=padding_idx)


def _embedding_jvp(
    F: Any, tangents: Any, ids: Any, weight: Any, *, out: Any, padding_idx: Any
) -> Any:
    return _embedding_rows_transpose(F, tangents[1], ids, padding_idx)  # the padding row stands


embedding = joint(
    "embedding", "W[ids]", forward=lambda F, ids, weight, *, padding_idx: weight[ids],
    vjp=_embedding_vjp,
    jvp=_embedding_jvp,
    analytic=True, degree=1, domain=(_ANY, _ANY),
    kinks=("a row read k times gets the sum of k gradients", "the padding row gets 0"),
)


def _embedding_rows(F: Any, g: Any, ids: Any, *, rows: Any, padding_idx: Any) -> Any:
    total = kernels.scatter_rows(F, ids, g, rows)
    if padding_idx is not None:
        total[padding_idx] = 0
    return total


def _embedding_rows_transpose(F: Any, g: Any, ids: Any, padding_idx: Any) -> Any:
    back = F.embedding(ids, g, padding_idx=padding_idx)
    if padding_idx is None:
        return back
    return F.where(F.expand_dims(ids == padding_idx, -1), F.zeros_like(back), back)


embedding_rows = linear(
    "embedding_rows", "zeros with g added at rows ids", forward=_embedding_rows,
    transposes=(_embedding_rows_transpose, None), analytic=True, degree=1, domain=(_ANY, _ANY),
)


def _causal_bias(F: Any, s: Any) -> Any:
    """A plain array to add to scores s (…, T, S): -inf where a position would see its future."""
    raw = F.constant(s)
    arrays = backend.namespace_of(raw)
    dtype = float if raw.dtype == object else raw.dtype
    return kernels.causal_bias(arrays, raw.shape[-2], raw.shape[-1], dtype)


def _add_mask(F: Any, s: Any, mask: Any) -> Any:
    """Scores with a mask on: True (or +0) may be seen, False becomes -inf."""
    if mask.dtype == bool:
        return F.where(mask, s, F.full_like(s, -math.inf))
    return s + mask


backend.register("causal_bias", _causal_bias)
backend.register("add_mask", _add_mask)


def _attention_reference(
    F: Any, q: Any, k: Any, v: Any, mask: Any, keep: Any, *, causal: Any, scale: Any
) -> Any:
    s = F.matmul(q, F.swapaxes(k, -1, -2)) * scale
    if causal:
        s = s + F.causal_bias(s)
    if mask is not None:
        s = F.add_mask(s, mask)
    a = F.softmax(s, axis=-1)
    return F.matmul(a if keep is None else a * keep, v)


def _attention(
    F: Any, q: Any, k: Any, v: Any, mask: Any, keep: Any, *, causal: Any, scale: Any
) -> Any:
    a = kernels.scores(F, q, k, mask, causal, scale)
    return F.matmul(a if keep is None else a * keep, v), a


def _attention_vjp(
    F: Any, need: Any, g: Any, saved: Any, out: Any, q: Any, k: Any, v: Any, keep: Any, scale: Any
) -> Any:
    nothing = (None, None, None)
    shares = kernels.row_sums(F, g * out)[..., None]
    back = kernels.attention_backward(F, g, saved, q, k, v, shares, keep, scale, nothing, need[3])
    return (*back, None)


attention = joint(
    "attention", "softmax(q kᵀ/√d) v", forward=_attention, vjp=_attention_vjp,
    reference=_attention_reference, broadcasts=True, domain=(_ANY, _ANY, _ANY, _ANY, _ANY),
    kinks=("a row that may look nowhere: 0 with gradient 0",),
)


def _packed_reference(
    F: Any, qkv: Any, mask: Any, keep: Any, *, num_heads: Any, causal: Any, scale: Any
) -> Any:
    batch, time, width = qkv.shape
    heads = F.reshape(qkv, (batch, time, 3, num_heads, width // (3 * num_heads)))
    heads = F.transpose(heads, (2, 0, 3, 1, 4))
    q, k, v = (F.getitem(heads, index=i) for i in range(3))
    out = _attention_reference(F, q, k, v, mask, keep, causal=causal, scale=scale)
    return F.reshape(F.transpose(out, (0, 2, 1, 3)), (batch, time, width // 3))


packed_attention = joint(
    "packed_attention", "heads of softmax(q kᵀ/√d) v, side by side",
    forward=kernels.packed_attention, vjp=kernels.packed_attention_vjp,
    reference=_packed_reference, broadcasts=True, domain=(_ANY, _ANY, _ANY),
    kinks=("a row that may look nowhere: 0 with gradient 0",),
)
dropout = linear(
    "dropout", "a where kept, scaled by 1/(1 - p)",
    forward=lambda F, a, keep, *, scale: a * keep * F.asarray(scale, dtype=a.dtype),
    transposes=(lambda F, g, keep, scale: F.dropout(g, keep, scale=scale), None),
    domain=(_ANY, _ANY),
)
