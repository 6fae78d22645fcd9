"""Corpora: what counts as a text, and one sentence for everything that does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinygrad_edu.text import Corpus, CorpusError, check_learnable, corpus_names, load_corpus

SHAKESPEARE = Path(__file__).resolve().parents[3] / "shared" / "data" / "tinyshakespeare.txt"
needs_tinyshakespeare = pytest.mark.skipif(
    not SHAKESPEARE.is_file(), reason="../shared/data/tinyshakespeare.txt is absent"
)


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path


def test_python_docs_is_the_reference_text_of_this_python() -> None:
    corpus = load_corpus("python-docs")
    assert corpus.name == "python-docs"
    assert corpus.sources == ("python-docs",)
    assert len(corpus.text) > 400_000
    assert corpus.text.startswith('The "assert" statement\n')
    assert load_corpus(["python-docs"]) == corpus
    assert "python-docs" in corpus_names()


def test_one_file_is_its_text_unchanged(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "olá\n\n mundo ")
    assert load_corpus(path) == Corpus("olá\n\n mundo ", "a.txt", (str(path),))
    assert load_corpus(str(path)) == load_corpus([path])


@given(
    st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r\ufeff"), min_size=1)
)
def test_any_text_comes_back_as_written(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    assert load_corpus(write(tmp_path_factory.mktemp("any") / "a.txt", text)).text == text


def test_a_byte_order_mark_is_dropped_and_line_ends_become_newlines(tmp_path: Path) -> None:
    path = write(tmp_path / "windows.txt", b"\xef\xbb\xbfa\r\nb\rc\n")
    assert load_corpus(path).text == "a\nb\nc\n"


def test_several_files_are_joined_in_the_order_given(tmp_path: Path) -> None:
    b, a = write(tmp_path / "b.txt", "no end"), write(tmp_path / "a.txt", "end\n")
    corpus = load_corpus([b, a, "python-docs"])
    assert corpus.text.startswith('no end\nend\nThe "assert"')
    assert corpus.name == "b.txt and 2 more"
    assert corpus.sources == (str(b), str(a), "python-docs")
    assert load_corpus([a, b]).text == "end\nno end"


def test_folders_and_patterns_give_their_files_sorted(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    for name in ("b.txt", "a.txt", "below/c.txt", "note.md"):
        write(tmp_path / name, name + "\n")
    assert load_corpus(tmp_path).text == "a.txt\nb.txt\nbelow/c.txt\n"
    assert load_corpus(str(tmp_path / "*.txt")).text == "a.txt\nb.txt\n"
    assert load_corpus(str(tmp_path / "**" / "c*")).text == "below/c.txt\n"
    write(tmp_path / "[x].txt", "its name is no pattern\n")
    assert load_corpus(str(tmp_path / "[x].txt")).text == "its name is no pattern\n"


def test_a_file_may_have_the_name_of_a_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "python-docs", "mine")
    assert load_corpus("./python-docs").text == "mine"
    assert load_corpus("python-docs").text != "mine"


@pytest.mark.parametrize(
    ("given_name", "suggestion"),
    [
        ("python-doc", "did you mean python-docs?"),
        ("inptu.txt", "did you mean input.txt?"),
        ("qqq", "give a path, or the name of a corpus: grammar, python-docs"),
        ("nowhere/input.txt", "nor a folder nowhere; give a path"),
    ],
)
def test_a_missing_source_comes_with_the_nearest_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given_name: str, suggestion: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "input.txt", "x")
    with pytest.raises(CorpusError) as caught:
        load_corpus(given_name)
    assert f"there is no file {given_name!r}" in str(caught.value)
    assert suggestion in str(caught.value)


def test_the_first_byte_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "latin.txt", "abc\nol\u00e1 mundo\n".encode("latin-1"))
    with pytest.raises(CorpusError) as caught:
        load_corpus(path)
    assert f"{path} is not UTF-8: byte 6 (line 2) is 0xe1, which is 'á'" in str(caught.value)
    assert f"iconv -f LATIN1 -t UTF-8 {path}" in str(caught.value)


def test_the_byte_is_counted_from_the_start_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "marked.txt", b"\xef\xbb\xbfab\xff")
    with pytest.raises(CorpusError, match=r"byte 5 \(line 1\) is 0xff"):
        load_corpus(path)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_utf16_is_recognised(tmp_path: Path, encoding: str) -> None:
    mark = b"\xfe\xff" if encoding.endswith("be") else b""
    path = write(tmp_path / "wide.txt", mark + "some text".encode(encoding))
    with pytest.raises(CorpusError, match="is UTF-16"):
        load_corpus(path)


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf"])
def test_an_empty_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = write(tmp_path / "empty.txt", content)
    with pytest.raises(CorpusError, match=r"empty\.txt is empty"):
        load_corpus(["python-docs", path])


def test_nothing_and_twice_and_no_match_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "x")
    with pytest.raises(CorpusError, match="no text was given"):
        load_corpus([])
    with pytest.raises(CorpusError, match="given twice"):
        load_corpus([path, tmp_path / "." / ".." / tmp_path.name / "a.txt"])
    with pytest.raises(CorpusError, match="python-docs is given twice"):
        load_corpus(["python-docs", "python-docs"])
    with pytest.raises(CorpusError, match=r"no file matches the pattern .*\*\.rst"):
        load_corpus(str(tmp_path / "*.rst"))
    (tmp_path / "folder").mkdir()
    with pytest.raises(CorpusError, match=r"has no \*\.txt file"):
        load_corpus(tmp_path / "folder")


def test_a_text_of_one_symbol_cannot_be_learnt_from(tmp_path: Path) -> None:
    same = load_corpus(write(tmp_path / "same.txt", "aaaa"))
    with pytest.raises(CorpusError, match=r"same\.txt holds 4 characters, all of them 'a'"):
        check_learnable(same)
    check_learnable(load_corpus(write(tmp_path / "two.txt", "aaab")))


@needs_tinyshakespeare
def test_tinyshakespeare_is_read_whole() -> None:
    corpus = load_corpus(SHAKESPEARE)
    assert len(corpus.text) == 1_115_394
    assert corpus.text.startswith("First Citizen:\nBefore we proceed")
