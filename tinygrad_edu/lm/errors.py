"""What can go wrong with a run. Each says what was given, what was expected, what to do."""

from __future__ import annotations


class ConfigError(ValueError):
    """An option that does not exist, or a value it cannot have."""


class TextError(ValueError):
    """A text that cannot be learnt from with these options."""


class RunError(ValueError):
    """A run folder that is missing, taken, incomplete or does not fit."""


class ConversationError(ValueError):
    """Conversations that cannot be read or learnt from; file and line are named."""


class SamplingError(ValueError):
    """A request for new text that cannot be met."""


class DivergenceError(FloatingPointError):
    """Training produced a number that is not finite, and stopped; the last checkpoint is kept.

    What is not known (a loss, where it was the text written for a sample that failed) is None.

    Attributes:
        step: updates made.
        learning_rate: of the update that could not be made, or of the last one made, where what
            came after it showed that it should not have been.
        gradient_norm: of the same update; it may itself be nan or inf.
        loss: what was found instead of a number.
    """

    def __init__(
        self,
        message: str,
        *,
        step: int,
        learning_rate: float,
        gradient_norm: float | None,
        loss: float | None,
    ) -> None:
        super().__init__(message)
        self.step = step
        self.learning_rate = learning_rate
        self.gradient_norm = gradient_norm
        self.loss = loss
