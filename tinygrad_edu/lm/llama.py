"""A Llama: the GPT's successor, with the parts that most open models are made of now.

    token_embedding, dropout          Hugging Face: embed_tokens
    blocks: RMSNorm, grouped-query attention with rotary positions, SwiGLU
    final_norm                        norm
    head, or the token embedding      lm_head

No matrix has a bias. Sources: Touvron et al. 2023 (Llama 2, section 2.2), Zhang & Sennrich 2019
(RMSNorm), Su et al. 2021 (rotary positions), Ainslie et al. 2023 (grouped queries), Shazeer 2020
(SwiGLU). What it shares with other architectures is in `language_model.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tinygrad_edu import nn
from tinygrad_edu.lm.errors import ConfigError
from tinygrad_edu.lm.language_model import LanguageModel, check_sizes


@dataclass(frozen=True)
class LlamaConfig:
    """The sizes of a Llama. A 0 stands for a default, which is filled in.

    Attributes:
        vocab_size: V, the number of different tokens.
        block_size: the longest context, in tokens.
        num_layers: transformer blocks.
        num_heads: heads of queries a block; they share `embed_dim` evenly, an even number each.
        num_kv_heads: heads of keys and values, each shared by num_heads/num_kv_heads of queries; 0
            for as many as `num_heads`.
        embed_dim: C, the numbers that stand for one token.
        hidden_dim: width of the MLPs; 0 for 8/3 of `embed_dim` as a multiple of 8 (rounded up),
            with which three matrices have about as many weights as a GPT's two.
        tied_head: whether the head is the token embedding, transposed.
        rope_theta: the base of the rotation's frequencies.
        eps: the norms' epsilon.
        dropout: chance that an activation is zeroed while training.

    Raises:
        ConfigError: sizes that no Llama can have.
    """

    vocab_size: int
    block_size: int = 64
    num_layers: int = 4
    num_heads: int = 4
    num_kv_heads: int = 0
    embed_dim: int = 128
    hidden_dim: int = 0
    tied_head: bool = True
    rope_theta: float = 10000.0
    eps: float = 1e-5
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if self.num_kv_heads == 0:
            object.__setattr__(self, "num_kv_heads", self.num_heads)
        if self.hidden_dim == 0:
            object.__setattr__(self, "hidden_dim", default_hidden_dim(self.embed_dim))
        check_sizes(self, "num_kv_heads", "hidden_dim")
        if self.num_heads % self.num_kv_heads:
            raise ConfigError(
                f"LlamaConfig was given num_heads={self.num_heads} and num_kv_heads="
                f"{self.num_kv_heads}; each of these serves as many of those, so num_heads must be "
                "a multiple"
            )
        if self.embed_dim // self.num_heads % 2:
            raise ConfigError(
                f"LlamaConfig was given embed_dim={self.embed_dim} and num_heads={self.num_heads}, "
                f"heads of width {self.embed_dim // self.num_heads}; rotary positions turn numbers "
                "in pairs, so it must be even"
            )
        if self.rope_theta <= 0:
            raise ConfigError(
                f"LlamaConfig was given rope_theta={self.rope_theta}; it must be above 0"
            )


def default_hidden_dim(embed_dim: int) -> int:
    """8/3 of `embed_dim`, rounded up to a multiple of 8."""
    return -(-embed_dim // 3) * 8


class Llama(LanguageModel):
    """Token ids in, logits of the next token out.

    Args:
        config: the sizes.
        generator: draws the starting weights and, later, what dropout drops; `self.generator` keeps
            it. The default is `tg.default_generator()`.
    """

    config: LlamaConfig

    def __init__(self, config: LlamaConfig, generator: np.random.Generator | None = None) -> None:
        super().__init__(config, generator)
        source = self.generator
        width = config.embed_dim
        self.token_embedding = nn.Embedding(config.vocab_size, width, generator=source)
        self.dropout = nn.Dropout(config.dropout, generator=source)
        self.blocks = nn.ModuleList(
            nn.LlamaBlock(
                width,
                config.num_heads,
                config.num_kv_heads,
                config.hidden_dim,
                config.dropout,
                theta=config.rope_theta,
                eps=config.eps,
                generator=source,
            )
            for _ in range(config.num_layers)
        )
        self.final_norm = nn.RMSNorm(width, eps=config.eps)
        if not config.tied_head:
            self.head = nn.Linear(width, config.vocab_size, bias=False, generator=source)
        self.initialise(
            last.weight for block in self.blocks for last in (block.attn.out_proj, block.mlp.down)
        )
