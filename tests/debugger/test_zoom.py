"""Zoom: the same gradient, in single numbers and through a fused operation's reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu.autograd.pull import pull_raw
from tinygrad_edu.debugger.zoom import zoom
from tinygrad_edu.errors import GraphError
from tinygrad_edu.nn import functional


def rand(*shape: int, name: str | None = None, seed: int = 0) -> Any:
    numbers = np.random.default_rng(seed).normal(size=shape)
    return tg.tensor(numbers, requires_grad=True, name=name)


PROGRAMS = {
    "matmul": lambda: rand(3, 4, name="x") @ rand(4, 2, name="w", seed=1),
    "tanh": lambda: rand(2, 3, name="x").tanh(),
    "broadcast": lambda: rand(3, 4) * rand(4, seed=1),
    "softmax": lambda: tg.softmax(rand(2, 5, name="x"), axis=-1),
    "layer_norm": lambda: tg.layer_norm(rand(2, 4), rand(4, seed=1), rand(4, seed=2)),
    "rms_norm": lambda: tg.rms_norm(rand(2, 4), rand(4, seed=1)),
    "rotary": lambda: tg.rotary(rand(3, 4)),
    "linear": lambda: functional.linear(rand(3, 4), rand(2, 4, seed=1), rand(2, seed=2)),
    "cross_entropy": lambda: functional.cross_entropy(rand(3, 5), np.array([0, 4, 2])),
    "attention": lambda: tg.attention(
        rand(2, 3, 4), rand(2, 3, 4, seed=1), rand(2, 3, 4, seed=2), causal=True
    ),
    "sum": lambda: rand(3, 4).sum(axis=1),
    "getitem": lambda: rand(3, 4)[1:, ::2],
}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_an_element_in_single_numbers_has_the_tensors_gradient(name: str) -> None:
    node = PROGRAMS[name]()
    at = tuple(n - 1 for n in node.shape)
    opened = zoom(node, at=at)
    assert opened.root.data == pytest.approx(float(node.data[at]), rel=1e-12)
    one = np.zeros(node.shape)
    one[at] = 1.0
    wanted = list(pull_raw(node, one))
    present = [
        g for g, x in zip(opened.gradients(), node._args, strict=True)
        if x._data is not None
    ]
    assert any(c is not None for c in wanted)
    for got, want in zip(present, wanted, strict=True):
        if want is not None:
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "linear", "cross_entropy", "attention"])
def test_a_fused_node_opens_into_its_reference_with_the_same_gradient(name: str) -> None:
    node = PROGRAMS[name]()
    g = np.random.default_rng(9).normal(size=node.shape)
    opened = zoom(node)
    np.testing.assert_allclose(opened.root.data, node.data, rtol=1e-12)
    assert len(opened.log(g)) > 2
    present = [
        c for c, x in zip(opened.gradients(g), node._args, strict=True) if x._data is not None
    ]
    for got, want in zip(present, pull_raw(node, g), strict=True):
        if want is not None:
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-14)


def test_names_go_along() -> None:
    opened = zoom(PROGRAMS["matmul"](), at=(1, 0))
    assert opened.inputs[0][1, 2].name == "x[1,2]"
    assert "x[1,0]" in repr(list(opened.log()))


def test_the_node_and_its_gradients_stay_as_they_were() -> None:
    node = PROGRAMS["softmax"]()
    zoom(node).gradients(np.ones(node.shape))
    zoom(node, at=(0, 0)).gradients()
    assert node.grad is None and node.inputs[0].grad is None


def test_what_cannot_be_opened_says_why() -> None:
    with pytest.raises(GraphError, match="no tensor operation made"):
        zoom(tg.tensor([1.0], requires_grad=True))
    with pytest.raises(GraphError, match="no fused operation"):
        zoom(PROGRAMS["matmul"]())
    with pytest.raises(GraphError, match="is not in it"):
        zoom(PROGRAMS["matmul"](), at=(9, 0))
    with pytest.raises(GraphError, match="one index an axis"):
        zoom(PROGRAMS["matmul"](), at=(1,))
    with pytest.raises(GraphError, match="too many"):
        zoom(rand(300, 300) @ rand(300, 300), at=(0, 0))
