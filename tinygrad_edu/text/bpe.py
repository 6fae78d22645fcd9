"""Byte-level BPE in GPT-2's manner: text becomes bytes, and frequent pairs become tokens.

A text is split into chunks (words with the space before them), each chunk into its bytes, and then
the pair of neighbours that was learnt earliest is joined, again and again (Sennrich et al. 2016).
The 256 bytes are always in the vocabulary, so nothing is ever unknown: `decode(encode(s)) == s` for
every string. (Lone surrogates are no text: each becomes U+FFFD, as in tiktoken; a pair of them the
character it stands for.)

Ids are GPT-2's: bytes in the order of their printable stand-ins, then merges as they were learnt,
then special tokens. A vocabulary that was numbered by others keeps their ids.
"""

from __future__ import annotations

import codecs
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import regex
from numpy.typing import NDArray

from tinygrad_edu.text.chunks import (
    BYTE_ORDER,
    GPT2_PATTERN,
    PLACE_OF_BYTE,
    compiled,
    uncovered,
    utf8,
)
from tinygrad_edu.text.errors import TokenizerError
from tinygrad_edu.text.joining import Pair, joined

__all__ = ["BYTE_ORDER", "GPT2_PATTERN", "BPETokenizer", "StreamDecoder"]

_CACHED = 1 << 17
"""Chunks whose ids are kept; beyond, all are forgotten."""
_KEPT = 256
"""Characters up to which a chunk is kept at all."""


class _Cache(dict[str, list[int]]):
    """The ids of chunks, found out when they are first asked for: pairs are joined, the earliest
    learnt first, the leftmost of equals first.

    Args:
        ranks: which merge joins a pair.
        made: the token that each merge makes.
        ids: of the tokens, where these are not their places.
    """

    __slots__ = ("_ids", "_made", "_ranks")

    def __init__(
        self, ranks: dict[Pair, int], made: list[int], ids: tuple[int, ...] | None
    ) -> None:
        super().__init__()
        self._ranks, self._made, self._ids = ranks, made, ids

    def __missing__(self, chunk: str) -> list[int]:
        try:
            data = chunk.encode()
        except UnicodeEncodeError:
            data = utf8(chunk)
        found = joined(list(data.translate(PLACE_OF_BYTE)), self._ranks, self._made)
        if self._ids is not None:
            found = [self._ids[place] for place in found]
        if len(self) >= _CACHED:
            self.clear()
        if len(chunk) <= _KEPT:
            self[chunk] = found
        return found


class BPETokenizer:
    """A vocabulary of byte sequences and the merges that make them.

    Args:
        merges: pairs of tokens in the order in which they were learnt; the nth makes token 256 + n,
            or the earlier one of the same bytes.
        special_tokens: texts with ids of their own, which are never made of merges; by id, or as a
            sequence, whose ids follow the last merge.
        pattern: splits the text into chunks that are joined apart.
        ids: the id of each token, where it is not the token's place: the 256 bytes in GPT-2's
            order, then what merges make.

    Raises:
        TokenizerError: a merge of tokens that are not there yet, an id given twice, a special token
            that is empty or no text, or a pattern that is no pattern.
    """

    def __init__(
        self, merges: Iterable[Pair], special_tokens: Mapping[str, int] | Sequence[str] = (),
        pattern: str = GPT2_PATTERN, ids: Sequence[int] | None = None,
    ) -> None:  # fmt: skip
        self.merges: list[Pair] = []
        self._tokens: list[bytes] = [bytes([b]) for b in BYTE_ORDER]
        self._places: dict[bytes, int] = {token: i for i, token in enumerate(self._tokens)}
        self._ranks: dict[Pair, int] = {}
        self._made: list[int] = []
        for pair in merges:
            self._add(pair)
        self._number(ids)
        self._set_specials(special_tokens)
        self.pattern = pattern
        self._split = compiled(pattern)
        self._cache = _Cache(self._ranks, self._made, self.ids)

    def _add(self, pair: Pair) -> None:
        a, b = pair
        if not (0 <= a < len(self._tokens) and 0 <= b < len(self._tokens)):
            raise TokenizerError(
                f"merge {len(self.merges)} joins {a} and {b}, but only the {len(self._tokens)} "
                "tokens before it are known; merges stand in the order in which they were learnt"
            )
        if pair in self._ranks:
            raise TokenizerError(f"merge {len(self.merges)} joins {a} and {b} a second time")
        whole = self._tokens[a] + self._tokens[b]
        made = self._places.get(whole)
        if made is None:
            made = self._places[whole] = len(self._tokens)
            self._tokens.append(whole)
        self._ranks[pair] = len(self.merges)
        self._made.append(made)
        self.merges.append(pair)

    def _number(self, ids: Sequence[int] | None) -> None:
        """Take the ids of others; None, and their own places, are GPT-2's."""
        self.ids: tuple[int, ...] | None = None
        if ids is None or tuple(ids) == tuple(range(len(self._tokens))):
            self._by_id: Mapping[int, bytes] = dict(enumerate(self._tokens))
            return
        self.ids = tuple(ids)
        if len(self.ids) != len(self._tokens):
            raise TokenizerError(
                f"{len(self.ids)} ids were given for {len(self._tokens)} tokens: 256 bytes and "
                f"{len(self._tokens) - 256} that merges make"
            )
        self._by_id = {}
        for number, token in zip(self.ids, self._tokens, strict=True):
            if number < 0 or number in self._by_id:
                whose = f"is {self._by_id[number]!r}'s" if number >= 0 else "is below 0"
                raise TokenizerError(f"token {token!r} was given id {number}, which {whose}")
            self._by_id[number] = token

    def _set_specials(self, given: Mapping[str, int] | Sequence[str]) -> None:
        first = max(self._by_id) + 1
        if isinstance(given, str):
            raise TokenizerError(
                f"special_tokens was the text {given!r}, whose letters would each be one; give a "
                f"sequence, [{given!r}]"
            )
        if not isinstance(given, Mapping):
            twice = [name for i, name in enumerate(given) if name in given[:i]]
            if twice:
                raise TokenizerError(f"the special token {twice[0]!r} was given twice")
            given = {name: first + i for i, name in enumerate(given)}
        taken: dict[int, str] = {}
        for name, number in given.items():
            if not name or utf8(name).decode() != name:
                what = "no text (a lone surrogate)" if name else "empty"
                raise TokenizerError(f"a special token was {what}; it needs a text")
            if number < 0 or number in self._by_id or number in taken:
                whose = taken.get(number) or "an ordinary token"
                raise TokenizerError(
                    f"special token {name!r} was given id {number}, which is {whose}'s; the first "
                    f"free one is {max([first, *(n + 1 for n in taken)])}"
                )
            taken[number] = name
        self.special_tokens: dict[str, int] = dict(given)
        self._special_names = taken

    @property
    def vocab_size(self) -> int:
        """One more than the largest id."""
        return 1 + max([*self._by_id, *self._special_names])

    @property
    def tokens(self) -> Sequence[bytes]:
        """The bytes of each token that is not special, by its place: bytes, then merges."""
        return tuple(self._tokens)

    @property
    def numbers(self) -> Sequence[int]:
        """The id of each of these."""
        return self.ids or range(len(self._tokens))

    @property
    def made(self) -> Sequence[int]:
        """The place of the token that each merge makes."""
        return tuple(self._made)

    # Encoding

    def encode(
        self, text: str, *, allowed_special: Literal["all"] | Collection[str] = (),
        disallowed_special: Literal["all"] | Collection[str] = "all",
    ) -> list[int]:  # fmt: skip
        """The ids of a text, with tiktoken's rules for special tokens.

        Args:
            text: any string.
            allowed_special: special tokens that are taken where they stand in the text.
            disallowed_special: special tokens that are an error there; "all" means all that are
                not allowed. What is in neither is ordinary text.

        Raises:
            TokenizerError: the text holds a special token that is not allowed.
        """
        allowed = set(self.special_tokens if allowed_special == "all" else allowed_special)
        unknown = allowed - set(self.special_tokens)
        if unknown:
            raise TokenizerError(
                f"{min(unknown)!r} is no special token of this tokenizer; it has "
                f"{', '.join(map(repr, self.special_tokens)) or 'none'}"
            )
        forbidden = (
            set(self.special_tokens) - allowed if disallowed_special == "all"
            else set(disallowed_special)
        )  # fmt: skip
        if forbidden:
            self._refuse(text, forbidden)
        if not allowed:
            return self.encode_ordinary(text)
        ids: list[int] = []
        start = 0
        for found in _any_of(frozenset(allowed)).finditer(text):
            ids += self.encode_ordinary(text[start : found.start()])
            ids.append(self.special_tokens[found[0]])
            start = found.end()
        return ids + self.encode_ordinary(text[start:])

    def _refuse(self, text: str, forbidden: set[str]) -> None:
        found = _any_of(frozenset(forbidden)).search(text)
        if found:
            raise TokenizerError(
                f"the text holds {found[0]!r} at position {found.start()}, which is a special "
                f"token; allow it with allowed_special={{{found[0]!r}}}, or take it as ordinary "
                "text with disallowed_special=() or encode_ordinary()"
            )

    def encode_ordinary(self, text: str) -> list[int]:
        """The ids of a text in which special tokens are text like any other."""
        return self.encode_chunks(self.chunks(text))

    def encode_chunks(self, chunks: Iterable[str]) -> list[int]:
        """The ids of chunks, each encoded apart."""
        return list(chain.from_iterable(map(self._cache.__getitem__, chunks)))

    def encode_array(self, text: str) -> NDArray[np.int64]:
        """The same as an array of shape (tokens,)."""
        return np.array(self.encode_ordinary(text), np.int64)

    def chunks(self, text: str) -> list[str]:
        """The pieces that are encoded apart; together they are the text.

        Raises:
            TokenizerError: the pattern leaves a part of the text out.
        """
        chunks: list[str] = self._split.findall(text)
        if self.pattern != GPT2_PATTERN and sum(map(len, chunks)) != len(text):
            raise uncovered(self._split, text)
        return chunks

    def merge_steps(self, word: str) -> Iterator[list[bytes]]:
        """How a word is joined: its tokens after each step, from single bytes on."""
        places = list(utf8(word).translate(PLACE_OF_BYTE))
        yield [self._tokens[place] for place in places]
        while True:
            ranked = [
                (self._ranks[pair], i) for i, pair in enumerate(pairwise(places))
                if pair in self._ranks
            ]  # fmt: skip
            if not ranked:
                return
            rank, at = min(ranked)
            places[at : at + 2] = [self._made[rank]]
            yield [self._tokens[place] for place in places]

    # Decoding

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token.

        Raises:
            TokenizerError: there is no such id.
        """
        found = self._by_id.get(token)
        if found is not None:
            return found
        if token in self._special_names:
            return self._special_names[token].encode("utf-8")
        raise TokenizerError(
            f"id {token} is not a token: this vocabulary has the ids 0 to {self.vocab_size - 1}; "
            "decode with the tokenizer that encoded the text"
        )

    def decode_bytes(self, ids: Sequence[int] | NDArray[np.integer[Any]]) -> bytes:
        """The bytes of a sequence of ids.

        Raises:
            TokenizerError: not one flat sequence of integers, or an id that is none.
        """
        return b"".join(map(self.token_bytes, _flat(ids)))

    def decode(self, ids: Sequence[int] | NDArray[np.integer[Any]], errors: str = "replace") -> str:
        """The text of a sequence of ids, the inverse of `encode`.

        Args:
            ids: one flat sequence.
            errors: what is done with bytes that are no UTF-8, such as half of a character at the
                end: "replace" (U+FFFD), "strict" (UnicodeDecodeError), "ignore".

        Raises:
            TokenizerError: not one flat sequence of integers, or an id that is none.
        """
        return self.decode_bytes(ids).decode("utf-8", errors)

    def decode_with_offsets(
        self, ids: Sequence[int] | NDArray[np.integer[Any]]
    ) -> tuple[str, list[int]]:
        """The text, and for each token the place in it of the character that it begins in."""
        pieces = [self.token_bytes(i) for i in _flat(ids)]
        offsets = []
        characters = 0
        for piece in pieces:
            inside = len(piece) > 0 and 0x80 <= piece[0] < 0xC0
            offsets.append(max(0, characters - inside))
            characters += sum(not 0x80 <= b < 0xC0 for b in piece)
        return b"".join(pieces).decode("utf-8", "replace"), offsets

    def stream(self, errors: str = "replace") -> StreamDecoder:
        """A decoder for ids that come one by one, which never gives half of a character."""
        return StreamDecoder(self, errors)

    # Files: see `bpe_files`

    def save(self, path: str | Path) -> None:
        """Write Hugging Face's `tokenizer.json`; the file is whole or absent."""
        from tinygrad_edu.text.bpe_files import write_tokenizer_json

        write_tokenizer_json(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> BPETokenizer:
        """Read a `tokenizer.json` of byte-level BPE, `save`'s or Hugging Face's.

        Raises:
            TokenizerError: no such file, or not a tokenizer of this kind.
        """
        from tinygrad_edu.text.bpe_files import read_tokenizer_json

        return read_tokenizer_json(Path(path))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BPETokenizer) and (
            (self.merges, self.special_tokens, self.pattern, self.ids)
            == (other.merges, other.special_tokens, other.pattern, other.ids)
        )

    def __hash__(self) -> int:
        return hash((len(self.merges), tuple(self.merges[-3:]), self.pattern))

    def __repr__(self) -> str:
        special = f", {len(self.special_tokens)} special" if self.special_tokens else ""
        return f"BPETokenizer({self.vocab_size} tokens, {len(self.merges)} merges{special})"


class StreamDecoder:
    """Ids to text, piece by piece.

    stream = tokenizer.stream()
    for token in ids:
        print(stream.feed(token), end="")
    print(stream.flush())
    """

    def __init__(self, tokenizer: BPETokenizer, errors: str = "replace") -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors)

    def feed(self, token: int) -> str:
        """The characters that are complete with this token; "" while one is half there."""
        return self._decoder.decode(self._tokenizer.token_bytes(token))

    def flush(self) -> str:
        """What is left at the end: half a character as `errors` says."""
        return self._decoder.decode(b"", final=True)


@lru_cache(maxsize=64)
def _any_of(names: frozenset[str]) -> Any:
    """Finds special tokens, of several that begin alike the longest."""
    longest_first = sorted(names, key=lambda name: (-len(name), name))
    return regex.compile("|".join(map(regex.escape, longest_first)))


def _flat(ids: Sequence[int] | NDArray[np.integer[Any]]) -> list[int]:
    array = np.asarray(ids)
    if array.ndim == 1 and array.size == 0:
        return []
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TokenizerError(
            f"decode was given an array of shape {array.shape} and dtype {array.dtype}; "
            "it takes one flat sequence of integer ids"
        )
    found: list[int] = array.tolist()
    return found
