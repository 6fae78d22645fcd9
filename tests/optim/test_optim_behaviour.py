"""How optimizers treat what they are given: groups, errors, skipping, memory, saved state."""

from __future__ import annotations

import copy
import json
import tracemalloc
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import optim

RULES = [optim.SGD, optim.Momentum, optim.Adam, optim.AdamW]


def parameter(*shape: int, dtype: Any = np.float64, seed: int = 0, name: str | None = None) -> Any:
    data = np.random.default_rng(seed).normal(size=shape).astype(dtype)
    return tg.Tensor(data, requires_grad=True, name=name)


def with_gradients(parameters: list[Any], seed: int = 1) -> None:
    rng = np.random.default_rng(seed)
    for p in parameters:
        p.grad = tg.Tensor(rng.normal(size=p.shape).astype(p.dtype))


# What is refused.


@pytest.mark.parametrize("rule", RULES)
def test_no_parameters_is_an_error(rule: Any) -> None:
    with pytest.raises(ValueError, match="no parameters"):
        rule([])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("lr", [-0.1, float("nan"), float("inf")])
def test_a_learning_rate_out_of_range_is_named(rule: Any, lr: float) -> None:
    with pytest.raises(ValueError, match=f"lr={lr!r}"):
        rule([parameter(2)], lr=lr)


@pytest.mark.parametrize(
    ("rule", "options"),
    [
        (optim.SGD, {"momentum": -0.1}),
        (optim.SGD, {"weight_decay": -0.1}),
        (optim.SGD, {"dampening": float("nan")}),
        (optim.SGD, {"nesterov": True}),
        (optim.SGD, {"nesterov": True, "momentum": 0.9, "dampening": 0.1}),
        (optim.Adam, {"betas": (1.0, 0.9)}),
        (optim.Adam, {"betas": (0.9, -0.1)}),
        (optim.Adam, {"betas": (0.9,)}),
        (optim.Adam, {"eps": -1e-8}),
        (optim.AdamW, {"weight_decay": -1.0}),
    ],
)
def test_an_option_out_of_range_is_named(rule: Any, options: dict[str, Any]) -> None:
    names = "|".join(options)
    with pytest.raises(ValueError, match=names):
        rule([parameter(2)], **options)


def test_a_learning_rate_made_negative_later_is_found_and_nothing_moves() -> None:
    p = parameter(3)
    optimizer = optim.SGD([p], lr=0.1)
    with_gradients([p])
    before = p.data.copy()
    optimizer.param_groups[0]["lr"] = -1.0
    with pytest.raises(ValueError, match=r"lr=-1\.0"):
        optimizer.step()
    assert np.array_equal(p.data, before)


def test_a_parameter_given_twice_is_named() -> None:
    p = parameter(2, name="head")
    with pytest.raises(ValueError, match=r"parameter 1 \(head\) twice"):
        optim.SGD([p, p])
    with pytest.raises(ValueError, match="twice"):
        optim.SGD([{"params": [p]}, {"params": [p]}])


def test_a_tensor_that_was_computed_is_refused() -> None:
    with pytest.raises(TypeError, match="computed from other tensors"):
        optim.SGD([parameter(2) * 2.0])


def test_what_is_no_tensor_is_refused() -> None:
    with pytest.raises(TypeError, match="ndarray as parameter 0"):
        optim.SGD([np.ones(2)])
    with pytest.raises(TypeError, match="tuple as parameter 0"):
        optim.SGD([("weight", parameter(2))])
    with pytest.raises(TypeError, match="one tensor"):
        optim.SGD(parameter(2))


def test_an_unknown_option_in_a_group_gets_the_nearest_name() -> None:
    with pytest.raises(TypeError, match=r"'weight_deacy'.*'weight_decay'"):
        optim.AdamW([{"params": [parameter(2)], "weight_deacy": 0.1}])
    with pytest.raises(TypeError, match="betas"):
        optim.Adam([{"params": [parameter(2)], "zzz": 0.1}])


def test_groups_and_bare_tensors_do_not_mix() -> None:
    with pytest.raises(TypeError, match="in groups or none"):
        optim.SGD([{"params": [parameter(2)]}, parameter(2)])


def test_a_parameter_cast_after_the_first_step_is_an_error_and_nothing_moves() -> None:
    first, second = parameter(3, name="first"), parameter(3, name="second")
    optimizer = optim.Adam([first, second])
    with_gradients([first, second])
    optimizer.step()
    before = first.data.copy()
    second.data = second.data.astype(np.float32)
    with_gradients([first, second])
    with pytest.raises(ValueError, match=r"second.*float32.*float64"):
        optimizer.step()
    assert np.array_equal(first.data, before)


# What a step does.


@pytest.mark.parametrize("rule", RULES)
def test_a_parameter_without_a_gradient_is_left_alone(rule: Any) -> None:
    moved, left = parameter(3), parameter(3, seed=1)
    before = left.data.copy()
    optimizer = rule([moved, left])
    with_gradients([moved])
    optimizer.step()
    assert np.array_equal(left.data, before)
    assert left not in optimizer.state


def test_a_late_parameter_starts_its_own_count() -> None:
    early, late = parameter(3), parameter(3, seed=1)
    optimizer = optim.Adam([early, late], lr=0.01)
    for _ in range(5):
        with_gradients([early])
        optimizer.step()
    before = late.data.copy()
    late.grad = tg.Tensor(np.full(3, 7.0))
    optimizer.step()
    np.testing.assert_allclose(late.data, before - 0.01, rtol=1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_a_step_writes_in_place_and_leaves_gradients_alone(rule: Any) -> None:
    p = parameter(4, 3)
    with_gradients([p])
    memory, gradient = p.data, p.grad.data.copy()
    rule([p], lr=0.1, weight_decay=0.1).step()
    assert p.data is memory
    assert np.array_equal(p.grad.data, gradient)


@pytest.mark.parametrize("rule", RULES)
def test_a_step_between_forward_and_backward_is_found(rule: Any) -> None:
    p = parameter(3)
    loss = (p * p).sum()
    with_gradients([p])
    rule([p], lr=0.1).step()
    with pytest.raises(tg.errors.MutationError):
        loss.backward()


def test_each_group_has_its_own_options_and_takes_the_others_from_the_defaults() -> None:
    fast, slow = parameter(3), parameter(3)
    optimizer = optim.SGD([{"params": [fast], "lr": 1.0}, {"params": slow}], lr=0.1)
    assert [group["lr"] for group in optimizer.param_groups] == [1.0, 0.1]
    before = fast.data.copy()
    for p in (fast, slow):
        p.grad = tg.Tensor(np.ones(3))
    optimizer.step()
    np.testing.assert_allclose(fast.data, before - 1.0)
    np.testing.assert_allclose(slow.data, before - 0.1)


def test_the_learning_rate_of_a_group_can_be_changed_between_steps() -> None:
    p = parameter(3)
    optimizer = optim.SGD([p], lr=0.1)
    before = p.data.copy()
    for lr in (0.1, 0.5):
        optimizer.param_groups[0]["lr"] = lr
        p.grad = tg.Tensor(np.ones(3))
        optimizer.step()
    np.testing.assert_allclose(p.data, before - 0.6)


def test_momentum_switched_on_later_starts_with_the_whole_gradient() -> None:
    p = parameter(3)
    optimizer = optim.SGD([p], lr=0.1, dampening=0.5)
    p.grad = tg.Tensor(np.ones(3))
    optimizer.step()
    optimizer.param_groups[0]["momentum"] = 0.9
    before = p.data.copy()
    optimizer.step()
    np.testing.assert_allclose(p.data, before - 0.1)


def test_a_closure_is_called_with_gradients_on_and_its_loss_returned() -> None:
    p = parameter(3)
    optimizer = optim.SGD([p], lr=0.1)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    before = float((p.data**2).sum())
    with tg.no_grad():
        loss = optimizer.step(closure)
    assert loss.item() == pytest.approx(before)
    assert float((p.data**2).sum()) < before


def test_zero_grad_forgets_or_zeroes() -> None:
    p = parameter(3)
    optimizer = optim.SGD([p], lr=0.1)
    p.grad = tg.Tensor(np.array([1.0, np.nan, np.inf]))
    optimizer.zero_grad(set_to_none=False)
    assert np.array_equal(p.grad.data, np.zeros(3))
    optimizer.zero_grad()
    assert p.grad is None


# Blocks and memory.


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("layout", ["contiguous", "transposed weight", "strided gradient"])
def test_large_arrays_in_any_layout_move_like_small_ones(rule: Any, layout: str) -> None:
    rng = np.random.default_rng(3)
    weight, gradient = rng.normal(size=(2, 300, 401))
    laid = {
        "contiguous": (weight.copy(), gradient.copy()),
        "transposed weight": (weight.T.copy().T, gradient.copy()),
        "strided gradient": (weight.copy(), np.repeat(gradient, 2, axis=1)[:, ::2]),
    }[layout]
    large = tg.Tensor(laid[0], requires_grad=True)
    rows = [tg.Tensor(row.copy(), requires_grad=True) for row in weight]
    a, b = rule([large], weight_decay=0.1), rule(rows, weight_decay=0.1)
    for _ in range(3):
        large.grad = tg.Tensor(laid[1])
        for row, g in zip(rows, gradient, strict=True):
            row.grad = tg.Tensor(g)
        a.step()
        b.step()
    assert np.array_equal(large.data, np.stack([row.data for row in rows]))


@pytest.mark.parametrize("rule", RULES)
def test_a_step_allocates_nothing_of_a_parameters_size(rule: Any) -> None:
    p = parameter(1000, 1000, dtype=np.float32)
    with_gradients([p])
    optimizer = rule([p], lr=0.1, weight_decay=0.1)
    optimizer.step()
    tracemalloc.start()
    optimizer.step()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000  # the array has 4,000,000 bytes


# Saved state.


@pytest.mark.parametrize("rule", RULES)
def test_a_run_continued_from_saved_state_ends_with_the_same_bits(rule: Any) -> None:
    def run(steps: range, parameters: list[Any], optimizer: Any) -> None:
        for step in steps:
            with_gradients(parameters, seed=step)
            optimizer.step()

    whole = [parameter(3), parameter(2, 2, seed=1)]
    run(range(10), whole, rule(whole, lr=0.1))
    first = [parameter(3), parameter(2, 2, seed=1)]
    optimizer = rule(first, lr=0.1)
    run(range(5), first, optimizer)
    saved = copy.deepcopy(optimizer.state_dict())
    second = [tg.Tensor(p.data.copy(), requires_grad=True) for p in first]
    resumed = rule(second, lr=0.7)
    resumed.load_state_dict(saved)
    run(range(5, 10), second, resumed)
    for a, b in zip(whole, second, strict=True):
        assert np.array_equal(a.data, b.data)


def test_state_dict_numbers_the_parameters_through_the_groups() -> None:
    ps = [parameter(2), parameter(3), parameter(4)]
    optimizer = optim.Adam([{"params": ps[:2]}, {"params": ps[2:], "lr": 0.5}])
    with_gradients([ps[0], ps[2]])
    optimizer.step()
    saved = optimizer.state_dict()
    assert [group["params"] for group in saved["param_groups"]] == [[0, 1], [2]]
    assert saved["param_groups"][1]["lr"] == 0.5
    assert list(saved["state"]) == [0, 2]
    assert saved["state"][2]["exp_avg"].shape == (4,)
    assert saved["state"][2]["step"] == 1
    json.dumps(saved["param_groups"])


def test_loading_copies_so_that_two_runs_do_not_share_averages() -> None:
    p, q = parameter(3), parameter(3)
    a, b = optim.Adam([p]), optim.Adam([q])
    with_gradients([p])
    a.step()
    b.load_state_dict(a.state_dict())
    a.step()
    assert a.state[p]["step"] == 2 and b.state[q]["step"] == 1
    assert not np.array_equal(a.state[p]["exp_avg"], b.state[q]["exp_avg"])


def test_state_that_went_through_json_and_lists_loads() -> None:
    p, q = parameter(3), parameter(3)
    a, b = optim.Adam([p]), optim.Adam([q])
    with_gradients([p])
    a.step()
    saved = a.state_dict()
    groups = json.loads(json.dumps(saved["param_groups"]))
    state = {str(number): entry for number, entry in saved["state"].items()}
    b.load_state_dict({"state": state, "param_groups": groups})
    assert b.param_groups[0]["betas"] == (0.9, 0.999)
    assert np.array_equal(a.state[p]["exp_avg"], b.state[q]["exp_avg"])


def spoil(saved: dict[str, Any], how: str) -> dict[str, Any]:
    if how == "no groups":
        del saved["param_groups"]
    elif how == "another count":
        saved["param_groups"][0]["params"] = [0, 1, 2]
    elif how == "another shape":
        saved["state"][1]["exp_avg"] = np.zeros(5)
    elif how == "another number":
        saved["state"][9] = saved["state"].pop(1)
    elif how == "another option":
        saved["param_groups"][0]["momentum"] = 0.9
    else:
        saved["param_groups"][0]["lr"] = -1.0
    return saved


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("no groups", "'param_groups'"),
        ("another count", r"\[3\].*\[2\]"),
        ("another shape", r"exp_avg of parameter 1.*\(5,\).*\(4,\)"),
        ("another number", "parameter 9"),
        ("another option", "momentum"),
        ("negative lr", r"lr=-1\.0"),
    ],
)
def test_state_that_does_not_fit_is_an_error_and_changes_nothing(how: str, message: str) -> None:
    ps = [parameter(3), parameter(4)]
    optimizer = optim.Adam(ps, lr=0.1)
    with_gradients(ps)
    optimizer.step()
    before = copy.deepcopy(optimizer.state_dict())
    with pytest.raises(ValueError, match=message):
        optimizer.load_state_dict(spoil(copy.deepcopy(before), how))
    after = optimizer.state_dict()
    assert after["param_groups"] == before["param_groups"]
    for number, entry in before["state"].items():
        for name, value in entry.items():
            assert np.array_equal(after["state"][number][name], value)


def test_printing_an_optimizer_shows_its_groups() -> None:
    text = repr(optim.SGD([parameter(3)], lr=0.25))
    assert "group 0: 1 parameters, lr=0.25, momentum=0.0" in text


def test_a_deep_copy_goes_its_own_way() -> None:
    p = parameter(3)
    optimizer = optim.Adam([p])
    with_gradients([p])
    optimizer.step()
    before = p.data.copy()
    twin = copy.deepcopy(optimizer)
    twin.step()
    assert np.array_equal(p.data, before)
    assert not np.array_equal(twin.param_groups[0]["params"][0].data, before)
