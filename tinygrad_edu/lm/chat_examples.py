"""Conversations as examples to learn from: cut to the block, told apart, split in two, in batches.

A model that reads `block_size` tokens learns from `block_size + 1`: of a longer conversation the
first so many are kept. Where none of these is learnt, the example is left out, and counted; so are
those with a symbol that the vocabulary lacks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tinygrad_edu import text
from tinygrad_edu.lm.chat_template import Rendered, check_content, render
from tinygrad_edu.lm.conversations import Conversation
from tinygrad_edu.lm.data import stream
from tinygrad_edu.lm.errors import ConversationError
from tinygrad_edu.lm.lessons import IGNORED, Batch


@dataclass(frozen=True, slots=True)
class Example:
    """A conversation, and what is kept of its tokens."""

    conversation: Conversation
    kept: Rendered

    @property
    def digest(self) -> str:
        """Of what is read and learnt: equal for examples that a model cannot tell apart."""
        both = self.kept.ids.tobytes() + self.kept.learnt.tobytes()
        return hashlib.sha256(both).hexdigest()

    @property
    def targets(self) -> int:
        """How many tokens are learnt. (The first of all is read only: nothing comes before it.)"""
        return int(np.count_nonzero(self.kept.learnt[1:]))


@dataclass(frozen=True, slots=True)
class Examples:
    """All that can be learnt from.

    Attributes:
        found: the examples, in the order of the files.
        cut: how many of them lost their end.
        remarks: a sentence on each kind that was left out.
    """

    found: tuple[Example, ...]
    cut: int
    remarks: tuple[str, ...]


def examples_of(
    rows: Sequence[Conversation], tokenizer: text.Tokenizer, block_size: int
) -> Examples:
    """Write conversations in tokens, and keep those that something is left to learn of.

    Raises:
        ConversationError: none is left, or a text has a line that is a marker.
    """
    found, unknown, without, cut = [], [], 0, 0
    for row in rows:
        for message in row.messages:
            check_content(message.content, row.place)
        try:
            whole = render(tokenizer, row.messages, row.place)
        except text.TokenizerError as error:
            unknown.append(f"{row.place}: {error}")
            continue
        kept = Rendered(whole.ids[: block_size + 1], whole.learnt[: block_size + 1])
        example = Example(row, kept)
        if not example.targets:
            without += 1
            continue
        cut += len(kept) < len(whole)
        found.append(example)
    remarks = []
    if unknown:
        remarks.append(
            f"{len(unknown):,} of {len(rows):,} examples have symbols that the vocabulary lacks, "
            f"and were left out; the first: {unknown[0]}"
        )
    if without:
        remarks.append(
            f"{without:,} of {len(rows):,} examples have no target token at block {block_size}, "
            "and were left out"
        )
    if not found:
        raise ConversationError(
            f"no example is left to learn from: {'; '.join(remarks)}; give shorter conversations, "
            "or a base model with a longer block"
        )
    if cut:
        remarks.append(
            f"{cut:,} of {len(found):,} examples are longer than the block: their first "
            f"{block_size + 1} tokens are kept"
        )
    return Examples(tuple(found), cut, tuple(remarks))


@dataclass(frozen=True, slots=True)
class Division:
    """Examples to train on, and those held out; no example is on both sides."""

    training: tuple[Example, ...]
    held_out: tuple[Example, ...]

    def __post_init__(self) -> None:
        both = {e.digest for e in self.training} & {e.digest for e in self.held_out}
        if both:
            raise AssertionError(f"{len(both)} examples are both trained on and held out")


def divide(examples: Sequence[Example], fraction: float) -> Division:
    """Hold out the share `fraction` of the different examples, chosen by their digests.

    So equal ones are on one side, wherever they stand. One at least is held out where the fraction
    is above 0, and one is left to train on.

    Raises:
        ConversationError: all examples are the same, so that none can be held out.
    """
    different = sorted({example.digest for example in examples})
    if fraction and len(different) < 2:
        raise ConversationError(
            "there is but one example to learn from, so none can be held out; give more, or "
            "--validation-fraction 0"
        )
    count = round(len(different) * fraction)
    chosen = set(different[: min(len(different) - 1, max(1, count)) if fraction else 0])
    return Division(
        tuple(e for e in examples if e.digest not in chosen),
        tuple(e for e in examples if e.digest in chosen),
    )


@dataclass(frozen=True, slots=True)
class Padded:
    """Batches of examples, each as wide as its longest, the others filled up behind their end.

    What is filled up is no target, and comes after all that is, so that it changes no prediction.
    In an epoch every example is read once, in an order drawn from the seed and the epoch's number.

    Attributes:
        division: the examples.
        rows: of a batch of a step, over all its parts.
        rows_held_out: of a batch of a validation.
        seed: of the order.
    """

    division: Division
    rows: int
    rows_held_out: int
    seed: int

    @property
    def training_targets(self) -> int:
        return sum(example.targets for example in self.division.training)

    @property
    def validation_targets(self) -> int:
        return sum(example.targets for example in self.division.held_out)

    def batch(self, step: int) -> Batch:
        """Row i of step s is number s·rows + i of the epochs one after the other."""
        training = self.division.training
        numbers = range(step * self.rows, (step + 1) * self.rows)
        orders = {
            epoch: stream(self.seed, "batches", epoch).permutation(len(training))
            for epoch in {number // len(training) for number in numbers}
        }
        return padded(
            [training[orders[n // len(training)][n % len(training)]].kept for n in numbers]
        )

    def held_out(self) -> Iterator[Batch]:
        held_out = self.division.held_out
        for first in range(0, len(held_out), self.rows_held_out):
            yield padded([e.kept for e in held_out[first : first + self.rows_held_out]])


def padded(rows: Sequence[Rendered]) -> Batch:
    """(B, T) ids and targets: at t the id at t+1 where that is learnt, else `IGNORED`."""
    width = max(map(len, rows)) - 1
    ids = np.zeros((len(rows), width), np.int64)
    targets = np.full((len(rows), width), IGNORED, np.int64)
    for number, row in enumerate(rows):
        ids[number, : len(row) - 1] = row.ids[:-1]
        targets[number, : len(row) - 1] = np.where(row.learnt[1:], row.ids[1:], IGNORED)
    return ids, targets
