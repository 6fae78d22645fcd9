"""How well a model predicts a text: nats a token, perplexity, bits a byte.

Each token but the first is scored exactly once. What it is predicted from is the *context rule*:
windows as long as the block, each of which scores the `stride` tokens that the one before has not.

    stride = block    side by side: the first tokens of a window see little (the default; fastest)
    stride = 1        every token sees a whole block, where the text has one before it (slowest)

The last window ends on the last token and reaches back a whole block, whatever is new in it. These
are the rolling windows of EleutherAI's lm-eval, with context length block - stride + 1; it also
scores the first token, given its end-of-text token.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tinygrad_edu.lm.data import Tokens
from tinygrad_edu.lm.errors import TextError
from tinygrad_edu.lm.evaluation import Evaluation, evaluate_batches
from tinygrad_edu.lm.lessons import IGNORED, Batch
from tinygrad_edu.lm.trained import Trained

LOGITS_AT_ONCE = 1 << 22
"""Numbers that the logits of a batch may hold where nobody says how large it is: 16 MiB."""
MOST_WINDOWS = 64
"""Windows in such a batch at most: more are no faster."""


@dataclass(frozen=True, slots=True)
class Window:
    """Its targets are the tokens `start` to `end` - 1, of which those from `scored` on count."""

    start: int
    scored: int
    end: int


def scored_windows(length: int, block_size: int, stride: int = 0) -> list[Window]:
    """The windows over `length` tokens; together they score the targets 1 to length - 1, each once.

    All are as long as the first.

    Raises:
        TextError: a stride beyond 1 to `block_size` (0 stands for that), or fewer than two tokens.
    """
    stride = stride or block_size
    if not 1 <= stride <= block_size:
        raise TextError(
            f"the stride is {stride}; it must be 1 to {block_size}, the model's block: beyond it "
            "tokens would go unscored"
        )
    if length < 2:
        raise TextError(
            f"the text has {length} of the 2 tokens that it takes to predict one from another; "
            "give a longer text"
        )
    span = min(block_size, length - 1)
    windows = [Window(1, 1, span + 1)]
    while (scored := windows[-1].end) < length:
        end = min(scored + stride, length)
        windows.append(Window(end - span, scored, end))
    return windows


def scored_batches(
    tokens: Tokens, block_size: int, stride: int, batch_size: int
) -> Iterator[Batch]:
    """Ids and targets (B, T) of `scored_windows`; those that another window scores are IGNORED."""
    windows = scored_windows(len(tokens), block_size, stride)
    for first in range(0, len(windows), batch_size):
        some = windows[first : first + batch_size]
        starts = np.array([window.start for window in some])[:, None]
        places = starts + np.arange(some[0].end - some[0].start)
        scored = np.array([window.scored for window in some])[:, None]
        yield tokens[places - 1], np.where(places >= scored, tokens[places], IGNORED)


def score(trained: Trained, text: str, *, stride: int = 0, batch_size: int = 0) -> Evaluation:
    """What a model thinks of a text; `bytes` are those of the scored tokens, in UTF-8.

    Up to rounding the result does not depend on `batch_size`, the windows that are read at a time;
    0 chooses as many as fit into a little memory.

    Raises:
        TokenizerError: symbols that the model never saw; they are named.
        TextError: fewer than two tokens, a stride or batch size out of range.
    """
    if batch_size < 0:
        raise TextError(f"the batch size is {batch_size}; it must be 1 or more, or 0 to choose one")
    tokens = trained.tokenizer.encode_array(text)
    block = trained.config.block_size
    if not batch_size:
        fitting = LOGITS_AT_ONCE // (block * trained.model.config.vocab_size)
        batch_size = min(max(1, fitting), MOST_WINDOWS)
    batches = scored_batches(tokens, block, stride, batch_size)
    return evaluate_batches(trained.model, batches, token_bytes=trained.token_bytes())


def together(parts: list[Evaluation]) -> Evaluation:
    """Of several texts, each token weighing the same."""
    tokens = sum(part.tokens for part in parts)
    loss = sum(part.loss * part.tokens for part in parts) / tokens
    return Evaluation(loss, tokens, sum(part.bytes or 0 for part in parts))
