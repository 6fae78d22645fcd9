"""Llamas in Hugging Face's layout, and their adapters in PEFT's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import lm, nn
from tinygrad_edu.lm.safetensors_files import read_safetensors, write_safetensors

SIZES: dict[str, Any] = {
    "vocab_size": 50, "block_size": 16, "num_layers": 2, "num_heads": 4, "num_kv_heads": 2,
    "embed_dim": 24, "hidden_dim": 40,
}  # fmt: skip
IDS = np.random.default_rng(0).integers(0, 50, (2, 16))


def logits(model: lm.LanguageModel, ids: Any = IDS) -> Any:
    with tg.no_grad():
        return model(ids).numpy()


def made(**options: Any) -> lm.Llama:
    model = lm.Llama(lm.LlamaConfig(**{**SIZES, **options}), np.random.default_rng(1))
    for parameter in model.parameters():  # norms too
        noise = np.random.default_rng(parameter.size).normal(size=parameter.shape)
        parameter.data = parameter.detach().numpy() + 0.1 * noise.astype(np.float32)
    model.eval()
    return model


def adapted(model: lm.Llama) -> nn.LoRA:
    adapter = nn.add_lora(model, rank=2, targets=["q_proj", "down"])
    for parameter in adapter.parameters():
        noise = np.random.default_rng(parameter.size).normal(size=parameter.shape)
        parameter.data = noise.astype(np.float32)
    return adapter


@pytest.mark.parametrize(
    "options", [{}, {"tied_head": False}, {"rope_theta": 500.0, "eps": 1e-3}, {"num_kv_heads": 1}]
)
def test_there_and_back_gives_the_same_logits(options: dict[str, Any], tmp_path: Path) -> None:
    model = made(**options)
    back = lm.load_huggingface(lm.save_huggingface(model, tmp_path))
    assert back.config == model.config
    assert np.array_equal(logits(back), logits(model))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_written_and_read(dtype: str, tmp_path: Path) -> None:
    import ml_dtypes

    kind = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}[dtype]
    model = made()
    back = lm.load_huggingface(lm.save_huggingface(model, tmp_path, dtype=dtype))
    for name, parameter in back.named_parameters():
        own = dict(model.named_parameters())[name].detach().numpy()
        assert np.array_equal(parameter.detach().numpy(), own.astype(kind).astype(np.float32))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"attention_bias": True}, "attention_bias = True"),
        ({"mlp_bias": True}, "mlp_bias = True"),
        ({"hidden_act": "gelu"}, "hidden_act = 'gelu'"),
        ({"head_dim": 8}, "head_dim = 8"),
        ({"pretraining_tp": 2}, "pretraining_tp = 2"),
        (
            {"rope_parameters": {"rope_type": "llama3", "factor": 8.0}},
            "rope_parameters = .*only plain rotary",
        ),
        ({"rope_parameters": None, "rope_scaling": {"type": "linear"}}, "rope_scaling = "),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "rope_scaling = .*only plain"),
        ({"rope_scaling": [1]}, "rope_scaling = .*only plain"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5"),
        (
            {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}},
            "partial_rotary_factor = 0.5",
        ),
        ({"model_type": ["llama"]}, r"model_type = \['llama'\]; models of gpt2 and llama"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings = 'yes'"),
        ({"hidden_size": None}, "lacks hidden_size"),
    ],
)
def test_settings_that_are_not_had_are_refused(
    changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    lm.save_huggingface(made(), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **changes}))
    with pytest.raises(lm.ConfigError, match=said):
        lm.load_huggingface(tmp_path)


def test_the_base_of_the_rotation_is_read_from_old_and_new_configs(tmp_path: Path) -> None:
    lm.save_huggingface(made(rope_theta=777.0), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    for gone in ("rope_parameters", "rope_theta"):
        kept = {name: value for name, value in config.items() if name != gone}
        (tmp_path / "config.json").write_text(json.dumps(kept))
        assert lm.load_huggingface(tmp_path).config.rope_theta == 777.0  # type: ignore[attr-defined]


def test_a_square_matrix_that_was_turned_about_is_named(tmp_path: Path) -> None:
    lm.save_huggingface(made(num_kv_heads=4), tmp_path)
    file = tmp_path / "model.safetensors"
    raw = file.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    about = json.loads(raw[8 : 8 + size])["__metadata__"]
    arrays = read_safetensors(file)
    name = "model.layers.1.self_attn.q_proj.weight"
    arrays[name] = arrays[name].T
    write_safetensors(file, arrays, about)
    with pytest.raises(lm.RunError, match=rf"{name} .* stored the other way round"):
        lm.load_huggingface(tmp_path)


def test_what_is_missing_left_over_or_of_another_shape_is_named(tmp_path: Path) -> None:
    lm.save_huggingface(made(tied_head=False), tmp_path)
    file = tmp_path / "model.safetensors"
    arrays = read_safetensors(file)
    missing = {n: a for n, a in arrays.items() if n != "lm_head.weight"}
    write_safetensors(file, missing)
    with pytest.raises(lm.RunError, match=r"lacks lm_head\.weight"):
        lm.load_huggingface(tmp_path)
    write_safetensors(file, {**arrays, "model.layers.0.self_attn.q_proj.bias": np.zeros(24, "f4")})
    with pytest.raises(lm.RunError, match=r"Llama has not: model\.layers\.0\.self_attn\.q_proj"):
        lm.load_huggingface(tmp_path)
    write_safetensors(file, {**arrays, "model.norm.weight": np.ones(23, "f4")})
    with pytest.raises(lm.RunError, match=r"model\.norm\.weight is \(23,\) where \(24,\)"):
        lm.load_huggingface(tmp_path)


def test_an_adapter_goes_there_and_back_and_fits_its_own_base_only(tmp_path: Path) -> None:
    model = made()
    plain = logits(model)
    adapter = adapted(model)
    wanted = logits(model)
    assert not np.allclose(wanted, plain, atol=1e-2)
    lm.save_adapter(adapter, tmp_path)
    again = made()
    lm.load_adapter(again, tmp_path)
    assert np.array_equal(logits(again), wanted)
    with pytest.raises(lm.RunError, match="trained on another base"):
        lm.load_adapter(made(eps=1e-5, hidden_dim=40, num_kv_heads=1), tmp_path)
    gpt = lm.GPT(lm.GPTConfig(50, 16, 2, 4, 24), np.random.default_rng(0))
    file = tmp_path / "adapter_model.safetensors"
    write_safetensors(file, read_safetensors(file))  # without the digest of its base
    with pytest.raises(lm.RunError, match="which no GPT-2 has"):
        lm.load_adapter(gpt, tmp_path)


@pytest.mark.oracle
@pytest.mark.parametrize("tied", [True, False])
def test_transformers_reads_what_is_written_and_the_reverse(tied: bool, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch, the judge, is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    model = made(tied_head=tied, rope_theta=500.0)
    lm.save_huggingface(model, tmp_path / "ours")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "ours")
    with torch.no_grad():
        found = theirs(torch.from_numpy(IDS)).logits.numpy()
    assert np.allclose(found, logits(model), atol=2e-5)

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=50, hidden_size=24, intermediate_size=40, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=16,
        tie_word_embeddings=tied,
    )  # fmt: skip
    random = transformers.LlamaForCausalLM(config).eval()
    for kind in (torch.float32, torch.float16, torch.bfloat16):
        folder = tmp_path / str(kind).removeprefix("torch.")
        random.to(kind).save_pretrained(folder, max_shard_size="5KB")
        assert len(list(folder.glob("*.safetensors"))) > 1
        with torch.no_grad():
            wanted = random.to(torch.float32)(torch.from_numpy(IDS)).logits.numpy()
        assert np.abs(logits(lm.load_huggingface(folder)) - wanted).max() < 1e-6


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
def test_peft_reads_the_adapter_and_the_reverse(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch, the judge, is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    peft = pytest.importorskip("peft", reason="peft is not installed")
    model = made()
    lm.save_huggingface(model, tmp_path / "base")
    lm.save_adapter(adapted(model), tmp_path / "adapter")

    def base() -> Any:
        return transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base")

    theirs = peft.PeftModel.from_pretrained(base(), tmp_path / "adapter")
    with torch.no_grad():
        found = theirs(torch.from_numpy(IDS)).logits.numpy()
    assert np.allclose(found, logits(model), atol=1e-4)

    torch.manual_seed(0)
    options = peft.LoraConfig(r=2, lora_alpha=4, target_modules=["k_proj", "up_proj"])
    made_there = peft.get_peft_model(base(), options)
    for name, parameter in made_there.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter)
    with torch.no_grad():
        wanted = made_there(torch.from_numpy(IDS)).logits.numpy()
    made_there.save_pretrained(tmp_path / "theirs")
    again = made()
    lm.load_adapter(again, tmp_path / "theirs")
    assert np.allclose(logits(again), wanted, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "value"), [("num_hidden_layers", 10**7), ("intermediate_size", 10**12)]
)
def test_a_config_of_a_far_larger_model_is_refused_before_memory_is_asked_for(
    name: str, value: int, tmp_path: Path
) -> None:
    model = lm.Llama(lm.LlamaConfig(20, 8, 1, 2, 1, 16), np.random.default_rng(0))
    folder = lm.save_huggingface(model, tmp_path / "model")
    about = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**about, name: value}))
    with pytest.raises(lm.RunError, match=r"far from enough; they do not belong together"):
        lm.load_huggingface(folder)
    (folder / "config.json").write_text("[" * 100_000)
    with pytest.raises(lm.RunError, match="is not JSON that can be read"):
        lm.load_huggingface(folder)
