"""Filling parameters before training, with PyTorch's names and formulas.

Each function fills a tensor in place, returns it, and draws from `generator` (a
`numpy.random.Generator`), by default `tg.default_generator()`, which `tg.manual_seed` seeds.
Numbers are drawn on the host in float64 and then rounded, so one seed gives the same weights on
every backend and, up to rounding, in every dtype.

The scaled forms keep the variance of what flows through a layer about equal from one layer to the
next:

* xavier: Glorot & Bengio 2010, "Understanding the difficulty of training deep feedforward neural
  networks", eq. 16;
* kaiming: He et al. 2015, "Delving deep into rectifiers", eq. 10 and 15.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_edu.autograd import Tensor
from tinygrad_edu.autograd.modes import default_generator
from tinygrad_edu.backend import namespace_of
from tinygrad_edu.nn.state import array_in

__all__ = [
    "calculate_fan_in_and_fan_out",
    "calculate_gain",
    "constant_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which a nonlinearity asks for larger weights, as `torch.nn.init.calculate_gain`
    has it.

    1 for "linear", "identity" and "sigmoid"; 5/3 for "tanh"; √2 for "relu"; √(2/(1+a²)) for
    "leaky_relu" with negative slope a = `param` (0.01 if None); 3/4 for "selu".
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        return math.sqrt(2.0 / (1.0 + slope**2))
    gains = {
        "linear": 1.0,
        "identity": 1.0,
        "sigmoid": 1.0,
        "tanh": 5.0 / 3.0,
        "relu": math.sqrt(2.0),
        "selu": 0.75,
    }
    if nonlinearity not in gains:
        raise ValueError(
            f"calculate_gain was given {nonlinearity!r}, expected one of {', '.join(gains)}, "
            "leaky_relu."
        )
    return gains[nonlinearity]


def calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """(inputs, outputs) of one unit of a weight of shape (out, in, *window): the window counts in
    both.
    """
    if tensor.ndim < 2:
        raise ValueError(
            "fan in and fan out need a weight of at least 2 dimensions, got shape "
            f"{tuple(tensor.shape)}: fill a bias with zeros_ or uniform_."
        )
    outputs, inputs, *window = tensor.shape
    return inputs * math.prod(window), outputs * math.prod(window)


def uniform_(
    tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: np.random.Generator | None = None
) -> Tensor:
    """Fill with U(a, b)."""
    return _fill(tensor, _source(generator).uniform(a, b, tuple(tensor.shape)))


def normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    generator: np.random.Generator | None = None,
) -> Tensor:
    """Fill with N(mean, std²)."""
    return _fill(tensor, _source(generator).normal(mean, std, tuple(tensor.shape)))


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one number."""
    return _fill(tensor, np.full(tuple(tensor.shape), val, dtype=np.float64))


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with 0."""
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with 1."""
    return constant_(tensor, 1.0)


def xavier_uniform_(
    tensor: Tensor, gain: float = 1.0, generator: np.random.Generator | None = None
) -> Tensor:
    """Fill with U(-b, b), b = gain·√(6/(fan_in + fan_out))."""
    bound = gain * math.sqrt(6.0 / sum(calculate_fan_in_and_fan_out(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(
    tensor: Tensor, gain: float = 1.0, generator: np.random.Generator | None = None
) -> Tensor:
    """Fill with N(0, s²), s = gain·√(2/(fan_in + fan_out))."""
    std = gain * math.sqrt(2.0 / sum(calculate_fan_in_and_fan_out(tensor)))
    return normal_(tensor, 0.0, std, generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: np.random.Generator | None = None,
) -> Tensor:
    """Fill with U(-b, b), b = gain·√(3/fan); with a=√5, which `Linear` uses, b = 1/√fan_in."""
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: np.random.Generator | None = None,
) -> Tensor:
    """Fill with N(0, s²), s = gain/√fan."""
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fans = dict(zip(("fan_in", "fan_out"), calculate_fan_in_and_fan_out(tensor), strict=True))
    if mode not in fans:
        raise ValueError(f"mode was {mode!r}, expected 'fan_in' or 'fan_out'.")
    return calculate_gain(nonlinearity, a) / math.sqrt(max(fans[mode], 1))


def _source(generator: np.random.Generator | None) -> np.random.Generator:
    return default_generator() if generator is None else generator


def _fill(tensor: Tensor, values: Any) -> Tensor:
    tensor.data[...] = array_in(namespace_of(tensor.data), values)
    tensor._written()
    return tensor
