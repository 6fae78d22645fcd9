"""A token file is read by anyone who knows its layout, and refuses what it is not."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from tinygrad_edu.text import BPETokenizer, CharTokenizer, CorpusError, open_tokens
from tinygrad_edu.text.token_files import Header, item_bytes
from tinygrad_edu.text.tokenizers import digest_of

LETTERS = CharTokenizer("abc")


def write(path: Path, ids: list[int], vocab_size: int = 3) -> Path:
    data = np.array(ids, f"<u{item_bytes(vocab_size)}").tobytes()
    header = Header(
        len(ids), vocab_size, digest_of(LETTERS), hashlib.sha256(b"abc").digest(),
        hashlib.sha256(data).digest(),
    )  # fmt: skip
    path.write_bytes(header.to_bytes() + data)
    return path


@pytest.mark.parametrize(
    ("vocab_size", "ids", "dtype"),
    [
        (3, [0, 1, 2, 0], "<u2"),
        (65_536, [0, 65_535], "<u2"),
        (65_537, [0, 65_536, 1], "<u4"),
        (3, [], "<u2"),
    ],
)
def test_numpy_alone_reads_it(
    tmp_path: Path, vocab_size: int, ids: list[int], dtype: str
) -> None:
    path = write(tmp_path / "t.bin", ids, vocab_size)
    assert np.fromfile(path, dtype, offset=128).tolist() == ids
    found = open_tokens(path)
    assert found.tokens.tolist() == ids and found.tokens.dtype == np.dtype(dtype)
    assert found.header.vocab_size == vocab_size
    found.verify()


def test_tokens_are_mapped_and_cannot_be_written(tmp_path: Path) -> None:
    found = open_tokens(write(tmp_path / "t.bin", [0, 1, 2]), LETTERS)
    assert isinstance(found.tokens, np.memmap) and isinstance(found.tokens[1:], np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        found.tokens[0] = 1


@pytest.mark.parametrize(
    ("place", "byte", "said"),
    [
        (0, b"X", r"is no token file: it begins with b'Xgtokens'"),
        (8, b"\x02", "of version 2, and this program reads version 1"),
        (17, b"\x01", "the header of .* is damaged"),
        (70, b"\xff", "the header of .* is damaged"),
    ],
)
def test_a_header_that_is_none_is_refused(
    tmp_path: Path, place: int, byte: bytes, said: str
) -> None:
    path = write(tmp_path / "t.bin", [0, 1, 2])
    data = bytearray(path.read_bytes())
    data[place : place + 1] = byte
    path.write_bytes(data)
    with pytest.raises(CorpusError, match=said):
        open_tokens(path)


@pytest.mark.parametrize("length", [0, 5, 8, 60, 127, 128, 129, 133])
def test_a_file_cut_short_is_refused_wherever(tmp_path: Path, length: int) -> None:
    path = write(tmp_path / "t.bin", [0, 1, 2])
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(CorpusError, match=r"cut short|is no token file"):
        open_tokens(path)


def test_what_was_appended_is_noticed(tmp_path: Path) -> None:
    path = write(tmp_path / "t.bin", [0, 1, 2])
    path.write_bytes(path.read_bytes() + b"\0\0")
    with pytest.raises(CorpusError, match="holds 136 bytes, and its 3 tokens take 134"):
        open_tokens(path)


def test_a_changed_token_is_found_by_verify(tmp_path: Path) -> None:
    path = write(tmp_path / "t.bin", [0, 1, 2])
    data = bytearray(path.read_bytes())
    data[-2] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorpusError, match="not those that were written"):
        open_tokens(path).verify()


def test_another_vocabulary_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "t.bin", [0, 1, 2])
    open_tokens(path, LETTERS)
    with pytest.raises(CorpusError, match=r"another vocabulary \(3 tokens\).* given \(4\)"):
        open_tokens(path, CharTokenizer("abcd"))
    with pytest.raises(CorpusError, match="cannot be read"):
        open_tokens(tmp_path / "none.bin")


def test_a_tokenizers_digest_is_of_what_decides_ids(tmp_path: Path) -> None:
    made = BPETokenizer([(0, 1), (256, 2)], ["<|end|>"])
    made.save(tmp_path / "t.json")
    others = [
        BPETokenizer([(0, 1), (256, 3)], ["<|end|>"]), BPETokenizer([(0, 1), (256, 2)]),
        BPETokenizer([(0, 1), (256, 2)], ["<|end|>"], pattern=r"(?s)."), CharTokenizer("ab"),
        CharTokenizer("ba"),
    ]  # fmt: skip
    assert digest_of(BPETokenizer.load(tmp_path / "t.json")) == digest_of(made)
    assert len({digest_of(t) for t in [made, *others]}) == 6
