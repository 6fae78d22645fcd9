"""LoRA adapters of a GPT or Llama as PEFT has them: adapter_config.json and
adapter_model.safetensors.

The adapter alone is written, a few percent of the model; the file says of which base it is (a
digest of the frozen weights), and another base is refused.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from tinygrad_edu import nn
from tinygrad_edu.files import write_atomically
from tinygrad_edu.lm.errors import RunError
from tinygrad_edu.lm.huggingface import layout_of
from tinygrad_edu.lm.language_model import LanguageModel
from tinygrad_edu.lm.safetensors_files import (
    metadata_of,
    read_json,
    read_safetensors,
    some,
    write_safetensors,
)

__all__ = ["base_digest", "load_adapter", "save_adapter"]

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."


def base_digest(model: LanguageModel) -> str:
    """A digest of the weights that are not the adapter's; merged ones are taken as they were."""
    digest = hashlib.sha256()
    modules = dict(model.named_modules())
    for name, parameter in sorted(model.named_parameters()):
        path, _, own = name.rpartition(".")
        if own in ("lora_A", "lora_B"):
            continue
        layer = modules.get(path)
        array = parameter.detach().numpy()
        if own == "weight" and isinstance(layer, nn.LoRALinear):
            array = layer.base_weight
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def save_adapter(adapter: nn.LoRA, folder: str | Path, base: str = "") -> Path:
    """Write an adapter in PEFT's layout; the folder.

    Args:
        adapter: as `nn.add_lora` gives it.
        folder: made if need be.
        base: the name or path of the base model, for readers.

    Raises:
        TypeError: it adapts no language model, or a layer that Hugging Face's form has no name for.
    """
    folder = Path(folder)
    model = _model_of(adapter)
    layout = layout_of(model)
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {}
    modules = set()
    for name, array in adapter.state_dict().items():
        path, _, matrix = name.rpartition(".")
        theirs = layout.module_there(path)
        if theirs is None:
            raise TypeError(f"save_adapter() was given one of {path}, which {layout.title} has not")
        modules.add(theirs.rpartition(".")[2])
        arrays[f"{_PREFIX}{theirs}.{matrix}.weight"] = array
    config: dict[str, Any] = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": adapter.rank,
        "lora_alpha": adapter.alpha, "lora_dropout": 0.0, "bias": "none",
        "fan_in_fan_out": layout.fan_in_fan_out, "target_modules": sorted(modules),
        "base_model_name_or_path": base or None, "inference_mode": True,
    }  # fmt: skip
    about = {"format": "pt", "base_sha256": base_digest(model)}
    write_safetensors(folder / WEIGHTS, arrays, about)
    write_atomically(folder / CONFIG, json.dumps(config, indent=2) + "\n")
    return folder


def load_adapter(model: LanguageModel, folder: str | Path) -> nn.LoRA:
    """Freeze a model and give it the adapter of a folder, ours or PEFT's.

    Raises:
        RunError: a file is missing or damaged; an adapter of another kind, of another base (where
            the file says of which), or that does not fit.
    """
    folder = Path(folder)
    layout = layout_of(model)
    config = read_json(folder / CONFIG)
    if not isinstance(config, dict) or config.get("peft_type") is None:
        raise RunError(f"{folder / CONFIG} describes no adapter; give a folder that PEFT wrote")
    if config.get("peft_type") != "LORA":
        raise RunError(f"{folder} holds an adapter of kind {config.get('peft_type')!r}, not LORA")
    for name, plain in (
        ("use_rslora", False), ("use_dora", False), ("bias", "none"), ("rank_pattern", {}),
        ("alpha_pattern", {}), ("modules_to_save", None),
    ):  # fmt: skip
        if config.get(name) not in (plain, None):
            raise RunError(f"{folder} has {name} = {config[name]!r}, which is not read here")
    path = folder / WEIGHTS
    stored = read_safetensors(path)
    wanted, own = metadata_of(path).get("base_sha256"), base_digest(model)
    if wanted and wanted != own:
        raise RunError(
            f"the adapter {folder} was trained on another base (its weights' digest begins with "
            f"{wanted[:8]}, this model's with {own[:8]}); load the base that it belongs to"
        )
    state = {}
    unknown = []
    for name, array in stored.items():
        there, _, matrix = name.removeprefix(_PREFIX).removesuffix(".weight").rpartition(".")
        here = layout.module_here(there)
        if here is None:
            unknown.append(there)
        state[f"{here}.{matrix}"] = array.astype(np.float32)
    if unknown:
        raise RunError(
            f"{folder} adapts {some(sorted(set(unknown)))}, which no {layout.title} has; it "
            "belongs to a model of another architecture"
        )
    targets = sorted({name.rpartition(".")[0] for name in state})
    try:
        adapter = nn.add_lora(model, config["r"], config["lora_alpha"], targets)
        adapter.load_state_dict(state)
    except ValueError as error:
        raise RunError(f"the adapter {folder} does not fit this model: {error}") from error
    return adapter


def _model_of(adapter: nn.LoRA) -> LanguageModel:
    if not isinstance(adapter.model, LanguageModel):
        raise TypeError(
            f"save_adapter() writes adapters of a GPT or a Llama, got {type(adapter.model)}"
        )
    return adapter.model
