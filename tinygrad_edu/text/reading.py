r"""A file's text piece by piece, in memory that does not grow with the file.

What a text is stands in `corpora`: UTF-8, decoded strictly, without a byte order mark, with `\n` at
line ends. The pieces together are the text whatever their size; where one ends means nothing.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from pathlib import Path

from tinygrad_edu.text.errors import CorpusError

__all__ = ["PIECE", "pieces_of"]

PIECE = 1 << 20
"""Bytes that are read at a time."""


def pieces_of(path: Path, size: int = PIECE) -> Iterator[str]:
    """The text of a file, from at most `size` bytes at a time; no piece is empty.

    Raises:
        CorpusError: a file that cannot be read, is empty, or is not UTF-8; the byte and its place
            are named.
    """
    try:
        with open(path, "rb") as file:
            yield from _decoded(path, file, size)
    except OSError as error:
        reason = error.strerror or str(error)
        raise CorpusError(f"{path} cannot be read ({reason}); give a file that can") from error


def _decoded(path: Path, file: io.BufferedReader, size: int) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")("strict")
    line_ends = io.IncrementalNewlineDecoder(None, translate=True)
    start, read, lines, empty = b"", 0, 0, True
    while True:
        data = file.read(size)
        start = start or data[:2]
        try:
            piece = line_ends.decode(decoder.decode(data, final=not data), final=not data)
        except UnicodeDecodeError as error:
            # The decoder looks at what it has kept back of a character, and at these bytes.
            offset = read + len(data) - len(error.object) + error.start
            line = lines + data.count(b"\n", 0, max(0, offset - read)) + 1
            byte = error.object[error.start]
            raise CorpusError(_not_utf8(path, start, offset, line, byte)) from error
        if piece:
            empty = False
            yield piece
        if not data:
            break
        read += len(data)
        lines += data.count(b"\n")
    if empty:
        raise CorpusError(f"{path} is empty; give a file with text in it")


def _not_utf8(path: Path, start: bytes, offset: int, line: int, byte: int) -> str:
    """The error for bytes that are not UTF-8, the first of which stands at `offset`."""
    if start in (b"\xff\xfe", b"\xfe\xff"):
        return (
            f"{path} is UTF-16, as its first two bytes say, and not UTF-8; convert it with "
            f"`iconv -f UTF-16 -t UTF-8 {path}`, or save it as UTF-8"
        )
    return (
        f"{path} is not UTF-8: byte {offset} (line {line}) is 0x{byte:02x}, which is "
        f"{chr(byte)!r} in Latin-1; if that is what it means, convert the file with "
        f"`iconv -f LATIN1 -t UTF-8 {path}`, or save it as UTF-8"
    )
