"""Llama in Hugging Face's form (`transformers.LlamaForCausalLM`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tinygrad_edu.lm.errors import ConfigError
from tinygrad_edu.lm.layouts import Layout, Row, number_in, refuse_unless, whole_number_in
from tinygrad_edu.lm.llama import Llama, LlamaConfig

__all__ = ["LlamaLayout"]

_ALLOWED: dict[str, tuple[Any, ...]] = {
    "hidden_act": ("silu", "swish"), "attention_bias": (False, None), "mlp_bias": (False, None),
    "pretraining_tp": (1, None), "quantization_config": (None,), "partial_rotary_factor": (1, None),
}  # fmt: skip
"""What changes the numbers, and the values that it may have."""


class LlamaLayout(Layout[LlamaConfig, Llama]):
    """The table of Llama, whose linear layers are stored output by input, as here."""

    model_type = "llama"
    title = "Llama"
    prefix = "model."
    rows = (Row("embed_tokens", "token_embedding"), Row("norm", "final_norm"))
    block_rows = (
        Row("layers.{}.input_layernorm", "blocks.{}.norm_1"),
        Row("layers.{}.self_attn.q_proj", "blocks.{}.attn.q_proj"),
        Row("layers.{}.self_attn.k_proj", "blocks.{}.attn.k_proj"),
        Row("layers.{}.self_attn.v_proj", "blocks.{}.attn.v_proj"),
        Row("layers.{}.self_attn.o_proj", "blocks.{}.attn.out_proj"),
        Row("layers.{}.post_attention_layernorm", "blocks.{}.norm_2"),
        Row("layers.{}.mlp.gate_proj", "blocks.{}.mlp.gate"),
        Row("layers.{}.mlp.up_proj", "blocks.{}.mlp.up"),
        Row("layers.{}.mlp.down_proj", "blocks.{}.mlp.down"),
    )
    not_weights = r"(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq"
    fan_in_fan_out = False

    def read_config(self, given: Mapping[str, Any], where: str) -> LlamaConfig:
        """Sizes, the rotation's base and epsilon; what is absent is as `transformers` has it."""
        refuse_unless(given, _ALLOWED, self.title, where)
        width = whole_number_in(given, "hidden_size", where)
        heads = whole_number_in(given, "num_attention_heads", where)
        head_dim = given.get("head_dim")
        if head_dim is not None and head_dim * heads != width:
            raise ConfigError(
                f"{where} has head_dim = {head_dim!r} with hidden_size {width} and "
                f"num_attention_heads {heads}; heads of another width than {width}/{heads} are not "
                "had here"
            )
        tied = given.get("tie_word_embeddings", False)
        if not isinstance(tied, bool):
            raise ConfigError(f"{where} has tie_word_embeddings = {tied!r}; it has to be a boolean")
        return LlamaConfig(
            vocab_size=whole_number_in(given, "vocab_size", where),
            block_size=whole_number_in(given, "max_position_embeddings", where, 2048),
            num_layers=whole_number_in(given, "num_hidden_layers", where),
            num_heads=heads,
            num_kv_heads=whole_number_in(given, "num_key_value_heads", where, heads),
            embed_dim=width,
            hidden_dim=whole_number_in(given, "intermediate_size", where),
            tied_head=tied,
            rope_theta=_theta(given, where),
            eps=number_in(given, "rms_norm_eps", where, 1e-6),
        )

    def write_config(self, config: LlamaConfig) -> dict[str, Any]:
        """As `transformers` writes it; the base of the rotation as older releases read it, too."""
        return {
            "architectures": ["LlamaForCausalLM"], "model_type": self.model_type,
            "vocab_size": config.vocab_size, "max_position_embeddings": config.block_size,
            "num_hidden_layers": config.num_layers, "num_attention_heads": config.num_heads,
            "num_key_value_heads": config.num_kv_heads, "hidden_size": config.embed_dim,
            "intermediate_size": config.hidden_dim, "hidden_act": "silu",
            "head_dim": config.embed_dim // config.num_heads, "rms_norm_eps": config.eps,
            "rope_theta": config.rope_theta,
            "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_theta},
            "tie_word_embeddings": config.tied_head, "attention_bias": False, "mlp_bias": False,
            "attention_dropout": 0.0,
        }  # fmt: skip

    def new_model(self, config: LlamaConfig, generator: np.random.Generator) -> Llama:
        """A Llama."""
        return Llama(config, generator)

    def has_biases(self, config: LlamaConfig) -> bool:
        """Never."""
        return False

    def tied(self, config: LlamaConfig) -> bool:
        """As its config says."""
        return config.tied_head

    def num_blocks(self, config: LlamaConfig) -> int:
        """Its layers."""
        return config.num_layers


def _theta(given: Mapping[str, Any], where: str) -> float:
    """The base of the rotation: in `rope_parameters` since release 5, at the top before it; with
    frequencies that are scaled, as Llama 3.1 has them, a model computes what is not had here.
    """
    found = number_in(given, "rope_theta", where, 10000.0)
    for name in ("rope_scaling", "rope_parameters"):
        about = given.get(name)
        if about is None:
            continue
        kind = None
        if isinstance(about, dict):
            kind = about.get("rope_type", about.get("type", "default"))
        if kind != "default":
            raise ConfigError(
                f"{where} has {name} = {about!r}; only plain rotary positions (rope_type "
                "'default') are had here"
            )
        refuse_unless(about, {"partial_rotary_factor": (1, None)}, "Llama", f"{name} of {where}")
        found = number_in(about, "rope_theta", where, found)
    return found
