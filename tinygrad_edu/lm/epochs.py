"""Every token a target once before any is a target again: `--order epochs`.

An epoch cuts the n-1 pairs of the training part into windows side by side, and reads these in an
order of its own. The cut is moved from epoch to epoch, so that a token is not always met with the
same past, but only to places that need no window more; a first or last one is shorter, and is
filled up with targets that are `IGNORED`. An epoch ends with a batch of what is left, and its
targets weigh the same as any: the learner weighs by targets. So steps an epoch are always as many,
and the batch of a step is a pure function of (seed, step).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tinygrad_edu.lm.config import TrainConfig
from tinygrad_edu.lm.data import Split, Tokens, stream, stream_entropy, validation_batches
from tinygrad_edu.lm.lessons import IGNORED, Batch, epoch_steps
from tinygrad_edu.lm.shuffling import places


@dataclass(frozen=True, slots=True)
class Epochs:
    """`Lessons` of a token array, which may be a file mapped into memory.

    Attributes:
        split: the tokens to train on, and those held out.
        config: sizes, seed, and how much a validation reads.
    """

    split: Split
    config: TrainConfig

    @property
    def training_targets(self) -> int:
        """Pairs in the training part: each is read once an epoch."""
        return len(self.split.training) - 1

    @property
    def validation_targets(self) -> int:
        """Pairs in the held-out part, whatever a validation reads of it."""
        return max(0, len(self.split.validation) - 1)

    @property
    def windows(self) -> int:
        """In an epoch."""
        return -(-self.training_targets // self.config.block_size)

    def batch(self, step: int) -> Batch:
        """(batch_size · accumulate, block_size) ids and targets; in the last batch of an epoch as
        many rows as are left.
        """
        config = self.config
        epoch, turn = divmod(step, epoch_steps(config, self.training_targets))
        rows = config.batch_size * config.accumulate
        wanted = np.arange(turn * rows, min((turn + 1) * rows, self.windows))
        order = places(wanted, self.windows, stream_entropy(config.seed, "order", epoch))
        return self._read(order, self._offset(epoch))

    def _offset(self, epoch: int) -> int:
        """Pairs in the first window, if it is a shorter one; 0 where it is not.

        With n-1 = q·T + r, 0 < r, the windows are q+1 for 0 and for r, …, T-1 alike.
        """
        block = self.config.block_size
        rest = self.training_targets % block
        if not rest:
            return 0
        drawn = int(stream(self.config.seed, "order", epoch, 1).integers(0, block - rest + 1))
        return rest + drawn - 1 if drawn else 0

    def _read(self, order: Tokens, offset: int) -> Batch:
        block, pairs = self.config.block_size, self.training_targets
        starts = order * block + (offset - block if offset else 0)
        first, last = np.maximum(starts, 0), np.minimum(starts + block, pairs)
        places_in_text = first[:, None] + np.arange(block)
        real = places_in_text < last[:, None]
        places_in_text = np.minimum(places_in_text, pairs - 1)
        tokens = self.split.training
        ids = np.asarray(tokens[places_in_text], np.int64)
        targets = np.where(real, np.asarray(tokens[places_in_text + 1], np.int64), IGNORED)
        return ids, targets

    def held_out(self) -> Iterator[Batch]:
        """`data.validation_batches` of the held-out part."""
        config = self.config
        return validation_batches(
            self.split.validation,
            block_size=config.block_size,
            batch_size=config.batch_size,
            max_pairs=config.max_validation_tokens,
        )
