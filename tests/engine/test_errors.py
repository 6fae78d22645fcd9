"""Bad input: one sentence that says what was given, what was expected, and the user's line."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import backend
from tinygrad_edu.errors import DeviceError, DTypeError, GraphError, ShapeError


def here() -> int:
    return sys._getframe(1).f_lineno


def at(number: int) -> str:
    return rf"test_errors\.py:{number}\b"


# Shapes.


def test_matmul_names_both_shapes_and_the_line() -> None:
    a, b = tg.ones(2, 3), tg.ones(2, 3)
    line = here() + 2
    with pytest.raises(ShapeError) as caught:
        a @ b
    assert re.search(
        rf"^matmul cannot take shapes \(2, 3\) and \(2, 3\) at .*{at(line)}; the last axis of the "
        "first has to equal the last but one of the second",
        str(caught.value),
    )


def test_broadcasting_names_both_shapes_the_names_and_the_line() -> None:
    a, b = tg.tensor(np.ones((2, 3)), name="logits"), tg.tensor(np.ones(4), name="bias")
    line = here() + 2
    with pytest.raises(ShapeError) as caught:
        a + b
    assert re.search(
        rf"^add cannot take shapes logits \(2, 3\) and bias \(4,\) at .*{at(line)}; shapes are "
        "compared from the right, and axes have to be equal or 1",
        str(caught.value),
    )


def test_the_line_is_the_users_also_through_a_module() -> None:
    from tinygrad_edu import nn

    layer = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    line = here() + 2
    with pytest.raises(ShapeError) as caught:
        layer(tg.ones(4, 5))
    assert re.search(rf"\(4, 5\).*\(2, 3\).*{at(line)}", str(caught.value))


SHAPES: dict[str, tuple[Callable[[], Any], str]] = {
    "matmul of numbers": (lambda: tg.tensor(1.0) @ tg.ones(2), r"matmul .*\(\) and \(2,\)"),
    "where": (lambda: tg.where([True, False], tg.ones(3), 0.0), r"where .*\(2,\) and \(3,\)"),
    "reshape": (lambda: tg.ones(2, 3).reshape(4), r"reshape .*\(2, 3\) \(shape=\(4,\)\)"),
    "broadcast_to": (lambda: tg.broadcast_to(tg.ones(3), (2,)), r"broadcast_to .*\(3,\)"),
    "concatenate": (
        lambda: tg.concatenate([tg.ones(2, 3), tg.ones(3, 2)]),
        r"concatenate .*\(2, 3\) and \(3, 2\) \(axis=0\)",
    ),
    "stack": (lambda: tg.stack([tg.ones(2), tg.ones(3)]), r"stack .*\(2,\) and \(3,\)"),
    "squeeze": (lambda: tg.ones(2, 3).squeeze(0), r"squeeze .*\(2, 3\)"),
    "split": (lambda: tg.split(tg.ones(5), 2), r"cut axis 0 of \(5,\) into 2 equal parts"),
    "transpose": (lambda: tg.ones(2, 3).transpose(0, 0), r"takes each axis once; got \(0, 0\)"),
    "linear": (
        lambda: tg.linear(tg.ones(2, 3), tg.ones(4, 5)),
        r"linear cannot take x \(2, 3\) and weight \(4, 5\)",
    ),
    "linear bias": (
        lambda: tg.linear(tg.ones(2, 3), tg.ones(4, 3), tg.ones(3)),
        r"linear's bias has shape \(3,\); expected \(4,\)",
    ),
    "layer_norm": (
        lambda: tg.layer_norm(tg.ones(2, 3), tg.ones(2)),
        r"layer_norm's weight has shape \(2,\); expected \(3,\)",
    ),
    "rms_norm": (
        lambda: tg.rms_norm(tg.ones(2, 3), tg.ones(2)),
        r"rms_norm's weight has shape \(2,\); expected \(3,\)",
    ),
    "rotary": (
        lambda: tg.rotary(tg.ones(2, 3)),
        r"rotary was given shape \(2, 3\); expected \(…, T, d\) with an even d",
    ),
    "cross_entropy": (
        lambda: tg.cross_entropy(tg.ones(2, 5), [1, 2, 3]),
        r"logits \(2, 5\) and targets \(3,\); targets have to be \(2,\)",
    ),
    "attention": (
        lambda: tg.attention(tg.ones(4, 2), tg.ones(4, 3), tg.ones(4, 3)),
        r"q \(4, 2\), k \(4, 3\), v \(4, 3\)",
    ),
    "packed_attention": (
        lambda: tg.packed_attention(tg.ones(1, 4, 10), 2),
        r"divisible by 2 heads; got \(1, 4, 10\)",
    ),
    "sum axis": (lambda: tg.ones(2, 3).sum(axis=2), r"sum was given axis 2 of a tensor with 2"),
    "mean axis": (lambda: tg.ones(2, 3).mean(axis=(0, -3)), "mean was given axis -3"),
    "max axis": (lambda: tg.max(tg.tensor(1.0), axis=0), "max was given axis 0 .* 0 axes"),
    "softmax axis": (lambda: tg.softmax(tg.ones(2), axis=1), "softmax was given axis 1"),
    "swapaxes axis": (lambda: tg.ones(2).swapaxes(0, 1), "swapaxes was given axis 1"),
    "axis twice": (lambda: tg.ones(2, 3).sum(axis=(1, -1)), "axis twice"),
}


@pytest.mark.parametrize(("call", "message"), SHAPES.values(), ids=SHAPES.keys())
def test_shapes_that_do_not_fit_are_named(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        call()


@pytest.mark.parametrize("f", [tg.concatenate, tg.stack])
def test_nothing_cannot_be_joined(f: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="needs at least one tensor; got an empty list"):
        f([])


def test_an_axis_out_of_range_says_what_is_expected_and_where() -> None:
    x = tg.ones(2, 3)
    with pytest.raises(ShapeError, match=rf"{at(here() + 1)}; expected -2 to 1"):
        x.sum(axis=5)


# Indices, ids and targets.


def test_an_index_out_of_range_names_the_shape_and_the_line() -> None:
    x = tg.ones(2, 3)
    with pytest.raises(IndexError, match=rf"getitem on \(2, 3\) at .*{at(here() + 1)}.*index 7"):
        x[:, 7]


def test_an_index_of_floats_is_refused() -> None:
    with pytest.raises(DTypeError, match=r"index has to be integer or bool; got .* float32"):
        tg.ones(3)[tg.tensor([0.0])]
    with pytest.raises(IndexError):
        tg.ones(3)[np.array([0.5])]


@pytest.mark.parametrize("bad", [5, -1])
def test_a_token_id_out_of_range_is_named_with_its_place(bad: int) -> None:
    table = tg.ones(5, 2)
    with pytest.raises(IndexError, match=rf"ids have to be from 0 to 4; got {bad} at .*\(1, 0\)"):
        tg.embedding([[0, 4], [bad, 1]], table)


@pytest.mark.parametrize("ids", [[0.0, 1.0], tg.ones(2), np.ones(2), [True, False]], ids=repr)
def test_token_ids_that_are_no_integers_are_refused(ids: Any) -> None:
    with pytest.raises(DTypeError, match=r"embedding ids have to be integers; got .*dtype=int"):
        tg.embedding(ids, tg.ones(5, 2))


@pytest.mark.parametrize("bad", [3, -1])
def test_a_target_out_of_range_is_named_with_its_place(bad: int) -> None:
    with pytest.raises(IndexError, match=rf"targets have to be from 0 to 2; got {bad} at .*\(1,\)"):
        tg.cross_entropy(tg.ones(3, 3), [0, bad, -100])


def test_targets_that_are_no_integers_are_refused() -> None:
    with pytest.raises(DTypeError, match="targets have to be integers; got float32"):
        tg.cross_entropy(tg.ones(2, 3), tg.tensor([0.0, 1.0]))


def test_ignored_targets_may_lie_anywhere() -> None:
    loss = tg.cross_entropy(tg.ones(3, 4), [1, -100, 2])
    assert loss.item() == pytest.approx(np.log(4))
    loss = tg.cross_entropy(tg.ones(2, 4), [1, 9], ignore_index=9)
    assert loss.item() == pytest.approx(np.log(4))


# Options.

OPTIONS: dict[str, tuple[Callable[[], Any], str]] = {
    "gelu": (lambda: tg.gelu(1.0, approximate="erf"), "'none' or 'tanh'; got 'erf'"),
    "reduction": (
        lambda: tg.cross_entropy(tg.ones(1, 2), [0], reduction="avg"),
        "'mean', 'sum' or 'none'; got 'avg'",
    ),
    "activation": (
        lambda: tg.linear(tg.ones(1, 2), tg.ones(2, 2), activation="swish"),
        "activation is one of .*; got 'swish'",
    ),
    "dropout 1": (lambda: tg.dropout(tg.ones(2), 1.0), "dropout's p has to be .*less than 1"),
    "dropout -0.1": (lambda: tg.dropout(tg.ones(2), -0.1), "at least 0.*got -0.1"),
    "attention dropout": (
        lambda: tg.attention(tg.ones(2, 2), tg.ones(2, 2), tg.ones(2, 2), dropout=2.0),
        "attention's dropout has to be",
    ),
}


@pytest.mark.parametrize(("call", "message"), OPTIONS.values(), ids=OPTIONS.keys())
def test_an_unknown_option_is_named_beside_the_known_ones(
    call: Callable[[], Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("other", ["a", 1j, np.array(["a"]), {}], ids=repr)
def test_arithmetic_with_what_is_no_number_is_refused(other: Any) -> None:
    with pytest.raises((DTypeError, TypeError), match=r"number|unsupported"):
        tg.ones(2) + other
    with pytest.raises((DTypeError, TypeError), match=r"number|unsupported"):
        tg.ones(2) * other


# Devices.


def test_an_unknown_backend_is_refused_and_changes_nothing() -> None:
    with pytest.raises(DeviceError, match="no backend 'jax'; choose 'numpy' or 'cupy'"):
        tg.set_backend("jax")
    assert tg.get_backend() == "numpy"
    tg.set_backend("cpu")
    assert tg.get_backend() == "numpy"


class Elsewhere(np.ndarray):
    """An array of another library, as far as the engine can see."""


class ElsewhereNamespace(backend.ArrayNamespace):
    def asarray(self, x: Any, dtype: Any = None) -> Any:
        return np.asarray(x, dtype=dtype).view(Elsewhere)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> tg.Tensor:
    library = ElsewhereNamespace("elsewhere", np)
    monkeypatch.setitem(backend._by_array_type, Elsewhere, library)
    return tg.Tensor(np.ones(2).view(Elsewhere), requires_grad=True, name="far")


def test_mixing_devices_names_both_tensors_and_the_way_out(elsewhere: tg.Tensor) -> None:
    near = tg.tensor(np.ones(2), name="near")
    with pytest.raises(DeviceError, match=r"'near' on cpu and 'far' on elsewhere; move one.*'cpu'"):
        near + elsewhere
    with pytest.raises(DeviceError, match=r"'far' on elsewhere and 'near' on cpu"):
        elsewhere * near


def test_a_result_does_not_lose_its_history_by_moving(elsewhere: tg.Tensor) -> None:
    with pytest.raises(GraphError, match=r"result of multiply is tracked; to\('cpu'\) would lose"):
        (elsewhere * 2).to("cpu")
    moved = elsewhere.to("cpu")
    assert moved.is_leaf and moved.requires_grad and moved.device == "cpu"


def test_an_array_of_no_known_library_is_refused() -> None:
    class Foreign:
        pass

    with pytest.raises(DeviceError, match="Foreign is an array of no known library"):
        backend.namespace_of(Foreign())


# The state after an error.


def test_a_failed_call_changes_nothing() -> None:
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    calls = (lambda: y @ tg.ones(3, 3), lambda: y[9], lambda: y.sum(axis=4), lambda: y.backward())
    for call in calls:
        with pytest.raises((ShapeError, IndexError, GraphError)):
            call()
    assert tg.is_grad_enabled() and x.grad is None
    y.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2.0, 2.0]


def test_errors_of_the_engine_are_also_pythons_own_kinds() -> None:
    assert issubclass(tg.errors.ShapeError, ValueError)
    assert issubclass(tg.errors.DTypeError, TypeError)
    assert issubclass(tg.errors.DeviceError, TypeError)
    assert issubclass(tg.errors.MutationError, tg.errors.GraphError)
    assert issubclass(tg.errors.GraphError, RuntimeError)
    assert issubclass(tg.errors.AnomalyError, FloatingPointError)
