"""The update rules: `SGD`, `Momentum`, `Adam`, `AdamW`, with PyTorch's arguments, defaults and
numbers.

Each is written as the few operations on arrays that it is, in place. (An update can be rounded
differently from PyTorch's where constants were gathered to save a pass over memory.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tinygrad_edu.backend.blas import axpy
from tinygrad_edu.optim.optimizer import Group, Optimizer

__all__ = ["SGD", "Adam", "AdamW", "Momentum"]


class _SGDFactors(NamedTuple):
    lr: float
    momentum: float
    kept: float  # share of the gradient that enters the velocity
    weight_decay: float
    nesterov: bool
    maximize: bool


class SGD(Optimizer):
    """w ← w - lr·g, downhill along the gradient; with `momentum`, along a velocity that remembers
    earlier ones.

    d = g + weight_decay·w;  velocity ← momentum·velocity + (1 - dampening)·d, the first time
    velocity = d; w ← w - lr·velocity, with `nesterov` w ← w - lr·(d + momentum·velocity) (Sutskever
    et al. 2013, in PyTorch's form, where lr is outside the velocity). `maximize` goes uphill.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def check_options(self, group: Mapping[str, Any]) -> None:
        """Raise ValueError for an option outside its range."""
        super().check_options(group)
        momentum, dampening = group["momentum"], group["dampening"]
        self._require(0 <= momentum < math.inf, "momentum", momentum, "at least 0 and finite")
        self._require(math.isfinite(dampening), "dampening", dampening, "a finite number")
        fits = not group["nesterov"] or (momentum > 0 and dampening == 0)
        self._require(fits, "nesterov", True, "momentum above 0 and dampening 0 with it")

    def slots_of(self, group: Group) -> tuple[str, ...]:
        """The velocity, if there is momentum."""
        return ("momentum_buffer",) if group["momentum"] else ()

    def factors(self, group: Group, step: int, fresh: bool) -> _SGDFactors:
        """The options as floats; a velocity that has just been made takes the whole gradient."""
        return _SGDFactors(
            lr=float(group["lr"]),
            momentum=float(group["momentum"]),
            kept=1.0 if fresh else 1.0 - float(group["dampening"]),
            weight_decay=float(group["weight_decay"]),
            nesterov=bool(group["nesterov"]),
            maximize=bool(group["maximize"]),
        )

    def apply_update(self, factors: Any, arrays: list[Any]) -> None:
        """Move a weight; plain descent is a single call, of any size, so that workers that move
        several weights as one long array round as one that moves each.
        """
        weight, gradient = arrays[:2]
        plain = factors.momentum == factors.weight_decay == 0
        rate = factors.lr if factors.maximize else -factors.lr
        if not (plain and axpy(weight, rate, gradient)):
            super().apply_update(factors, arrays)

    def update(
        self,
        xp: Any,
        factors: Any,
        scratch: tuple[Any, Any],
        weight: Any,
        gradient: Any,
        *slots: Any,
    ) -> None:
        """One step; `slots` is the velocity or nothing."""
        spare, _ = scratch
        lr, momentum, kept, weight_decay, nesterov, maximize = factors
        direction = _direction(xp, spare, weight, gradient, weight_decay, maximize)
        if slots:
            (velocity,) = slots
            xp.multiply(velocity, momentum, out=velocity)
            if kept != 1.0:
                direction = xp.multiply(direction, kept, out=spare)
            xp.add(velocity, direction, out=velocity)
            if nesterov:  # in two goes, as `direction` may be in `spare`
                xp.multiply(direction, lr, out=spare)
                xp.subtract(weight, spare, out=weight)
                lr *= momentum
            direction = velocity
        xp.multiply(direction, lr, out=spare)
        xp.subtract(weight, spare, out=weight)


class Momentum(SGD):
    """SGD with momentum 0.9: the ball rolling down, which keeps its speed along a valley and damps
    swings across.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.9,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, momentum, dampening, weight_decay, nesterov, maximize=maximize)


class _AdamFactors(NamedTuple):
    shrink: float  # what decoupled weight decay leaves of the old weight
    l2: float
    beta1: float
    beta2: float
    size: float
    eps: float
    amsgrad: bool
    maximize: bool


class Adam(Optimizer):
    """A step for each weight of its own, about lr whatever the gradient's scale (Kingma & Ba 2015,
    algorithm 1).

    g ← g + weight_decay·w;  m ← β1·m + (1-β1)·g;  v ← β2·v + (1-β2)·g²;
    w ← w - lr·m̂/(√v̂ + eps) with m̂ = m/(1-β1ᵗ), v̂ = v/(1-β2ᵗ) at the t-th step.

    The weight decay here is L2 regularisation, which Adam then rescales like any gradient; AdamW's
    is not. With `amsgrad`, v̂ never shrinks (Reddi et al. 2018). `maximize` goes uphill.
    """

    decoupled = False

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def check_options(self, group: Mapping[str, Any]) -> None:
        """Raise ValueError for an option outside its range."""
        super().check_options(group)
        betas, eps = group["betas"], group["eps"]
        fine = len(betas) == 2 and all(0 <= beta < 1 for beta in betas)
        self._require(fine, "betas", betas, "two numbers from 0 up to but not 1")
        self._require(0 <= eps < math.inf, "eps", eps, "at least 0 and finite")

    def slots_of(self, group: Group) -> tuple[str, ...]:
        """The two averages, and with amsgrad the largest of the second."""
        largest = ("max_exp_avg_sq",) if group["amsgrad"] else ()
        return ("exp_avg", "exp_avg_sq", *largest)

    def factors(self, group: Group, step: int, fresh: bool) -> _AdamFactors:
        """The bias corrections gathered: lr·m̂/(√v̂ + eps) = size·m/(√v + eps·√(1-β2ᵗ))."""
        lr, decay = float(group["lr"]), float(group["weight_decay"])
        beta1, beta2 = map(float, group["betas"])
        root = math.sqrt(1.0 - beta2**step)
        return _AdamFactors(
            shrink=1.0 - lr * decay if self.decoupled else 1.0,
            l2=0.0 if self.decoupled else decay,
            beta1=beta1,
            beta2=beta2,
            size=lr / (1.0 - beta1**step) * root,
            eps=float(group["eps"]) * root,
            amsgrad=bool(group["amsgrad"]),
            maximize=bool(group["maximize"]),
        )

    def update(
        self,
        xp: Any,
        factors: Any,
        scratch: tuple[Any, Any],
        weight: Any,
        gradient: Any,
        *slots: Any,
    ) -> None:
        """One step; `slots` are exp_avg, exp_avg_sq and with amsgrad max_exp_avg_sq."""
        spare, second = scratch
        shrink, l2, beta1, beta2, size, eps, amsgrad, maximize = factors
        mean, square = slots[:2]
        direction = _direction(xp, second, weight, gradient, l2, maximize)
        xp.multiply(mean, beta1, out=mean)
        xp.multiply(direction, 1.0 - beta1, out=spare)
        xp.add(mean, spare, out=mean)
        xp.multiply(square, beta2, out=square)
        xp.multiply(direction, direction, out=spare)
        xp.multiply(spare, 1.0 - beta2, out=spare)
        xp.add(square, spare, out=square)
        if amsgrad:
            square = xp.maximum(slots[2], square, out=slots[2])
        xp.sqrt(square, out=spare)
        xp.add(spare, eps, out=spare)
        xp.divide(mean, spare, out=spare)
        xp.multiply(spare, size, out=spare)
        if shrink != 1.0:
            xp.multiply(weight, shrink, out=weight)
        xp.subtract(weight, spare, out=weight)


class AdamW(Adam):
    """Adam with decay taken off the old weight, w ← w - lr·weight_decay·w - …, and not mixed into
    the gradient.

    Loshchilov & Hutter 2019, "Decoupled weight decay regularization", algorithm 2, in PyTorch's
    form, where the decay is in units of lr.
    """

    decoupled = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)


def _direction(
    xp: Any, spare: Any, weight: Any, gradient: Any, weight_decay: float, maximize: bool
) -> Any:
    """The gradient, negated to go uphill, plus weight_decay·weight: itself or in `spare`."""
    if not weight_decay:
        return xp.negative(gradient, out=spare) if maximize else gradient
    xp.multiply(weight, weight_decay, out=spare)
    return (xp.subtract if maximize else xp.add)(spare, gradient, out=spare)
