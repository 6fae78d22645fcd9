"""`tg.checkpoint`: the same numbers, less kept, parameters and chance included."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import nn
from tinygrad_edu.testing import gradcheck

X = np.random.default_rng(0).normal(size=(4, 3))


def gradients(f: Any, model: Any, x: Any) -> list[Any]:
    leaf = tg.tensor(x, requires_grad=True)
    model.zero_grad()
    f(leaf).sum().backward(retain_graph=False)
    return [leaf.grad.tolist(), *[p.grad.tolist() for p in model.parameters()]]


def test_gradients_of_arguments_and_of_parameters_it_closes_over_are_the_same() -> None:
    model = nn.MLP(3, 8, 3, dtype="float64")
    assert gradients(lambda x: tg.checkpoint(model, x) * x, model, X) == gradients(
        lambda x: model(x) * x, model, X
    )


def test_random_numbers_are_drawn_again_as_they_were() -> None:
    model = nn.Sequential(nn.Linear(3, 16, dtype="float64"), nn.Dropout(0.5))
    tg.manual_seed(3)
    plain = gradients(model, model, X)
    after = tg.default_generator().random()
    tg.manual_seed(3)
    assert gradients(lambda x: tg.checkpoint(model, x), model, X) == plain
    assert tg.default_generator().random() == after


def test_what_is_computed_on_the_way_is_not_kept() -> None:
    kept: list[Any] = []

    def part(x: Any) -> Any:
        middle = tg.exp(x)
        kept.append(weakref.ref(middle))
        return middle * middle

    x = tg.tensor(X, requires_grad=True)
    out = tg.checkpoint(part, x)
    gc.collect()
    assert kept[0]() is None
    out.sum().backward()
    assert len(kept) == 2
    np.testing.assert_allclose(x.grad.data, 2 * np.exp(2 * X))  # type: ignore[union-attr]


def test_all_derivatives_in_both_modes_and_twice() -> None:
    w = tg.tensor(X.T.copy(), requires_grad=True)
    gradcheck(lambda x, y: tg.checkpoint(lambda a, b: tg.tanh(a @ w) @ b, x, y), (X, X))
    gradcheck(lambda v: tg.checkpoint(lambda a: tg.tanh(a @ v), tg.tensor(X)), X.T.copy())


def test_nested_and_without_gradients() -> None:
    x = tg.tensor(X, requires_grad=True)
    inside = lambda v: tg.checkpoint(tg.exp, v) * v  # noqa: E731
    tg.checkpoint(inside, x).sum().backward()
    np.testing.assert_allclose(x.grad.data, np.exp(X) * (1 + X))  # type: ignore[union-attr]
    with tg.no_grad():
        assert not tg.checkpoint(tg.exp, x).requires_grad
    assert not tg.checkpoint(tg.exp, tg.tensor(X)).requires_grad


def test_a_function_that_returns_no_tensor_is_refused() -> None:
    with pytest.raises(TypeError, match="has to return one tensor; it returned tuple"):
        tg.checkpoint(lambda v: (v, v), tg.tensor(X, requires_grad=True))


def test_a_change_of_its_input_between_is_found() -> None:
    x = tg.tensor(X.copy(), requires_grad=True)
    y = x * 1.0
    out = tg.checkpoint(tg.exp, y)
    y.data = y.data + 1
    with pytest.raises(tg.errors.MutationError):
        out.sum().backward()
