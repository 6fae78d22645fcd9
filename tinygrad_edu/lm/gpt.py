"""A GPT in nanoGPT's shape: the decoder of a transformer, which predicts each next token.

    token_embedding + position_embedding, dropout         nanoGPT: wte, wpe, drop
    blocks: LayerNorm, multi-head attention, GELU MLP     h
    final_norm                                            ln_f
    the token embedding, transposed                       lm_head (tied to wte)

Positions are trained vectors. What it shares with other architectures is in `language_model.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import tinygrad_edu as tg
from tinygrad_edu import nn
from tinygrad_edu.lm.language_model import LanguageModel, check_sizes


@dataclass(frozen=True)
class GPTConfig:
    """The sizes of a GPT.

    Attributes:
        vocab_size: V, the number of different tokens.
        block_size: the longest context, in tokens.
        num_layers: transformer blocks.
        num_heads: attention heads a block; they share `embed_dim` evenly.
        embed_dim: C, the numbers that stand for one token.
        dropout: chance that an activation is zeroed while training.
        bias: whether linear layers and norms have a bias.
        activation: of the MLPs: "gelu", "gelu_tanh" (GPT-2's), "relu".
        eps: the norms' epsilon.

    Raises:
        ConfigError: sizes that no GPT can have.
    """

    vocab_size: int
    block_size: int = 64
    num_layers: int = 4
    num_heads: int = 4
    embed_dim: int = 128
    dropout: float = 0.0
    bias: bool = True
    activation: str = "gelu"
    eps: float = 1e-5

    def __post_init__(self) -> None:
        check_sizes(self)


class GPT(LanguageModel):
    """Token ids in, logits of the next token out.

    Args:
        config: the sizes.
        generator: draws the starting weights and, later, what dropout drops; `self.generator` keeps
            it. The default is `tg.default_generator()`.
    """

    config: GPTConfig

    def __init__(self, config: GPTConfig, generator: np.random.Generator | None = None) -> None:
        super().__init__(config, generator)
        source = self.generator
        width = config.embed_dim
        self.token_embedding = nn.Embedding(config.vocab_size, width, generator=source)
        self.position_embedding = nn.LearnedPositions(config.block_size, width, generator=source)
        self.dropout = nn.Dropout(config.dropout, generator=source)
        self.blocks = nn.ModuleList(
            nn.TransformerBlock(
                width,
                config.num_heads,
                dropout=config.dropout,
                bias=config.bias,
                causal=True,
                activation=config.activation,
                eps=config.eps,
                generator=source,
            )
            for _ in range(config.num_layers)
        )
        self.final_norm = nn.LayerNorm(width, eps=config.eps, bias=config.bias)
        self.initialise(
            last.weight
            for block in self.blocks
            for last in (block.attn.out_proj, block.mlp.layers[-1])
        )

    def embed(self, ids: tg.Tensor, start: int) -> tg.Tensor:
        """(B, T) -> (B, T, C): token and position, added."""
        embedded: tg.Tensor = self.position_embedding(self.token_embedding(ids), start)
        return embedded

    def num_parameters(self, positions: bool = True) -> int:
        """How many numbers are trained; the tied head counts once, the position table if asked."""
        count = super().num_parameters()
        return count if positions else count - self.position_embedding.weight.size
