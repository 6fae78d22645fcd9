"""A text of any size made into a folder of tokens that training maps into memory.

    tokens.bin       the tokens of the whole text (`token_files`)
    tokenizer.json   what they are of
    prepared.json    names, counts and digests; it is written last, so it says that all is there

Memory does not grow with the text. Whatever ends it, Ctrl-C or the machine, the same call goes on
where the journal stands, and ends with the same bytes as one that nothing ended: a block's tokens
do not depend on where the text was cut (`cutting`), and the text that was read is read again, which
takes a small part of the time, to see from its digest that it is the same.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinygrad_edu.files import write_atomically
from tinygrad_edu.text.bpe import BPETokenizer
from tinygrad_edu.text.corpora import CorpusStream, stream_corpus
from tinygrad_edu.text.cutting import BLOCK
from tinygrad_edu.text.errors import CorpusError, PreparationError, TokenizerError
from tinygrad_edu.text.journal import Entry, Journal, told_if_full
from tinygrad_edu.text.learning import Learnt, learn
from tinygrad_edu.text.reading import PIECE
from tinygrad_edu.text.token_files import Header, TokenFile, open_tokens
from tinygrad_edu.text.token_writing import (
    PARTIAL,
    TOKENS,
    Clock,
    Progress,
    Reader,
    TokenWriter,
    Told,
    Watch,
)
from tinygrad_edu.text.tokenizers import Tokenizer, load_tokenizer

__all__ = [
    "Preparation", "Prepared", "Progress", "check_folder", "is_prepared", "prepare",
    "read_prepared",
]  # fmt: skip

TOKENIZER, MANIFEST = "tokenizer.json", "prepared.json"
FORMAT = 1
_OTHERS = (".lock",)
"""What may lie in the folder of a new preparation."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a folder holds.

    Attributes:
        name: of the text, as a `Corpus` has it.
        sources: the files and corpora that it came from.
        characters: of the text.
        held_out: of a vocabulary that was learnt from it, the share at its end that was left out;
            None where it was not learnt, or has all symbols of the text.
    """

    folder: Path
    name: str
    sources: tuple[str, ...]
    characters: int
    held_out: float | None
    tokenizer: Tokenizer
    file: TokenFile


@dataclass(frozen=True, slots=True)
class Preparation:
    """What is asked for.

    Attributes:
        sources: as `load_corpus` takes them.
        tokenizer: `characters`, `bpe` (both are learnt from the text), or the path of one.
        vocab_size: tokens that `bpe` learns.
        validation_fraction: the share at the end of the text that `bpe` does not learn from.
        separator: a special token that is put behind each document; "" joins documents as
            `load_corpus` does.
    """

    sources: tuple[str, ...]
    tokenizer: str = "characters"
    vocab_size: int = 1024
    validation_fraction: float = 0.1
    separator: str = ""

    def to_row(self, stream: CorpusStream) -> dict[str, Any]:
        """What has to be the same when it is gone on with, as JSON has it."""
        learns = self.tokenizer == "bpe"
        return {
            "format": FORMAT,
            "sources": list(stream.sources),
            "sizes": list(stream.sizes()),
            "tokenizer": self.tokenizer,
            "vocab_size": self.vocab_size if learns else None,
            "held_out": self.validation_fraction if learns else None,
            "separator": self.separator,
        }


def prepare(
    asked: Preparation, folder: str | Path, told: Told | None = None, *, block: int = BLOCK,
    piece: int = PIECE, pause: float = 2.0, clock: Clock = time.monotonic,
) -> Prepared:  # fmt: skip
    """Turn a text into tokens in a folder, or go on with that.

    Args:
        asked: what is to be done.
        folder: an empty or new one, or one in which the same was begun.
        told: called after each block.
        block: characters that are encoded at a time.
        piece: bytes that are read at a time.
        pause: seconds from one line of the journal to the next.
        clock: seconds.

    Raises:
        CorpusError: a text that cannot be read, or in which there is nothing to predict.
        TokenizerError: no tokenizer, or one that does not know a symbol of the text.
        PreparationError: the folder holds something else, the text has changed since, or the disk
            is full.
    """
    stream, folder = stream_corpus(asked.sources), Path(folder)
    row = asked.to_row(stream)
    if (folder / MANIFEST).exists():
        return _finished(folder, row)
    journal = Journal(folder)
    before = journal.asked()
    if before is None:
        check_folder(folder)
    elif before != row:
        raise PreparationError(f"{folder} holds {_other_than(before, row)}")
    with told_if_full(folder), _nothing_left(folder, journal if before is None else None):
        folder.mkdir(parents=True, exist_ok=True)
        if before is None:
            journal.begin(row)
        reader = Reader(stream, asked.separator, piece)
        watch = Watch(told, sum(row["sizes"]), clock)
        learnt = _tokenizer(asked, folder, reader, watch, block)
        work = TokenWriter(folder, journal, reader, learnt, watch, block, pause)
        try:
            done, header = work.run()
        finally:
            work.partial.close()
        manifest = {**row, "name": stream.name, **_facts(done, header)}
        write_atomically(folder / MANIFEST, json.dumps(manifest, indent=1) + "\n")
        journal.path.unlink()
        (folder / LEARNT).unlink(missing_ok=True)
    return read_prepared(folder)


@contextmanager
def _nothing_left(folder: Path, journal: Journal | None) -> Iterator[None]:
    """Take away what a new preparation wrote that could not be made, so that the folder is free for
    another; not where the `journal` has something to go on from.
    """
    try:
        yield
    except (CorpusError, TokenizerError):
        if journal is not None and len(journal.entries()) == 1:
            for name in (PARTIAL, TOKENIZER, LEARNT, journal.path.name):
                (folder / name).unlink(missing_ok=True)
        raise


def _facts(done: Entry, header: Header) -> dict[str, Any]:
    return {
        "characters": done.characters,
        "bytes": done.bytes,
        "tokens": done.tokens,
        "vocabulary": header.vocab_size,
        "text_sha256": done.text_sha256,
        "tokens_sha256": done.tokens_sha256,
    }


def _finished(folder: Path, row: dict[str, Any]) -> Prepared:
    """What is there already, where it is what is asked for."""
    manifest = _manifest(folder)
    if any(manifest.get(name) != value for name, value in row.items()):
        raise PreparationError(f"{folder} holds {_other_than(manifest, row, finished=True)}")
    found = read_prepared(folder)
    found.file.verify()
    return found


def _other_than(before: dict[str, Any], row: dict[str, Any], finished: bool = False) -> str:
    what = "a finished preparation" if finished else "a preparation that was begun"
    if before.get("sources") == row["sources"] and before.get("sizes") != row["sizes"]:
        return (
            f"{what} of these texts, which have changed since (they have other sizes); restore "
            "them, or give another --output"
        )
    names = [name for name in row if before.get(name) != row[name]]
    first = names[0]
    return (
        f"{what} with other {first.replace('_', ' ')}: {before.get(first)!r} and not "
        f"{row[first]!r}; give the same command to go on with it, or another --output"
    )


def check_folder(folder: Path) -> None:
    """Raise `PreparationError` where a folder holds something that is no preparation."""
    if folder.exists() and not is_prepared(folder) and (
        not folder.is_dir() or any(entry.name not in _OTHERS for entry in folder.iterdir())
    ):
        raise PreparationError(
            f"{folder} exists and is not an empty folder; give another with --output"
        )


LEARNT = "learnt.json"
"""The digest of the text that a vocabulary was learnt from, while its tokens are not all there."""


def _tokenizer(
    asked: Preparation, folder: Path, reader: Reader, watch: Watch, block: int
) -> Learnt:
    """The tokenizer that is asked for, which lies in the folder from here on."""
    kept = folder / TOKENIZER
    if asked.tokenizer in ("characters", "bpe"):
        if kept.exists():
            return Learnt(load_tokenizer(kept), _learnt_from(folder / LEARNT))
        watch.begin("learning the vocabulary", 0)
        found = learn(
            reader.documents, asked.tokenizer == "bpe", asked.vocab_size,
            asked.validation_fraction, asked.separator, watch.at, block,
        )  # fmt: skip
        write_atomically(folder / LEARNT, json.dumps({"text_sha256": found.text_sha256}) + "\n")
    else:
        found = Learnt(load_tokenizer(asked.tokenizer), None)
        if kept.exists() and load_tokenizer(kept) != found.tokenizer:
            raise PreparationError(
                f"{asked.tokenizer} is not the tokenizer any more that the preparation in {folder} "
                "was begun with; restore it, or give another --output"
            )
    _check_separator(found.tokenizer, asked.separator)
    found.tokenizer.save(kept)
    return found


def _learnt_from(path: Path) -> str:
    try:
        return str(json.loads(path.read_bytes())["text_sha256"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PreparationError(
            f"{path} is missing or damaged, which says what the vocabulary beside it was learnt "
            "from; give another --output to begin anew"
        ) from error


def _check_separator(tokenizer: Tokenizer, separator: str) -> None:
    known = tokenizer.special_tokens if isinstance(tokenizer, BPETokenizer) else {}
    if separator and separator not in known:
        raise TokenizerError(
            f"the separator {separator!r} is no special token of the tokenizer, which has "
            f"{', '.join(map(repr, known)) or 'none'}; leave --separator out to join documents"
        )


def is_prepared(folder: str | Path) -> bool:
    """Whether a folder holds a prepared text, or one that was begun."""
    folder = Path(folder)
    return (folder / MANIFEST).exists() or (folder / "journal.jsonl").exists()


_READ: dict[str, Any] = {
    "name": str, "sources": list, "characters": int, "held_out": float | int | None,
    "text_sha256": str,
}  # fmt: skip
"""What is read of a manifest."""


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not path.exists():
        raise PreparationError(
            f"{folder} holds a preparation that was not finished; give its `tinygrad-edu prepare` "
            "command again, which goes on with it"
        )
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise PreparationError(
            f"{path} cannot be read ({error}); prepare the text again"
        ) from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise PreparationError(
            f"{path} is of another format than {FORMAT}, which this program reads; prepare the "
            "text again"
        )
    lacking = [name for name, kind in _READ.items() if not isinstance(found.get(name), kind)]
    if lacking:
        raise PreparationError(
            f"{path} is damaged: its {lacking[0]!r} is missing, or not what it should be; prepare "
            "the text again, into another folder"
        )
    return found


def read_prepared(folder: str | Path) -> Prepared:
    """Open what `prepare` wrote; its tokens are mapped into memory, and none is read.

    Raises:
        PreparationError: not a prepared text, or not a finished one.
        CorpusError: a token file that is damaged, or not of the tokenizer beside it.
    """
    folder = Path(folder)
    manifest = _manifest(folder)
    tokenizer = load_tokenizer(folder / TOKENIZER)
    file = open_tokens(folder / TOKENS, tokenizer)
    if file.header.text.hex() != manifest["text_sha256"]:
        raise CorpusError(
            f"{folder / TOKENS} and {folder / MANIFEST} are of different texts; prepare the text "
            "again, into another folder"
        )
    return Prepared(
        folder, manifest["name"], tuple(manifest["sources"]), manifest["characters"],
        manifest["held_out"], tokenizer, file,
    )  # fmt: skip
