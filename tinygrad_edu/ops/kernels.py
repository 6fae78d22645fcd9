"""The hand-written kernels behind the fused primitives: raw arrays in, raw arrays out.

What makes them fast is few passes over memory: results are written into arrays that exist, row sums
are matrix-vector products, and the derivative of an activation is made together with its value,
from the same exponential.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from tinygrad_edu import backend

Array = Any


def as_rows(x: Any) -> Any:
    """`x` as a matrix: all axes but the last made one. (-1 is unclear where the last is empty.)"""
    return x if x.ndim == 2 else x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def row_sums(F: Any, x: Array) -> Array:
    """Σ over the last axis, as a matrix-vector product."""
    return F.matmul(x, _ones(F, x.shape[-1], x.dtype))


def column_sums(F: Any, x: Array) -> Array:
    """Σ over all axes but the last, as a vector-matrix product."""
    flat = as_rows(x)
    return F.matmul(_ones(F, flat.shape[0], x.dtype), flat)


def _ones(F: Any, length: int, dtype: Any) -> Array:
    return _numpy_ones(length, dtype) if F is backend.NUMPY else F.ones(length, dtype=dtype)


@functools.lru_cache(64)
def _numpy_ones(length: int, dtype: Any) -> Array:
    ones = np.ones(length, dtype)
    ones.flags.writeable = False
    return ones


def gelu(
    F: Any, x: Array, approximate: str, out: Array | None = None, bias: Array | None = None
) -> tuple[Array, Array]:
    """(gelu(x + bias), its slope there); `out` may be x itself, to be overwritten."""
    if approximate == "none" and x.dtype == np.float32:
        return _gelu_float32(F, x, bias, out)
    if bias is not None:
        x = F.add(x, bias, out=out)
    if approximate == "tanh":
        return _gelu_tanh(F, x, out)
    return _gelu_by_erfc(F, x)


@np.errstate(all="ignore")  # a square may overflow on the way to a right result
def _gelu_by_erfc(F: Any, x: Array) -> tuple[Array, Array]:
    tail = 0.5 * F.erfc(F.absolute(x) * math.sqrt(0.5))
    density = F.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))
    size = F.minimum(F.absolute(x), 1e4)
    rest = tail - size * density
    value = F.maximum(x, 0) - size * tail
    return value.astype(x.dtype), (0.5 + F.copysign(0.5 - rest, x)).astype(x.dtype)


_BLOCK = 65536  # numbers at a time: few calls, and temporaries that stay in a cache of some MiB
_PRODUCT = 262144  # numbers of a matrix product at a time: enough rows for BLAS to be at its best

_ERF_AS_TANH = (
    0.797884941, 0.0363330845, -3.2594939e-05, -5.53062112e-05, 3.96474801e-06, -1.32263658e-07,
    1.7561805e-09,
)  # fmt: skip
"""P with erf(x/√2) ≈ tanh(x·P(x²)): our own minimax fit of degree 6 (Lawson's weighted least
squares on [-6, 6]). Φ = (1 + tanh)/2 is off by 2.9e-8 at most, less than half a rounding step of
float32; as the last coefficient is positive, tanh stays at ±1 beyond the fit."""


def _gelu_float32(F: Any, x: Array, bias: Array | None, out: Array | None) -> tuple[Array, Array]:
    """float32 GELU of x + bias."""
    value = F.empty(x.shape, dtype=x.dtype) if out is None else out
    slope = F.empty(x.shape, dtype=x.dtype)
    rows = _matrix(x)
    _gelu_rows(F, rows, bias, _matrix(value), _matrix(slope), _spare(F, rows))
    return value, slope


def _linear_gelu(F: Any, x: Array, weight: Array, bias: Array | None) -> tuple[Array, Array]:
    """(gelu(x Wᵀ + b), its slope): each part of the product is used while it is in the cache."""
    value = F.empty((x.shape[0], weight.shape[0]), dtype=x.dtype)
    slope = F.empty(value.shape, dtype=x.dtype)
    columns, spare = weight.T, _spare(F, value)
    for rows in _blocks(value, _PRODUCT):
        part = F.matmul(x[rows], columns, out=value[rows])
        _gelu_rows(F, part, bias, part, slope[rows], spare)
    return value, slope


def _gelu_rows(
    F: Any, x: Array, bias: Array | None, value: Array, slope: Array, spare: Array
) -> None:
    """In blocks of whole rows, the bias added while they are at hand."""
    for rows in _blocks(x, _BLOCK):
        part, into = x[rows], value[rows]
        if bias is not None:
            part = F.add(part, bias, out=into)
        _gelu_block(F, part, into, slope[rows], *spare[:, : part.shape[0]])


def _blocks(x: Array, size: int) -> Iterator[slice]:
    """Slices of whole rows, of about `size` numbers."""
    height = max(1, size // max(1, x.shape[1]))
    for start in range(0, x.shape[0], height):
        yield slice(start, start + height)


def _spare(F: Any, x: Array) -> Array:
    """Two arrays to work in, of a block's shape."""
    height = max(1, _BLOCK // max(1, x.shape[1]))
    return F.empty((2, min(height, x.shape[0]), x.shape[1]), dtype=x.dtype)


def _matrix(x: Array) -> Array:
    return as_rows(x) if x.ndim else x.reshape(1, 1)


@np.errstate(all="ignore")  # a square may overflow on the way to a right result
def _gelu_block(F: Any, x: Array, value: Array, slope: Array, square: Array, p: Array) -> None:
    """gelu = x·Φ and gelu' = Φ + x·φ; here `slope` becomes the density φ first, and p is Φ."""
    F.multiply(x, x, out=square)
    e = F.multiply(square, np.float32(-0.5), out=slope)
    F.exp(e, out=e)
    F.multiply(square, np.float32(_ERF_AS_TANH[-1]), out=p)
    for c in _ERF_AS_TANH[-2:0:-1]:
        F.add(p, np.float32(c), out=p)
        F.multiply(p, square, out=p)
    F.add(p, np.float32(_ERF_AS_TANH[0]), out=p)
    F.multiply(p, x, out=p)
    F.tanh(p, out=p)
    F.multiply(p, np.float32(0.5), out=p)
    F.add(p, np.float32(0.5), out=p)
    F.multiply(e, x, out=e)
    F.multiply(e, np.float32(1 / math.sqrt(2 * math.pi)), out=e)
    F.add(e, p, out=e)
    if F is not backend.NUMPY or not math.isfinite(F.vdot(e, e)):
        # Only at ±inf is 0·inf in it (and NaN stays). A GPU repairs unseen rather than wait.
        e[...] = F.where(F.isinf(x), x > 0, e)
        x = F.maximum(x, np.float32(-1e4))
    F.multiply(x, p, out=value)


def _gelu_tanh(F: Any, x: Array, out: Array | None) -> tuple[Array, Array]:
    scale, cubic = math.sqrt(2 / math.pi), 0.044715
    # Beyond 30 the curve is flat to the last bit, and the square would overflow, in half precision.
    bounded = F.clip(x, -30.0, 30.0)
    square = bounded * bounded
    t = F.tanh(bounded * (scale * (1 + cubic * square)))
    half = 0.5 + 0.5 * t
    inner = scale * (1 + (3 * cubic) * square)
    slope = half + 0.5 * bounded * (1 - t * t) * inner
    value = F.multiply(F.maximum(x, -30.0), half, out=out) if out is not None else (
        F.maximum(x, -30.0) * half
    )
    return value, slope


def activate(
    F: Any, x: Array, bias: Array | None, activation: str | None
) -> tuple[Array, Array | None]:
    """(act(x + bias), its slope there), overwriting `x`; the slope is None for no activation."""
    if activation in ("gelu", "gelu_tanh"):
        return gelu(F, x, "none" if activation == "gelu" else "tanh", out=x, bias=bias)
    if bias is not None:
        x += bias
    if activation is None:
        return x, None
    if activation == "relu":
        slope = F.logical_not(x <= 0)  # True at NaN, which goes on
        return F.maximum(x, 0, out=x), slope
    if activation == "tanh":
        F.tanh(x, out=x)
        return x, 1 - x * x
    if activation == "silu":
        return _silu(F, x)
    value = F.sigmoid(x)
    return value, value * F.sigmoid(-x)


@np.errstate(over="ignore")  # e⁻ˣ may be inf on the way to σ = 0
def _silu(F: Any, x: Array) -> tuple[Array, Array]:
    """(x·σ, σ·(1 + x·(1 - σ))), overwriting `x`, from one exponential e = e⁻ˣ.

    σ = 1/(1 + e), and 1 - σ = e·σ, which cancels nothing. At ±inf nothing becomes inf·0.
    """
    e = F.negative(x)
    F.exp(e, out=e)
    sigmoid = 1 / (1 + e)
    slope = F.minimum(e, np.finfo(x.dtype).max, out=e)
    slope *= sigmoid
    slope *= F.clip(x, -1e4, 1e4)
    slope += 1
    slope *= sigmoid
    F.maximum(x, -1e4, out=x)
    return F.multiply(x, sigmoid, out=x), slope


def linear(F: Any, x: Any, weight: Any, bias: Any, residual: Any, *, activation: Any) -> Any:
    """((…, out), slope): one matrix product over all leading axes, then everything in place."""
    rows = as_rows(x)
    if activation == "gelu" and x.dtype == weight.dtype == np.float32:
        y, slope = _linear_gelu(F, rows, weight, bias)
    else:
        y, slope = activate(F, F.matmul(rows, weight.T), bias, activation)
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


def _single(F: Any, *arrays: Any) -> list[Any]:
    """Half precision in float32: sums of what it can hold are beyond it."""
    return [a.astype("float32") if a is not None and a.dtype.itemsize < 4 else a for a in arrays]


def layer_norm(F: Any, x: Any, weight: Any, bias: Any, *, eps: Any) -> Any:
    """(normalised, (mean, 1/σ)); both statistics have a last axis of length 1."""
    if x.dtype.itemsize < 4:
        y, saved = layer_norm(F, *_single(F, x, weight, bias), eps=eps)
        return y.astype(x.dtype), saved
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
    """Gradients of x, weight, bias, from the two statistics alone.

    With c = x - μ and u = g∘w: dw = Σ g∘c/σ, and dx = (u - c·(Σ u∘c)/(σ²n) - (Σ u)/n)/σ.
    """
    mean, scale = saved
    g, x, weight = _single(F, g, x, weight)
    width = x.shape[-1]
    centred = x - mean
    product = g * centred
    dw = F.matmul(scale.reshape(-1), as_rows(product)) if need[1] else None
    db = column_sums(F, g) if need[2] else None
    dx = None
    if need[0]:
        if weight is None:
            dx, along, level = g.copy(), row_sums(F, product), row_sums(F, g)
        else:
            dx, along, level = g * weight, F.matmul(product, weight), F.matmul(g, weight)
        centred *= along[..., None] * (scale * scale / width)
        dx -= centred
        dx -= level[..., None] / width
        dx *= scale
    return dx, dw, db


def rms_norm(F: Any, x: Any, weight: Any, *, eps: Any) -> Any:
    """(normalised, 1/rms); the statistic has a last axis of length 1."""
    if x.dtype.itemsize < 4:
        y, saved = rms_norm(F, *_single(F, x, weight), eps=eps)
        return y.astype(x.dtype), saved
    square = F.einsum("...i,...i->...", x, x)[..., None] / x.shape[-1]
    scale = 1 / F.sqrt(square + eps)
    y = x * scale
    if weight is not None:
        y *= weight
    return y, scale


def rms_norm_vjp(F: Any, need: Any, g: Any, saved: Any, x: Any, weight: Any) -> Any:
    """Gradients of x and weight, from the one statistic.

    With r = 1/rms and u = g∘w: dw = Σ g∘x·r, and dx = (u - x·(Σ u∘x)·r²/n)·r.
    """
    scale = saved
    g, x, weight = _single(F, g, x, weight)
    product = g * x
    dw = F.matmul(scale.reshape(-1), as_rows(product)) if need[1] else None
    dx = None
    if need[0]:
        along = row_sums(F, product) if weight is None else F.matmul(product, weight)
        dx = g.copy() if weight is None else g * weight
        dx -= x * (along[..., None] * (scale * scale / x.shape[-1]))
        dx *= scale
    return dx, dw


def cross_entropy(F: Any, logits: Any, targets: Any, *, ignore_index: Any, reduction: Any) -> Any:
    """(loss, (probabilities (N, V), targets (N,), counted (N,) or None, number of targets)).

    `counted` is None where all are; a GPU does not look, as it would have to wait.
    """
    rows = as_rows(logits)
    safe = targets.reshape(-1)
    counted = safe != ignore_index
    if F is backend.NUMPY and counted.all():
        counted, number = None, safe.size or math.nan
    else:
        safe, number = F.where(counted, safe, 0), counted.sum()
        if F is backend.NUMPY:
            number = number or math.nan  # the mean of nothing
    top = F.max(rows, axis=-1, keepdims=True)
    ill = F is not backend.NUMPY or not math.isfinite(top.sum())
    if ill:
        top = F.where(F.isfinite(top), top, F.zeros_like(top))
    p = rows - top
    chosen = p[F.arange(rows.shape[0]), safe]
    F.exp(p, out=p)
    total = row_sums(F, p)
    if ill:  # a row of -inf alone: loss inf
        total = F.where(total == 0, F.ones_like(total), total)
    (losses,) = _single(F, F.log(total) - chosen)
    if counted is not None:
        losses = F.where(counted, losses, F.zeros_like(losses))
    p /= total[:, None]
    if reduction == "none":
        return losses.reshape(targets.shape).astype(logits.dtype), (p, safe, counted, number)
    loss = losses.sum() if reduction == "sum" else losses.sum() / number
    if loss.dtype is not logits.dtype:
        loss = loss.astype(logits.dtype)
    return loss, (p, safe, counted, number)


def cross_entropy_vjp(F: Any, g: Any, saved: Any, logits_shape: Any, reduction: Any) -> Any:
    """(softmax - one-hot)·g, over the number of targets for a mean; 0 where ignored."""
    p, targets, counted, number = saved
    weight = g.reshape(-1) if counted is None else g.reshape(-1) * counted
    if reduction == "mean":
        weight = weight / number
    weight = weight.astype(p.dtype)
    d = p * weight[:, None]
    d[F.arange(d.shape[0]), targets] -= weight
    if counted is not None:  # an ignored row gets 0 also where its logits are NaN or inf
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
    s = F.matmul(q, F.swapaxes(k, -1, -2))
    s *= np.asarray(scale, dtype=s.dtype)[()]
    small = (mask is None or mask.dtype == bool) and _are_small(F, s)
    if causal:
        s += causal_bias(F, s.shape[-2], s.shape[-1], s.dtype)
    if mask is not None:
        if mask.dtype == bool:
            s = F.where(mask, s, F.full((), -math.inf, dtype=s.dtype))
        else:
            s = s + mask
    if not small:
        top = F.max(s, axis=-1, keepdims=True, initial=-math.inf)
        s -= F.where(top == -math.inf, F.zeros_like(top), top)
    F.exp(s, out=s)
    total = row_sums(F, s)[..., None]
    if mask is not None or (causal and s.shape[-2] > s.shape[-1]):  # a row may see nothing
        total = F.where(total == 0, F.ones_like(total), total)
    s /= total
    return s


def _are_small(F: Any, s: Any) -> bool:
    """Whether no score is beyond ±60, so that its exponential is in range as it stands.

    Two quick passes, where the maximum of each row is the slowest pass of all. (Not asked of a GPU,
    which would have to wait for the answer.)
    """
    if F is not backend.NUMPY or s.dtype.itemsize < 4 or not s.size:
        return False
    return bool(s.max() < 60.0) and bool(s.min() > -60.0)


def causal_bias(F: Any, rows: Any, columns: Any, dtype: Any) -> Any:
    """(rows, columns): 0 where column j may be seen from row i, -inf where it lies ahead."""
    ahead = F.arange(columns)[None, :] > F.arange(rows)[:, None] + (columns - rows)
    return F.where(ahead, F.full((), -math.inf, dtype=dtype), F.zeros((), dtype=dtype))


def attention_backward(
    F: Any, g: Any, saved: Any, q: Any, k: Any, v: Any, shares: Any, keep: Any, scale: Any,
    into: Any, masked: bool,
) -> Any:  # fmt: skip
    """Gradients of q, k, v, and of what a mask added to the scores S if `masked`, else None.

    With A = softmax(S) and O = A v: dS = A ∘ (dA - rowsum(dA ∘ A)), and rowsum(dA ∘ A) equals
    rowsum(dO ∘ O), which needs no T×T pass and is given as `shares` (…, T, 1). With dropout the
    weights that met `v` are A∘keep, and dA is masked the same way. `into` holds three arrays to
    write to, or Nones.
    """
    a = saved
    used = a if keep is None else a * keep
    dv = _product(F, F.swapaxes(used, -1, -2), g, into[2])
    ds = F.matmul(g, F.swapaxes(v, -1, -2))
    if keep is not None:
        ds *= keep
    ds -= shares
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
    shares = F.transpose(row_sums(F, (g * out).reshape(as_heads)), (0, 2, 1))[..., None]
    do = F.transpose(g.reshape(as_heads), (0, 2, 1, 3))
    d = F.empty(qkv.shape, dtype=qkv.dtype)
    into = split_heads(F, d, num_heads)
    *_, added = attention_backward(
        F, do, saved, q, k, v, shares, keep, scale, into, need[1]
    )
    return d, added, None
