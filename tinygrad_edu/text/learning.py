"""A vocabulary learnt from a text of any size: its symbols, or the merges of byte-level BPE."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tinygrad_edu.text.bpe import BPETokenizer
from tinygrad_edu.text.bpe_training import train_bpe
from tinygrad_edu.text.characters import CharTokenizer
from tinygrad_edu.text.cutting import blocks
from tinygrad_edu.text.tokenizers import Tokenizer

__all__ = ["Learnt", "learn"]

Documents = Callable[[], Iterable[Iterable[str]]]


@dataclass(frozen=True, slots=True)
class Learnt:
    """A tokenizer, and the digest of the text that it was learnt from, if it was."""

    tokenizer: Tokenizer
    text_sha256: str | None


def learn(
    documents: Documents, bpe: bool, vocab_size: int, held_out: float, separator: str,
    at: Callable[[int], object], block: int,
) -> Learnt:  # fmt: skip
    """The symbols of a text, or byte-level BPE of all but its end.

    The text is read once for its symbols; for BPE a second time, when it is known where the part
    begins that is held out.

    Args:
        documents: gives the pieces of each document, every time it is called.
        bpe: whether merges are wanted, or symbols.
        vocab_size: tokens that BPE learns.
        held_out: the share of the characters, at the end, that BPE does not learn from.
        separator: stands behind each document; "" for nothing. A special token of BPE.
        at: told how many bytes have been read.
        block: characters that are looked at at a time.
    """
    digest, characters, size = hashlib.sha256(), 0, 0
    symbols: set[str] = set()
    for document in documents():
        for piece in _followed(document, separator):
            data = piece.encode("utf-8")
            digest.update(data)
            characters, size = characters + len(piece), size + len(data)
            if not bpe:
                symbols |= set(CharTokenizer.from_text(piece).symbols)
            at(size)
    if not bpe:
        return Learnt(CharTokenizer(sorted(symbols)), digest.hexdigest())
    wanted = characters - int(characters * held_out)
    special = [separator] if separator else []
    texts = _first(documents(), wanted, len(separator), block)
    learned = train_bpe(texts, vocab_size, special_tokens=special)
    if learned.reason == "interrupted":
        raise KeyboardInterrupt
    return Learnt(learned.tokenizer, digest.hexdigest())


def _followed(pieces: Iterable[str], separator: str) -> Iterator[str]:
    yield from pieces
    if separator:
        yield separator


def _first(
    documents: Iterable[Iterable[str]], wanted: int, between: int, block: int
) -> Iterator[str]:
    """The first characters of a text, in blocks that are cut where no chunk is."""
    splitter = BPETokenizer(())
    left = wanted

    def cut(pieces: Iterable[str]) -> Iterator[str]:
        nonlocal left
        for piece in pieces:
            part = piece[:left]
            left -= len(part)
            if part:
                yield part
            if left <= 0:
                return

    for document in documents:
        yield from (text for text, _ in blocks(splitter, cut(document), block))
        left -= between
        if left <= 0:
            return
