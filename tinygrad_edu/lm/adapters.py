"""LoRA adapters of a GPT or Llama as PEFT has them: adapter_config.json and
adapter_model.safetensors.

The adapter alone is written, a few percent of the model; the file says of which base it is (a
digest of the frozen weights), and another base is refused. Which layer is which is said by the
tables of `lm.layouts`.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_edu import nn
from tinygrad_edu.files import write_atomically
from tinygrad_edu.lm.errors import RunError
from tinygrad_edu.lm.huggingface import layout_of
from tinygrad_edu.lm.language_model import LanguageModel
from tinygrad_edu.lm.layouts import Layout
from tinygrad_edu.lm.safetensors_files import (
    Arrays,
    metadata_of,
    read_json,
    read_safetensors,
    some,
    write_safetensors,
)

__all__ = ["base_digest", "load_adapter", "save_adapter"]

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."
_BASE = "base_sha256"
_ALLOWED: dict[str, tuple[Any, ...]] = {
    "use_rslora": (False, None), "use_dora": (False, None), "bias": ("none", None),
    "lora_bias": (False, None), "rank_pattern": ({}, None), "alpha_pattern": ({}, None),
    "modules_to_save": (None, []), "trainable_token_indices": (None,),
    "target_parameters": (None, []), "layer_replication": (None,),
    "init_lora_weights": (True, False, None, "gaussian", "eva", "orthogonal"),
}  # fmt: skip
"""What changes the numbers of an adapter or of its base, and the values that are had here. (The
other ways to begin, PiSSA's say, take their beginning out of the base's weights.)"""
_EMBEDDING = re.compile(r"(.*)\.(lora_embedding_[AB]|token_adapter\..*)")


def base_digest(model: LanguageModel) -> str:
    """A digest of the weights that are not the adapter's; merged ones are taken as they were."""
    digest = hashlib.sha256()
    for name, array in _base_weights(model):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _base_weights(model: nn.Module) -> Iterator[tuple[str, NDArray[Any]]]:
    modules = dict(model.named_modules())
    for name, parameter in sorted(model.named_parameters()):
        path, _, own = name.rpartition(".")
        layer = modules.get(path)
        if own in ("lora_A", "lora_B"):
            continue
        if own == "weight" and isinstance(layer, nn.LoRALinear):
            yield name, layer.base_weight
        else:
            yield name, parameter.detach().numpy()


def save_adapter(adapter: nn.LoRA, folder: str | Path, base: str = "") -> Path:
    """Write an adapter in PEFT's layout; the folder.

    Args:
        adapter: as `nn.add_lora` gives it, merged or not.
        folder: made if need be.
        base: the name or path of the base model, for readers.

    Raises:
        TypeError: it adapts no language model, or a layer that Hugging Face's form has no name for.
            Nothing is written then.
    """
    folder = Path(folder)
    model = _model_of(adapter)
    layout = layout_of(model)
    arrays: Arrays = {}
    paths: list[str] = []
    for name, array in adapter.state_dict().items():
        path, _, matrix = name.rpartition(".")
        theirs = layout.module_there(path)
        if theirs is None:
            raise TypeError(f"save_adapter() was given one of {path}, which {layout.title} has not")
        paths.append(theirs)
        arrays[f"{_PREFIX}{theirs}.{matrix}.weight"] = array
    config: dict[str, Any] = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": adapter.rank,
        "lora_alpha": adapter.alpha, "lora_dropout": 0.0, "bias": "none",
        "fan_in_fan_out": layout.fan_in_fan_out,
        "target_modules": _targets(layout, model, set(paths)),
        "base_model_name_or_path": base or None, "inference_mode": True,
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    about = {"format": "pt", _BASE: base_digest(model)}
    write_safetensors(folder / WEIGHTS, arrays, about)
    write_atomically(folder / CONFIG, json.dumps(config, indent=2) + "\n")
    return folder


def _model_of(adapter: nn.LoRA) -> LanguageModel:
    if not isinstance(adapter.model, LanguageModel):
        raise TypeError(
            f"save_adapter() writes adapters of a GPT or a Llama, got {type(adapter.model)}"
        )
    return adapter.model


def _targets(layout: Layout[Any, Any], model: nn.Module, adapted: set[str]) -> list[str]:
    """What PEFT is to adapt: last names, and whole paths where a name would mean more than was
    adapted (`c_proj` is both the attention's and the MLP's).
    """
    there = {layout.module_there(path) for path, _ in model.named_modules()} - {None}
    targets = set()
    for path in adapted:
        last = path.rpartition(".")[2]
        meant = {other for other in there if other and other.rpartition(".")[2] == last}
        targets.add(last if meant <= adapted else path)
    return sorted(targets)


def load_adapter(model: LanguageModel, folder: str | Path) -> nn.LoRA:
    """Freeze a model and give it the adapter of a folder, ours or PEFT's.

    Raises:
        RunError: a file is missing or damaged; an adapter of another kind, of another base (where
            the file says of which), or that does not fit: its keys are named. The model is as it
            was then.
    """
    folder = Path(folder)
    layout = layout_of(model)
    if any(isinstance(module, nn.LoRALinear) for module in model.modules()):
        raise RunError(f"the model has an adapter already; load {folder} into its base alone")
    config = _checked_config(folder)
    stored = read_safetensors(folder / WEIGHTS)
    wanted, own = metadata_of(folder / WEIGHTS).get(_BASE), base_digest(model)
    if wanted and wanted != own:
        raise RunError(
            f"the adapter {folder} was trained on another base (its weights' digest begins with "
            f"{wanted[:8]}, this model's with {own[:8]}); load the base that it belongs to"
        )
    state = _our_state(stored, layout, layout.tied(model.config), folder)
    targets = sorted({name.rpartition(".")[0] for name in state})
    linear = {path for path, module in model.named_modules() if isinstance(module, nn.Linear)}
    absent = [path for path in targets if path not in linear]
    if absent or not targets:
        raise RunError(
            f"the adapter {folder} does not fit this model: "
            + (f"it adapts {some(absent)}, which it has not" if absent else "it adapts no layer")
        )
    return _put_in(model, config, targets, state, folder)


def _put_in(
    model: nn.Module, config: dict[str, Any], targets: list[str], state: Arrays, folder: Path
) -> nn.LoRA:
    trained = {name: p.requires_grad for name, p in model.named_parameters()}
    adapter = None
    try:
        adapter = nn.add_lora(model, config["r"], config["lora_alpha"], targets)
        adapter.load_state_dict(state)
    except ValueError as error:
        if adapter is not None:
            adapter.remove()
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(trained[name])
        raise RunError(f"the adapter {folder} does not fit this model: {error}") from error
    return adapter


def _checked_config(folder: Path) -> dict[str, Any]:
    where = folder / CONFIG
    config = read_json(where)
    if not isinstance(config, dict):
        raise RunError(f"{where} is not what PEFT writes: it has to hold named settings")
    if config.get("peft_type") != "LORA":
        raise RunError(f"{where} is of an adapter of kind {config.get('peft_type')!r}, not LORA")
    for name, values in _ALLOWED.items():
        if name in config and config[name] not in values:
            raise RunError(f"{where} has {name} = {config[name]!r}, which is not read here")
    for name, kind, what in (("r", int, "whole number"), ("lora_alpha", int | float, "number")):
        value = config.get(name)
        if not isinstance(value, kind) or isinstance(value, bool) or not 0 < value < math.inf:
            raise RunError(f"{where} has {name} = {value!r}; it has to be a {what} above 0")
    return config


def _our_state(
    stored: Arrays, layout: Layout[Any, Any], tied: bool, folder: Path
) -> Arrays:
    """The arrays of a file under our names; keys that are no adapter's of this layout are named."""
    state: Arrays = {}
    unknown: list[str] = []
    for name, array in stored.items():
        there, _, matrix = name.removeprefix(_PREFIX).removesuffix(".weight").rpartition(".")
        embedding = _EMBEDDING.fullmatch(name.removeprefix(_PREFIX))
        if embedding or (tied and there == "lm_head"):
            raise RunError(
                f"the adapter {folder} adapts {embedding[1] if embedding else there}, and "
                + ("embedding and head are one matrix here" if tied else "that is an embedding")
                + "; adapters are read of the layers between them only"
            )
        here = layout.module_here(there)
        if here is None or matrix not in ("lora_A", "lora_B") or not name.startswith(_PREFIX):
            unknown.append(name)
        else:
            state[f"{here}.{matrix}"] = array.astype(np.float32)
    if unknown:
        raise RunError(
            f"{folder} holds {some(sorted(unknown))}, which no {layout.title} has; it belongs to a "
            "model of another architecture"
        )
    return state
