"""Conversations to learn from, read from .jsonl or .json; every problem names its place.

A file holds, one a line (.jsonl) or in a list (.json), either kind of row:

    {"messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]}
    {"instruction": "Add.", "input": "2+2", "output": "4"}

The second is the first in short: the user says the instruction and, below it, the input where there
is one; the assistant answers with the output. A system message may come first; then user and
assistant take turns. Other keys of a row (an id, a source) are left alone and counted; those of a
message are refused, as they would say something about it (a call of a tool, a weight) that is not
learnt here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinygrad_edu.lm.errors import ConversationError

ROLES = ("system", "user", "assistant")
_SHORT = ("instruction", "input", "output")


@dataclass(frozen=True, slots=True)
class Message:
    """What one of `ROLES` said."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages in turns, and where they stand: "chat.jsonl, line 3"."""

    messages: tuple[Message, ...]
    place: str


@dataclass(frozen=True, slots=True)
class Conversations:
    """All of some files, in their order.

    Attributes:
        rows: the conversations.
        ignored: keys of rows that were left alone, and how many rows have each.
    """

    rows: tuple[Conversation, ...]
    ignored: dict[str, int]


def read_conversations(paths: Sequence[str | Path]) -> Conversations:
    """Read files of conversations.

    Raises:
        ConversationError: a file that cannot be read or holds none; a line or row that is not a
            conversation. The file and the line or row are named.
    """
    ignored: Counter[str] = Counter()
    rows = [
        conversation(value, place, ignored)
        for path in paths
        for place, value in _rows(Path(path))
    ]
    return Conversations(tuple(rows), dict(ignored))


def conversation(value: Any, place: str, ignored: Counter[str] | None = None) -> Conversation:
    """One row, as JSON has it, checked; ConversationError names its `place`."""
    if not isinstance(value, dict):
        raise _wrong(place, f"is {_kind(value)}; each row is an object, {_FORMS}")
    if "messages" in value:
        own: tuple[str, ...] = ("messages",)
        messages = _messages(value["messages"], place)
    elif "instruction" in value and "output" in value:
        own = _SHORT
        messages = _from_instruction(value, place)
    else:
        found = ", ".join(map(repr, value)) or "none"
        raise _wrong(place, f"has the keys {found}; each row has {_FORMS}")
    if ignored is not None:
        ignored.update(key for key in value if key not in own)
    return Conversation(messages, place)


_FORMS = '"messages", or "instruction", "input" and "output"'


def check_turns(messages: Sequence[Message], place: str) -> None:
    """ConversationError unless user and assistant take turns, after at most one system message.
    (Where the assistant never comes, there is nothing to learn: `chat_examples` leaves it out.)
    """
    expected = "user"
    for number, message in enumerate(messages):
        if message.role == "system" and number == 0:
            continue
        if message.role != expected:
            rule = (
                "a system message can only come first" if message.role == "system"
                else "user and assistant take turns, and the user begins"
            )  # fmt: skip
            raise _wrong(
                place, f"has {message.role} in message {number + 1} where {expected} was expected: "
                f"{rule}"
            )  # fmt: skip
        expected = "user" if expected == "assistant" else "assistant"


def _messages(value: Any, place: str) -> tuple[Message, ...]:
    if not isinstance(value, list):
        raise _wrong(place, f'has {_kind(value)} as "messages"; it must be a list')
    found = []
    for number, item in enumerate(value, start=1):
        where = f"message {number}"
        if not isinstance(item, dict):
            raise _wrong(place, f'has {_kind(item)} as {where}; it must have "role" and "content"')
        unknown = sorted(item.keys() - {"role", "content"})
        if unknown:
            raise _wrong(place, f"has {unknown[0]!r} in {where}; only role and content are learnt")
        role = item.get("role")
        if role not in ROLES:
            raise _wrong(place, f"has role {role!r} in {where}; it must be {' or '.join(ROLES)}")
        found.append(Message(role, _content(item.get("content"), place, where)))
    check_turns(found, place)
    return tuple(found)


def _from_instruction(value: dict[str, Any], place: str) -> tuple[Message, ...]:
    asked = _content(value["instruction"], place, '"instruction"')
    more = value.get("input")
    if more not in ("", None):
        asked += "\n" + _content(more, place, '"input"')
    answer = _content(value["output"], place, '"output"')
    return Message("user", asked), Message("assistant", answer)


def _content(value: Any, place: str, where: str) -> str:
    """A text that says something, and is text."""
    if not isinstance(value, str):
        raise _wrong(place, f"has {_kind(value)} as the text of {where}; it must be a string")
    if not value.strip():
        raise _wrong(place, f"has an empty {where}; fill it in, or take the row out")
    for position, symbol in enumerate(value):
        if "\ud800" <= symbol <= "\udfff":
            raise _wrong(
                place, f"has the lone surrogate U+{ord(symbol):04X} at position {position} of "
                f"{where}, which is half of a character and not text; mend the row"
            )  # fmt: skip
    return value


def _rows(path: Path) -> Iterator[tuple[str, Any]]:
    """(place, value) of each row of a file."""
    text = _read(path)
    if path.suffix == ".jsonl":
        found = list(_lines(path, text))
    elif path.suffix == ".json":
        found = list(_items(path, text))
    else:
        raise ConversationError(
            f"{path} is of no kind that is read here; give .jsonl (a conversation a line) or .json "
            "(a list of them)"
        )
    if not found:
        raise ConversationError(f"{path} holds no conversation; each has {_FORMS}")
    yield from found


def _read(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConversationError(f"the conversations {path} cannot be read: {reason}") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConversationError(
            f"{path}, line {line}: is not UTF-8 ({error.reason}); save the file as UTF-8"
        ) from error


def _lines(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    # Not splitlines(): JSON strings may hold what that takes for the end of a line.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            place = f"{path}, line {number}"
            try:
                yield place, json.loads(line)
            except json.JSONDecodeError as error:
                raise _wrong(place, f"is not JSON: {_reason(error)}") from error
            except (ValueError, RecursionError) as error:
                raise _wrong(place, f"is not JSON that can be read: {error}") from error


def _items(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        found = f"is not JSON: {_reason(error)}"
        raise _wrong(f"{path}, line {error.lineno}", found) from error
    except RecursionError as error:
        raise ConversationError(f"{path} is not JSON that can be read: {error}") from error
    rows = value if isinstance(value, list) else [value]
    for number, row in enumerate(rows, start=1):
        yield f"{path}, row {number}", row


def _reason(error: json.JSONDecodeError) -> str:
    return f"{error.msg.removesuffix(' at')} at column {error.colno}"


def _wrong(place: str, found: str) -> ConversationError:
    return ConversationError(f"{place}: {found}")


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}
    if value is None:
        return "nothing"
    return names.get(type(value), "a number")
