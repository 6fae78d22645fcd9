"""The Llama: its shape, its start, and that it cannot see the future."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import lm, optim

SMALL = lm.LlamaConfig(
    vocab_size=11, block_size=8, num_layers=2, num_heads=4, num_kv_heads=2, embed_dim=16
)
UNTIED = dataclasses.replace(SMALL, tied_head=False, num_kv_heads=1)


@pytest.fixture(params=[SMALL, UNTIED], ids=["tied", "untied"])
def model(request: Any) -> lm.Llama:
    return lm.Llama(request.param, np.random.default_rng(0))


@pytest.fixture
def batch() -> tuple[np.ndarray, np.ndarray]:
    ids = np.random.default_rng(1).integers(0, 11, (3, 9))
    return ids[:, :-1], ids[:, 1:]


def test_defaults_are_filled_in() -> None:
    config = lm.LlamaConfig(vocab_size=65)
    assert (config.num_kv_heads, config.hidden_dim) == (4, 344)  # 8/3 · 128 is 341.3
    assert lm.LlamaConfig(65, embed_dim=96).hidden_dim == 256


def test_names_of_the_weights_are_those_that_files_are_made_of() -> None:
    names = {name: p.shape for name, p in lm.Llama(UNTIED).state_dict().items()}
    block = {
        "norm_1.weight": (16,), "attn.q_proj.weight": (16, 16), "attn.k_proj.weight": (4, 16),
        "attn.v_proj.weight": (4, 16), "attn.out_proj.weight": (16, 16), "norm_2.weight": (16,),
        "mlp.gate.weight": (48, 16), "mlp.up.weight": (48, 16), "mlp.down.weight": (16, 48),
    }  # fmt: skip
    blocks = {f"blocks.{i}.{name}": shape for i in range(2) for name, shape in block.items()}
    ends = {"token_embedding.weight": (11, 16), "final_norm.weight": (16,)}
    assert names == {**ends, **blocks, "head.weight": (11, 16)}
    assert "head.weight" not in lm.Llama(SMALL).state_dict()


def test_loss_at_the_start_is_about_that_of_guessing(
    model: lm.Llama, batch: tuple[np.ndarray, ...]
) -> None:
    assert model(batch[0]).shape == (3, 8, 11)
    assert model.loss(*batch).item() == pytest.approx(math.log(11), abs=0.1)


def test_starting_weights_have_the_gpts_spread() -> None:
    model = lm.Llama(lm.LlamaConfig(65, num_layers=8, tied_head=False), np.random.default_rng(0))
    writers = 0
    for name, parameter in model.named_parameters():
        if name.endswith(("out_proj.weight", "down.weight")):
            writers += 1
            assert parameter.data.std() == pytest.approx(0.02 / 4, rel=0.05), name
        elif parameter.ndim == 2:
            assert parameter.data.std() == pytest.approx(0.02, rel=0.05), name
        else:
            assert (parameter.data == 1).all(), name
    assert writers == 16


def test_changing_a_token_changes_no_prediction_before_it(
    model: lm.Llama, batch: tuple[np.ndarray, ...]
) -> None:
    ids = batch[0]
    before = model(ids).data
    for position in range(ids.shape[1]):
        changed = ids.copy()
        changed[:, position] = (changed[:, position] + 1) % 11
        after = model(changed).data
        np.testing.assert_array_equal(after[:, :position], before[:, :position])
        assert not np.allclose(after[:, position], before[:, position])


def test_the_order_of_tokens_matters(model: lm.Llama) -> None:
    one, other = model(np.array([[1, 2, 3]])).data, model(np.array([[2, 1, 3]])).data
    assert np.abs(one[0, 2] - other[0, 2]).max() > 1e-6


def test_every_parameter_gets_a_gradient(model: lm.Llama, batch: tuple[np.ndarray, ...]) -> None:
    model.loss(*batch).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and np.abs(parameter.grad.data).max() > 0, name


def test_targets_of_minus_100_are_not_scored(
    model: lm.Llama, batch: tuple[np.ndarray, ...]
) -> None:
    ids, targets = batch
    masked = targets.copy()
    masked[:, :5] = -100
    wanted = tg.cross_entropy(model(ids)[:, 5:], targets[:, 5:]).item()
    assert model.loss(ids, masked).item() == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("change", [{"rope_theta": 10.0}, {"eps": 1e-2}])
def test_theta_and_epsilon_reach_every_block(change: dict[str, float]) -> None:
    model = lm.Llama(dataclasses.replace(SMALL, **change), np.random.default_rng(0))
    for block in model.blocks:
        assert block.attn.theta == model.config.rope_theta
        assert block.norm_1.eps == block.norm_2.eps == model.config.eps
    assert isinstance(model.final_norm, tg.nn.RMSNorm)
    assert model.final_norm.eps == model.config.eps
    plain = lm.Llama(SMALL, np.random.default_rng(0))
    ids = np.arange(8)[None, :]
    assert np.abs(model(ids).data - plain(ids).data).max() > 1e-6


def test_loss_falls_on_a_repeated_batch(model: lm.Llama, batch: tuple[np.ndarray, ...]) -> None:
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(60):
        loss = model.loss(*batch)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward(retain_graph=False)
        optimizer.step()
    assert losses[-1] < 0.2 * losses[0]


def test_fused_and_unfused_models_agree(model: lm.Llama, batch: tuple[np.ndarray, ...]) -> None:
    fused = model.loss(*batch)
    fused.backward()
    gradients = [parameter.grad.numpy().copy() for parameter in model.parameters()]
    model.zero_grad()
    with tg.unfused():
        reference = model.loss(*batch)
    reference.backward()
    assert fused.item() == pytest.approx(reference.item(), rel=1e-5)
    for kernel, parameter in zip(gradients, model.parameters(), strict=True):
        np.testing.assert_allclose(kernel, parameter.grad.numpy(), rtol=1e-3, atol=1e-6)


def test_dropout_acts_in_training_only() -> None:
    config = dataclasses.replace(SMALL, dropout=0.5)
    ids = np.arange(8)[None, :]
    model = lm.Llama(config, np.random.default_rng(0))
    assert (model(ids).data != model(ids).data).any()
    model.eval()
    np.testing.assert_array_equal(model(ids).data, model(ids).data)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"num_layers": 0}, "LlamaConfig was given num_layers=0; it must be 1 or more"),
        ({"hidden_dim": -1}, "hidden_dim=-1; it must be 1 or more"),
        ({"num_kv_heads": 3}, "num_heads=4 and num_kv_heads=3; each of these serves as many"),
        ({"num_heads": 16, "num_kv_heads": 1}, "heads of width 1; rotary positions turn numbers"),
        ({"embed_dim": 18}, "embed_dim=18 and num_heads=4; the heads share the width evenly"),
        ({"rope_theta": 0.0}, "rope_theta=0.0; it must be above 0"),
        ({"dropout": 1.0}, "dropout=1.0; it must be 0 or more and less than 1"),
    ],
)
def test_sizes_that_no_llama_has_are_refused(sizes: dict[str, Any], words: str) -> None:
    with pytest.raises(lm.ConfigError, match=words):
        dataclasses.replace(SMALL, **sizes)


def test_more_tokens_than_the_block_are_refused(model: lm.Llama) -> None:
    with pytest.raises(tg.errors.ShapeError, match="Llama was given 9 tokens, expected 1 to 8"):
        model(np.zeros((1, 9), dtype=np.int64))
