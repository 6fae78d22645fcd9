"""Adapters in PEFT's layout: there and back, another base refused, what does not fit named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import tinygrad_edu as tg
from tinygrad_edu import lm, nn
from tinygrad_edu.lm.adapters import base_digest, load_adapter, save_adapter

SIZES: dict[str, Any] = {
    "vocab_size": 50, "block_size": 16, "num_layers": 2, "num_heads": 3, "embed_dim": 24,
}  # fmt: skip
IDS = np.random.default_rng(0).integers(0, 50, (2, 16))


def gpt(seed: int = 0) -> lm.GPT:
    model = lm.GPT(lm.GPTConfig(**SIZES), np.random.default_rng(seed))
    model.eval()
    return model


def logits(model: lm.GPT) -> Any:
    with tg.no_grad():
        return model(IDS).numpy()


def moved(model: lm.GPT, **options: Any) -> nn.LoRA:
    """An adapter that does something."""
    adapter = nn.add_lora(model, **{"rank": 4, "alpha": 8, "targets": ["qkv"], **options})
    rng = np.random.default_rng(5)
    for layer in adapter.layers.values():
        layer.lora_B.data = rng.normal(0, 0.3, layer.lora_B.shape).astype(np.float32)
    return adapter


@pytest.mark.parametrize("targets", [["qkv"], ["*"], ["blocks.1.mlp.layers.0"]])
@pytest.mark.parametrize("merged", [False, True])
def test_there_and_back(targets: list[str], merged: bool, tmp_path: Path) -> None:
    model = gpt()
    adapter = moved(model, targets=targets)
    wanted = logits(model)
    if merged:
        adapter.merge()
    save_adapter(adapter, tmp_path)
    other = gpt()
    assert not np.allclose(logits(other), wanted)
    loaded = load_adapter(other, tmp_path)
    assert np.array_equal(logits(other), wanted)
    assert (loaded.rank, loaded.alpha) == (4, 8)
    size = sum(p.stat().st_size for p in tmp_path.iterdir())
    assert size < 4 * sum(p.size for p in gpt().parameters())


def test_another_base_is_refused(tmp_path: Path) -> None:
    save_adapter(moved(gpt(0)), tmp_path)
    with pytest.raises(lm.RunError, match="was trained on another base"):
        load_adapter(gpt(1), tmp_path)


def test_the_digest_is_of_the_frozen_weights_alone() -> None:
    model = gpt()
    before = base_digest(model)
    adapter = moved(model)
    assert base_digest(model) == before
    adapter.merge()
    assert base_digest(model) == before
    assert base_digest(gpt(1)) != before


def test_what_does_not_fit_is_said(tmp_path: Path) -> None:
    with pytest.raises(lm.RunError, match=r"adapter_config.json cannot be read"):
        load_adapter(gpt(), tmp_path)
    save_adapter(moved(gpt()), tmp_path)
    file = tmp_path / "adapter_model.safetensors"
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    arrays = load_file(file)

    def refused(**changes: Any) -> str:
        (tmp_path / "adapter_config.json").write_text(json.dumps({**config, **changes}))
        with pytest.raises(lm.RunError) as error:
            load_adapter(gpt(), tmp_path)
        return str(error.value)

    assert "of kind 'IA3'" in refused(peft_type="IA3")
    assert "use_dora = True" in refused(use_dora=True)
    assert "has other shapes for" in refused(r=3)
    save_file({f"{n}x": a for n, a in arrays.items()}, file)
    assert "which no GPT-2 has" in refused()
    name = next(iter(arrays))
    save_file({n: a for n, a in arrays.items() if n != name}, file)
    assert "lacks blocks.0.attn.qkv" in refused()
    assert not any("lora" in n for n, _ in gpt().named_parameters())


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")  # theirs, of each other
def test_peft_reads_ours_and_ours_reads_pefts(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch, the judge, is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    peft = pytest.importorskip("peft", reason="peft, the judge, is not installed")
    model = gpt()
    lm.save_huggingface(model, tmp_path / "base")
    adapter = moved(model)
    save_adapter(adapter, tmp_path / "ours", base=str(tmp_path / "base"))
    theirs = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "base")
    with_ours = peft.PeftModel.from_pretrained(theirs, tmp_path / "ours").eval()
    assert np.abs(with_ours(torch.tensor(IDS)).logits.detach().numpy() - logits(model)).max() < 1e-5
    torch.manual_seed(0)
    fresh = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "base")
    config = peft.LoraConfig(
        r=3, lora_alpha=6, target_modules=["c_attn", "c_proj"], init_lora_weights=False,
        task_type="CAUSAL_LM", fan_in_fan_out=True,
    )  # fmt: skip
    made = peft.get_peft_model(fresh, config).eval()
    made.save_pretrained(tmp_path / "theirs")
    wanted = made(torch.tensor(IDS)).logits.detach().numpy()
    other = gpt()
    load_adapter(other, tmp_path / "theirs")
    assert np.abs(logits(other) - wanted).max() < 1e-5
