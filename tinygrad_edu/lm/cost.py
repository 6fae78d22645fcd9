"""What one training step of a model costs, from its sizes alone: arithmetic and memory.

It is the sum over the nodes of its graph, which `lm/operations.py` lists.
"""

from __future__ import annotations

from dataclasses import dataclass

from tinygrad_edu import nn
from tinygrad_edu.lm.gpt import GPTConfig
from tinygrad_edu.lm.language_model import ModelConfig
from tinygrad_edu.lm.llama import LlamaConfig
from tinygrad_edu.lm.operations import FLOAT, operations, unknown


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


def step_cost(config: ModelConfig, batch_size: int, *, block_size: int | None = None) -> Cost:
    """What a training step on `batch_size` windows of `block_size` tokens costs.

    FLOPs are 2·m·k·n for each product of an (m, k) and a (k, n) matrix, counted as the kernels do
    them. With N = batch_size·T positions, width C, L layers, V symbols the forward pass takes

        L · (24·N·C² + 4·N·T·C) + 2·N·C·V

    where 24·N·C² are qkv (6), projection (2), up (8) and down (8), and 4·N·T·C are scores and mix
    of attention: the kernel computes all T·T scores, also those that the causal mask hides, which
    are nearly half. A Llama with K numbers in all heads of keys and H in its MLPs takes

        L · (4·N·C² + 4·N·C·K + 6·N·C·H + 4·N·T·C) + 2·N·C·V

    The backward pass takes twice that: each product has two factors, and the gradient of each is a
    product of the same size. (Hoffmann et al. 2022, appendix F, with the same products and the same
    2; softmax and look-ups, which are counted there, are not here.)

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


def parameter_count(config: ModelConfig) -> int:
    """How many numbers a model of these sizes trains."""
    if isinstance(config, GPTConfig):
        return _gpt_parameters(config)
    if isinstance(config, LlamaConfig):
        return _llama_parameters(config)
    raise unknown(config)


def _gpt_parameters(config: GPTConfig) -> int:
    """V·C + T·C + L·(12·C² + …) + the last norm."""
    width = config.embed_dim
    norm = width * (2 if config.bias else 1)
    biases = 9 * width if config.bias else 0  # qkv 3, projection 1, up 4, down 1
    block = 12 * width * width + biases + 2 * norm
    tables = (config.vocab_size + config.block_size) * width
    return tables + config.num_layers * block + norm


def _llama_parameters(config: LlamaConfig) -> int:
    """V·C, twice with a head of its own; L·(2·C² + 2·C·K + 3·C·H + 2·C) + C, with K numbers in all
    heads of keys and H in the MLP.
    """
    width = config.embed_dim
    shared = width // config.num_heads * config.num_kv_heads
    block = 2 * width * (width + shared) + 3 * width * config.hidden_dim + 2 * width
    tables = config.vocab_size * width * (1 if config.tied_head else 2)
    return tables + config.num_layers * block + width


_GROUPS: tuple[tuple[type[nn.Module], str], ...] = (
    (nn.Embedding, "token embedding"),
    (nn.LearnedPositions, "position embedding"),
    (nn.MultiHeadAttention, "attention"),
    (nn.GroupedQueryAttention, "attention"),
    (nn.MLP, "MLP"),
    (nn.SwiGLU, "MLP"),
    (nn.LayerNorm, "norms"),
    (nn.RMSNorm, "norms"),
)


def parameters_by_group(model: nn.Module) -> dict[str, int]:
    """How many numbers each part of `model` trains, each number once, in the model's own order.

    The groups are "token embedding", "position embedding", "attention", "MLP", "norms" and "head",
    by the outermost module of such a kind that a parameter lies in; "other" is what lies in none.
    """
    counts: dict[str, int] = {}
    for name, parameter in model.named_parameters():
        group = _group_of(model, name)
        counts[group] = counts.get(group, 0) + parameter.size
    return counts


def _group_of(model: nn.Module, parameter: str) -> str:
    path = parameter.split(".")[:-1]
    if path[:1] == ["head"]:
        return "head"
    for depth in range(len(path) + 1):
        module = model.get_submodule(".".join(path[:depth]))
        for kind, group in _GROUPS:
            if isinstance(module, kind):
                return group
    return "other"
