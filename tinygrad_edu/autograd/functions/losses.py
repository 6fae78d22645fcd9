"""Losses: how far a prediction is from its target. `reduction` is "mean", "sum" or "none".

Prediction and target have one shape, unless classes are given by number: broadcasting (n, 1)
against (n,) would silently compare every pair. Terms whose target is 0 are 0, whatever stands
beside them.
"""

from __future__ import annotations

import math
from typing import Any

from tinygrad_edu.autograd.apply import as_tensor
from tinygrad_edu.autograd.functions import fused as _f
from tinygrad_edu.autograd.functions.activations import softplus
from tinygrad_edu.autograd.functions.arguments import integers, one_float
from tinygrad_edu.autograd.functions.elementwise import abs as _abs
from tinygrad_edu.autograd.functions.elementwise import (
    divide,
    exp,
    log1p,
    multiply,
    negative,
    relu,
    subtract,
    where,
)
from tinygrad_edu.autograd.functions.movement import take_along_axis
from tinygrad_edu.autograd.functions.plain import equal
from tinygrad_edu.autograd.functions.reduction import log_softmax, mean
from tinygrad_edu.autograd.functions.reduction import sum as _sum
from tinygrad_edu.autograd.functions.shape import squeeze
from tinygrad_edu.autograd.functions.transcendental import square, xlogy
from tinygrad_edu.autograd.tensor import Tensor, is_floating
from tinygrad_edu.errors import ShapeError


def _pair(what: str, input: Any, target: Any) -> tuple[Tensor, Tensor]:
    given, wanted = one_float(input, target)
    if given.shape != wanted.shape:
        raise ShapeError(
            f"{what} was given shapes {given.shape} and {wanted.shape}, expected two equal ones: "
            "reshape one."
        )
    return given, wanted


def check_reduction(owner: str, reduction: str, *more: str) -> None:
    """Raise ValueError unless `reduction` is one of the three (or of `more`)."""
    if reduction not in ("mean", "sum", "none", *more):
        choices = ", ".join(repr(r) for r in ("mean", "sum", *more))
        raise ValueError(
            f"{owner} was given reduction={reduction!r}, expected {choices} or 'none'."
        )


def _reduced(what: str, terms: Tensor, reduction: str) -> Tensor:
    check_reduction(what, reduction)
    if reduction == "none":
        return terms
    return mean(terms) if reduction == "mean" else _sum(terms)


def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """(input - target)²: its mean over all elements, its "sum", or with "none" each one.

    Raises:
        ShapeError: for two shapes.
        ValueError: for an unknown reduction.
    """
    given, wanted = _pair("mse_loss", input, target)
    return _reduced("mse_loss", square(subtract(given, wanted)), reduction)


def l1_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """|input - target|; where they are equal the gradient is 0."""
    given, wanted = _pair("l1_loss", input, target)
    return _reduced("l1_loss", _abs(subtract(given, wanted)), reduction)


def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """(input - target)²/2 up to delta, from there δ·(|input - target| - δ/2). Huber 1964."""
    if not delta > 0:
        raise ValueError(f"huber_loss's delta has to be above 0; got {delta}")
    given, wanted = _pair("huber_loss", input, target)
    off = subtract(given, wanted)
    size = _abs(off)
    near = size <= delta
    terms = where(near, square(off) * 0.5, (size - 0.5 * delta) * delta)
    return _reduced("huber_loss", terms, reduction)


def smooth_l1_loss(input: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """`huber_loss` with delta=beta, over beta; `l1_loss` for beta=0. Girshick 2015."""
    if beta == 0:
        return l1_loss(input, target, reduction)
    if not beta > 0:
        raise ValueError(f"smooth_l1_loss's beta has to be at least 0; got {beta}")
    return divide(huber_loss(input, target, reduction, delta=beta), beta)


def hinge_loss(input: Any, target: Any, reduction: str = "mean", margin: float = 1.0) -> Tensor:
    """max(0, margin - target·input) for targets of 1 and -1; on the hinge the gradient is 0."""
    given, wanted = _pair("hinge_loss", input, target)
    return _reduced("hinge_loss", relu(margin - multiply(given, wanted)), reduction)


def hinge_embedding_loss(
    input: Any, target: Any, margin: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """The input itself where the target is 1, max(0, margin - input) where it is -1."""
    given, wanted = _pair("hinge_embedding_loss", input, target)
    terms = where(equal(wanted, 1.0), given, relu(margin - given))
    return _reduced("hinge_embedding_loss", terms, reduction)


def binary_cross_entropy(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean"
) -> Tensor:
    """-(t·ln p + (1 - t)·ln(1 - p)) for probabilities p and targets t in [0, 1]; inf where a
    certain p is wrong. From logits use `binary_cross_entropy_with_logits`, which keeps its digits.
    """
    p, t = _pair("binary_cross_entropy", input, target)
    other = 1 - t
    rest = multiply(other, log1p(negative(_unless_0(other, p))))
    terms = negative(xlogy(t, p) + rest)
    return _weighted("binary_cross_entropy", terms, weight, reduction)


def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Tensor:
    """`binary_cross_entropy` of sigmoid(input), without leaving the logits: t·ln(1 + e⁻ᶻ) + (1 -
    t)·ln(1 + eᶻ), exact for any z; `pos_weight` multiplies the first term.
    """
    z, t = _pair("binary_cross_entropy_with_logits", input, target)
    positive = multiply(t, softplus(negative(z)))
    if pos_weight is not None:
        positive = multiply(positive, pos_weight)
    terms = positive + multiply(1 - t, softplus(z))
    return _weighted("binary_cross_entropy_with_logits", terms, weight, reduction)


def _unless_0(factor: Tensor, x: Tensor) -> Tensor:
    """x, and 0 where it will be multiplied by a factor of 0: there it may be infinite."""
    return where(equal(factor, 0.0), x._namespace.zeros((), dtype=x.dtype), x)


def _weighted(what: str, terms: Tensor, weight: Any, reduction: str) -> Tensor:
    return _reduced(what, terms if weight is None else multiply(terms, weight), reduction)


def kl_div(
    input: Any, target: Any, reduction: str = "mean", log_target: bool = False
) -> Tensor:
    """t·(ln t - input) for log-probabilities `input` and probabilities t (their logarithms with
    `log_target`). "batchmean" divides the sum by the first axis, which is the divergence proper;
    "mean" divides by the number of elements, as in PyTorch.
    """
    given, wanted = _pair("kl_div", input, target)
    check_reduction("kl_div", reduction, "batchmean")
    if log_target:
        terms = multiply(exp(wanted), subtract(wanted, given))
    else:
        terms = xlogy(wanted, wanted) - multiply(wanted, _unless_0(wanted, given))
    if reduction == "batchmean":
        return divide(_sum(terms), max(terms.shape[0], 1) if terms.ndim else 1)
    return _reduced("kl_div", terms, reduction)


def nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """-input[target] for log-probabilities (…, V) and targets (…) of integers; "mean" divides by
    the weights of the targets that are not `ignore_index`.
    """
    (given,) = one_float(input)
    return _of_classes("nll_loss", given, target, weight, ignore_index, reduction, 0.0)


def cross_entropy(
    logits: Any,
    targets: Any,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    weight: Any = None,
    label_smoothing: float = 0.0,
) -> Tensor:
    """-ln softmax(logits)[target] in nats: logits (…, V), targets (…) of integers, or probabilities
    (…, V).

    "mean" averages over the targets that are not `ignore_index`, weighted by `weight` (V) where
    given; "sum" adds, "none" keeps them. `label_smoothing` ε gives each target 1 - ε and shares ε
    among all V classes (Szegedy et al. 2016, section 7). A mean over no target at all is NaN, with
    gradient 0.

    Raises:
        IndexError: a target outside [0, V) that is not `ignore_index`.
        ValueError: an ε outside [0, 1].
    """
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"label_smoothing has to be from 0 to 1; got {label_smoothing}")
    kind = targets.dtype if hasattr(targets, "dtype") else None
    alike = getattr(targets, "shape", None) == getattr(logits, "shape", ())
    if kind is not None and is_floating(kind) and alike:
        return _of_probabilities(logits, targets, reduction, weight, label_smoothing)
    if weight is None and not label_smoothing:
        return _f.cross_entropy(logits, targets, ignore_index, reduction)
    (z,) = one_float(logits)
    return _of_classes(
        "cross_entropy", log_softmax(z), targets, weight, ignore_index, reduction, label_smoothing
    )


def _of_classes(
    what: str,
    logs: Tensor,
    targets: Any,
    weight: Any,
    ignore_index: int,
    reduction: str,
    smoothing: float,
) -> Tensor:
    check_reduction(what, reduction)
    if logs.ndim == 0:
        raise ShapeError(f"{what} needs (…, V); got one number")
    ids = integers(targets, "targets", logs.shape[-1], ignore_index)._data
    if tuple(ids.shape) != logs.shape[:-1]:
        raise ShapeError(
            f"{what} was given {logs.shape} and targets {tuple(ids.shape)}; targets have to be "
            f"{logs.shape[:-1]}, one a row"
        )
    F = logs._namespace
    counted = ids != ignore_index
    safe = F.where(counted, ids, 0)
    of_class = F.ones(logs.shape[-1], dtype=logs.dtype) if weight is None else _weights(
        what, weight, logs
    )
    nothing = F.zeros((), dtype=logs.dtype)
    each = Tensor(F.where(counted, of_class[safe], nothing))
    picked = squeeze(take_along_axis(logs, safe[..., None], -1), -1)
    terms = negative(where(Tensor(counted), picked, nothing)) * each
    if smoothing:
        smooth = negative(_sum(logs * Tensor(of_class), -1))
        smooth = where(Tensor(counted), smooth, nothing)
        terms = terms * (1 - smoothing) + smooth * (smoothing / logs.shape[-1])
    if reduction == "none":
        return terms
    if reduction == "sum":
        return _sum(terms)
    return divide(_sum(terms), float(each._data.sum()) or math.nan)  # NaN: the mean of nothing


def _weights(what: str, weight: Any, logs: Tensor) -> Any:
    given = as_tensor(weight)
    if tuple(given.shape) != logs.shape[-1:]:
        raise ShapeError(
            f"{what}'s weight has shape {given.shape}; expected {logs.shape[-1:]}, one a class"
        )
    return given._data.astype(logs.dtype)


def _of_probabilities(
    logits: Any, targets: Any, reduction: str, weight: Any, smoothing: float
) -> Tensor:
    z, t = _pair("cross_entropy", logits, targets)
    check_reduction("cross_entropy", reduction)
    if smoothing:
        t = t * (1 - smoothing) + smoothing / z.shape[-1]
    logs = log_softmax(z)
    if weight is not None:
        logs = logs * Tensor(_weights("cross_entropy", weight, logs))
    terms = negative(_sum(multiply(t, _unless_0(t, logs)), -1))
    return _reduced("cross_entropy", terms, reduction)


