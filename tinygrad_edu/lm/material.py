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
from tinygrad_edu.lm.epochs import Epochs
from tinygrad_edu.lm.errors import TextError
from tinygrad_edu.lm.lessons import Lessons, Windows
from tinygrad_edu.lm.vocabulary import token_lengths


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

    def lessons(self, config: TrainConfig) -> Lessons:
        """What a run with these options learns from it."""
        if config.order == "epochs":
            return Epochs(self.split, config)
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
    if len(config.corpus) == 1 and text.is_prepared(config.corpus[0]):
        return prepared_material(config, tokenizer)
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
        token_bytes=token_lengths(tokenizer),
        source=corpus.source if isinstance(tokenizer, text.CharTokenizer) else None,
    )


def prepared_material(config: TrainConfig, tokenizer: text.Tokenizer | None = None) -> Material:
    """What `text.prepare` made, mapped into memory: its tokens are read where a batch needs them.

    They are read once from end to end before, for their digest, a piece at a time.

    Args:
        config: names the folder, and the share that is held out.
        tokenizer: of the run that goes on, which has to be the folder's.

    Raises:
        PreparationError, CorpusError: the folder is not finished, or damaged.
        TextError: another tokenizer was asked for, or more is held out than the folder's vocabulary
            was learnt without.
    """
    found = text.read_prepared(config.corpus[0])
    if config.tokenizer == "bpe" or (tokenizer is not None and tokenizer != found.tokenizer):
        raise TextError(
            f"{found.folder} holds tokens of its own tokenizer, {found.tokenizer!r}, and another "
            "one was asked for; leave --tokenizer out, or prepare the text with that one"
        )
    if config.tokenizer != "characters" and tokenizer is None:
        return prepared_material(config, text.load_tokenizer(config.tokenizer))
    if found.held_out is not None and config.validation_fraction > found.held_out:
        raise TextError(
            f"--validation-fraction {config.validation_fraction:g} holds out more than the "
            f"{found.held_out:g} that the vocabulary of {found.folder} was learnt without, so it "
            f"would have seen held-out text; give {found.held_out:g} or less, or prepare it again"
        )
    found.file.verify()
    return Material(
        name=found.name,
        characters=found.characters,
        sha256=found.file.header.text.hex(),
        tokenizer=found.tokenizer,
        split=split_tokens(found.file.tokens, config.block_size, config.validation_fraction),
        opening=found.tokenizer.encode(opening(found.tokenizer))[0],
        token_bytes=token_lengths(found.tokenizer),
        source=(
            text.source_of(found.sources)
            if isinstance(found.tokenizer, text.CharTokenizer) else None
        ),
    )  # fmt: skip
