"""What can be wrong with a derivative: one class a kind.

Each is raised at a line of its own, so that hypothesis, which tells failures apart by class and
line, never shrinks one kind into another.
"""

# The names say the finding; all are AssertionErrors by their base.
# ruff: noqa: N818

from __future__ import annotations


class DerivativeError(AssertionError):
    """A derivative check failed; the subclass says how."""


class GradShapeError(DerivativeError):
    """A gradient whose shape is not its input's."""


class GradDtypeError(DerivativeError):
    """A gradient whose dtype is not its input's."""


class GradMissing(DerivativeError):
    """No gradient arrives where the output depends on the input."""


class GradNaN(DerivativeError):
    """A NaN gradient at a point where inputs, output and upstream gradient are finite."""


class GradInf(DerivativeError):
    """An infinite gradient at a point where inputs, output and upstream gradient are finite."""


class GradNotLinear(DerivativeError):
    """A gradient that is not linear in the upstream gradient."""


class GradValueError(DerivativeError):
    """A gradient whose numbers are wrong."""


class TangentShapeError(DerivativeError):
    """A tangent whose shape is not the output's."""


class TangentDtypeError(DerivativeError):
    """A tangent whose dtype is not the output's."""


class TangentValueError(DerivativeError):
    """A tangent (jvp) whose numbers are wrong."""


class AdjointMismatch(DerivativeError):
    """⟨g, J u⟩ and ⟨Jᵀ g, u⟩ differ: jvp and vjp belong to different functions."""


class HessianValueError(DerivativeError):
    """A second derivative whose numbers are wrong."""


class HessianAsymmetry(DerivativeError):
    """⟨u, H v⟩ and ⟨v, H u⟩ differ."""


class MutatedInput(DerivativeError):
    """An input was written to by the forward or the backward pass."""


class MutatedCotangent(DerivativeError):
    """The upstream gradient was written to by the backward pass."""


class AliasedGradient(DerivativeError):
    """Gradients share memory with each other, an input or g: writing to one changes the other."""


class NotReentrant(DerivativeError):
    """The same call gives another answer the second time."""


class NotAccumulated(DerivativeError):
    """A second backward pass does not add to the gradient of a leaf."""


class NotDeterministic(DerivativeError):
    """The function gives another value for the same input the second time."""


class GradConventionError(DerivativeError):
    """At a kink, another gradient than the one that was chosen there."""


class TaylorRateError(DerivativeError):
    """What a change leaves after its linear part does not shrink with the square of the step."""


class LayoutDependent(DerivativeError):
    """The gradient depends on how an array lies in memory."""


class BackendMismatch(DerivativeError):
    """Two array libraries give different gradients."""
