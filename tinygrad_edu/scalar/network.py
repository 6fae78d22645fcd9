"""micrograd's multi-layer perceptron, neuron by neuron, on Values.

    model = MLP(2, [16, 16, 1])      # two inputs, two hidden layers of 16 ReLU neurons, one output
    score = model([0.5, -1.0])       # a Value; a list of Values where the last layer is wider

Weights start uniform in [-1, 1), biases at 0. With nothing said the numbers come from Python's
`random`, in micrograd's order, so `random.seed(1337)` starts the same network as it does there.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from tinygrad_edu.scalar.value import Value


class Uniform(Protocol):
    """What draws the weights: Python's `random`, a `random.Random` or a NumPy `Generator`."""

    def uniform(self, low: float, high: float, /) -> Any: ...


class Module:
    """Something with parameters."""

    def zero_grad(self) -> None:
        """Set every parameter's gradient to 0, as gradients add up over backward passes."""
        for p in self.parameters():
            p.grad = 0

    def parameters(self) -> list[Value]:
        return []


class Neuron(Module):
    """w·x + b, through a ReLU unless `nonlin` is False.

    Args:
        nin: number of inputs.
        nonlin: whether a ReLU follows.
        generator: what draws the weights; a whole number is taken as a seed.
    """

    def __init__(
        self, nin: int, nonlin: bool = True, generator: Uniform | int | None = None
    ) -> None:
        draw = _generator(generator).uniform
        self.w = [Value(draw(-1, 1)) for _ in range(_size(nin, "inputs of a neuron"))]
        self.b = Value(0.0)
        self.nonlin = nonlin

    def __call__(self, x: Sequence[Value | float]) -> Value:
        """`x`: nin Values or numbers. Returns one Value."""
        if len(x) != len(self.w):
            raise ValueError(f"a neuron of {len(self.w)} inputs was given {len(x)}")
        activation = self.b
        for weight, xi in zip(self.w, x, strict=True):
            activation = activation + weight * xi
        return activation.relu() if self.nonlin else activation

    def parameters(self) -> list[Value]:
        return [*self.w, self.b]

    def __repr__(self) -> str:
        return f"{'ReLU' if self.nonlin else 'Linear'}Neuron({len(self.w)})"


class Layer(Module):
    """`nout` neurons that look at the same `nin` inputs. Further arguments go to each `Neuron`."""

    def __init__(
        self,
        nin: int,
        nout: int,
        nonlin: bool = True,
        generator: Uniform | int | None = None,
    ) -> None:
        source = _generator(generator)
        count = _size(nout, "neurons of a layer")
        self.neurons = [Neuron(nin, nonlin, source) for _ in range(count)]

    def __call__(self, x: Sequence[Value | float]) -> Value | list[Value]:
        """`x`: nin Values or numbers. Returns nout Values, or the Value itself where nout is 1."""
        out = [neuron(x) for neuron in self.neurons]
        return out[0] if len(out) == 1 else out

    def parameters(self) -> list[Value]:
        return [p for neuron in self.neurons for p in neuron.parameters()]

    def __repr__(self) -> str:
        return f"Layer of [{', '.join(str(neuron) for neuron in self.neurons)}]"


class MLP(Module):
    """Layers of sizes `nouts` one after the other, ReLU after each but the last.

    Args:
        nin: number of inputs.
        nouts: number of neurons of each layer.
        generator: what draws the weights; a whole number is taken as a seed.
    """

    def __init__(
        self, nin: int, nouts: Sequence[int], generator: Uniform | int | None = None
    ) -> None:
        source = _generator(generator)
        sizes = [nin, *nouts]
        last = len(nouts) - 1
        self.layers = [
            Layer(sizes[i], sizes[i + 1], nonlin=i != last, generator=source)
            for i in range(len(nouts))
        ]

    def __call__(self, x: Sequence[Value | float]) -> Any:
        """`x`: nin Values or numbers. Returns a Value, or a list where the last layer has more."""
        out: Any = x
        for layer in self.layers:
            out = layer([out] if isinstance(out, Value) else out)
        return out

    def parameters(self) -> list[Value]:
        return [p for layer in self.layers for p in layer.parameters()]

    def __repr__(self) -> str:
        return f"MLP of [{', '.join(str(layer) for layer in self.layers)}]"


def _generator(generator: Uniform | int | None) -> Uniform:
    if generator is None:
        return random
    if isinstance(generator, (int, np.integer)):
        return random.Random(int(generator))
    return generator


def _size(number: Any, what: str) -> int:
    if not isinstance(number, (int, np.integer)) or number < 1:
        raise ValueError(f"the number of {what} is a whole number from 1 up, got {number!r}")
    return int(number)
