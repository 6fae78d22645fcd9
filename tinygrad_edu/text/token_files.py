"""Tokens in a file that is mapped into memory: of any size, and read only where it is looked at.

A header of 128 bytes, then the tokens; all numbers are little-endian:

    offset  bytes
         0      8   magic, b"tgtokens"
         8      4   version, 1
        12      4   bytes a token: 2 where the vocabulary has at most 65,536 tokens, else 4
        16      8   how many tokens follow
        24      8   vocabulary size
        32     32   SHA-256 of the tokenizer (`tokenizers.digest_of`)
        64     32   SHA-256 of the text, as UTF-8
        96     28   of the SHA-256 of the tokens' bytes, the first 28
       124      4   CRC-32 of the 124 bytes before

The tokens begin at a multiple of every alignment there is, and `numpy.memmap` or
`numpy.fromfile(path, "<u2", offset=128)` reads them without this program.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_edu.text.errors import CorpusError
from tinygrad_edu.text.tokenizers import Tokenizer, digest_of

__all__ = ["HEADER_BYTES", "Header", "TokenFile", "item_bytes", "open_tokens"]

MAGIC, VERSION = b"tgtokens", 1
_FIELDS = struct.Struct("<8sIIQQ32s32s28s")
HEADER_BYTES = _FIELDS.size + 4
_DTYPES = {2: "<u2", 4: "<u4"}
_AT_ONCE = 1 << 24


def item_bytes(vocab_size: int) -> int:
    """Bytes that a token takes: 2 where ids up to 65,535 are enough, else 4."""
    return 2 if vocab_size <= 1 << 16 else 4


@dataclass(frozen=True, slots=True)
class Header:
    """What a token file says of itself.

    Attributes:
        count: tokens.
        vocab_size: ids lie below it.
        tokenizer: SHA-256 of the tokenizer, 32 bytes.
        text: SHA-256 of the text, 32 bytes.
        tokens: the first 28 bytes of the SHA-256 of the tokens' bytes.
    """

    count: int
    vocab_size: int
    tokenizer: bytes
    text: bytes
    tokens: bytes

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the tokens, little-endian."""
        return np.dtype(_DTYPES[item_bytes(self.vocab_size)])

    def to_bytes(self) -> bytes:
        """As the file begins."""
        fields = _FIELDS.pack(
            MAGIC, VERSION, item_bytes(self.vocab_size), self.count, self.vocab_size,
            self.tokenizer, self.text, self.tokens[:28],
        )  # fmt: skip
        return fields + zlib.crc32(fields).to_bytes(4, "little")


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A token file that is mapped into memory.

    Attributes:
        tokens: (count,), uint16 or uint32, read-only; a slice of it is no copy.
    """

    path: Path
    header: Header
    tokens: NDArray[np.integer[Any]]

    def verify(self) -> None:
        """Read all tokens once, in bounded memory, and compare their digest.

        Raises:
            CorpusError: they are not the ones that were written.
        """
        digest = hashlib.sha256()
        with open(self.path, "rb") as file:
            file.seek(HEADER_BYTES)
            while data := file.read(_AT_ONCE):
                digest.update(data)
        if digest.digest()[:28] != self.header.tokens:
            raise CorpusError(
                f"the tokens in {self.path} are not those that were written, by their digest; "
                "the file is damaged: prepare the text again, into another folder"
            )


def open_tokens(path: str | Path, tokenizer: Tokenizer | None = None) -> TokenFile:
    """Map a token file into memory.

    Args:
        path: of the file.
        tokenizer: the one that its tokens are to be of.

    Raises:
        CorpusError: no token file, one of another version, one that is cut short or damaged, or
            one of another tokenizer.
    """
    path = Path(path)
    header = _read_header(path)
    expected = HEADER_BYTES + header.count * header.dtype.itemsize
    size = path.stat().st_size
    if size != expected:
        raise CorpusError(
            f"{path} holds {size:,} bytes, and its {header.count:,} tokens take {expected:,}; it "
            "was cut short or written to: prepare the text again, into another folder"
        )
    if tokenizer is not None and digest_of(tokenizer) != header.tokenizer:
        raise CorpusError(
            f"the tokens in {path} are of another vocabulary ({header.vocab_size:,} tokens) than "
            f"the tokenizer given ({tokenizer.vocab_size:,}); give the one that it was prepared "
            "with, or prepare the text again"
        )
    if not header.count:
        return TokenFile(path, header, np.zeros(0, header.dtype))
    tokens = np.memmap(path, header.dtype, "r", HEADER_BYTES, (header.count,))
    return TokenFile(path, header, tokens)


def _read_header(path: Path) -> Header:
    try:
        with open(path, "rb") as file:
            data = file.read(HEADER_BYTES)
    except OSError as error:
        raise CorpusError(
            f"the token file {path} cannot be read ({error.strerror or error})"
        ) from error
    if data[:8] != MAGIC:
        raise CorpusError(
            f"{path} is no token file: it begins with {data[:8]!r} and not with {MAGIC!r}; make "
            "one with `tinygrad-edu prepare`"
        )
    if len(data) < HEADER_BYTES:
        raise CorpusError(
            f"{path} is cut short: it has {len(data)} bytes of a header of {HEADER_BYTES}; prepare "
            "the text again"
        )
    version = int.from_bytes(data[8:12], "little")
    if version != VERSION:
        raise CorpusError(
            f"{path} is a token file of version {version}, and this program reads version "
            f"{VERSION}; prepare the text again, or use the release that wrote it"
        )
    if zlib.crc32(data[:-4]).to_bytes(4, "little") != data[-4:]:
        raise CorpusError(
            f"the header of {path} is damaged (its checksum is another); prepare the text again"
        )
    _, _, width, count, vocab_size, tokenizer, text, tokens = _FIELDS.unpack(data[:-4])
    if width != item_bytes(vocab_size):
        raise CorpusError(
            f"{path} has {width} bytes a token, and a vocabulary of {vocab_size:,} takes "
            f"{item_bytes(vocab_size)}; it was written by another program: prepare the text again"
        )
    return Header(count, vocab_size, tokenizer, text, tokens)
