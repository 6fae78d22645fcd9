"""Activations, element by element; relu, sigmoid, tanh and gelu are in `elementwise`."""

from __future__ import annotations

from typing import Any

from tinygrad_edu.autograd.apply import apply
from tinygrad_edu.autograd.functions.arguments import one_float
from tinygrad_edu.autograd.functions.elementwise import clip
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.ops import activations as _a


def softplus(x: Any, beta: float = 1.0) -> Tensor:
    """ln(1 + e^(βx))/β, a relu without its kink; no overflow at any x.

    Raises:
        ValueError: a beta not above 0.
    """
    if not beta > 0:
        raise ValueError(f"softplus's beta has to be above 0; got {beta}")
    return apply(_a.softplus, *one_float(x), beta=float(beta))


def log_sigmoid(x: Any) -> Tensor:
    """ln(1/(1 + e⁻ˣ)), without overflow at any x."""
    return apply(_a.log_sigmoid, *one_float(x))


logsigmoid = log_sigmoid


def silu(x: Any) -> Tensor:
    """x·sigmoid(x), also called swish. Elfwing et al. 2018."""
    return apply(_a.silu, *one_float(x))


def mish(x: Any) -> Tensor:
    """x·tanh(softplus(x)). Misra 2019."""
    return apply(_a.mish, *one_float(x))


def elu(x: Any, alpha: float = 1.0) -> Tensor:
    """x, and α(eˣ - 1) at 0 and below. Clevert et al. 2016."""
    return apply(_a.elu, *one_float(x), alpha=float(alpha))


def selu(x: Any) -> Tensor:
    """elu with the scale and α that keep mean 0 and variance 1. Klambauer et al. 2017."""
    return apply(_a.selu, *one_float(x))


def leaky_relu(x: Any, negative_slope: float = 0.01) -> Tensor:
    """x, and negative_slope·x at 0 and below."""
    return apply(_a.leaky_relu, *one_float(x), slope=float(negative_slope))


def hardtanh(x: Any, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """x held between two bounds: `clip`, whose gradient on a bound is 1."""
    return clip(x, min_val, max_val)


def softsign(x: Any) -> Tensor:
    """x/(1 + |x|)."""
    return apply(_a.softsign, *one_float(x))
