"""state_dict and load_state_dict: what is in it, what is copied, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import nn


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.last = nn.Linear(3, 3, bias=False)
        self.tied = nn.Linear(3, 3, bias=False)
        self.tied.weight = self.last.weight
        self.register_buffer("steps", tg.tensor(np.array([3])))
        self.register_buffer("scratch", tg.zeros(5), persistent=False)


NAMES = ["steps", "first.weight", "first.bias", "last.weight", "tied.weight"]


def snapshot(model: Any) -> dict[str, Any]:
    return {name: tensor.data.copy() for name, tensor in model.state_dict().items()}


def test_every_name_is_there_tied_ones_twice_and_scratch_not_at_all() -> None:
    state = Model().state_dict()
    assert list(state) == NAMES
    assert all(type(tensor) is tg.Tensor and not tensor.requires_grad for tensor in state.values())
    assert next(iter(Model().state_dict(prefix="net."))) == "net.steps"


def test_the_tensors_share_memory_with_the_module_as_in_pytorch() -> None:
    model = Model()
    state = model.state_dict()
    assert state["first.weight"].data is model.first.weight.data


def test_loading_copies_into_the_same_memory() -> None:
    model, other = Model(), Model()
    memory = model.first.weight.data
    model.load_state_dict(other.state_dict())
    assert model.first.weight.data is memory
    assert np.array_equal(memory, other.first.weight.data)
    other.first.weight.data += 1.0
    assert not np.array_equal(memory, other.first.weight.data)


def test_arrays_and_lists_load_and_take_the_modules_dtype() -> None:
    model = Model()
    state: dict[str, Any] = {name: array * 2 for name, array in snapshot(model).items()}
    state["first.weight"] = state["first.weight"].astype(np.float64)
    state["first.bias"] = state["first.bias"].tolist()
    model.load_state_dict(state)
    assert model.first.weight.dtype == np.float32
    for name, array in snapshot(model).items():
        np.testing.assert_allclose(array, state[name])


def test_loading_between_forward_and_backward_is_found() -> None:
    layer = nn.Linear(2, 2)
    loss = layer(tg.tensor([[1.0, 2.0]], requires_grad=True)).sum()
    layer.load_state_dict(layer.state_dict())
    with pytest.raises(tg.errors.MutationError, match="weight"):
        loss.backward()


def spoiled(model: Any, how: str) -> dict[str, Any]:
    state: dict[str, Any] = {name: array + 1 for name, array in snapshot(model).items()}
    if "missing" in how:
        del state["first.bias"]
    if "unexpected" in how:
        state["frist.bias"] = np.zeros(3)
    if "shape" in how:
        state["last.weight"] = np.zeros((3, 4))
    if "kind" in how:
        state["first.bias"] = np.array(["a", "b", "c"])
    return state


@pytest.mark.parametrize(
    ("how", "messages"),
    [
        ("missing", ["Missing: first.bias."]),
        ("unexpected", ["Unexpected: frist.bias (did you mean first.bias?)."]),
        ("shape", ["last.weight has shape (3, 4) in the state, (3, 3) in the module."]),
        ("kind", ["first.bias holds <U1 in the state, float32 in the module."]),
        (
            "missing unexpected shape",
            ["Missing: first.bias.", "frist.bias", "(3, 4)", "nothing was changed"],
        ),
    ],
)
def test_a_state_that_does_not_fit_names_all_that_is_wrong_and_changes_nothing(
    how: str, messages: list[str]
) -> None:
    model = Model()
    before = snapshot(model)
    with pytest.raises(nn.StateDictError) as caught:
        model.load_state_dict(spoiled(model, how))
    for message in messages:
        assert message in str(caught.value)
    for name, array in snapshot(model).items():
        assert np.array_equal(array, before[name])


def test_not_strict_loads_what_fits_and_returns_the_rest() -> None:
    model = Model()
    before = snapshot(model)
    result = model.load_state_dict(spoiled(model, "missing unexpected"), strict=False)
    assert result.missing_keys == ["first.bias"]
    assert result.unexpected_keys == ["frist.bias"]
    after = snapshot(model)
    assert np.array_equal(after["first.weight"], before["first.weight"] + 1)
    assert np.array_equal(after["first.bias"], before["first.bias"])


def test_not_strict_still_refuses_a_wrong_shape() -> None:
    model = Model()
    before = snapshot(model)
    with pytest.raises(RuntimeError, match=r"last\.weight"):
        model.load_state_dict(spoiled(model, "shape"), strict=False)
    assert np.array_equal(model.first.weight.data, before["first.weight"])


def test_what_is_no_mapping_is_refused() -> None:
    with pytest.raises(TypeError, match="list, expected a mapping"):
        Model().load_state_dict([1, 2])  # type: ignore[arg-type]
