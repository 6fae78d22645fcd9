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


def logits(model: lm.LanguageModel) -> Any:
    with tg.no_grad():
        return model(IDS).numpy()


def moved(model: lm.LanguageModel, **options: Any) -> nn.LoRA:
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


def llama(tied: bool = True) -> lm.Llama:
    config = lm.LlamaConfig(50, 16, 2, 4, 2, 24, 40, tied_head=tied)
    model = lm.Llama(config, np.random.default_rng(3))
    model.eval()
    return model


@pytest.mark.parametrize("make", [gpt, llama])
def test_merged_gives_the_same_logits_and_unmerged_the_base_s_bytes(make: Any) -> None:
    model = make()
    before = {name: p.detach().numpy().copy() for name, p in model.named_parameters()}
    adapter = moved(model, targets=["*"])
    apart = logits(model)
    adapter.merge()
    assert np.abs(logits(model) - apart).max() < 1e-5
    adapter.unmerge()
    for name, parameter in model.named_parameters():
        if "lora_" not in name:
            assert parameter.detach().numpy().tobytes() == before[name].tobytes()


def test_only_what_is_adapted_is_a_target(tmp_path: Path) -> None:
    """`c_proj` is the attention's and the MLP's: a last name stands for all that are called so."""

    def targets(*wanted: str) -> Any:
        save_adapter(moved(gpt(), targets=list(wanted)), tmp_path)
        return json.loads((tmp_path / "adapter_config.json").read_text())["target_modules"]

    assert targets("qkv") == ["c_attn"]
    assert targets("out_proj", "layers.1", "blocks.*.mlp.layers.1") == ["c_proj"]
    assert targets("out_proj") == [f"transformer.h.{i}.attn.c_proj" for i in (0, 1)]
    assert targets("blocks.1.attn.qkv") == ["transformer.h.1.attn.c_attn"]


def test_a_refused_adapter_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    save_adapter(moved(gpt()), tmp_path)
    file = tmp_path / "adapter_model.safetensors"
    arrays = load_file(file)
    name = next(name for name in arrays if "lora_B" in name)
    save_file({n: a[:-1] if n == name else a for n, a in arrays.items()}, file)
    model = gpt()
    frozen = model.blocks[0].attn.qkv.weight
    frozen.requires_grad_(False)
    wanted = {n: (p.requires_grad, p.shape) for n, p in model.named_parameters()}
    with pytest.raises(lm.RunError, match=r"has other shapes for blocks\.0\.attn\.qkv\.lora_B"):
        load_adapter(model, tmp_path)
    assert {n: (p.requires_grad, p.shape) for n, p in model.named_parameters()} == wanted
    save_file({}, file)
    with pytest.raises(lm.RunError, match="it adapts no layer"):
        load_adapter(model, tmp_path)
    adapted = gpt()
    save_adapter(moved(adapted), tmp_path)
    with pytest.raises(lm.RunError, match="the model has an adapter already"):
        load_adapter(adapted, tmp_path)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"init_lora_weights": "pissa"}, "init_lora_weights = 'pissa'"),
        ({"lora_bias": True}, "lora_bias = True"),
        ({"use_rslora": True}, "use_rslora = True"),
        ({"bias": "all"}, "bias = 'all'"),
        ({"modules_to_save": ["wte"]}, r"modules_to_save = \['wte'\]"),
        ({"rank_pattern": {"c_attn": 2}}, "rank_pattern = "),
        ({"r": None}, "r = None; it has to be a whole number"),
        ({"r": 4.0}, "r = 4.0; it has to be a whole number"),
        ({"lora_alpha": float("nan")}, "lora_alpha = nan; it has to be a number"),
        ({"lora_alpha": float("inf")}, "lora_alpha = inf; it has to be a number"),
        ({"lora_alpha": "8"}, "lora_alpha = '8'; it has to be a number"),
    ],
)
def test_settings_that_change_the_numbers_are_refused(
    setting: dict[str, Any], said: str, tmp_path: Path
) -> None:
    save_adapter(moved(gpt()), tmp_path)
    path = tmp_path / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **setting}))
    with pytest.raises(lm.RunError, match=said):
        load_adapter(gpt(), tmp_path)
    path.write_text("[]")
    with pytest.raises(lm.RunError, match="is not what PEFT writes"):
        load_adapter(gpt(), tmp_path)


@pytest.mark.parametrize(
    ("name", "make", "said"),
    [
        ("lm_head.lora_A.weight", gpt, "adapts lm_head, and embedding and head are one"),
        ("transformer.wte.lora_embedding_A", gpt, r"adapts transformer\.wte, and embedding and"),
        ("model.embed_tokens.lora_embedding_A", lambda: llama(False), "that is an embedding"),
        ("model.layers.9.mlp.up_proj.lora_A.weight", llama, r"9\.mlp\.up, which it has not"),
        ("model.layers.0.mlp.up_proj.lora_C.weight", llama, "which no Llama has"),
    ],
)
def test_keys_that_do_not_fit_are_named(
    name: str, make: Any, said: str, tmp_path: Path
) -> None:
    save_adapter(moved(gpt()), tmp_path)
    arrays = {f"base_model.model.{name}": np.zeros((4, 24), np.float32)}
    save_file(arrays, tmp_path / "adapter_model.safetensors")
    with pytest.raises(lm.RunError, match=said):
        load_adapter(make(), tmp_path)


def test_a_head_of_its_own_can_be_adapted(tmp_path: Path) -> None:
    model = llama(tied=False)
    save_adapter(moved(model, targets=["head", "up"]), tmp_path)
    again = llama(tied=False)
    load_adapter(again, tmp_path)
    assert np.array_equal(logits(again), logits(model))
    with pytest.raises(lm.RunError, match=r"trained on another base"):
        load_adapter(llama(tied=True), tmp_path)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")  # theirs, of each other
@pytest.mark.parametrize(
    ("make", "targets"),
    [(gpt, ["out_proj"]), (llama, ["*"]), (lambda: llama(False), ["blocks.1.*.down", "head"])],
)
def test_peft_adapts_the_same_layers_merged_or_not(
    make: Any, targets: list[str], tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch", reason="torch, the judge, is not installed")
    theirs = pytest.importorskip("transformers", reason="transformers is not installed")
    peft = pytest.importorskip("peft", reason="peft, the judge, is not installed")
    model = make()
    lm.save_huggingface(model, tmp_path / "base")
    adapter = moved(model, targets=targets)
    save_adapter(adapter, tmp_path / "adapter")
    base = theirs.AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    there = peft.PeftModel.from_pretrained(base, tmp_path / "adapter").eval()
    assert sum("lora_A" in n for n, _ in there.named_parameters()) == len(adapter.layers)
    with torch.no_grad():
        found = there(torch.from_numpy(IDS)).logits.numpy()
        merged = there.merge_and_unload()(torch.from_numpy(IDS)).logits.numpy()
    assert np.abs(found - logits(model)).max() < 1e-5
    adapter.merge()
    assert np.abs(merged - logits(model)).max() < 1e-5


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
