"""Byte-level BPE in GPT-2's manner: text becomes bytes, and frequent pairs become tokens.

A text is split into chunks (words with the space before them), each chunk into its bytes, and then
the pair of neighbours that was learnt earliest is joined, again and again (Sennrich et al. 2016).
The 256 bytes are always in the vocabulary, so nothing is ever unknown: `decode(encode(s)) == s` for
every string. (Lone surrogates are no text: each becomes U+FFFD, as in tiktoken; a pair of them the
character it stands for.)

Ids are GPT-2's: bytes in the order of their printable stand-ins, then merges as they were learnt,
then special tokens.
"""

from __future__ import annotations

import codecs
import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import regex
from numpy.typing import NDArray

from tinygrad_edu.text.errors import TokenizerError

__all__ = ["BYTE_ORDER", "GPT2_PATTERN", "BPETokenizer", "StreamDecoder"]

GPT2_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""GPT-2's split: contractions, words, numbers and signs with a space before them, white space."""

BYTE_ORDER = bytes(
    [b for b in range(256) if chr(b).isprintable() and chr(b) != " "]
    + [b for b in range(256) if not chr(b).isprintable() or chr(b) == " "]
)
"""The byte of each of the first 256 ids."""
_ID_OF_BYTE = bytes(BYTE_ORDER.index(b) for b in range(256))

Pair = tuple[int, int]
_CACHED = 1 << 17
_LONG = 64
"""Bytes from which a chunk is joined with a heap, and not kept in the cache."""


class BPETokenizer:
    """A vocabulary of byte sequences and the merges that make them.

    Args:
        merges: pairs of ids in the order in which they were learnt; the nth makes id 256 + n, or
            that of an earlier token with the same bytes.
        special_tokens: texts with ids of their own, which are never made of merges; by id, or as a
            sequence, whose ids follow the last merge.
        pattern: splits the text into chunks that are joined apart.

    Raises:
        TokenizerError: a merge of ids that are not there yet, a special token that is empty or
            whose id is taken, or a pattern that is no pattern.
    """

    def __init__(
        self, merges: Iterable[Pair], special_tokens: Mapping[str, int] | Sequence[str] = (),
        pattern: str = GPT2_PATTERN,
    ) -> None:  # fmt: skip
        self.merges: list[Pair] = []
        self._tokens: list[bytes] = [bytes([b]) for b in BYTE_ORDER]
        self._ids: dict[bytes, int] = {token: i for i, token in enumerate(self._tokens)}
        self._ranks: dict[Pair, int] = {}
        self._made: list[int] = []
        for pair in merges:
            self._add(pair)
        self._set_specials(special_tokens)
        self.pattern = pattern
        self._split = _compiled(pattern)
        self._cache: dict[str, list[int]] = {}

    def _add(self, pair: Pair) -> None:
        a, b = pair
        if not (0 <= a < len(self._tokens) and 0 <= b < len(self._tokens)):
            raise TokenizerError(
                f"merge {len(self.merges)} joins {a} and {b}, but only the {len(self._tokens)} "
                "tokens before it are known; merges stand in the order in which they were learnt"
            )
        if pair in self._ranks:
            raise TokenizerError(f"merge {len(self.merges)} joins {a} and {b} a second time")
        joined = self._tokens[a] + self._tokens[b]
        made = self._ids.get(joined)
        if made is None:
            made = self._ids[joined] = len(self._tokens)
            self._tokens.append(joined)
        self._ranks[pair] = len(self.merges)
        self._made.append(made)
        self.merges.append(pair)

    def _set_specials(self, given: Mapping[str, int] | Sequence[str]) -> None:
        if not isinstance(given, Mapping):
            given = {name: len(self._tokens) + i for i, name in enumerate(given)}
        taken: dict[int, str] = {}
        for name, number in given.items():
            if not name:
                raise TokenizerError("a special token was empty; it needs a text")
            if number < len(self._tokens) or number in taken:
                whose = taken.get(number) or "an ordinary token"
                raise TokenizerError(
                    f"special token {name!r} was given id {number}, which is {whose}'s; the first "
                    f"free one is {max([len(self._tokens), *(n + 1 for n in taken)])}"
                )
            taken[number] = name
        self.special_tokens: dict[str, int] = dict(given)
        self._special_names = taken
        longest_first = sorted(given, key=lambda name: (-len(name), name))
        self._special_split = (
            regex.compile("|".join(map(regex.escape, longest_first))) if given else None
        )

    @property
    def vocab_size(self) -> int:
        """One more than the largest id."""
        return max([len(self._tokens), *(n + 1 for n in self._special_names)])

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
        if not allowed or self._special_split is None:
            return self.encode_ordinary(text)
        ids: list[int] = []
        start = 0
        for found in self._special_split.finditer(text):
            if found[0] in allowed:
                ids += self.encode_ordinary(text[start : found.start()])
                ids.append(self.special_tokens[found[0]])
                start = found.end()
        return ids + self.encode_ordinary(text[start:])

    def _refuse(self, text: str, forbidden: set[str]) -> None:
        longest_first = sorted(forbidden, key=lambda name: (-len(name), name))
        found = regex.search("|".join(map(regex.escape, longest_first)), text)
        if found:
            raise TokenizerError(
                f"the text holds {found[0]!r} at position {found.start()}, which is a special "
                f"token; allow it with allowed_special={{{found[0]!r}}}, or take it as ordinary "
                "text with disallowed_special=() or encode_ordinary()"
            )

    def encode_ordinary(self, text: str) -> list[int]:
        """The ids of a text in which special tokens are text like any other."""
        return self.encode_chunks(self.chunks(text))

    def encode_chunks(self, chunks: Sequence[str]) -> list[int]:
        """The ids of chunks, each encoded apart."""
        cache = self._cache
        if len(cache) >= _CACHED:
            cache.clear()
        known = cache
        long = {}
        for chunk in set(chunks):
            if chunk not in cache:
                ids = self._chunk_ids(chunk)
                if len(chunk) <= _LONG:
                    cache[chunk] = ids
                else:
                    long[chunk] = ids
        if long:
            known = {**cache, **long}
        return list(chain.from_iterable(map(known.__getitem__, chunks)))

    def encode_array(self, text: str) -> NDArray[np.int64]:
        """The same as an array of shape (tokens,)."""
        return np.array(self.encode_ordinary(text), np.int64)

    def chunks(self, text: str) -> list[str]:
        """The pieces that are encoded apart; together they are the text.

        Raises:
            TokenizerError: the pattern leaves a part of the text out.
        """
        chunks: list[str] = self._split.findall(text)
        if sum(map(len, chunks)) != len(text):
            raise _uncovered(self._split, text)
        return chunks

    def _chunk_ids(self, chunk: str) -> list[int]:
        """A chunk's ids: pairs joined, the earliest learnt first, the leftmost of equals first."""
        try:
            ids = list(chunk.encode().translate(_ID_OF_BYTE))
        except UnicodeEncodeError:
            ids = list(_bytes_of(chunk).translate(_ID_OF_BYTE))
        if len(ids) > _LONG:
            return _joined_long(ids, self._ranks, self._made)
        rank_of, made, none = self._ranks.get, self._made, len(self.merges)
        ranks = [rank_of(pair, none) for pair in pairwise(ids)]
        while ranks:
            best = min(ranks)
            if best == none:
                break
            at = ranks.index(best)
            ids[at : at + 2] = (made[best],)
            del ranks[at]
            if at:
                ranks[at - 1] = rank_of((ids[at - 1], ids[at]), none)
            if at < len(ranks):
                ranks[at] = rank_of((ids[at], ids[at + 1]), none)
        return ids

    def merge_steps(self, word: str) -> Iterator[list[bytes]]:
        """How a word is joined: its tokens after each step, from single bytes on."""
        ids = list(_bytes_of(word).translate(_ID_OF_BYTE))
        yield [self._tokens[i] for i in ids]
        while True:
            ranked = [
                (self._ranks[pair], i) for i, pair in enumerate(pairwise(ids))
                if pair in self._ranks
            ]  # fmt: skip
            if not ranked:
                return
            rank, at = min(ranked)
            ids[at : at + 2] = [self._made[rank]]
            yield [self._tokens[i] for i in ids]

    # Decoding

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token.

        Raises:
            TokenizerError: there is no such id.
        """
        if 0 <= token < len(self._tokens):
            return self._tokens[token]
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

    def decode(
        self, ids: Sequence[int] | NDArray[np.integer[Any]], errors: str = "replace"
    ) -> str:
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
            (self.merges, self.special_tokens, self.pattern)
            == (other.merges, other.special_tokens, other.pattern)
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


def _joined_long(ids: list[int], ranks: Mapping[Pair, int], made: Sequence[int]) -> list[int]:
    """The same for a long chunk, with a heap of pairs and links between neighbours: n log n."""
    count = len(ids)
    after = list(range(1, count + 1))
    before = list(range(-1, count - 1))
    heap = []
    for i in range(count - 1):
        rank = ranks.get((ids[i], ids[i + 1]))
        if rank is not None:
            heap.append((rank, i, ids[i], ids[i + 1]))
    heapq.heapify(heap)
    while heap:
        rank, i, a, b = heapq.heappop(heap)
        j = after[i]
        if ids[i] != a or j >= count or ids[j] != b:
            continue  # one of the two has been joined with another meanwhile
        ids[i], ids[j] = made[rank], -1
        after[i] = after[j]
        if after[i] < count:
            before[after[i]] = i
        for left, right in ((before[i], i), (i, after[i])):
            if left >= 0 and right < count:
                found = ranks.get((ids[left], ids[right]))
                if found is not None:
                    heapq.heappush(heap, (found, left, ids[left], ids[right]))
    return [i for i in ids if i >= 0]


def _bytes_of(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return whole.encode("utf-8")


def _compiled(pattern: str) -> Any:
    try:
        made = regex.compile(pattern)
    except regex.error as error:
        raise TokenizerError(f"the split pattern {pattern!r} is no pattern: {error}") from error
    if made.groups:
        raise TokenizerError(
            f"the split pattern {pattern!r} has {made.groups} capturing groups; write (?:…) for "
            "each, as the whole match is the chunk"
        )
    return made


def _uncovered(split: Any, text: str) -> TokenizerError:
    """The error for a text of which a pattern leaves a part out."""
    end = 0
    for found in split.finditer(text):
        if found.start() != end:
            break
        end = found.end()
    return TokenizerError(
        f"the split pattern leaves out {text[end : end + 20]!r} at position {end}, which would be "
        "lost; add an alternative that matches it, such as |.|\\s at the end"
    )


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
