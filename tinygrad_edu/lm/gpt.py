"""A GPT in nanoGPT's shape: the decoder of a transformer, which predicts each next token.

    ids (B, T)
     |  token_embedding + position_embedding, dropout      nanoGPT: wte, wpe, drop
     |  blocks: x + attention(norm(x)), x + mlp(norm(x))   h
     |  final_norm                                         ln_f
     |  times the token embedding, transposed              lm_head (tied to wte)
    logits (B, T, V)

Position t of the logits depends on the ids up to t only (causal attention), so that all T
predictions of a window are trained in one pass. Sources: Radford et al. 2019 (GPT-2, section 2.3:
pre-norm, final norm, scaled residual projections), Press & Wolf 2017 (tied head).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tinygrad_edu as tg
from tinygrad_edu import nn
from tinygrad_edu.lm.errors import ConfigError
from tinygrad_edu.lm.evaluation import evaluating
from tinygrad_edu.lm.sampling import Ids, Predict, Randomness, SamplingOptions, continuations
from tinygrad_edu.nn import functional as F


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
        for name in ("vocab_size", "block_size", "num_layers", "num_heads", "embed_dim"):
            if getattr(self, name) < 1:
                raise ConfigError(
                    f"GPTConfig was given {name}={getattr(self, name)}; it must be 1 or more"
                )
        if self.embed_dim % self.num_heads:
            raise ConfigError(
                f"GPTConfig was given embed_dim={self.embed_dim} and num_heads={self.num_heads}; "
                "the heads share the width evenly, so it must be a multiple of them"
            )
        if not 0 <= self.dropout < 1:
            raise ConfigError(
                f"GPTConfig was given dropout={self.dropout}; it must be 0 or more and less than 1"
            )


class GPT(nn.Module):
    """Token ids in, logits of the next token out.

    Args:
        config: the sizes.
        generator: draws the starting weights and, later, what dropout drops; `self.generator` keeps
            it. The default is `tg.default_generator()`.
    """

    def __init__(self, config: GPTConfig, generator: np.random.Generator | None = None) -> None:
        super().__init__()
        self.config = config
        self.generator = tg.default_generator() if generator is None else generator
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
        self._initialise()

    def _initialise(self) -> None:
        """N(0, 0.02) for every matrix, N(0, 0.02/√(2·layers)) for what writes into the residual.

        Each block adds twice to the residual stream, so its variance would grow with depth; the
        smaller weights keep it about the same at the end. Biases start at 0, norms at 1.
        """
        residual = {id(block.attn.out_proj.weight) for block in self.blocks}
        residual |= {id(block.mlp.layers[-1].weight) for block in self.blocks}
        residual_std = 0.02 / math.sqrt(2 * self.config.num_layers)
        for name, parameter in self.named_parameters():
            if parameter.ndim >= 2:
                std = residual_std if id(parameter) in residual else 0.02
                nn.init.normal_(parameter, std=std, generator=self.generator)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, ids: Any) -> tg.Tensor:
        """Integer ids (B, T) -> logits (B, T, V); at t they predict the id at t+1.

        Raises:
            ShapeError: T is longer than the block, or there is none.
        """
        return F.linear(self._features(ids), self.token_embedding.weight)

    def _features(self, ids: Any) -> tg.Tensor:
        """(B, T) -> (B, T, C): what the head turns into logits."""
        ids = self._beside_weights(ids)
        length = ids.shape[-1]
        if not 1 <= length <= self.config.block_size:
            raise tg.errors.ShapeError(
                f"GPT was given {length} tokens, expected 1 to {self.config.block_size}, its "
                "block_size: pass the last ones only, or make a model with a longer block."
            )
        x = self.dropout(self.position_embedding(self.token_embedding(ids)))
        for block in self.blocks:
            x = block(x)
        features: tg.Tensor = self.final_norm(x)
        return features

    def loss(self, ids: Any, targets: Any) -> tg.Tensor:
        """Ids and targets (B, T) -> the mean over all positions of -ln p(target), in nats."""
        return F.cross_entropy(self(ids), self._beside_weights(targets))

    def _beside_weights(self, ids: Any) -> tg.Tensor:
        """Batches are made with NumPy; the model may live on another device."""
        tensor = ids if isinstance(ids, tg.Tensor) else tg.Tensor(np.asarray(ids))
        device = self.token_embedding.weight.device
        return tensor if tensor.device == device else tensor.to(device)

    def next_logits(self, ids: Ids) -> NDArray[Any]:
        """(B, T) -> (B, V) as a NumPy array: what comes after the last token. Keeps no graph."""
        with evaluating(self):
            features = self._features(ids)[:, -1:]
            logits: NDArray[Any] = F.linear(features, self.token_embedding.weight).numpy()
        return logits[:, 0]

    def predictor(self, cache: bool = True) -> Predict:
        """Ids (B, T) to logits (B, V), as `next_logits`; nothing is kept between calls yet."""
        return self.next_logits

    def stream(
        self,
        ids: Ids,
        max_new_tokens: int,
        temperature: float = 1.0,
        top_k: int | None = None,
        generator: Randomness | None = None,
        options: SamplingOptions | None = None,
    ) -> Iterator[Ids]:
        """As `generate`, but yields the new ids (B,) one by one as they are drawn."""
        return continuations(
            self.next_logits,
            ids,
            max_new_tokens=max_new_tokens,
            block_size=self.config.block_size,
            temperature=temperature,
            top_k=top_k,
            options=options,
            generator=tg.default_generator() if generator is None else generator,
        )

    def generate(
        self,
        ids: Sequence[int] | Ids | tg.Tensor,
        max_new_tokens: int,
        temperature: float = 1.0,
        top_k: int | None = None,
        generator: Randomness | None = None,
        options: SamplingOptions | None = None,
    ) -> Ids:
        """Continue ids (B, T) to (B, T + max_new_tokens), or (T,) to (T + max_new_tokens,).

        Temperature 0 takes the likeliest token; `top_k` draws among the k likeliest (0 or None:
        all); `options` stand in the place of both. There may be a generator a row. A prompt longer
        than the block is seen from its end. Keeps no graph, drops nothing.

        Raises:
            SamplingError: an empty prompt or one that is no integer ids, an option out of range,
                logits that are not finite.
        """
        given = np.asarray(ids.numpy() if isinstance(ids, tg.Tensor) else ids)
        start = np.atleast_2d(given)
        new = list(self.stream(start, max_new_tokens, temperature, top_k, generator, options))
        whole = np.concatenate([start, *(column[:, None] for column in new)], axis=1)
        return whole if given.ndim > 1 else whole[0]

    def num_parameters(self, positions: bool = True) -> int:
        """How many numbers are trained; the tied head counts once, the position table if asked."""
        count = sum(parameter.size for parameter in self.parameters())
        return count if positions else count - self.position_embedding.weight.size

    def extra_repr(self) -> str:
        return f"{self.num_parameters():,} parameters, block_size={self.config.block_size}"
