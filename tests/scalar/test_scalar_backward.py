"""The backward pass of `Value`: order, accumulation, cost, memory, and other engines' numbers."""

from __future__ import annotations

import gc
import importlib.util
import math
import random
import subprocess
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinygrad_edu import graph
from tinygrad_edu.scalar import Value, backward


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Without the garbage collector, only reference counts free anything."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def micrograd_readme(value: Any) -> tuple[float, float, float]:
    """The example of micrograd's README, on the class given."""
    a = value(-4.0)
    b = value(2.0)
    c = a + b
    d = a * b + b**3
    c += c + 1
    c += 1 + c + (-a)
    d += d * 2 + (b + a).relu()
    d += 3 * d + (b - a).relu()
    e = c - d
    f = e**2
    g = f / 2.0
    g += 10.0 / f
    g.backward()
    return g.data, a.grad, b.grad


def test_micrograds_readme_gives_its_numbers() -> None:
    assert [f"{x:.4f}" for x in micrograd_readme(Value)] == ["24.7041", "138.8338", "645.5773"]


@pytest.mark.oracle
def test_micrograd_itself_agrees() -> None:
    engine = pytest.importorskip("micrograd.engine", reason="micrograd is not installed")
    assert micrograd_readme(Value) == pytest.approx(micrograd_readme(engine.Value), rel=1e-14)


# Random expressions against forward mode: the derivative carried along with the number.

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["+", "-", "*", "/", "max", "tanh", "sigmoid", "exp", "sin", "relu", "**", "const"]
        ),
        st.integers(0, 10**6),
        st.integers(0, 10**6),
    ),
    min_size=1,
    max_size=40,
)
POINTS = st.lists(st.floats(-2, 2), min_size=3, max_size=3)


def dual(op: str, x: tuple[float, float], y: tuple[float, float]) -> tuple[float, float]:
    """One operation on pairs (number, derivative by one chosen leaf)."""
    (a, da), (b, db) = x, y
    if op == "+":
        return a + b, da + db
    if op == "-":
        return a - b, da - db
    if op == "*":
        return a * b, da * b + a * db
    if op == "/":
        q = 1.0 + b * b
        return a / q, da / q - a / q**2 * 2 * b * db
    if op == "max":
        return (a, da) if a > b else (b, db) if b > a else (a, (da + db) / 2)
    if op == "tanh":
        return math.tanh(a), da * (1 - math.tanh(a) ** 2)
    if op == "sigmoid":
        s = 1 / (1 + math.exp(-a))
        return s, da * s * (1 - s)
    if op == "exp":
        return math.exp(math.tanh(a)), da * (1 - math.tanh(a) ** 2) * math.exp(math.tanh(a))
    if op == "sin":
        return math.sin(a), da * math.cos(a)
    if op == "relu":
        return (a, da) if a > 0 else (0.0, 0.0)
    if op == "**":
        base = 1.0 + a * a
        ds = db * (1 - math.tanh(b) ** 2)
        out = base ** math.tanh(b)
        return out, out * (ds * math.log(base) + math.tanh(b) * 2 * a * da / base)
    return 3.0 - 2.0 * a, -2.0 * da


def traced(op: str, x: Value, y: Value) -> Value:
    """The same operation on Values."""
    return {
        "+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "/": lambda: x / (1 + y * y),
        "max": lambda: x.maximum(y), "tanh": lambda: x.tanh(), "sigmoid": lambda: x.sigmoid(),
        "exp": lambda: x.tanh().exp(), "sin": lambda: x.sin(), "relu": lambda: x.relu(),
        "**": lambda: (1 + x * x) ** y.tanh(), "const": lambda: 3 - 2 * x,
    }[op]()  # fmt: skip


@given(STEPS, POINTS)
def test_random_graphs_agree_with_forward_mode(steps: Any, points: list[float]) -> None:
    leaves = [Value(x) for x in points]
    nodes = list(leaves)
    for op, i, j in steps:
        # squashed, so that products of products stay of order one
        nodes.append(traced(op, nodes[i % len(nodes)], nodes[j % len(nodes)]).tanh())
    nodes[-1].backward()
    for k, leaf in enumerate(leaves):
        pairs = [(x, float(k == n)) for n, x in enumerate(points)]
        for op, i, j in steps:
            made = dual(op, pairs[i % len(pairs)], pairs[j % len(pairs)])
            pairs.append(dual("tanh", made, made))
        assert nodes[-1].data == pytest.approx(pairs[-1][0], rel=1e-9, abs=1e-9)
        assert leaf.grad == pytest.approx(pairs[-1][1], rel=1e-7, abs=1e-9)


@given(STEPS, POINTS)
def test_an_observed_sweep_gives_the_same_bits(steps: Any, points: list[float]) -> None:
    def build() -> list[Value]:
        nodes = [Value(x) for x in points]
        for op, i, j in steps:
            nodes.append(traced(op, nodes[i % len(nodes)], nodes[j % len(nodes)]))
        return nodes

    fast, slow = build(), build()
    events: list[graph.Event] = []
    fast[-1].backward()
    slow[-1].backward(observer=events.append)
    assert [node.grad for node in fast] == [node.grad for node in slow]
    assert [node.has_grad for node in fast] == [node.has_grad for node in slow]


def test_an_observer_is_told_of_every_contribution() -> None:
    x = Value(3.0)
    y = x * x
    events: list[graph.Event] = []
    y.backward(gradient=2.0, observer=events.append)
    assert [(e.node, e.input, e.contribution) for e in events] == [(y, x, 6.0), (y, x, 6.0)]
    assert x.grad == 12.0 and y.grad == 2.0
    y.backward(observer=events.append)
    assert x.grad == 18.0 and y.grad == 1.0


# Accumulation


def test_a_second_backward_adds_to_leaves_and_starts_the_rest_afresh() -> None:
    a = Value(1.0)
    b = a * 2
    c = b + a
    c.backward()
    assert (a.grad, b.grad, c.grad) == (3.0, 1.0, 1.0)
    c.backward()
    assert (a.grad, b.grad, c.grad) == (6.0, 1.0, 1.0)


def test_a_gradient_reads_0_before_it_exists_and_says_so() -> None:
    a, unused = Value(1.0), Value(2.0)
    b = a * 2
    assert (a.grad, a.has_grad, b.has_grad) == (0.0, False, False)
    b.backward()
    assert a.has_grad and b.has_grad and not unused.has_grad
    a.grad = 0
    assert a.grad == 0.0 and a.has_grad
    a.grad = None
    assert a.grad == 0.0 and not a.has_grad


def test_backward_takes_a_gradient_to_start_from() -> None:
    a = Value(3.0)
    (a * a).backward(0.5)
    assert a.grad == 3.0
    with pytest.raises(TypeError, match=r"backward\(gradient\) takes one real number, got a str"):
        a.backward("1")  # type: ignore[arg-type]


def test_backward_of_a_leaf_is_its_own_gradient() -> None:
    a = Value(3.0)
    a.backward()
    a.backward(2.0)
    assert a.grad == 3.0


def test_two_roots_over_one_trunk_add_up() -> None:
    a = Value(2.0)
    trunk = a * a
    first, second = trunk * 3, trunk * 5
    first.backward()
    second.backward()
    assert a.grad == 4 * 3 + 4 * 5


def test_changing_data_after_the_fact_does_not_change_the_gradient() -> None:
    a, b = Value(2.0), Value(5.0)
    c = a * b
    b.data = 100.0
    c.backward()
    assert a.grad == 5.0


def test_each_path_counts_once_whatever_the_order_of_use() -> None:
    x = Value(2.0)
    a = 3 * x
    c = 2 * a + 5 * (3 * x)
    c.backward()
    assert x.grad == 21.0


def test_zero_upstream_leaves_zeros_not_stale_gradients() -> None:
    a = Value(-1.0)
    b = a * 3
    b.backward()
    assert b.grad == 1.0
    dead = b.relu()
    dead.backward()
    assert b.grad == 0.0 and a.grad == 3.0


# Cost: visits are counted, not seconds


def count_visits(root: Value, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many times backward looks at the left input of a node: a measure of its work."""
    visits = 0
    slot: Any = vars(Value)["_left"]

    class Counted:
        def __get__(self, node: Value, owner: type) -> Value:
            nonlocal visits
            visits += 1
            left: Value = slot.__get__(node, owner)
            return left

    monkeypatch.setattr(Value, "_left", Counted())
    root.backward()
    monkeypatch.undo()
    return visits


def test_a_diamond_of_depth_60_is_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    x = Value(1.0)
    node = x
    for _ in range(60):
        node = node * 0.5 + node * 0.5
    made = [v for v in graph.topological_order(node) if v.op]
    assert len(made) == 180
    assert len(backward.order_and_clear(node)) == 180
    edges = 2 * len(made)
    assert count_visits(node, monkeypatch) <= 2 * (len(made) + edges)
    assert x.grad == 1.0


def test_a_fan_out_of_8000_is_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    x = Value(1.0)
    trunk = x * 2
    total = sum([trunk * 1 for _ in range(8000)])
    assert isinstance(total, Value)
    made = 1 + 2 * 8000
    assert len(backward.order_and_clear(total)) == made
    assert count_visits(total, monkeypatch) <= 2 * (made + 2 * made)
    assert x.grad == 16000.0


def test_the_order_is_that_of_the_graph_room() -> None:
    x = Value(0.5)
    shared = x.tanh()
    root = shared * shared + (x - shared).exp() / shared
    leaves_out = [node for node in graph.topological_order(root) if node.op]
    assert backward.order_and_clear(root) == leaves_out


# Life and death


@pytest.mark.usefixtures("no_collector")
def test_a_chain_of_a_million_builds_runs_backward_and_is_freed() -> None:
    x, node = Value(1.0), Value(0.0)
    first = weakref.ref(node)
    for _ in range(500_000):
        node = (node + x).relu()
    assert node.data == 500_000.0
    node.backward()
    assert x.grad == 500_000.0
    del node
    assert first() is None, "the chain is still held"


@pytest.mark.usefixtures("no_collector")
def test_a_dropped_graph_leaves_nothing_for_the_collector() -> None:
    x, y = Value(0.5, name="x"), Value(2.0)
    out = ((x * y).tanh() + x**2 / y).maximum(x).sigmoid() ** y
    out.backward()
    out.backward(observer=lambda event: None)
    watched = [weakref.ref(node) for node in graph.topological_order(out)]
    del out, x, y
    assert [ref() for ref in watched] == [None] * len(watched)
    assert gc.collect() == 0


def test_a_million_deep_chain_needs_little_stack() -> None:
    """In a process of its own, as an overflow of the C stack would end this one."""
    script = (
        "import threading, sys\n"
        "from tinygrad_edu.scalar import Value\n"
        "def work():\n"
        "    v = Value(1.0)\n"
        "    for _ in range(1_000_000): v = v * 1.0\n"
        "    v.backward()\n"
        "    del v\n"
        "    print('freed')\n"
        "threading.stack_size(1024 * 1024)\n"
        "t = threading.Thread(target=work); t.start(); t.join()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stdout == "freed\n", done.stderr


def reachable_bytes(root: Value) -> tuple[int, int]:
    """Bytes that live because of the graph under `root`, and its number of nodes.

    Every object that a node refers to counts once; class, strings and numbers that would live
    without the graph (the interpreter's small constants, shared 0.0 and 1.0) do not.
    """
    constants = {id(x) for x in (Value, 0.0, 1.0)}
    for code in (Value.__add__.__code__, backward.order_and_clear.__code__):
        constants.update(map(id, code.co_consts))
    seen: set[int] = set()
    total = nodes = 0
    stack: list[Any] = [root]
    while stack:
        thing = stack.pop()
        if id(thing) in seen or id(thing) in constants or isinstance(thing, (str, type)):
            continue
        seen.add(id(thing))
        total += sys.getsizeof(thing)
        nodes += isinstance(thing, Value)
        stack.extend(gc.get_referents(thing))
    return total, nodes


def perceptron_loss() -> Value:
    draw = random.Random(0)
    layers = [
        [[Value(draw.uniform(-1, 1)) for _ in range(n + 1)] for _ in range(m)]
        for n, m in ((2, 16), (16, 16), (16, 1))
    ]
    total = Value(0.0)
    for _ in range(10):
        x = [Value(draw.gauss(0, 1)), Value(draw.gauss(0, 1))]
        for layer in layers:
            x = [sum((w * xi for w, xi in zip(ws, x, strict=False)), ws[-1]).relu() for ws in layer]
        total = total + x[0] * x[0]
    return total


def test_a_node_of_a_network_takes_few_bytes_before_backward() -> None:
    total, nodes = reachable_bytes(perceptron_loss())
    assert nodes > 6000
    # Python 3.13 keeps a few bytes more an object; the mark is 160, the aim 130.
    limit = 130 if sys.version_info < (3, 13) else 140
    assert total / nodes <= limit, f"{total / nodes:.1f} bytes a node"


def test_a_node_of_a_function_takes_at_most_160_bytes_before_backward() -> None:
    x = Value(0.5)
    node = x
    for _ in range(1000):
        node = (node.tanh() + node.sin() * node) * node.sigmoid().exp().relu()
    total, nodes = reachable_bytes(node)
    assert total / nodes <= 160, f"{total / nodes:.1f} bytes a node"


@settings(max_examples=5)
@given(st.integers(0, 2**32))
def test_equal_graphs_give_equal_bits(seed: int) -> None:
    def run() -> list[float]:
        draw = random.Random(seed)
        nodes = [Value(draw.uniform(-1, 1)) for _ in range(4)]
        for _ in range(50):
            nodes.append((draw.choice(nodes) * draw.choice(nodes) + draw.choice(nodes)).tanh())
        nodes[-1].backward()
        return [node.grad for node in nodes]

    assert run() == run()


def test_importing_the_room_loads_no_more_than_numpy() -> None:
    script = (
        "import sys; import numpy; before = set(sys.modules); import tinygrad_edu.scalar\n"
        "print(sorted({m.split('.')[0] for m in set(sys.modules) - before}"
        " - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['tinygrad_edu']"
    assert importlib.util.find_spec("numpy") is not None
