"""The errors of the engine. Each says in a sentence what was given, what was expected, what to
do.
"""

from __future__ import annotations


class ShapeError(ValueError):
    """Shapes that do not fit together; the message names the operation and both shapes."""


class DTypeError(TypeError):
    """A dtype that an operation cannot take, such as the gradient of integers."""


class GraphError(RuntimeError):
    """A backward pass that cannot run: no seed, nothing tracked, or a graph already freed."""


class MutationError(GraphError):
    """Data that a gradient rule needs was changed between the forward and the backward pass."""


class AnomalyError(FloatingPointError):
    """The first NaN or inf found under `detect_anomaly()`."""


class DeviceError(TypeError):
    """Arrays of two array libraries in one operation."""


class ProfileError(RuntimeError):
    """A profile that cannot be opened, as one is open already."""
