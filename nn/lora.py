"""LoRA: a frozen linear layer learns through two small matrices beside it (Hu et al. 2021).

    adapter = nn.add_lora(model, rank=8, targets=["qkv"])
    optimizer = optim.AdamW(adapter.parameters(), lr=1e-3)      # only these are trained
    ...
    adapter.merge()                                             # W + s·B·A, no cost any more

A layer y = x·Wᵀ + b becomes y = x·Wᵀ + b + s·(x·Aᵀ)·Bᵀ with A of shape (rank, in), B of shape
(out, rank) and s = alpha/rank. B starts at 0, so the model starts as it was.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.nn import functional as F
from tinygrad_edu.nn import init
from tinygrad_edu.nn.layers import Dropout, Linear
from tinygrad_edu.nn.module import Module
from tinygrad_edu.nn.parameter import Parameter

__all__ = ["LoRA", "LoRALinear", "add_lora"]


class LoRALinear(Linear):
    """A linear layer with an adapter. Its own weight and bias are those of the layer it takes the
    place of, frozen, under the same names.

    Args:
        base: the layer.
        rank: r, the width between the two matrices.
        alpha: the adapter's output is scaled by alpha/rank.
        dropout: chance that a number of the adapter's input is zeroed in training.
        generator: draws A, and what dropout drops.
    """

    def __init__(
        self, base: Linear, rank: int, alpha: float, dropout: float = 0.0,
        generator: np.random.Generator | None = None,
    ) -> None:  # fmt: skip
        Module.__init__(self)
        if not 1 <= rank <= min(base.in_features, base.out_features):
            raise ValueError(
                f"LoRA was given rank={rank} for a layer of {base.in_features} to "
                f"{base.out_features} features, expected 1 to "
                f"{min(base.in_features, base.out_features)}."
            )
        self.in_features, self.out_features = base.in_features, base.out_features
        self.weight, self.bias = base.weight, base.bias
        self.rank, self.scale = rank, alpha / rank
        dtype = base.weight.dtype
        self.lora_A = Parameter(np.zeros((rank, base.in_features), dtype))
        self.lora_B = Parameter(np.zeros((base.out_features, rank), dtype))
        init.kaiming_uniform_(self.lora_A, a=math.sqrt(5.0), generator=generator)
        self.lora_dropout = Dropout(dropout, generator=generator)
        self._unmerged: Any = None

    @property
    def merged(self) -> bool:
        """Whether the adapter is in the weight, and costs nothing."""
        return self._unmerged is not None

    @property
    def base_weight(self) -> Any:
        """The weight as an array, without the adapter, merged or not."""
        return self._unmerged if self.merged else self.weight.data

    def forward(
        self, x: Tensor, activation: str | None = None, residual: Tensor | None = None
    ) -> Tensor:
        """As `Linear`, with the adapter's part before the activation."""
        if self.merged:
            return super().forward(x, activation, residual)
        # Scaled where it is narrow, and added inside `linear`: each array as wide as the output is
        # kept for the backward pass, and would cost more than the frozen weights' gradients did.
        narrow = F.linear(self.lora_dropout(x), self.lora_A) * self.scale
        if activation is None:
            beside = F.linear(narrow, self.lora_B, residual=residual)
            return F.linear(x, self.weight, self.bias, residual=beside)
        delta = F.linear(narrow, self.lora_B)
        out: Tensor = _ACTIVATIONS[activation](
            F.linear(x, self.weight, self.bias, residual=delta)
        )
        return out if residual is None else out + residual

    def delta(self) -> Any:
        """s·B·A in float64, of the weight's shape: what merging adds."""
        a, b = (p.detach().numpy().astype(np.float64) for p in (self.lora_A, self.lora_B))
        return self.scale * (b @ a)

    def merge(self) -> None:
        """Put the adapter into the weight; the weight's own numbers are kept aside."""
        if not self.merged:
            kept = self.weight.detach().numpy().copy()
            self.weight.data = (kept.astype(np.float64) + self.delta()).astype(kept.dtype)
            self._unmerged = kept

    def unmerge(self) -> None:
        """Take it out again: the weight has the bytes that it had."""
        if self.merged:
            self.weight.data, self._unmerged = self._unmerged, None

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, rank={self.rank}, scale={self.scale:g}"


_ACTIVATIONS = {
    "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "relu": F.relu,
    "silu": F.silu, "tanh": F.tanh, "sigmoid": F.sigmoid,
}  # fmt: skip


class LoRA:
    """The adapters of a model.

    Attributes:
        model: the model.
        rank, alpha: of each adapter.
        layers: the adapted layers by their paths.
    """

    def __init__(self, model: Module, rank: int, alpha: float, layers: dict[str, LoRALinear]):
        self.model, self.rank, self.alpha, self.layers = model, rank, alpha, layers

    def parameters(self) -> Iterator[Parameter]:
        """What is trained: A and B of each layer."""
        for layer in self.layers.values():
            yield layer.lora_A
            yield layer.lora_B

    def num_parameters(self) -> int:
        """How many numbers are trained."""
        return sum(p.size for p in self.parameters())

    def merge(self) -> None:
        """Put all adapters into the weights: the same outputs, to rounding, at no cost."""
        for layer in self.layers.values():
            layer.merge()

    def unmerge(self) -> None:
        """Take them out: the base's weights have the bytes that they had."""
        for layer in self.layers.values():
            layer.unmerge()

    def state_dict(self) -> dict[str, Any]:
        """The adapters alone, as arrays by name such as "blocks.0.attn.qkv.lora_A"."""
        return {
            f"{path}.{name}": getattr(layer, name).detach().numpy()
            for path, layer in self.layers.items() for name in ("lora_A", "lora_B")
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take the adapters from arrays.

        Raises:
            ValueError: one is missing, left over or of another shape; nothing is changed then.
        """
        own = self.state_dict()
        missing, extra = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
        wrong = [n for n in own if n in state and np.shape(state[n]) != own[n].shape]
        if missing or extra or wrong:
            parts = [
                f"{what} {', '.join(names[:4])}" + (" …" if len(names) > 4 else "")
                for what, names in (
                    ("lacks", missing), ("has what this model has not:", extra),
                    ("has other shapes for", wrong),
                ) if names
            ]  # fmt: skip
            raise ValueError(f"the adapter does not fit: it {'; it '.join(parts)}")
        for path, layer in self.layers.items():
            for name in ("lora_A", "lora_B"):
                parameter = getattr(layer, name)
                parameter.data = np.array(state[f"{path}.{name}"], parameter.dtype)

    def remove(self) -> None:
        """Put the plain layers back (merged ones stay merged) and let all weights be trained."""
        for path, layer in self.layers.items():
            plain = object.__new__(Linear)
            Module.__init__(plain)
            plain.in_features, plain.out_features = layer.in_features, layer.out_features
            plain.weight, plain.bias = layer.weight, layer.bias
            _put(self.model, path, plain)
        for parameter in self.model.parameters():
            parameter.requires_grad_(True)
        self.layers = {}

    def __repr__(self) -> str:
        base = sum(p.size for p in self.model.parameters()) - self.num_parameters()
        share = 100 * self.num_parameters() / max(1, base)
        return (
            f"LoRA of rank {self.rank} on {len(self.layers)} layers: {self.num_parameters():,} "
            f"trained beside {base:,} frozen ({share:.2f} %)"
        )


def add_lora(
    model: Module, rank: int = 8, alpha: float | None = None,
    targets: Sequence[str] = ("*",), dropout: float = 0.0,
    generator: np.random.Generator | None = None,
) -> LoRA:  # fmt: skip
    """Freeze a model, and give linear layers an adapter each. The model's outputs stay as they are.

    Args:
        model: any module.
        rank: of the adapters.
        alpha: their scale is alpha/rank; the rank by default, so 1.
        targets: patterns of paths, or of their ends: "qkv", "attn.*", "blocks.0.*", "*".
        dropout: on the adapters' inputs.
        generator: draws their starting weights.

    Raises:
        ValueError: no linear layer is meant, or a rank that is none; nothing is changed then.
    """
    found = {
        path: module for path, module in model.named_modules()
        if type(module) is Linear and any(_meant(path, target) for target in targets)
    }  # fmt: skip
    if not found:
        linear = (path for path, m in model.named_modules() if type(m) is Linear)
        there = sorted({path.rpartition(".")[2] for path in linear})
        raise ValueError(
            f"add_lora() found no linear layer for targets={list(targets)}; those of this model "
            f"are called {', '.join(there) or 'nothing: there are none'}"
        )
    scale = float(rank if alpha is None else alpha)
    layers = {
        path: LoRALinear(module, rank, scale, dropout, generator) for path, module in found.items()
    }
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for path, layer in layers.items():
        _put(model, path, layer)
    return LoRA(model, rank, scale, layers)


def _meant(path: str, target: str) -> bool:
    return fnmatch.fnmatchcase(path, target) or fnmatch.fnmatchcase(path, f"*.{target}")


def _put(model: Module, path: str, module: Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, module)
