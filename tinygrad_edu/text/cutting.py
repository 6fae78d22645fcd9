r"""Where a text of any size may be cut, so that its parts give the tokens of the whole.

BPE joins nothing over the bounds of the chunks that its pattern splits a text into, so a text may
be cut where a chunk ends, if that chunk would end there whatever follows. A pattern is matched from
left to right, each chunk from where the one before ended; a chunk is therefore certain as soon as
what its match has looked at is there.

*GPT-2's pattern.* Its alternatives are runs of one class of characters, and contractions. A run is
certain with the first character behind it; of white space before a word, `\s+(?!\S)` gives the last
one back, so the match ends one earlier. An apostrophe is a run of signs unless a contraction begins
with it, whose longest is of 3 characters. So what is behind a chunk matters 2 characters far:

    a chunk that ends at least 2 characters before the end of what is known is certain.

*Other patterns* may look further. GPT-4's `\s*[\r\n]` runs over any number of spaces to the last
line end among them, and where that end is not known yet, the spaces are a chunk of their own for
the time being. Patterns of this kind, which look past a chunk for what they would have matched, end
their doubt within the chunks that follow it; `Margin` holds back many of both, characters and
chunks. No margin helps where a pattern looks back over the cut (`^`, `\b`, `(?<=…)`): those are
refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import regex

from tinygrad_edu.text.bpe import GPT2_PATTERN, BPETokenizer
from tinygrad_edu.text.errors import TokenizerError
from tinygrad_edu.text.tokenizers import Tokenizer

__all__ = ["Margin", "blocks", "margin_of"]

BLOCK = 1 << 20
"""Characters that are encoded at a time, where the pattern lets them be cut."""


@dataclass(frozen=True, slots=True)
class Margin:
    """What is held back at the end of a text that goes on.

    Attributes:
        characters: a chunk has to end so many before the end.
        chunks: and to have so many behind it.
    """

    characters: int
    chunks: int


GPT2_MARGIN = Margin(2, 0)
ANY_MARGIN = Margin(1 << 14, 64)

_LOOKS_BACK = regex.compile(
    r"""\\[\\\[\]()]                        # an escape that hides one of the signs below
      | (?<found> \(\?<[=!] | \\[bBAGKmM] | \(\?[a-zA-Z0-9-]*r | \^)
      | \[ \^? \]? (?: \\. | \[:\^?\w+:\] | [^\]\\] )* \]      # a class, in which ^ is no anchor
      | \\.""",
    regex.VERBOSE | regex.DOTALL,
)


def margin_of(pattern: str) -> Margin:
    """What has to be held back for a split pattern.

    Raises:
        TokenizerError: the pattern looks at what stands before a chunk.
    """
    if pattern == GPT2_PATTERN:
        return GPT2_MARGIN
    for found in _LOOKS_BACK.finditer(pattern):
        if found["found"]:
            raise TokenizerError(
                f"the split pattern {pattern!r} looks back with {found['found']!r}, so a text "
                "cannot be cut for it without changing tokens; encode the text whole, with "
                "encode_array"
            )
    return ANY_MARGIN


def blocks(
    tokenizer: Tokenizer, pieces: Iterable[str], size: int = BLOCK, margin: Margin | None = None
) -> Iterator[tuple[str, list[str]]]:
    """A text in blocks whose tokens, one after the other, are those of the whole.

    A block is as long as the pieces are, or `size` where that is more; longer where one chunk of
    the pattern is, as a chunk is never cut.

    Args:
        tokenizer: gives the pattern; symbols as tokens may be cut anywhere.
        pieces: the text, cut anywhere.
        size: characters.
        margin: what is held back; by default what the pattern needs.

    Yields:
        A block, and the chunks that it is made of; of a tokenizer of characters the block itself.
    """
    if not isinstance(tokenizer, BPETokenizer):
        yield from ((block, [block]) for block in _gathered(pieces, size))
        return
    margin = margin_of(tokenizer.pattern) if margin is None else margin
    waiting = ""
    wanted = size
    for piece in _gathered(pieces, size):
        waiting += piece
        if len(waiting) < wanted:
            continue
        chunks = tokenizer.chunks(waiting)
        certain, length = _certain(chunks, len(waiting), margin)
        # One chunk may be all there is; it is not looked at again until there is twice as much.
        wanted = size if certain else 2 * len(waiting)
        if certain:
            yield waiting[:length], chunks[:certain]
            waiting = waiting[length:]
    if waiting:
        yield waiting, tokenizer.chunks(waiting)


def _certain(chunks: list[str], length: int, margin: Margin) -> tuple[int, int]:
    """How many of the first chunks are certain, and their characters."""
    count, end = len(chunks), length
    while count and (len(chunks) - count < margin.chunks or length - end < margin.characters):
        count -= 1
        end -= len(chunks[count])
    return count, end


def _gathered(pieces: Iterable[str], size: int) -> Iterator[str]:
    """Pieces of at least `size` characters, but for the last."""
    held: list[str] = []
    length = 0
    for piece in pieces:
        held.append(piece)
        length += len(piece)
        if length >= size:
            yield "".join(held)
            held, length = [], 0
    if held:
        yield "".join(held)
