"""What the debugger costs: nothing where it is off; and recording against running a backward pass.

    python benchmarks/debugging.py

A step, forward and backward, of an MLP of tensors (784 to 128 to 10, 64 examples) and of one of
Values (3 to 16 to 16 to 1): in a process that never imports the debugger; in one that has imported
it and has opened and closed a recording; and with `tg.record(loss)` in place of `backward()`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import _rounds


def _tensors() -> Callable[[], Any]:
    import numpy as np

    import tinygrad_edu as tg
    from tinygrad_edu import nn

    tg.manual_seed(0)
    draw = np.random.default_rng(0)
    model = nn.MLP(784, 128, 10, activation="relu")
    x, y = draw.normal(size=(64, 784)).astype(np.float32), draw.integers(0, 10, 64)
    return lambda: nn.functional.cross_entropy(model(x), y)


def _values() -> Callable[[], Any]:
    from tinygrad_edu.scalar import MLP

    model = MLP(3, [16, 16, 1])
    return lambda: model([0.5, -1.0, 2.0])


def _plain(forward: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: forward().backward()


def _after_use(forward: Callable[[], Any]) -> Callable[[], Any]:
    from tinygrad_edu.debugger.log import record

    with record():
        loss = forward()
    len(record(loss))
    return _plain(forward)


def _recorded(forward: Callable[[], Any]) -> Callable[[], Any]:
    from tinygrad_edu.debugger.log import record

    log = record(forward())

    def step() -> int:
        return len(record(forward()))

    step.facts = {  # type: ignore[attr-defined]
        "events": len(log), "bytes of gradients": log.memory,
    }  # fmt: skip
    return step


def tensors() -> Callable[[], Any]:
    """Tensors, the debugger never imported."""
    return _plain(_tensors())


def tensors_after_use() -> Callable[[], Any]:
    """Tensors, after a recording."""
    return _after_use(_tensors())


def tensors_recorded() -> Callable[[], Any]:
    """Tensors, each pass recorded."""
    return _recorded(_tensors())


def values() -> Callable[[], Any]:
    """Values, the debugger never imported."""
    return _plain(_values())


def values_after_use() -> Callable[[], Any]:
    """Values, after a recording."""
    return _after_use(_values())


def values_recorded() -> Callable[[], Any]:
    """Values, each pass recorded."""
    return _recorded(_values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    _rounds.add_arguments(parser)
    asked = parser.parse_args()
    names = [
        f"{kind}{how}" for kind in ("tensors", "values") for how in ("", "_after_use", "_recorded")
    ]
    contenders = [_rounds.Contender(name, __file__, name, packages=["numpy"]) for name in names]
    marks = [
        _rounds.Mark(f"{kind}_after_use", kind, 0.95, 1.0) for kind in ("tensors", "values")
    ] + [_rounds.Mark(f"{kind}_recorded", kind, 0.02, 0.5) for kind in ("tensors", "values")]
    reached = _rounds.run(
        contenders, marks, rounds=asked.rounds, seconds=asked.seconds, seed=asked.seed,
        title="a forward and a backward pass, with the debugger off and on",
    )  # fmt: skip
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
