"""What can go wrong with a run. Each says what was given, what was expected, what to do."""

from __future__ import annotations


class ConfigError(ValueError):
    """An option that does not exist, or a value it cannot have."""


class TextError(ValueError):
    """A text that cannot be learnt from with these options."""


class RunError(ValueError):
    """A run folder that is missing, taken, incomplete or does not fit."""


class SamplingError(ValueError):
    """A request for new text that cannot be met."""


class DivergenceError(FloatingPointError):
    """Training produced a number that is not finite, and stopped before the weights took it in.

    Attributes:
        step: updates made before the one that failed.
        learning_rate: what that update would have used.
        gradient_norm: the norm of its gradient, which may itself be nan or inf.
        loss: the loss on its batch.
    """

    def __init__(
        self, message: str, *, step: int, learning_rate: float, gradient_norm: float, loss: float
    ) -> None:
        super().__init__(message)
        self.step = step
        self.learning_rate = learning_rate
        self.gradient_norm = gradient_norm
        self.loss = loss
