"""micrograd's network: shapes, names, starting weights, learning."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tinygrad_edu.scalar import MLP, Layer, Module, Neuron, Value


def test_reprs_are_micrograds() -> None:
    assert repr(Neuron(3)) == "ReLUNeuron(3)"
    assert repr(Neuron(3, nonlin=False)) == "LinearNeuron(3)"
    assert repr(MLP(2, [2, 1])) == (
        "MLP of [Layer of [ReLUNeuron(2), ReLUNeuron(2)], Layer of [LinearNeuron(2)]]"
    )


def test_a_perceptron_of_2_16_16_1_has_337_parameters() -> None:
    assert len(MLP(2, [16, 16, 1]).parameters()) == 337


def test_a_neuron_is_a_weighted_sum_and_a_relu() -> None:
    neuron = Neuron(2)
    neuron.w[0].data, neuron.w[1].data, neuron.b.data = 2.0, -1.0, 0.5
    assert neuron([1.0, Value(3.0)]).data == 0.0
    assert neuron([3.0, 1.0]).data == 5.5
    assert neuron(np.array([3.0, 1.0])).data == 5.5  # type: ignore[arg-type]


def test_one_output_comes_bare_and_several_in_a_list() -> None:
    assert isinstance(Layer(2, 1)([1.0, 2.0]), Value)
    out = Layer(2, 3)([1.0, 2.0])
    assert isinstance(out, list) and len(out) == 3


def test_a_layer_of_one_may_be_followed_by_another() -> None:
    assert isinstance(MLP(2, [1, 1])([1.0, 2.0]), Value)


def test_the_last_layer_alone_is_linear() -> None:
    layers = MLP(2, [3, 3, 1]).layers
    assert [layer.neurons[0].nonlin for layer in layers] == [True, True, False]


@pytest.mark.oracle
def test_pythons_seed_gives_micrograds_own_weights() -> None:
    nn = pytest.importorskip("micrograd.nn", reason="micrograd is not installed")
    random.seed(1337)
    theirs = nn.MLP(2, [4, 1])
    random.seed(1337)
    ours = MLP(2, [4, 1])
    assert [p.data for p in ours.parameters()] == [p.data for p in theirs.parameters()]
    x = [0.5, -1.0]
    assert ours(x).data == pytest.approx(theirs(x).data)


@pytest.mark.parametrize(
    "source",
    [3, random.Random(3), np.random.default_rng(3)],
    ids=["seed", "random", "numpy"],
)
def test_a_generator_or_seed_decides_the_weights(source: random.Random) -> None:
    random.seed(0)
    before = random.getstate()
    weights = [p.data for p in MLP(2, [4, 1], generator=source).parameters() if p.data]
    assert random.getstate() == before
    assert len(set(weights)) == 12 and all(-1 <= w < 1 for w in weights)


def test_a_seed_says_the_same_network_twice() -> None:
    first, second = MLP(2, [4, 1], generator=7), MLP(2, [4, 1], generator=7)
    assert [p.data for p in first.parameters()] == [p.data for p in second.parameters()]


def test_wrong_input_length_is_refused() -> None:
    with pytest.raises(ValueError, match="a neuron of 2 inputs was given 3"):
        MLP(2, [4, 1])([1.0, 2.0, 3.0])


@pytest.mark.parametrize("size", [0, -1, 2.5])
def test_a_size_is_a_whole_number_from_1(size: int) -> None:
    with pytest.raises(ValueError, match="whole number from 1 up"):
        Neuron(size)
    with pytest.raises(ValueError, match="whole number from 1 up"):
        Layer(2, size)


def test_zero_grad_clears_every_parameter() -> None:
    model = MLP(2, [4, 1])
    model([1.0, 2.0]).backward()
    assert any(p.grad for p in model.parameters())
    model.zero_grad()
    assert all(p.grad == 0.0 for p in model.parameters())
    assert Module().parameters() == []


def test_a_perceptron_learns_exclusive_or() -> None:
    model = MLP(2, [8, 1], generator=1)
    points = [([0.0, 0.0], -1), ([0.0, 1.0], 1), ([1.0, 0.0], 1), ([1.0, 1.0], -1)]
    for _ in range(100):
        loss = sum((1 - y * model(x)).relu() for x, y in points)
        model.zero_grad()
        loss.backward()
        for p in model.parameters():
            p.data -= 0.1 * p.grad
    assert all(model(x).data * y > 0 for x, y in points)


def test_a_program_in_the_manner_of_microgpt_learns() -> None:
    """Lists of Values through RMS norm, softmax by plain sums, cross entropy and Adam."""
    draw = random.Random(42)
    table = [[Value(draw.gauss(0, 0.5)) for _ in range(4)] for _ in range(3)]
    head = [[Value(draw.gauss(0, 0.5)) for _ in range(4)] for _ in range(3)]
    parameters = [p for matrix in (table, head) for row in matrix for p in row]
    first, second = [0.0] * len(parameters), [0.0] * len(parameters)

    def probabilities(token: int) -> list[Value]:
        x = table[token]
        scale = (sum(xi * xi for xi in x) / len(x) + 1e-5) ** -0.5
        x = [(xi * scale).relu() for xi in x]
        logits = [sum(w * xi for w, xi in zip(row, x, strict=True)) for row in head]
        top = max(logit.data for logit in logits)  # type: ignore[union-attr]
        raised = [(logit - top).exp() for logit in logits]  # type: ignore[union-attr]
        return [e / sum(raised) for e in raised]

    losses = []
    for step in range(1, 61):
        loss: Any = (1 / 3) * sum(-probabilities(t)[(t + 1) % 3].log() for t in range(3))
        loss.backward()
        for i, p in enumerate(parameters):
            first[i] = 0.85 * first[i] + 0.15 * p.grad
            second[i] = 0.99 * second[i] + 0.01 * p.grad**2
            corrected = first[i] / (1 - 0.85**step), second[i] / (1 - 0.99**step)
            p.data -= 0.05 * corrected[0] / (corrected[1] ** 0.5 + 1e-8)
            p.grad = 0
        losses.append(loss.data)
    assert losses[-1] < 0.2 * losses[0]
