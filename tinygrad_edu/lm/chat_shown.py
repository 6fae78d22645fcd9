"""A conversation in tokens to look at: what is learnt, and what is only read."""

from __future__ import annotations

from itertools import groupby

import numpy as np
from rich.text import Text

from tinygrad_edu import text
from tinygrad_edu.lm.chat_template import Rendered

OPEN, CLOSE = ">>", "<<"
"""Around what is learnt, so that it is seen without colours too."""


def shown(tokenizer: text.Tokenizer, example: Rendered) -> Text:
    """The text of an example, what is learnt in colour and between `OPEN` and `CLOSE`."""
    found = Text()
    numbers = range(len(example))
    for learnt, group in groupby(numbers, key=lambda i: bool(example.learnt[i])):
        piece = _visible(tokenizer.decode(example.ids[list(group)]))
        found.append(
            f"{OPEN}{piece}{CLOSE}" if learnt else piece, "bold green" if learnt else "dim"
        )
    return found


def share(example: Rendered) -> str:
    """`12 of 48 tokens are learnt (25.0 %)`."""
    count = int(np.count_nonzero(example.learnt))
    return f"{count} of {len(example)} tokens are learnt ({100 * count / len(example):.1f} %)"


def _visible(piece: str) -> str:
    """Controls, which a terminal would obey, replaced; line breaks stay."""
    hidden = "\N{REPLACEMENT CHARACTER}"
    return "".join(c if c == "\n" or c.isprintable() else hidden for c in piece)
