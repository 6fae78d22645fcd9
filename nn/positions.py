"""Where a token stands, added to what it is: `LearnedPositions` and `SinusoidalPositions`.

(Rotary positions are no layer of their own: they turn queries and keys within an attention.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_edu.autograd import Tensor
from tinygrad_edu.backend import namespace_of
from tinygrad_edu.errors import ShapeError
from tinygrad_edu.nn import init
from tinygrad_edu.nn.module import Module
from tinygrad_edu.nn.parameter import checked_size, new_parameter
from tinygrad_edu.nn.state import array_in

__all__ = ["LearnedPositions", "SinusoidalPositions"]


class _Positions(Module):
    """Adds row t of a table, `weight`, to x[..., t, :]."""

    weight: Tensor

    def __init__(self, num_positions: int, embedding_dim: int) -> None:
        super().__init__()
        sizes = {"num_positions": num_positions, "embedding_dim": embedding_dim}
        checked_size(type(self).__name__, **sizes)
        self.num_positions = num_positions
        self.embedding_dim = embedding_dim

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """(..., T, embedding_dim) -> the same shape; the first row of x stands at `start`, and the
        last at num_positions - 1 at most.
        """
        if (
            x.ndim < 2
            or start < 0
            or start + x.shape[-2] > self.num_positions
            or x.shape[-1] != self.embedding_dim
        ):
            begun = f" from position {start}" if start else ""
            raise ShapeError(
                f"{type(self).__name__} was given shape {tuple(x.shape)}{begun}, expected (..., T, "
                f"{self.embedding_dim}) with T at most {self.num_positions - start}: shorten the "
                "text or make num_positions larger."
            )
        return x + self.weight[start : start + x.shape[-2]]

    def extra_repr(self) -> str:
        return f"{self.num_positions}, {self.embedding_dim}"


class LearnedPositions(_Positions):
    """Adds a trained vector for each position: x[..., t, :] + weight[t]. Rows start as N(0, 1),
    like Embedding.
    """

    def __init__(
        self,
        num_positions: int,
        embedding_dim: int,
        *,
        device: str | None = None,
        dtype: Any = None,
        generator: np.random.Generator | None = None,
    ) -> None:
        super().__init__(num_positions, embedding_dim)
        self.weight = new_parameter(num_positions, embedding_dim, device=device, dtype=dtype)
        init.normal_(self.weight, generator=generator)


class SinusoidalPositions(_Positions):
    """Adds a fixed vector for each position: x[..., t, :] + weight[t] (Vaswani et al. 2017, 3.5).

    weight[t, 2i] = sin(t·10000^(-2i/C)) and weight[t, 2i+1] = cos(t·10000^(-2i/C)): clocks of many
    speeds, so that the vector of t + k is a rotation of that of t which does not depend on t.
    Nothing is trained, and nothing is saved with the weights.
    """

    def __init__(
        self,
        num_positions: int,
        embedding_dim: int,
        *,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_positions, embedding_dim)
        table = new_parameter(num_positions, embedding_dim, device=device, dtype=dtype).detach()
        even = np.arange(0, embedding_dim, 2)
        angles = np.arange(num_positions)[:, None] * 10000.0 ** (-even / embedding_dim)
        whole = np.empty((num_positions, embedding_dim))
        whole[:, 0::2] = np.sin(angles)
        whole[:, 1::2] = np.cos(angles)[:, : embedding_dim // 2]
        table.data[...] = array_in(namespace_of(table.data), whole)
        self.register_buffer("weight", table, persistent=False)
