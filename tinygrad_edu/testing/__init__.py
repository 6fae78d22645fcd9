"""Checks of derivatives: for the operations here, and for the reader's own.

    from tinygrad_edu.testing import check_vjp, gradcheck

    gradcheck(lambda x: (x * x).sum(), [1.0, 2.0])
    check_vjp(tg.exp, [1.0], vjp=lambda g, x: g * x)    # a rule by hand: GradValueError

Tolerances are a number of roundings times the size of the terms that were added; there is no
absolute one, so that small gradients are judged like large ones. `strategies` (which needs
hypothesis, the extra of that name) draws shapes, indices, values and upstream gradients;
`given_gradcheck` makes a property test of a function in one line, `ghostwrite` a file of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygrad_edu.testing.checks import (
    check_adjoint,
    check_hessian,
    check_jvp,
    check_second_order,
    check_vjp,
)
from tinygrad_edu.testing.compare import Report
from tinygrad_edu.testing.errors import (
    AdjointMismatch,
    AliasedGradient,
    BackendMismatch,
    DerivativeError,
    GradConventionError,
    GradDtypeError,
    GradInf,
    GradMissing,
    GradNaN,
    GradNotLinear,
    GradShapeError,
    GradValueError,
    HessianAsymmetry,
    HessianValueError,
    LayoutDependent,
    MutatedCotangent,
    MutatedInput,
    NotAccumulated,
    NotDeterministic,
    NotReentrant,
    TangentDtypeError,
    TangentShapeError,
    TangentValueError,
    TaylorRateError,
)
from tinygrad_edu.testing.kinks import check_convention
from tinygrad_edu.testing.layout import check_backend, check_layout
from tinygrad_edu.testing.local import check_graph
from tinygrad_edu.testing.quick import gradcheck
from tinygrad_edu.testing.taylor import check_taylor

if TYPE_CHECKING:
    from tinygrad_edu.testing.properties import ghostwrite as ghostwrite
    from tinygrad_edu.testing.properties import given_gradcheck as given_gradcheck

__all__ = [
    "AdjointMismatch",
    "AliasedGradient",
    "BackendMismatch",
    "DerivativeError",
    "GradConventionError",
    "GradDtypeError",
    "GradInf",
    "GradMissing",
    "GradNaN",
    "GradNotLinear",
    "GradShapeError",
    "GradValueError",
    "HessianAsymmetry",
    "HessianValueError",
    "LayoutDependent",
    "MutatedCotangent",
    "MutatedInput",
    "NotAccumulated",
    "NotDeterministic",
    "NotReentrant",
    "Report",
    "TangentDtypeError",
    "TangentShapeError",
    "TangentValueError",
    "TaylorRateError",
    "check_adjoint",
    "check_backend",
    "check_convention",
    "check_graph",
    "check_hessian",
    "check_jvp",
    "check_layout",
    "check_second_order",
    "check_taylor",
    "check_vjp",
    "gradcheck",
]  # and, where hypothesis is installed: ghostwrite, given_gradcheck


def __getattr__(name: str) -> Any:
    """What needs hypothesis is imported when it is first asked for."""
    if name in ("ghostwrite", "given_gradcheck"):
        try:
            from tinygrad_edu.testing import properties
        except ModuleNotFoundError as error:
            raise ImportError(
                f"{name} needs hypothesis: pip install 'tinygrad_edu[hypothesis]'"
            ) from error
        return getattr(properties, name)
    raise AttributeError(f"tinygrad_edu.testing has no {name!r}")
