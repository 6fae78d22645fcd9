"""The GPT: its shape, its start, and that it cannot see the future."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import lm, optim

SMALL = lm.GPTConfig(vocab_size=11, block_size=8, num_layers=2, num_heads=2, embed_dim=16)


@pytest.fixture
def model() -> lm.GPT:
    return lm.GPT(SMALL, np.random.default_rng(0))


@pytest.fixture
def batch() -> tuple[np.ndarray, np.ndarray]:
    ids = np.random.default_rng(1).integers(0, 11, (3, 9))
    return ids[:, :-1], ids[:, 1:]


def nanogpt_parameters(config: lm.GPTConfig) -> int:
    """By hand: a block has 12·C² weights, 9·C biases, 4·C in norms; two tables; the last norm."""
    width = config.embed_dim
    block = 12 * width**2 + 2 * width
    block += 9 * width + 2 * width if config.bias else 0
    norm = 2 * width if config.bias else width
    return (config.vocab_size + config.block_size) * width + config.num_layers * block + norm


@pytest.mark.parametrize("bias", [True, False])
def test_parameter_count_is_nanogpts(bias: bool) -> None:
    config = lm.GPTConfig(vocab_size=65, bias=bias)
    model = lm.GPT(config, np.random.default_rng(0))
    assert model.num_parameters() == nanogpt_parameters(config)


def test_nanogpts_cpu_recipe_has_its_published_parameter_count() -> None:
    model = lm.GPT(lm.GPTConfig(vocab_size=65, bias=False), np.random.default_rng(0))
    assert model.num_parameters() == 804_096
    assert model.num_parameters(positions=False) == 795_904


def test_logits_have_one_row_a_position(model: lm.GPT, batch: tuple[np.ndarray, ...]) -> None:
    assert model(batch[0]).shape == (3, 8, 11)
    assert model(batch[0][:, :3]).shape == (3, 3, 11)


def test_loss_at_the_start_is_about_that_of_guessing(
    model: lm.GPT, batch: tuple[np.ndarray, ...]
) -> None:
    assert model.loss(*batch).item() == pytest.approx(math.log(11), abs=0.1)


def test_starting_weights_have_nanogpts_spread() -> None:
    config = lm.GPTConfig(vocab_size=65, num_layers=8)
    model = lm.GPT(config, np.random.default_rng(0))
    residual = 0
    for name, parameter in model.named_parameters():
        data = parameter.data
        if name.endswith(("out_proj.weight", "mlp.layers.1.weight")):
            residual += 1
            assert data.std() == pytest.approx(0.02 / math.sqrt(16), rel=0.05), name
        elif data.ndim == 2:
            assert data.std() == pytest.approx(0.02, rel=0.05), name
            assert abs(data.mean()) < 1e-3
        elif name.endswith("bias"):
            assert (data == 0).all(), name
        else:
            assert (data == 1).all(), name
    assert residual == 16


def test_changing_a_token_changes_no_prediction_before_it(
    model: lm.GPT, batch: tuple[np.ndarray, ...]
) -> None:
    ids = batch[0]
    before = model(ids).data
    for position in range(ids.shape[1]):
        changed = ids.copy()
        changed[:, position] = (changed[:, position] + 1) % 11
        after = model(changed).data
        np.testing.assert_array_equal(after[:, :position], before[:, :position])
        assert not np.allclose(after[:, position], before[:, position])


def test_head_is_the_token_embedding(model: lm.GPT, batch: tuple[np.ndarray, ...]) -> None:
    assert not [name for name in model.state_dict() if "head" in name]
    features = model.features(batch[0]).data
    np.testing.assert_allclose(
        model(batch[0]).data,
        features @ model.token_embedding.weight.data.T,
        rtol=1e-4,
        atol=1e-6,
    )
    model.loss(*batch).backward()
    gradient = model.token_embedding.weight.grad
    assert gradient is not None
    unused = sorted(set(range(11)) - set(batch[0].ravel().tolist()))
    rows = unused or [0]
    assert (np.abs(gradient.numpy()[rows]).max(axis=1) > 0).all(), "the head's part is missing"


def test_every_parameter_gets_a_gradient_and_moves(
    model: lm.GPT, batch: tuple[np.ndarray, ...]
) -> None:
    before = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    optimizer = optim.SGD(model.parameters(), lr=1.0)
    for _ in range(2):
        optimizer.zero_grad()
        model.loss(*batch).backward()
        optimizer.step()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert (parameter.data != before[name]).any(), name


def test_loss_falls_on_a_repeated_batch(model: lm.GPT, batch: tuple[np.ndarray, ...]) -> None:
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(60):
        loss = model.loss(*batch)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward(retain_graph=False)
        optimizer.step()
    assert losses[-1] < 0.2 * losses[0]


def test_more_tokens_than_the_block_are_refused(model: lm.GPT) -> None:
    with pytest.raises(tg.errors.ShapeError, match="given 9 tokens, expected 1 to 8"):
        model(np.zeros((1, 9), dtype=np.int64))


def test_a_token_outside_the_vocabulary_is_refused(model: lm.GPT) -> None:
    with pytest.raises((ValueError, IndexError), match="11"):
        model(np.array([[3, 11]]))


def test_generating_continues_each_row_and_crops_to_the_block(model: lm.GPT) -> None:
    prompt = np.arange(20).reshape(2, 10) % 11
    written = model.generate(prompt, 5, generator=np.random.default_rng(0))
    assert written.shape == (2, 15)
    np.testing.assert_array_equal(written[:, :10], prompt)
    seen = model.generate(prompt[:, 2:], 5, generator=np.random.default_rng(0))
    np.testing.assert_array_equal(written[:, 10:], seen[:, 8:])
    assert model.generate([1, 2], 3, temperature=0).shape == (5,)


def test_generating_leaves_the_model_as_it_was(model: lm.GPT) -> None:
    model.blocks[0].eval()
    flags = [module.training for module in model.modules()]
    model.generate([1, 2], 3)
    assert [module.training for module in model.modules()] == flags
    assert all(parameter.grad is None for parameter in model.parameters())
    assert tg.is_grad_enabled()


def test_dropout_acts_in_training_only_and_comes_from_the_models_generator() -> None:
    config = lm.GPTConfig(11, block_size=8, num_layers=1, num_heads=2, embed_dim=16, dropout=0.5)
    ids = np.arange(8)[None, :]
    twins = [lm.GPT(config, np.random.default_rng(0)) for _ in range(2)]
    first, second = (twin(ids).data for twin in twins)
    np.testing.assert_array_equal(first, second)
    assert (twins[0](ids).data != first).any()
    twins[0].eval()
    np.testing.assert_array_equal(twins[0](ids).data, twins[0](ids).data)


def test_fused_and_unfused_models_agree(model: lm.GPT, batch: tuple[np.ndarray, ...]) -> None:
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


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"num_layers": 0}, "num_layers=0; it must be 1 or more"),
        ({"vocab_size": 0}, "vocab_size=0; it must be 1 or more"),
        ({"num_heads": 3}, "embed_dim=16 and num_heads=3"),
        ({"dropout": 1.0}, "dropout=1.0; it must be 0 or more and less than 1"),
    ],
)
def test_sizes_that_no_gpt_has_are_refused(sizes: dict[str, Any], words: str) -> None:
    with pytest.raises(lm.ConfigError, match=words):
        dataclasses.replace(SMALL, **sizes)


@pytest.mark.parametrize("count", [0, 1])
def test_a_text_without_a_pair_cannot_be_evaluated(model: lm.GPT, count: int) -> None:
    with pytest.raises(lm.TextError, match=f"was given {count} of the 2 tokens"):
        lm.evaluate(model, np.zeros(count, dtype=np.int64), batch_size=4)
