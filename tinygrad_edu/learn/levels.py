"""The levels of the bug hunt, from a product of a sum to a head of attention."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LEVELS", "Level"]


@dataclass(frozen=True)
class Level:
    """One level.

    Attributes:
        program: which of `programs.PROGRAMS`; "" draws one.
        kind: which of `mistakes.KINDS`; "" draws one.
        second: the pass is that of the second step of training.
    """

    program: str
    kind: str
    second: bool = False


LEVELS = (
    # One operation after the other, numbers that fit on paper.
    Level("product", "sign"),
    Level("product", "factor"),
    Level("reuse", "accumulation"),
    Level("product", "derivative"),
    Level("powers", "factor"),
    Level("neuron", "derivative"),
    # Values that are used more than once.
    Level("diamond", "detached"),
    Level("diamond", "order"),
    Level("distance", "derivative"),
    Level("logistic", "zero_grad", second=True),
    Level("softmax of two", "accumulation"),
    Level("softmax of two", "sign"),
    # A network of single numbers.
    Level("network", "factor", second=True),
    Level("network", "detached"),
    Level("network", "zero_grad", second=True),
    # Arrays.
    Level("regression", "broadcast"),
    Level("regression", "factor"),
    Level("layers", "transposed", second=True),
    Level("layers", "zero_grad", second=True),
    Level("layers", "axis"),
    Level("residual", "detached", second=True),
    Level("residual", "order"),
    Level("softmax", "derivative", second=True),
    Level("softmax", "order"),
    Level("normalized", "accumulation"),
    Level("normalized", "axis", second=True),
    Level("attention", "transposed"),
    Level("attention", "sign", second=True),
    # Anything, anywhere.
    Level("", ""),
    Level("", "", second=False),
)
