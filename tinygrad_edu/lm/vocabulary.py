"""Ids that stand for nothing: a model may have more rows than its tokenizer has tokens (a size that
was rounded up), and a tokenizer of others may leave ids out between its own. They are never
written, and where one has to be shown it has a name.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tinygrad_edu import text
from tinygrad_edu.lm.sampling import Ids, Logits, Predict

__all__ = ["bytes_of", "token_lengths", "written_by"]

_NEVER = -1e300
"""A logit, finite as they have to be, whose probability is 0 beside any other."""


def unused(tokenizer: text.Tokenizer) -> list[int]:
    """The ids below `vocab_size` that are no token's."""
    if not isinstance(tokenizer, text.BPETokenizer) or tokenizer.ids is None:
        return []
    used = {*tokenizer.numbers, *tokenizer.special_tokens.values()}
    return [i for i in range(tokenizer.vocab_size) if i not in used]


def bytes_of(tokenizer: text.Tokenizer, token: int) -> bytes | None:
    """The bytes of a token; None where the id stands for nothing."""
    try:
        return tokenizer.token_bytes(token)
    except text.TokenizerError:
        return None


def token_lengths(tokenizer: text.Tokenizer) -> NDArray[np.int64]:
    """(V,): how many bytes each token is, in UTF-8; 0 where an id stands for nothing."""
    every = (bytes_of(tokenizer, i) for i in range(tokenizer.vocab_size))
    return np.array([len(piece or b"") for piece in every], np.int64)


def written_by(predict: Predict, tokenizer: text.Tokenizer) -> Predict:
    """Ids (B, T) to the logits (B, V) of the next token, V being the tokenizer's, with those that
    stand for nothing out of reach.
    """
    size, never = tokenizer.vocab_size, unused(tokenizer)

    def limited(ids: Ids) -> Logits:
        logits = predict(ids)[:, :size]
        if never:
            logits = np.array(logits, np.float64)
            logits[:, never] = _NEVER
        return logits

    return limited
