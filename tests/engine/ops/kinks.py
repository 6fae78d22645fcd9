"""What the tests of kinks share: which lines of the registry they have covered, and gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import tinygrad_edu as tg

INF, NAN = math.inf, math.nan
COVERED: set[tuple[str, str]] = set()
Test = Callable[..., None]


def kink(name: str, line: str) -> Callable[[Test], Test]:
    """Marks the test of one line of an entry's `kinks`."""

    def mark(test: Test) -> Test:
        COVERED.add((name, line))
        return test

    return mark


def gradients(f: Callable[..., Any], *xs: Any, g: Any = None) -> list[Any]:
    """[value, gradient to each input] as lists; the upstream gradient is ones by default."""
    leaves = [tg.Tensor(np.asarray(x, dtype=float), requires_grad=True) for x in xs]
    out = f(*leaves)
    out.backward(np.ones(out.shape) if g is None else np.asarray(g, dtype=float))
    return [out.tolist(), *[None if x.grad is None else x.grad.tolist() for x in leaves]]


def same(found: Any, want: Any) -> bool:
    return np.array_equal(found, np.asarray(want, dtype=float), equal_nan=True)
