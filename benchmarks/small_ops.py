"""Small tensors, where the engine's own cost shows: 10 × h = tanh(h @ w + b)·h, then a sum.

    python benchmarks/small_ops.py --torch-python PATH    # a Python that has torch, if not this one

41 operations on 4×4 float64, forward and backward to w and b, against HIPS autograd
(pip install autograd) and torch (pip install torch==2.13.0), one BLAS thread each.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import _rounds

DEPTH = 10
OPERATIONS = 4 * DEPTH + 1


def _numbers(size: int) -> tuple[Any, Any, Any]:
    import numpy as np

    draw = np.random.default_rng(0)
    return tuple(draw.standard_normal(s) for s in ((size, size), (size,), (size, size)))  # type: ignore[return-value]


def ours(size: int) -> Callable[[], Any]:
    """tinygrad_edu's step."""
    import tinygrad_edu as tg

    weight, bias, start = _numbers(size)
    w, b = tg.tensor(weight, requires_grad=True), tg.tensor(bias, requires_grad=True)
    first = tg.tensor(start)

    def step() -> None:
        w.grad = b.grad = None
        h = first
        for _ in range(DEPTH):
            h = tg.tanh(h @ w + b) * h
        h.sum().backward()

    step()
    step.facts = {"Σ|dL/dw|": round(float(abs(w.grad.data).sum()), 9)}  # type: ignore[attr-defined,union-attr]
    return step


def hips(size: int) -> Callable[[], Any]:
    """HIPS autograd's step."""
    import autograd
    import autograd.numpy as anp

    w, b, first = _numbers(size)

    def loss(w: Any, b: Any) -> Any:
        h = first
        for _ in range(DEPTH):
            h = anp.tanh(h @ w + b) * h
        return anp.sum(h)

    gradient = autograd.grad(loss, (0, 1))

    def step() -> None:
        gradient(w, b)

    step.facts = {"Σ|dL/dw|": round(float(abs(gradient(w, b)[0]).sum()), 9)}  # type: ignore[attr-defined]
    return step


def torch(size: int) -> Callable[[], Any]:
    """torch's step, one thread."""
    import torch

    torch.set_num_threads(1)
    weight, bias, start = _numbers(size)
    w, b = torch.tensor(weight, requires_grad=True), torch.tensor(bias, requires_grad=True)
    first = torch.tensor(start)

    def step() -> None:
        w.grad = b.grad = None
        h = first
        for _ in range(DEPTH):
            h = torch.tanh(h @ w + b) * h
        h.sum().backward()

    step()
    step.facts = {"Σ|dL/dw|": round(float(w.grad.abs().sum()), 9)}  # type: ignore[attr-defined,union-attr]
    return step


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch-python", default=sys.executable)
    parser.add_argument("--size", type=int, default=4)
    _rounds.add_arguments(parser)
    asked = parser.parse_args()
    one = {"OPENBLAS_NUM_THREADS": "1"}
    options = {"size": asked.size}
    contenders = [
        _rounds.Contender("tinygrad_edu", __file__, "ours", options, packages=["numpy"],
                          environment=one),
        _rounds.Contender("autograd", __file__, "hips", options, packages=["autograd", "numpy"],
                          environment=one),
        _rounds.Contender("torch", __file__, "torch", options, python=asked.torch_python,
                          packages=["torch"]),
    ]  # fmt: skip
    marks = [
        _rounds.Mark("tinygrad_edu", "autograd", 2.5, 3.5),
        _rounds.Mark("tinygrad_edu", "torch", 1.0, 1.4),
    ]
    reached = _rounds.run(
        contenders, marks, rounds=asked.rounds, seconds=asked.seconds, seed=asked.seed,
        title=f"{OPERATIONS} operations on {asked.size}×{asked.size}, forward and backward",
    )  # fmt: skip
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
