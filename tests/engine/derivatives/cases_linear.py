"""Cases of movement, running totals, products, contractions and decompositions."""

from __future__ import annotations

from typing import Any

import numpy as np
from engine.derivatives.case import Case, Draw, reduction

Array = Any

_CONDITION = {
    "roundings": 2.0**20, "inner": 1.0,
    "why": "errors grow with the condition and with the gaps between eigenvalues",
}  # fmt: skip


def _set_at(a: Array, b: Array, index: Any, winners: Any) -> Array:
    out = a.copy()
    out[index] = b
    return out


def _pad(a: Array, width: Any) -> Array:
    return np.pad(a, width)


def _windows(a: Array, size: Any, step: Any, dilation: Any) -> Array:
    spans = tuple(d * (k - 1) + 1 for k, d in zip(size, dilation, strict=True))
    axes = tuple(range(-len(size), 0))
    found = np.lib.stride_tricks.sliding_window_view(a, spans, axes)
    keep = (*(slice(None, None, s) for s in step), *(slice(None, None, d) for d in dilation))
    return found[(..., *keep)]


def _joined(a: Array, lengths: Any, **how: Any) -> Array:
    places = _windows(np.arange(np.prod(lengths)).reshape(lengths), **how)
    lead = a.shape[: a.ndim - places.ndim]
    out = np.zeros((int(np.prod(lead)), int(np.prod(lengths))))
    for row, part in zip(out, a.reshape(len(out), -1), strict=True):
        np.add.at(row, places.reshape(-1), part)
    return out.reshape(*lead, *lengths)


def _norm(a: Array, axis: Any, keepdims: bool, p: float) -> Array:
    return (np.abs(a) ** p).sum(axis=axis, keepdims=keepdims) ** (1 / p)


def _cofactors(a: Array) -> Array:
    found = np.empty_like(a)
    for at in np.ndindex(a.shape):
        minor = np.delete(np.delete(a[at[:-2]], at[-2], 0), at[-1], 1)
        found[at] = (-1) ** (at[-2] + at[-1]) * np.linalg.det(minor)
    return found


def _square(*shape: int) -> Any:
    """Matrices far from singular, whose eigenvalues and singular values lie apart."""

    def build(d: Draw) -> tuple[Array]:
        n = shape[-1]
        m = np.diag(np.arange(1.0, n + 1)) + d(*shape[:-2], n, n) / 16
        return (m[..., : shape[-2], :],)

    return build


def _spd(*shape: int) -> Any:
    def build(d: Draw) -> tuple[Array]:
        (m,) = _square(*shape)(d)
        return (m @ np.swapaxes(m, -1, -2) + np.eye(shape[-1]),)

    return build


def _tall(d: Draw) -> tuple[Array]:
    (m,) = _square(3, 3)(d)
    return (np.concatenate([m, d(1, 3) / 4]),)


def _symmetric(a: Array) -> Array:
    return (a + np.swapaxes(a, -1, -2)) / 2


def _eigh(a: Array) -> Array:
    w, v = np.linalg.eigh(_symmetric(a))
    return np.concatenate([w[..., None, :], v], axis=-2)


def _svd(a: Array) -> Array:
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    lead = a.shape[:-2]
    return np.concatenate([u.reshape(*lead, -1), s, vh.reshape(*lead, -1)], axis=-1)


def _qr(a: Array) -> Array:
    q, r = np.linalg.qr(a)
    lead = a.shape[:-2]
    return np.concatenate([q.reshape(*lead, -1), r.reshape(*lead, -1)], axis=-1)


_TWICE = np.array([0, 0, 2])

LINEAR: list[Case] = [
    *[Case("flip", lambda d: (d(2, 3, 2),), np.flip, {"axis": axis}, str(axis))
      for axis in (None, (1,), (0, 2))],
    *[Case("roll", lambda d: (d(2, 3, 2),), lambda a, shift, axis: np.roll(a, shift, axis),
           {"shift": shift, "axis": axis}, f"{shift} {axis}")
      for shift, axis in ((2, None), (-1, 1), ((1, -2), (0, 1)))],
    Case("pad", lambda d: (d(2, 3),), _pad, {"width": ((1, 0), (2, 3))}),
    *[Case("set_at", lambda d, s=shape: (d(3, 4), d(*s)), _set_at,
           {"index": index, "winners": winners}, label)
      for label, index, shape, winners in (
          ("one", (1, 2), (), None), ("row", 1, (4,), None), ("number in a row", 1, (), None),
          ("mask", np.eye(3, 4, dtype=bool), (3,), None),
          ("broadcast", (slice(None), _TWICE[1:]), (3, 1), None),
          ("last wins", _TWICE, (3, 4), np.array([[False] * 4, [True] * 4, [True] * 4])))],
    *[Case("windows", lambda d, s=s: (d(*s),), _windows, how, f"{s} {how}")
      for s, how in (
          ((2, 5), {"size": (3,), "step": (1,), "dilation": (1,)}),
          ((2, 6, 5), {"size": (2, 2), "step": (2, 1), "dilation": (1, 3)}),
          ((4,), {"size": (4,), "step": (3,), "dilation": (1,)}))],
    *[Case("joined_windows", lambda d, s=s: (d(*s),), _joined, how, f"{s} {how}")
      for s, how in (
          ((2, 3, 3), {"lengths": (5,), "size": (3,), "step": (1,), "dilation": (1,)}),
          ((3, 2, 2, 2), {"lengths": (6, 5), "size": (2, 2), "step": (2, 1), "dilation": (1, 3)}))],
    *[Case(name, lambda d: (d(2, 4, 2),), value, {"axis": axis}, f"axis {axis}")
      for name, value in (("cumsum", np.cumsum), ("cumprod", np.cumprod)) for axis in (0, 1, 2)],
    Case("cumprod", lambda d: (d(3) * [1, 0, 1],), np.cumprod, {"axis": 0}, "a zero"),
    Case("cumprod", lambda d: (d(0, 2),), np.cumprod, {"axis": 0}, "empty"),
    *reduction("prod", np.prod),
    Case("prod", lambda d: (d(2, 5) * [1, 0, 1, 1, 1],), np.prod,
         {"axis": (1,), "keepdims": False}, "zeros"),
    *[c for c in reduction("std", np.std, params={"ddof": 0}, roundings=1024.0,
                           why="the mean is taken out") if c.params["axis"] != (0,)
      and "of ()" not in c.label],
    Case("std", lambda d: (d(2, 4),), np.std, {"axis": (1,), "keepdims": False, "ddof": 1},
         "ddof 1", roundings=1024.0, why="the mean is taken out"),
    *[c for p in (1.0, 1.5, 2.0, 3.0, -1.0) for c in reduction(
        "norm", _norm, tied=True, params={"p": p}, roundings=1024.0,
        why="a power of a quotient")],
    *[Case("einsum", lambda d, s=shapes: tuple(d(*n) for n in s),
           lambda *xs, subscripts: np.einsum(subscripts, *xs), {"subscripts": spec}, spec)
      for spec, shapes in (
          ("ij,jk->ik", ((2, 3), (3, 2))), ("i,j->ij", ((2,), (3,))), ("i,i->", ((3,), (3,))),
          ("bij,bjk->kib", ((2, 2, 3), (2, 3, 1))),
          ("ij,jk,kl->il", ((2, 3), (3, 2), (2, 2))), ("a,a,a->a", ((3,), (3,), (3,))),
          ("i,i->i", ((0,), (0,))), (",->", ((), ())))],
    *[Case("inv", _square(*s), np.linalg.inv, label=str(s), **_CONDITION)
      for s in ((3, 3), (2, 2, 2), (1, 1), (0, 2, 2))],
    *[Case("solve", lambda d, s=s, k=k: (*_square(*s)(d), d(*k)), np.linalg.solve,
           label=f"{s} {k}", **_CONDITION)
      for s, k in (((3, 3), (3, 2)), ((2, 2, 2), (2, 2, 1)), ((2, 2), (3, 2, 1)),
                   ((2, 2, 2), (2, 1)))],
    *[Case("det", _square(*s), np.linalg.det, label=str(s), **_CONDITION)
      for s in ((3, 3), (2, 2, 2), (1, 1))],
    *[Case("cofactors", _square(*s), _cofactors, label=str(s), **_CONDITION)
      for s in ((3, 3), (2, 3, 3))],
    *[Case("logabsdet", _square(*s), lambda a: np.log(np.abs(np.linalg.det(a))), label=str(s),
           **_CONDITION) for s in ((3, 3), (2, 2, 2))],
    *[Case("cholesky", _spd(*s), lambda a: np.linalg.cholesky(_symmetric(a)), label=str(s),
           **_CONDITION) for s in ((3, 3), (2, 2, 2), (1, 1))],
    *[Case("eigh", _spd(*s), _eigh, label=str(s), **_CONDITION) for s in ((3, 3), (2, 2, 2))],
    *[Case("svd", build, _svd, label=label, **_CONDITION)
      for label, build in (("square", _square(3, 3)), ("tall", _tall), ("wide", _square(2, 3)),
                           ("stack", _square(2, 2, 2)))],
    *[Case("qr", build, _qr, label=label, **_CONDITION)
      for label, build in (
          ("square", _square(3, 3)), ("tall", _tall), ("stack", _square(2, 2, 2)))],
]  # fmt: skip
