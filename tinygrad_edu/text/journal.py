"""What is written of a token file that is not finished, so that it can be gone on with.

The tokens go to `tokens.bin.partial`; beside it `journal.jsonl` has what was asked for in its first
line, and then, now and then, how far the work had come: a line is added after the tokens that it
speaks of are on the disk, and holds digests of all text and all tokens until there. What the end of
a process leaves behind these, half a line or some tokens more, is cut off.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tinygrad_edu.files import write_atomically
from tinygrad_edu.text.errors import PreparationError
from tinygrad_edu.text.token_files import HEADER_BYTES

__all__ = ["Entry", "Journal", "Partial", "told_if_full"]


@dataclass(frozen=True, slots=True)
class Entry:
    """How far a preparation had come.

    Attributes:
        document, inside: which document is next to be read, and how many characters of it are done.
        characters, bytes, tokens: in all.
        text_sha256, tokens_sha256: of all until there.
    """

    document: int = 0
    inside: int = 0
    characters: int = 0
    bytes: int = 0
    tokens: int = 0
    text_sha256: str = hashlib.sha256().hexdigest()
    tokens_sha256: str = hashlib.sha256().hexdigest()


class Journal:
    """The file `journal.jsonl` of a folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "journal.jsonl"

    def begin(self, asked: Mapping[str, Any]) -> None:
        """Write the first line."""
        write_atomically(self.path, json.dumps(asked) + "\n")

    def asked(self) -> dict[str, Any] | None:
        """The first line; None where there is no journal.

        Raises:
            PreparationError: it is none of ours.
        """
        if not self.path.exists():
            return None
        for found in self._lines():
            return found
        raise PreparationError(
            f"{self.path} is no journal of a preparation; remove it, or give another --output"
        )

    def entries(self) -> list[Entry]:
        """The lines behind the first, as far as they are whole."""
        found = [Entry()]
        for number, line in enumerate(self._lines()):
            if not number:
                continue
            try:
                found.append(Entry(**line))
            except TypeError:
                break
        return found

    def _lines(self) -> Iterator[dict[str, Any]]:
        for line in self.path.read_bytes().split(b"\n"):
            try:
                found = json.loads(line)
            except ValueError:
                return
            if not isinstance(found, dict):
                return
            yield found

    def restart(self, entry: Entry) -> None:
        """Drop all lines behind that of an entry, so that new ones follow whole ones."""
        asked = self.asked()
        kept = [json.dumps(asked)]
        for found in self.entries()[1:]:
            if found.tokens <= entry.tokens:
                kept.append(json.dumps(asdict(found)))
        write_atomically(self.path, "\n".join(kept) + "\n")

    def add(self, entry: Entry) -> None:
        """Append a line, on the disk when this returns."""
        with open(self.path, "ab") as file:
            file.write(json.dumps(asdict(entry)).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


class Partial:
    """The tokens of a file that is not finished, behind the place of its header.

    Args:
        path: of the file; made where it is not there.
        entries: of its journal, the first of nothing; the last one that fits to the tokens is where
            the work goes on, and what is behind it is cut off.
        width: bytes a token.
    """

    def __init__(self, path: Path, entries: list[Entry], width: int) -> None:
        self.path = path
        self.digest = hashlib.sha256()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        self._file = os.fdopen(descriptor, "r+b", buffering=0)
        self.entry = self._last_fitting(entries, width)
        end = HEADER_BYTES + self.entry.tokens * width
        self._file.truncate(end)  # also makes it longer, where not even the header is there
        self._file.seek(end)

    def _last_fitting(self, entries: list[Entry], width: int) -> Entry:
        found, done = entries[0], 0
        size = self.path.stat().st_size - HEADER_BYTES
        self._file.seek(HEADER_BYTES)
        running = hashlib.sha256()
        for entry in entries[1:]:
            end = entry.tokens * width
            if end > size:
                break
            while done < end:
                data = self._file.read(min(1 << 20, end - done))
                running.update(data)
                done += len(data)
            if running.hexdigest() != entry.tokens_sha256:
                break
            found, self.digest = entry, running.copy()
        return found

    def add(self, data: bytes) -> None:
        """Append tokens."""
        self._write(data)
        self.digest.update(data)

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) or 0 :]

    def sync(self) -> None:
        """Have what was added on the disk."""
        os.fsync(self._file.fileno())

    def finish(self, header: bytes, final: Path) -> None:
        """Put the header in its place, and give the file its name."""
        self._file.seek(0)
        self._write(header)
        self.sync()
        self.close()
        os.replace(self.path, final)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@contextmanager
def told_if_full(folder: Path) -> Iterator[None]:
    """Say in a sentence that the disk is full, where it is.

    Raises:
        PreparationError: it is.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise PreparationError(
            f"there is no room for the tokens in {folder} ({error.strerror}); what is done is "
            "kept: make room, and give the same command again to go on"
        ) from error
