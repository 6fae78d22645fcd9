"""How a text falls into chunks, and a chunk into bytes, before byte-level BPE joins them."""

from __future__ import annotations

from typing import Any

import regex

from tinygrad_edu.text.errors import TokenizerError

__all__ = ["BYTE_ORDER", "GPT2_PATTERN", "PLACE_OF_BYTE", "compiled", "uncovered", "utf8"]

GPT2_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""GPT-2's split: contractions, words, numbers and signs with a space before them, white space."""

BYTE_ORDER = bytes(
    [b for b in range(256) if chr(b).isprintable() and chr(b) != " "]
    + [b for b in range(256) if not chr(b).isprintable() or chr(b) == " "]
)
"""The bytes in GPT-2's order: the printable ones first."""
PLACE_OF_BYTE = bytes(BYTE_ORDER.index(b) for b in range(256))
"""The place of each byte in that order: `data.translate` gives those of many."""


def compiled(pattern: str) -> Any:
    """The pattern, ready to split with.

    Raises:
        TokenizerError: no pattern, or one with capturing groups.
    """
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


def uncovered(split: Any, text: str) -> TokenizerError:
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


def utf8(text: str) -> bytes:
    """A text's bytes; a lone surrogate, which is no character, as those of U+FFFD."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return whole.encode("utf-8")
