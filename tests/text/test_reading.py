"""Pieces of any size are the text, and a bad byte is named as if the file were read whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinygrad_edu.text import CorpusError, load_corpus
from tinygrad_edu.text.corpora import stream_corpus
from tinygrad_edu.text.reading import pieces_of

TEXTS = st.text(st.sampled_from("ab\r\n\ufeffé𝄞"), min_size=1, max_size=30)


def as_python_reads_it(data: bytes) -> str:
    """The definition: the whole decoded at once, in Python's universal newlines."""
    return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


@given(TEXTS, st.integers(1, 9))
def test_pieces_of_any_size_are_the_text(
    tmp_path_factory: pytest.TempPathFactory, text: str, size: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "pieces.txt"
    path.write_bytes(text.encode())
    expected = as_python_reads_it(path.read_bytes())
    if not expected:
        with pytest.raises(CorpusError, match="is empty"):
            list(pieces_of(path, size))
        return
    pieces = list(pieces_of(path, size))
    assert all(pieces) and "".join(pieces) == expected
    assert load_corpus(path).text == expected


@given(st.lists(TEXTS.filter(lambda s: s != "\ufeff"), min_size=1, max_size=4), st.integers(1, 9))
def test_documents_are_joined_as_load_corpus_joins_them(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], size: int
) -> None:
    folder = tmp_path_factory.mktemp("documents")
    paths = [folder / f"{k}.txt" for k in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(text.encode())
    stream = stream_corpus(paths)
    whole = [as_python_reads_it(path.read_bytes()) for path in paths]
    apart = ["".join(pieces) for pieces in stream.documents(size, apart=True)]
    assert apart == whole
    joined = "".join(
        text if text.endswith("\n") or k == len(whole) - 1 else text + "\n"
        for k, text in enumerate(whole)
    )
    assert "".join(piece for pieces in stream.documents(size) for piece in pieces) == joined


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 100])
@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("a\né".encode() + b"\xff.\n", r"byte 4 \(line 2\) is 0xff"),
        (b"\xef\xbb\xbfab\xff", r"byte 5 \(line 1\) is 0xff"),
        ("ab\n𝄞".encode()[:-1], r"byte 3 \(line 2\) is 0xf0"),
        (b"a\nb\n\xe2\x28\xa1", r"byte 4 \(line 3\) is 0xe2"),
        (b"\xe4\n", r"byte 0 \(line 1\) is 0xe4, which is 'ä' in Latin-1"),
    ],
)
def test_a_bad_byte_is_named_wherever_pieces_end(
    tmp_path: Path, data: bytes, said: str, size: int
) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(data)
    with pytest.raises(CorpusError, match=said):
        list(pieces_of(path, size))
