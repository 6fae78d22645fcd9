"""How a graph is walked: order, edges, the sweep and its observer; linear, without recursion."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import graph
from tinygrad_edu.autograd.backward import backward
from tinygrad_edu.ops import registry


@dataclass(eq=False)
class Plain:
    """The least that a graph can be walked through, counting how often it is asked."""

    name: str
    before: Sequence[Any] = ()
    asked: int = field(default=0)

    @property
    def inputs(self) -> Sequence[Any]:
        self.asked += 1
        return self.before


@contextmanager
def without_collector() -> Iterator[None]:
    """Within it nothing is freed but by reference counts."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def diamond(depth: int) -> Plain:
    node = Plain("start")
    for i in range(depth):
        left, right = Plain(f"left {i}", (node,)), Plain(f"right {i}", (node,))
        node = Plain(f"join {i}", (left, right))
    return node


def tensor_diamond(x: tg.Tensor, depth: int) -> tg.Tensor:
    for _ in range(depth):
        x = x * 0.5 + x * 0.5
    return x


def pulls_of(loss: tg.Tensor, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many nodes a backward pass from `loss` pulls through."""
    pulled: list[int] = []

    def counting(node: Any, g: Any) -> Any:
        pulled.append(id(node))
        return original(node, g)

    module = __import__("tinygrad_edu.autograd.backward", fromlist=["pull_raw"])
    original = module.pull_raw
    monkeypatch.setattr(module, "pull_raw", counting)
    loss.backward()
    assert len(set(pulled)) == len(pulled)
    return len(pulled)


# The order.


def test_a_chain_is_ordered_from_its_start_to_its_end() -> None:
    a = Plain("a")
    b = Plain("b", (a,))
    c = Plain("c", (b,))
    assert [n.name for n in graph.topological_order(c)] == ["a", "b", "c"]


def test_a_diamond_is_ordered_with_each_node_once_and_inputs_first() -> None:
    a = Plain("a")
    b, c = Plain("b", (a,)), Plain("c", (a,))
    d = Plain("d", (b, c, a))
    assert [n.name for n in graph.topological_order(d)] == ["a", "b", "c", "d"]


def test_a_single_node_is_its_own_order() -> None:
    a = Plain("a")
    assert graph.topological_order(a) == [a]


@pytest.mark.parametrize("seed", range(20))
def test_in_a_random_graph_every_input_stands_before_what_it_makes(seed: int) -> None:
    draw = np.random.default_rng(seed)
    nodes: list[Plain] = []
    for i in range(60):
        count = min(i, int(draw.integers(0, 4)))
        nodes.append(Plain(str(i), [nodes[j] for j in draw.integers(0, max(i, 1), count)]))
    root = Plain("root", nodes)
    order = graph.topological_order(root)
    place = {id(n): i for i, n in enumerate(order)}
    assert len(place) == len(order) == 61
    assert order[-1] is root
    assert all(place[id(x)] < place[id(n)] for n in order for x in n.before)
    assert [n.name for n in graph.topological_order(root)] == [n.name for n in order]


def test_inputs_may_be_narrowed_by_the_caller() -> None:
    a, b = Plain("a"), Plain("b")
    c = Plain("c", (a, b))
    order = graph.topological_order(c, inputs=lambda n: n.before[:1])
    assert [n.name for n in order] == ["a", "c"]


def test_a_diamond_of_depth_60_asks_each_of_its_181_nodes_once() -> None:
    root = diamond(60)
    order = graph.topological_order(root)
    assert len(order) == 181
    assert {n.asked for n in order} == {1}


def test_a_fan_out_of_8000_asks_each_node_once() -> None:
    source = Plain("source")
    branches = [Plain(str(i), (source,)) for i in range(8000)]
    order = graph.topological_order(Plain("root", branches))
    assert len(order) == 8002
    assert {n.asked for n in order} == {1}


def test_ancestors_are_the_nodes_of_the_order() -> None:
    root = diamond(5)
    found = list(graph.ancestors(root))
    assert len(found) == 16
    assert {id(n) for n in found} == {id(n) for n in graph.topological_order(root)}


def test_a_tensor_and_a_value_are_nodes() -> None:
    x = tg.tensor(1.0, requires_grad=True)
    assert isinstance(x * 2, graph.Node)
    assert isinstance(tg.Value(1.0) * 2, graph.Node)
    assert not isinstance(np.ones(3), graph.Node)


# The sweep.


def test_a_diamond_of_depth_60_in_tensors_pulls_each_node_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = tg.tensor(1.5, requires_grad=True)
    assert pulls_of(tensor_diamond(x, 60), monkeypatch) == 180
    assert x.grad is not None and x.grad.item() == 1.0


def test_a_fan_out_of_8000_in_tensors_pulls_each_node_once(monkeypatch: pytest.MonkeyPatch) -> None:
    x = tg.tensor(1.0, requires_grad=True, dtype=np.float64)
    total = tg.stack([x * float(i) for i in range(8000)]).sum()
    assert pulls_of(total, monkeypatch) == 8002
    assert x.grad is not None and x.grad.item() == 8000 * 7999 / 2


def test_a_node_off_the_path_to_the_loss_is_not_pulled(monkeypatch: pytest.MonkeyPatch) -> None:
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    aside = x.exp()
    assert pulls_of((x * 2).sum(), monkeypatch) == 2
    assert aside.grad is None


def test_constants_are_inputs_but_are_not_walked_to() -> None:
    x, c = tg.tensor(2.0, requires_grad=True), tg.tensor(3.0)
    y = x * c
    assert y.inputs[0] is x and y.inputs[1] is c
    y.backward()
    assert x.grad is not None and c.grad is None


def test_x_times_x_has_two_edges_to_one_node() -> None:
    x = tg.tensor(3.0, requires_grad=True)
    y = x * x
    assert len(y.inputs) == 2 and y.inputs[0] is x and y.inputs[1] is x
    events: list[graph.Event] = []
    backward(y, None, True, False, observer=events.append)
    assert [(e.slot, float(e.contribution)) for e in events] == [(0, 3.0), (1, 3.0)]
    assert x.grad is not None and x.grad.item() == 6.0


def test_a_node_used_by_two_paths_gets_the_sum_before_it_is_pulled() -> None:
    # TrenTorch PR#182: 21, where a depth-first pass without an order gives less.
    x = tg.tensor(2.0, requires_grad=True)
    y = 3 * x
    (2 * y + 5 * y).backward()
    assert y.grad is not None and y.grad.item() == 7.0
    assert x.grad is not None and x.grad.item() == 21.0


def test_a_deep_use_of_an_early_node_is_counted_once() -> None:
    # karpathy/micrograd PR#34: b is used by c and by d, which also uses c.
    a = tg.tensor(1.0, requires_grad=True)
    b = a + a
    c = b + b
    d = c + b * c
    d.backward()  # d = 4a + 8a², so 4 + 16a
    assert a.grad is not None and a.grad.item() == 20.0


# The observer.


def test_the_observer_sees_each_contribution_from_the_loss_to_the_leaves() -> None:
    x = tg.tensor(2.0, requires_grad=True, name="x")
    w = tg.tensor(-3.0, requires_grad=True, name="w")
    p = x * w
    t = p.tanh()
    loss = t + p
    events: list[graph.Event] = []
    backward(loss, None, True, False, observer=events.append)
    assert [e.node for e in events] == [loss, loss, t, p, p]
    assert [e.slot for e in events] == [0, 1, 0, 0, 1]
    assert all(e.input is node for e, node in zip(events, [t, p, p, x, w], strict=True))
    slope = 1 - np.tanh(-6.0) ** 2
    wanted = [1.0, 1.0, slope, -3 * (1 + slope), 2 * (1 + slope)]
    assert [float(e.contribution) for e in events] == pytest.approx(wanted, rel=1e-3)
    assert [float(e.upstream) for e in events] == pytest.approx(
        [1.0, 1.0, 1.0, 1 + slope, 1 + slope], rel=1e-6
    )
    assert [e.before is None for e in events] == [True, True, False, True, True]
    assert float(events[2].before) == 1.0
    assert float(events[2].after) == pytest.approx(1 + slope)


def test_an_observed_pass_gives_the_gradients_of_an_unobserved_one() -> None:
    def run(observer: Any) -> np.ndarray:
        x = tg.tensor([[0.1, -0.4], [0.5, 2.0]], requires_grad=True)
        loss = (x @ x).softmax(-1).log().sum()
        backward(loss, None, True, False, observer=observer)
        assert x.grad is not None
        return x.grad.data

    seen: list[graph.Event] = []
    np.testing.assert_array_equal(run(None), run(seen.append))
    assert len(seen) == 5


def test_sweep_runs_on_any_nodes_with_a_pull_of_ones_own() -> None:
    a = Plain("a")
    b = Plain("b", (a, a))
    c = Plain("c", (b, a))
    order = graph.topological_order(c)
    gradients: dict[int, Any] = {id(c): 1}
    graph.sweep(order, gradients, lambda node, g: [g] * len(node.before))
    assert gradients[id(a)] == 3
    assert len(order) == 3


def test_sweep_skips_a_slot_whose_contribution_is_none() -> None:
    a, b = Plain("a"), Plain("b")
    c = Plain("c", (a, b))
    gradients: dict[int, Any] = {id(c): 1}
    graph.sweep(graph.topological_order(c), gradients, lambda node, g: [None, g])
    assert id(a) not in gradients
    assert gradients[id(b)] == 1


def test_a_releasing_sweep_empties_the_order_and_keeps_the_gradients_of_leaves_only() -> None:
    a = Plain("a")
    b = Plain("b", (a,))
    c = Plain("c", (b,))
    order = graph.topological_order(c)
    gradients: dict[int, Any] = {id(c): 1}
    graph.sweep(order, gradients, lambda node, g: [g], release=True)
    assert order == []
    assert gradients == {id(a): 1}


# Freeing.


def make_and_drop(how: str) -> weakref.ref[Any]:
    x = tg.randn(3, 4, requires_grad=True)
    w = tg.randn(4, 4, requires_grad=True)
    if how == "tg.grad":
        tg.grad(lambda a: (a @ w).tanh().sum())(x)
        tg.grad(tg.grad(lambda a: a * a * a))(2.0)
        return weakref.ref(w)
    if how == "jvp":
        tg.jvp(lambda a: tg.softmax(a @ w), x, tg.ones(3, 4))
        return weakref.ref(w)
    y = tg.linear(x, w, activation="gelu")
    loss = tg.cross_entropy(tg.layer_norm(y) + y * y, [0, 1, 2])
    y.register_hook(lambda g: g * 2)
    loss.backward(retain_graph=how == "retain_graph=True")
    if how == "retain_graph=True":
        loss.backward()
    return weakref.ref(y)


@pytest.mark.parametrize("how", ["retain_graph=True", "retain_graph=False", "tg.grad", "jvp"])
def test_a_dropped_graph_leaves_nothing_for_the_garbage_collector(how: str) -> None:
    make_and_drop(how)  # whatever is made once, such as compiled rules, is made here
    with without_collector():
        dead = make_and_drop(how)
        assert dead() is None
        assert gc.collect() == 0


def test_a_failed_operation_leaves_no_graph_behind() -> None:
    with without_collector():
        x = tg.randn(2, 3, requires_grad=True)
        y = x.exp()
        dead = weakref.ref(y)
        with pytest.raises(tg.errors.ShapeError):
            y @ y
        del y
        assert gc.collect() >= 0
        assert dead() is None


def test_a_chain_of_a_million_tensors_is_built_run_and_freed_without_recursion() -> None:
    length = 1_000_000
    with without_collector():
        x = tg.tensor(0.5, requires_grad=True)
        y = x
        for _ in range(length):
            y = -y
        first = weakref.ref(y.inputs[0])
        y.backward()
        assert x.grad is not None and x.grad.item() == 1.0
        del y
        assert first() is None
        # A chain whose graph is used up on the way is freed by the pass itself.
        x.zero_grad()
        y = x
        for _ in range(1000):
            y = -y
        y.backward(retain_graph=False)
        assert y.inputs == () and x.grad is not None
        kept = Counter(type(o) for o in gc.get_objects())[tg.Tensor]
        assert kept < 1000


def test_the_code_a_backward_pass_runs_can_be_read() -> None:
    from tinygrad_edu.autograd.pull import explain_pull

    code = explain_pull(registry["divide"])
    assert "F.absorb(g, rule1(x1._data, node._data))" in code  # -out / b
    compile(code, "divide", "exec")
    assert "vjp" in explain_pull(registry["linear"])
