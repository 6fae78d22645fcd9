"""Tokens to look at: in colour in a terminal and in a notebook, how a word is joined step by step,
and how many bytes a token holds, text by text.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tinygrad_edu.text.bpe import BPETokenizer

__all__ = ["ShownTokens", "bytes_per_token", "shown_merges"]

_COLOURS = ("#9CD1EE", "#F5D08A", "#B7E3C0", "#F2B8A0", "#D9C2EC")
_ANSI = (117, 222, 151, 216, 183)
"""The same in a terminal's 256 colours; dark letters on each."""


@dataclass(frozen=True)
class ShownTokens:
    """A text with each token in a colour of its own: `print(shown)`, or in a notebook by itself.

    Attributes:
        pieces: the bytes of each token.
        ids: the ids.
    """

    pieces: tuple[bytes, ...]
    ids: tuple[int, ...]

    @classmethod
    def of(cls, tokenizer: BPETokenizer, text: str) -> ShownTokens:
        """The tokens of a text."""
        ids = tokenizer.encode_ordinary(text)
        return cls(tuple(map(tokenizer.token_bytes, ids)), tuple(ids))

    def plain(self) -> str:
        """Without colour, with a bar between tokens."""
        return "|".join(map(_readable, self.pieces))

    def coloured(self) -> str:
        """With a terminal's colours."""
        return "".join(
            f"\x1b[30;48;5;{_ANSI[i % len(_ANSI)]}m{_readable(piece)}\x1b[0m"
            + ("\n" if piece.endswith(b"\n") else "")
            for i, piece in enumerate(self.pieces)
        )

    def __str__(self) -> str:
        return self.plain()

    def _repr_html_(self) -> str:
        spans = "".join(
            f'<span style="background:{_COLOURS[i % len(_COLOURS)]};color:#1F2933;'
            f'border-radius:3px;padding:1px 0" title="id {number}, {len(piece)} bytes">'
            f"{html.escape(_readable(piece))}</span>" + ("<br>" if piece.endswith(b"\n") else "")
            for i, (piece, number) in enumerate(zip(self.pieces, self.ids, strict=True))
        )
        return f'<div style="white-space:pre-wrap;line-height:1.7">{spans}</div>'


def _readable(piece: bytes) -> str:
    """A token's text; what is no text by itself as <hex>, controls as pictures."""
    try:
        text = piece.decode("utf-8")
    except UnicodeDecodeError:
        return "".join(f"<{b:02x}>" for b in piece)
    return "".join(
        "⏎" if c == "\n" else c if c.isprintable() else f"<{ord(c):02x}>" for c in text
    )


def shown_merges(tokenizer: BPETokenizer, word: str) -> str:
    """How a word is joined, a step a line."""
    return "\n".join(" ".join(map(_bracketed, step)) for step in tokenizer.merge_steps(word))


def _bracketed(piece: bytes) -> str:
    return f"[{_readable(piece)}]"


def _end_of(name: str) -> str:
    return name if len(name) <= 20 else f"…{name[-19:]}"


def bytes_per_token(
    tokenizers: Mapping[str, BPETokenizer], texts: Mapping[str, str]
) -> Sequence[str]:
    """A table: for each text, how many bytes a token of each tokenizer holds on average."""
    names = [_end_of(name) for name in tokenizers]
    widths = [max(8, len(name)) for name in names]
    head = f"{'bytes per token':<20}" + "".join(
        f"  {name:>{w}}" for name, w in zip(names, widths, strict=True)
    )
    rows = [head]
    for title, text in texts.items():
        size = len(text.encode("utf-8", "replace"))
        cells = [size / max(1, len(t.encode_ordinary(text))) for t in tokenizers.values()]
        rows.append(
            f"{_end_of(title):<20}"
            + "".join(f"  {x:>{w}.2f}" for x, w in zip(cells, widths, strict=True))
        )
    return rows
