"""The public functions of tensors: NumPy's names and meanings, with PyTorch's spellings as aliases.

Each checks and normalises its arguments and applies a primitive. Where nothing is said, `x` is a
tensor, an array or a number, `axis` an int, a tuple or None for all axes (alias `dim`), and
`keepdims` (alias `keepdim`) keeps reduced axes with length 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tinygrad_edu.autograd import origin
from tinygrad_edu.autograd.apply import apply, apply_binary, apply_unary, as_tensor
from tinygrad_edu.autograd.modes import default_generator, state
from tinygrad_edu.autograd.tensor import Tensor, as_array, get_default_dtype, is_floating
from tinygrad_edu.errors import DTypeError, ShapeError
from tinygrad_edu.ops import elementwise as _e
from tinygrad_edu.ops import fused as _f
from tinygrad_edu.ops import indexing as _i
from tinygrad_edu.ops import linalg as _l
from tinygrad_edu.ops import reduction as _r
from tinygrad_edu.ops import shape as _s

Axis = int | Sequence[int] | None


# Elementwise.


def add(a: Any, b: Any) -> Tensor:
    """a + b, broadcast."""
    return apply_binary(_e.add, a, b)


def subtract(a: Any, b: Any) -> Tensor:
    """a - b, broadcast."""
    return apply_binary(_e.subtract, a, b)


def multiply(a: Any, b: Any) -> Tensor:
    """a · b elementwise, broadcast."""
    return apply_binary(_e.multiply, a, b)


def divide(a: Any, b: Any) -> Tensor:
    """a / b, broadcast; integers divide to floats."""
    return apply_binary(_e.divide, a, b)


def negative(a: Any) -> Tensor:
    """-a."""
    return apply_unary(_e.negative, a)


def power(a: Any, b: Any) -> Tensor:
    """a ** b, either or both tracked. 0 ** 0 is 1, with gradient 0."""
    if isinstance(b, (int, float)) and not isinstance(b, bool):
        # NumPy's float64 scalar counts as the Python float it is, as in a * b.
        return apply(_e.power_constant, a, exponent=b if isinstance(b, int) else float(b))
    return apply(_e.power, a, b)


def exp(x: Any) -> Tensor:
    """eˣ."""
    return apply_unary(_e.exp, x)


def log(x: Any) -> Tensor:
    """The natural logarithm."""
    return apply_unary(_e.log, x)


def log1p(x: Any) -> Tensor:
    """ln(1 + x), exact for small x."""
    return apply_unary(_e.log1p, x)


def expm1(x: Any) -> Tensor:
    """eˣ - 1, exact for small x."""
    return apply_unary(_e.expm1, x)


def sqrt(x: Any) -> Tensor:
    """The square root."""
    return apply_unary(_e.sqrt, x)


def tanh(x: Any) -> Tensor:
    """The hyperbolic tangent."""
    return apply_unary(_e.tanh, x)


def sigmoid(x: Any) -> Tensor:
    """1 / (1 + e⁻ˣ), without overflow at any x."""
    return apply_unary(_e.sigmoid, x)


def sin(x: Any) -> Tensor:
    """The sine."""
    return apply_unary(_e.sin, x)


def cos(x: Any) -> Tensor:
    """The cosine."""
    return apply_unary(_e.cos, x)


def erf(x: Any) -> Tensor:
    """The error function; float64 to about 1e-16."""
    return apply_unary(_e.erf, x)


def relu(x: Any) -> Tensor:
    """max(0, x); the gradient at 0 is 0."""
    return apply_unary(_e.relu, x)


def gelu(x: Any, approximate: str = "none") -> Tensor:
    """x·Φ(x), with Φ exact by erf ("none") or by tanh ("tanh"). Hendrycks & Gimpel 2016."""
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu's approximate is 'none' or 'tanh'; got {approximate!r}")
    return apply(_e.gelu, *_one_float(x), approximate=approximate)


def abs(x: Any) -> Tensor:
    """|x|; the gradient at 0 is 0."""
    return apply_unary(_e.absolute, x)


absolute = abs


def sign(x: Any) -> Tensor:
    """-1, 0 or 1; its gradient is 0."""
    return apply_unary(_e.sign, x)


def maximum(a: Any, b: Any) -> Tensor:
    """The larger, elementwise; where they tie each gets half the gradient."""
    return apply_binary(_e.maximum, a, b)


def minimum(a: Any, b: Any) -> Tensor:
    """The smaller, elementwise; where they tie each gets half the gradient."""
    return apply_binary(_e.minimum, a, b)


def clip(x: Any, min: Any = None, max: Any = None) -> Tensor:
    """x held between two bounds; the gradient on a bound is 1.

    A bound that is itself tracked gets its gradient too, by `maximum` and `minimum`, where a tie
    gives each half.
    """
    if any(isinstance(v, Tensor) and v.requires_grad for v in (min, max)):
        out = x if min is None else maximum(x, min)
        return out if max is None else minimum(out, max)
    low, high = (_bound(v) for v in (min, max))
    return apply(_e.clip, x, low=low, high=high)


def _bound(v: Any) -> Any:
    """A bound as a number without a dtype of its own, or as an array that no one else writes to."""
    if isinstance(v, np.generic):
        return v.item()
    v = v._data if isinstance(v, Tensor) else v
    return v.copy() if hasattr(v, "copy") else v


clamp = clip


def where(condition: Any, a: Any, b: Any) -> Tensor:
    """`a` where `condition`, else `b`; the branch not taken gets gradient 0, never NaN."""
    c = np.asarray(condition) if isinstance(condition, (int, float, list, tuple)) else condition
    if c.dtype != bool:
        c = (c._data if isinstance(c, Tensor) else c) != 0
    return apply(_e.where, c, a, b)


def absorb(g: Any, d: Any) -> Tensor:
    """g·d, and 0 where g is exactly 0, even where d is inf or NaN."""
    return apply(_e.absorb, g, d)


def astype(x: Any, dtype: Any) -> Tensor:
    """In another dtype; itself where nothing changes. The gradient comes back in x's dtype.

    Integers and bools have no gradient: the result is then untracked.
    """
    x = as_tensor(x)
    wanted = np.dtype(dtype)
    if not is_floating(wanted):
        return Tensor(x._data.astype(wanted))
    return x if x.dtype == wanted else apply(_e.cast, x, dtype=wanted)


def cast(x: Any, *, dtype: Any) -> Tensor:
    """`astype`, by keyword: the name rules use."""
    return astype(x, dtype)


# Reductions.


def _axes(axis: Axis, dim: Axis, ndim: int, what: str) -> tuple[int, ...] | None:
    """`axis` (or its alias) as a sorted tuple of non-negative ints, or None for all."""
    axis = dim if axis is None else axis
    if axis is None:
        return None
    given = (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
    for i in given:
        if not -ndim <= i < ndim:
            expected = f"expected {-ndim} to {ndim - 1}" if ndim else "one number has no axes"
            raise ShapeError(
                f"{what} was given axis {i} of a tensor with {ndim} axes, at "
                f"{origin.current_line()}; {expected}"
            )
    found = tuple(sorted({int(i) % ndim for i in given}))
    if len(found) != len(given):
        raise ShapeError(f"{what} was given an axis twice: {given}")
    return found


def _one_axis(axis: int, ndim: int, what: str) -> int:
    found = _axes(int(axis), None, ndim, what)
    return found[0] if found else 0


def sum(
    x: Any, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
) -> Tensor:
    """The sum over axes."""
    x = as_tensor(x)
    return apply(_r.sum_, x, axis=_axes(axis, dim, x.ndim, "sum"), keepdims=keepdims or keepdim)


def mean(
    x: Any, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
) -> Tensor:
    """The mean over axes."""
    x = as_tensor(x)
    return apply(_r.mean, x, axis=_axes(axis, dim, x.ndim, "mean"), keepdims=keepdims or keepdim)


def var(
    x: Any,
    axis: Axis = None,
    keepdims: bool = False,
    ddof: int = 0,
    *,
    dim: Axis = None,
    keepdim: bool = False,
) -> Tensor:
    """The variance over axes, divided by n - ddof (NumPy's 0 is the default)."""
    x = as_tensor(x)
    axes = _axes(axis, dim, x.ndim, "var")
    return apply(_r.var, x, axis=axes, keepdims=keepdims or keepdim, ddof=ddof)


def max(
    x: Any, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
) -> Tensor:
    """The largest over axes; ties share the gradient equally."""
    x = as_tensor(x)
    return apply(_r.max_, x, axis=_axes(axis, dim, x.ndim, "max"), keepdims=keepdims or keepdim)


def min(
    x: Any, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
) -> Tensor:
    """The smallest over axes; ties share the gradient equally."""
    x = as_tensor(x)
    return apply(_r.min_, x, axis=_axes(axis, dim, x.ndim, "min"), keepdims=keepdims or keepdim)


def logsumexp(
    x: Any, axis: Axis = None, keepdims: bool = False, *, dim: Axis = None, keepdim: bool = False
) -> Tensor:
    """ln Σ eˣ over axes, without overflow."""
    x = as_tensor(x)
    axes = _axes(axis, dim, x.ndim, "logsumexp")
    return apply(_r.logsumexp, x, axis=axes, keepdims=keepdims or keepdim)


def softmax(x: Any, axis: int = -1, *, dim: int | None = None) -> Tensor:
    """eˣ / Σ eˣ along an axis: positive, summing to 1; a row of -inf alone gives 0."""
    x = as_tensor(x)
    axes = _axes(axis if dim is None else dim, None, x.ndim, "softmax")
    return apply(_r.softmax, x, axis=axes)


def log_softmax(x: Any, axis: int = -1, *, dim: int | None = None) -> Tensor:
    """x - ln Σ eˣ along an axis."""
    x = as_tensor(x)
    axes = _axes(axis if dim is None else dim, None, x.ndim, "log_softmax")
    return apply(_r.log_softmax, x, axis=axes)


# Products.


def matmul(a: Any, b: Any) -> Tensor:
    """The matrix product of any ranks, as `numpy.matmul`: (…, n, k) @ (…, k, m) -> (…, n, m)."""
    return apply_binary(_l.matmul, a, b)


# Shapes.


def _shape_of(given: tuple[Any, ...]) -> tuple[int, ...]:
    if len(given) == 1 and not isinstance(given[0], (int, np.integer)):
        given = tuple(given[0])
    return tuple(int(n) for n in given)


def reshape(x: Any, *shape: Any) -> Tensor:
    """The same numbers in another shape; one length may be -1."""
    return apply(_s.reshape, x, shape=_shape_of(shape))


view = reshape


def flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Axes `start_dim` to `end_dim` made one."""
    x = as_tensor(x)
    if x.ndim == 0:
        return reshape(x, (1,))
    start, end = start_dim % x.ndim, end_dim % x.ndim
    middle = math.prod(x.shape[start : end + 1])
    return reshape(x, (*x.shape[:start], middle, *x.shape[end + 1 :]))


def transpose(x: Any, *axes: Any) -> Tensor:
    """Axes permuted, reversed where none are given. (For two axes: `swapaxes`.)"""
    x = as_tensor(x)
    order = tuple(reversed(range(x.ndim)))
    if axes and axes != (None,):
        order = _shape_of(axes)
        if len(order) != x.ndim or sorted(i % x.ndim for i in order) != list(range(x.ndim)):
            raise ShapeError(
                f"transpose of a tensor with {x.ndim} axes takes each axis once; got {order}"
            )
    return apply(_s.transpose, x, axes=tuple(i % x.ndim for i in order))


permute = transpose


def swapaxes(x: Any, axis1: int, axis2: int) -> Tensor:
    """Two axes swapped."""
    x = as_tensor(x)
    first, second = (_one_axis(i, x.ndim, "swapaxes") for i in (axis1, axis2))
    return apply(_s.swapaxes, x, axis1=first, axis2=second)


def expand_dims(x: Any, axis: int | Sequence[int]) -> Tensor:
    """New axes of length 1 at the places they will have in the result."""
    axes = (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
    return apply(_s.expand_dims, x, axis=axes)


unsqueeze = expand_dims


def squeeze(x: Any, axis: Axis = None, *, dim: Axis = None) -> Tensor:
    """Without axes of length 1: all of them, or those named."""
    x = as_tensor(x)
    axes = _axes(axis, dim, x.ndim, "squeeze")
    if axes is None:
        axes = tuple(i for i, n in enumerate(x.shape) if n == 1)
    return apply(_s.squeeze, x, axis=axes)


def broadcast_to(x: Any, shape: Sequence[int]) -> Tensor:
    """Repeated, without copying, to `shape`."""
    return apply(_s.broadcast_to, x, shape=_shape_of((shape,)))


def concatenate(arrays: Sequence[Any], axis: int = 0, *, dim: int | None = None) -> Tensor:
    """Arrays end to end along an axis that exists."""
    if len(arrays) == 0:
        raise ValueError("concatenate needs at least one tensor; got an empty list")
    return apply(_s.concatenate, *arrays, axis=axis if dim is None else dim)


cat = concatenate


def stack(arrays: Sequence[Any], axis: int = 0, *, dim: int | None = None) -> Tensor:
    """Arrays of one shape along a new axis."""
    if len(arrays) == 0:
        raise ValueError("stack needs at least one tensor; got an empty list")
    return apply(_s.stack, *arrays, axis=axis if dim is None else dim)


def split(x: Any, sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """NumPy's split: `sections` equal parts, or cut before each of the given indices."""
    x = as_tensor(x)
    axis = _one_axis(axis, x.ndim, "split")
    length = x.shape[axis]
    if isinstance(sections, (int, np.integer)):
        if sections < 1 or length % sections:
            raise ShapeError(
                f"split cannot cut axis {axis} of {x.shape} into {sections} equal parts"
            )
        cuts = [length // int(sections) * i for i in range(int(sections) + 1)]
    else:
        cuts = [0, *sections, length]
    before = (slice(None),) * axis
    return [getitem(x, (*before, slice(start, stop))) for start, stop in pairwise(cuts)]


def getitem(x: Any, index: Any) -> Tensor:
    """x[index] in any of NumPy's forms; an element read k times gets the sum of k gradients."""
    return apply(_i.getitem, x, index=_raw_index(index))


def _raw_index(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple([_raw_index(i) for i in index])
    if isinstance(index, Tensor):
        if index.dtype.kind not in "iub":
            raise DTypeError(
                f"an index has to be integer or bool; got a tensor of {index.dtype}: make it with "
                "dtype=int"
            )
        index = index._data
    # A copy, because the gradient reads the index again and the caller may change it before.
    if isinstance(index, list):
        return [_raw_index(i) for i in index]
    return index.copy() if isinstance(index, np.ndarray) else index


def scatter_add(x: Any, index: Any, shape: Sequence[int]) -> Tensor:
    """Zeros of `shape` with x added at `index`: the transpose of `getitem`; repeats add up."""
    return apply(_i.scatter_add, x, index=_raw_index(index), shape=tuple(shape))


# Fused.


def _integers(ids: Any, what: str, limit: int, ignore: int | None = None) -> Tensor:
    """Whole numbers in [0, limit), as a tensor; the error names the first that is not."""
    if isinstance(ids, (list, tuple)) and not ids:
        ids = np.zeros(0, dtype=int)
    found = ids if isinstance(ids, Tensor) else Tensor(
        ids if hasattr(ids, "dtype") else np.asarray(ids)
    )
    data = found._data
    if data.dtype.kind not in "iu":
        raise DTypeError(
            f"{what} have to be integers; got {data.dtype}: make them with dtype=int"
        )
    if data.size and isinstance(data, np.ndarray):
        low, high = data.min(), data.max()
        if low < 0 or high >= limit:
            bad = (data < 0) | (data >= limit)
            if ignore is not None:
                bad &= data != ignore
            if bad.any():
                at = tuple(int(i) for i in np.argwhere(bad)[0])
                raise IndexError(
                    f"{what} have to be from 0 to {limit - 1}; got {int(data[at])} at position {at}"
                )
    return found


def embedding(ids: Any, weight: Any, padding_idx: int | None = None) -> Tensor:
    """Rows of a table: ids (…), weight (V, C) -> (…, C). The padding row gets no gradient.

    Raises:
        IndexError: an id outside [0, V).
    """
    weight = as_tensor(weight)
    if weight.ndim != 2:
        raise ShapeError(f"embedding needs a table of shape (V, C); got {weight.shape}")
    ids = _integers(ids, "embedding ids", weight.shape[0])
    if padding_idx is not None:
        if not -weight.shape[0] <= padding_idx < weight.shape[0]:
            raise IndexError(
                f"padding_idx has to be from {-weight.shape[0]} to {weight.shape[0] - 1}; got "
                f"{padding_idx}"
            )
        padding_idx %= weight.shape[0]
    return apply(_f.embedding, ids, weight, padding_idx=padding_idx)


def _one_float(*xs: Any) -> list[Any]:
    """Tensors (or None) in the one floating dtype they promote to, as unfused operations would
    be.
    """
    given = [x if x is None else as_tensor(x) for x in xs]
    dtypes = {x.dtype for x in given if x is not None}
    if len(dtypes) == 1 and is_floating(next(iter(dtypes))):
        return given
    wanted = np.result_type(*dtypes)
    wanted = wanted if is_floating(wanted) else get_default_dtype()
    return [x if x is None else astype(x, wanted) for x in given]


_ACTIVATIONS = (None, "relu", "gelu", "gelu_tanh", "tanh", "sigmoid")


def linear(
    x: Any, weight: Any, bias: Any = None, activation: str | None = None, residual: Any = None
) -> Tensor:
    """act(x Wᵀ + b) + r: x (…, in), weight (out, in), bias (out), residual (…, out) -> (…, out)."""
    x, weight, bias, residual = _one_float(x, weight, bias, residual)
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
    x, weight, bias = _one_float(x, weight, bias)
    for what, given in (("weight", weight), ("bias", bias)):
        if given is not None and tuple(given.shape) != x.shape[-1:]:
            raise ShapeError(
                f"layer_norm's {what} has shape {given.shape}; expected {x.shape[-1:]}"
            )
    return apply(_f.layer_norm, x, weight, bias, eps=eps)


def cross_entropy(
    logits: Any, targets: Any, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """-ln softmax(logits)[target] in nats: logits (…, V), targets (…) of integers.

    "mean" averages over the targets that are not `ignore_index`, "sum" adds, "none" keeps them.

    Raises:
        IndexError: a target outside [0, V) that is not `ignore_index`.
        ValueError: a mean over no target at all.
    """
    (logits,) = _one_float(logits)
    if logits.ndim == 0:
        raise ShapeError("cross_entropy needs logits of shape (…, V); got one number")
    targets = _integers(targets, "targets", logits.shape[-1], ignore_index)
    if targets.shape != logits.shape[:-1]:
        raise ShapeError(
            f"cross_entropy was given logits {logits.shape} and targets {targets.shape}; targets "
            f"have to be {logits.shape[:-1]}, one a row of logits"
        )
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"cross_entropy's reduction is 'mean', 'sum' or 'none'; got {reduction!r}")
    if reduction == "mean" and not (targets._data != ignore_index).any():
        raise ValueError(
            "cross_entropy has no target to average over: "
            + ("the batch is empty" if not targets.size else f"all are {ignore_index}, to ignore")
        )
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
        return [*_one_float(*xs), None]
    mask = as_tensor(np.asarray(mask) if isinstance(mask, (list, tuple)) else mask)
    if mask.dtype == bool:
        return [*_one_float(*xs), mask]
    if not is_floating(mask.dtype):
        raise DTypeError(
            f"an attention mask is bool (True may be seen) or floating (added to the scores); got "
            f"{mask.dtype}: make it bool with mask != 0"
        )
    return _one_float(*xs, mask)


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


# Making tensors like others, and comparing; nothing here is tracked.


def zeros_like(x: Any, dtype: Any = None) -> Tensor:
    """Zeros in the shape, dtype and library of x."""
    x = as_tensor(x)
    return Tensor(x._namespace.zeros_like(x._data, dtype=dtype))


def ones_like(x: Any, dtype: Any = None) -> Tensor:
    """Ones in the shape, dtype and library of x."""
    x = as_tensor(x)
    return Tensor(x._namespace.ones_like(x._data, dtype=dtype))


def full_like(x: Any, value: float, dtype: Any = None) -> Tensor:
    """`value` everywhere, in the shape, dtype and library of x."""
    x = as_tensor(x)
    return Tensor(x._namespace.full_like(x._data, value, dtype=dtype))


def compare(name: str, a: Any, b: Any) -> Tensor:
    """`numpy.<name>(a, b)` (less, equal, …) as an untracked bool tensor."""
    left, right = (v._data if isinstance(v, Tensor) else v for v in (a, b))
    F = as_tensor(a)._namespace
    if not isinstance(right, (int, float)):
        right = as_array(right)
    return Tensor(F.asarray(getattr(F, name)(left, right)))


def equal(a: Any, b: Any) -> Tensor:
    """Where two tensors agree, elementwise; untracked."""
    return compare("equal", a, b)


def logical_not(a: Any) -> Tensor:
    """Where `a` is false or 0; untracked."""
    a = as_tensor(a)
    return Tensor(a._namespace.logical_not(a._data))


def is_fused() -> bool:
    """Whether fused operations run as kernels (see `unfused`)."""
    return state.fused
