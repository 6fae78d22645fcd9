"""`detect_anomaly()`: the first NaN or inf is an error that names operation, shapes and line."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu.errors import AnomalyError


def line() -> int:
    return sys._getframe(1).f_lineno


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """NumPy warns of what is made here on purpose."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def names_line(error: pytest.ExceptionInfo[AnomalyError], number: int) -> bool:
    return re.search(rf"test_anomaly\.py:{number}\b", str(error.value)) is not None


def test_the_first_nan_of_the_forward_pass_is_named() -> None:
    x = tg.tensor([[1.0, -1.0, 2.0]], requires_grad=True)
    here = line() + 2
    with tg.detect_anomaly(), pytest.raises(AnomalyError) as caught:
        x.sqrt()
    assert str(caught.value).startswith("sqrt (√a) made the first NaN of the forward pass")
    assert "(1, 3)" in str(caught.value)
    assert names_line(caught, here)


def test_the_first_inf_of_the_forward_pass_is_named() -> None:
    a, b = tg.ones(2, 3), tg.zeros(3)
    here = line() + 2
    with tg.detect_anomaly(), pytest.raises(AnomalyError, match=r"divide .* first inf") as caught:
        a / b
    assert "(2, 3), (3,)" in str(caught.value)
    assert names_line(caught, here)


def test_untracked_operations_are_watched_too() -> None:
    with tg.detect_anomaly(), tg.no_grad(), pytest.raises(AnomalyError, match=r"log .* first inf"):
        tg.log(tg.tensor([0.0]))


def test_an_infinite_mask_is_no_anomaly_and_nan_made_from_it_is() -> None:
    mask = tg.tensor([0.0, -np.inf])
    with tg.detect_anomaly():
        assert tg.softmax(tg.ones(2) + mask).tolist() == [1.0, 0.0]
        with tg.unfused():
            tg.attention(tg.ones(2, 2), tg.ones(2, 2), tg.ones(2, 2), causal=True)
        with pytest.raises(AnomalyError, match=r"subtract .* first NaN"):
            mask - mask


def test_nan_in_the_data_is_named_where_it_is_first_used() -> None:
    x = tg.tensor([1.0, float("nan")], name="batch")
    here = line() + 2
    with tg.detect_anomaly(), pytest.raises(AnomalyError) as caught:
        x * 2
    assert re.search(r"multiply .* was given NaN in 'batch' of shape \(2,\)", str(caught.value))
    assert names_line(caught, here)


def test_the_first_inf_of_the_backward_pass_names_the_rule_that_made_it() -> None:
    x = tg.tensor([4.0, 0.0], requires_grad=True, name="x")
    with tg.detect_anomaly():
        here = line(); root = x.sqrt()  # noqa: E702
        loss = (root * 3).sum()
        with pytest.raises(AnomalyError) as caught:
            loss.backward()
    message = str(caught.value)
    assert message.startswith("sqrt (√a) made the first inf in the backward pass")
    assert "gradient to 'x' of shape (2,)" in message
    assert names_line(caught, here)
    assert x.grad is None and root.grad is None


def test_the_first_nan_of_the_backward_pass_names_the_rule_that_made_it() -> None:
    x = tg.tensor([-2.0], requires_grad=True)
    y = tg.tensor([2.0], requires_grad=True)
    z = (x**y).sum()  # finite; ln of a negative base is not
    with tg.detect_anomaly(), pytest.raises(AnomalyError, match=r"^power .* first NaN in the back"):
        z.backward()
    assert x.grad is None and y.grad is None
    z.backward()
    assert x.grad is not None and x.grad.tolist() == [-4.0]


@pytest.mark.parametrize("retain", [True, False])
def test_a_graph_made_outside_is_watched_when_the_pass_is_inside(retain: bool) -> None:
    x = tg.tensor([0.0], requires_grad=True)
    loss = x.sqrt().sum()
    with tg.detect_anomaly(), pytest.raises(AnomalyError, match="sqrt"):
        loss.backward(retain_graph=retain)


def test_tg_grad_is_watched() -> None:
    with tg.detect_anomaly(), pytest.raises(AnomalyError, match=r"sqrt .*first inf.*backward"):
        tg.grad(lambda x: tg.sqrt(x).sum())([0.0])


def test_what_a_hook_or_a_seed_brings_in_is_named_where_it_arrives() -> None:
    x = tg.tensor([1.0], requires_grad=True)
    y = x * 2
    y.name = "hidden"
    y.register_hook(lambda g: g * float("inf"))
    with tg.detect_anomaly():
        with pytest.raises(AnomalyError, match=r"first inf .* arrived at 'hidden' of shape"):
            (y + 1).sum().backward()
        with pytest.raises(AnomalyError, match=r"first NaN .* arrived at the result of exp"):
            x.exp().backward([float("nan")])


def test_the_path_of_the_module_is_named() -> None:
    x = tg.tensor([0.0], requires_grad=True)
    with tg.detect_anomaly(), tg.module_path("net.blocks.1.mlp"):
        with pytest.raises(AnomalyError, match=r"forward.*in module net\.blocks\.1\.mlp"):
            x.log()
        y = x.sqrt()
        with pytest.raises(AnomalyError, match=r"backward.*in module net\.blocks\.1\.mlp"):
            y.backward()


def test_the_path_of_nested_modules_is_named() -> None:
    from tinygrad_edu import nn

    class Root(nn.Module):
        def forward(self, x: tg.Tensor) -> tg.Tensor:
            return x.sqrt()

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Identity(), Root())

        def forward(self, x: tg.Tensor) -> tg.Tensor:
            out: tg.Tensor = self.layers(x)
            return out

    with tg.detect_anomaly(), pytest.raises(AnomalyError, match=r"in module .*layers\.1"):
        Outer()(tg.tensor([-1.0]))


def test_a_healthy_pass_gives_the_same_gradients_as_without() -> None:
    def run() -> list[float]:
        x = tg.tensor([0.5, -0.5], requires_grad=True)
        tg.cross_entropy(tg.linear(x.reshape(1, 2), tg.eye(2)), [1]).backward()
        assert x.grad is not None
        found: list[float] = x.grad.tolist()
        return found

    with tg.detect_anomaly():
        watched = run()
    assert watched == run()


def test_outside_nothing_is_watched() -> None:
    assert np.isnan(tg.sqrt(tg.tensor(-1.0)).item())
