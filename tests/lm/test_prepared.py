"""Training from a prepared folder is training from its text, bit for bit, without holding it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lm.recording import Recorder, assert_same, untimed

from tinygrad_edu import lm, text
from tinygrad_edu.lm import checkpoint
from tinygrad_edu.lm.checkpoint import load_checkpoint
from tinygrad_edu.lm.material import read_material

MakeConfig = Callable[..., lm.TrainConfig]


@pytest.fixture
def prepared(tmp_path: Path, text_file: Path) -> Callable[..., Path]:
    def make(tokenizer: str = "characters", name: str = "ready", source: str = "") -> Path:
        asked = text.Preparation((source or str(text_file),), tokenizer, 280)
        text.prepare(asked, tmp_path / name)
        return tmp_path / name

    return make


@pytest.mark.parametrize("order", ["windows", "epochs"])
@pytest.mark.parametrize("tokenizer", ["characters", "bpe"])
def test_the_run_is_that_of_the_text(
    make_config: MakeConfig, prepared: Callable[..., Path], tmp_path: Path, tokenizer: str,
    order: str,
) -> None:  # fmt: skip
    options = {"order": order, "dropout": 0.1}
    plain = lm.train(make_config(
        run=tmp_path / "plain", tokenizer=tokenizer, vocab_size=280, **options
    )).run  # fmt: skip
    folder = prepared(tokenizer)
    recorder = Recorder()
    other = lm.train(
        make_config(run=tmp_path / "other", corpus=(str(folder),), **options), recorder
    ).run
    assert_same(load_checkpoint(plain), load_checkpoint(other))
    assert untimed(plain) == untimed(other)  # losses, bits a byte and yardsticks
    assert (plain / "samples.txt").read_bytes() == (other / "samples.txt").read_bytes()
    assert recorder.plans[0].characters == 2000


def test_the_source_of_the_grammar_is_known_too(
    make_config: MakeConfig, prepared: Callable[..., Path]
) -> None:
    folder = prepared(source="grammar")
    config = make_config(corpus=("grammar",))
    plain, mapped = read_material(config), read_material(
        dataclasses.replace(config, corpus=(str(folder),))
    )
    assert plain.source is not None and plain.source is mapped.source
    assert plain.sha256 == mapped.sha256 and plain.opening == mapped.opening


def test_tokens_are_mapped_and_never_read_whole(
    make_config: MakeConfig, prepared: Callable[..., Path]
) -> None:
    material = read_material(make_config(corpus=(str(prepared()),)))
    for part in (material.split.training, material.split.validation):
        assert isinstance(part, np.memmap) and part.dtype == np.uint16
    ids, targets = material.lessons(make_config()).batch(0)
    assert ids.dtype == targets.dtype == np.int64


def test_a_run_goes_on_with_its_text_in_either_form_and_with_no_other(
    make_config: MakeConfig, prepared: Callable[..., Path], tmp_path: Path, text_file: Path
) -> None:
    folder = prepared()
    run = lm.train(make_config(corpus=(str(folder),), steps=4)).run
    saved = checkpoint.read_config(run)

    def resumed(**changes: Any) -> lm.Result:
        return lm.resume(run, dataclasses.replace(saved, **changes))

    assert resumed(steps=5).step == 5
    assert resumed(steps=6, corpus=(str(text_file),)).step == 6
    other = tmp_path / "other.txt"
    other.write_text(text_file.read_text().replace("cat", "tac"))
    wrong = prepared(name="wrong", source=str(other))
    with pytest.raises(lm.RunError, match=r"other\.txt is not the text that .* was started with"):
        resumed(steps=7, corpus=(str(wrong),))
    tokens = prepared("bpe", name="bpe")
    with pytest.raises(lm.RunError, match="has another vocabulary than"):
        resumed(steps=7, corpus=(str(tokens),))
    data = bytearray((folder / "tokens.bin").read_bytes())
    data[-2] ^= 1
    (folder / "tokens.bin").write_bytes(data)
    with pytest.raises(text.CorpusError, match="not those that were written"):
        resumed(steps=7)


def test_what_does_not_fit_is_refused(
    make_config: MakeConfig, prepared: Callable[..., Path], tmp_path: Path
) -> None:
    folder = prepared("bpe")
    own = {"corpus": (str(folder),)}
    with pytest.raises(lm.TextError, match=r"holds out more than the 0\.1 that the vocabulary"):
        lm.train(make_config(validation_fraction=0.2, **own))
    with pytest.raises(lm.TextError, match=r"own tokenizer, BPETok.*leave --tokenizer"):
        lm.train(make_config(tokenizer="bpe", **own))
    another = tmp_path / "another.json"
    text.train_bpe("other " * 9, 260).tokenizer.save(another)
    with pytest.raises(lm.TextError, match="another one was asked for"):
        lm.train(make_config(tokenizer=str(another), **own))
    read_material(make_config(tokenizer=str(folder / "tokenizer.json"), **own))
    (folder / "prepared.json").rename(folder / "journal.jsonl")
    with pytest.raises(text.PreparationError, match="was not finished"):
        lm.train(make_config(**own))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("order", ["windows", "epochs"])
def test_a_prepared_text_shorter_than_a_block_says_so(
    make_config: MakeConfig, prepared: Callable[..., Path], order: str
) -> None:
    folder = str(prepared())
    with pytest.raises(lm.TextError, match=r"1,800 tokens to train on.*--block-size to 1799"):
        lm.train(make_config(corpus=(folder,), block_size=1800, order=order))
    lm.train(make_config(corpus=(folder,), block_size=1799, order=order, steps=1, batch_size=1))
