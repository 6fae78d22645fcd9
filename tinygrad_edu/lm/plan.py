"""What a run is going to do, in numbers, known before the first step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tinygrad_edu.lm.config import TrainConfig
from tinygrad_edu.lm.cost import Cost
from tinygrad_edu.lm.data import validation_windows
from tinygrad_edu.lm.lessons import epoch_steps
from tinygrad_edu.lm.machine import mebibytes


@dataclass(frozen=True)
class Plan:
    """Shown before training; everything in it follows from the options and the text.

    Attributes:
        run: the run folder.
        text: the name of the corpus.
        characters: its length.
        symbols: V, the different tokens.
        training_tokens, validation_tokens: learnt from, and held out.
        groups: numbers to be trained, by the part of the model that they belong to.
        cost: in FLOPs and bytes, of a batch: a step adds up `config.accumulate` of them, one after
            the other.
        workers: how many share each batch, and of what kind, "threads" or "processes".
        blas: the library of the matrix products.
        allocator_tuned: whether glibc was told to keep freed memory.
        changed_rate: where a resumed run has other options than before that change it, the learning
            rate that its next step would have had, and the one it has.
        remarks: what else is to be known of a run that goes on.
    """

    config: TrainConfig
    run: Path
    text: str
    characters: int
    symbols: int
    training_tokens: int
    validation_tokens: int
    groups: Mapping[str, int]
    cost: Cost
    workers: tuple[int, str]
    blas: str
    allocator_tuned: bool
    changed_rate: tuple[float, float] | None = None
    remarks: tuple[str, ...] = ()

    @property
    def parameters(self) -> int:
        """Numbers to be trained, in all."""
        return sum(self.groups.values())

    @property
    def tokens_per_step(self) -> int:
        """Predictions that one update learns from."""
        return self.config.tokens_per_step

    @property
    def steps_per_epoch(self) -> int:
        """Steps after which as many tokens have been read as there are to train on."""
        if self.config.order == "epochs":
            return epoch_steps(self.config, self.training_tokens)
        return max(1, round(self.training_tokens / self.tokens_per_step))

    @property
    def epochs(self) -> float:
        """How often the training text is read; on average, where windows are drawn by chance."""
        if self.config.order == "epochs":
            return self.config.steps / self.steps_per_epoch
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
                f"{config.model_name} of {self.parameters:,} parameters: "
                f"{counted(config.num_layers, 'layer')}, {self._heads()}, {config.embed_dim} wide",
            ),
            *(("", part) for part in filled(f"{k} {n:,}" for k, n in self.groups.items())),
            (
                "step",
                self._batches() + f"{self.tokens_per_step:,} tokens; "
                f"{counted(self.steps_per_epoch, 'step')} an epoch",
            ),
            ("plan", self._planned()),
            ("FLOPs", self._flops()),
            ("memory", self._memory()),
            ("cores", self._workers()),
        ]
        lines += self._rate()
        lines += [("note", remark) for remark in self.remarks]
        if self.allocator_tuned:
            lines.append(("heap", "glibc keeps freed blocks for the next step (mallopt)"))
        lines.append(("run", str(self.run)))
        return lines

    def _heads(self) -> str:
        heads, shared = self.config.num_heads, self.config.num_kv_heads
        return counted(heads, "head") + (f" on {shared}" if 0 < shared < heads else "")

    def _batches(self) -> str:
        config = self.config
        one = f"{counted(config.batch_size, 'window')} of {config.block_size}"
        return f"{one}: " if config.accumulate == 1 else f"{config.accumulate} × {one}, added up: "

    def _planned(self) -> str:
        config = self.config
        if config.overfit_one_batch:
            return f"{counted(config.steps, 'step')}, all on the batch of the first"
        return f"{counted(config.steps, 'step')}: {self.epochs:.2f} epochs"

    def _flops(self) -> str:
        turns = self.config.accumulate
        forward, backward = turns * self.cost.forward_flops, turns * self.cost.backward_flops
        return (
            f"a step {scaled(forward)} forward, {scaled(backward)} backward "
            f"({backward / forward:.1f} ×); in all {scaled(self.flops)}"
        )

    @property
    def flops(self) -> int:
        """Of the matrix products of all steps."""
        return self.config.steps * self.step_flops

    @property
    def step_flops(self) -> int:
        """Of the matrix products of one step, over all batches that it adds up."""
        return self.config.accumulate * (self.cost.forward_flops + self.cost.backward_flops)

    def _memory(self) -> str:
        cost = self.cost
        return (
            f"weights {mebibytes(cost.weight_bytes)}, gradients {mebibytes(cost.gradient_bytes)}, "
            f"AdamW {mebibytes(cost.optimizer_bytes)}, "
            f"activations {mebibytes(cost.activation_bytes)}"
        )

    def _workers(self) -> str:
        count, kind = self.workers
        if count == 1:
            return f"one worker with one BLAS thread ({self.blas})"
        return f"{count} {kind} share a batch, one BLAS thread each ({self.blas})"

    def _rate(self) -> list[tuple[str, str]]:
        if not self.changed_rate:
            return []
        before, now = self.changed_rate
        return [("rate", f"{now:.3g} now, not {before:.3g}: the schedule follows the new options")]

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


def filled(parts: Iterable[str], width: int = 72) -> Iterator[str]:
    """Parts with commas between, in as few lines of at most `width` as they need."""
    line = ""
    for part in parts:
        if line and len(line) + len(part) + 3 > width:
            yield line + ","
            line = ""
        line += (", " if line else "") + part
    if line:
        yield line


def scaled(number: float) -> str:
    """`950`, `3.96 G`, `7.92 T`: three digits and a thousand's letter."""
    for letter in ("", "k", "M", "G", "T", "P"):
        if number < 999.5 or letter == "P":
            return f"{number:.3g} {letter}".rstrip()
        number /= 1000
    raise AssertionError("the last letter takes all")
