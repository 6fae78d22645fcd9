"""A text cut where chunks are certain gives the tokens of the whole, whatever the cuts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tinygrad_edu.text import BPETokenizer, CharTokenizer, TokenizerError, train_bpe
from tinygrad_edu.text.bpe import GPT2_PATTERN
from tinygrad_edu.text.cutting import ANY_MARGIN, GPT2_MARGIN, Margin, blocks, margin_of

GPT4 = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*"
    r"|\s*[\r\n]|\s+(?!\S)|\s+"
)
GPT4_NOW = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
PATTERNS = [GPT2_PATTERN, GPT4, GPT4_NOW, r"\S+|\s+", r"(?s).{1,3}", r"\s*\S+|\s+", r"(?s).+"]
ALPHABET = "asrevl' \n\t.1é"
LEARNT = train_bpe("we're the lasers, they've 11 lasers.\n\n  it's   're 1 a's  \n" * 3, 290)


def bpe(pattern: str) -> BPETokenizer:
    return BPETokenizer(LEARNT.tokenizer.merges, pattern=pattern)


def cut(text: str, sizes: list[int]) -> Iterator[str]:
    """The text in pieces of these sizes, over and over."""
    start = 0
    for size in itertools.cycle(sizes):
        if start >= len(text):
            return
        yield text[start : start + size]
        start += size


@given(
    st.text(ALPHABET, min_size=1, max_size=60),
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.integers(1, 12),
    st.sampled_from(PATTERNS),
)
@example("a're", [3], 3, GPT2_PATTERN)
@example("\n   \n   a  'll", [2, 1], 1, GPT4)
def test_any_pieces_give_the_tokens_of_the_whole(
    text: str, sizes: list[int], size: int, pattern: str
) -> None:
    tokenizer = bpe(pattern)
    margin = GPT2_MARGIN if pattern == GPT2_PATTERN else Margin(3, 3)
    made = list(blocks(tokenizer, cut(text, sizes), size, margin))
    assert "".join(block for block, _ in made) == text
    assert [i for _, chunks in made for i in tokenizer.encode_chunks(chunks)] == (
        tokenizer.encode_ordinary(text)
    )


def test_gpt2s_margin_is_enough_for_every_text_of_five_characters() -> None:
    """Every text over one character of each kind, cut everywhere: no case is left out."""
    tokenizer = bpe(GPT2_PATTERN)
    wrong_with_less = 0
    for letters in itertools.product("re' \n.", repeat=5):
        text = "".join(letters)
        whole = tokenizer.chunks(text)
        for end in range(1, 5):
            for margin in (GPT2_MARGIN, Margin(1, 0)):
                first = next(blocks(tokenizer, [text[:end], text[end:]], end, margin))[1]
                right = whole[: len(first)] == first
                assert right or margin != GPT2_MARGIN, (text, end)
                wrong_with_less += not right
    assert wrong_with_less


def test_a_margin_of_other_patterns_is_in_chunks_too() -> None:
    """GPT-4's run of spaces reaches to a line end that is further away than any number."""
    text = "a\n" + " " * 50 + "\n" + "b. " * 40
    tokenizer = bpe(GPT4)
    parts = list(blocks(tokenizer, cut(text, [1]), 1, Margin(5, 3)))
    assert [c for _, chunks in parts for c in chunks] == tokenizer.chunks(text)
    assert len(parts) > 3


def test_blocks_are_short_where_the_text_can_be_cut() -> None:
    text = "the cat sat on the mat. " * 400
    made = list(blocks(bpe(GPT2_PATTERN), cut(text, [7]), 100))
    assert max(len(block) for block, _ in made) < 120 and len(made) > 80
    made = list(blocks(CharTokenizer.from_text(text), cut(text, [7]), 100))
    assert max(len(block) for block, _ in made) < 120 and len(made) > 80


def test_a_chunk_longer_than_a_block_is_looked_at_a_few_times_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int] = []
    tokenizer = bpe(GPT2_PATTERN)
    plain = tokenizer.chunks
    monkeypatch.setattr(tokenizer, "chunks", lambda s: seen.append(len(s)) or plain(s))
    text = "a" * 10_000 + " b"
    assert "".join(block for block, _ in blocks(tokenizer, cut(text, [10]), 10)) == text
    assert sum(seen) < 40_000


@pytest.mark.parametrize(
    ("pattern", "sign"),
    [(r"^a|.", "^"), (r"(?<=a)b|.", "(?<="), (r"\bx|.", r"\b"), (r"(?<!a)b|.", "(?<!")],
)
def test_a_pattern_that_looks_back_is_refused(pattern: str, sign: str) -> None:
    with pytest.raises(TokenizerError, match="looks back with") as caught:
        margin_of(pattern)
    assert repr(sign) in str(caught.value)


@pytest.mark.parametrize(
    "pattern", [r"[^a]|a", r"\^|[\s\S]", r"[^]a]|.", r"\\[^b]|.", r"\[^", GPT4, r"[[:^alpha:]^b]|."]
)
def test_the_signs_of_looking_back_are_not_mistaken(pattern: str) -> None:
    if pattern == r"\[^":  # an escaped bracket opens no class: here it is an anchor
        with pytest.raises(TokenizerError):
            margin_of(pattern)
    else:
        assert margin_of(pattern) == ANY_MARGIN
