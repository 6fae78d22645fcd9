"""Matrix products, of any ranks."""

from __future__ import annotations

import math
from typing import Any

from tinygrad_edu.ops.registry import linear

Array = Any
_ANY = (-4.0, 4.0)


def _matmul_to_a(F: Any, g: Any, b: Any, a_shape: Any) -> Any:
    if b.ndim == 1:
        return g * b if len(a_shape) == 1 else F.expand_dims(g, -1) * b
    if len(a_shape) == 1:
        g = F.expand_dims(g, -2)
    spread = F.matmul(g, F.swapaxes(b, -1, -2))
    return F.sum(spread, axis=tuple(range(spread.ndim - 1))) if len(a_shape) == 1 else spread


def _matmul_to_b(F: Any, g: Any, a: Any, b_shape: Any) -> Any:
    if a.ndim == 1:
        return g * a if len(b_shape) == 1 else F.expand_dims(a, -1) * F.expand_dims(g, -2)
    if len(b_shape) == 1:
        spread = F.expand_dims(g, -1) * a
        return F.sum(spread, axis=tuple(range(spread.ndim - 1)))
    if len(b_shape) == 2 and a.ndim > 2:
        # One product over all leading axes at once, instead of a batch of them summed afterwards.
        rows = math.prod(a.shape[:-1])
        a = F.reshape(a, (rows, a.shape[-1]))
        g = F.reshape(g, (rows, g.shape[-1]))
    return F.matmul(F.swapaxes(a, -1, -2), g)


matmul = linear(
    "matmul", "a @ b", forward=lambda F, a, b: F.matmul(a, b),
    transposes=(_matmul_to_a, _matmul_to_b),
    jointly=False, broadcasts=True, analytic=True, degree=1, domain=(_ANY, _ANY),
    kinks=("a contraction does not absorb: 0 · inf inside a sum is NaN",),
)
