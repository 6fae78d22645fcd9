"""The trained weights that the PyPI package `glassllm` carries, as a `Llama`.

Two models of 852,608 parameters, Portuguese and English, in .npz files of float16: matrices input
by output, queries and keys with their rotated numbers side by side (0 with 1, 2 with 3, …), where
Hugging Face's layout and this package turn the first half with the second. So the rows of these
matrices are put in another order, which changes no score.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_edu.lm.errors import RunError
from tinygrad_edu.lm.llama import Llama, LlamaConfig
from tinygrad_edu.lm.safetensors_files import some
from tinygrad_edu.nn import StateDictError

LANGUAGES = ("pt", "en")
_BLOCK = {
    "norm1.gamma": "norm_1.weight", "norm2.gamma": "norm_2.weight",
    "attn.W_Q": "attn.q_proj.weight", "attn.W_K": "attn.k_proj.weight",
    "attn.W_V": "attn.v_proj.weight", "attn.W_O": "attn.out_proj.weight",
    "ffn.W1": "mlp.gate.weight", "ffn.W3": "mlp.up.weight", "ffn.W2": "mlp.down.weight",
}  # fmt: skip


def load_glassllm(which: str | Path) -> Llama:
    """The model of a language, "pt" or "en", of the installed package, or of an .npz file of its
    form, ready to write. (`lm.load_trained("glassllm-pt")` has the package's tokenizer beside it.)

    Raises:
        RunError: the package is not installed; a file that is missing or damaged, or whose weights
            are not those that its config describes. They are named.
    """
    path = weights_folder() / f"{which}.npz" if str(which) in LANGUAGES else Path(which)
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        about = json.loads(str(arrays.pop("__config__")))
        sizes = {
            "vocab_size": about["vocab_size"], "block_size": about["max_len"],
            "num_layers": about["n_layers"], "num_heads": about["n_heads"],
            "num_kv_heads": about["n_kv_heads"], "embed_dim": about["d_model"],
            "hidden_dim": arrays["blocks.0.ffn.W1"].shape[1], "rope_theta": about["rope_base"],
            "eps": about["eps"],
        }  # fmt: skip
        config = LlamaConfig(**sizes)
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise RunError(
            f"{path} is no weight file of glassllm ({error}); give one, or a language: "
            f"{', '.join(LANGUAGES)}"
        ) from error
    model = Llama(config, np.random.default_rng(0))
    try:
        model.load_state_dict(_ours(arrays, config, path))
    except StateDictError as error:
        raise RunError(f"{path} does not fit its own config: {error}") from error
    model.eval()
    return model


def weights_folder() -> Path:
    """Where the installed package keeps its weights.

    Raises:
        RunError: it is not installed.
    """
    spec = importlib.util.find_spec("glassllm")
    if spec is None or spec.origin is None:
        raise RunError(
            "the package glassllm, which carries these weights, is not installed; pip install "
            "glassllm"
        )
    return Path(spec.origin).parent / "weights"


def _ours(arrays: dict[str, NDArray[Any]], config: LlamaConfig, path: Path) -> dict[str, Any]:
    names = {"E": "token_embedding.weight", "norm_f.gamma": "final_norm.weight"}
    for i in range(config.num_layers):
        names |= {f"blocks.{i}.{t}": f"blocks.{i}.{o}" for t, o in _BLOCK.items()}
    missing, extra = sorted(names.keys() - arrays.keys()), sorted(arrays.keys() - names.keys())
    if missing or extra:
        said = [f"lacks {some(missing)}"] if missing else []
        said += [f"holds {some(extra)} beside"] if extra else []
        raise RunError(f"{path} {' and '.join(said)}; it is of another model than its config says")
    width = config.embed_dim // config.num_heads
    found = {}
    for theirs, ours in names.items():
        array = arrays[theirs].astype(np.float32)
        if array.ndim == 2 and theirs != "E":
            array = array.T
        if theirs.endswith(("W_Q", "W_K")):
            array = in_halves(array, width)
        found[ours] = np.ascontiguousarray(array)
    return found


def in_halves(matrix: NDArray[Any], width: int) -> NDArray[Any]:
    """Rows (heads·width, C) in pairs side by side -> the first of all pairs, then the second, a
    head at a time.
    """
    heads = matrix.reshape(-1, width // 2, 2, matrix.shape[-1])
    return heads.transpose(0, 2, 1, 3).reshape(matrix.shape)
