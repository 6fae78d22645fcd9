"""What a Llama's block is made of: attention with shared keys and values, and a gated MLP
(Touvron et al. 2023).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_edu.autograd import Tensor
from tinygrad_edu.autograd.functions import reshape, transpose
from tinygrad_edu.errors import ShapeError
from tinygrad_edu.nn import functional as F
from tinygrad_edu.nn.attention import add_branch
from tinygrad_edu.nn.cache import KeyValueCache
from tinygrad_edu.nn.layers import Dropout, Linear, RMSNorm
from tinygrad_edu.nn.module import Module
from tinygrad_edu.nn.parameter import checked_size

__all__ = ["GroupedQueryAttention", "LlamaBlock", "SwiGLU"]


class GroupedQueryAttention(Module):
    """Attention in which several heads of queries share one head of keys and values.

    Heads of queries are taken in order: the first num_heads/num_kv_heads look at the first head of
    keys and values, and so on (Ainslie et al. 2023; as many as heads is multi-head attention, one
    is Shazeer's multi-query attention, 2019). Keys and values, and what is kept of them while
    writing, take num_kv_heads/num_heads of the memory. Positions are rotary: see `tg.rotary`.

    Args:
        embed_dim: C, a multiple of num_heads; C/num_heads is even where positions are rotary.
        num_heads: heads of queries.
        num_kv_heads: heads of keys and values, of which num_heads is a multiple; 0 for as many.
        dropout: probability of dropping an attention weight in training.
        bias: whether the linear maps have biases.
        causal: whether position t sees only positions up to t.
        rotary: whether queries and keys are turned by their positions.
        theta: the base of the rotation's frequencies.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        num_kv_heads: int = 0,
        dropout: float = 0.0,
        bias: bool = False,
        *,
        causal: bool = True,
        rotary: bool = True,
        theta: float = 10000.0,
        device: str | None = None,
        dtype: Any = None,
        generator: np.random.Generator | None = None,
    ) -> None:
        super().__init__()
        num_kv_heads = num_kv_heads or num_heads
        checked_size(
            "GroupedQueryAttention",
            embed_dim=embed_dim, num_heads=num_heads, num_kv_heads=num_kv_heads,
        )  # fmt: skip
        if embed_dim % num_heads or num_heads % num_kv_heads:
            raise ValueError(
                f"GroupedQueryAttention was given embed_dim={embed_dim}, num_heads={num_heads} and "
                f"num_kv_heads={num_kv_heads}, expected each to be a multiple of the next."
            )
        width = embed_dim // num_heads
        if rotary and width % 2:
            raise ValueError(
                f"GroupedQueryAttention was given heads of width {width}, expected an even one: "
                "rotary positions turn numbers in pairs."
            )
        if not 0.0 <= dropout < 1.0:
            raise ValueError(
                f"GroupedQueryAttention was given dropout={dropout}, expected a probability below "
                "1."
            )
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.dropout = dropout
        self.causal = causal
        self.rotary = rotary
        self.theta = theta
        self.generator = generator
        place: dict[str, Any] = {"device": device, "dtype": dtype, "generator": generator}
        self.q_proj = Linear(embed_dim, embed_dim, bias, **place)
        self.k_proj = Linear(embed_dim, num_kv_heads * width, bias, **place)
        self.v_proj = Linear(embed_dim, num_kv_heads * width, bias, **place)
        self.out_proj = Linear(embed_dim, embed_dim, bias, **place)

    def forward(
        self,
        x: Tensor,
        mask: Any = None,
        residual: Tensor | None = None,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """(B, T, C) -> (B, T, C), plus `residual` of that shape if given.

        `mask` broadcasts to (B, num_kv_heads, heads a group, T, S): boolean, True where row t may
        look, or numbers to add to the scores. With a `cache` x follows the tokens that are kept.
        """
        if x.ndim != 3 or x.shape[-1] != self.embed_dim:
            raise ShapeError(
                f"GroupedQueryAttention was given shape {tuple(x.shape)}, expected (batch, time, "
                f"{self.embed_dim})."
            )
        start = 0 if cache is None else cache.length
        q = self._turned(self._heads(self.q_proj(x), self.num_heads // self.num_kv_heads), start)
        k = self._turned(self._heads(self.k_proj(x), 1), start)
        v = self._heads(self.v_proj(x), 1)
        if cache is not None:
            k, v = cache.extend(k, v)
        mixed = F.attention(
            q,
            k,
            v,
            mask=mask,
            causal=self.causal,
            dropout=self.dropout if self.training else 0.0,
            generator=self.generator,
        )
        together = reshape(transpose(mixed, (0, 3, 1, 2, 4)), x.shape)
        return self.out_proj(together, residual=residual)  # type: ignore[no-any-return]

    def _heads(self, x: Tensor, group: int) -> Tensor:
        """(B, T, …) -> (B, num_kv_heads, group, T, d), where a group shares keys and values."""
        width = self.embed_dim // self.num_heads
        parts = reshape(x, (*x.shape[:2], self.num_kv_heads, group, width))
        return transpose(parts, (0, 2, 3, 1, 4))

    def _turned(self, x: Tensor, start: int) -> Tensor:
        return F.rotary(x, start, self.theta) if self.rotary else x

    def extra_repr(self) -> str:
        return (
            f"{self.embed_dim}, num_heads={self.num_heads}, num_kv_heads={self.num_kv_heads}, "
            f"causal={self.causal}, rotary={self.rotary}"
        )


class SwiGLU(Module):
    """down(silu(gate(x)) ∘ up(x)): an MLP in which one half decides how much of the other passes
    (Shazeer 2020, "GLU variants improve transformer", eq. 6).

    Three matrices instead of two: 8/3 of the width takes as many weights as an MLP of 4 times it.
    """

    def __init__(
        self,
        embed_dim: int,
        hidden_dim: int,
        bias: bool = False,
        *,
        device: str | None = None,
        dtype: Any = None,
        generator: np.random.Generator | None = None,
    ) -> None:
        super().__init__()
        place: dict[str, Any] = {"device": device, "dtype": dtype, "generator": generator}
        self.gate = Linear(embed_dim, hidden_dim, bias, **place)
        self.up = Linear(embed_dim, hidden_dim, bias, **place)
        self.down = Linear(hidden_dim, embed_dim, bias, **place)

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """(..., embed_dim) -> the same shape, plus `residual` of that shape if given."""
        passed = self.gate(x, activation="silu") * self.up(x)
        return self.down(passed, residual=residual)  # type: ignore[no-any-return]


class LlamaBlock(Module):
    """x + attention(norm(x)), then x + SwiGLU(norm(x)): one layer of a Llama.

    Args:
        embed_dim, num_heads, num_kv_heads, theta: as in GroupedQueryAttention.
        hidden_dim: of the MLP.
        dropout: probability of dropping attention weights and elements of both branches' outputs,
            in training.
        eps: the norms' epsilon.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        num_kv_heads: int,
        hidden_dim: int,
        dropout: float = 0.0,
        *,
        theta: float = 10000.0,
        eps: float = 1e-5,
        device: str | None = None,
        dtype: Any = None,
        generator: np.random.Generator | None = None,
    ) -> None:
        super().__init__()
        place: dict[str, Any] = {"device": device, "dtype": dtype}
        self.norm_1 = RMSNorm(embed_dim, eps, **place)
        self.attn = GroupedQueryAttention(
            embed_dim, num_heads, num_kv_heads, dropout, theta=theta, generator=generator, **place
        )
        self.norm_2 = RMSNorm(embed_dim, eps, **place)
        self.mlp = SwiGLU(embed_dim, hidden_dim, generator=generator, **place)
        self.dropout = Dropout(dropout, generator=generator)

    def forward(self, x: Tensor, mask: Any = None, cache: KeyValueCache | None = None) -> Tensor:
        """(B, T, C) -> (B, T, C); `mask` and `cache` as in GroupedQueryAttention."""
        x = add_branch(x, self.attn, self.norm_1(x), self.dropout, mask=mask, cache=cache)
        return add_branch(x, self.mlp, self.norm_2(x), self.dropout)
