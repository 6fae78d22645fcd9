"""Runs on byte-level tokens: learnt from the training part, resumed exactly, sampled whole."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lm.recording import Recorder, assert_same, rows, untimed

from tinygrad_edu import lm, text
from tinygrad_edu.lm import checkpoint
from tinygrad_edu.lm.checkpoint import load_checkpoint
from tinygrad_edu.lm.material import read_material

MakeConfig = Callable[..., lm.TrainConfig]


def test_a_run_on_bpe_keeps_its_tokenizer_and_writes_whole_text(make_config: MakeConfig) -> None:
    recorder = Recorder()
    config = make_config(tokenizer="bpe", vocab_size=285, steps=60, sample_length=30)
    result = lm.train(config, recorder)
    tokenizer = text.load_tokenizer(result.run / "tokenizer.json")
    assert isinstance(tokenizer, text.BPETokenizer) and tokenizer.vocab_size == 285
    assert recorder.plans[0].symbols == 285
    losses = [row["loss"] for row in rows(result.run) if "loss" in row]
    assert losses[-1] < losses[0] - 1
    trained = lm.load_trained(result.run)
    written = "".join(trained.write("the cat", 40))
    assert written
    assert "".join(trained.write("the cat", 40)) == written


def test_a_learnt_tokenizer_sees_no_held_out_text(
    make_config: MakeConfig, tmp_path: Path
) -> None:
    path = tmp_path / "t.txt"
    path.write_text("ab ab ab. " * 90 + "zq zq zq. " * 10, encoding="utf-8")
    config = make_config(
        corpus=(str(path),), tokenizer="bpe", vocab_size=270, validation_fraction=0.1, block_size=4
    )
    tokenizer = read_material(config).tokenizer
    tokens = {tokenizer.token_bytes(i) for i in range(tokenizer.vocab_size)}
    assert b" ab" in tokens and not any(b"zq" in token for token in tokens)


def test_bits_a_byte_are_of_the_text_whatever_the_tokenizer(make_config: MakeConfig) -> None:
    """A model that knows nothing spends ln V a token; a byte's share is that of its token."""
    for options in ({}, {"tokenizer": "bpe", "vocab_size": 280}):
        material = read_material(make_config(**options))
        tokens = material.split.validation
        whole = material.tokenizer.decode(tokens).encode()
        assert int(material.token_bytes[np.asarray(tokens)].sum()) == len(whole)


def with_changes(config: lm.TrainConfig, **changes: Any) -> lm.TrainConfig:
    return dataclasses.replace(config, **changes)


@pytest.mark.parametrize("stop", [3, 4, 6])
def test_interrupted_and_resumed_equals_uninterrupted(
    make_config: MakeConfig, tmp_path: Path, stop: int
) -> None:
    options = {"tokenizer": "bpe", "vocab_size": 280, "dropout": 0.1}
    whole = lm.train(make_config(run=tmp_path / "whole", **options)).run
    ctrl_c = Recorder({stop: lambda: signal.raise_signal(signal.SIGINT)})
    first = lm.train(make_config(run=tmp_path / "parts", **options), ctrl_c)
    assert first.interrupted and first.step == stop
    second = lm.resume(first.run)
    assert_same(load_checkpoint(whole), load_checkpoint(second.run))
    assert untimed(whole) == untimed(second.run)
    assert (whole / "samples.txt").read_text() == (second.run / "samples.txt").read_text()


def test_the_file_of_a_tokenizer_may_be_named_and_lost_afterwards(
    make_config: MakeConfig, tmp_path: Path, tiny_text: str
) -> None:
    file = tmp_path / "own.json"
    text.train_bpe(tiny_text, 270, special_tokens=["<|end|>"]).tokenizer.save(file)
    config = make_config(tokenizer=str(file), steps=4)
    result = lm.train(config)
    file.unlink()
    resumed = lm.resume(result.run, with_changes(checkpoint.read_config(result.run), steps=6))
    assert resumed.step == 6
    kept = text.load_tokenizer(result.run / "tokenizer.json")
    assert isinstance(kept, text.BPETokenizer) and kept.special_tokens == {"<|end|>": 269}


@pytest.mark.parametrize(("options", "error", "said"), [
    ({"tokenizer": "nosuch.json"}, text.TokenizerError, "nosuch.json cannot be read"),
    ({"tokenizer": "bpe", "vocab_size": 100}, lm.ConfigError, "--vocab-size is 100; it must be"),
])  # fmt: skip
def test_what_cannot_be_is_said(
    make_config: MakeConfig, options: dict[str, object], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        lm.train(make_config(**options))


def test_a_run_keeps_its_tokenizer(make_config: MakeConfig) -> None:
    result = lm.train(make_config(steps=4))
    changed = with_changes(checkpoint.read_config(result.run), steps=6, tokenizer="bpe")
    with pytest.raises(lm.ConfigError, match='--tokenizer was "characters" when the run'):
        lm.resume(result.run, changed)
