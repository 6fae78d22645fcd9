"""How a conversation is written as text and as tokens, and which of these are learnt.

    --- system
    You answer briefly.
    --- user
    What is 2+2?
    --- assistant
    4
    --- end

Plain text, so that every tokenizer and every model can have it: no symbol is added to a vocabulary
and no row to an embedding. A turn is a line with its marker, what was said, and a line break; an
assistant's turn ends with the line `--- end`, after which a model has nothing more to say. Learnt
are what the assistant said and its end, a line break and the line `--- end`; all else is read only.

Markers and what was said are turned into tokens each by itself. So no token spans the border of
what is learnt, and a prompt has the very tokens that training had. A line of what was said that is
a marker would be taken for one: such a text is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tinygrad_edu import text
from tinygrad_edu.lm.conversations import ROLES, Message
from tinygrad_edu.lm.data import Tokens
from tinygrad_edu.lm.errors import ConversationError

END = "\n--- end\n"
"""What an assistant's turn ends with."""
OPENINGS = {role: f"--- {role}\n" for role in ROLES}
STOPS = (END, *("\n" + opening for opening in OPENINGS.values()))
"""What ends an answer: its end, or a turn of another that a model of little training goes on to."""
MARKERS = (*(opening.strip() for opening in OPENINGS.values()), END.strip())
"""Lines that no message may have."""


@dataclass(frozen=True, eq=False)
class Rendered:
    """Tokens of a conversation.

    Attributes:
        ids: (n,).
        learnt: (n,), which of them are learnt.
    """

    ids: Tokens
    learnt: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.ids)


def check_tokenizer(tokenizer: text.Tokenizer) -> None:
    """ConversationError where the template's own symbols are not in a vocabulary; they are listed.

    (Byte-level BPE has all.)
    """
    if isinstance(tokenizer, text.CharTokenizer):
        needed = dict.fromkeys("".join([*OPENINGS.values(), END]))
        missing = [symbol for symbol in needed if symbol not in tokenizer.symbols]
        if missing:
            raise ConversationError(
                "conversations are written with lines such as '--- user', and the vocabulary of "
                f"this model lacks {', '.join(map(repr, missing))}; take a model whose text had "
                "these, or one with byte-level BPE"
            )


def before_markers(content: str) -> str:
    """What comes before the first line that is a marker."""
    lines = content.split("\n")
    first = next((i for i, line in enumerate(lines) if line in MARKERS), len(lines))
    return "\n".join(lines[:first])


def check_content(content: str, place: str) -> None:
    """ConversationError where a line of `content` would be taken for a marker."""
    for line in content.split("\n"):
        if line in MARKERS:
            raise ConversationError(
                f"{place}: a line of a message is {line!r}, by which the template marks turns; "
                "change the line, or take the row out"
            )


def render(tokenizer: text.Tokenizer, messages: Sequence[Message], place: str = "") -> Rendered:
    """A whole conversation as tokens.

    Raises:
        ConversationError: a line of it is a marker.
        TokenizerError: it has a symbol that the vocabulary lacks.
    """
    return _joined(
        piece for message in messages for piece in _turn(tokenizer, message, place)
    )


def prompt(tokenizer: text.Tokenizer, messages: Sequence[Message]) -> Tokens:
    """(n,) ids of the messages, and the marker after which the assistant speaks.

    Raises:
        ConversationError, TokenizerError: as `render`.
    """
    turns = render(tokenizer, messages, "what was said")
    return np.concatenate([turns.ids, tokenizer.encode_array(OPENINGS["assistant"])])


Piece = tuple[Tokens, bool]


def _turn(tokenizer: text.Tokenizer, message: Message, place: str) -> list[Piece]:
    check_content(message.content, place)
    answers = message.role == "assistant"
    end = END if answers else "\n"
    return [
        (tokenizer.encode_array(OPENINGS[message.role]), False),
        (tokenizer.encode_array(message.content), answers),
        (tokenizer.encode_array(end), answers),
    ]


def _joined(pieces: Iterable[Piece]) -> Rendered:
    found = list(pieces)
    ids = [np.asarray(piece, np.int64) for piece, _ in found] or [np.empty(0, np.int64)]
    learnt = [np.full(len(piece), scored) for piece, scored in found] or [np.empty(0, bool)]
    return Rendered(np.concatenate(ids), np.concatenate(learnt).astype(bool))
