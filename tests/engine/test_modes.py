"""What is switched on: gradients, kernels, module path, random stream; per thread, and put back."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import graph


def in_a_thread(f: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(f()))
    thread.start()
    thread.join()
    return found[0]


def operations(root: tg.Tensor) -> Counter[str]:
    return Counter(n.op.name for n in graph.ancestors(root) if n.op is not None)


# Gradients.


def test_no_grad_remembers_nothing() -> None:
    x = tg.ones(2, requires_grad=True)
    with tg.no_grad():
        assert not tg.is_grad_enabled()
        y = x * 2
    assert tg.is_grad_enabled()
    assert not y.requires_grad and y.is_leaf and y.inputs == () and y.op is None
    assert (x * 2).requires_grad


def test_no_grad_is_a_decorator_that_can_be_called_again() -> None:
    @tg.no_grad()
    def double(t: tg.Tensor) -> tg.Tensor:
        assert not tg.is_grad_enabled()
        return t * 2

    x = tg.ones(2, requires_grad=True)
    for _ in range(2):
        assert not double(x).requires_grad
        assert tg.is_grad_enabled()


def test_enable_grad_inside_no_grad_remembers_again() -> None:
    x = tg.ones(2, requires_grad=True)
    with tg.no_grad():
        with tg.enable_grad():
            inside = x * 2
        after = x * 2
    assert inside.requires_grad and not after.requires_grad


def test_a_leaf_made_inside_no_grad_can_be_tracked() -> None:
    with tg.no_grad():
        x = tg.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad is not None


def test_backward_inside_no_grad_runs() -> None:
    x = tg.ones(2, requires_grad=True)
    loss = (x * x).sum()
    with tg.no_grad():
        loss.backward()
    assert x.grad is not None and x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    "mode", [tg.no_grad, tg.enable_grad, tg.unfused, tg.detect_anomaly, lambda: tg.module_path("a")]
)
def test_a_mode_is_put_back_after_an_exception(mode: Callable[[], Any]) -> None:
    from tinygrad_edu.autograd.modes import state

    def look() -> tuple[Any, ...]:
        return state.grad, state.fused, state.anomaly, state.module

    before = look()
    with pytest.raises(KeyError), mode():
        raise KeyError
    assert look() == before == (True, True, False, "")


# Threads.


def test_modes_hold_in_their_own_thread_alone() -> None:
    x = tg.ones(2, requires_grad=True)

    def look() -> tuple[bool, str, int, bool]:
        y = tg.softmax(x)
        z = tg.sqrt(tg.zeros(1, requires_grad=True))
        z.backward()
        return y.requires_grad, y.module, len(list(graph.ancestors(y))), tg.is_grad_enabled()

    with tg.no_grad(), tg.unfused(), tg.module_path("here"), tg.detect_anomaly():
        assert in_a_thread(look) == (True, "", 2, True)
        assert not tg.is_grad_enabled()


def test_modes_of_many_threads_do_not_disturb_each_other() -> None:
    x = tg.ones(2, requires_grad=True)
    gate = threading.Barrier(8)
    wrong: list[int] = []

    def work(number: int) -> None:
        gate.wait()
        for _ in range(200):
            mode = tg.no_grad if number % 2 else tg.enable_grad
            with mode(), tg.module_path(str(number)):
                y = x * 2
                if y.requires_grad == bool(number % 2) or y.module not in ("", str(number)):
                    wrong.append(number)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(before)
    assert wrong == []


def test_threads_may_each_run_backward_on_graphs_of_their_own() -> None:
    data = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)

    def work() -> list[float]:
        w = tg.Tensor(data, requires_grad=True)
        for _ in range(20):
            w.zero_grad()
            tg.tanh(w @ w).sum().backward()
        assert w.grad is not None
        found: list[float] = w.grad.tolist()
        return found

    wanted = work()
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(work())) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [wanted] * 4


# Fused operations, opened.


def test_a_fused_softmax_is_one_node_and_an_unfused_one_shows_exp_sum_and_division() -> None:
    x = tg.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    assert operations(tg.softmax(x)) == {"softmax": 1}
    with tg.unfused():
        opened = tg.softmax(x)
    found = operations(opened)
    assert {"subtract", "exp", "sum", "divide"} <= set(found)
    assert "softmax" not in found
    assert opened.op.name == "divide"
    np.testing.assert_allclose(opened.data, tg.softmax(x).data, rtol=1e-6)


OPENED: dict[str, tuple[Callable[[tg.Tensor], tg.Tensor], set[str]]] = {
    "linear": (
        lambda x: tg.linear(x, tg.ones(2, 3), tg.ones(2), "relu", tg.ones(4, 2)),
        {"matmul", "add", "relu"},
    ),
    "layer_norm": (lambda x: tg.layer_norm(x, tg.ones(3)), {"mean", "sqrt", "divide", "multiply"}),
    "rms_norm": (lambda x: tg.rms_norm(x, tg.ones(3)), {"mean", "sqrt", "divide", "multiply"}),
    "rotary": (
        lambda x: tg.rotary(x.reshape(2, 6)), {"getitem", "multiply", "subtract", "concatenate"}
    ),
    "cross_entropy": (lambda x: tg.cross_entropy(x, [0, 1, 2, 0]), {"exp", "log", "getitem"}),
    "gelu": (lambda x: tg.gelu(x), {"erf", "multiply"}),
    "gelu tanh": (lambda x: tg.gelu(x, approximate="tanh"), {"tanh", "multiply"}),
    "attention": (lambda x: tg.attention(x, x, x, causal=True), {"matmul", "exp", "sum", "divide"}),
    "log_softmax": (lambda x: tg.log_softmax(x), {"exp", "log", "sum"}),
    "logsumexp": (lambda x: tg.logsumexp(x), {"exp", "log", "sum"}),
    "packed_attention": (
        lambda x: tg.packed_attention(x.reshape(1, 2, 6), 2),
        {"reshape", "transpose", "getitem", "matmul", "exp"},
    ),
}


@pytest.mark.parametrize(("f", "names"), OPENED.values(), ids=OPENED.keys())
def test_unfused_opens_an_operation_into_its_reference_with_the_same_gradient(
    f: Callable[[tg.Tensor], tg.Tensor], names: set[str]
) -> None:
    data = np.random.default_rng(1).standard_normal((4, 3))

    def run() -> tuple[tg.Tensor, np.ndarray]:
        x = tg.tensor(data, requires_grad=True)
        y = f(x)
        (y * y).sum().backward()
        assert x.grad is not None
        return y, x.grad.data

    closed, fused_gradient = run()
    with tg.unfused():
        opened, gradient = run()
    fused = closed.op.name
    assert fused not in operations(opened) or fused in names
    assert names <= set(operations(opened))
    assert len(list(graph.ancestors(opened))) > len(list(graph.ancestors(closed)))
    np.testing.assert_allclose(opened.data, closed.data, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(gradient, fused_gradient, rtol=1e-5, atol=1e-7)


# Where a node was made.


def test_a_node_knows_the_line_and_the_module_that_made_it() -> None:
    x = tg.ones(2, requires_grad=True)
    with tg.module_path("net.layers.0"):
        line = sys._getframe().f_lineno + 1
        y = x * 2
    z = y + 1
    assert y.line.endswith(f"test_modes.py:{line}")
    assert y.line.split(":")[0] == __file__ or y.line.startswith(__file__)
    assert (y.module, z.module) == ("net.layers.0", "")
    assert x.line == "unknown"


def test_the_line_is_where_the_user_called_whatever_the_way() -> None:
    x = tg.ones(2, 2, requires_grad=True)

    def line() -> int:
        return sys._getframe(1).f_lineno

    made = [
        (x + x, line()),
        (2 * x, line()),
        (x.sum(axis=0), line()),
        (np.exp(x), line()),
        (tg.split(x, 2)[0], line()),
        (np.ones(2) * x, line()),
        (tg.linear(x, x), line()),
        (x[0], line()),
        (x.T, line()),
    ]
    for node, wanted in made:
        assert node.line.endswith(f"test_modes.py:{wanted}"), node


def test_nodes_of_an_unfused_operation_carry_the_users_line() -> None:
    x = tg.ones(2, requires_grad=True)
    with tg.unfused():
        line = sys._getframe().f_lineno + 1
        y = tg.softmax(x)
    lines = {n.line.rsplit(":", 1)[1] for n in graph.ancestors(y) if n.op is not None}
    assert lines == {str(line)}


def test_modules_name_the_nodes_made_inside_them() -> None:
    from tinygrad_edu import nn

    model = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.Tanh(), nn.Linear(3, 1)))
    out = model(tg.ones(1, 2))
    modules = [n.module for n in graph.topological_order(out) if n.op is not None]
    assert [m.split(".")[-2:] for m in modules][-1] == ["1", "1"]
    assert len(set(modules)) == 3
    assert (out * 2).module == ""


# Randomness.


def test_the_same_seed_gives_the_same_bits() -> None:
    def draw() -> list[Any]:
        x = tg.ones(50, requires_grad=True)
        y = tg.dropout(x, 0.3)
        y.sum().backward()
        assert x.grad is not None
        return [tg.randn(3, 3).tolist(), tg.rand(4).tolist(), y.tolist(), x.grad.tolist()]

    tg.manual_seed(7)
    first = draw()
    second = draw()
    tg.manual_seed(7)
    assert draw() == first != second
    tg.manual_seed(8)
    assert draw() != first


def test_a_generator_of_ones_own_leaves_the_default_stream_alone() -> None:
    tg.manual_seed(7)
    wanted = tg.rand(3).tolist()
    tg.manual_seed(7)
    mine = np.random.default_rng(1)
    tg.randn(5, generator=mine)
    tg.dropout(tg.ones(5), 0.5, generator=mine)
    tg.attention(tg.ones(2, 2), tg.ones(2, 2), tg.ones(2, 2), dropout=0.5, generator=mine)
    assert tg.rand(3).tolist() == wanted


def test_evaluation_draws_nothing() -> None:
    before = tg.default_generator().bit_generator.state
    x = tg.ones(3)
    assert tg.dropout(x, 0.5, training=False) is x
    assert tg.dropout(x, 0.0) is x
    assert tg.default_generator().bit_generator.state == before


def test_each_thread_has_a_stream_of_its_own() -> None:
    tg.manual_seed(7)
    wanted = tg.rand(3).tolist()
    tg.manual_seed(7)

    def seeded_elsewhere() -> list[float]:
        tg.manual_seed(7)
        found: list[float] = tg.rand(3).tolist()
        return found

    assert in_a_thread(seeded_elsewhere) == wanted
    assert tg.rand(3).tolist() == wanted


def train(seed: int) -> list[float]:
    """A small network with dropout, a few steps; its losses and its last weights."""
    tg.manual_seed(seed)
    x, y = tg.randn(16, 4), np.arange(16) % 3
    w1, w2 = tg.randn(8, 4, requires_grad=True), tg.randn(3, 8, requires_grad=True)
    losses: list[float] = []
    for _ in range(10):
        hidden = tg.dropout(tg.linear(x, w1, activation="gelu"), 0.25)
        loss = tg.cross_entropy(tg.linear(tg.layer_norm(hidden), w2), y)
        loss.backward(retain_graph=False)
        for w in (w1, w2):
            assert w.grad is not None
            w.data -= 0.1 * w.grad.data
            w.zero_grad()
        losses.append(loss.item())
    return [*losses, *w1.data.ravel().tolist(), *w2.data.ravel().tolist()]


def test_a_training_loop_with_the_same_seed_gives_the_same_bits() -> None:
    first = train(3)
    assert train(3) == first
    assert train(4) != first
    assert first[9] < first[0]
