"""A Llama through the whole of a run: trained, resumed, sampled, profiled, by options alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinygrad_edu import lm
from tinygrad_edu.cli import main
from tinygrad_edu.lm import checkpoint, curve

Make = Callable[..., lm.TrainConfig]
OPTIONS: dict[str, Any] = {
    "architecture": "llama", "num_heads": 4, "num_kv_heads": 2, "hidden_dim": 24,
    "tied_head": False, "curve": True,
}  # fmt: skip


@pytest.fixture
def config(make_config: Make) -> lm.TrainConfig:
    return make_config(**OPTIONS)


def test_a_run_trains_the_llama_of_its_options(config: lm.TrainConfig) -> None:
    result = lm.train(config)
    trained = lm.load_trained(result.run)
    assert isinstance(trained.model, lm.Llama)
    symbols = trained.tokenizer.vocab_size
    assert trained.model.config == lm.LlamaConfig(
        symbols, block_size=8, num_layers=1, num_heads=4, num_kv_heads=2, embed_dim=16,
        hidden_dim=24, tied_head=False,
    )  # fmt: skip
    assert result.validation_loss is not None and result.validation_loss < np.log(symbols)
    text = "".join(trained.write("the ", 20, seed=3))
    assert text == "".join(trained.write("the ", 20, seed=3)) and len(text) == 20
    parameters = trained.model.num_parameters()
    title = f"a Llama of {parameters:,} parameters"
    assert title in (result.run / "loss.svg").read_text("utf-8")  # drawn by the run itself
    assert title in curve.draw(result.run).read_text("utf-8")


def test_a_resumed_run_ends_with_the_same_bits(make_config: Make, tmp_path: Path) -> None:
    options = {**OPTIONS, "dropout": 0.2, "curve": False, "schedule": "constant"}
    whole = lm.train(make_config(**options, run=tmp_path / "whole")).run
    part = lm.train(make_config(**options, run=tmp_path / "part", steps=4)).run
    longer = dataclasses.replace(lm.read_config(part), steps=8)
    assert lm.resume(part, longer).step == 8
    wanted, found = (checkpoint.read_arrays(run / checkpoint.MODEL) for run in (whole, part))
    assert found.keys() == wanted.keys() and "head.weight" in found
    for name, array in found.items():
        np.testing.assert_array_equal(array, wanted[name])


def test_flops_and_the_profile_are_those_of_a_llama(make_config: Make) -> None:
    config = make_config(**{**OPTIONS, "curve": False})
    found = lm.profile_step(config)
    targets = 8 * 4 * 8  # a copy of them in one row
    assert found.kept_bytes == found.cost.activation_bytes + targets
    modules = {row.module for row in found.rows}
    assert {"Llama.blocks.0.attn.k_proj", "Llama.blocks.0.mlp.gate", "Llama.head"} <= modules
    assert "rotary" in found.table()


def test_the_command_trains_samples_and_resumes_a_llama(
    text_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "r"
    sizes = "--num-layers 1 --num-heads 4 --num-kv-heads 2 --embed-dim 16 --block-size 8"
    rest = "--steps 4 --sample-length 5 --no-curve --threads 1 --architecture llama"
    assert main(["train", "--corpus", str(text_file), "--run", str(run),
                 *sizes.split(), *rest.split()]) == 0  # fmt: skip
    said = capsys.readouterr().out
    assert "Llama of " in said and "1 layer, 4 heads on 2, 16 wide" in said
    assert main(["sample", str(run), "the ", "--max-new-tokens", "5"]) == 0
    assert capsys.readouterr().out.startswith("the ")
    assert main(["train", "--resume", str(run), "--steps", "6"]) == 0
    assert "step 6" in capsys.readouterr().out


def test_options_of_the_other_architecture_begin_no_run(
    text_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "r"
    assert main(["train", "--corpus", str(text_file), "--run", str(run), "--num-kv-heads", "2"])
    said = capsys.readouterr().err
    assert "--num-kv-heads 2 was given for a gpt" in said and "Traceback" not in said
    assert not run.exists()
