"""What a fine-tuning run is going to do, in numbers, known before the first step."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tinygrad_edu.lm.finetune_config import FinetuneConfig
from tinygrad_edu.lm.machine import mebibytes
from tinygrad_edu.lm.plan import Plan, counted


@dataclass(frozen=True)
class FinetunePlan(Plan):
    """As `Plan`, for conversations.

    Attributes:
        examples: trained on, and held out.
        trained: numbers that learn; the others are frozen.
    """

    examples: tuple[int, int] = (0, 0)
    trained: int = 0

    @property
    def tokens_per_step(self) -> int:
        """Targets of a step, on average."""
        return max(1, round(self.training_tokens / self.steps_per_epoch))

    @property
    def steps_per_epoch(self) -> int:
        """Steps after which each example has been read once."""
        return max(1, -(-self.examples[0] // (self.config.batch_size * self.config.accumulate)))

    @property
    def epochs(self) -> float:
        """How often each example is read."""
        rows = self.config.batch_size * self.config.accumulate
        return self.config.steps * rows / self.examples[0]

    def lines(self) -> list[tuple[str, str]]:
        """The plan as (heading, sentence)."""
        config = self.config
        assert isinstance(config, FinetuneConfig)
        training, held_out = self.examples
        return [
            ("data", f"{self.text}: {training:,} examples to train on, {held_out:,} held out; none "
             "on both sides"),
            ("targets", f"{self.training_tokens:,} tokens of answers to train on, "
             f"{self.validation_tokens:,} held out"),
            ("base", f"{Path(config.base).name}: {config.model_name}, {self.frozen_text()}"),
            ("train", self._trained_text()),
            ("memory", self._memory_text()),
            ("plan", f"{counted(config.steps, 'step')} of {counted(config.batch_size, 'example')}"
             + (f" × {config.accumulate}" if config.accumulate > 1 else "")
             + f": {self.epochs:.2f} epochs"),
            ("cores", self._workers()),
            *self._rate(),
            *(("note", remark) for remark in self.remarks),
            ("run", str(self.run)),
        ]  # fmt: skip

    def frozen_text(self) -> str:
        """The numbers that stay as they are."""
        frozen = self.parameters - self.trained
        return f"{frozen:,} parameters frozen" if frozen else "all parameters learn"

    def _trained_text(self) -> str:
        share = 100 * self.trained / max(1, self.parameters)
        return (
            f"trainable parameters: {self.trained:,} of {self.parameters:,} ({share:.4f} %)"
        )

    def _memory_text(self) -> str:
        """A gradient and two averages of 4 bytes each for every number that learns."""
        own, full = 12 * self.trained, 12 * (self.parameters - self.adapters())
        text = f"gradients and AdamW take {mebibytes(own)}"
        return text if own == full else f"{text}; training all would take {mebibytes(full)}"

    def adapters(self) -> int:
        """Numbers that are in adapters and not in the base."""
        return self.trained if self.trained < self.parameters else 0
