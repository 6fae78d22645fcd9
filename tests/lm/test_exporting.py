"""`export`: what was trained here is what others load, and nothing is written over."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import lm, nn, text
from tinygrad_edu.cli import main
from tinygrad_edu.text.character_files import read_word_level

MakeConfig = Callable[..., lm.TrainConfig]


@pytest.mark.parametrize("tokenizer", ["characters", "bpe"])
@pytest.mark.parametrize("architecture", ["gpt", "llama"])
def test_a_run_writes_the_same_text_from_its_export(
    architecture: str, tokenizer: str, make_config: MakeConfig, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    config = make_config(
        architecture=architecture, tokenizer=tokenizer, steps=4,
        vocab_size=280,
    )  # fmt: skip
    run, folder = lm.train(config).run, tmp_path / "out"
    capsys.readouterr()
    assert main(["export", str(run), str(folder)]) == 0
    said = capsys.readouterr().out
    for path in folder.iterdir():
        assert f"{path.name} " in said
        assert f"{path.stat().st_size:,} bytes" in said
    assert f'tinygrad-edu sample {folder} "prompt"' in said
    assert f'AutoModelForCausalLM.from_pretrained("{folder}")' in said
    texts = ["".join(lm.load_trained(place).write("the", 20)) for place in (run, folder)]
    assert texts[0] == texts[1]
    assert main(["sample", str(folder), "the", "--max-new-tokens", "5"]) == 0


def test_half_precision_halves_the_file(
    make_config: MakeConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(lm.train(make_config(steps=1)).run)
    sizes = {}
    for dtype in ("float32", "float16", "bfloat16"):
        assert main(["export", run, str(tmp_path / dtype), "--dtype", dtype]) == 0
        sizes[dtype] = (tmp_path / dtype / "model.safetensors").stat().st_size
        assert json.loads((tmp_path / dtype / "config.json").read_text())["torch_dtype"] == dtype
    saved = sizes["float32"] - sizes["float16"]
    count = lm.load_trained(run).model.num_parameters()
    assert abs(saved - 2 * count) < 100  # names of types are shorter or longer
    assert abs(sizes["float16"] - sizes["bfloat16"]) < 100
    assert main(["export", run, str(tmp_path / "x"), "--dtype", "int8"]) == 2
    assert not (tmp_path / "x").exists()


def test_nothing_is_written_over(
    make_config: MakeConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = lm.train(make_config(steps=1)).run
    weights = (run / "model.safetensors").read_bytes()
    assert main(["export", str(run), str(run)]) == 2
    assert "is not an empty folder; export into a new one" in capsys.readouterr().err
    assert (run / "model.safetensors").read_bytes() == weights
    (tmp_path / "file").write_text("mine")
    assert main(["export", str(run), str(tmp_path / "file")]) == 2
    assert (tmp_path / "file").read_text() == "mine"


def test_weights_that_a_type_cannot_hold_are_named_and_nothing_is_written(tmp_path: Path) -> None:
    model = lm.GPT(lm.GPTConfig(20, 8, 1, 2, 8), np.random.default_rng(0))
    weights = model.final_norm.weight.detach().numpy().copy()
    weights[3] = 7e4
    model.final_norm.weight.data = weights
    with pytest.raises(lm.RunError, match=r"transformer\.ln_f\.weight holds 7e\+04, and float16"):
        lm.save_huggingface(model, tmp_path / "half", dtype="float16")
    assert not (tmp_path / "half").exists()
    back = lm.load_huggingface(lm.save_huggingface(model, tmp_path / "b", dtype="bfloat16"))
    assert back.final_norm.weight.detach().numpy()[3] == pytest.approx(7e4, 1e-2)
    with pytest.raises(lm.RunError, match="cannot be written as 'int8'"):
        lm.save_huggingface(model, tmp_path / "half", dtype="int8")


def test_an_adapter_is_merged_before_or_refused(tmp_path: Path) -> None:
    model = lm.GPT(lm.GPTConfig(20, 8, 1, 2, 8), np.random.default_rng(0))
    model.eval()
    adapter = nn.add_lora(model, rank=2, targets=["qkv"])
    adapter.layers["blocks.0.attn.qkv"].lora_B.data = np.ones((24, 2), np.float32)
    with pytest.raises(lm.RunError, match=r"blocks\.0\.attn\.qkv has an adapter that"):
        lm.save_huggingface(model, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    adapter.merge()
    ids = np.arange(8)[None]
    with tg.no_grad():
        wanted = model(ids).numpy()
        found = lm.load_huggingface(lm.save_huggingface(model, tmp_path / "out"))(ids).numpy()
    assert np.array_equal(found, wanted)


def test_characters_go_there_and_back_as_word_level(tmp_path: Path) -> None:
    tokenizer = text.CharTokenizer("\n zaé\"\\")
    path = tmp_path / "tokenizer.json"
    text.save_word_level(tokenizer, path)
    assert text.load_tokenizer(path) == tokenizer
    content = json.loads(path.read_text(encoding="utf-8"))

    def refused(**changes: Any) -> str:
        path.write_text(json.dumps({**content, **changes}), encoding="utf-8")
        with pytest.raises(text.TokenizerError) as error:
            read_word_level(path)
        return str(error.value)

    assert "changes the text before" in refused(normalizer={"type": "NFC"})
    assert "of whole words" in refused(pre_tokenizer={"type": "Whitespace"})
    gap = {"type": "WordLevel", "vocab": {"a": 0, "b": 2}}
    assert "without gaps" in refused(model=gap)
    assert "must be one character" in refused(model={"type": "WordLevel", "vocab": {"ab": 0}})


@pytest.mark.oracle
@pytest.mark.parametrize("tokenizer", ["characters", "bpe"])
@pytest.mark.parametrize("architecture", ["gpt", "llama"])
def test_transformers_gives_the_logits_of_what_was_trained_here(
    architecture: str, tokenizer: str, make_config: MakeConfig, tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch", reason="torch, the judge, is not installed")
    theirs = pytest.importorskip("transformers", reason="transformers, the judge, is not installed")
    config = make_config(
        architecture=architecture, tokenizer=tokenizer, steps=5,
        vocab_size=280,
    )  # fmt: skip
    run = lm.train(config).run
    assert main(["export", str(run), str(tmp_path / "out")]) == 0
    trained = lm.load_trained(run)
    ids = trained.tokenizer.encode_array("the dog")[None, :8]
    codes = theirs.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert codes("the dog.\nthe rain").input_ids == trained.tokenizer.encode("the dog.\nthe rain")
    assert codes.decode(trained.tokenizer.encode("the dog.\nthe rain")) == "the dog.\nthe rain"
    model = theirs.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    with torch.no_grad(), tg.no_grad():
        found = model(torch.from_numpy(ids)).logits.numpy()
        assert np.abs(found - trained.model(ids).numpy()).max() < 1e-5
