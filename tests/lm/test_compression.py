"""The arithmetic coder, a model as a compressor, and how well a text is predicted."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinygrad_edu as tg
from tinygrad_edu import lm, text
from tinygrad_edu.cli import main
from tinygrad_edu.lm.arithmetic_coding import LARGEST_TOTAL, Decoder, Encoder
from tinygrad_edu.lm.compression import HEADER_BYTES
from tinygrad_edu.lm.scoring import scored_windows, together
from tinygrad_edu.nn import functional as F

ALPHABET = "\nabcdefgh é"


def model(seed: int = 0, block: int = 8) -> lm.Trained:
    tokenizer = text.CharTokenizer.from_text(ALPHABET)
    sizes = lm.GPTConfig(tokenizer.vocab_size, block, 1, 2, 8)
    made = lm.GPT(sizes, np.random.default_rng(seed))
    for parameter in made.parameters():  # far from uniform
        noise = np.random.default_rng(seed + parameter.size).normal(size=parameter.shape)
        parameter.data = noise.astype(np.float32)
    made.eval()
    return lm.Trained(lm.TrainConfig(block_size=block), tokenizer, made)


TRAINED = model()


@given(st.lists(st.lists(st.integers(1, 1000), min_size=2, max_size=5), max_size=60), st.data())
@settings(deadline=None, max_examples=100)
def test_the_coder_round_trips_at_the_entropy(shares: Any, data: Any) -> None:
    encoder, symbols, bits = Encoder(), [], 0.0
    for counts in shares:
        ends = np.cumsum(counts)
        symbol = data.draw(st.integers(0, len(counts) - 1))
        symbols.append(symbol)
        bits -= math.log2(counts[symbol] / ends[-1])
        encoder.encode(int(ends[symbol]) - counts[symbol], int(ends[symbol]), int(ends[-1]))
    code = encoder.finish()
    assert 8 * len(code) <= bits + 2 + 8
    decoder = Decoder(code)
    assert [decoder.decode(np.cumsum(counts)) for counts in shares] == symbols


def test_a_symbol_without_a_count_is_refused() -> None:
    with pytest.raises(ValueError, match="each needs one count"):
        Encoder().encode(3, 3, 5)
    with pytest.raises(ValueError, match="in all"):
        Encoder().encode(0, 1, LARGEST_TOTAL + 1)


@given(st.text(ALPHABET, max_size=40))
@settings(deadline=None, max_examples=30)
def test_any_text_round_trips_at_its_cross_entropy(content: str) -> None:
    made = lm.compress(TRAINED, content)
    assert lm.decompress(TRAINED, made.data) == content
    assert made.tokens == len(content) and made.text_bytes == len(content.encode())
    assert 8 * (len(made.data) - HEADER_BYTES) <= made.ideal_bits + 10


def test_the_ideal_is_the_cross_entropy() -> None:
    content = "abcde"  # with the line break before it, no longer than the block
    ids = TRAINED.tokenizer.encode_array("\n" + content)
    with tg.no_grad():
        losses = F.cross_entropy(TRAINED.model(ids[None, :-1]), ids[None, 1:], reduction="sum")
    assert lm.compress(TRAINED, content).ideal_bits == pytest.approx(
        float(losses.item()) / math.log(2), rel=1e-5
    )


def test_what_cannot_be_read_back_is_refused() -> None:
    data = lm.compress(TRAINED, "abcabc").data
    with pytest.raises(lm.RunError, match="with another model"):
        lm.decompress(model(1), data)
    with pytest.raises(lm.RunError, match="not written by tinygrad-edu compress"):
        lm.decompress(TRAINED, b"PK" + data)
    with pytest.raises(text.TokenizerError, match="'z'"):
        lm.compress(TRAINED, "abcz")


def test_every_damaged_byte_and_every_cut_is_noticed_before_anything_is_worked_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = lm.compress(TRAINED, "abcabc").data
    monkeypatch.setattr(lm.Trained, "predictor", None)  # a wrong count may ask for 2⁶³ tokens
    for place in range(len(data)):
        damaged = data[:place] + bytes([data[place] ^ 16]) + data[place + 1 :]
        said = "not written by tinygrad-edu compress" if place < 8 else "cut short or damaged"
        with pytest.raises(lm.RunError, match=said):
            lm.decompress(TRAINED, damaged)
        with pytest.raises(lm.RunError, match=said):
            lm.decompress(TRAINED, data[:place])


def test_predictions_in_other_bits_are_noticed_by_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    data = lm.compress(TRAINED, "abcabc" * 10).data
    predictor = lm.Trained.predictor
    monkeypatch.setattr(
        lm.Trained, "predictor", lambda own: lambda ids: predictor(own)(ids) * np.float32(1.01)
    )
    with pytest.raises(lm.RunError, match=r"the file is whole.*decompress it there"):
        lm.decompress(TRAINED, data)


@pytest.mark.parametrize("length", [2, 8, 9, 10, 25, 64])
@pytest.mark.parametrize("stride", [0, 1, 3, 8])
def test_each_token_but_the_first_is_scored_once(length: int, stride: int) -> None:
    windows = scored_windows(length, 8, stride)
    scored = [i for w in windows for i in range(w.scored, w.end)]
    assert scored == list(range(1, length))
    assert all(w.end - w.start <= 8 and w.start >= 1 for w in windows)


@pytest.mark.parametrize("stride", [0, 1, 3])
def test_a_score_is_the_sum_of_what_each_window_says(stride: int) -> None:
    content = "abcdefgh abé" * 3
    ids = TRAINED.tokenizer.encode_array(content)
    total = 0.0
    for window in scored_windows(len(ids), 8, stride):
        with tg.no_grad():
            rows = TRAINED.model(ids[None, window.start - 1 : window.end - 1])[0]
            losses = F.cross_entropy(rows, ids[window.start : window.end], reduction="none")
        total += float(losses.numpy()[window.scored - window.start :].sum())
    found = [lm.score(TRAINED, content, stride=stride, batch_size=b) for b in (0, 1, 5)]
    for one in found:
        assert one.tokens == len(ids) - 1 and one.bytes == len(content.encode()) - 1
        assert one.loss * one.tokens == pytest.approx(total, rel=1e-5)
        assert one.bits_per_byte == pytest.approx(total / math.log(2) / one.bytes, rel=1e-5)


def test_strides_and_texts_that_cannot_be_scored_are_refused() -> None:
    with pytest.raises(lm.TextError, match="the stride is 9"):
        lm.score(TRAINED, "abc", stride=9)
    with pytest.raises(lm.TextError, match="1 of the 2 tokens"):
        lm.score(TRAINED, "a")


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, packed = tmp_path / "text.txt", tmp_path / "text.tged"
    content = "Return the number of items in the list. If the list is empty, return zero.\n" * 3
    file.write_text(content)
    assert main(["compress", "python-docs", str(file), "-o", str(packed)]) == 0
    said = capsys.readouterr().out
    assert "zlib -9" in said and "lzma" in said and "cross-entropy" in said
    assert main(["decompress", "python-docs", str(packed)]) == 0
    assert capsys.readouterr().out == content + "\n"
    assert main(["decompress", "grammar", str(packed)]) == 2
    assert "another model" in capsys.readouterr().err
    assert main(["eval", "python-docs", str(file), str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "bits/byte" in lines[1] and lines[-1].startswith("together")
    assert all(len(line) <= 80 for line in lines[1:])
    file.write_text("日本")
    assert main(["eval", "python-docs", str(file)]) == 2
    assert "日" in capsys.readouterr().err
    assert main(["compress", "python-docs", str(file), "-o", str(packed)]) == 2


@pytest.mark.parametrize("command", ["compress", "decompress"])
def test_files_that_cannot_be_read_or_written_are_named_at_once(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "text.txt"
    file.write_text("the")
    for source, output, said in (
        (tmp_path / "none.txt", tmp_path / "out", "none.txt cannot be read (no such file"),
        (tmp_path, tmp_path / "out", "cannot be read ("),
        (file, tmp_path / "none" / "out", "none is not a folder; make it first"),
        (file, tmp_path, "which is a folder; give the path of a file"),
    ):
        assert main([command, "python-docs", str(source), "-o", str(output)]) == 2
        assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_a_model_that_knows_the_text_beats_zlib() -> None:
    content = text.load_corpus(("python-docs",)).text
    made = lm.compress(lm.load_trained("python-docs"), content[1000:2500])
    assert len(made.data) < min(made.zlib_bytes, made.lzma_bytes)
    assert len(made.data) - HEADER_BYTES <= made.ideal_bits / 8 + 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--temperature", "-1"], "the temperature is -1"), (["--top-p", "0"], "top_p is 0"),
        (["--min-p", "1"], "min_p is 1"), (["--top-k", "-2"], "top_k is -2"),
        (["--repetition-penalty", "0"], "repetition penalty is 0"),
        (["--num-samples", "0"], "--num-samples is 0"), (["--stop", ""], "stop string is empty"),
        (["--max-new-tokens", "-1"], "max_new_tokens is -1"), (["--seed", "-1"], "seed is -1"),
    ],
)  # fmt: skip
def test_what_cannot_be_sampled_is_refused(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sample", "python-docs", "The ", *options]) == 2
    captured = capsys.readouterr()
    assert said in captured.err and not captured.out


def test_prompts_at_their_limits(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--max-new-tokens", "5"]
    assert main(["sample", "python-docs", "The 日本 語", *few]) == 2
    complained = capsys.readouterr().err
    assert all(symbol in complained for symbol in "日本語")
    assert main(["sample", "python-docs", "a " * 200, *few]) == 0
    assert "this model sees the last" in capsys.readouterr().err
    assert main(["sample", "python-docs", "", *few, "--num-samples", "2"]) == 0
    said = capsys.readouterr().out
    assert "--- 1 of 2 ---" in said and "--- 2 of 2 ---" in said
    cached = ["sample", "python-docs", "The ", "--max-new-tokens", "20"]
    assert main(cached) == 0
    with_cache = capsys.readouterr().out
    assert main([*cached, "--no-cache"]) == 0
    assert capsys.readouterr().out == with_cache
    assert main([*cached, "--stop", " "]) == 0
    assert capsys.readouterr().out.count(" ") == 1


def test_when_the_block_is_full_the_older_half_is_forgotten() -> None:
    content, block, bits = "abc def gabé h" * 3, TRAINED.config.block_size, 0.0
    ids = [int(token) for token in TRAINED.tokenizer.encode_array("\n" + content)]
    start = 0
    for place in range(1, len(ids)):
        if place - start > block:
            start = place - 1 - block // 2
        with tg.no_grad():
            logits = TRAINED.model(np.array([ids[start:place]])).numpy()[0, -1].astype(np.float64)
        bits += np.log(np.exp(logits - logits.max()).sum()) + logits.max() - logits[ids[place]]
    assert lm.compress(TRAINED, content).ideal_bits == pytest.approx(bits / math.log(2), rel=1e-5)


def test_tokens_that_are_all_alike_take_log_2_of_their_number() -> None:
    made = lm.compress(TRAINED, "abc")
    assert made.uniform_bits == pytest.approx(3 * math.log2(len(ALPHABET)))


def test_windows_lie_side_by_side_where_no_stride_is_given() -> None:
    assert scored_windows(25, 8) == scored_windows(25, 8, 8) != scored_windows(25, 8, 7)


def test_of_several_texts_each_token_weighs_the_same() -> None:
    short, long = (lm.score(TRAINED, content) for content in ("ab", "gé hab" * 9))
    both = together([short, long])
    assert both.tokens == short.tokens + long.tokens and both.bytes == short.bytes + long.bytes
    assert both.loss == pytest.approx((short.loss + 53 * long.loss) / 54)


def test_logits_beyond_the_vocabulary_stand_for_nothing() -> None:
    """As of a model whose size was rounded up."""
    few = text.CharTokenizer(TRAINED.tokenizer.decode(range(6)))
    trained = lm.Trained(TRAINED.config, few, TRAINED.model)
    content = few.decode([1, 2, 3, 4, 5] * 3)
    assert trained.predictor()(np.array([[0]])).shape == (1, 6)
    assert lm.decompress(trained, lm.compress(trained, content).data) == content
    written = "".join(trained.write(content, 200, temperature=2.0))
    assert len(written) == 200 and set(written) <= set(few.symbols)
