"""What a report measures: attention weights, neighbours, the plane, kinds of work, curves."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tinygrad_edu as tg
from tinygrad_edu import lm, nn
from tinygrad_edu.autograd.profiling import Row
from tinygrad_edu.lm.report_attention import attention_weights
from tinygrad_edu.lm.report_charts import Chart, Series, short, thinned, ticks
from tinygrad_edu.lm.report_embeddings import neighbours, principal_plane
from tinygrad_edu.lm.report_time import kinds_of, spent

MakeConfig = Callable[..., lm.TrainConfig]
RNG = np.random.default_rng(5)


def softmax(scores: NDArray[Any]) -> NDArray[Any]:
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def norm(x: NDArray[Any], layer: Any) -> NDArray[Any]:
    centred = x - x.mean(-1, keepdims=True)
    y = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + layer.eps)
    return np.asarray(y * layer.weight.detach().numpy() + layer.bias.detach().numpy())


def grown(model: nn.Module) -> None:
    """Larger weights, so that heads look at something."""
    for parameter in model.parameters():
        parameter.data = parameter.data + RNG.normal(0, 0.3, parameter.shape).astype(np.float32)


def test_weights_of_a_gpt_are_those_worked_out_by_hand() -> None:
    model = lm.GPT(lm.GPTConfig(11, block_size=8, num_layers=2, num_heads=3, embed_dim=12))
    grown(model)
    ids = RNG.integers(0, 11, (2, 7))
    found = attention_weights(model, ids)
    assert list(found) == ["blocks.0.attn", "blocks.1.attn"]
    tables = (model.token_embedding.weight, model.position_embedding.weight)
    tokens, positions = (table.detach().numpy().astype(float) for table in tables)
    x = norm(tokens[ids] + positions[:7], model.blocks[0].ln_1)
    qkv = model.blocks[0].attn.qkv
    packed = x @ qkv.weight.detach().numpy().T + qkv.bias.detach().numpy()
    for head in range(3):
        q = packed[..., 4 * head : 4 * head + 4]
        k = packed[..., 12 + 4 * head : 16 + 4 * head]
        scores = q @ k.swapaxes(-1, -2) / 2.0
        scores[:, ~np.tri(7, dtype=bool)] = -np.inf
        np.testing.assert_allclose(found["blocks.0.attn"][:, head], softmax(scores), atol=2e-6)
    for weights in found.values():
        assert weights.shape == (2, 3, 7, 7)
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)
        assert not np.triu(weights, 1).any()


class Grouped(nn.Module):
    """Heads that share keys, of separate projections, which are turned by their place."""

    def __init__(self, shared: bool) -> None:
        super().__init__()
        self.shared = shared
        self.q_proj, self.k_proj = nn.Linear(8, 16, False), nn.Linear(8, 8, False)
        self.v_proj = nn.Linear(8, 8, False)

    def parts(self, x: Any) -> Any:
        batch, length, _ = x.shape
        q = self.q_proj(x).reshape(batch, length, 2, 2, 4).transpose(0, 2, 3, 1, 4)
        k, v = (
            layer(x).reshape(batch, length, 2, 1, 4).transpose(0, 2, 3, 1, 4)
            for layer in (self.k_proj, self.v_proj)
        )
        turn = np.cos(np.arange(length, dtype=np.float32))[:, None]
        q, k = q * turn, k * turn
        if self.shared:
            return q, k, v
        ones = np.ones((1, 1, 2, 1, 1), np.float32)
        return tuple(
            part.reshape(batch, 4, length, 4) for part in (q, k * ones, v * ones)
        )

    def forward(self, x: Any) -> Any:
        return tg.attention(*self.parts(x), causal=True)


class Outer(nn.Module):
    def __init__(self, shared: bool) -> None:
        super().__init__()
        self.inner = Grouped(shared)

    def forward(self, ids: Any) -> Any:
        return self.inner(tg.tensor(np.eye(8, dtype=np.float32)[ids]))


@pytest.mark.parametrize("shared", [True, False])
def test_weights_of_grouped_heads_with_rotated_keys(shared: bool) -> None:
    model = Outer(shared)
    for parameter in model.parameters():
        parameter.requires_grad = False
    ids = RNG.integers(0, 8, (2, 5))
    found = attention_weights(model, ids)["inner"]
    x = tg.tensor(np.eye(8, dtype=np.float32)[ids])
    q, k, _ = (part.detach().numpy() for part in model.inner.parts(x))
    scores = (q @ k.swapaxes(-1, -2) / 2.0).reshape(2, 4, 5, 5)
    scores[..., ~np.tri(5, dtype=bool)] = -np.inf
    np.testing.assert_allclose(found, softmax(scores), atol=1e-6)
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_looking_at_attention_changes_nothing_and_drops_nothing() -> None:
    model = lm.GPT(lm.GPTConfig(7, 8, 1, 2, 8, dropout=0.5), np.random.default_rng(0))
    ids = np.array([[1, 2, 3]])
    state = model.generator.bit_generator.state
    first, second = attention_weights(model, ids), attention_weights(model, ids)
    np.testing.assert_array_equal(first["blocks.0.attn"], second["blocks.0.attn"])
    assert model.generator.bit_generator.state == state and model.training
    assert all(parameter.grad is None for parameter in model.parameters())


def test_neighbours_are_the_largest_cosines() -> None:
    vectors = RNG.normal(size=(30, 6)).astype(np.float32)
    vectors[7] = 0
    vectors[9] = 3 * vectors[4]
    found = neighbours(vectors, [4, 7, 20], 3)
    for token, near in zip([4, 20], (found[0], found[2]), strict=True):
        cosines = []
        for other in range(30):
            a, b = vectors[token].astype(float), vectors[other].astype(float)
            size = math.sqrt(a @ a) * math.sqrt(b @ b)
            cosines.append((-(a @ b) / size if size else 0.0, other))
        best = sorted(pair for pair in cosines if pair[1] != token)[:3]
        assert [other for other, _ in near] == [other for _, other in best]
        assert [-cosine for _, cosine in near] == pytest.approx([cosine for cosine, _ in best])
    assert found[0][0] == (9, pytest.approx(1.0))
    assert found[1] == [(0, 0.0), (1, 0.0), (2, 0.0)], "a row of zeros is near to none"


def test_the_plane_is_that_of_the_covariances_largest_eigenvectors() -> None:
    points = RNG.normal(size=(40, 5)) * [5, 1, 3, 0.5, 0.1] + 7
    plane = principal_plane(points)
    values, vectors = np.linalg.eigh(np.cov(points.T))
    for axis, vector, place in zip(plane.axes, vectors.T[::-1], range(2), strict=False):
        assert abs(axis @ vector) == pytest.approx(1.0)
        assert axis[np.abs(axis).argmax()] > 0
        assert plane.shares[place] == pytest.approx(values[::-1][place] / values.sum())
    np.testing.assert_allclose(plane.project(points).mean(axis=0), 0, atol=1e-12)
    others = RNG.normal(size=(3, 5))
    np.testing.assert_allclose(plane.project(others), (others - points.mean(0)) @ plane.axes.T)


def test_kinds_of_work_leave_nothing_out() -> None:
    rows = [
        Row("m", "linear", "forward", 1, 1.0, 0), Row("m", "linear", "backward", 1, 2.0, 0),
        Row("m", "attention", "forward", 1, 0.5, 0), Row("", "python", "backward", 1, 0.25, 0),
        Row("", "python", "optimizer", 1, 4.0, 0), Row("m", "gelu", "forward", 1, 0.1, 0),
    ]  # fmt: skip
    found = {kind.name: (kind.forward, kind.backward, kind.rest) for kind in kinds_of(rows)}
    assert found == {
        "optimizer": (0, 0, 4.0), "matrix products": (1.0, 2.0, 0), "attention": (0.5, 0, 0),
        "Python and graph": (0, 0.25, 0), "other operations": (0.1, 0, 0),
    }  # fmt: skip
    assert next(iter(found)) == "optimizer"


def test_time_between_steps_is_told_apart() -> None:
    rows: list[dict[str, Any]] = [{"step": 0, "validation_loss": 3.0, "seconds": 0.5}]
    rows += [{"step": i, "loss": 2.0, "seconds": 0.5 + 0.1 * i} for i in range(1, 11)]
    rows += [{"step": 10, "validation_loss": 2.0, "seconds": 2.5}]
    found = spent(rows)
    assert found is not None and found.median_step == pytest.approx(0.1)
    assert found.steps == pytest.approx(1.1) and found.besides == pytest.approx(1.4)
    assert spent(rows[:2]) is None


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 10, [0, 2, 4, 6, 8, 10]), (0.3, 1.1, [0.4, 0.6, 0.8, 1.0]), (0, 0, [0])],
)
def test_ticks_are_round(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high, 5) == pytest.approx(expected)


def test_numbers_at_an_axis_are_short() -> None:
    assert [short(x) for x in (0, 0.0005, 0.25, 40, 2000, 3e6)] == [
        "0", "5e-4", "0.25", "40", "2k", "3M"
    ]  # fmt: skip


def test_a_long_run_is_thinned_evenly_with_both_ends() -> None:
    assert thinned(5, 9) == [0, 1, 2, 3, 4]
    kept = thinned(100_003, 500)
    assert len(kept) == 500 and kept[0] == 0 and kept[-1] == 100_002
    assert {b - a for a, b in pairwise(kept)} <= {200, 201}


def test_a_curve_goes_through_its_points_and_has_gaps() -> None:
    y = [1.0, 2.0, math.nan, 4.0, 3.0]
    chart = Chart("a", "A", "", (Series("s", "training", [0, 1, 2, 3, 4], y),), bounds=(0.0, 4.0))
    frame = chart.frame()
    svg = chart.svg()
    path = svg.split(' d="')[1].split('"')[0]
    assert path == (
        f"M{frame.x(0):.2f} {frame.y(1):.2f}L{frame.x(1):.2f} {frame.y(2):.2f}"
        f"M{frame.x(3):.2f} {frame.y(4):.2f}L{frame.x(4):.2f} {frame.y(3):.2f}"
    )
    assert frame.y(4) < frame.y(0) and frame.x(0) < frame.x(4)
    assert chart.numbers()[0]["y"] == [1.0, 2.0, None, 4.0, 3.0]
