"""What a step costs by its sizes is what a real graph is seen to do and keep."""

from __future__ import annotations

import argparse
import dataclasses
from collections import Counter
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import graph, lm, optim
from tinygrad_edu.lm import operations as cost

BASE = lm.GPTConfig(vocab_size=11, block_size=8, num_layers=2, num_heads=2, embed_dim=16)
RECIPE = lm.GPTConfig(vocab_size=65, block_size=64, num_layers=4, num_heads=4, embed_dim=128)
LLAMA = lm.LlamaConfig(vocab_size=11, block_size=8, num_layers=2, num_heads=4, embed_dim=16)
CASES = {
    "plain": (BASE, 3, 8),
    "no bias": (dataclasses.replace(BASE, bias=False), 3, 8),
    "dropout": (dataclasses.replace(BASE, dropout=0.2), 3, 8),
    "no bias, dropout": (dataclasses.replace(BASE, bias=False, dropout=0.5), 2, 8),
    "a short window": (BASE, 3, 5),
    "one of all": (dataclasses.replace(BASE, num_layers=1, num_heads=1), 1, 1),
    "many heads": (dataclasses.replace(BASE, num_heads=8, vocab_size=40), 2, 7),
    "nanoGPT's CPU recipe": (RECIPE, 2, 64),
    "llama": (LLAMA, 3, 8),
    "llama, shared heads": (dataclasses.replace(LLAMA, num_kv_heads=1, hidden_dim=24), 2, 7),
    "llama, dropout": (dataclasses.replace(LLAMA, num_kv_heads=2, dropout=0.3), 3, 8),
    "llama, a head of its own": (dataclasses.replace(LLAMA, tied_head=False), 2, 5),
    "llama, one of all": (
        dataclasses.replace(LLAMA, num_layers=1, num_heads=1, num_kv_heads=0), 1, 1,
    ),
    "llama, one head": (dataclasses.replace(LLAMA, num_heads=1, num_kv_heads=0), 2, 4),
    "llama of the recipe's size": (lm.LlamaConfig(vocab_size=65), 2, 64),
}
Key = tuple[str, str]


def model_of(config: Any) -> lm.LanguageModel:
    make = lm.GPT if isinstance(config, lm.GPTConfig) else lm.Llama
    return make(config, np.random.default_rng(0))


class Counted:
    """The graph of a real loss, and what is found by walking it."""

    def __init__(self, config: Any, batch: int, length: int) -> None:
        self.model = model_of(config)
        draw = np.random.default_rng(1)
        ids, targets = (draw.integers(0, config.vocab_size, (batch, length)) for _ in range(2))
        self.loss = self.model.loss(ids, targets)
        self.nodes = [n for n in graph.topological_order(self.loss) if n.op is not None]
        given = [ids, targets, *(p.data for p in self.model.parameters())]
        self.outside = {id(owner(array)) for array in given}

    def kept(self) -> dict[Key, int]:
        """Bytes by (module, primitive); memory that several nodes hold is the first one's."""
        seen = set(self.outside)
        found: Counter[Key] = Counter()
        for node in self.nodes:
            for array in held_by(node):
                memory = owner(array)
                if id(memory) not in seen:
                    seen.add(id(memory))
                    found[node.module, node.op.name] += memory.nbytes
        return dict(found)

    def flops(self) -> int:
        """2·(numbers in the result)·(length of the sums) for each product of the forward pass."""
        total = 0
        for node in self.nodes:
            if node.op.name == "linear":
                total += 2 * node.data.size * node._args[1].shape[1]
            elif node.op.name == "attention":
                weights, width = node._saved.size, node.shape[-1]
                assert width == node._args[0].shape[-1]
                total += 2 * 2 * weights * width
            elif node.op.name == "packed_attention":
                batch, length, width = node.shape
                heads = node._params["num_heads"]
                scores, mixed = batch * heads * length * length, batch * length * width
                total += 2 * scores * (width // heads) + 2 * mixed * length
        return total


def owner(array: Any) -> Any:
    """The array that owns the memory."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def held_by(node: tg.Tensor) -> list[Any]:
    """Every array that lives because the node does."""
    found = [node._data, *(x._data for x in node._args if x._data is not None)]
    waiting = [node._saved]
    while waiting:
        piece = waiting.pop()
        if isinstance(piece, (tuple, list)):
            waiting += piece
        elif isinstance(piece, (np.ndarray, np.generic)):
            found.append(piece)
    return found


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_each_operation_keeps_the_bytes_that_are_counted_on_a_real_graph(case: Any) -> None:
    config, batch, length = case
    expected: Counter[Key] = Counter()
    for made in cost.operations(config, batch, block_size=length):
        expected[made.module, made.primitive] += made.kept_bytes
    kept = Counted(*case).kept()
    assert kept == {key: size for key, size in expected.items() if size}
    total = lm.step_cost(config, batch, block_size=length).activation_bytes
    assert total == sum(kept.values())


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_operations_are_the_nodes_of_a_real_graph(case: Any) -> None:
    config, batch, length = case
    made = cost.operations(config, batch, block_size=length)
    expected = Counter((each.module, each.primitive) for each in made)
    assert expected == Counter((n.module, n.op.name) for n in Counted(*case).nodes)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_forward_flops_are_those_of_the_graphs_products(case: Any) -> None:
    config, batch, length = case
    assert lm.step_cost(config, batch, block_size=length).forward_flops == Counted(*case).flops()


def test_flops_of_the_recipe_are_those_of_the_formula() -> None:
    rows, width, symbols, layers, length = 12 * 64, 128, 65, 4, 64
    block = 24 * rows * width**2 + 4 * rows * length * width
    head = 2 * rows * width * symbols
    assert lm.step_cost(RECIPE, 12).forward_flops == layers * block + head


@pytest.mark.parametrize(
    "product", [cost.Product(3, 4, 5, 6), cost.Product(2, 7, 3, 5, "nt")], ids=["nn", "nt"]
)
def test_a_products_gradients_have_the_shapes_that_the_engine_computes(product: Any) -> None:
    draw = np.random.default_rng(0)
    batch, m, k, n, layout = product
    shapes = [(batch, m, k), (batch, n, k) if layout == "nt" else (batch, k, n)]
    a, b = (tg.tensor(draw.standard_normal(s), requires_grad=True) for s in shapes)
    c = a @ (tg.swapaxes(b, -1, -2) if layout == "nt" else b)
    g = draw.standard_normal(c.shape)
    c.backward(g)
    factors = {"a": a.data, "b": b.data, "g": g}
    pairs = {"nt": ("gb", "ga"), "nn": ("gb", "ag")}[layout]
    for found, pair, want in zip(product.gradients(), pairs, (a.grad, b.grad), strict=True):
        left, right = (factors[name] for name in pair)
        left = left.swapaxes(1, 2) if found.layout[0] == "t" else left
        right = right.swapaxes(1, 2) if found.layout[1] == "t" else right
        assert left.shape == (found.batch, found.m, found.k)
        assert right.shape == (found.batch, found.k, found.n)
        np.testing.assert_allclose(left @ right, want.data)
        assert found.flops == product.flops


def test_flops_of_a_llama_are_those_of_the_formula() -> None:
    config = lm.LlamaConfig(65, num_kv_heads=2, hidden_dim=300)
    rows, width, shared = 12 * 64, 128, 64
    block = 4 * rows * width * (width + shared) + 6 * rows * width * 300 + 4 * rows * 64 * width
    assert lm.step_cost(config, 12).forward_flops == 4 * block + 2 * rows * width * 65


def test_the_backward_pass_takes_twice_the_forward_pass() -> None:
    found = lm.step_cost(RECIPE, 12)
    assert found.backward_flops == 2 * found.forward_flops


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_weights_gradients_and_averages_have_the_bytes_of_real_ones(case: Any) -> None:
    config = case[0]
    model = model_of(config)
    optimizer = optim.AdamW(model.parameters())
    ids = np.zeros((2, 8), np.int64)
    model.loss(ids, ids).backward()
    optimizer.step()
    states = optimizer.state.values()
    found = lm.step_cost(config, 2)
    assert found.weight_bytes == sum(p.data.nbytes for p in model.parameters())
    assert found.gradient_bytes == sum(p.grad.data.nbytes for p in model.parameters())
    arrays = [a for state in states for a in state.values() if isinstance(a, np.ndarray)]
    assert found.optimizer_bytes == sum(a.nbytes for a in arrays)


@pytest.mark.parametrize(
    ("batch", "length", "sentence"),
    [
        (0, None, "batch_size=0 was given; a step takes 1 window or more"),
        (2, 9, "block_size=9 was given for a model whose longest window is 8 tokens; give 1 to 8"),
        (2, 0, "block_size=0 was given"),
    ],
)
def test_a_step_that_cannot_be_made_is_refused(
    batch: int, length: int | None, sentence: str
) -> None:
    with pytest.raises(lm.ConfigError, match=sentence):
        lm.step_cost(BASE, batch, block_size=length)


def test_parameters_by_group_count_each_number_once() -> None:
    model = lm.GPT(BASE, np.random.default_rng(0))
    width = BASE.embed_dim
    assert lm.parameters_by_group(model) == {
        "token embedding": 11 * width,
        "position embedding": 8 * width,
        "attention": 2 * (4 * width * width + 4 * width),
        "MLP": 2 * (8 * width * width + 5 * width),
        "norms": 5 * 2 * width,
    }


def test_parameters_of_a_llama_by_group() -> None:
    config = dataclasses.replace(LLAMA, num_kv_heads=2, tied_head=False)
    model, width = lm.Llama(config, np.random.default_rng(0)), 16
    assert lm.parameters_by_group(model) == {
        "token embedding": 11 * width,
        "attention": 2 * (2 * width * width + 2 * width * 8),
        "MLP": 2 * 3 * width * 48,
        "norms": 5 * width,
        "head": 11 * width,
    }


def test_a_model_that_is_not_written_down_is_named() -> None:
    with pytest.raises(TypeError, match="a GPTConfig or LlamaConfig is expected, got a Namespace"):
        lm.step_cost(argparse.Namespace(block_size=8), 2)  # type: ignore[arg-type]


def test_parameters_of_no_known_kind_are_other() -> None:
    model = tg.nn.Sequential(tg.nn.Linear(3, 2), tg.nn.LayerNorm(2))
    assert lm.parameters_by_group(model) == {"other": 8, "norms": 4}
