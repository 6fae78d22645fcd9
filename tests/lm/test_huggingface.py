"""GPT-2 folders in Hugging Face's layout: the same logits there and back; errors name weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save

import tinygrad_edu as tg
from tinygrad_edu import lm, text
from tinygrad_edu.cli import main
from tinygrad_edu.lm.safetensors_files import read_safetensors

SIZES: dict[str, Any] = {
    "vocab_size": 50, "block_size": 16, "num_layers": 2, "num_heads": 3, "embed_dim": 24,
}  # fmt: skip
IDS = np.random.default_rng(0).integers(0, 50, (2, 16))


def logits(model: lm.GPT, ids: Any = IDS) -> Any:
    with tg.no_grad():
        return model(ids).numpy()


def array_of(parameter: Any) -> Any:
    return parameter.detach().numpy()


def made(**options: Any) -> lm.GPT:
    model = lm.GPT(lm.GPTConfig(**{**SIZES, **options}), np.random.default_rng(1))
    for parameter in model.parameters():  # biases too
        noise = np.random.default_rng(parameter.size).normal(size=parameter.shape)
        parameter.data = array_of(parameter) + 0.05 * noise.astype(np.float32)
    model.eval()
    return model


@pytest.mark.parametrize("options", [{}, {"activation": "gelu_tanh"}, {"eps": 1e-3}])
def test_there_and_back_gives_the_same_logits(options: dict[str, Any], tmp_path: Path) -> None:
    model = made(**options)
    back = lm.load_huggingface(lm.save_huggingface(model, tmp_path))
    assert back.config == model.config
    assert np.array_equal(logits(back), logits(model))


def test_a_model_without_biases_is_written_with_zeros(tmp_path: Path) -> None:
    model = made(bias=False)
    back = lm.load_huggingface(lm.save_huggingface(model, tmp_path))
    assert np.allclose(logits(back), logits(model), atol=1e-6)


def test_shards_and_half_precision_are_read(tmp_path: Path) -> None:
    model = made()
    lm.save_huggingface(model, tmp_path)
    arrays = read_safetensors(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    names = sorted(arrays)
    for half in (np.float16, ml_dtypes.bfloat16):
        where = {}
        for number, part in enumerate((names[:9], names[9:])):
            file = f"model-{number + 1:05}-of-00002.safetensors"
            (tmp_path / file).write_bytes(raw({n: arrays[n].astype(half) for n in part}))
            where |= dict.fromkeys(part, file)
        (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
        back = lm.load_huggingface(tmp_path)
        for name, parameter in back.named_parameters():
            own = array_of(dict(model.named_parameters())[name])
            assert np.array_equal(array_of(parameter), own.astype(half).astype(np.float32))


def raw(arrays: dict[str, Any]) -> bytes:
    """A safetensors file, of bfloat16 too."""
    kinds = {"float16": "F16", "bfloat16": "BF16", "float32": "F32"}
    head: dict[str, Any] = {}
    data = b""
    for name, array in arrays.items():
        piece = np.ascontiguousarray(array).tobytes()
        head[name] = {
            "dtype": kinds[str(array.dtype)], "shape": list(array.shape),
            "data_offsets": [len(data), len(data) + len(piece)],
        }  # fmt: skip
        data += piece
    text_ = json.dumps(head).encode()
    return len(text_).to_bytes(8, "little") + text_ + data


def changed(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    arrays = read_safetensors(folder / "model.safetensors")
    change(arrays)
    (folder / "model.safetensors").write_bytes(save(arrays))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda a: a.pop("transformer.h.0.ln_1.weight"), "lacks transformer.h.0.ln_1.weight"),
        (lambda a: a.update(extra=np.zeros(3)), "holds weights that GPT-2 has not: extra"),
        (
            lambda a: a.update({"transformer.h.1.mlp.c_fc.weight": np.zeros((96, 24), np.float32)}),
            r"c_fc.weight is \(96, 24\) where \(24, 96\) is asked for \(it is transposed\)",
        ),
        (lambda a: a.update({"lm_head.weight": np.ones((50, 24), "f4")}), "a head of its own"),
        (
            lambda a: a.update({"transformer.ln_f.bias": np.zeros(24, np.int8)}),
            r"transformer\.ln_f\.bias in .* is of int8; weights are read as floats",
        ),
        (
            lambda a: [a.pop(f"transformer.h.{i}.ln_{k}.bias") for i in (0, 1) for k in (1, 2)]
            + [a.pop("transformer.wpe.weight"), a.update(x=np.ones(1))],
            r"lacks transformer\.wpe\.weight, .* and 1 more and holds weights .*: x; its weights",
        ),
    ],
)
def test_weights_that_do_not_fit_are_named(
    change: Callable[[dict[str, Any]], None], said: str, tmp_path: Path
) -> None:
    lm.save_huggingface(made(), tmp_path)
    changed(tmp_path, change)
    with pytest.raises((lm.RunError, lm.ConfigError), match=said):
        lm.load_huggingface(tmp_path)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model_type": "bert"}, "model_type = 'bert'; models of gpt2 and llama are read"),
        ({"n_inner": 7}, "n_inner = 7"),
        ({"activation_function": "swish"}, "activation_function = 'swish'"),
        ({"activation_function": ["gelu"]}, "activation_function = "),
        ({"tie_word_embeddings": False}, "tie_word_embeddings = False"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx = True"),
        ({"scale_attn_weights": False}, "scale_attn_weights = False"),
        ({"add_cross_attention": True}, "add_cross_attention = True"),
        ({"quantization_config": {"bits": 4}}, "quantization_config = "),
        ({"n_layer": None}, "lacks n_layer"),
        ({"n_head": 2.5}, r"n_head = 2\.5; it has to be a whole number"),
        ({"vocab_size": True}, "vocab_size = True"),
        ({"layer_norm_epsilon": -1}, "layer_norm_epsilon = -1; it has to be a number above 0"),
        ({"n_head": 5}, "a multiple of"),
    ],
)
def test_models_of_other_kinds_are_refused(
    options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    lm.save_huggingface(made(), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **options}))
    with pytest.raises(lm.ConfigError, match=said):
        lm.load_huggingface(tmp_path)


def test_matrices_that_all_lie_the_other_way_round_are_found_by_those_that_are_not_square(
    tmp_path: Path,
) -> None:
    lm.save_huggingface(made(), tmp_path)

    def turn(arrays: dict[str, Any]) -> None:
        for name, array in arrays.items():
            if array.ndim == 2 and ".h." in name:
                arrays[name] = np.ascontiguousarray(array.T)

    changed(tmp_path, turn)
    with pytest.raises(lm.RunError, match=r"c_attn\.weight is \(72, 24\), .* \(24, 72\)") as error:
        lm.load_huggingface(tmp_path)
    assert "transpose each matrix of its blocks, the square ones too" in str(error.value)


def test_matrices_of_blocks_are_stored_input_by_output_the_square_one_too(tmp_path: Path) -> None:
    """Conv1D is x·W: where W is square, only its product shows which way round it lies."""
    model = made()
    lm.save_huggingface(model, tmp_path)
    stored = read_safetensors(tmp_path / "model.safetensors")
    block = model.blocks[1]
    for theirs, ours in (
        ("attn.c_attn", block.attn.qkv), ("attn.c_proj", block.attn.out_proj),
        ("mlp.c_fc", block.mlp.layers[0]), ("mlp.c_proj", block.mlp.layers[1]),
    ):  # fmt: skip
        there = stored[f"transformer.h.1.{theirs}.weight"]
        x = np.random.default_rng(0).normal(size=(3, there.shape[0])).astype(np.float32)
        wanted = x @ there + stored[f"transformer.h.1.{theirs}.bias"]
        assert np.abs(ours(tg.Tensor(x)).detach().numpy() - wanted).max() < 1e-5


def test_names_without_the_prefix_masks_and_a_written_out_head_are_read(tmp_path: Path) -> None:
    """As older releases and `GPT2Model` write them."""
    model = made()
    lm.save_huggingface(model, tmp_path)
    file = tmp_path / "model.safetensors"
    arrays = read_safetensors(file)
    bare = {name.removeprefix("transformer."): array for name, array in arrays.items()}
    bare["h.0.attn.bias"] = np.ones((1, 1, 16, 16), np.uint8)
    bare["h.0.attn.masked_bias"] = np.array(-1e4, np.float32)
    bare["lm_head.weight"] = bare["wte.weight"].copy()
    file.write_bytes(save(bare))
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"reorder_and_upcast_attn": True}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert np.array_equal(logits(lm.load_huggingface(tmp_path)), logits(model))


def test_missing_and_damaged_files_are_said(tmp_path: Path) -> None:
    with pytest.raises(lm.RunError, match=r"config.json cannot be read"):
        lm.load_huggingface(tmp_path)
    lm.save_huggingface(made(), tmp_path)
    whole = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(lm.RunError, match="is not a whole safetensors file"):
        lm.load_huggingface(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(lm.RunError, match="is not JSON"):
        lm.load_huggingface(tmp_path)


def test_a_run_is_exported_and_sampled_from_its_folder(
    make_config: Callable[..., lm.TrainConfig], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    run = lm.train(make_config(tokenizer="bpe", vocab_size=280, steps=4)).run
    folder = tmp_path / "gpt2"
    assert main(["export", str(run), str(folder)]) == 0
    assert "tokenizer_config.json" in capsys.readouterr().out
    a, b = lm.load_trained(run), lm.load_trained(folder)
    assert "".join(a.write("the", 20)) == "".join(b.write("the", 20))
    assert main(["sample", str(folder), "the", "--max-new-tokens", "5"]) == 0
    other = text.train_bpe("abcd " * 90 + "the cat sat", 290, min_frequency=1).tokenizer
    text.BPETokenizer(other.merges, [f"<{i}>" for i in range(40)]).save(folder / "tokenizer.json")
    with pytest.raises(lm.RunError, match="they do not belong together"):
        lm.load_trained(folder)


@pytest.mark.oracle
@pytest.mark.parametrize("activation", ["gelu_new", "gelu"])
def test_logits_are_those_of_transformers(activation: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch, the judge, is not installed")
    theirs = pytest.importorskip("transformers", reason="transformers, the judge, is not installed")
    torch.manual_seed(0)
    config = theirs.GPT2Config(
        vocab_size=50, n_positions=16, n_embd=24, n_layer=2, n_head=3,
        activation_function=activation,
    )  # fmt: skip
    model = theirs.GPT2LMHeadModel(config).eval()
    model.save_pretrained(tmp_path / "theirs")
    wanted = model(torch.tensor(IDS)).logits.detach().numpy()
    ours = lm.load_huggingface(tmp_path / "theirs")
    assert np.abs(logits(ours) - wanted).max() < 1e-6
    lm.save_huggingface(ours, tmp_path / "ours")
    back = theirs.GPT2LMHeadModel.from_pretrained(tmp_path / "ours").eval()
    assert np.abs(back(torch.tensor(IDS)).logits.detach().numpy() - wanted).max() < 1e-6


@pytest.mark.oracle
def test_shards_and_half_precision_of_transformers_are_read(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch, the judge, is not installed")
    theirs = pytest.importorskip("transformers", reason="transformers, the judge, is not installed")
    torch.manual_seed(0)
    config = theirs.GPT2Config(vocab_size=50, n_positions=16, n_embd=24, n_layer=2, n_head=3)
    for kind in (torch.float16, torch.bfloat16):
        folder = tmp_path / str(kind).removeprefix("torch.")
        model = theirs.GPT2LMHeadModel(config).eval().to(kind)
        model.save_pretrained(folder, max_shard_size="5KB")
        assert len(list(folder.glob("*.safetensors"))) > 1
        wanted = model.to(torch.float32)(torch.tensor(IDS)).logits.detach().numpy()
        assert np.abs(logits(lm.load_huggingface(folder)) - wanted).max() < 1e-6


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_transformers_reads_half_precision_of_ours(dtype: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch, the judge, is not installed")
    theirs = pytest.importorskip("transformers", reason="transformers, the judge, is not installed")
    lm.save_huggingface(made(activation="gelu_tanh"), tmp_path, dtype=dtype)
    there = theirs.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    assert str(there.dtype) == f"torch.{dtype}"
    found = there.to(torch.float32)(torch.tensor(IDS)).logits.detach().numpy()
    assert np.abs(found - logits(lm.load_huggingface(tmp_path))).max() < 1e-5
