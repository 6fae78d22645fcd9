"""A text made ready to learn from: read, its symbols learnt, turned into tokens, split in two."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tinygrad_edu import text
from tinygrad_edu.lm.config import TrainConfig
from tinygrad_edu.lm.data import Split, split_tokens
from tinygrad_edu.lm.lessons import Windows


class Source(Protocol):
    """What a text was drawn from, where its probabilities are known (`text.Grammar`)."""

    def losses(self, windows: Sequence[str]) -> NDArray[np.float64]:
        """B windows of T+1 symbols -> (B, T): -ln of each next one's true probability, in nats."""
        ...


@dataclass(frozen=True)
class Material:
    """A text made ready to learn from.

    Attributes:
        token_bytes: (V,), the bytes of each symbol in UTF-8.
        source: what drew the text; None where nobody knows.
    """

    name: str
    characters: int
    sha256: str
    tokenizer: text.Tokenizer
    split: Split
    opening: int
    """The id of the symbol that samples go on from."""
    token_bytes: NDArray[np.int64]
    source: Source | None = None

    def lessons(self, config: TrainConfig) -> Windows:
        """What a run with these options learns from it."""
        return Windows(self.split, config)


def anchored(corpus: tuple[str, ...]) -> tuple[str, ...]:
    """The same texts, as a config names them that may be read from another directory."""
    known = text.corpus_names()
    return tuple(source if source in known else str(Path(source).absolute()) for source in corpus)


def opening(tokenizer: text.Tokenizer) -> str:
    """The symbol from which a text begins: a line break, or the first by code point without it."""
    if isinstance(tokenizer, text.BPETokenizer):
        return "\n"
    return "\n" if "\n" in tokenizer.symbols else tokenizer.symbols[0]


def tokenizer_for(config: TrainConfig, corpus: str) -> text.Tokenizer:
    """The tokenizer that a config names; one that is learnt sees no held-out text.

    Raises:
        TokenizerError: the file that it names is none.
    """
    if config.tokenizer == "characters":
        return text.CharTokenizer.from_text(corpus)
    if config.tokenizer == "bpe":
        training = corpus[: len(corpus) - int(len(corpus) * config.validation_fraction)]
        return text.train_bpe(training, config.vocab_size).tokenizer
    return text.load_tokenizer(config.tokenizer)


def read_material(config: TrainConfig, tokenizer: text.Tokenizer | None = None) -> Material:
    """Read the corpus, turn it into tokens, and hold out its end.

    Args:
        config: names the corpus and the tokenizer.
        tokenizer: takes the place of the one that the config names.
    """
    corpus = text.load_corpus(config.corpus)
    text.check_learnable(corpus)
    tokenizer = tokenizer or tokenizer_for(config, corpus.text)
    tokens = tokenizer.encode_array(corpus.text)
    return Material(
        name=corpus.name,
        characters=len(corpus.text),
        sha256=hashlib.sha256(corpus.text.encode("utf-8")).hexdigest(),
        tokenizer=tokenizer,
        split=split_tokens(tokens, config.block_size, config.validation_fraction),
        opening=tokenizer.encode(opening(tokenizer))[0],
        token_bytes=np.array(
            [len(tokenizer.token_bytes(i)) for i in range(tokenizer.vocab_size)]
        ),
        source=corpus.source if isinstance(tokenizer, text.CharTokenizer) else None,
    )
