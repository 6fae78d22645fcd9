r"""Texts to learn from: files of the reader, or a corpus by name.

What a text is: UTF-8, decoded strictly. A byte order mark at the start is dropped, and line ends
become `\n` as in Python's own text mode, so that a file gives the same symbols whichever system
wrote it. Nothing else is changed.
"""

from __future__ import annotations

import difflib
import glob
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from tinygrad_edu.text import sentences
from tinygrad_edu.text.errors import CorpusError
from tinygrad_edu.text.grammar import Grammar
from tinygrad_edu.text.reading import PIECE, pieces_of


@dataclass(frozen=True, slots=True)
class Corpus:
    """A text, and where it came from.

    Attributes:
        source: what drew it, with its exact probabilities; None where nobody knows them.
    """

    text: str
    name: str
    sources: tuple[str, ...]
    source: Grammar | None = None


def load_corpus(sources: str | Path | Sequence[str | Path]) -> Corpus:
    """Read one text, or several joined in the order given.

    Each source is the name of a corpus (`corpus_names()`; to mean a file of that name, write
    `./python-docs`), a file, a pattern such as `books/*.txt`, or a folder, which stands for every
    `*.txt` in it and below. Patterns and folders give their files sorted by path. Where one text
    does not end with a line end and another follows, one is put between them.

    Raises:
        CorpusError: nothing given, or a source that is not there (the nearest name is suggested),
            given twice, empty, or not UTF-8 (the byte and its place are named).
    """
    stream = stream_corpus(sources)
    text = "".join(piece for document in stream.documents() for piece in document)
    return Corpus(text, stream.name, stream.sources, source_of(stream.sources))


def source_of(sources: Sequence[str]) -> Grammar | None:
    """What drew the text of these sources, where that is known."""
    return sentences.grammar() if list(sources) == ["grammar"] else None


@dataclass(frozen=True, slots=True)
class CorpusStream:
    """A corpus of any size, piece by piece: `load_corpus`'s text without holding it.

    Attributes:
        origins: files, and names of corpora, in their order.
        name, sources: as a `Corpus` has them.
    """

    origins: tuple[str | Path, ...]
    name: str
    sources: tuple[str, ...]

    def documents(self, size: int = PIECE, *, apart: bool = False) -> Iterator[Iterator[str]]:
        """The text of each document, in pieces from about `size` bytes at a time.

        Together they are the text of `load_corpus`; each is to be read before the next one. With
        `apart` the documents are as they were written, with no line end put between them.

        Raises:
            CorpusError: while reading, where a file cannot be read, is empty, or is not UTF-8.
        """
        for number, origin in enumerate(self.origins, 1):
            if isinstance(origin, Path):
                pieces: Iterator[str] = pieces_of(origin, size)
            else:
                pieces = iter((_NAMED[origin](),))
            yield pieces if apart or number == len(self.origins) else _ending_a_line(pieces)

    def sizes(self) -> tuple[int, ...]:
        """The bytes of each document.

        Raises:
            CorpusError: a file that is not there any more.
        """
        try:
            return tuple(
                origin.stat().st_size if isinstance(origin, Path)
                else len(_NAMED[origin]().encode("utf-8"))
                for origin in self.origins
            )  # fmt: skip
        except OSError as error:
            raise CorpusError(f"a text cannot be read any more: {error}") from error


def stream_corpus(sources: str | Path | Sequence[str | Path]) -> CorpusStream:
    """What `load_corpus` reads, to be read piece by piece.

    Raises:
        CorpusError: nothing given, or a source that is not there, or given twice.
    """
    given = [sources] if isinstance(sources, str | Path) else list(sources)
    if not given:
        raise CorpusError(
            f"no text was given; give a path, or the name of a corpus: {', '.join(corpus_names())}"
        )
    found = [origin for source in given for origin in _expand(source)]
    _refuse_repeats(found)
    return CorpusStream(tuple(found), _name(found), tuple(map(str, found)))


def _ending_a_line(pieces: Iterator[str]) -> Iterator[str]:
    """The same text, with a line end behind it where it has none."""
    piece = ""
    for piece in pieces:
        yield piece
    if not piece.endswith("\n"):
        yield "\n"


def corpus_names() -> tuple[str, ...]:
    """The names that `load_corpus` knows."""
    return tuple(_NAMED)


def check_learnable(corpus: Corpus) -> None:
    """Refuse a text in which nothing can be predicted, because it has one symbol only.

    Raises:
        CorpusError: all characters of the text are the same.
    """
    first = corpus.text[0]
    if corpus.text.count(first) == len(corpus.text):
        refuse_one_symbol(corpus.name, len(corpus.text), first)


def refuse_one_symbol(name: str, characters: int, symbol: str) -> NoReturn:
    """Raise the error for a text in which nothing can be predicted."""
    raise CorpusError(
        f"{name} holds {characters:,} characters, all of them {symbol!r}, so there is nothing to "
        "predict; give a text with at least two different symbols"
    )


def _expand(source: str | Path) -> Sequence[str | Path]:
    """What one source stands for: the name of a corpus, or the paths of files."""
    if isinstance(source, str) and source in _NAMED:
        return [source]
    path = Path(source)
    if path.is_dir():
        found = sorted(entry for entry in path.rglob("*.txt") if entry.is_file())
        if not found:
            raise CorpusError(
                f"the folder {source} has no *.txt file in it or below; name its files, or give a "
                f"pattern such as {path / '*.md'}"
            )
        return found
    if path.exists():
        return [path]
    if glob.has_magic(str(source)):
        matches = sorted(Path(match) for match in glob.glob(str(source), recursive=True))
        found = [match for match in matches if match.is_file()]
        if found:
            return found
        raise CorpusError(f"no file matches the pattern {source}; check the folder and the ending")
    raise CorpusError(_not_there(source))


def _not_there(source: str | Path) -> str:
    path = Path(source)
    message = f"there is no file {str(source)!r}"
    if path.parent.is_dir():
        beside = {entry.name: str(entry) for entry in path.parent.iterdir()}
        known = {**beside, **{name: name for name in corpus_names()}}
        near = difflib.get_close_matches(path.name, known, n=1)
        if near:
            return f"{message}; did you mean {known[near[0]]}?"
    else:
        message += f", nor a folder {path.parent}"
    return f"{message}; give a path, or the name of a corpus: {', '.join(corpus_names())}"


def _refuse_repeats(found: list[str | Path]) -> None:
    seen: set[str | Path] = set()
    for origin in found:
        identity = origin.resolve() if isinstance(origin, Path) else origin
        if identity in seen:
            raise CorpusError(
                f"{origin} is given twice: what is held out of one copy would be learnt from the "
                "other; give it once"
            )
        seen.add(identity)


def _name(found: list[str | Path]) -> str:
    first = found[0].name if isinstance(found[0], Path) else found[0]
    return first if len(found) == 1 else f"{first} and {len(found) - 1} more"


def _python_docs() -> str:
    """The English reference text inside every CPython: its help topics, sorted by name.

    It grows with the version of Python (464,970 characters in 79 topics on 3.11).
    """
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise CorpusError(
            "this Python was built without pydoc_data, which holds the corpus python-docs; install "
            "the full standard library, or give the path of a text file"
        ) from error
    *most, last = (topics[name] for name in sorted(topics))
    return "".join(text if text.endswith("\n") else text + "\n" for text in most) + last


_NAMED: dict[str, Callable[[], str]] = {"grammar": sentences.text, "python-docs": _python_docs}
