"""Layers and losses against closed forms, their starting weights, and what they refuse."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import nn
from tinygrad_edu.nn import functional as F


def draw(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


# Closed forms.


def test_linear_is_x_times_w_transposed_plus_b() -> None:
    layer = nn.Linear(4, 3).to(np.float64)
    x = draw(2, 5, 4)
    assert layer.bias is not None
    wanted = x @ layer.weight.data.T + layer.bias.data
    np.testing.assert_allclose(layer(tg.tensor(x)).data, wanted, rtol=1e-12)


@pytest.mark.parametrize("activation", ["relu", "silu", "tanh", "sigmoid", "gelu", "gelu_tanh"])
def test_linear_fuses_activation_and_residual(activation: str) -> None:
    layer = nn.Linear(4, 3).to(np.float64)
    x, residual = tg.tensor(draw(2, 4)), tg.tensor(draw(2, 3, seed=1))
    plain = layer(x)
    name, kind = activation.split("_") if "_" in activation else (activation, "none")
    apart = F.gelu(plain, approximate=kind) if name == "gelu" else getattr(F, name)(plain)
    fused = layer(x, activation=activation, residual=residual)
    np.testing.assert_allclose(fused.data, (apart + residual).data, rtol=1e-12)


def test_embedding_picks_rows_for_ids_of_any_shape() -> None:
    table = nn.Embedding(5, 3)
    ids = np.array([[0, 4], [4, 2]])
    assert np.array_equal(table(ids).data, table.weight.data[ids])
    assert table(tg.tensor(np.array(3))).shape == (3,)


def test_the_padding_row_starts_at_zero_and_stays_there() -> None:
    table = nn.Embedding(5, 3, padding_idx=-1)
    assert table.padding_idx == 4
    assert np.array_equal(table.weight.data[4], np.zeros(3))
    assert np.all(table.weight.data[:4] != 0)
    table(np.array([4, 4, 1])).sum().backward()
    tg.optim.SGD(table.parameters(), lr=1.0).step()
    assert np.array_equal(table.weight.data[4], np.zeros(3))


def test_layer_norm_has_mean_zero_and_variance_one() -> None:
    x = 3.0 + 2.0 * draw(6, 8)
    y = nn.LayerNorm(8, dtype=np.float64)(tg.tensor(x)).data
    wanted = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, wanted, rtol=1e-12)


def test_layer_norms_eps_and_weights_matter() -> None:
    x = tg.tensor(draw(2, 4))
    plain = nn.LayerNorm(4, dtype=np.float64)
    damped = nn.LayerNorm(4, eps=1.0, dtype=np.float64)
    assert np.all(np.abs(damped(x).data) < np.abs(plain(x).data))
    assert plain.weight is not None and plain.bias is not None
    plain.weight.data = np.full(4, 2.0)
    plain.bias.data = np.full(4, 7.0)
    bare = nn.LayerNorm(4, elementwise_affine=False)
    assert bare.weight is None and bare.bias is None
    np.testing.assert_allclose(plain(x).data, 2.0 * bare(x).data + 7.0)


def test_layer_norm_over_several_axes_normalises_them_together() -> None:
    x = draw(3, 2, 4)
    y = nn.LayerNorm((2, 4), dtype=np.float64)(tg.tensor(x)).data
    np.testing.assert_allclose(y.reshape(3, 8).mean(-1), 0, atol=1e-12)
    np.testing.assert_allclose(y.reshape(3, 8).var(-1), 1, rtol=1e-4)


def test_dropout_drops_a_share_scales_the_rest_and_rests_in_eval() -> None:
    layer = nn.Dropout(0.25, generator=np.random.default_rng(0))
    x = tg.ones(100, 100)
    y = layer(x).data
    assert set(np.unique(y)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((y == 0).mean() - 0.25) < 0.02
    assert not np.array_equal(layer(x).data, y)
    assert np.array_equal(layer.eval()(x).data, x.data)
    again = nn.Dropout(0.25, generator=np.random.default_rng(0))
    assert np.array_equal(again(x).data, y)
    assert not nn.Dropout(0.0).active


def test_learned_positions_add_their_rows() -> None:
    layer = nn.LearnedPositions(5, 3)
    x = draw(2, 4, 3)
    np.testing.assert_allclose(layer(tg.tensor(x)).data, x + layer.weight.data[:4], rtol=1e-6)


def softmax(s: Any) -> Any:
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("with_mask", [True, False])
def test_attention_is_softmax_of_scores_times_values(causal: bool, with_mask: bool) -> None:
    batch, time, width, heads = 2, 5, 6, 3
    layer = nn.MultiHeadAttention(width, heads, causal=causal).to(np.float64)
    for bias in (layer.qkv.bias, layer.out_proj.bias):
        assert bias is not None
        bias.data = draw(*bias.shape, seed=3)
    x = draw(batch, time, width)
    mask = np.random.default_rng(1).random((batch, 1, time, time)) < 0.6
    mask |= np.eye(time, dtype=bool)
    allowed = np.tril(np.ones((time, time), dtype=bool)) if causal else np.True_
    if with_mask:
        allowed = allowed & mask
    packed = x @ layer.qkv.weight.data.T + layer.qkv.bias.data  # type: ignore[union-attr]
    heads_of = [
        part.reshape(batch, time, heads, -1).swapaxes(1, 2) for part in np.split(packed, 3, axis=-1)
    ]
    q, k, v = heads_of
    scores = np.where(allowed, q @ k.swapaxes(-1, -2) / math.sqrt(width / heads), -np.inf)
    mixed = (softmax(scores) @ v).swapaxes(1, 2).reshape(batch, time, width)
    wanted = mixed @ layer.out_proj.weight.data.T + layer.out_proj.bias.data  # type: ignore[union-attr]
    got = layer(tg.tensor(x), mask=mask if with_mask else None)
    np.testing.assert_allclose(got.data, wanted, rtol=1e-10, atol=1e-12)
    residual = tg.tensor(draw(batch, time, width, seed=2))
    with_residual = layer(tg.tensor(x), mask=mask if with_mask else None, residual=residual)
    np.testing.assert_allclose(with_residual.data, wanted + residual.data, rtol=1e-10, atol=1e-12)


def test_a_causal_block_does_not_see_the_future_and_another_does() -> None:
    for causal in (True, False):
        block = nn.TransformerBlock(8, 2, causal=causal).to(np.float64)
        x = draw(1, 6, 8)
        changed = x.copy()
        changed[0, 4] += 1.0
        before, after = block(tg.tensor(x)).data, block(tg.tensor(changed)).data
        assert np.array_equal(before[0, :4], after[0, :4]) == causal
        assert not np.allclose(before[0, 4:], after[0, 4:])


def test_a_block_is_the_residual_sum_of_its_two_branches() -> None:
    block = nn.TransformerBlock(8, 2).to(np.float64)
    x = tg.tensor(draw(2, 3, 8))
    middle = x + block.attn(block.ln_1(x))
    wanted = middle + block.mlp(block.ln_2(middle))
    np.testing.assert_allclose(block(x).data, wanted.data, rtol=1e-12)


def test_a_blocks_dropout_acts_in_training_only() -> None:
    block = nn.TransformerBlock(8, 2, dropout=0.5, generator=np.random.default_rng(0))
    x = tg.tensor(draw(2, 3, 8).astype(np.float32))
    assert not np.array_equal(block(x).data, block(x).data)
    block.eval()
    assert np.array_equal(block(x).data, block(x).data)
    attention = nn.MultiHeadAttention(8, 2, dropout=0.5)
    assert not np.array_equal(attention(x).data, attention(x).data)


def test_an_mlp_puts_its_activation_between_layers_and_not_after_the_last() -> None:
    mlp = nn.MLP(3, [4, 5], 2, activation="relu").to(np.float64)
    first, second, last = mlp.layers
    x = tg.tensor(draw(7, 3))
    wanted = last(F.relu(second(F.relu(first(x)))))
    np.testing.assert_allclose(mlp(x).data, wanted.data, rtol=1e-12)
    assert [layer.out_features for layer in nn.MLP(3, 7).layers] == [7, 3]


@pytest.mark.parametrize(
    ("p", "loss"), [(0.99, 0.010), (0.9, 0.105), (0.5, 0.693), (0.05, 2.996), (0.001, 6.908)]
)
def test_cross_entropy_is_minus_log_p(p: float, loss: float) -> None:
    logits = tg.tensor([[math.log(p), math.log(1 - p)]])
    assert nn.CrossEntropyLoss()(logits, np.array([0])).item() == pytest.approx(loss, abs=5e-4)


def test_cross_entropy_reductions_and_ignored_targets() -> None:
    logits, targets = tg.tensor(draw(4, 3)), np.array([0, 2, -100, 1])
    each = nn.CrossEntropyLoss(reduction="none")(logits, targets).data
    assert each[2] == 0 and each.shape == (4,)
    assert nn.CrossEntropyLoss(reduction="sum")(logits, targets).item() == pytest.approx(each.sum())
    assert nn.CrossEntropyLoss()(logits, targets).item() == pytest.approx(each.sum() / 3)
    other = nn.CrossEntropyLoss(ignore_index=2)(logits, np.array([0, 2, 2, 1])).item()
    assert other == pytest.approx((each[0] + each[3]) / 2)


def test_mse_reductions() -> None:
    a, b = draw(3, 2), draw(3, 2, seed=1)
    squares = (a - b) ** 2
    assert nn.MSELoss()(tg.tensor(a), b).item() == pytest.approx(squares.mean())
    assert nn.MSELoss(reduction="sum")(tg.tensor(a), b).item() == pytest.approx(squares.sum())
    np.testing.assert_allclose(nn.MSELoss(reduction="none")(tg.tensor(a), b).data, squares)


def test_mse_does_not_broadcast_without_a_word() -> None:
    with pytest.raises(tg.errors.ShapeError, match=r"\(3, 1\) and \(3,\)"):
        nn.MSELoss()(tg.ones(3, 1), tg.ones(3))


def test_pytorchs_attention_arguments() -> None:
    q, k, v = (tg.tensor(draw(2, 4, 3, seed=i)) for i in range(3))
    mask = np.tril(np.ones((4, 4), dtype=bool))
    causal = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    masked = F.scaled_dot_product_attention(q, k, v, mask)
    np.testing.assert_allclose(causal.data, masked.data, rtol=1e-12)
    np.testing.assert_allclose(causal.data, F.attention(q, k, v, causal=True).data, rtol=1e-12)
    flat = F.scaled_dot_product_attention(q, k, v, scale=0.0)
    np.testing.assert_allclose(flat.data, np.broadcast_to(v.data.mean(1, keepdims=True), (2, 4, 3)))


# Containers.


def test_sequential_is_a_list_that_can_be_called() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    net.append(nn.Linear(3, 1))
    assert len(net) == 3 and isinstance(net[-1], nn.Linear)
    assert [type(m).__name__ for m in net] == ["Linear", "ReLU", "Linear"]
    assert type(net[:2]) is nn.Sequential and net[:2][0] is net[0]
    net[1] = nn.Tanh()
    net.insert(0, nn.Identity())
    assert [type(m).__name__ for m in net] == ["Identity", "Linear", "Tanh", "Linear"]
    del net[0]
    assert list(net.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert net(tg.ones(5, 2)).shape == (5, 1)
    named = nn.Sequential({"down": nn.Linear(2, 1), "act": nn.ReLU()})
    assert list(named.state_dict()) == ["down.weight", "down.bias"]
    with pytest.raises(IndexError, match="holds 3 modules, index 3"):
        net[3]
    with pytest.raises(TypeError, match="function"):
        nn.Sequential(nn.ReLU(), lambda x: x)  # type: ignore[arg-type]


def test_module_list_and_dict_hold_modules() -> None:
    rows = nn.ModuleList(nn.Linear(1, 1) for _ in range(3))
    assert len(rows) == 3 and len(list(rows.parameters())) == 6
    assert rows.extend([nn.ReLU()])[3].__class__ is nn.ReLU
    assert type(rows[1:]) is nn.ModuleList and len(rows[1:]) == 3
    table = nn.ModuleDict({"a": nn.ReLU()})
    table["b"] = nn.Linear(1, 1)
    assert list(table) == table.keys() == ["a", "b"] and "b" in table and len(table) == 2
    assert [type(m).__name__ for _, m in table.items()] == ["ReLU", "Linear"]
    del table["a"]
    assert [type(m).__name__ for m in table.values()] == ["Linear"]
    with pytest.raises(KeyError, match="'a' is not among b"):
        table["a"]
    with pytest.raises(ValueError, match="'keys'"):
        table["keys"] = nn.ReLU()


# Starting weights.


def close_to_uniform(values: Any, bound: float) -> None:
    assert np.abs(values).max() <= bound
    assert np.abs(values).max() > 0.99 * bound
    assert values.std() == pytest.approx(bound / math.sqrt(3), rel=0.03)
    assert abs(values.mean()) < 0.03 * bound


def test_linear_starts_uniform_within_one_over_root_in() -> None:
    tg.manual_seed(0)
    layer = nn.Linear(100, 400)
    close_to_uniform(layer.weight.data, 0.1)
    assert layer.bias is not None
    assert 0.09 < np.abs(layer.bias.data).max() <= 0.1


def test_embedding_and_positions_start_normal_and_layer_norm_at_one_and_zero() -> None:
    tg.manual_seed(0)
    for table in (nn.Embedding(200, 100), nn.LearnedPositions(200, 100)):
        assert table.weight.data.std() == pytest.approx(1.0, rel=0.02)
        assert abs(table.weight.data.mean()) < 0.02
    norm = nn.LayerNorm(5)
    assert norm.weight is not None and norm.bias is not None
    assert np.array_equal(norm.weight.data, np.ones(5))
    assert np.array_equal(norm.bias.data, np.zeros(5))


def test_attention_starts_xavier_packed_with_zero_biases() -> None:
    tg.manual_seed(0)
    layer = nn.MultiHeadAttention(64, 4)
    close_to_uniform(layer.qkv.weight.data, math.sqrt(6 / (64 + 192)))
    close_to_uniform(layer.out_proj.weight.data, 1 / 8)
    for bias in (layer.qkv.bias, layer.out_proj.bias):
        assert bias is not None and not bias.data.any()


def test_a_generator_of_ones_own_is_used_and_the_default_left_alone() -> None:
    def made(**options: Any) -> Any:
        return nn.TransformerBlock(8, 2, **options).mlp.layers[1].weight.data

    tg.manual_seed(0)
    first = made(generator=np.random.default_rng(5))
    untouched = made()
    tg.manual_seed(0)
    assert np.array_equal(made(), untouched)
    assert np.array_equal(made(generator=np.random.default_rng(5)), first)


def test_the_default_dtype_and_an_explicit_one() -> None:
    assert nn.Linear(2, 2).weight.dtype == np.float32
    assert nn.TransformerBlock(4, 2, dtype=np.float64).attn.qkv.weight.dtype == np.float64
    assert nn.Embedding(2, 2, dtype=np.float64).weight.dtype == np.float64


# What is refused.


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Linear(0, 2), "in_features=0"),
        (lambda: nn.Linear(2, 2.5), r"out_features=2\.5"),  # type: ignore[arg-type]
        (lambda: nn.Embedding(-1, 2), "num_embeddings=-1"),
        (lambda: nn.Embedding(3, 2, padding_idx=3), "padding_idx=3"),
        (lambda: nn.LearnedPositions(0, 2), "num_positions=0"),
        (lambda: nn.LayerNorm(0), "=0"),
        (lambda: nn.LayerNorm(()), "normalized_shape="),
        (lambda: nn.Dropout(1.5), r"p=1\.5"),
        (lambda: nn.Dropout(1.0), r"p=1\.0, expected a probability of at least 0 and below 1"),
        (lambda: nn.GELU("erf"), "approximate='erf'"),
        (lambda: nn.MLP(2, 2, activation="swish"), "activation='swish'.*gelu"),
        (lambda: nn.MultiHeadAttention(6, 4), "embed_dim=6 and num_heads=4"),
        (lambda: nn.MultiHeadAttention(6, 2, dropout=1.0), r"dropout=1\.0"),
        (lambda: nn.CrossEntropyLoss(reduction="avg"), "reduction='avg'"),
        (lambda: nn.MSELoss(reduction="avg"), "reduction='avg'"),
    ],
)
def test_bad_options_are_named(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.Linear(3, 2)(tg.ones(4, 5)), r"\(4, 5\)"),
        (lambda: nn.LayerNorm(3)(tg.ones(4, 5)), r"\(4, 5\).*\(3,\)"),
        (lambda: nn.LearnedPositions(3, 2)(tg.ones(1, 4, 2)), r"\(1, 4, 2\).*at most 3"),
        (lambda: nn.MultiHeadAttention(4, 2)(tg.ones(3, 4)), r"\(3, 4\).*\(batch, time, 4\)"),
        (lambda: nn.MSELoss()(tg.ones(2), tg.ones(3)), r"\(2,\) and \(3,\)"),
    ],
)
def test_bad_shapes_are_named(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(tg.errors.ShapeError, match=message):
        call()


def test_a_token_out_of_range_is_named() -> None:
    with pytest.raises(IndexError, match="5"):
        nn.Embedding(5, 2)(np.array([0, 5]))
