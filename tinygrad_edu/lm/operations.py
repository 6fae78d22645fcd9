"""The nodes that the graph of a model's loss has, in the order they are made, from its sizes alone:
each with its matrix products and the bytes it keeps until the backward pass.

Each primitive has one place here, which follows its kernel in `ops/kernels.py`: whoever changes
what a kernel saves changes its method below, and the test that counts on a real graph names the
primitive that differs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar

from tinygrad_edu.lm.errors import ConfigError
from tinygrad_edu.lm.gpt import GPTConfig
from tinygrad_edu.lm.language_model import ModelConfig
from tinygrad_edu.lm.llama import LlamaConfig

FLOAT, BOOL = 4, 1
"""Bytes of a float32, of a token's id, of a mark in a dropout mask."""


class Product(NamedTuple):
    """`batch` matrix products, each (m, k) by (k, n); 2·m·k·n floating-point operations each.

    `layout` says, as BLAS does, which factor lies transposed in memory: "nt" is A·Bᵀ.
    """

    batch: int
    m: int
    k: int
    n: int
    layout: Literal["nn", "nt", "tn"] = "nn"

    @property
    def flops(self) -> int:
        """A multiplication and an addition for each of batch·m·k·n pairs of numbers."""
        return 2 * self.batch * self.m * self.k * self.n

    def gradients(self) -> tuple[Product, Product]:
        """The products that its two factors' gradients take, as many operations each as itself.

        C = A·B has dA = dC·Bᵀ and dB = Aᵀ·dC; C = A·Bᵀ has dA = dC·B and dB = dCᵀ·A.
        """
        batch, m, k, n, layout = self
        if layout == "nt":
            return Product(batch, m, n, k, "nn"), Product(batch, n, m, k, "tn")
        return Product(batch, m, n, k, "nt"), Product(batch, k, m, n, "tn")


@dataclass(frozen=True)
class Operation:
    """One node of the graph.

    Attributes:
        module: the path that the node carries, such as "GPT.blocks.0.attn.qkv".
        primitive: its name in the registry.
        forward, backward: the matrix products of either pass.
        output_bytes: of its result, where that is memory of its own and not a view.
        saved_bytes: what its kernel saves beside the result, and a mask made for it.
    """

    module: str
    primitive: str
    forward: tuple[Product, ...] = ()
    output_bytes: int = 0
    saved_bytes: int = 0

    @property
    def backward(self) -> tuple[Product, ...]:
        """Two for each of the forward pass."""
        return tuple(made for product in self.forward for made in product.gradients())

    @property
    def kept_bytes(self) -> int:
        """What the node keeps alive from its making until its gradient has been pulled."""
        return self.output_bytes + self.saved_bytes


def operations(
    config: ModelConfig, batch_size: int, *, block_size: int | None = None
) -> Iterator[Operation]:
    """The nodes of `model.loss(ids, targets)` in training, in the order they are made.

    Raises:
        ConfigError: as `step_cost`.
    """
    length = config.block_size if block_size is None else block_size
    if batch_size < 1:
        raise ConfigError(f"batch_size={batch_size} was given; a step takes 1 window or more")
    if not 1 <= length <= config.block_size:
        raise ConfigError(
            f"block_size={length} was given for a model whose longest window is "
            f"{config.block_size} tokens; give 1 to {config.block_size}"
        )
    if isinstance(config, GPTConfig):
        return _GPTGraph(config, batch_size, length).nodes()
    if isinstance(config, LlamaConfig):
        return _LlamaGraph(config, batch_size, length).nodes()
    raise unknown(config)


def unknown(config: ModelConfig) -> TypeError:
    """Of an architecture whose graph is not written down here."""
    return TypeError(f"a GPTConfig or LlamaConfig is expected, got a {type(config).__name__}")


_Sizes = TypeVar("_Sizes", bound=ModelConfig)




class _Graph(ABC, Generic[_Sizes]):
    """The graph of a loss, as its sizes fix it; one method a primitive."""

    def __init__(self, config: _Sizes, batch: int, length: int) -> None:
        self.config = config
        self.batch = batch
        self.length = length
        self.rows = batch * length

    @abstractmethod
    def nodes(self) -> Iterator[Operation]:
        """Inputs before outputs."""

    def joined(self, path: str) -> Iterator[Operation]:
        """Without dropout the sum is made by `linear`, in its own result."""
        if self.config.dropout:
            yield self.dropout(f"{path}.dropout")
            yield self.add(path)

    # The primitives.

    def embedding(self, path: str) -> Operation:
        """The rows that were looked up. (Its gradient may use a product, as a faster scatter.)"""
        return Operation(path, "embedding", output_bytes=self.floats(self.config.embed_dim))

    def view(self, path: str, primitive: str) -> Operation:
        """The same memory in another shape."""
        return Operation(path, primitive)

    def add(self, path: str) -> Operation:
        """The sum; its rule needs neither of the two."""
        return Operation(path, "add", output_bytes=self.floats(self.config.embed_dim))

    def dropout(self, path: str) -> Operation:
        """The result, and a mark for each element that was kept."""
        width = self.config.embed_dim
        return Operation(
            path, "dropout", output_bytes=self.floats(width), saved_bytes=BOOL * self.rows * width
        )

    def layer_norm(self, path: str) -> Operation:
        """The result, and each row's mean and 1/σ."""
        return Operation(
            path,
            "layer_norm",
            output_bytes=self.floats(self.config.embed_dim),
            saved_bytes=self.floats(2),
        )

    def rms_norm(self, path: str) -> Operation:
        """The result, and each row's 1/rms."""
        made = self.floats(self.config.embed_dim)
        return Operation(path, "rms_norm", output_bytes=made, saved_bytes=self.floats(1))

    def linear(self, path: str, before: int, after: int, activation: bool = False) -> Operation:
        """The result, and the slope of an activation."""
        return Operation(
            path,
            "linear",
            forward=(Product(1, self.rows, before, after, "nt"),),
            output_bytes=self.floats(after),
            saved_bytes=self.floats(after) if activation else 0,
        )

    def attention(self, path: str, primitive: str) -> Operation:
        """The result, the T·T weights of each head, and as many numbers where some are dropped."""
        config, length = self.config, self.length
        heads = self.batch * config.num_heads
        width = config.embed_dim // config.num_heads
        weights = FLOAT * heads * length * length
        return Operation(
            path,
            primitive,
            forward=(
                Product(heads, length, width, length, "nt"),
                Product(heads, length, length, width, "nn"),
            ),
            output_bytes=self.floats(config.embed_dim),
            saved_bytes=weights * (2 if config.dropout else 1),
        )

    def cross_entropy(self, path: str) -> Operation:
        """One number and the probabilities; where every target counts, nothing says which do."""
        saved = self.floats(self.config.vocab_size)
        return Operation(path, "cross_entropy", output_bytes=FLOAT, saved_bytes=saved)

    def floats(self, width: int) -> int:
        """The bytes of an array of `width` floats a position."""
        return FLOAT * self.rows * width


class _GPTGraph(_Graph[GPTConfig]):
    """As `GPT.loss` runs it."""

    def nodes(self) -> Iterator[Operation]:
        config, width = self.config, self.config.embed_dim
        yield self.embedding("GPT.token_embedding")
        yield self.view("GPT.position_embedding", "getitem")  # the table's first rows
        yield self.add("GPT.position_embedding")
        if config.dropout:
            yield self.dropout("GPT.dropout")
        for i in range(config.num_layers):
            yield from self.block(f"GPT.blocks.{i}")
        yield self.layer_norm("GPT.final_norm")
        yield self.linear("GPT", width, config.vocab_size)
        yield self.cross_entropy("")

    def block(self, path: str) -> Iterator[Operation]:
        """Two branches, each added to what came in: by a node of its own where there is dropout."""
        width = self.config.embed_dim
        yield self.layer_norm(f"{path}.ln_1")
        yield self.linear(f"{path}.attn.qkv", width, 3 * width)
        yield self.attention(f"{path}.attn", "packed_attention")
        yield self.linear(f"{path}.attn.out_proj", width, width)
        yield from self.joined(path)
        yield self.layer_norm(f"{path}.ln_2")
        yield self.linear(f"{path}.mlp.layers.0", width, 4 * width, activation=True)
        yield self.linear(f"{path}.mlp.layers.1", 4 * width, width)
        yield from self.joined(path)


class _LlamaGraph(_Graph[LlamaConfig]):
    """As `Llama.loss` runs it."""

    def nodes(self) -> Iterator[Operation]:
        config = self.config
        yield self.embedding("Llama.token_embedding")
        if config.dropout:
            yield self.dropout("Llama.dropout")
        for i in range(config.num_layers):
            yield from self.block(f"Llama.blocks.{i}")
        yield self.rms_norm("Llama.final_norm")
        head = "Llama" if config.tied_head else "Llama.head"
        yield self.linear(head, config.embed_dim, config.vocab_size)
        yield self.cross_entropy("")

    def block(self, path: str) -> Iterator[Operation]:
        """Attention, then the gated MLP, each added to what came in."""
        width, hidden = self.config.embed_dim, self.config.hidden_dim
        yield self.rms_norm(f"{path}.norm_1")
        yield from self.grouped_attention(f"{path}.attn")
        yield from self.joined(path)
        yield self.rms_norm(f"{path}.norm_2")
        yield self.linear(f"{path}.mlp.gate", width, hidden, activation=True)
        yield self.linear(f"{path}.mlp.up", width, hidden)
        yield Operation(f"{path}.mlp", "multiply", output_bytes=self.floats(hidden))
        yield self.linear(f"{path}.mlp.down", hidden, width)
        yield from self.joined(path)

    def grouped_attention(self, path: str) -> Iterator[Operation]:
        """Heads are views; queries and keys are turned; the mixed heads are put side by side."""
        config, width = self.config, self.config.embed_dim
        shared = width // config.num_heads * config.num_kv_heads
        for name, wide in (("q_proj", width), ("k_proj", shared), ("v_proj", shared)):
            yield self.linear(f"{path}.{name}", width, wide)
            yield self.view(path, "reshape")
            yield self.view(path, "transpose")
            if name != "v_proj":
                yield Operation(path, "rotary", output_bytes=self.floats(wide))
        yield self.attention(path, "attention")
        yield self.view(path, "transpose")
        copied = config.num_heads > 1 and self.length > 1
        yield Operation(path, "reshape", output_bytes=self.floats(width) if copied else 0)
        yield self.linear(f"{path}.out_proj", width, width)
