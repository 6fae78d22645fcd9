"""The tokens of a text written one block after the other, behind those that are there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np

from tinygrad_edu.files import sync_folder
from tinygrad_edu.text.bpe import BPETokenizer
from tinygrad_edu.text.corpora import CorpusStream, refuse_one_symbol
from tinygrad_edu.text.cutting import blocks
from tinygrad_edu.text.errors import PreparationError, TokenizerError
from tinygrad_edu.text.journal import Entry, Journal, Partial
from tinygrad_edu.text.learning import Learnt
from tinygrad_edu.text.token_files import Header
from tinygrad_edu.text.tokenizers import digest_of

__all__ = ["PARTIAL", "TOKENS", "Clock", "Progress", "Reader", "TokenWriter", "Told", "Watch"]

TOKENS, PARTIAL = "tokens.bin", "tokens.bin.partial"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a preparation is.

    Attributes:
        doing: "learning the vocabulary", "reading again what was done" or "encoding".
        share: of the text, from 0 to 1.
        tokens: written.
        seconds: since this stage began.
        left: seconds that the rest of it will take, at this pace; None where it is not known.
    """

    doing: str
    share: float
    tokens: int
    seconds: float
    left: float | None


Told = Callable[[Progress], None]
Clock = Callable[[], float]


class Watch:
    """Says how far it is, with the time left at the pace of this stage."""

    def __init__(self, told: Told | None, total: int, clock: Clock) -> None:
        self.told, self.total, self.clock = told, max(1, total), clock
        self.tokens = 0
        self.begin("", 0)

    def begin(self, doing: str, done: int) -> None:
        """Begin a stage, where `done` bytes are done already."""
        self.doing, self.first, self.started = doing, done, self.clock()

    def at(self, done: int, of: float = 1.0) -> None:
        """`done` bytes of the text; `of` is the share of it that this stage reads."""
        if self.told is None:
            return
        seconds = self.clock() - self.started
        whole = max(1.0, of * self.total)
        made, rest = done - self.first, max(0.0, whole - done)
        left = seconds * rest / made if made > 0 else None
        self.told(Progress(self.doing, min(1.0, done / whole), self.tokens, seconds, left))


class Reader:
    """The documents as they are encoded: one of all texts joined, or each followed by a token."""

    def __init__(self, stream: CorpusStream, separator: str, size: int) -> None:
        self.stream, self.separator, self.size = stream, separator, size

    def documents(self) -> Iterator[Iterator[str]]:
        """The pieces of each, from the first on."""
        if self.separator:
            return self.stream.documents(self.size, apart=True)
        return iter((chain.from_iterable(self.stream.documents(self.size)),))


class TokenWriter:
    """Goes on where the journal of a folder stands, to the end of the text."""

    def __init__(
        self, folder: Path, journal: Journal, reader: Reader, learnt: Learnt, watch: Watch,
        block: int, pause: float,
    ) -> None:  # fmt: skip
        self.folder, self.journal, self.reader = folder, journal, reader
        self.learnt, self.tokenizer = learnt, learnt.tokenizer
        self.watch, self.block, self.pause = watch, block, pause
        self.header = Header(
            0, self.tokenizer.vocab_size, digest_of(self.tokenizer), b"", b""
        )
        partial, final = folder / PARTIAL, folder / TOKENS
        if final.exists() and not partial.exists():
            final.replace(partial)  # it had its name, and the manifest was not written yet
        width = self.header.dtype.itemsize
        self.partial = Partial(partial, journal.entries(), width)
        self.entry = self.partial.entry
        journal.restart(self.entry)
        self.text = hashlib.sha256()
        self.read_bytes, self.symbol, self.varied = 0, "", False

    def run(self) -> tuple[Entry, Header]:
        """Write what is missing; where the text ends, and the header."""
        start = self.entry
        documents = enumerate(self.reader.documents())
        if start.characters:
            self.watch.begin("reading again what was done", 0)
        noted = self.watch.clock()
        for number, pieces in documents:
            rest = self._read_again(start, number, pieces)
            if number < start.document:
                continue
            if self.watch.doing != "encoding":
                self.watch.begin("encoding", start.bytes)
            for text, chunks in blocks(self.tokenizer, rest, self.block):
                self._add(text, self._encoded(text, chunks))
                if self.watch.clock() - noted >= self.pause:
                    self._note()
                    noted = self.watch.clock()
            self._end_document()
        if self.entry == start:
            self._check_unchanged(start)
        return self._end()

    def _read_again(self, start: Entry, number: int, pieces: Iterator[str]) -> Iterator[str]:
        """Read what is done of a document; the rest of it.

        Raises:
            PreparationError: it is not what was read before.
        """
        if number > start.document:
            return pieces
        left = start.inside if number == start.document else None
        held = ""
        while left is None or left > 0:
            piece = next(pieces, None)
            if piece is None:
                break
            part = piece if left is None else piece[:left]
            self._hash(part)
            if left is not None:
                left -= len(part)
                held = piece[len(part) :]
            self.watch.at(self.read_bytes, start.bytes / self.watch.total)
        if number < start.document:
            self._hash(self.reader.separator)
            return pieces
        self._check_unchanged(start)
        return chain((held,) if held else (), pieces)

    def _check_unchanged(self, start: Entry) -> None:
        if self.text.hexdigest() != start.text_sha256:
            raise PreparationError(
                f"the text has changed since the preparation in {self.folder} was begun: what was "
                "read of it then is not what is there now; restore it, or give another --output"
            )

    def _hash(self, text: str) -> int:
        data = text.encode("utf-8")
        self.text.update(data)
        self.read_bytes += len(data)
        self.symbol = self.symbol or text[:1]
        self.varied = self.varied or text.count(self.symbol) != len(text)
        return len(data)

    def _encoded(self, text: str, chunks: Sequence[str]) -> bytes:
        tokenizer = self.tokenizer
        try:
            ids = (
                np.array(tokenizer.encode_chunks(chunks), np.int64)
                if isinstance(tokenizer, BPETokenizer) else tokenizer.encode_array(text)
            )  # fmt: skip
        except TokenizerError as error:
            raise TokenizerError(
                f"in the part of the text that begins behind {self.entry.characters:,} "
                f"characters, {error}"
            ) from error
        return ids.astype(self.header.dtype).tobytes()

    def _add(self, text: str, data: bytes) -> None:
        self.partial.add(data)
        size = self._hash(text)
        entry = self.entry
        self.entry = replace(
            entry,
            inside=entry.inside + len(text),
            characters=entry.characters + len(text),
            bytes=entry.bytes + size,
            tokens=entry.tokens + len(data) // self.header.dtype.itemsize,
        )
        self.watch.tokens = self.entry.tokens
        self.watch.at(self.entry.bytes)

    def _end_document(self) -> None:
        separator = self.reader.separator
        if separator and isinstance(self.tokenizer, BPETokenizer):
            ids = np.array([self.tokenizer.special_tokens[separator]], self.header.dtype)
            self._add(separator, ids.tobytes())
        self.entry = replace(self.entry, document=self.entry.document + 1, inside=0)

    def _note(self) -> None:
        """Have all this on the disk, and in the journal."""
        self.entry = replace(
            self.entry,
            text_sha256=self.text.hexdigest(),
            tokens_sha256=self.partial.digest.hexdigest(),
        )
        self.partial.sync()
        self.journal.add(self.entry)

    def _end(self) -> tuple[Entry, Header]:
        if not self.varied:
            refuse_one_symbol(self.reader.stream.name, self.entry.characters, self.symbol)
        self._note()
        if self.learnt.text_sha256 not in (None, self.entry.text_sha256):
            raise PreparationError(
                f"the text has changed since the vocabulary in {self.folder} was learnt from it; "
                "give another --output to begin anew"
            )
        header = replace(
            self.header,
            count=self.entry.tokens,
            text=self.text.digest(),
            tokens=self.partial.digest.digest(),
        )
        self.partial.finish(header.to_bytes(), self.folder / TOKENS)
        sync_folder(self.folder)
        return self.entry, header
