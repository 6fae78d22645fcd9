"""The character tokenizer: nothing is lost over its alphabet, and everything else is an error."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinygrad_edu.text import CharTokenizer, TokenizerError

SHAKESPEARE = Path(__file__).resolve().parents[3] / "shared" / "data" / "tinyshakespeare.txt"
needs_tinyshakespeare = pytest.mark.skipif(
    not SHAKESPEARE.is_file(), reason="../shared/data/tinyshakespeare.txt is absent"
)

# Every string that is text: all code points but lone surrogates.
texts = st.text(st.characters(exclude_categories=("Cs",)), min_size=1)


@given(texts)
def test_what_is_encoded_decodes_to_itself(text: str) -> None:
    tokenizer = CharTokenizer.from_text(text)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode(tokenizer.encode_array(text)) == text
    assert len(ids) == len(text)


@given(texts, st.data())
def test_every_string_over_the_alphabet_decodes_to_itself(text: str, data: st.DataObject) -> None:
    tokenizer = CharTokenizer.from_text(text)
    other = data.draw(st.text(st.sampled_from(tokenizer.symbols)))
    assert tokenizer.decode(tokenizer.encode(other)) == other


@given(texts)
def test_ids_are_places_in_the_sorted_alphabet(text: str) -> None:
    tokenizer = CharTokenizer.from_text(text)
    assert tokenizer.symbols == "".join(sorted(set(text)))
    assert tokenizer.vocab_size == len(set(text))
    assert tokenizer.encode(text) == [tokenizer.symbols.index(symbol) for symbol in text]


@given(texts)
def test_a_saved_tokenizer_loads_as_its_equal(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.mktemp("saved") / "tokenizer.json"
    tokenizer = CharTokenizer.from_text(text)
    tokenizer.save(path)
    loaded = CharTokenizer.load(path)
    assert loaded == tokenizer
    assert hash(loaded) == hash(tokenizer)
    assert [entry.name for entry in path.parent.iterdir()] == ["tokenizer.json"]


@given(texts, st.characters(exclude_categories=("Cs",)))
def test_a_symbol_outside_the_alphabet_is_named_with_its_place(text: str, symbol: str) -> None:
    tokenizer = CharTokenizer.from_text(text)
    if symbol in tokenizer.symbols:
        assert tokenizer.encode(symbol) == [tokenizer.symbols.index(symbol)]
        return
    with pytest.raises(TokenizerError) as caught:
        tokenizer.encode(text + symbol)
    assert f"{symbol!r} (U+{ord(symbol):04X}" in str(caught.value)
    assert f"at position {len(text)} (line " in str(caught.value)


def test_ids_are_int64_and_match_the_list() -> None:
    tokenizer = CharTokenizer("abc")
    ids = tokenizer.encode_array("cab")
    assert ids.dtype == np.int64
    assert ids.tolist() == tokenizer.encode("cab") == [2, 0, 1]
    assert tokenizer.encode("") == []
    assert tokenizer.encode_array("").shape == (0,)
    assert tokenizer.decode([]) == ""
    assert tokenizer.decode(np.array([0, 2], dtype=np.uint8)) == "ac"


def test_order_given_is_the_order_of_the_ids() -> None:
    assert CharTokenizer("ba").encode("ab") == [1, 0]
    assert CharTokenizer("ba") != CharTokenizer("ab")
    assert CharTokenizer("ab") != "ab"
    assert repr(CharTokenizer("ab")) == "CharTokenizer(2 symbols: 'ab')"


@pytest.mark.parametrize(
    ("alphabet", "symbol", "remedy"),
    [
        ("aeiou", "É", "write 'e' instead"),
        ("Aa", "á", "write 'a' instead"),
        ("abc", "B", "write 'b' instead"),
        ("'\"", "\u2019", 'write "\'" instead'),
        ("ab-", "\u2014", "write '-' instead"),
        ("ab\n", "\r", r"write '\n' instead"),
        ("abc", "\U0001f600", "leave it out, or make the tokenizer from a text that contains it"),
    ],
)
def test_an_unknown_symbol_comes_with_the_nearest_remedy(
    alphabet: str, symbol: str, remedy: str
) -> None:
    with pytest.raises(TokenizerError) as caught:
        CharTokenizer(alphabet).encode(alphabet + symbol)
    assert remedy in str(caught.value)


def test_the_place_of_an_unknown_symbol_has_line_and_column() -> None:
    with pytest.raises(
        TokenizerError, match=r"'x' .*at position 5 \(line 2, column 3\).* 3 symbols"
    ):
        CharTokenizer("ab\n").encode("ab\nabxab")


def test_lone_surrogates_are_refused_with_a_reason() -> None:
    with pytest.raises(TokenizerError, match=r"U\+DCE9 at position 1 .*half of a character"):
        CharTokenizer("ab").encode("a\udce9")
    with pytest.raises(TokenizerError, match=r"U\+DCE9 cannot be in a vocabulary"):
        CharTokenizer.from_text("a\udce9")


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([0, 3], r"id 3 at position 1 .* 3 symbols has the ids 0 to 2"),
        ([0, 1, -1], r"id -1 at position 2 "),
        ([0.0, 1.0], r"dtype float64; it takes one flat sequence of integer ids"),
        ([True], r"dtype bool"),
        ([[0, 1]], r"shape \(1, 2\)"),
        (np.int64(1), r"shape \(\)"),
    ],
)
def test_ids_that_are_not_tokens_are_refused(ids: object, message: str) -> None:
    with pytest.raises(TokenizerError, match=message):
        CharTokenizer("abc").decode(ids)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("symbols", "message"),
    [
        ([], "no symbols"),
        (["a", "bc"], "entry 1 of the vocabulary is 'bc'"),
        (["a", ""], "entry 1 of the vocabulary is ''"),
        (["a", "b", "a"], "'a' .* stands twice"),
    ],
)
def test_a_vocabulary_that_is_none_is_refused(symbols: list[str], message: str) -> None:
    with pytest.raises(TokenizerError, match=message):
        CharTokenizer(symbols)


def test_an_empty_text_makes_no_tokenizer() -> None:
    with pytest.raises(TokenizerError, match="empty text"):
        CharTokenizer.from_text("")


def test_the_file_is_readable_json_with_type_and_version(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    CharTokenizer("ab\né").save(str(path))
    assert json.loads(path.read_text(encoding="utf-8")) == {
        "type": "characters",
        "format_version": 1,
        "symbols": "ab\né",
    }
    assert "é" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not JSON"),
        (b'{"type": "characters", "format_', "not JSON"),
        (b"\xff\x00", "not JSON"),
        (b"[1]", "its type is None"),
        (b'{"type": "bpe"}', "its type is 'bpe' and not 'characters'"),
        (b'{"type": "characters", "format_version": 2}', "format version 2, .* reads version 1"),
        (b'{"type": "characters", "format_version": 1}', "no string of symbols"),
        (b'{"type": "characters", "format_version": 1, "symbols": "aa"}', "stands twice"),
    ],
)
def test_a_file_that_is_no_tokenizer_is_refused(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(TokenizerError, match=message):
        CharTokenizer.load(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"none\.json cannot be read \(No such file"):
        CharTokenizer.load(tmp_path / "none.json")


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.mkdir()
    (path / "kept").touch()
    with pytest.raises(OSError, match=r"tokenizer\.json"):
        CharTokenizer("ab").save(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["tokenizer.json"]


@needs_tinyshakespeare
def test_tinyshakespeare_has_65_symbols_and_survives() -> None:
    text = SHAKESPEARE.read_text(encoding="utf-8")
    tokenizer = CharTokenizer.from_text(text)
    assert tokenizer.vocab_size == 65
    assert tokenizer.symbols.startswith("\n !$&',-.3:;?ABC")
    ids = tokenizer.encode_array(text)
    assert ids.shape == (1_115_394,)
    # the first symbols of nanoGPT's train.bin for this file
    assert ids[:10].tolist() == [18, 47, 56, 57, 58, 1, 15, 47, 58, 47]
    assert tokenizer.decode(ids) == text
