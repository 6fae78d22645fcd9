"""GPT-2 in Hugging Face's form (`transformers.GPT2LMHeadModel`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tinygrad_edu.lm.errors import ConfigError
from tinygrad_edu.lm.gpt import GPT, GPTConfig
from tinygrad_edu.lm.layouts import Layout, Row, number_in, refuse_unless, whole_number_in

__all__ = ["GPT2Layout"]

_ACTIVATIONS = {
    "gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu",
}  # fmt: skip
_ALLOWED: dict[str, tuple[Any, ...]] = {
    "scale_attn_weights": (True,), "scale_attn_by_inverse_layer_idx": (False,),
    "add_cross_attention": (False,), "tie_word_embeddings": (True,),
    "quantization_config": (None,), "pruned_heads": ({}, None),
}  # fmt: skip
"""What changes the numbers, and the values that it may have. `reorder_and_upcast_attn` is read as
it is: it says in what precision scores are taken, which is float32 here anyway."""


class GPT2Layout(Layout[GPTConfig, GPT]):
    """The table of GPT-2, whose linear layers (Conv1D) are stored input by output."""

    model_type = "gpt2"
    title = "GPT-2"
    prefix = "transformer."
    rows = (
        Row("wte", "token_embedding"),
        Row("wpe", "position_embedding"),
        Row("ln_f", "final_norm", bias=True),
    )
    block_rows = (
        Row("h.{}.ln_1", "blocks.{}.ln_1", bias=True),
        Row("h.{}.attn.c_attn", "blocks.{}.attn.qkv", turned=True, bias=True),
        Row("h.{}.attn.c_proj", "blocks.{}.attn.out_proj", turned=True, bias=True),
        Row("h.{}.ln_2", "blocks.{}.ln_2", bias=True),
        Row("h.{}.mlp.c_fc", "blocks.{}.mlp.layers.0", turned=True, bias=True),
        Row("h.{}.mlp.c_proj", "blocks.{}.mlp.layers.1", turned=True, bias=True),
    )
    not_weights = r"h\.\d+\.attn\.(bias|masked_bias)"
    fan_in_fan_out = True

    def read_config(self, given: Mapping[str, Any], where: str) -> GPTConfig:
        """Sizes, activation and epsilon; what is absent is as `transformers` has it."""
        refuse_unless(given, _ALLOWED, self.title, where)
        width = whole_number_in(given, "n_embd", where)
        inner = whole_number_in(given, "n_inner", where, 4 * width)
        if inner != 4 * width:
            raise ConfigError(f"{where} has n_inner = {inner}; it has to be 4 × n_embd here")
        activation = given.get("activation_function", "gelu_new")
        if not isinstance(activation, str) or activation not in _ACTIVATIONS:
            raise ConfigError(
                f"{where} has activation_function = {activation!r}; one of "
                f"{', '.join(_ACTIVATIONS)} can be read"
            )
        return GPTConfig(
            vocab_size=whole_number_in(given, "vocab_size", where),
            block_size=whole_number_in(given, "n_positions", where),
            num_layers=whole_number_in(given, "n_layer", where),
            num_heads=whole_number_in(given, "n_head", where), embed_dim=width,
            activation=_ACTIVATIONS[activation],
            eps=number_in(given, "layer_norm_epsilon", where, 1e-5),
        )  # fmt: skip

    def write_config(self, config: GPTConfig) -> dict[str, Any]:
        """As `transformers` writes it; dropout is a matter of training, and is none."""
        names = {ours: theirs for theirs, ours in reversed(_ACTIVATIONS.items())}
        return {
            "architectures": ["GPT2LMHeadModel"], "model_type": self.model_type,
            "vocab_size": config.vocab_size, "n_positions": config.block_size,
            "n_ctx": config.block_size, "n_embd": config.embed_dim, "n_layer": config.num_layers,
            "n_head": config.num_heads, "activation_function": names[config.activation],
            "layer_norm_epsilon": config.eps, "tie_word_embeddings": True, "resid_pdrop": 0.0,
            "embd_pdrop": 0.0, "attn_pdrop": 0.0,
        }  # fmt: skip

    def new_model(self, config: GPTConfig, generator: np.random.Generator) -> GPT:
        """A GPT."""
        return GPT(config, generator)

    def has_biases(self, config: GPTConfig) -> bool:
        """As its config says; a file always has them."""
        return config.bias

    def tied(self, config: GPTConfig) -> bool:
        """Always."""
        return True

    def num_blocks(self, config: GPTConfig) -> int:
        """Its layers."""
        return config.num_layers
