"""GPT-2 folders in Hugging Face's layout: `config.json` beside safetensors, read and written.

Their linear layers are stored input by output (Conv1D), ours output by input, as PyTorch's, so
matrices are transposed; the head is the token embedding in both. Weights are read from one file or
from shards, in float32, float16 or bfloat16, and held as float32.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_edu.files import write_atomically
from tinygrad_edu.lm.errors import ConfigError, RunError
from tinygrad_edu.lm.gpt import GPT, GPTConfig
from tinygrad_edu.lm.language_model import LanguageModel

__all__ = ["load_huggingface", "save_huggingface"]

Arrays = dict[str, NDArray[Any]]
_ACTIVATIONS = {
    "gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu",
}  # fmt: skip
_BLOCK = {
    "ln_1": ("ln_1", False), "attn.c_attn": ("attn.qkv", True),
    "attn.c_proj": ("attn.out_proj", True), "ln_2": ("ln_2", False),
    "mlp.c_fc": ("mlp.layers.0", True), "mlp.c_proj": ("mlp.layers.1", True),
}  # fmt: skip
"""Their module and ours in a block, and whether its matrix is stored the other way round."""


def load_huggingface(folder: str | Path) -> GPT:
    """The GPT of a folder that `transformers` or `save_huggingface` wrote.

    Raises:
        RunError: a file is missing or damaged; weights are missing, left over or of other shapes.
        ConfigError: a model of another architecture, or with parts that GPT-2 has not.
    """
    folder = Path(folder)
    config = _config(folder)
    model = GPT(config, np.random.default_rng(0))
    stored = _stored(folder)
    weights: Arrays = {}
    missing: list[str] = []
    for theirs, ours, turned in _names(config):
        found = stored.pop(theirs, stored.pop(theirs.removeprefix("transformer."), None))
        if found is None:
            missing.append(theirs)
        else:
            weights[ours] = np.ascontiguousarray((found.T if turned else found), np.float32)
    if missing:
        raise RunError(f"{folder} lacks {_some(missing)}; its weights are not those of its config")
    head = stored.pop("lm_head.weight", None)
    if head is not None and not np.array_equal(head, weights["token_embedding.weight"]):
        raise ConfigError(
            f"{folder} has a head of its own (lm_head.weight differs from the token embedding); "
            "GPT-2's head is its embedding"
        )
    left = [n for n in stored if not n.endswith((".attn.bias", ".attn.masked_bias"))]
    if left:
        raise RunError(f"{folder} holds weights that GPT-2 has not: {_some(left)}")
    wanted = {name: p.shape for name, p in model.named_parameters()}
    for theirs, ours, _ in _names(config):
        if weights[ours].shape != wanted[ours]:
            raise RunError(
                f"{theirs} in {folder} has shape {stored_shape(weights[ours], ours, config)}, and "
                f"config.json asks for {stored_shape(np.empty(wanted[ours]), ours, config)}"
            )
    model.load_state_dict(weights)
    model.eval()
    return model


def stored_shape(array: NDArray[Any], ours: str, config: GPTConfig) -> tuple[int, ...]:
    """The shape of one of our weights as their files have it."""
    turned = next(t for _, name, t in _names(config) if name == ours)
    return array.shape[::-1] if turned else array.shape


def save_huggingface(model: LanguageModel, folder: str | Path, tokenizer: Any = None) -> Path:
    """Write `config.json`, `model.safetensors` and, of byte-level BPE, `tokenizer.json`, which
    `transformers.GPT2LMHeadModel.from_pretrained` reads; the folder.

    Args:
        model: any of ours; biases that it does not have are written as 0.
        folder: made if need be.
        tokenizer: the model's; one of characters has no such file, and is left out.

    Raises:
        ConfigError: a model of another architecture.
    """
    from safetensors.numpy import save

    if not isinstance(model, GPT):
        raise ConfigError(f"a {type(model).__name__} was given; only a GPT is written so far")

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    config = model.config
    ours = {name: p.numpy() for name, p in model.state_dict().items()}
    arrays: Arrays = {}
    for theirs, name, turned in _names(config, every=True):
        found = ours.get(name)
        if found is None:  # a model without biases
            found = np.zeros(_bias_size(name, config), np.float32)
        arrays[theirs] = np.ascontiguousarray(found.T if turned else found)
    write_atomically(folder / "model.safetensors", save(arrays, metadata={"format": "pt"}))
    write_atomically(folder / "config.json", json.dumps(_their_config(config), indent=2) + "\n")
    if hasattr(tokenizer, "merges"):
        tokenizer.save(folder / "tokenizer.json")
        about = {
            "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": config.block_size,
        }  # fmt: skip
        write_atomically(folder / "tokenizer_config.json", json.dumps(about, indent=2) + "\n")
    return folder


def _bias_size(name: str, config: GPTConfig) -> int:
    width = config.embed_dim
    return {"qkv": 3 * width, "0": 4 * width}.get(name.split(".")[-2], width)


def _names(config: GPTConfig, every: bool = False) -> Iterator[tuple[str, str, bool]]:
    """(their name, ours, whether it is stored the other way round) of each weight; without biases
    for a model that has none, unless `every`.
    """
    yield "transformer.wte.weight", "token_embedding.weight", False
    yield "transformer.wpe.weight", "position_embedding.weight", False
    biases = config.bias or every
    for i in range(config.num_layers):
        for theirs, (ours, turned) in _BLOCK.items():
            yield f"transformer.h.{i}.{theirs}.weight", f"blocks.{i}.{ours}.weight", turned
            if biases:
                yield f"transformer.h.{i}.{theirs}.bias", f"blocks.{i}.{ours}.bias", False
    yield "transformer.ln_f.weight", "final_norm.weight", False
    if biases:
        yield "transformer.ln_f.bias", "final_norm.bias", False


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(names[:4]) + more


def _config(folder: Path) -> GPTConfig:
    given = _json(folder / "config.json")
    kind = given.get("model_type")
    if kind != "gpt2":
        raise ConfigError(f"{folder / 'config.json'} is of a {kind!r}; this reads models of 'gpt2'")
    for name, plain in (
        ("scale_attn_by_inverse_layer_idx", False), ("add_cross_attention", False),
        ("scale_attn_weights", True), ("tie_word_embeddings", True),
    ):  # fmt: skip
        if given.get(name, plain) != plain:
            raise ConfigError(f"{folder} has {name} = {given[name]}, which GPT-2 here has not")
    inner = given.get("n_inner") or 4 * given["n_embd"]
    if inner != 4 * given["n_embd"]:
        raise ConfigError(f"{folder} has n_inner = {inner}; it has to be 4 × n_embd here")
    activation = given.get("activation_function", "gelu_new")
    if activation not in _ACTIVATIONS:
        raise ConfigError(
            f"{folder} has activation_function {activation!r}; one of {', '.join(_ACTIVATIONS)} "
            "can be read"
        )
    return GPTConfig(
        vocab_size=given["vocab_size"], block_size=given["n_positions"],
        num_layers=given["n_layer"], num_heads=given["n_head"], embed_dim=given["n_embd"],
        activation=_ACTIVATIONS[activation], eps=given.get("layer_norm_epsilon", 1e-5),
    )  # fmt: skip


def _their_config(config: GPTConfig) -> dict[str, Any]:
    names = {ours: theirs for theirs, ours in reversed(_ACTIVATIONS.items())}
    return {
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2",
        "vocab_size": config.vocab_size, "n_positions": config.block_size,
        "n_ctx": config.block_size, "n_embd": config.embed_dim, "n_layer": config.num_layers,
        "n_head": config.num_heads, "activation_function": names[config.activation],
        "layer_norm_epsilon": config.eps, "tie_word_embeddings": True, "resid_pdrop": 0.0,
        "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": None, "eos_token_id": None,
        "torch_dtype": "float32",
    }  # fmt: skip


def _stored(folder: Path) -> Arrays:
    """All weights of a folder, from one file or from shards."""
    index = folder / "model.safetensors.index.json"
    if index.exists():
        where: Mapping[str, str] = _json(index).get("weight_map", {})
        files = sorted(set(where.values()))
    else:
        files = ["model.safetensors"]
    found: Arrays = {}
    for file in files:
        found.update(read_safetensors(folder / file))
    return found


def read_safetensors(path: Path) -> Arrays:
    """The arrays of a safetensors file; bfloat16 too, as `ml_dtypes` has it.

    Raises:
        RunError: the file is missing or damaged, or holds a type that NumPy has not.
    """
    import ml_dtypes
    from safetensors import SafetensorError, deserialize

    kinds: dict[str, Any] = {
        "F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16,
        "I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8, "U8": np.uint8,
        "BOOL": np.bool_,
    }  # fmt: skip
    try:
        parts = deserialize(path.read_bytes())  # type: ignore[no-untyped-call]
    except OSError as error:
        raise RunError(f"{path} cannot be read ({error.strerror})") from error
    except SafetensorError as error:
        raise RunError(f"{path} is not a whole safetensors file: {error}") from error
    found: Arrays = {}
    for name, part in parts:
        if part["dtype"] not in kinds:
            raise RunError(f"{name} in {path} is of type {part['dtype']}, which is not read here")
        flat = np.frombuffer(part["data"], kinds[part["dtype"]])
        found[name] = flat.reshape(part["shape"])
    return found


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise RunError(f"{path} cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise RunError(f"{path} is not JSON: {error}") from error
