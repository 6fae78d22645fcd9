"""`Module`: how its parts are found, switched, moved, hooked, named and printed."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import nn
from tinygrad_edu.graph import topological_order

ROOT = Path(__file__).resolve().parents[2]


class Tied(nn.Module):
    """Two linear layers with one weight, a scale of its own, a buffer, a list."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.scale = nn.Parameter(np.ones(3, dtype=np.float32))
        self.register_buffer("shift", tg.zeros(3))
        self.register_buffer("scratch", tg.zeros(2), persistent=False)
        self.more = nn.ModuleList([nn.Dropout(0.1), nn.Linear(3, 1)])

    def forward(self, x: Any) -> Any:
        x = self.second(self.first(x)) * self.scale + self.shift
        for layer in self.more:
            x = layer(x)
        return x


def names(pairs: Any) -> list[str]:
    return [name for name, _ in pairs]


# Finding the parts.


def test_parts_are_found_in_the_order_of_assignment_and_a_tied_one_once() -> None:
    model = Tied()
    wanted = ["scale", "first.weight", "first.bias", "second.bias", "more.1.weight", "more.1.bias"]
    assert names(model.named_parameters()) == wanted
    assert [id(p) for p in model.parameters()] == [id(p) for _, p in model.named_parameters()]
    everything = names(model.named_parameters(remove_duplicate=False))
    assert "second.weight" in everything
    assert names(model.named_parameters(recurse=False)) == ["scale"]
    assert names(model.named_parameters(prefix="net"))[0] == "net.scale"
    assert names(model.named_buffers()) == ["shift", "scratch"]
    assert names(model.named_children()) == ["first", "second", "more"]
    assert names(model.named_modules()) == ["", "first", "second", "more", "more.0", "more.1"]
    assert len(list(model.modules())) == 6 and len(list(model.children())) == 3
    assert len(list(model.buffers())) == 2


def test_a_module_used_twice_is_found_once() -> None:
    layer = nn.Linear(2, 2)
    model = nn.Sequential(layer, nn.ReLU(), layer)
    assert names(model.named_modules()) == ["", "0", "1"]
    assert names(model.named_modules(remove_duplicate=False)) == ["", "0", "1", "2"]
    assert names(model.named_parameters()) == ["0.weight", "0.bias"]
    assert names(model.named_children()) == ["0", "1"]


def test_assigning_again_deleting_and_none() -> None:
    layer = nn.Linear(2, 2)
    layer.bias = None
    assert names(layer.named_parameters()) == ["weight"]
    layer.weight = nn.Parameter(np.zeros((2, 2)))
    assert layer.weight.data.sum() == 0
    del layer.weight
    assert list(layer.parameters()) == []
    model = Tied()
    del model.shift
    assert names(model.named_buffers()) == ["scratch"]


def test_a_subclass_that_forgot_super_init_still_works() -> None:
    class Forgetful(nn.Module):
        def __init__(self) -> None:
            self.inner = nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            return self.inner(x)

    model = Forgetful()
    model.register_buffer("table", tg.zeros(2))
    seen: list[Any] = []
    model.register_forward_hook(lambda module, args, output: seen.append(output.shape))
    assert model(tg.ones(3, 2)).shape == (3, 2)
    assert seen == [(3, 2)]
    assert list(model.state_dict()) == ["table", "inner.weight", "inner.bias"]


def test_a_plain_list_of_modules_is_warned_of() -> None:
    class Hidden(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = [nn.Linear(2, 2)]

    with pytest.warns(UserWarning, match=r"Hidden\.layers is a plain list.*nn\.ModuleList"):
        Hidden()


def test_get_submodule_walks_a_path_or_says_what_there_is() -> None:
    model = Tied()
    assert model.get_submodule("more.1") is model.more[1]
    assert model.get_submodule("") is model
    with pytest.raises(AttributeError, match=r"no child '2', its children are 0, 1"):
        model.get_submodule("more.2")


@pytest.mark.parametrize("name", ["", "a.b", "forward", "training"])
def test_a_name_that_cannot_be_one_is_refused(name: str) -> None:
    model = nn.Module()
    with pytest.raises(ValueError, match=repr(name)):
        model.register_module(name, nn.ReLU())
    with pytest.raises(ValueError, match=repr(name)):
        model.register_buffer(name, tg.zeros(1))
    with pytest.raises(ValueError, match=repr(name)):
        model.register_parameter(name, nn.Parameter(np.zeros(1)))


def test_registering_something_else_is_refused() -> None:
    model = nn.Module()
    with pytest.raises(TypeError, match=r"ndarray, expected nn\.Parameter"):
        model.register_parameter("p", np.zeros(1))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="ndarray, expected a Tensor"):
        model.register_buffer("b", np.zeros(1))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"ndarray, expected an nn\.Module"):
        model.register_module("m", np.zeros(1))  # type: ignore[arg-type]


def test_a_parameter_is_a_leaf_of_floats() -> None:
    source = tg.tensor([1.0, 2.0], requires_grad=True) * 3.0
    parameter = nn.Parameter(source)
    assert parameter.is_leaf and parameter.requires_grad
    assert isinstance(parameter, tg.Tensor)
    with pytest.raises(TypeError, match="int64"):
        nn.Parameter(np.array([1, 2]))
    assert not nn.Parameter(np.array([1, 2]), requires_grad=False).requires_grad
    assert repr(parameter).startswith("Parameter containing:\n")


# Switching the whole tree.


def test_train_and_eval_reach_every_module() -> None:
    model = Tied()
    assert all(module.training for module in model.modules())
    assert model.eval() is model
    assert not any(module.training for module in model.modules())
    model.train()
    assert model.more[0].training


def test_apply_reaches_children_before_their_parent() -> None:
    order: list[str] = []
    nn.Sequential(nn.Linear(1, 1), nn.ReLU()).apply(lambda m: order.append(type(m).__name__))
    assert order[-1] == "Sequential" and sorted(order[:2]) == ["Linear", "ReLU"]


def test_frozen_parameters_get_no_gradient() -> None:
    model = Tied()
    model.first.requires_grad_(False)
    model(tg.ones(2, 3)).sum().backward()
    assert model.first.weight.grad is None
    assert model.scale.grad is not None


def test_zero_grad_forgets_or_zeroes() -> None:
    layer = nn.Linear(2, 1)
    layer.weight.grad = tg.tensor([[np.nan, 1.0]])
    layer.zero_grad(set_to_none=False)
    assert np.array_equal(layer.weight.grad.data, [[0.0, 0.0]])
    assert layer.bias is not None and layer.bias.grad is None
    layer.zero_grad()
    assert layer.weight.grad is None


def test_to_casts_floats_gradients_and_buffers_and_keeps_ties() -> None:
    model = Tied()
    model.register_buffer("counts", tg.tensor(np.array([1, 2])))
    model(tg.ones(2, 3)).sum().backward()
    assert model.to(np.float64) is model
    for tensor in (*model.parameters(), model.shift):
        assert tensor.dtype == np.float64
    assert model.scale.grad is not None and model.scale.grad.dtype == np.float64
    assert model.counts.dtype == np.int64
    assert model.second.weight is model.first.weight
    assert model.to("cpu", np.float32).scale.dtype == np.float32
    assert model.to(dtype=np.float64, device="cpu").scale.dtype == np.float64


def test_to_an_integer_dtype_is_refused() -> None:
    with pytest.raises(TypeError, match="int64"):
        nn.Linear(1, 1).to(np.int64)


# Calling.


def test_hooks_see_and_may_replace_arguments_and_output() -> None:
    layer = nn.Identity()
    seen: list[Any] = []
    pre = layer.register_forward_pre_hook(lambda module, args: args[0] * 2.0)
    post = layer.register_forward_hook(lambda module, args, output: output + 1.0)
    watch = layer.register_forward_hook(lambda module, args, output: seen.append(args[0].item()))
    assert layer(tg.tensor(3.0)).item() == 7.0
    assert seen == [6.0]
    pre.remove()
    pre.remove()
    assert layer(tg.tensor(3.0)).item() == 4.0
    with watch:
        post.remove()
    assert layer(tg.tensor(3.0)).item() == 3.0
    assert seen == [6.0, 3.0]


def test_a_hook_may_remove_itself_without_hiding_the_next() -> None:
    layer = nn.Identity()
    seen: list[str] = []

    def once(module: Any, args: Any, output: Any) -> None:
        seen.append("once")
        handle.remove()

    handle = layer.register_forward_hook(once)
    layer.register_forward_hook(lambda module, args, output: seen.append("always"))
    layer(tg.tensor(1.0))
    layer(tg.tensor(1.0))
    assert seen == ["once", "always", "always"]


def test_a_module_without_forward_says_so() -> None:
    class Empty(nn.Module):
        pass

    with pytest.raises(NotImplementedError, match="Empty has no forward"):
        Empty()(1)


def paths(output: Any) -> list[str]:
    return [node.module for node in topological_order(output) if node.op is not None]


def test_nodes_carry_the_path_from_the_outermost_module() -> None:
    block = nn.TransformerBlock(4, 2)
    net = nn.Sequential(block, nn.Linear(4, 1))
    assert paths(net(tg.ones(1, 2, 4))) == [
        "Sequential.0.ln_1",
        "Sequential.0.attn.qkv",
        "Sequential.0.attn",
        "Sequential.0.attn.out_proj",
        "Sequential.0.ln_2",
        "Sequential.0.mlp.layers.0",
        "Sequential.0.mlp.layers.1",
        "Sequential.1",
    ]
    assert paths(block(tg.ones(1, 2, 4)))[1] == "TransformerBlock.attn.qkv"
    assert net.get_submodule("0.attn.qkv") is block.attn.qkv


def test_a_path_ends_with_its_module_even_after_an_error() -> None:
    layer = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="linear"):
        layer(tg.ones(3, 5))
    x = tg.tensor([1.0], requires_grad=True)
    assert (x * 2.0).module == ""
    after = nn.Identity()(x * 2.0) + 1.0
    assert after.module == ""


def test_paths_follow_a_changed_tree() -> None:
    net = nn.Sequential(nn.Linear(2, 2))
    assert paths(net(tg.ones(1, 2))) == ["Sequential.0"]
    net.append(nn.Linear(2, 2))
    assert paths(net(tg.ones(1, 2))) == ["Sequential.0", "Sequential.1"]
    outer = nn.ModuleDict({"net": net})

    class Wrapper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = outer

        def forward(self, x: Any) -> Any:
            return self.parts["net"](x)

    assert paths(Wrapper()(tg.ones(1, 2))) == ["Wrapper.parts.net.0", "Wrapper.parts.net.1"]


def test_a_module_made_on_the_spot_is_named_by_its_class() -> None:
    class Spontaneous(nn.Module):
        def forward(self, x: Any) -> Any:
            return nn.Tanh()(nn.Sequential(nn.ReLU())(x))

    x = tg.tensor([1.0], requires_grad=True)
    assert paths(Spontaneous()(x)) == ["Spontaneous.Sequential.0", "Spontaneous.Tanh"]


def test_each_thread_has_its_own_path() -> None:
    entered, leave = threading.Event(), threading.Event()

    class Slow(nn.Module):
        def forward(self, x: Any) -> Any:
            entered.set()
            assert leave.wait(10)
            return x * 2.0

    x = tg.tensor([1.0], requires_grad=True)
    results: list[Any] = []
    worker = threading.Thread(target=lambda: results.append(Slow()(x)))
    worker.start()
    assert entered.wait(10)
    here = x * 3.0
    leave.set()
    worker.join()
    assert here.module == "" and results[0].module == "Slow"


def test_parameters_are_named_by_their_path_unless_the_user_named_them() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    assert net[0].weight.name == "weight"
    net[1].bias = nn.Parameter(np.zeros(2, dtype=np.float32), name="mine")
    net(tg.ones(1, 2))
    assert [p.name for p in net.parameters()] == ["0.weight", "0.bias", "1.weight", "mine"]
    net[0](tg.ones(1, 2))
    assert net[0].weight.name == "0.weight"  # the longer path says more


def test_a_dropped_module_is_freed_without_the_garbage_collector() -> None:
    gc.disable()
    try:
        net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        net(tg.ones(1, 2)).sum().backward()
        gone = weakref.ref(net)
        del net
        assert gone() is None
    finally:
        gc.enable()


# Printing and importing.


def test_printing_shows_the_tree() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.GELU(), nn.LayerNorm(3)))
    assert repr(net) == (
        "Sequential(\n"
        "  (0): Linear(in_features=2, out_features=3, bias=True)\n"
        "  (1): Sequential(\n"
        "    (0): GELU(approximate='none')\n"
        "    (1): LayerNorm((3,), eps=1e-05, elementwise_affine=True)\n"
        "  )\n"
        ")"
    )


@pytest.mark.parametrize("room", ["nn", "optim"])
def test_importing_a_room_as_a_package_of_its_own_is_refused(room: str) -> None:
    for statement in (f"import {room}", f"import {room}.module"):
        result = subprocess.run(
            [sys.executable, "-c", statement], cwd=ROOT, capture_output=True, text=True
        )
        assert result.returncode == 1
        assert f"from tinygrad_edu import {room}" in result.stderr.splitlines()[-1]
