"""The hand-written kernels behind the fused primitives: raw arrays in, raw arrays out.

What makes them fast is few passes over memory: results are written into arrays that exist, row sums
are matrix-vector products, and the derivative of an activation is made together with its value,
from the same exponential.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_edu import backend

Array = Any


def as_rows(x: Any) -> Any:
    """`x` as a matrix: all axes but the last made one. (-1 is unclear where the last is empty.)"""
    return x if x.ndim == 2 else x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def row_sums(F: Any, x: Array) -> Array:
    """Σ over the last axis, as a matrix-vector product."""
    return F.matmul(x, F.ones(x.shape[-1], dtype=x.dtype))


def column_sums(F: Any, x: Array) -> Array:
    """Σ over all axes but the last, as a vector-matrix product."""
    flat = as_rows(x)
    return F.matmul(F.ones(flat.shape[0], dtype=x.dtype), flat)


def gelu(F: Any, x: Array, approximate: str, out: Array | None = None) -> tuple[Array, Array]:
    """(gelu(x), gelu'(x)); `out` may be x itself, to be overwritten with the value."""
    if approximate == "tanh":
        return _gelu_tanh(F, x, out)
    if x.dtype == np.float32:
        return _gelu_float32(F, x, out)
    tail = 0.5 * F.erfc(F.absolute(x) * math.sqrt(0.5))
    density = F.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))
    size = F.minimum(F.absolute(x), 1e4)
    rest = tail - size * density
    value = F.maximum(x, 0) - size * tail
    return value.astype(x.dtype), (0.5 + F.copysign(0.5 - rest, x)).astype(x.dtype)


_BLOCK = 131072  # float32 numbers whose temporaries stay in a core's second-level cache


def _gelu_float32(F: Any, x: Array, out: Array | None) -> tuple[Array, Array]:
    """float32 GELU, in blocks; |x| is bounded at 1e4, where the curve is flat, so ±inf is right."""
    value = F.empty(x.shape, dtype=x.dtype) if out is None else out
    slope = F.empty(x.shape, dtype=x.dtype)
    flat, values, slopes = x.reshape(-1), value.reshape(-1), slope.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        _gelu_block(F, flat[block], values[block], slopes[block])
    return value, slope


def _gelu_block(F: Any, x: Array, value: Array, slope: Array) -> None:
    """Φ by Abramowitz & Stegun 7.1.26 (|error of erf| <= 1.5e-7), whose exp(-x²/2) is the
    density's.

    Here e becomes the density φ(x), q the tail Φ(-|x|), then Φ(x); gelu = x·Φ, gelu' = Φ + x·φ.
    """
    size = F.absolute(x)
    F.minimum(size, np.float32(1e4), out=size)
    e = F.multiply(size, size, out=slope)
    F.multiply(e, np.float32(-0.5), out=e)
    F.exp(e, out=e)
    F.multiply(e, np.float32(1 / math.sqrt(2 * math.pi)), out=e)
    t = F.multiply(size, np.float32(0.3275911 * math.sqrt(0.5)))
    F.add(t, np.float32(1), out=t)
    F.reciprocal(t, out=t)
    scale = 0.5 * math.sqrt(2 * math.pi)
    q = F.multiply(t, np.float32(scale * 1.061405429))
    for c in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        F.add(q, np.float32(scale * c), out=q)
        F.multiply(q, t, out=q)
    F.multiply(q, e, out=q)
    F.multiply(e, size, out=e)
    F.subtract(q, e, out=e)  # Φ(-|x|) - |x|·φ: the slope on the negative side
    F.subtract(np.float32(0.5), e, out=e)
    F.copysign(e, x, out=e)
    F.add(e, np.float32(0.5), out=e)
    F.multiply(q, size, out=q)
    F.maximum(x, np.float32(0), out=value)
    F.subtract(value, q, out=value)


def _gelu_tanh(F: Any, x: Array, out: Array | None) -> tuple[Array, Array]:
    scale, cubic = math.sqrt(2 / math.pi), 0.044715
    # Beyond 1e4 the curve is flat to the last bit, and the square would overflow.
    bounded = F.clip(x, -1e4, 1e4)
    square = bounded * bounded
    t = F.tanh(bounded * (scale * (1 + cubic * square)))
    half = 0.5 + 0.5 * t
    inner = scale * (1 + (3 * cubic) * square)
    slope = half + 0.5 * bounded * (1 - t * t) * inner
    value = F.multiply(F.maximum(x, -1e4), half, out=out) if out is not None else (
        F.maximum(x, -1e4) * half
    )
    return value, slope


def activate(F: Any, x: Array, activation: str | None) -> tuple[Array, Array | None]:
    """(act(x), act'(x)), overwriting `x`; the slope is None for no activation."""
    if activation is None:
        return x, None
    if activation == "gelu":
        return gelu(F, x, "none", out=x)
    if activation == "gelu_tanh":
        return gelu(F, x, "tanh", out=x)
    if activation == "relu":
        slope = F.logical_not(x <= 0)  # True at NaN, which goes on
        return F.maximum(x, 0, out=x), slope
    if activation == "tanh":
        F.tanh(x, out=x)
        return x, 1 - x * x
    value = F.sigmoid(x)
    return value, value * (1 - value)


def linear(F: Any, x: Any, weight: Any, bias: Any, residual: Any, *, activation: Any) -> Any:
    """((…, out), slope): one matrix product over all leading axes, then everything in place."""
    rows = as_rows(x)
    y = F.matmul(rows, weight.T)
    if bias is not None:
        y += bias
    y, slope = activate(F, y, activation)
    y = y.reshape(*x.shape[:-1], weight.shape[0])
    if residual is not None:
        y += residual
    return y, slope


def linear_vjp(F: Any, need: Any, g: Any, saved: Any, x: Any, weight: Any) -> Any:
    """Gradients of x, weight, bias, residual; `saved` is the slope of the activation."""
    residual = g if need[3] else None
    rows = as_rows(g)
    if saved is not None:
        rows = rows * saved
    dx = F.matmul(rows, weight).reshape(x.shape) if need[0] else None
    dw = F.matmul(rows.T, as_rows(x)) if need[1] else None
    return dx, dw, column_sums(F, rows) if need[2] else None, residual


def layer_norm(F: Any, x: Any, weight: Any, bias: Any, *, eps: Any) -> Any:
    """(normalised, (mean, 1/σ)); both statistics have a last axis of length 1."""
    width = x.shape[-1]
    mean = (row_sums(F, x) / width)[..., None]
    y = x - mean
    variance = F.einsum("...i,...i->...", y, y)[..., None] / width
    scale = 1 / F.sqrt(variance + eps)
    y *= scale
    if weight is not None:
        y *= weight
    if bias is not None:
        y += bias
    return y, (mean, scale)


def layer_norm_vjp(F: Any, need: Any, g: Any, saved: Any, x: Any, weight: Any) -> Any:
    """Gradients of x, weight, bias, from the two statistics alone."""
    mean, scale = saved
    width = x.shape[-1]
    normal = x - mean
    normal *= scale
    product = g * normal
    dw = column_sums(F, product) if need[1] else None
    db = column_sums(F, g) if need[2] else None
    dx = None
    if need[0]:
        if weight is None:
            upstream, along = g, row_sums(F, product)[..., None]
            level = row_sums(F, g)[..., None]
        else:
            upstream = g * weight
            along = F.matmul(product, weight)[..., None]
            level = F.matmul(g, weight)[..., None]
        normal *= along / -width
        normal += upstream
        normal -= level / width
        normal *= scale
        dx = normal
    return dx, dw, db


def cross_entropy(F: Any, logits: Any, targets: Any, *, ignore_index: Any, reduction: Any) -> Any:
    """(loss, (probabilities (N, V), targets (N,), counted (N,), number of targets))."""
    rows = as_rows(logits)
    wanted = targets.reshape(-1)
    counted = wanted != ignore_index
    safe = F.where(counted, wanted, 0)
    everyone = F.arange(rows.shape[0])
    top = F.max(rows, axis=-1, keepdims=True)
    p = rows - F.where(F.isfinite(top), top, F.zeros_like(top))
    chosen = p[everyone, safe]
    F.exp(p, out=p)
    total = row_sums(F, p)
    total = F.where(total == 0, F.ones_like(total), total)  # a row of -inf alone: loss inf
    losses = F.where(counted, F.log(total) - chosen, F.zeros_like(chosen))
    p /= total[:, None]
    number = counted.sum()
    if reduction == "none":
        return losses.reshape(targets.shape), (p, safe, counted, number)
    loss = losses.sum() if reduction == "sum" else losses.sum() / number
    return loss.astype(logits.dtype), (p, safe, counted, number)


def cross_entropy_vjp(F: Any, g: Any, saved: Any, logits_shape: Any, reduction: Any) -> Any:
    """(softmax - one-hot)·g, over the number of targets for a mean; 0 where ignored."""
    p, targets, counted, number = saved
    weight = g.reshape(-1) * counted
    if reduction == "mean":
        weight = weight / number
    weight = weight.astype(p.dtype)
    d = p * weight[:, None]
    d[F.arange(d.shape[0]), targets] -= weight
    # An ignored row gets 0 also where its logits are NaN or inf.
    d = F.where(counted[:, None], d, F.zeros_like(d))
    return d.reshape(logits_shape), None


def scatter_rows(F: Any, ids: Any, g: Any, rows: Any) -> Any:
    """(rows, C): row i is the sum of the rows of `g` whose id is i."""
    ids = ids.reshape(-1)
    g = as_rows(g)
    total = F.zeros((rows, g.shape[-1]), dtype=g.dtype)
    if ids.size == 0:
        return total
    if rows <= 512:
        # For a small table a product with the one-hot matrix is faster than any scatter.
        hot = F.zeros((ids.size, rows), dtype=g.dtype)
        hot[F.arange(ids.size), ids] = 1
        total = F.matmul(hot.T, g)
        if F.isfinite(F.vdot(total, total)):
            return total
        total = F.zeros_like(total)  # 0 · inf would carry one row's inf into all others
    F.add.at(total, ids, g)
    return total


def scores(F: Any, q: Any, k: Any, mask: Any, causal: Any, scale: Any) -> Any:
    """Softmax of scaled q·kᵀ over what may be seen; a row that may see nothing is all 0."""
    hides = causal or mask is not None
    s = F.matmul(q * np.asarray(scale, dtype=q.dtype)[()], F.swapaxes(k, -1, -2))
    if causal:
        s += causal_bias(F, s.shape[-2], s.shape[-1], s.dtype)
    if mask is not None:
        if mask.dtype == bool:
            s = F.where(mask, s, F.full((), -math.inf, dtype=s.dtype))
        else:
            s = s + mask
    if (mask is not None and mask.dtype != bool) or not _are_small(F, q, k, scale):
        top = F.max(s, axis=-1, keepdims=True, initial=-math.inf)
        s -= F.where(top == -math.inf, F.zeros_like(top), top)
    F.exp(s, out=s)
    total = row_sums(F, s)[..., None]
    s /= F.where(total == 0, F.ones_like(total), total) if hides else total
    return s


def _are_small(F: Any, q: Any, k: Any, scale: Any) -> bool:
    """Whether no score can be beyond ±60, so that its exponential is in range as it stands.

    By Cauchy-Schwarz, from the longest q and k: two short passes, where the maximum of each row of
    scores is the slowest pass of all. (Not asked of a GPU, which would have to wait for the
    answer.)
    """
    if F is not backend.NUMPY or q.dtype.itemsize < 4 or not q.size or not k.size:
        return False
    longest = [F.einsum("...i,...i->...", x, x).max() for x in (q, k)]
    return bool(longest[0] * longest[1] * (scale * scale) < 60.0**2)


def causal_bias(F: Any, rows: Any, columns: Any, dtype: Any) -> Any:
    """(rows, columns): 0 where column j may be seen from row i, -inf where it lies ahead."""
    ahead = F.arange(columns)[None, :] > F.arange(rows)[:, None] + (columns - rows)
    return F.where(ahead, F.full((), -math.inf, dtype=dtype), F.zeros((), dtype=dtype))


def attention_backward(
    F: Any, g: Any, saved: Any, q: Any, k: Any, v: Any, o: Any, keep: Any, scale: Any, into: Any,
    masked: bool,
) -> Any:  # fmt: skip
    """Gradients of q, k, v, and of what a mask added to the scores S if `masked`, else None.

    With A = softmax(S) and O = A v: dS = A ∘ (dA - rowsum(dA ∘ A)), and rowsum(dA ∘ A) equals
    rowsum(dO ∘ O), which needs no T×T pass. With dropout the weights that met `v` are A∘keep, and
    dA is masked the same way. `into` holds three arrays to write to, or Nones.
    """
    a = saved
    used = a if keep is None else a * keep
    dv = _product(F, F.swapaxes(used, -1, -2), g, into[2])
    ds = F.matmul(g, F.swapaxes(v, -1, -2))
    if keep is not None:
        ds *= keep
    ds -= row_sums(F, g * o)[..., None]
    ds *= a
    added = ds.copy() if masked else None
    ds *= scale
    dq = _product(F, ds, k, into[0])
    dk = _product(F, F.swapaxes(ds, -1, -2), q, into[1])
    return dq, dk, dv, added


def _product(F: Any, a: Any, b: Any, out: Any) -> Any:
    return F.matmul(a, b) if out is None else F.matmul(a, b, out=out)


def split_heads(F: Any, qkv: Any, num_heads: Any) -> Any:
    """Three views (B, heads, T, C/heads) of a packed (B, T, 3C) array."""
    batch, time, width = qkv.shape
    parts = qkv.reshape(batch, time, 3, num_heads, width // (3 * num_heads))
    parts = F.transpose(parts, (2, 0, 3, 1, 4))
    return parts[0], parts[1], parts[2]


def packed_attention(
    F: Any, qkv: Any, mask: Any, keep: Any, *, num_heads: Any, causal: Any, scale: Any
) -> Any:
    """((B, T, C), weights (B, heads, T, T)): heads are strided views, nothing is copied."""
    q, k, v = split_heads(F, qkv, num_heads)
    a = scores(F, q, k, mask, causal, scale)
    out = F.empty((qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3), dtype=qkv.dtype)
    as_heads = (*out.shape[:2], num_heads, out.shape[2] // num_heads)
    heads = F.transpose(out.reshape(as_heads), (0, 2, 1, 3))
    F.matmul(a if keep is None else a * keep, v, out=heads)
    return out, a


def packed_attention_vjp(
    F: Any, need: Any, g: Any, saved: Any, out: Any, qkv: Any, keep: Any, num_heads: Any, scale: Any
) -> Any:
    """The gradient of the packed array, each third written in place, and of an added mask."""
    q, k, v = split_heads(F, qkv, num_heads)
    batch, time, width = out.shape
    as_heads = (batch, time, num_heads, width // num_heads)
    o = F.transpose(out.reshape(as_heads), (0, 2, 1, 3))
    do = F.transpose(g.reshape(as_heads), (0, 2, 1, 3))
    d = F.empty(qkv.shape, dtype=qkv.dtype)
    into = split_heads(F, d, num_heads)
    *_, added = attention_backward(F, do, saved, q, k, v, o, keep, scale, into, need[1])
    return d, added, None
