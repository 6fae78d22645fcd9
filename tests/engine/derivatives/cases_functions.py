"""Cases of the functions that go element by element, beyond the basic ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from engine.derivatives.case import Case, one, two

Array = Any


def _softplus(a: Array, beta: float) -> Array:
    return np.log1p(np.exp(beta * a)) / beta


def _elu(a: Array, alpha: float) -> Array:
    return np.where(a > 0, a, alpha * (np.exp(np.minimum(a, 0)) - 1))


def _selu(a: Array) -> Array:
    return 1.0507009873554805 * _elu(a, 1.6732632423543772)


def _sinc(a: Array, order: int) -> Array:
    """By quadrature of πⁿ ∫₀¹ uⁿ cos(πau + nπ/2) du: 80 points are exact to rounding here."""
    u, w = np.polynomial.legendre.leggauss(80)
    u, w = (u + 1) / 2, w / 2
    turned = np.cos(np.pi * np.asarray(a)[..., None] * u + order * np.pi / 2)
    found: Array = np.pi**order * (turned * u**order * w).sum(-1)
    return found


_erfc = np.vectorize(math.erfc, otypes=[float])
_FLAT = {"roundings": 4096.0, "why": "terms cancel where the slope crosses 0 or nears it"}

FUNCTIONS: list[Case] = [
    *[c for name in (
        "tan arcsin arccos arctan sinh cosh arcsinh arccosh arctanh exp2 log2 log10 square "
        "reciprocal cbrt").split() for c in one(name, getattr(np, name))],
    *one("sinc", np.sinc, roundings=1024.0, why="cos and sin/t cancel, and t is πa rounded"),
    *[c for n in (1, 2, 3) for c in one(
        "sinc_derivative", _sinc, params={"order": n}, roundings=4096.0,
        why="the recurrence cancels, and t is πa rounded")],
    *one("erfc", _erfc, roundings=1024.0, why="in the far tail a² is rounded, and then raised"),
    *two("arctan2", np.arctan2), *two("logaddexp", np.logaddexp),
    *two("hypot", np.hypot), *two("xlogy", lambda a, b: a * np.log(b)),
    *[Case(name, lambda d: (d(2, 3), d(2, 3, slot=1)), getattr(np, name))
      for name in ("floor_divide", "remainder")],
    Case("round", lambda d: (d.apart(2, 5),), np.round, {"decimals": 1}),
    *[Case(name, lambda d: (d.apart(2, 5),), getattr(np, name))
      for name in ("floor", "ceil", "trunc")],
    *[c for beta in (1.0, 2.0) for c in one("softplus", _softplus, params={"beta": beta})],
    *one("log_sigmoid", lambda a: -np.log1p(np.exp(-a))),
    *one("silu", lambda a: a / (1 + np.exp(-a)), **_FLAT),
    *one("mish", lambda a: a * np.tanh(np.log1p(np.exp(a))), **_FLAT),
    *[Case(name, lambda d: (d.apart(2, 5),), value, params)
      for name, value, params in (
          ("elu", _elu, {"alpha": 0.7}), ("selu", _selu, {}),
          ("leaky_relu", lambda a, slope: np.where(a > 0, a, slope * a), {"slope": 0.1}),
          ("softsign", lambda a: a / (1 + np.abs(a)), {}))],
]  # fmt: skip
