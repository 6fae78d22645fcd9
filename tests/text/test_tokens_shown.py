"""Tokens to look at: every byte shown, nothing injected, bytes per token; the commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinygrad_edu.cli import main
from tinygrad_edu.text import BPETokenizer, train_bpe
from tinygrad_edu.text.tokens_shown import ShownTokens, bytes_per_token, shown_merges

TEXT = "the cat sat on the mat, the cat ate.\nO gato subiu no São João.\n" * 3
TRAINED = train_bpe(TEXT, 300).tokenizer


@given(st.text())
def test_any_text_is_shown_without_controls_or_markup(text: str) -> None:
    shown = ShownTokens.of(TRAINED, text)
    assert len(shown.ids) == len(TRAINED.encode_ordinary(text))
    assert all(c.isprintable() for c in shown.plain())
    page = shown._repr_html_()
    assert page.count("<span") == len(shown.ids)
    assert not re.search(r"<(?!/?(span|div|br)\b)", page)
    assert b"".join(shown.pieces) == text.encode()
    assert "\x1b" not in re.sub(r"\x1b\[[0-9;]*m", "", shown.coloured())


def test_half_characters_are_shown_as_bytes() -> None:
    assert ShownTokens.of(BPETokenizer([]), "é\n").plain() == "<c3>|<a9>|⏎"


def test_merges_of_a_word_are_lines() -> None:
    lines = shown_merges(TRAINED, " the").splitlines()
    assert lines[0] == "[ ] [t] [h] [e]" and lines[-1] == "[ the]"


def test_bytes_per_token_are_counted() -> None:
    head, row = bytes_per_token({"bytes": BPETokenizer([]), "own": TRAINED}, {"cats": TEXT})
    assert head.split() == ["bytes", "per", "token", "bytes", "own"]
    assert float(row.split()[1]) == 1.0
    size = len(TEXT.encode()) / len(TRAINED.encode(TEXT))
    assert float(row.split()[2]) == pytest.approx(size, abs=0.005)


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.txt").write_text(TEXT, encoding="utf-8")
    path = str(tmp_path / "tokenizer.json")
    assert main([
        "tokenizer", "train", str(tmp_path / "t.txt"), "--vocab-size", "280", "-o", path,
    ]) == 0  # fmt: skip
    assert "280 tokens, 23 merges from" in capsys.readouterr().out
    made = BPETokenizer.load(path)
    assert made.special_tokens == {"<|endoftext|>": 279}
    assert main(["tokenizer", "encode", path, "the cat"]) == 0
    ids = capsys.readouterr().out.split()
    assert list(map(int, ids)) == made.encode("the cat")
    assert main(["tokenizer", "decode", path, *ids]) == 0
    assert capsys.readouterr().out == "the cat\n"
    assert main(["tokenizer", "show", path, "the cat", "--word", " the", "--beside", path]) == 0
    shown = capsys.readouterr().out
    assert "the| cat" in shown and "bytes per token" in shown and "[ the]" in shown
    (tmp_path / "pt.txt").write_text("O gato subiu", encoding="utf-8")
    files = [str(tmp_path / name) for name in ("t.txt", "pt.txt")]
    assert main(["tokenizer", "show", path, "é", "--files", *files]) == 0
    *_, head, own, english, portuguese = capsys.readouterr().out.splitlines()
    assert head.split() == ["bytes", "per", "token", "tokenizer.json"]
    assert float(own.split()[-1]) == 1 < float(portuguese.split()[-1]) < float(english.split()[-1])
    assert english.startswith("…") and english.split()[0].endswith("/t.txt")


@pytest.mark.parametrize(("arguments", "said"), [
    (["encode", "nosuch.json", "x"], "cannot be read"),
    (["train", "nosuch.txt"], "No such file"),
    (["decode", "FOLDER", "1"], "holds neither tokenizer.json, nor vocab.json"),
])  # fmt: skip
def test_what_is_wrong_is_said(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(tmp_path) if a == "FOLDER" else a for a in arguments]
    assert main(["tokenizer", *given]) == 2
    assert said in capsys.readouterr().err


def test_a_file_that_is_not_utf8(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes("São".encode("latin-1"))
    assert main(["tokenizer", "train", str(path)]) == 2
    assert "is not UTF-8 (byte 1): save it as UTF-8" in capsys.readouterr().err
