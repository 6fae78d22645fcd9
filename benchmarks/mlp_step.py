"""One step of gradient descent on an MLP, 784 to 128 to 10, in float64, against MyGrad and torch.

    python benchmarks/mlp_step.py --torch-python PATH --mygrad-python PATH

64 examples, ReLU, cross entropy by each library's own function; forward, backward, and w -= 0.01 g.
Every contender may use all cores.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import _rounds

BATCH, SIZES = 64, (784, 128, 10)
RATE = 0.01


def _problem() -> tuple[Any, Any, list[Any]]:
    import numpy as np

    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(BATCH, SIZES[0])), draw.integers(0, SIZES[-1], BATCH)
    weights = []
    for n, m in pairwise(SIZES):
        weights += [draw.normal(0, 1 / math.sqrt(n), (m, n)), np.zeros(m)]
    return x, y, weights


def ours() -> Callable[[], Any]:
    """tinygrad_edu, with its modules and optimizer."""
    from tinygrad_edu import nn, optim

    x, y, weights = _problem()
    model = nn.MLP(*SIZES, activation="relu", dtype="float64")
    for parameter, value in zip(model.parameters(), weights, strict=True):
        parameter.data = value
    optimizer = optim.SGD(model.parameters(), lr=RATE)

    def step() -> float:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward(retain_graph=False)
        optimizer.step()
        return float(loss.item())

    step.facts = {"first loss": round(step(), 6), "second": round(step(), 6)}  # type: ignore[attr-defined]
    return step


def torch() -> Callable[[], Any]:
    """torch eager."""
    import torch
    from torch import nn

    x, y, weights = _problem()
    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)).double()
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), weights, strict=True):
            parameter.copy_(torch.tensor(value))
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    inputs, targets = torch.tensor(x), torch.tensor(y)

    def step() -> float:
        loss = nn.functional.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.item())

    step.facts = {  # type: ignore[attr-defined]
        "threads": torch.get_num_threads(), "first loss": round(step(), 6),
        "second": round(step(), 6),
    }  # fmt: skip
    return step


def mygrad() -> Callable[[], Any]:
    """MyGrad, as its own guide to a small network has it."""
    import mygrad as mg
    from mygrad.nnet.activations import relu
    from mygrad.nnet.losses import softmax_crossentropy

    x, y, weights = _problem()
    w1, b1, w2, b2 = (mg.tensor(value) for value in weights)

    def step() -> float:
        hidden = relu(mg.matmul(x, w1.T) + b1)
        loss = softmax_crossentropy(mg.matmul(hidden, w2.T) + b2, y)
        loss.backward()
        value = float(loss.item())
        for parameter in (w1, b1, w2, b2):
            parameter.data -= RATE * parameter.grad
        return value

    step.facts = {"first loss": round(step(), 6), "second": round(step(), 6)}  # type: ignore[attr-defined]
    return step


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch-python", default=sys.executable)
    parser.add_argument("--mygrad-python", default=sys.executable)
    _rounds.add_arguments(parser)
    asked = parser.parse_args()
    contenders = [
        _rounds.Contender("tinygrad_edu", __file__, "ours", packages=["numpy"]),
        _rounds.Contender("MyGrad", __file__, "mygrad", python=asked.mygrad_python,
                          packages=["mygrad", "numpy"]),
        _rounds.Contender("torch", __file__, "torch", python=asked.torch_python,
                          packages=["torch"]),
    ]  # fmt: skip
    marks = [
        _rounds.Mark("tinygrad_edu", "MyGrad", 1.0, 1.2),
        _rounds.Mark("tinygrad_edu", "torch", 1.0, 1.1),
    ]
    reached = _rounds.run(
        contenders, marks, rounds=asked.rounds, seconds=asked.seconds, seed=asked.seed,
        title="one step of an MLP, 64 x 784 to 128 to 10, float64",
    )  # fmt: skip
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
