"""Self-attention and the transformer block (Vaswani et al. 2017; pre-norm as in GPT-2, Radford et
al. 2019).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_edu.autograd import Tensor
from tinygrad_edu.autograd.functions import reshape, transpose
from tinygrad_edu.errors import ShapeError
from tinygrad_edu.nn import functional as F
from tinygrad_edu.nn import init
from tinygrad_edu.nn.cache import KeyValueCache
from tinygrad_edu.nn.layers import MLP, Dropout, LayerNorm, Linear
from tinygrad_edu.nn.module import Module
from tinygrad_edu.nn.parameter import checked_size

__all__ = ["MultiHeadAttention", "TransformerBlock"]


class MultiHeadAttention(Module):
    """Each position looks at the others through `num_heads` attentions side by side, each of width
    C/num_heads.

    softmax(Q·Kᵀ/√d)·V with Q, K, V three linear maps of the input, packed in one `qkv` layer in
    that order, then a linear map `out_proj`. Starting weights are PyTorch's MultiheadAttention's:
    qkv Xavier uniform over the packed matrix, biases 0, out_proj.weight as Linear. The middle third
    of qkv.bias, the keys', never has a gradient: it adds the same number to every score of a row,
    and softmax does not see that.

    Args:
        embed_dim: C, a multiple of num_heads.
        num_heads: number of heads.
        dropout: probability of dropping an attention weight in training.
        bias: whether the two linear maps have biases.
        causal: whether position t sees only positions up to t. (True here, as looking ahead must be
            asked for.)
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        *,
        causal: bool = True,
        device: str | None = None,
        dtype: Any = None,
        generator: np.random.Generator | None = None,
    ) -> None:
        super().__init__()
        if not 0.0 <= dropout < 1.0:
            raise ValueError(
                f"MultiHeadAttention was given dropout={dropout}, expected a probability below 1."
            )
        checked_size("MultiHeadAttention", embed_dim=embed_dim, num_heads=num_heads)
        if embed_dim % num_heads:
            raise ValueError(
                f"MultiHeadAttention was given embed_dim={embed_dim} and num_heads={num_heads}, "
                "expected embed_dim to be a multiple of num_heads: each head has an equal share."
            )
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.causal = causal
        self.generator = generator
        self.qkv = Linear(embed_dim, 3 * embed_dim, bias, device, dtype, generator=generator)
        self.out_proj = Linear(embed_dim, embed_dim, bias, device, dtype, generator=generator)
        self.dropout = dropout
        self.reset_parameters(generator)

    def reset_parameters(self, generator: np.random.Generator | None = None) -> None:
        """Draw the starting weights again."""
        init.xavier_uniform_(self.qkv.weight, generator=generator)
        self.out_proj.reset_parameters(generator)
        for linear in (self.qkv, self.out_proj):
            if linear.bias is not None:
                init.zeros_(linear.bias)

    def forward(
        self,
        x: Tensor,
        mask: Any = None,
        residual: Tensor | None = None,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """(B, T, C) -> (B, T, C), plus `residual` of that shape if given.

        `mask` broadcasts to (B, num_heads, T, T): boolean, True where row t may look, or numbers to
        add to the scores. With a `cache` x follows the tokens that are kept in it.
        """
        if x.ndim != 3 or x.shape[-1] != self.embed_dim:
            raise ShapeError(
                f"MultiHeadAttention was given shape {tuple(x.shape)}, expected (batch, time, "
                f"{self.embed_dim})."
            )
        drop: dict[str, Any] = {
            "dropout": self.dropout if self.training else 0.0, "generator": self.generator,
        }  # fmt: skip
        qkv = self.qkv(x)
        if cache is not None:
            mixed = self._looking_back(qkv, mask, cache, **drop)
        else:
            mixed = F.packed_attention(qkv, self.num_heads, self.causal, mask=mask, **drop)
        return self.out_proj(mixed, residual=residual)  # type: ignore[no-any-return]

    def _looking_back(self, qkv: Tensor, mask: Any, cache: KeyValueCache, **drop: Any) -> Tensor:
        """(B, T, 3C) -> (B, T, C), where T tokens follow those that the cache keeps."""
        batch, time, width = qkv.shape
        parts = reshape(qkv, (batch, time, 3, self.num_heads, width // (3 * self.num_heads)))
        heads = transpose(parts, (2, 0, 3, 1, 4))
        q, k, v = heads[0], heads[1], heads[2]
        mixed = F.attention(q, *cache.extend(k, v), mask=mask, causal=self.causal, **drop)
        return reshape(transpose(mixed, (0, 2, 1, 3)), (batch, time, self.embed_dim))

    def extra_repr(self) -> str:
        return f"{self.embed_dim}, num_heads={self.num_heads}, causal={self.causal}"


class TransformerBlock(Module):
    """x + attention(norm(x)), then x + MLP(norm(x)): one layer of a GPT, the norms before the
    branches.

    Args:
        embed_dim: C, a multiple of num_heads.
        num_heads: number of attention heads.
        mlp_ratio: hidden width of the MLP in multiples of embed_dim.
        dropout: probability of dropping attention weights and elements of both branches' outputs,
            in training.
        bias: whether linear maps and norms have biases.
        causal: whether position t sees only positions up to t.
        activation: the MLP's: "gelu", "gelu_tanh", "relu", "silu", "tanh" or "sigmoid".
        eps: the norms' epsilon.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        mlp_ratio: int = 4,
        dropout: float = 0.0,
        bias: bool = True,
        *,
        causal: bool = True,
        activation: str = "gelu",
        eps: float = 1e-5,
        device: str | None = None,
        dtype: Any = None,
        generator: np.random.Generator | None = None,
    ) -> None:
        super().__init__()
        place: dict[str, Any] = {"device": device, "dtype": dtype}
        self.ln_1 = LayerNorm(embed_dim, eps=eps, bias=bias, **place)
        self.attn = MultiHeadAttention(
            embed_dim, num_heads, dropout, bias, causal=causal, generator=generator, **place
        )
        self.ln_2 = LayerNorm(embed_dim, eps=eps, bias=bias, **place)
        self.mlp = MLP(
            embed_dim,
            mlp_ratio * embed_dim,
            activation=activation,
            bias=bias,
            generator=generator,
            **place,
        )
        self.dropout = Dropout(dropout, generator=generator)

    def forward(self, x: Tensor, mask: Any = None, cache: KeyValueCache | None = None) -> Tensor:
        """(B, T, C) -> (B, T, C); `mask` and `cache` as in MultiHeadAttention."""
        x = add_branch(x, self.attn, self.ln_1(x), self.dropout, mask=mask, cache=cache)
        return add_branch(x, self.mlp, self.ln_2(x), self.dropout)


def add_branch(
    x: Tensor, branch: Module, normed: Tensor, dropout: Dropout, **options: Any
) -> Tensor:
    """x + dropout(branch(normed)), where nothing is dropped by the branch's last operation."""
    if dropout.active:
        return x + dropout(branch(normed, **options))  # type: ignore[no-any-return]
    return branch(normed, residual=x, **options)  # type: ignore[no-any-return]
