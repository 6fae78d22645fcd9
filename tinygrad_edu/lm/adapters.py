"""LoRA adapters of a GPT as PEFT has them: adapter_config.json and adapter_model.safetensors.

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
from tinygrad_edu.lm.gpt import GPT
from tinygrad_edu.lm.huggingface import _BLOCK, _json, read_safetensors

__all__ = ["base_digest", "load_adapter", "save_adapter"]

_PREFIX = "base_model.model."
_THEIRS = {ours: theirs for theirs, (ours, _) in _BLOCK.items()}
_OURS = {theirs: ours for ours, theirs in _THEIRS.items()}


def base_digest(model: GPT) -> str:
    """A digest of the weights that are not the adapter's; merged ones are taken as they were."""
    digest = hashlib.sha256()
    modules = dict(model.named_modules())
    for name, parameter in sorted(model.named_parameters()):
        path, _, own = name.rpartition(".")
        if own in ("lora_A", "lora_B"):
            continue
        layer = modules.get(path)
        kept = getattr(layer, "_unmerged", None) if own == "weight" else None
        array = parameter.detach().numpy() if kept is None else kept
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def save_adapter(adapter: nn.LoRA, folder: str | Path, base: str = "") -> Path:
    """Write an adapter of a `GPT` in PEFT's layout; the folder.

    Args:
        adapter: as `nn.add_lora` gives it.
        folder: made if need be.
        base: the name or path of the base model, for readers.
    """
    from safetensors.numpy import save

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {}
    modules = set()
    for name, array in adapter.state_dict().items():
        path, _, matrix = name.rpartition(".")
        theirs = _their_path(path)
        modules.add(theirs.rpartition(".")[2])
        arrays[f"{_PREFIX}{theirs}.{matrix}.weight"] = np.ascontiguousarray(array)
    config: dict[str, Any] = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": adapter.rank,
        "lora_alpha": adapter.alpha, "lora_dropout": 0.0, "bias": "none",
        "fan_in_fan_out": True, "target_modules": sorted(modules),
        "base_model_name_or_path": base or None, "inference_mode": True,
    }  # fmt: skip
    about = {"format": "pt", "base_sha256": base_digest(_gpt(adapter))}
    write_atomically(folder / "adapter_model.safetensors", save(arrays, metadata=about))
    write_atomically(folder / "adapter_config.json", json.dumps(config, indent=2) + "\n")
    return folder


def load_adapter(model: GPT, folder: str | Path) -> nn.LoRA:
    """Freeze a model and give it the adapter of a folder, ours or PEFT's.

    Raises:
        RunError: a file is missing or damaged; an adapter of another kind, of another base (where
            the file says of which), or that does not fit.
    """
    folder = Path(folder)
    config = _json(folder / "adapter_config.json")
    if config.get("peft_type") != "LORA":
        raise RunError(f"{folder} holds an adapter of kind {config.get('peft_type')!r}, not LORA")
    for name, plain in (
        ("use_rslora", False), ("use_dora", False), ("bias", "none"), ("rank_pattern", {}),
        ("alpha_pattern", {}), ("modules_to_save", None),
    ):  # fmt: skip
        if config.get(name) not in (plain, None):
            raise RunError(f"{folder} has {name} = {config[name]!r}, which is not read here")
    path = folder / "adapter_model.safetensors"
    stored = read_safetensors(path)
    wanted, own = _metadata(path).get("base_sha256"), base_digest(model)
    if wanted and wanted != own:
        raise RunError(
            f"the adapter {folder} was trained on another base (its weights' digest begins with "
            f"{wanted[:8]}, this model's with {own[:8]}); load the base that it belongs to"
        )
    state = {}
    for name, array in stored.items():
        path_, _, matrix = name.removeprefix(_PREFIX).removesuffix(".weight").rpartition(".")
        state[f"{_our_path(path_, folder)}.{matrix}"] = array.astype(np.float32)
    targets = sorted({name.rpartition(".")[0] for name in state})
    try:
        adapter = nn.add_lora(model, config["r"], config["lora_alpha"], targets)
        adapter.load_state_dict(state)
    except ValueError as error:
        raise RunError(f"the adapter {folder} does not fit this model: {error}") from error
    return adapter


def _gpt(adapter: nn.LoRA) -> GPT:
    if not isinstance(adapter.model, GPT):
        raise TypeError(f"save_adapter() writes adapters of a GPT, got {type(adapter.model)}")
    return adapter.model


def _their_path(path: str) -> str:
    """"blocks.0.attn.qkv" as "transformer.h.0.attn.c_attn"."""
    _, number, rest = path.split(".", 2)
    return f"transformer.h.{number}.{_THEIRS[rest]}"


def _our_path(path: str, folder: Path) -> str:
    parts = path.removeprefix("transformer.").split(".", 2)
    if len(parts) != 3 or parts[0] != "h" or parts[2] not in _OURS:
        raise RunError(f"{folder} adapts {path}, which no GPT-2 has")
    return f"blocks.{parts[1]}.{_OURS[parts[2]]}"


def _metadata(path: Path) -> dict[str, str]:
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        found: dict[str, str] = json.loads(file.read(size)).get("__metadata__", {})
    return found
