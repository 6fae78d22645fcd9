"""What a run is going to do, in numbers, known before the first step."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tinygrad_edu.lm.config import TrainConfig, worker_count
from tinygrad_edu.lm.data import validation_windows


@dataclass(frozen=True)
class Plan:
    """Shown before training; everything in it follows from the options and the text.

    Attributes:
        run: the run folder.
        text: the name of the corpus.
        characters: its length.
        symbols: V, the different tokens.
        training_tokens, validation_tokens: learnt from, and held out.
        parameters: numbers to be trained.
        allocator_tuned: whether glibc was told to keep freed memory.
        changed_rate: where a resumed run has other options than before that change it, the learning
            rate that its next step would have had, and the one it has.
    """

    config: TrainConfig
    run: Path
    text: str
    characters: int
    symbols: int
    training_tokens: int
    validation_tokens: int
    parameters: int
    allocator_tuned: bool
    changed_rate: tuple[float, float] | None = None

    @property
    def tokens_per_step(self) -> int:
        """Predictions that one update learns from."""
        return self.config.batch_size * self.config.block_size

    @property
    def steps_per_epoch(self) -> int:
        """Steps after which as many tokens have been read as there are to train on."""
        return max(1, round(self.training_tokens / self.tokens_per_step))

    @property
    def epochs(self) -> float:
        """How often the training text is read; windows are drawn at random, so on average."""
        return self.config.steps * self.tokens_per_step / self.training_tokens

    def lines(self) -> list[tuple[str, str]]:
        """The plan as (heading, sentence), each of which fits 80 columns where names are short."""
        config = self.config
        lines = [
            ("text", f"{self.text}: {self.characters:,} characters, {self.symbols} symbols"),
            (
                "tokens",
                f"{self.training_tokens:,} to train on, {self.validation_tokens:,} held out"
                + self._read_at_a_validation(),
            ),
            (
                "model",
                f"GPT of {self.parameters:,} parameters: {counted(config.num_layers, 'layer')}, "
                f"{counted(config.num_heads, 'head')}, {config.embed_dim} wide",
            ),
            (
                "step",
                f"{counted(config.batch_size, 'window')} of {config.block_size}: "
                f"{self.tokens_per_step:,} tokens; "
                f"{counted(self.steps_per_epoch, 'step')} an epoch",
            ),
            ("plan", f"{counted(config.steps, 'step')}: {self.epochs:.2f} epochs"),
        ]
        workers = worker_count(config)
        if workers > 1:
            lines.append(("threads", f"{workers} share each batch, with one BLAS thread each"))
        if self.changed_rate:
            before, now = self.changed_rate
            said = f"{now:.3g} now, not {before:.3g}: the schedule follows the new options"
            lines.append(("rate", said))
        if self.allocator_tuned:
            lines.append(("memory", "glibc keeps freed blocks for the next step (mallopt)"))
        lines.append(("run", str(self.run)))
        return lines

    def _read_at_a_validation(self) -> str:
        """How much of the held-out part, where it is not all of it."""
        config = self.config
        windows = validation_windows(
            self.validation_tokens, config.block_size, config.max_validation_tokens
        )
        partly = windows.pairs < self.validation_tokens - 1
        return f"; a validation reads {windows.pairs:,}" if partly else ""


def counted(number: int, noun: str) -> str:
    """`1 layer`, `4 layers`, `2,000 steps`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
