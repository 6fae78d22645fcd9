"""The simplest tokenizer: one token for each symbol of a text.

A symbol is a Unicode code point. The vocabulary is fixed when the tokenizer is made; over its
symbols nothing is lost, `decode(encode(s)) == s`, and a symbol outside it is an error, never a
placeholder.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_edu.files import write_atomically
from tinygrad_edu.text.errors import TokenizerError

FILE_TYPE = "characters"
FORMAT_VERSION = 1
_NAMED = 8
"""Unknown symbols that an error names, beside the first."""

# What typists write for what typesetters write; it finds a replacement for an unknown symbol.
_PLAIN = {
    "\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u00ab": '"', "\u00bb": '"',
    "\u2010": "-", "\u2011": "-", "\u2013": "-", "\u2014": "-", "\u2212": "-",
    "\u2026": ".", "\u00a0": " ", "\t": " ", "\r": "\n",
}  # fmt: skip


class CharTokenizer:
    """Symbols as tokens: the id of a symbol is its place in `symbols`.

    Args:
        symbols: each symbol once, in the order of the ids.

    Raises:
        TokenizerError: no symbols, one twice, one of several characters, or a lone surrogate.
    """

    def __init__(self, symbols: Iterable[str]) -> None:
        self._symbols = _checked_symbols(list(symbols))
        self._code_points = _code_points(self._symbols)
        # ids by code point; the last entry stands for everything above the largest one
        self._ids = np.full(int(self._code_points.max()) + 2, -1, dtype=np.int64)
        self._ids[self._code_points] = np.arange(len(self._symbols))

    @classmethod
    def from_text(cls, text: str) -> CharTokenizer:
        """The tokenizer of all symbols in `text`, sorted by code point.

        Raises:
            TokenizerError: `text` is empty or holds a lone surrogate.
        """
        if not text:
            raise TokenizerError(
                "a tokenizer was to be made from an empty text, which has no symbols; "
                "give the text that the model is to learn"
            )
        # not set(text): NumPy sorts ten million code points in the time Python hashes one million
        present = np.flatnonzero(np.bincount(_code_points(text)))
        return cls(map(chr, present.tolist()))

    @property
    def symbols(self) -> str:
        """All symbols, in the order of their ids."""
        return self._symbols

    @property
    def vocab_size(self) -> int:
        """The number of symbols; ids run from 0 to `vocab_size - 1`."""
        return len(self._symbols)

    def encode(self, text: str) -> list[int]:
        """The id of each symbol of `text`; see `encode_array`."""
        ids: list[int] = self.encode_array(text).tolist()
        return ids

    def encode_array(self, text: str) -> NDArray[np.int64]:
        """The ids of the symbols of `text`, shape (len(text),).

        Raises:
            TokenizerError: a symbol outside the vocabulary; the message says which and where, and
                what might stand in its place.
        """
        code_points = _code_points(text)
        ids = self._ids[np.minimum(code_points, len(self._ids) - 1)]
        unknown = ids < 0
        if unknown.any():
            raise TokenizerError(self._unknown_symbol(text, int(unknown.argmax())))
        return ids

    def decode(self, ids: Sequence[int] | NDArray[np.integer[Any]]) -> str:
        """The text of a sequence of ids, the inverse of `encode`.

        Raises:
            TokenizerError: not one flat sequence of integers, or an id outside the vocabulary.
        """
        array = np.asarray(ids)
        if array.ndim == 1 and array.size == 0:
            return ""
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise TokenizerError(
                f"decode was given an array of shape {array.shape} and dtype {array.dtype}; "
                "it takes one flat sequence of integer ids"
            )
        outside = (array < 0) | (array >= self.vocab_size)
        if outside.any():
            position = int(outside.argmax())
            raise TokenizerError(
                f"id {array[position]} at position {position} is not a token: this vocabulary of "
                f"{self.vocab_size} symbols has the ids 0 to {self.vocab_size - 1}; decode with "
                "the tokenizer that encoded the text"
            )
        data: bytes = self._code_points[array].tobytes()
        return data.decode("utf-32-le")

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one symbol, in UTF-8.

        Raises:
            TokenizerError: there is no such id.
        """
        return self.decode([token]).encode("utf-8")

    def stream(self) -> CharStream:
        """A decoder for ids that come one by one, as other tokenizers have it."""
        return CharStream(self)

    def save(self, path: str | Path) -> None:
        """Write the vocabulary to `path` as JSON; the file is whole or absent."""
        content = {"type": FILE_TYPE, "format_version": FORMAT_VERSION, "symbols": self._symbols}
        write_atomically(Path(path), json.dumps(content, ensure_ascii=False, indent=1) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> CharTokenizer:
        """The tokenizer that `save` wrote to `path`.

        Raises:
            TokenizerError: no such file, not JSON, another kind of tokenizer, or a newer format.
        """
        return cls(_read_symbols(Path(path)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CharTokenizer) and self._symbols == other._symbols

    def __hash__(self) -> int:
        return hash((FILE_TYPE, self._symbols))

    def __repr__(self) -> str:
        shown = self._symbols if self.vocab_size <= 24 else self._symbols[:23] + "…"
        return f"CharTokenizer({self.vocab_size} symbols: {shown!r})"

    def _unknown_symbol(self, text: str, position: int) -> str:
        symbol = text[position]
        line = text.count("\n", 0, position) + 1
        column = position - (text.rfind("\n", 0, position) + 1) + 1
        others = sorted(set(text) - set(self._symbols) - {symbol})
        nor = f", nor {_listed(others)}" if others else ""
        return (
            f"{_describe(symbol)} at position {position} (line {line}, column {column}) is not "
            f"among the {self.vocab_size} symbols of this tokenizer{nor}; {self._remedy(symbol)}"
        )

    def _remedy(self, symbol: str) -> str:
        if _is_surrogate(symbol):
            return _SURROGATE_REMEDY
        decomposed = unicodedata.normalize("NFKD", symbol)[0]
        candidates = (_PLAIN.get(symbol, ""), symbol.swapcase(), decomposed, decomposed.swapcase())
        for candidate in candidates:
            if len(candidate) == 1 and candidate in self._symbols:
                return (
                    f"write {candidate!r} instead, which it has, or make the tokenizer from a text "
                    f"that contains {symbol!r}"
                )
        return "leave it out, or make the tokenizer from a text that contains it"


class CharStream:
    """Ids to text, symbol by symbol; nothing is ever half there."""

    def __init__(self, tokenizer: CharTokenizer) -> None:
        self._tokenizer = tokenizer

    def feed(self, token: int) -> str:
        """The symbol."""
        return self._tokenizer.decode([token])

    def flush(self) -> str:
        """Nothing."""
        return ""


_SURROGATE_REMEDY = (
    "it is half of a character and not text by itself, as left behind by decoding bytes with "
    "errors='surrogateescape'; decode them in their own encoding, or remove it"
)


def _code_points(text: str) -> NDArray[np.uint32]:
    """One number a symbol, little-endian, shape (len(text),), at the speed of a copy."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


def _is_surrogate(symbol: str) -> bool:
    return "\ud800" <= symbol <= "\udfff"


def _describe(symbol: str) -> str:
    """A symbol as an error names it: `'É' (U+00C9, LATIN CAPITAL LETTER E WITH ACUTE)`."""
    code = f"U+{ord(symbol):04X}"
    if _is_surrogate(symbol):
        return f"the lone surrogate {code}"
    name = unicodedata.name(symbol, "")
    return f"{symbol!r} ({code}, {name})" if name else f"{symbol!r} ({code})"


def _listed(symbols: list[str]) -> str:
    """Some of them in quotes, and how many more there are."""
    named = ", ".join(repr(symbol) for symbol in symbols[:_NAMED])
    more = len(symbols) - _NAMED
    return (f"are {named}" if len(symbols) > 1 else f"is {named}") + (
        f" and {more} more" if more > 0 else ""
    )


def _checked_symbols(symbols: list[str]) -> str:
    if not symbols:
        raise TokenizerError("a tokenizer was given no symbols; it needs at least one")
    seen: set[str] = set()
    for position, symbol in enumerate(symbols):
        if len(symbol) != 1:
            raise TokenizerError(
                f"entry {position} of the vocabulary is {symbol!r}; each must be one character"
            )
        if _is_surrogate(symbol):
            raise TokenizerError(
                f"{_describe(symbol)} cannot be in a vocabulary: {_SURROGATE_REMEDY}"
            )
        if symbol in seen:
            raise TokenizerError(
                f"{_describe(symbol)} stands twice in the vocabulary; give each symbol once"
            )
        seen.add(symbol)
    return "".join(symbols)


def _read_symbols(path: Path) -> str:
    """The symbols in a file that `CharTokenizer.save` wrote."""
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        reason = error.strerror or str(error)
        raise TokenizerError(
            f"the tokenizer file {path} cannot be read ({reason}); give the path of a "
            "tokenizer.json that training wrote"
        ) from error
    except ValueError as error:
        raise TokenizerError(
            f"{path} is not a tokenizer file: it is not JSON ({error}); give the path of a "
            "tokenizer.json that training wrote"
        ) from error
    if not isinstance(content, dict) or content.get("type") != FILE_TYPE:
        kind = content.get("type") if isinstance(content, dict) else None
        raise TokenizerError(
            f"{path} does not hold a character tokenizer: its type is {kind!r} and not "
            f"{FILE_TYPE!r}; give the tokenizer.json of a run trained on characters"
        )
    version = content.get("format_version")
    if version != FORMAT_VERSION:
        raise TokenizerError(
            f"{path} has format version {version!r}, and this program reads version "
            f"{FORMAT_VERSION}; use the release of tinygrad_edu that wrote it"
        )
    symbols = content.get("symbols")
    if not isinstance(symbols, str):
        raise TokenizerError(
            f"{path} has no string of symbols, so it was damaged or edited; restore it, or train "
            "again"
        )
    return symbols
