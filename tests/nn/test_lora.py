"""LoRA: the identity at the start, only adapters trained, merged as unmerged, base untouched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import lm, nn, optim


def gpt(**options: Any) -> lm.GPT:
    sizes = {"vocab_size": 20, "block_size": 8, "num_layers": 2, "num_heads": 2, "embed_dim": 16}
    return lm.GPT(lm.GPTConfig(**{**sizes, **options}), np.random.default_rng(0))


IDS = np.random.default_rng(1).integers(0, 20, (3, 8))


def logits(model: lm.GPT) -> Any:
    with tg.no_grad():
        return model(IDS).numpy()


def bytes_of(model: nn.Module, names: Any) -> dict[str, bytes]:
    return {n: p.detach().numpy().tobytes() for n, p in model.named_parameters() if n in names}


@pytest.mark.parametrize("targets", [["qkv"], ["*"], ["blocks.1.mlp.layers.*"]])
def test_a_model_starts_as_it_was(targets: list[str]) -> None:
    model = gpt()
    before, names = logits(model), [n for n, _ in model.named_parameters()]
    adapter = nn.add_lora(model, rank=2, targets=targets)
    assert np.array_equal(logits(model), before)
    assert [n for n, _ in model.named_parameters() if "lora" not in n] == names
    trained = {n for n, p in model.named_parameters() if p.requires_grad}
    assert trained == set(adapter.state_dict())


def trained(model: lm.GPT, adapter: nn.LoRA, steps: int = 20) -> list[float]:
    optimizer = optim.AdamW(list(adapter.parameters()), lr=0.05, weight_decay=0.0)
    losses = []
    for _ in range(steps):
        loss = tg.cross_entropy(model(IDS), np.roll(IDS, -1, axis=1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu"])
def test_training_moves_adapters_alone_and_merging_changes_nothing(activation: str) -> None:
    model = gpt(activation=activation)
    base = [n for n, _ in model.named_parameters()]
    before = bytes_of(model, base)
    adapter = nn.add_lora(model, rank=4, alpha=8)
    losses = trained(model, adapter)
    assert losses[-1] < losses[0] - 0.05
    assert bytes_of(model, base) == before
    apart = logits(model)
    adapter.merge()
    assert bytes_of(model, base) != before
    assert np.abs(logits(model) - apart).max() < 1e-5
    adapter.merge()  # again: nothing
    assert np.abs(logits(model) - apart).max() < 1e-5
    adapter.unmerge()
    assert bytes_of(model, base) == before
    assert np.array_equal(logits(model), apart)


def test_the_adapter_is_the_product_of_its_matrices() -> None:
    layer = nn.Linear(5, 3)
    model = nn.Sequential(layer)
    adapter = nn.add_lora(model, rank=2, alpha=6)
    lora = adapter.layers["0"]
    rng = np.random.default_rng(0)
    lora.lora_B.data = rng.normal(size=(3, 2)).astype(np.float32)
    x = rng.normal(size=(4, 5)).astype(np.float32)
    a, b = lora.lora_A.detach().numpy(), lora.lora_B.detach().numpy()
    weight, bias = (p.detach().numpy() for p in (layer.weight, layer.bias))
    wanted = x @ weight.T + bias + 3.0 * (x @ a.T) @ b.T
    with tg.no_grad():
        assert np.allclose(model(tg.Tensor(x)).numpy(), wanted, atol=1e-5)
        residual = tg.Tensor(np.ones((4, 3), np.float32))
        assert np.allclose(lora(tg.Tensor(x), None, residual).numpy(), wanted + 1, atol=1e-5)
        relu = lora(tg.Tensor(x), "relu", residual).numpy()
        assert np.allclose(relu, np.maximum(wanted, 0) + 1, atol=1e-5)


def test_the_count_of_gpt2_is_the_published_one() -> None:
    """Rank 8 on c_attn of GPT-2's 12 layers of width 768: 294,912 (0.24 % of 124 million)."""
    block = nn.Linear(768, 3 * 768)
    adapter = nn.add_lora(nn.Sequential(*[block] + [nn.Linear(768, 3 * 768) for _ in range(11)]), 8)
    assert adapter.num_parameters() == 294_912


def test_an_adapter_is_taken_to_another_copy_of_the_base() -> None:
    first, second = gpt(), gpt()
    adapter = nn.add_lora(first, rank=2, targets=["qkv"])
    trained(first, adapter, 3)
    other = nn.add_lora(second, rank=2, targets=["qkv"])
    other.load_state_dict(adapter.state_dict())
    assert np.array_equal(logits(first), logits(second))
    with pytest.raises(ValueError, match=r"it lacks .*lora_A.* has what this model has not: x"):
        other.load_state_dict({"x": np.zeros(3)})
    state = adapter.state_dict()
    name = next(iter(state))
    with pytest.raises(ValueError, match="has other shapes for"):
        other.load_state_dict({**state, name: np.zeros((3, 3))})
    assert np.array_equal(logits(first), logits(second))


def test_removing_gives_plain_layers_back() -> None:
    model = gpt()
    before = logits(model)
    adapter = nn.add_lora(model, rank=2)
    trained(model, adapter, 2)
    merged = logits(model)
    adapter.merge()
    adapter.remove()
    assert not any("lora" in n for n, _ in model.named_parameters())
    assert all(p.requires_grad for p in model.parameters())
    assert np.abs(logits(model) - merged).max() < 1e-5
    assert not np.array_equal(logits(model), before)


@pytest.mark.parametrize(("options", "said"), [
    ({"targets": ["nosuch"]}, "those of this model are called 0, 1, out_proj, qkv"),
    ({"rank": 0}, "rank=0"), ({"rank": 17}, "expected 1 to 16"),
])  # fmt: skip
def test_what_cannot_be_is_said_and_changes_nothing(options: dict[str, Any], said: str) -> None:
    model = gpt()
    with pytest.raises(ValueError, match=said):
        nn.add_lora(model, **options)
    assert all(p.requires_grad for p in model.parameters())
    assert not any("lora" in n for n, _ in model.named_parameters())


def test_dropout_of_the_adapter_is_of_training_only() -> None:
    model = gpt()
    adapter = nn.add_lora(model, rank=2, dropout=0.5, generator=np.random.default_rng(0))
    trained(model, adapter, 2)
    model.train()
    assert not np.array_equal(logits(model), logits(model))
    model.eval()
    assert np.array_equal(logits(model), logits(model))


@pytest.mark.parametrize(("activation", "kept"), [(None, 2), ("gelu", 3)])
def test_an_adapter_keeps_one_array_as_wide_as_the_output(
    activation: str | None, kept: int
) -> None:
    model = nn.Sequential(nn.Linear(3, 40))
    nn.add_lora(model, rank=2)
    x = tg.randn(5, 3)
    found, rest = {}, [model[0](x, activation=activation)]
    while rest:
        node = rest.pop()
        found[id(node)] = node
        rest += [other for other in node.inputs if id(other) not in found]
    wide = [node for node in found.values() if node.shape == (5, 40)]
    assert len(wide) == kept  # what the adapter adds, the sum, and its activation
