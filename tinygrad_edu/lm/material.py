"""A text made ready to learn from: read, its symbols learnt, turned into tokens, split in two."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from tinygrad_edu import text
from tinygrad_edu.lm.config import TrainConfig
from tinygrad_edu.lm.data import Split, split_tokens


@dataclass(frozen=True)
class Material:
    """A text made ready to learn from."""

    name: str
    characters: int
    sha256: str
    tokenizer: text.CharTokenizer
    split: Split
    opening: int
    """The token that samples go on from: a line break where the text has one, else its first."""


def read_material(config: TrainConfig) -> Material:
    """Read the corpus, learn its symbols, turn it into tokens, and hold out its end."""
    corpus = text.load_corpus(config.corpus)
    text.check_learnable(corpus)
    tokenizer = text.CharTokenizer.from_text(corpus.text)
    tokens = tokenizer.encode_array(corpus.text)
    opening = "\n" if "\n" in tokenizer.symbols else corpus.text[0]
    return Material(
        name=corpus.name,
        characters=len(corpus.text),
        sha256=hashlib.sha256(corpus.text.encode("utf-8")).hexdigest(),
        tokenizer=tokenizer,
        split=split_tokens(tokens, config.block_size, config.validation_fraction),
        opening=tokenizer.encode(opening)[0],
    )
