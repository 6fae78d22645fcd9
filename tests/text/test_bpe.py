"""Byte-level BPE: nothing is lost, merges by the definition, special tokens, streams, files."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinygrad_edu.text import (
    BPETokenizer,
    TokenizerError,
    bpe,
    bpe_files,
    chunks,
    joining,
    load_corpus,
    train_bpe,
)
from tinygrad_edu.text.bpe_training import Progress, _Learner

TEXT = (
    "the cat sat on the mat. the cat ate the rat that sat on the mat!\nO gato subiu no São João.\n"
) * 4
TRAINED = train_bpe(TEXT, 330, special_tokens=["<|end|>", "<|end|>x"]).tokenizer


def naive(counts: Counter[str], wanted: int, least: int) -> list[tuple[bytes, bytes]]:
    """Merges by counting all pairs afresh, each time: the definition."""
    order = {bytes([b]): i for i, b in enumerate(bpe.BYTE_ORDER)}
    words = [([bytes([b]) for b in w.encode()], n) for w, n in counts.items()]
    merges: list[tuple[bytes, bytes]] = []
    while len(order) - 256 < wanted:
        pairs: Counter[tuple[bytes, bytes]] = Counter()
        for word, n in words:
            for pair in pairwise(word):
                pairs[pair] += n
        if not pairs:
            break
        best = min(pairs, key=lambda p: (-pairs[p], order[p[0]], order[p[1]]))
        if pairs[best] < least:
            break
        merges.append(best)
        order.setdefault(best[0] + best[1], len(order))
        words = [(joined(word, best), n) for word, n in words]
    return merges


def joined(word: list[bytes], pair: tuple[bytes, bytes]) -> list[bytes]:
    out: list[bytes] = []
    i = 0
    while i < len(word):
        if tuple(word[i : i + 2]) == pair:
            out.append(pair[0] + pair[1])
            i += 2
        else:
            out.append(word[i])
            i += 1
    return out


def naive_encode(tokenizer: BPETokenizer, chunk: str) -> list[bytes]:
    word = [bytes([b]) for b in chunk.encode()]
    for a, b in tokenizer.merges:
        word = joined(word, (tokenizer.token_bytes(a), tokenizer.token_bytes(b)))
    return word


words = st.text(alphabet="abcé ", min_size=0, max_size=12)


@given(st.lists(words, min_size=1, max_size=12), st.integers(0, 25), st.integers(1, 3))
def test_merges_are_those_of_counting_afresh(texts: list[str], wanted: int, least: int) -> None:
    text = "\n".join(texts) + "."
    learned = train_bpe(text, 256 + wanted, min_frequency=least)
    counts = Counter(chunks.compiled(bpe.GPT2_PATTERN).findall(text))
    made = learned.tokenizer
    mine = [(made.token_bytes(a), made.token_bytes(b)) for a, b in made.merges]
    assert mine == naive(counts, wanted, least)
    assert len(learned.counts) == len(mine)
    assert list(learned.counts) == sorted(learned.counts, reverse=True)


@given(st.text("abcé", min_size=1, max_size=40) | st.text("abcé", min_size=65, max_size=200))
def test_encoding_is_the_merges_one_after_the_other(chunk: str) -> None:
    """Joining the earliest pair first is the same as applying each merge to the whole."""
    learned = train_bpe("abcabc éa bca aab éabc aaaa bbbb abab " * 3, 300, min_frequency=1)
    tokenizer = learned.tokenizer
    got = [tokenizer.token_bytes(i) for i in tokenizer.encode(chunk)]
    assert got == naive_encode(tokenizer, chunk)


@given(st.text())
def test_nothing_is_lost(text: str) -> None:
    assert TRAINED.decode(TRAINED.encode_ordinary(text)) == text
    assert TRAINED.decode(TRAINED.encode(text, allowed_special="all")) == text
    assert TRAINED.decode_bytes(TRAINED.encode_ordinary(text)) == text.encode()


@given(st.text(alphabet=st.characters(codec=None)))
def test_lone_surrogates_become_replacement_characters(text: str) -> None:
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert TRAINED.decode(TRAINED.encode_ordinary(text)) == whole


@given(st.binary(max_size=40))
def test_any_bytes_can_be_decoded_as_asked(data: bytes) -> None:
    ids = [bpe.BYTE_ORDER.index(b) for b in data]
    assert TRAINED.decode_bytes(ids) == data
    assert TRAINED.decode(ids) == data.decode("utf-8", "replace")
    assert TRAINED.decode(ids, errors="ignore") == data.decode("utf-8", "ignore")
    stream = TRAINED.stream()
    pieces = [stream.feed(i) for i in ids]
    assert "".join(pieces) + stream.flush() == data.decode("utf-8", "replace")


@given(st.text())
def test_a_stream_never_gives_half_of_a_character(text: str) -> None:
    stream = TRAINED.stream()
    pieces = [stream.feed(i) for i in TRAINED.encode_ordinary(text)]
    assert "\ufffd" not in "".join(pieces) or "\ufffd" in text
    assert "".join(pieces) + stream.flush() == text


@given(st.text())
def test_offsets_are_where_tokens_begin(text: str) -> None:
    ids = TRAINED.encode_ordinary(text)
    whole, offsets = TRAINED.decode_with_offsets(ids)
    assert whole == text and len(offsets) == len(ids)
    at = 0
    for i, offset in zip(ids, offsets, strict=True):
        assert offset == max(0, len(text.encode()[: at + 1].decode("utf-8", "ignore")) - 1) or (
            offset == len(text.encode()[:at].decode("utf-8", "ignore"))
        )
        at += len(TRAINED.token_bytes(i))


def test_steps_of_a_word() -> None:
    steps = list(TRAINED.merge_steps(" the"))
    assert steps[0] == [b" ", b"t", b"h", b"e"]
    assert steps[-1] == [TRAINED.token_bytes(i) for i in TRAINED.encode(" the")]
    assert all(len(a) == len(b) + 1 for a, b in pairwise(steps))


def test_long_chunks_are_joined_quickly_and_alike() -> None:
    ids = TRAINED.encode("a" * 100_000)
    assert TRAINED.decode(ids) == "a" * 100_000
    chunk = "thecatthatsat" * 20
    assert len(chunk) > joining.LONG
    short = BPETokenizer(TRAINED.merges)
    got = [short.token_bytes(i) for i in short.encode(chunk)]
    assert got == naive_encode(short, chunk)


def test_special_tokens_by_tiktokens_rules() -> None:
    end, longer = TRAINED.special_tokens["<|end|>"], TRAINED.special_tokens["<|end|>x"]
    text = "a<|end|>xb<|end|>"
    with pytest.raises(TokenizerError, match=r"'<\|end\|>x' at position 1, which is a special"):
        TRAINED.encode(text)
    plain = TRAINED.encode(text, disallowed_special=())
    assert end not in plain and plain == TRAINED.encode_ordinary(text)
    ids = TRAINED.encode(text, allowed_special="all")
    assert ids.count(longer) == 1 and ids.count(end) == 1  # the longest first
    assert TRAINED.decode(ids) == text
    only = TRAINED.encode(text, allowed_special={"<|end|>x"}, disallowed_special=())
    assert only.count(longer) == 1 and end not in only
    with pytest.raises(TokenizerError, match="is no special token of this tokenizer"):
        TRAINED.encode("a", allowed_special={"<|nosuch|>"})


def test_the_order_of_texts_does_not_matter_and_chunks_are_counted_once() -> None:
    parts = TEXT.splitlines(keepends=True)
    one = train_bpe(parts, 300)
    other = train_bpe(reversed(parts), 300)
    assert one.tokenizer == other.tokenizer and one.chunks == other.chunks < 40


def test_too_few_pairs_and_interrupts_leave_a_valid_tokenizer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learned = train_bpe("ab", 300)
    assert learned.reason == "no more pairs" and learned.tokenizer.vocab_size == 256
    assert train_bpe("ab", 300, min_frequency=1).tokenizer.vocab_size == 257
    assert train_bpe("   ", 260).tokenizer.decode([220]) == " "
    plain = _Learner._join
    calls = []

    def join(self: Any, count: int, pair: str) -> None:
        calls.append(pair)
        if len(calls) == 6:
            raise KeyboardInterrupt
        plain(self, count, pair)

    monkeypatch.setattr(_Learner, "_join", join)
    learned = train_bpe(TEXT, 330)
    assert learned.reason == "interrupted" and len(learned.tokenizer.merges) == 5
    assert learned.tokenizer.decode(learned.tokenizer.encode(TEXT)) == TEXT


def test_progress_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10_000))
    monkeypatch.setattr("tinygrad_edu.text.bpe_training.time.monotonic", lambda: float(next(clock)))
    seen: list[Progress] = []
    train_bpe(TEXT, 300, progress=seen.append)
    assert [p.merges for p in seen] == sorted(p.merges for p in seen)
    assert seen[-1].wanted == 44 and seen[0].left > seen[-1].left


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: train_bpe("", 300), "trained on an empty text"),
        (lambda: train_bpe("a", 100), "it takes at least 256"),
        (lambda: train_bpe("a", 256, special_tokens=["x"]), "257: 256 bytes and 1 special"),
        (lambda: train_bpe("abc 123", 300, pattern="[a-z]+"), "leaves out ' 123' at position 3"),
        (lambda: train_bpe("abc", 300, pattern="("), "is no pattern"),
        (lambda: train_bpe("abc", 300, pattern=r"(\w)|(\s)"), "2 capturing groups"),
        (lambda: BPETokenizer([(0, 300)]), "only the 256 tokens before it are known"),
        (lambda: BPETokenizer([(0, 1), (0, 1)]), "joins 0 and 1 a second time"),
        (lambda: BPETokenizer([], [""]), "a special token was empty"),
        (lambda: BPETokenizer([], {"x": 5}), "which is an ordinary token's; the first free one is"),
        (lambda: TRAINED.decode([999]), "id 999 is not a token"),
        (lambda: TRAINED.decode([[1]]), "one flat sequence"),
        (lambda: TRAINED.decode([1.5]), "one flat sequence"),
        (lambda: BPETokenizer([], pattern="[a-z]+").encode("a b"), "leaves out ' b'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_a_sentence(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(TokenizerError, match=said.replace("+", r"\+")):
        make()


# Files


@pytest.mark.parametrize("tokenizer", [
    TRAINED, BPETokenizer([]), train_bpe(TEXT, 300, pattern=r"\s*\S+|\s+").tokenizer,
    BPETokenizer([], {"<|ünï\n\"cødé|>": 400}),
])  # fmt: skip
def test_files_give_back_what_was_saved(tokenizer: BPETokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "tokenizer.json")
    assert BPETokenizer.load(tmp_path / "tokenizer.json") == tokenizer
    files = bpe_files.save_gpt2(tokenizer, tmp_path / "gpt2")
    assert bpe_files.load_gpt2(*files, tokenizer.pattern) == tokenizer
    ranks = bpe_files.save_tiktoken(tokenizer, tmp_path / "t.tiktoken")
    assert bpe_files.load_tiktoken(ranks, tokenizer.special_tokens, tokenizer.pattern) == tokenizer


def split(behavior: str, invert: bool = False, use_regex: bool = False) -> Any:
    """A pre-tokenizer of tokenizer.json."""
    parts = [
        {"type": "Split", "pattern": {"Regex": r"\s+|\S+"}, "behavior": behavior,
         "invert": invert},
        {"type": "ByteLevel", "add_prefix_space": False, "use_regex": use_regex},
    ]  # fmt: skip
    return {"type": "Sequence", "pretokenizers": parts}


def test_files_that_are_no_tokenizers_say_why(tmp_path: Path) -> None:
    path = tmp_path / "t.json"

    def refused(content: Any) -> str:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        with pytest.raises(TokenizerError) as error:
            BPETokenizer.load(path)
        return str(error.value)

    with pytest.raises(TokenizerError, match="cannot be read"):
        BPETokenizer.load(tmp_path / "nosuch.json")
    assert "it is not JSON" in refused("{")
    assert "holds no BPE model" in refused({"model": {"type": "Unigram"}})
    TRAINED.save(path)
    good = json.loads(path.read_text(encoding="utf-8"))
    for change, said in (
        ({"normalizer": {"type": "NFC"}}, "has a normalizer (NFC)"),
        ({"normalizer": "NFC"}, "has a normalizer (NFC)"),
        ({"added_tokens": [{"id": 5}]}, "has an added token {'id': 5}"),
        ({"added_tokens": ["x"]}, "has an added token 'x'"),
        ({"added_tokens": [{"id": 400, "content": "<m>", "lstrip": True}]},
         "has lstrip at its added token '<m>'"),
        ({"pre_tokenizer": None}, "splits text by nothing"),
        ({"pre_tokenizer": {"pretokenizers": [
            {"type": "Digits", "individual_digits": False}, {"type": "ByteLevel"}]}},
         "splits text by Digits and ByteLevel, in a way"),
        ({"pre_tokenizer": split("Removed")}, "splits text by Split and ByteLevel, in a way"),
        ({"pre_tokenizer": split("Isolated", True)}, "splits text by Split and ByteLevel, in a"),
        ({"pre_tokenizer": split("Isolated", use_regex=True)}, "splits text by Split and ByteL"),
        ({"pre_tokenizer": {"type": "Whitespace"}}, "splits text by Whitespace"),
        ({"pre_tokenizer": {**good["pre_tokenizer"], "add_prefix_space": True}}, "adds a space"),
    ):
        assert said in refused({**good, **change})
    model = good["model"]
    for change, said in (
        ({"byte_fallback": True}, "has byte_fallback = True"),
        ({"vocab": {k: v for k, v in model["vocab"].items() if k != "!"}}, "lacks the byte 0x21"),
        ({"vocab": {**model["vocab"], "!": 1}}, "was given id 1, which is b'!'"),
        ({"vocab": {**model["vocab"], "!": -1}}, "was given id -1, which is below 0"),
        ({"vocab": {**model["vocab"], "!": 1.5}}, "'!' id 1.5, which is no whole number"),
        ({"vocab": {**model["vocab"], "zq": 9999}}, "which its merges do not make"),
        ({"merges": [5]}, "merge 0, 5, joins what the vocabulary lacks"),
        ({"merges": model["merges"][::-1]}, "which no earlier merge makes"),
        ({"dropout": 0.1}, "has dropout = 0.1"),
        ({"ignore_merges": True}, "has ignore_merges = True"),
        ({"merges": [["q", "nosuch"]]}, "joins what the vocabulary lacks"),
        ({"merges": model["merges"][:5]}, "which its merges do not make"),
        ({"merges": None}, "has no vocab and merges"),
    ):
        assert said in refused({**good, "model": {**model, **change}})
    ranks = tmp_path / "t.tiktoken"
    ranks.write_bytes(b"IQ== 0\nnot base64 at all 1\n")
    with pytest.raises(TokenizerError, match=r"line 2 of .* is no token in base64"):
        bpe_files.load_tiktoken(ranks)


def test_a_vocabulary_of_its_own_language_has_a_token_a_word() -> None:
    learnt = train_bpe(load_corpus("grammar").text, 600).tokenizer
    ids = learnt.encode("o gato subiu no telhado")
    assert [learnt.token_bytes(i) for i in ids] == [b"o", b" gato", b" subiu", b" no", b" telhado"]


# The real GPT-2 vocabulary


@pytest.fixture(scope="module")
def gpt2() -> BPETokenizer:
    folder = Path(__file__).resolve().parents[3] / "shared" / "data" / "gpt2"
    if not folder.exists():
        pytest.skip("../shared/data/gpt2 is absent")
    return bpe_files.load_gpt2(folder / "encoder.json", folder / "vocab.bpe")


def test_gpt2s_golden_strings(gpt2: BPETokenizer, shared_data: Callable[[str], Path]) -> None:
    cases = json.loads(shared_data("gpt2/golden.json").read_text(encoding="utf-8"))
    for case in cases:
        assert gpt2.encode_ordinary(case["text"]) == case["ids"], case
        assert gpt2.decode(case["ids"]) == case["text"]
    assert gpt2.special_tokens == {"<|endoftext|>": 50256}
    assert (gpt2.vocab_size, len(gpt2.merges)) == (50257, 50000)
    for begin in ("o", " O"):
        ids = gpt2.encode(f"{begin} gato subiu no telhado")
        assert [gpt2.token_bytes(i).decode() for i in ids] == [
            begin, " g", "ato", " sub", "iu", " no", " tel", "h", "ado"]  # fmt: skip


def test_gpt2s_ids_of_a_whole_file(gpt2: BPETokenizer, shared_data: Callable[[str], Path]) -> None:
    text = shared_data("tinyshakespeare.txt").read_text(encoding="utf-8")
    ids = gpt2.encode(text)
    assert len(ids) == 338_025
    assert hashlib.sha256(np.array(ids, "<u2").tobytes()).hexdigest()[:16] == "25c01b32b32f4189"


# Independent judges


@pytest.mark.oracle
@pytest.mark.parametrize("vocab_size", [300, 1024])
@pytest.mark.parametrize("name", ["tinyshakespeare.txt", "machado.txt"])
def test_merges_and_ids_are_those_of_tokenizers(
    name: str, vocab_size: int, shared_data: Callable[[str], Path], tmp_path: Path
) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers, the judge, is not installed")
    text = shared_data(name).read_text(encoding="utf-8")
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE())
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size, min_frequency=2, show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    theirs.train_from_iterator([text], trainer)
    ours = train_bpe(text, vocab_size).tokenizer
    ours.save(tmp_path / "ours.json")
    theirs.save(str(tmp_path / "theirs.json"))
    assert BPETokenizer.load(tmp_path / "theirs.json").merges == ours.merges
    loaded = tokenizers.Tokenizer.from_file(str(tmp_path / "ours.json"))
    for start in range(0, len(text), 4999):
        piece = text[start : start + 300]
        assert loaded.encode(piece).ids == ours.encode(piece)
        assert loaded.decode(ours.encode(piece)) == piece


@pytest.mark.oracle
@given(text=st.text(st.characters(codec=None, exclude_categories=["Cn"])))
def test_ids_are_tiktokens(gpt2: BPETokenizer, text: str) -> None:
    """(Of what Unicode has not assigned, the two may be of different versions.)"""
    tiktoken = pytest.importorskip("tiktoken", reason="tiktoken, the judge, is not installed")
    encoding = tiktoken.Encoding(
        "gpt2", pat_str=bpe.GPT2_PATTERN, special_tokens=gpt2.special_tokens,
        mergeable_ranks={gpt2.token_bytes(i): i for i in range(50256)},
    )  # fmt: skip
    assert gpt2.encode_ordinary(text) == encoding.encode_ordinary(text)
