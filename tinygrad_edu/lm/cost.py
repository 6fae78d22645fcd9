"""What one training step of a GPT costs, from its sizes alone: arithmetic and memory.

`operations` lists the nodes that the graph of the loss has, in the order they are made, each with
its matrix products and the bytes it keeps until the backward pass. Each primitive has one place
here, which follows its kernel in `ops/kernels.py`: whoever changes what a kernel saves changes its
method below, and the test that counts on a real graph names the primitive that differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from tinygrad_edu import nn
from tinygrad_edu.lm.errors import ConfigError
from tinygrad_edu.lm.gpt import GPTConfig

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


@dataclass(frozen=True)
class Cost:
    """One step on a whole batch, in float32.

    Attributes:
        forward_flops: multiplications and additions of the forward pass's matrix products.
        backward_flops: the same of the backward pass, which has two for each.
        weight_bytes: of the parameters; the head is the token embedding and counts once.
        gradient_bytes: of one gradient. A batch that is split over threads has one a thread, until
            they are summed.
        optimizer_bytes: AdamW's two averages.
        activation_bytes: what the graph keeps between the two passes: results, and what kernels
            save; not the parameters, and not the batch of ids itself.
    """

    forward_flops: int
    backward_flops: int
    weight_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    activation_bytes: int


def step_cost(config: GPTConfig, batch_size: int, *, block_size: int | None = None) -> Cost:
    """What a training step on `batch_size` windows of `block_size` tokens costs.

    FLOPs are 2·m·k·n for each product of an (m, k) and a (k, n) matrix, counted as the kernels do
    them. With N = batch_size·T positions, width C, L layers, V symbols the forward pass takes

        L · (24·N·C² + 4·N·T·C) + 2·N·C·V

    where 24·N·C² are qkv (6), projection (2), up (8) and down (8), and 4·N·T·C are scores and mix
    of attention: the kernel computes all T·T scores, also those that the causal mask hides, which
    are nearly half. The backward pass takes twice that: each product has two factors, and the
    gradient of each is a product of the same size. (Hoffmann et al. 2022, appendix F, with the same
    products and the same 2; softmax and look-ups, which are counted there, are not here.)

    Not counted: sums of rows and columns, norms, softmax, GELU, dropout, the loss, look-ups in
    tables and their gradients, clipping, the optimizer. They take a few operations a number, so few
    FLOPs, if not little time.

    Args:
        config: the model's sizes.
        batch_size: windows a step.
        block_size: T, tokens a window; the config's own by default.

    Raises:
        ConfigError: a batch of no windows, or windows that the model cannot take.
    """
    made = list(operations(config, batch_size, block_size=block_size))
    weights = FLOAT * parameter_count(config)
    return Cost(
        forward_flops=sum(product.flops for node in made for product in node.forward),
        backward_flops=sum(product.flops for node in made for product in node.backward),
        weight_bytes=weights,
        gradient_bytes=weights,
        optimizer_bytes=2 * weights,
        activation_bytes=sum(node.kept_bytes for node in made),
    )


def operations(
    config: GPTConfig, batch_size: int, *, block_size: int | None = None
) -> Iterator[Operation]:
    """The nodes of `GPT(config).loss(ids, targets)` in training, in the order they are made.

    Raises:
        ConfigError: as `step_cost`.
    """
    length = config.block_size if block_size is None else block_size
    if batch_size < 1:
        raise ConfigError(f"batch_size={batch_size} was given; a step takes 1 window or more")
    if not 1 <= length <= config.block_size:
        raise ConfigError(
            f"block_size={length} was given for a GPT whose longest window is {config.block_size} "
            f"tokens; give 1 to {config.block_size}"
        )
    return _Graph(config, batch_size, length).nodes()


def parameter_count(config: GPTConfig) -> int:
    """How many numbers `GPT(config)` trains: V·C + T·C + L·(12·C² + …) + the last norm."""
    width = config.embed_dim
    norm = width * (2 if config.bias else 1)
    biases = 9 * width if config.bias else 0  # qkv 3, projection 1, up 4, down 1
    block = 12 * width * width + biases + 2 * norm
    tables = (config.vocab_size + config.block_size) * width
    return tables + config.num_layers * block + norm


_GROUPS: tuple[tuple[type[nn.Module], str], ...] = (
    (nn.Embedding, "token embedding"),
    (nn.LearnedPositions, "position embedding"),
    (nn.MultiHeadAttention, "attention"),
    (nn.MLP, "MLP"),
    (nn.LayerNorm, "norms"),
)


def parameters_by_group(model: nn.Module) -> dict[str, int]:
    """How many numbers each part of `model` trains, each number once, in the model's own order.

    The groups are "token embedding", "position embedding", "attention", "MLP" and "norms", by the
    outermost module of such a kind that a parameter lies in; "other" is what lies in none.
    """
    counts: dict[str, int] = {}
    for name, parameter in model.named_parameters():
        group = _group_of(model, name)
        counts[group] = counts.get(group, 0) + parameter.size
    return counts


def _group_of(model: nn.Module, parameter: str) -> str:
    path = parameter.split(".")[:-1]
    for depth in range(len(path) + 1):
        module = model.get_submodule(".".join(path[:depth]))
        for kind, group in _GROUPS:
            if isinstance(module, kind):
                return group
    return "other"


class _Graph:
    """The graph of a loss, as its sizes fix it; one method a primitive."""

    def __init__(self, config: GPTConfig, batch: int, length: int) -> None:
        self.config = config
        self.batch = batch
        self.length = length
        self.rows = batch * length

    # The model, as `GPT.loss` runs it.

    def nodes(self) -> Iterator[Operation]:
        """Inputs before outputs."""
        config, width = self.config, self.config.embed_dim
        yield self.embedding("GPT.token_embedding")
        yield Operation("GPT.position_embedding", "getitem")  # a view of the table's first rows
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
        yield self.attention(f"{path}.attn")
        yield self.linear(f"{path}.attn.out_proj", width, width)
        yield from self.joined(path)
        yield self.layer_norm(f"{path}.ln_2")
        yield self.linear(f"{path}.mlp.layers.0", width, 4 * width, activation=True)
        yield self.linear(f"{path}.mlp.layers.1", 4 * width, width)
        yield from self.joined(path)

    def joined(self, path: str) -> Iterator[Operation]:
        """Without dropout the sum is made by `linear`, in its own result."""
        if self.config.dropout:
            yield self.dropout(f"{path}.dropout")
            yield self.add(path)

    # The primitives.

    def embedding(self, path: str) -> Operation:
        """The rows that were looked up. (Its gradient may use a product, as a faster scatter.)"""
        return Operation(path, "embedding", output_bytes=self.floats(self.config.embed_dim))

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

    def linear(self, path: str, before: int, after: int, activation: bool = False) -> Operation:
        """The result, and the slope of an activation."""
        return Operation(
            path,
            "linear",
            forward=(Product(1, self.rows, before, after, "nt"),),
            output_bytes=self.floats(after),
            saved_bytes=self.floats(after) if activation else 0,
        )

    def attention(self, path: str) -> Operation:
        """The result, the T·T weights of each head, and as many numbers where some are dropped."""
        config, length = self.config, self.length
        heads = self.batch * config.num_heads
        width = config.embed_dim // config.num_heads
        weights = FLOAT * heads * length * length
        return Operation(
            path,
            "packed_attention",
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
