r"""Texts to learn from: files of the reader, or a corpus by name.

What a text is: UTF-8, decoded strictly. A byte order mark at the start is dropped, and line ends
become `\n` as in Python's own text mode, so that a file gives the same symbols whichever system
wrote it. Nothing else is changed.
"""

from __future__ import annotations

import difflib
import glob
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tinygrad_edu.text import sentences
from tinygrad_edu.text.errors import CorpusError
from tinygrad_edu.text.grammar import Grammar


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
    given = [sources] if isinstance(sources, str | Path) else list(sources)
    if not given:
        raise CorpusError(
            f"no text was given; give a path, or the name of a corpus: {', '.join(corpus_names())}"
        )
    found = [origin for source in given for origin in _expand(source)]
    _refuse_repeats(found)
    texts = [_read(origin) if isinstance(origin, Path) else _NAMED[origin]() for origin in found]
    source = sentences.grammar() if found == ["grammar"] else None
    return Corpus(_join(texts), _name(found), tuple(str(origin) for origin in found), source)


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
        raise CorpusError(
            f"{corpus.name} holds {len(corpus.text):,} characters, all of them {first!r}, so there "
            "is nothing to predict; give a text with at least two different symbols"
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


def _read(path: Path) -> str:
    """The text of one file, decoded as the head of this module says."""
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise CorpusError(f"{path} cannot be read ({reason}); give a file that can") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CorpusError(_not_utf8(path, data, error.start)) from error
    if not text:
        raise CorpusError(f"{path} is empty; give a file with text in it")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _not_utf8(path: Path, data: bytes, offset: int) -> str:
    """The error for bytes that are not UTF-8.

    `offset` counts from where the decoder began, which is after a byte order mark if there is one.
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return (
            f"{path} is UTF-16, as its first two bytes say, and not UTF-8; convert it with "
            f"`iconv -f UTF-16 -t UTF-8 {path}`, or save it as UTF-8"
        )
    offset += 3 if data.startswith(b"\xef\xbb\xbf") else 0
    byte = data[offset]
    line = data.count(b"\n", 0, offset) + 1
    return (
        f"{path} is not UTF-8: byte {offset} (line {line}) is 0x{byte:02x}, which is "
        f"{chr(byte)!r} in Latin-1; if that is what it means, convert the file with "
        f"`iconv -f LATIN1 -t UTF-8 {path}`, or save it as UTF-8"
    )


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


def _join(texts: list[str]) -> str:
    last = len(texts) - 1
    return "".join(
        text if index == last or text.endswith("\n") else text + "\n"
        for index, text in enumerate(texts)
    )


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
    return _join([topics[name] for name in sorted(topics)])


_NAMED: dict[str, Callable[[], str]] = {"grammar": sentences.text, "python-docs": _python_docs}
