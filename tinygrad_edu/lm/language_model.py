"""What every language model here is and can do, whatever its blocks are made of.

    ids (B, T)
     |  embed: a row for each token, and its position where that is added; dropout
     |  blocks: x + attention(norm(x)), x + mlp(norm(x))
     |  final_norm
     |  times the token embedding, transposed (a tied head), or a matrix of its own
    logits (B, T, V)

Position t of the logits depends on the ids up to t only (causal attention), so that all T
predictions of a window are trained in one pass. Sources: Radford et al. 2019 (GPT-2, section 2.3:
pre-norm, final norm, scaled residual projections), Press & Wolf 2017 (tied head).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import tinygrad_edu as tg
from tinygrad_edu import nn
from tinygrad_edu.lm.decoding import CachedPredictor
from tinygrad_edu.lm.errors import ConfigError
from tinygrad_edu.lm.evaluation import evaluating
from tinygrad_edu.lm.sampling import Ids, Predict, Randomness, SamplingOptions, continuations
from tinygrad_edu.nn import functional as F


class ModelConfig(Protocol):
    """The sizes that every language model has; each architecture has its own dataclass."""

    @property
    def vocab_size(self) -> int: ...
    @property
    def block_size(self) -> int: ...
    @property
    def num_layers(self) -> int: ...
    @property
    def num_heads(self) -> int: ...
    @property
    def embed_dim(self) -> int: ...
    @property
    def dropout(self) -> float: ...


def check_sizes(config: ModelConfig, *more: str) -> None:
    """Raise `ConfigError` for sizes that no model can have; `more` names others than the common."""
    owner = type(config).__name__
    for name in ("vocab_size", "block_size", "num_layers", "num_heads", "embed_dim", *more):
        if getattr(config, name) < 1:
            raise ConfigError(
                f"{owner} was given {name}={getattr(config, name)}; it must be 1 or more"
            )
    if config.embed_dim % config.num_heads:
        raise ConfigError(
            f"{owner} was given embed_dim={config.embed_dim} and num_heads={config.num_heads}; "
            "the heads share the width evenly, so it must be a multiple of them"
        )
    if not 0 <= config.dropout < 1:
        raise ConfigError(
            f"{owner} was given dropout={config.dropout}; it must be 0 or more and less than 1"
        )


class LanguageModel(nn.Module):
    """Token ids in, logits of the next token out.

    A subclass makes `token_embedding`, `dropout`, `blocks`, `final_norm` and, where the head is not
    the token embedding, `head`; then it calls `initialise`.

    Attributes:
        config: the sizes.
        generator: draws the starting weights and, later, what dropout drops. The default is
            `tg.default_generator()`.
    """

    token_embedding: nn.Embedding
    dropout: nn.Dropout
    blocks: nn.ModuleList
    final_norm: nn.Module
    head: nn.Module | None = None

    def __init__(self, config: ModelConfig, generator: np.random.Generator | None = None) -> None:
        super().__init__()
        self.config = config
        self.generator = tg.default_generator() if generator is None else generator

    def initialise(self, residual: Iterable[nn.Parameter]) -> None:
        """N(0, 0.02) for every matrix, N(0, 0.02/√(2·layers)) for what writes into the residual.

        Each block adds twice to the residual stream, so its variance would grow with depth; the
        smaller weights keep it about the same at the end. Biases start at 0, norms at 1.
        """
        writers = {id(parameter) for parameter in residual}
        residual_std = 0.02 / math.sqrt(2 * self.config.num_layers)
        for name, parameter in self.named_parameters():
            if parameter.ndim >= 2:
                std = residual_std if id(parameter) in writers else 0.02
                nn.init.normal_(parameter, std=std, generator=self.generator)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, ids: Any) -> tg.Tensor:
        """Integer ids (B, T) -> logits (B, T, V); at t they predict the id at t+1.

        Raises:
            ShapeError: T is longer than the block, or there is none.
        """
        return self.logits(self.features(ids))

    def embed(self, ids: tg.Tensor, start: int) -> tg.Tensor:
        """(B, T) -> (B, T, C): what the first block reads; the first id stands at `start`."""
        return self.token_embedding(ids)  # type: ignore[no-any-return]

    def features(self, ids: Any, caches: Sequence[nn.KeyValueCache] | None = None) -> tg.Tensor:
        """(B, T) -> (B, T, C): what the head turns into logits.

        With `caches`, one a block, the ids follow the tokens that are kept in them.

        Raises:
            ShapeError: as `forward`, of all tokens together.
        """
        ids = self._beside_weights(ids)
        start = caches[0].length if caches else 0
        length = start + ids.shape[-1]
        if not start < length <= self.config.block_size:
            raise tg.errors.ShapeError(
                f"{type(self).__name__} was given {length} tokens, expected 1 to "
                f"{self.config.block_size}, its block_size: pass the last ones only, or make a "
                "model with a longer block."
            )
        x = self.dropout(self.embed(ids, start))
        for i, block in enumerate(self.blocks):
            x = block(x) if caches is None else block(x, cache=caches[i])
        features: tg.Tensor = self.final_norm(x)
        return features

    def logits(self, features: tg.Tensor) -> tg.Tensor:
        """(..., C) -> (..., V), by the head."""
        if self.head is None:
            return F.linear(features, self.token_embedding.weight)
        return self.head(features)  # type: ignore[no-any-return]

    def loss(self, ids: Any, targets: Any) -> tg.Tensor:
        """Ids and targets (B, T) -> the mean of -ln p(target), in nats, over all targets that are
        not -100.
        """
        return F.cross_entropy(self(ids), self._beside_weights(targets))

    def _beside_weights(self, ids: Any) -> tg.Tensor:
        """Batches are made with NumPy; the model may live on another device."""
        tensor = ids if isinstance(ids, tg.Tensor) else tg.Tensor(np.asarray(ids))
        device = self.token_embedding.weight.device
        return tensor if tensor.device == device else tensor.to(device)

    def next_logits(self, ids: Ids) -> NDArray[Any]:
        """(B, T) -> (B, V) as a NumPy array: what comes after the last token. Keeps no graph."""
        return self.continued_logits(ids, None)

    def continued_logits(
        self, ids: Ids, caches: Sequence[nn.KeyValueCache] | None
    ) -> NDArray[Any]:
        """`next_logits` of ids that follow what `caches` keep; they are kept there as well."""
        with evaluating(self):
            logits: NDArray[Any] = self.logits(self.features(ids, caches)[:, -1:]).numpy()
        return logits[:, 0]

    def predictor(self, cache: bool = True) -> Predict:
        """A function like `next_logits` which keeps keys and values from one call to the next, so
        that a text of which it has seen the beginning costs the rest only. (`lm.decoding`)
        """
        return CachedPredictor(self) if cache else self.next_logits

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
            self.predictor(),
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

    def num_parameters(self) -> int:
        """How many numbers are trained; a tied head counts once."""
        return sum(parameter.size for parameter in self.parameters())

    def extra_repr(self) -> str:
        return f"{self.num_parameters():,} parameters, block_size={self.config.block_size}"
