"""Text from tokens: whole characters, stop strings, the end of a text."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinygrad_edu import lm, text
from tinygrad_edu.lm.trained import Trained
from tinygrad_edu.lm.writing import StopStrings, pieces

FEW = st.text(alphabet="abc", max_size=12)
STOPS = st.lists(st.text(alphabet="abc", min_size=1, max_size=4), max_size=3)


def until(whole: str, strings: list[str]) -> tuple[str, bool]:
    """The slow reference: symbol by symbol, is a string complete?"""
    for end in range(1, len(whole) + 1):
        complete = [string for string in strings if whole[:end].endswith(string)]
        if complete:
            return whole[: end - max(map(len, complete))], True
    return whole, False


@given(FEW, STOPS, st.data())
def test_text_ends_before_the_first_stop_string_however_it_comes_in_pieces(
    whole: str, strings: list[str], data: st.DataObject
) -> None:
    stop = StopStrings(strings)
    expected, stopped = until(whole, strings)
    shown, start = "", 0
    while start < len(whole):
        end = data.draw(st.integers(start + 1, len(whole)))
        shown += stop.feed(whole[start:end])
        start = end
        assert expected.startswith(shown), "a part of a stop string got out"
        seen = until(whole[:end], strings)
        # nothing is held back without need: what is must be the beginning of a stop string
        held = seen[0][len(shown) :]
        assert seen[1] or not held or any(string.startswith(held) for string in strings)
    assert stop.reached == stopped
    assert shown + stop.flush() == expected


def test_the_first_to_be_complete_ends_the_text_and_not_the_first_to_begin() -> None:
    stop = StopStrings(["abca", "b"])
    assert stop.feed("cabca") == "ca"
    assert stop.reached and stop.feed("more") == stop.flush() == ""


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(lm.SamplingError, match="a stop string is empty"):
        StopStrings(["a", ""])


def test_one_string_is_one_stop_string_and_not_its_letters() -> None:
    assert StopStrings("END").feed("DEN") == "D"


@pytest.fixture(scope="module")
def bpe() -> text.BPETokenizer:
    return text.train_bpe("o gato é São; o João não é são. " * 9, 262).tokenizer


@given(st.text(max_size=20))
def test_pieces_are_whole_characters_and_together_the_text(
    bpe: text.BPETokenizer, words: str
) -> None:
    parts = list(pieces(bpe, bpe.encode_ordinary(words), StopStrings()))
    assert "".join(parts) == bpe.decode(bpe.encode_ordinary(words))
    assert all(parts)
    if "\N{REPLACEMENT CHARACTER}" not in "".join(parts):
        assert not any("\N{REPLACEMENT CHARACTER}" in part for part in parts)


def test_half_a_character_at_the_end_shows_as_such(bpe: text.BPETokenizer) -> None:
    first_byte = text.bpe.BYTE_ORDER.index(0xE2)
    assert "".join(pieces(bpe, [first_byte], StopStrings())) == "\N{REPLACEMENT CHARACTER}"


def test_nothing_is_drawn_after_the_end() -> None:
    tokenizer = text.BPETokenizer([], ("<|endoftext|>",))
    a, end = tokenizer.encode("a")[0], tokenizer.special_tokens["<|endoftext|>"]
    asked: list[int] = []

    def ids(*given: int) -> Iterator[int]:
        for one in given:
            asked.append(one)
            yield one

    assert "".join(pieces(tokenizer, ids(a, a, end, a), StopStrings())) == "aa"
    assert asked == [a, a, end]
    asked.clear()
    assert "".join(pieces(tokenizer, ids(a, a, a, a), StopStrings(["aa"]))) == ""
    assert asked == [a, a]
    assert "".join(pieces(tokenizer, ids(a, end), StopStrings(["ab"]))) == "a"


def trained(size: int = 0) -> Trained:
    """Untrained, of the letters a to e; with logits for `size` tokens, the last the likeliest."""
    tokenizer = text.CharTokenizer("abcde")
    config = lm.TrainConfig(num_layers=1, num_heads=1, embed_dim=8, block_size=4)
    model = lm.GPT(lm.GPTConfig(size or 5, 4, 1, 1, 8), np.random.default_rng(0))
    return Trained(config, tokenizer, model)


def test_a_text_is_written_with_stop_strings_and_samples_of_its_own() -> None:
    writer = trained()
    whole = "".join(writer.write("ab", 60, temperature=1.0))
    assert len(whole) == 60
    stop = whole[20:23]
    assert "".join(writer.write("ab", 60, temperature=1.0, stop=(stop,))) == (
        whole[: whole.index(stop)]
    )
    texts = {"".join(writer.write("ab", 60, temperature=1.0, sample=i)) for i in range(5)}
    assert len(texts) == 5 and whole in texts


def test_options_stand_in_the_place_of_temperature_and_top_k() -> None:
    writer = trained()
    greedy = "".join(writer.write("ab", 20, temperature=0))
    nucleus = lm.SamplingOptions(top_p=1e-9)
    assert "".join(writer.write("ab", 20, temperature=1, options=nucleus)) == greedy


def test_logits_beyond_the_tokenizers_tokens_are_never_drawn() -> None:
    writer = trained(64)
    assert len("".join(writer.write("ab", 200, temperature=5.0))) == 200


def test_how_much_of_a_prompt_the_model_does_not_see() -> None:
    writer = trained()
    assert [writer.unseen("abc"), writer.unseen("abcd"), writer.unseen("abcde" * 2)] == [0, 0, 6]
    assert writer.unseen("") == 0
    long = "".join(writer.write("abcdeabcde", 20))
    assert long == "".join(writer.write("bcde", 20))


def test_all_unknown_symbols_of_a_prompt_are_named() -> None:
    with pytest.raises(text.TokenizerError, match=r"'Ω' .* at position 1 .*, nor is 'x'; "):
        trained().write("aΩΩx", 5)
    with pytest.raises(text.TokenizerError, match=r"nor are 'f', .*'m' and 3 more; "):
        trained().write("aΩfghijklmnop", 5)
