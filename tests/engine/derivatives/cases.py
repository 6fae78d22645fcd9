"""For every primitive: how to call it. The generic tests read this beside the registry."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from engine.derivatives.case import Case, one, reduction, two
from engine.derivatives.cases_functions import FUNCTIONS
from engine.derivatives.cases_linear import LINEAR

Array = Any


def _softmax(x: Array, axis: Any) -> Array:
    raised = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return raised / raised.sum(axis=axis, keepdims=True)


def _logsumexp(a: Array, axis: Any, keepdims: bool) -> Array:
    return np.log(np.sum(np.exp(a), axis=axis, keepdims=keepdims))


_erf = np.vectorize(math.erf, otypes=[float])


def _gelu(a: Array, approximate: str) -> Array:
    if approximate == "tanh":
        return a / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (a + 0.044715 * a**3)))
    return a / 2 * (1 + _erf(a / np.sqrt(2)))


_ACT: dict[Any, Callable[[Array], Array]] = {
    None: lambda y: y,
    "relu": lambda y: np.maximum(y, 0),
    "gelu": lambda y: _gelu(y, "none"),
    "gelu_tanh": lambda y: _gelu(y, "tanh"),
    "silu": lambda y: y / (1 + np.exp(-y)),
    "tanh": np.tanh,
    "sigmoid": lambda y: 1 / (1 + np.exp(-y)),
}


def _linear(x: Array, w: Array, b: Array, r: Array, activation: Any) -> Array:
    y = np.einsum("...i,oi->...o", x, w)
    y = _ACT[activation](y if b is None else y + b)
    return y if r is None else y + r


def _layer_norm(x: Array, w: Array, b: Array, eps: float) -> Array:
    y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)
    y = y if w is None else y * w
    return y if b is None else y + b


def _rms_norm(x: Array, w: Array, eps: float) -> Array:
    y = x / np.sqrt((x**2).mean(-1, keepdims=True) + eps)
    return y if w is None else y * w


def _rotary(x: Array, start: int, theta: float, back: bool) -> Array:
    """As complex numbers, each turned by its own angle."""
    half = x.shape[-1] // 2
    points = x[..., :half] + 1j * x[..., half:]
    for t, i in np.ndindex(points.shape[-2:]):
        angle = (start + t) * theta ** (-i / half)
        points[..., t, i] *= np.exp(-1j * angle if back else 1j * angle)
    return np.concatenate([points.real, points.imag], axis=-1)


def _cross_entropy(z: Array, t: Array, ignore_index: int, reduction: str) -> Array:
    losses = np.zeros(t.shape)
    for at in np.ndindex(t.shape):
        if t[at] != ignore_index:
            losses[at] = np.log(np.exp(z[at]).sum()) - z[at][t[at]]
    if reduction == "none":
        return losses
    return losses.sum() / ((t != ignore_index).sum() if reduction == "mean" else 1)


def _attention(
    q: Array, k: Array, v: Array, mask: Array, keep: Array, causal: bool, scale: float
) -> Array:
    s = np.einsum("...id,...jd->...ij", q, k) * scale
    if causal:
        s = np.where(np.tri(*s.shape[-2:], k=s.shape[-1] - s.shape[-2], dtype=bool), s, -np.inf)
    if mask is not None:
        s = np.where(mask, s, -np.inf) if mask.dtype == bool else s + mask
    a = _softmax(s, -1)
    return np.einsum("...ij,...jd->...id", a if keep is None else a * keep, v)


def _packed(
    qkv: Array, mask: Array, keep: Array, num_heads: int, causal: bool, scale: float
) -> Array:
    batch, time, width = qkv.shape
    parts = qkv.reshape(batch, time, 3, num_heads, -1).transpose(2, 0, 3, 1, 4)
    out = _attention(*parts, mask, keep, causal, scale)
    return out.transpose(0, 2, 1, 3).reshape(batch, time, width // 3)


def _scatter(a: Array, index: Any, shape: tuple[int, ...]) -> Array:
    out = np.zeros(shape, a.dtype)
    np.add.at(out, index, a)
    return out


def _rows(g: Array, ids: Array, rows: int, padding_idx: Any) -> Array:
    out = _scatter(g.reshape(-1, g.shape[-1]), ids.reshape(-1), (rows, g.shape[-1]))
    if padding_idx is not None:
        out[padding_idx] = 0
    return out


_NEAR_ONE = {
    "roundings": 4096.0,
    "why": "a probability near 1 is subtracted from 1, inside the operation",
}
_ROW_TAKEN_OUT = {
    "inner": 1.0,
    "why": "each row of dA loses its own mean; in a row of one weight nothing is left but rounding",
}
_COLUMNS = np.array([2, 0, 2, 1])
_INDICES: list[tuple[str, Any]] = [
    ("integer", 1),
    ("negative", -1),
    ("slice", slice(None, None, -2)),
    ("ellipsis", (..., 0)),
    ("new axis", (None, slice(1, None), None)),
    ("repeats", np.array([0, 0, 1])),
    ("list", [1, 1]),
    ("mask", np.array([[True, False, True, True], [False] * 4, [True] * 4])),
    ("row mask", np.array([True, False, True])),
    ("nothing", np.zeros(3, bool)),
    ("pairs", (np.array([0, 0, 2]), np.array([1, 1, 3]))),
    ("mixed", (slice(None), _COLUMNS)),
    ("column", (_COLUMNS[:, None], slice(0, 2))),
]

_ALL: list[Case] = [
    *two("add", np.add), *two("subtract", np.subtract), *two("multiply", np.multiply),
    *two("divide", np.divide), *two("power", np.power),
    *one("negative", np.negative), *one("exp", np.exp), *one("log", np.log),
    *one("log1p", np.log1p), *one("expm1", np.expm1), *one("sqrt", np.sqrt),
    *one("tanh", np.tanh, roundings=4096.0, why="1 - out² near out = 1"),
    *one("sin", np.sin), *one("cos", np.cos),
    *one("sigmoid", lambda a: 1 / (1 + np.exp(-a)), **_NEAR_ONE),
    *one("erf", _erf), *one("identity", lambda a: a), *one("copy", lambda a: a),
    *[c for n in (-1, 0, 0.5, 1, 2, 3) for c in one(
        "power_constant", lambda a, exponent: a**exponent, params={"exponent": n})],
    *[Case(name, lambda d: (d.apart(2, 5),), value) for name, value in (
        ("relu", lambda a: np.maximum(a, 0)), ("abs", np.abs), ("sign", np.sign))],
    *[Case(name, lambda d, s=shapes: d.pair(*s), value, label=str(shapes))
      for name, value in (("maximum", np.maximum), ("minimum", np.minimum))
      for shapes in (((2, 3), (2, 3)), ((3,), (2, 1)), ((), (2,)))],
    *[Case("clip", lambda d: (d.apart(2, 6),), lambda a, low, high: np.clip(a, low, high),
           params={"low": low, "high": high}, label=f"{low} {high}")
      for low, high in ((-1, 1), (None, 1), (-1, None))],
    *[Case("where", lambda d, s=shapes: (d.bools(*s[0]), d(*s[1]), d(*s[2])), np.where,
           label=str(shapes))
      for shapes in (((2, 3), (2, 3), (2, 3)), ((3,), (2, 1), ()), ((2, 3), (), (3,)))],
    *two("absorb", np.multiply),
    *one("cast", lambda a, dtype: a.astype(dtype), params={"dtype": np.dtype(np.float64)}),
    *[c for form in ("none", "tanh") for c in one(
        "gelu", _gelu, params={"approximate": form}, roundings=1024.0,
        why="x·φ(x) and Φ(x) cancel where the slope crosses 0")],
    *reduction("sum", np.sum), *reduction("mean", np.mean),
    *reduction("var", np.var, params={"ddof": 0}),
    *reduction("max", np.max, tied=True), *reduction("min", np.min, tied=True),
    *reduction("logsumexp", _logsumexp),
    Case("var", lambda d: (d(2, 4),), np.var, {"axis": (1,), "keepdims": False, "ddof": 1},
         "ddof 1"),
    *[Case(name, lambda d: (d(2, 3, 2),), value, {"axis": (axis,)}, f"axis {axis}", **_NEAR_ONE)
      for axis in (0, 1, 2) for name, value in (
          ("softmax", _softmax), ("log_softmax", lambda a, axis: np.log(_softmax(a, axis))))],
    *[Case("matmul", lambda d, s=shapes: (d(*s[0]), d(*s[1])), np.matmul, label=str(shapes))
      for shapes in (((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 2)),
                     ((2, 2, 3), (3, 2)), ((2, 2, 3), (2, 3, 1)),
                     ((2, 1, 2, 3), (2, 3, 1)), ((3,), (2, 3, 2)),
                     ((2, 2, 3), (3,)), ((2, 3), (2, 3, 2)), ((0, 3), (3, 2)), ((2, 0), (0, 2)))],
    Case("reshape", lambda d: (d(2, 6),), lambda a, shape: a.reshape(shape), {"shape": (3, -1)}),
    Case("transpose", lambda d: (d(2, 3, 4),), np.transpose, {"axes": (1, 2, 0)}),
    Case("swapaxes", lambda d: (d(2, 3, 4),), lambda a, axis1, axis2: a.swapaxes(axis1, axis2),
         {"axis1": 0, "axis2": 2}),
    *[Case("expand_dims", lambda d: (d(2, 3),), np.expand_dims, {"axis": axis}, str(axis))
      for axis in ((0,), (-1,), (0, 2))],
    Case("squeeze", lambda d: (d(1, 3, 1),), np.squeeze, {"axis": (0, 2)}),
    *[Case("broadcast_to", lambda d, s=shape: (d(*s),), np.broadcast_to, {"shape": to},
           f"{shape} to {to}")
      for shape, to in (((3,), (4, 3)), ((2, 1), (2, 3)), ((), (2, 2)), ((1, 3), (1, 3)),
                        ((1,), (0,)))],
    *[Case("concatenate", lambda d, s=shapes: tuple(d(*n) for n in s),
           lambda *xs, axis: np.concatenate(xs, axis), {"axis": axis}, f"{shapes} at {axis}")
      for shapes, axis in ((((2, 3), (1, 3)), 0), (((2, 3), (2, 1), (2, 0)), -1), (((2,),), 0))],
    *[Case("stack", lambda d: (d(2, 3), d(2, 3)), lambda *xs, axis: np.stack(xs, axis),
           {"axis": axis}, f"axis {axis}") for axis in (0, -1, 1)],
    *[Case("getitem", lambda d: (d(3, 4),), lambda a, index: a[index], {"index": index}, label)
      for label, index in _INDICES],
    *[Case("scatter_add", lambda d, i=index: (d(*np.empty((3, 4))[i].shape),), _scatter,
           {"index": index, "shape": (3, 4)}, label) for label, index in _INDICES],
    *[Case("linear", lambda d, b=bias, r=res, lead=lead: (
        d(*lead, 3) / 2, d(2, 3) / 2, d(2) if b else None, d(*lead, 2) if r else None), _linear,
        {"activation": act}, f"{act} bias={bias} residual={res} {lead}", roundings=4096.0,
        why="the slope of the activation cancels where it is flat")
      for act in _ACT if act != "relu"
      for bias, res, lead in ((True, True, (2, 2)), (False, False, (3,)), (True, False, ()))],
    *[Case("linear", lambda d, b=bias: (
           np.sign(d(2, 3)), d.apart(2, 3), d.apart(2) if b else None, None), _linear,
           {"activation": "relu"}, f"relu bias={bias}") for bias in (True, False)],
    *[Case("layer_norm", lambda d, a=affine: (d(2, 4), *((d(4), d(4)) if a else (None, None))),
           _layer_norm, {"eps": 1e-5}, f"affine={affine}", roundings=1024.0,
           why="the mean and the part along x are taken out") for affine in (True, False)],
    *[Case("rms_norm", lambda d, a=affine: (d(2, 4), d(4) if a else None), _rms_norm,
           {"eps": 1e-5}, f"affine={affine}", roundings=1024.0, why="the part along x is taken out")
      for affine in (True, False)],
    *[Case("rotary", lambda d, s=shape: (d(*s),), _rotary,
           {"start": start, "theta": theta, "back": back}, f"{shape} from {start} back={back}")
      for shape, start, theta, back in (((3, 4), 0, 100.0, False), ((2, 2, 3, 6), 5, 1e4, True),
                                        ((2, 1, 2), 1, 2.0, False))],
    *[Case("cross_entropy", lambda d, lead=lead: (
        d(*lead, 4), np.where(d.bools(*lead) | (np.arange(math.prod(lead)).reshape(lead) == 0),
                              d.ids(4, *lead), -1)),
        _cross_entropy, {"ignore_index": -1, "reduction": how}, f"{how} {lead}", **_NEAR_ONE)
      for how in ("mean", "sum", "none") for lead in ((3,), (2, 2), ())],
    *[Case("embedding", lambda d: (d.ids(4, 2, 3), d(4, 2)),
           lambda ids, w, padding_idx: w[ids], {"padding_idx": None}, "repeats")],
    *[Case("embedding_rows", lambda d: (d(2, 3, 2), d.ids(4, 2, 3)),
           lambda g, ids, **p: _rows(g, ids, **p),
           {"rows": 4, "padding_idx": pad}, f"padding {pad}") for pad in (None, 1)],
    *[Case("attention", lambda d, m=mask, k=keep, lead=lead: (
        d(*lead[0], 3, 2) / 2, d(*lead[1], 4, 2) / 2, d(*lead[1], 4, 3), m and m(d),
        d.keep(3, 4) if k else None),
        _attention, {"causal": causal, "scale": 0.5}, f"{what} causal={causal} keep={keep} {lead}",
        fixed=(4,), **_ROW_TAKEN_OUT)
      for what, mask, causal, keep, lead in (
          ("plain", None, False, False, ((2,), (2,))),
          ("plain", None, True, True, ((), ())),
          ("bool", lambda d: d.bools(3, 4) | (np.arange(4) == 0), False, True, ((), ())),
          ("float", lambda d: d(3, 4), True, False, ((2,), ())))],
    *[Case("packed_attention", lambda d, m=mask, k=keep: (
        d(2, 3, 12) / 2, m and m(d), d.keep(2, 2, 3, 3) if k else None), _packed,
        {"num_heads": 2, "causal": causal, "scale": 0.5}, f"{what} causal={causal} keep={keep}",
        fixed=(2,), **_ROW_TAKEN_OUT)
      for what, mask, causal, keep in (
          ("plain", None, True, False), ("float", lambda d: d(3, 3), False, False),
          ("bool", lambda d: d.bools(3, 3) | np.eye(3, dtype=bool), False, True))],
    Case("dropout", lambda d: (d(2, 3), d.bools(2, 3)), lambda a, keep, scale: a * keep * scale,
         {"scale": 2.0}),
    *FUNCTIONS,
    *LINEAR,
]  # fmt: skip

CASES: dict[str, list[Case]] = {}
for _case in _ALL:
    CASES.setdefault(_case.name, []).append(_case)
EVERY = [case for name in sorted(CASES) for case in CASES[name]]
