"""Models in Hugging Face's folders: `config.json` beside safetensors, read and written.

Which weight is which is said by the tables of `lm.layouts`. Weights are read from one file or from
shards, in float64, float32, float16 or bfloat16, and held as float32.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_edu import nn, text
from tinygrad_edu.files import write_atomically
from tinygrad_edu.lm.cost import parameter_count
from tinygrad_edu.lm.errors import ConfigError, RunError
from tinygrad_edu.lm.gpt import GPT
from tinygrad_edu.lm.gpt2_layout import GPT2Layout
from tinygrad_edu.lm.language_model import LanguageModel
from tinygrad_edu.lm.layouts import Layout, Weight
from tinygrad_edu.lm.llama import Llama
from tinygrad_edu.lm.llama_layout import LlamaLayout
from tinygrad_edu.lm.safetensors_files import (
    MODEL,
    Arrays,
    read_json,
    read_weights,
    some,
    write_safetensors,
)

__all__ = ["DTYPES", "LAYOUTS", "layout_of", "load_huggingface", "save_huggingface"]

CONFIG, TOKENIZER, TOKENIZER_CONFIG = "config.json", "tokenizer.json", "tokenizer_config.json"
DTYPES = ("float32", "float16", "bfloat16")
"""The types that weights can be written in."""
LAYOUTS: dict[type[nn.Module], Layout[Any, Any]] = {GPT: GPT2Layout(), Llama: LlamaLayout()}
"""The layout of each architecture here."""
_ENDS = "<|endoftext|>"
_SMALL, _MOST_BLOCKS = 10_000_000, 1000
"""Numbers that a model may have in any case, so that all that is wrong with its weights is said."""


def layout_of(model: nn.Module) -> Layout[Any, Any]:
    """The layout in which a model is written.

    Raises:
        TypeError: it has none.
    """
    try:
        return LAYOUTS[type(model)]
    except KeyError:
        known = ", ".join(kind.__name__ for kind in LAYOUTS)
        raise TypeError(
            f"a {type(model).__name__} has no layout of Hugging Face's; those that have: {known}"
        ) from None


def load_huggingface(folder: str | Path) -> LanguageModel:
    """The model of a folder that `transformers` or `save_huggingface` wrote, in float32, ready to
    write (`model.eval()`).

    Raises:
        RunError: a file is missing or damaged; weights are missing, left over, of other shapes or
            stored the other way round. They are named.
        ConfigError: a model of another architecture, or with a setting that is not had here.
    """
    folder = Path(folder)
    where = folder / CONFIG
    given = read_json(where)
    layout = _layout_named(given, where)
    config = layout.read_config(given, str(where))
    stored = read_weights(folder)
    _check_size(layout, config, stored, folder)  # before that much memory is asked for
    model: LanguageModel = layout.new_model(config, np.random.default_rng(0))
    wanted = {name: p.shape for name, p in model.named_parameters()}
    model.load_state_dict(_taken(layout, config, wanted, stored, folder))
    model.eval()
    return model


def _check_size(layout: Layout[Any, Any], config: Any, stored: Arrays, folder: Path) -> None:
    """Refuse a config.json of a far larger model than the weights are of."""
    blocks, held = layout.num_blocks(config), sum(array.size for array in stored.values())
    asked = parameter_count(config) if blocks <= _MOST_BLOCKS else math.inf
    if asked > 2 * held + _SMALL:
        raise RunError(
            f"{folder / CONFIG} describes a model of {blocks:,} layers, {config.embed_dim:,} wide, "
            f"and the weights beside it are {held:,} numbers in all, which is far from enough; "
            "they do not belong together, or weights are missing"
        )


def _layout_named(given: Any, where: Path) -> Layout[Any, Any]:
    kind = given.get("model_type") if isinstance(given, dict) else None
    by_name = {layout.model_type: layout for layout in LAYOUTS.values()}
    if not isinstance(kind, str) or kind not in by_name:
        raise ConfigError(
            f"{where} has model_type = {kind!r}; models of {' and '.join(by_name)} are read"
        )
    return by_name[kind]


def _taken(
    layout: Layout[Any, Any], config: Any, wanted: dict[str, tuple[int, ...]], stored: Arrays,
    folder: Path,
) -> Arrays:  # fmt: skip
    """The arrays of a file under our names, as float32; all that is wrong with them is said."""
    weights = list(layout.weights(config))
    found: dict[Weight, NDArray[Any]] = {}
    stored = {name: array for name, array in stored.items() if layout.is_weight(name)}
    for weight in weights:
        for name in (weight.theirs, weight.theirs.removeprefix(layout.prefix)):
            if name in stored:
                found[weight] = stored.pop(name)
                break
    head = stored.pop("lm_head.weight", None) if layout.tied(config) else None
    _check_names([w.theirs for w in weights if w not in found], sorted(stored), layout, folder)
    _check_types(found, folder)
    shapes = {w: w.shape_there(wanted[w.ours]) for w in weights}
    _check_turned(found, shapes, layout, folder)
    _check_shapes(found, shapes, folder)
    taken = {w.ours: _ours(array, w.turned) for w, array in found.items()}
    if head is not None and not np.array_equal(head, taken["token_embedding.weight"]):
        raise ConfigError(
            f"{folder} has a head of its own (lm_head.weight differs from the token embedding), "
            "and its config.json says that they are one (tie_word_embeddings)"
        )
    return taken


def _ours(array: NDArray[Any], turned: bool) -> NDArray[Any]:
    return np.ascontiguousarray(array.T if turned else array, np.float32)


def _check_names(
    missing: Sequence[str], extra: Sequence[str], layout: Layout[Any, Any], folder: Path
) -> None:
    said = []
    if missing:
        said.append(f"lacks {some(missing)}")
    if extra:
        said.append(f"holds weights that {layout.title} has not: {some(extra)}")
    if said:
        raise RunError(
            f"{folder} {' and '.join(said)}; its weights are not those that its config.json "
            "describes"
        )


def _check_types(found: dict[Weight, NDArray[Any]], folder: Path) -> None:
    kinds = {w.theirs: str(a.dtype) for w, a in found.items()}
    odd = [name for name, kind in kinds.items() if "float" not in kind]
    if odd:
        raise RunError(
            f"{some(odd)} in {folder} is of {kinds[odd[0]]}; weights are read as floats only, and "
            "quantized ones need the scales that belong to them"
        )


def _check_turned(
    found: dict[Weight, NDArray[Any]], shapes: dict[Weight, tuple[int, ...]],
    layout: Layout[Any, Any], folder: Path,
) -> None:  # fmt: skip
    """Refuse a file in which all matrices of the blocks are stored the other way round; the shapes
    of those that are not square show it, for the square ones too.
    """
    told = [
        w for w, shape in shapes.items()
        if len(shape) == 2 and shape[0] != shape[1] and w.ours.startswith("blocks.")
    ]  # fmt: skip
    if told and all(found[w].shape == shapes[w][::-1] for w in told):
        order = "input by output" if layout.fan_in_fan_out else "output by input"
        raise RunError(
            f"the matrices of {folder} are stored the other way round: {told[0].theirs} is "
            f"{found[told[0]].shape}, and {layout.title} stores {shapes[told[0]]}, {order}; "
            "transpose each matrix of its blocks, the square ones too"
        )


def _check_shapes(
    found: dict[Weight, NDArray[Any]], shapes: dict[Weight, tuple[int, ...]], folder: Path
) -> None:
    wrong = [w for w, shape in shapes.items() if found[w].shape != shape]
    if wrong:
        said = [
            f"{w.theirs} is {found[w].shape} where {shapes[w]} is asked for"
            + (" (it is transposed)" if found[w].shape == shapes[w][::-1] != shapes[w] else "")
            for w in wrong
        ]
        raise RunError(
            f"weights in {folder} have other shapes than its config.json asks for: {some(said)}"
        )


def save_huggingface(
    model: LanguageModel, folder: str | Path, tokenizer: Any = None, dtype: str = "float32"
) -> Path:
    """Write `config.json`, `model.safetensors` and, with a tokenizer, `tokenizer.json` and
    `tokenizer_config.json`, which `transformers.AutoModelForCausalLM.from_pretrained` and
    `AutoTokenizer.from_pretrained` read; the folder.

    Beside the weights the file keeps a digest of each, by which `load_huggingface` finds one that
    was changed, or transposed where it is square.

    Args:
        model: any of ours; biases that a GPT does not have are written as 0. Adapters have to be
            merged.
        folder: made if need be.
        tokenizer: the model's, byte-level BPE or of characters; another is left out.
        dtype: one of `DTYPES`.

    Raises:
        RunError: an adapter that is not merged; a weight that the type cannot hold; a type that is
            none of these. Nothing is written then.
    """
    folder = Path(folder)
    layout = layout_of(model)
    config: Any = model.config
    arrays = _theirs(model, layout, config, dtype)
    about = {**layout.write_config(config), "torch_dtype": dtype, **_ends(tokenizer)}
    folder.mkdir(parents=True, exist_ok=True)
    write_safetensors(folder / MODEL, arrays, {"format": "pt"}, digests=True)
    write_atomically(folder / CONFIG, json.dumps(about, indent=2) + "\n")
    _save_tokenizer(tokenizer, folder, config.block_size)
    return folder


def _save_tokenizer(tokenizer: Any, folder: Path, block_size: int) -> None:
    if isinstance(tokenizer, text.BPETokenizer):
        tokenizer.save(folder / TOKENIZER)
    elif isinstance(tokenizer, text.CharTokenizer):
        text.save_word_level(tokenizer, folder / TOKENIZER)
    else:
        return
    form = {
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": block_size,
        "clean_up_tokenization_spaces": False,
    }  # fmt: skip
    write_atomically(folder / TOKENIZER_CONFIG, json.dumps(form, indent=2) + "\n")


def _ends(tokenizer: Any) -> dict[str, int | None]:
    """The token at which their `generate` begins and stops, where the tokenizer has one."""
    number = getattr(tokenizer, "special_tokens", {}).get(_ENDS)
    return {"bos_token_id": number, "eos_token_id": number}


def _theirs(model: nn.Module, layout: Layout[Any, Any], config: Any, dtype: str) -> Arrays:
    """All weights of a model under their names."""
    for path, module in model.named_modules():
        if isinstance(module, nn.LoRALinear) and not module.merged:
            raise RunError(
                f"{path} has an adapter that is not merged, which the layout of {layout.title} has "
                "no place for: merge() it first, or write it apart with save_adapter()"
            )
    ours = {name: p.detach().numpy() for name, p in model.named_parameters()}
    arrays: Arrays = {}
    for weight in layout.weights(config, all_biases=True):
        found = ours.get(weight.ours)
        if found is None:  # a bias that this model does not have: as long as its matrix is high
            rows = ours[weight.ours.removesuffix("bias") + "weight"].shape[0]
            found = np.zeros(rows, np.float32)
        arrays[weight.theirs] = _narrowed(found.T if weight.turned else found, weight, dtype)
    return arrays


def _narrowed(array: NDArray[Any], weight: Weight, dtype: str) -> NDArray[Any]:
    if dtype not in DTYPES:
        raise RunError(f"weights cannot be written as {dtype!r}; give {', '.join(DTYPES)}")
    if dtype == "float32":
        return array.astype(np.float32)
    if dtype == "bfloat16":
        import ml_dtypes

        return array.astype(ml_dtypes.bfloat16)
    with np.errstate(over="ignore"):
        small = array.astype(np.float16)
    if not np.array_equal(np.isfinite(small), np.isfinite(array)):
        largest = np.abs(array[np.isfinite(array)]).max()
        raise RunError(
            f"{weight.theirs} holds {largest:.4g}, and float16 ends at 65504; write bfloat16, "
            "which reaches as far as float32"
        )
    return small
