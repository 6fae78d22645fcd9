"""Checks of derivatives: for the operations here, and for the reader's own.

    from tinygrad_edu.testing import check_vjp

    check_vjp(lambda x: (x * x).sum(), [1.0, 2.0])
    check_vjp(tg.exp, [1.0], vjp=lambda g, x: g * x)    # a rule by hand: GradValueError

Tolerances are a number of roundings times the size of the terms that were added; there is no
absolute one, so that small gradients are judged like large ones. `strategies` (which needs
hypothesis, the extra of that name) draws shapes, indices, values and upstream gradients.
"""

from tinygrad_edu.testing.checks import check_jvp, check_second_order, check_vjp, gradcheck
from tinygrad_edu.testing.compare import Report
from tinygrad_edu.testing.errors import (
    AdjointMismatch,
    AliasedGradient,
    DerivativeError,
    GradDtypeError,
    GradInf,
    GradMissing,
    GradNaN,
    GradNotLinear,
    GradShapeError,
    GradValueError,
    HessianAsymmetry,
    HessianValueError,
    MutatedCotangent,
    MutatedInput,
    NotAccumulated,
    NotReentrant,
    TangentDtypeError,
    TangentShapeError,
    TangentValueError,
)

__all__ = [
    "AdjointMismatch",
    "AliasedGradient",
    "DerivativeError",
    "GradDtypeError",
    "GradInf",
    "GradMissing",
    "GradNaN",
    "GradNotLinear",
    "GradShapeError",
    "GradValueError",
    "HessianAsymmetry",
    "HessianValueError",
    "MutatedCotangent",
    "MutatedInput",
    "NotAccumulated",
    "NotReentrant",
    "Report",
    "TangentDtypeError",
    "TangentShapeError",
    "TangentValueError",
    "check_jvp",
    "check_second_order",
    "check_vjp",
    "gradcheck",
]
