"""Which tokens a step of training reads, and which the validation reads.

Both are pure functions. A training batch depends on the seed and the step only, so a resumed run
reads exactly what an uninterrupted one would have read, and evaluating more often changes nothing.
The validation reads the held-out part, each of its pairs once, in a fixed order; of a long one it
reads windows spread evenly over it, the same at every validation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_edu.lm.errors import TextError

Tokens = NDArray[np.int64]
Stored = NDArray[np.integer[Any]]
"""Tokens as they lie in memory or in a file; what is read of them for a batch becomes int64."""


@dataclass(frozen=True, slots=True)
class Split:
    """The tokens to train on, and those held out at the end of the text."""

    training: Stored
    validation: Stored


def split_tokens(tokens: Stored, block_size: int, validation_fraction: float) -> Split:
    """Hold out the last `validation_fraction` of the tokens (none where it is 0).

    By position and not at random: neighbouring windows share text, so a random split would let the
    model see the held-out part.

    Raises:
        TextError: the training part is shorter than one window, or the held-out part has no pair.
    """
    held_out = round(len(tokens) * validation_fraction)
    if validation_fraction > 0 and held_out < 2:
        raise TextError(
            f"the text has {len(tokens):,} tokens, of which a validation fraction of "
            f"{validation_fraction:g} holds out {held_out}, but it takes 2 to make a pair; give "
            "more text, a larger --validation-fraction, or 0 for no validation"
        )
    boundary = len(tokens) - held_out
    if boundary < block_size + 1:
        raise TextError(
            f"the text has {boundary:,} tokens to train on, but a block of {block_size} needs "
            f"{block_size + 1}; {_shorter_block(boundary)}"
        )
    return Split(tokens[:boundary], tokens[boundary:])


def _shorter_block(available: int) -> str:
    if available < 2:
        return "give more text"
    return f"give more text, or lower --block-size to {available - 1} or less"


def pairs(windows: Stored) -> tuple[Tokens, Tokens]:
    """(..., n) tokens as (..., n-1) inputs and (..., n-1) targets: each token predicts the next."""
    numbers: Tokens = np.asarray(windows, np.int64)
    return numbers[..., :-1], numbers[..., 1:]


def training_batch(
    tokens: Stored, *, block_size: int, batch_size: int, seed: int, step: int
) -> tuple[Tokens, Tokens]:
    """The inputs and targets, each (batch_size, block_size), of step number `step` (from 0).

    Windows start anywhere, with equal chance, and may overlap. There are
    `len(tokens) - block_size` places to start: the last window ends on the last token.
    """
    generator = stream(seed, "batches", step)
    starts = generator.integers(0, len(tokens) - block_size, size=batch_size)
    windows = tokens[starts[:, None] + np.arange(block_size + 1)]
    return pairs(windows)


@dataclass(frozen=True, slots=True)
class Windows:
    """What a validation reads of `length` tokens.

    Attributes:
        starts: where the windows of `block_size + 1` tokens begin.
        tail: where what is left at the end begins, a shorter window; `length` where nothing is.
        pairs: predictions in all of them.
    """

    starts: Tokens
    tail: int
    pairs: int


def validation_windows(length: int, block_size: int, max_pairs: int = 0) -> Windows:
    """Windows side by side without overlap, so that n tokens give n-1 pairs in all.

    Where that is more than `max_pairs` (0: no limit), as many whole windows as fit into it, at
    least one, spread evenly over the text.
    """
    whole = (length - 1) // block_size
    if not max_pairs or length - 1 <= max_pairs or not whole:
        return Windows(np.arange(whole) * block_size, whole * block_size, length - 1)
    kept = min(whole, max(1, max_pairs // block_size))
    starts = np.arange(kept) * whole // kept * block_size
    return Windows(starts, length, kept * block_size)


def validation_batches(
    tokens: Stored, *, block_size: int, batch_size: int, max_pairs: int = 0
) -> Iterator[tuple[Tokens, Tokens]]:
    """The pairs of `validation_windows`, each once, `batch_size` windows at a time.

    The last batch may hold fewer windows, and the last window may be shorter; whoever averages
    weighs by tokens.
    """
    windows = validation_windows(len(tokens), block_size, max_pairs)
    for first in range(0, len(windows.starts), batch_size):
        starts = windows.starts[first : first + batch_size]
        yield pairs(tokens[starts[:, None] + np.arange(block_size + 1)])
    tail = tokens[windows.tail :]
    if len(tail) > 1:
        yield pairs(tail[None, :])


STREAMS = ("weights", "batches", "dropout", "samples", "order")


def stream(
    seed: int, purpose: str, step: int = 0, worker: int = 0, turn: int = 0
) -> np.random.Generator:
    """The random numbers of one purpose at one step in one worker, of one of the parts that it
    takes in turn; all are independent.

    A run has no other random state: `(seed, step)` is all there is to save and restore.
    """
    entropy = stream_entropy(seed, purpose, step)
    if worker or turn:
        entropy += (worker, turn) if turn else (worker,)
    return np.random.default_rng(entropy)


def stream_entropy(seed: int, purpose: str, step: int) -> tuple[int, ...]:
    """What decides the random numbers of a purpose at a step."""
    return seed, STREAMS.index(purpose), step
