"""Predicts token after token without reading the text again: keys and values are kept.

A prediction needs the keys and values of all tokens before it, in every block, and those do not
depend on what follows. So a text that has grown by a token costs one row of every matrix product
and one row of scores, where reading it anew costs a row for each of its tokens.

Only a text that begins as the last one did can be gone on with. Once it is longer than the block
the window slides, its first token is gone, and what every other token has taken from that one goes
with it (not only its position): then the window is read anew, as without a cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_edu import nn
from tinygrad_edu.autograd import writes

if TYPE_CHECKING:
    from tinygrad_edu.lm.language_model import LanguageModel


class CachedPredictor:
    """Ids (B, T) -> logits (B, V) of the token after them: `model.next_logits`, to rounding.

    The memory for keys and values is allocated once for a batch of B rows, as long as the block.
    Whatever is written to any tensor in between (a training step, say) makes it start afresh.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._caches: list[nn.KeyValueCache] = []
        self._seen: NDArray[Any] = np.zeros((0, 0), dtype=np.int64)
        self._clock = writes.clock[0]

    def __call__(self, ids: NDArray[Any]) -> NDArray[Any]:
        """(B, T) -> (B, V).

        Raises:
            ShapeError: T is longer than the block, or there is none.
        """
        ids = np.array(ids)
        if self._caches and len(ids) == len(self._seen) and self._clock == writes.clock[0]:
            known = max(0, min(common_prefix(self._seen, ids), ids.shape[1] - 1))
        else:
            block, layers = self._model.config.block_size, self._model.config.num_layers
            self._caches = [nn.KeyValueCache(block) for _ in range(layers)]
            self._clock, known = writes.clock[0], 0
        for cache in self._caches:
            cache.truncate(known)
        self._seen = ids[:, :known]  # should the next line fail, no more than this is kept
        logits = self._model.continued_logits(ids[:, known:], self._caches)
        self._seen = ids
        return logits


def common_prefix(a: NDArray[Any], b: NDArray[Any]) -> int:
    """How many of the first columns of ids (B, T) and (B, S) are the same in every row."""
    length = min(a.shape[1], b.shape[1])
    differs = (a[:, :length] != b[:, :length]).any(axis=0)
    return int(differs.argmax()) if differs.any() else length
