"""The event log: the pass it tells of is the pass that `backward()` runs, at every moment."""

from __future__ import annotations

import gc
import math
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_edu as tg
from tinygrad_edu.debugger.log import Log, record
from tinygrad_edu.errors import GraphError, MutationError
from tinygrad_edu.testing.programs import programs


def example() -> tuple[Any, Any, Any, Any]:
    a, b = tg.Value(2.0, name="a"), tg.Value(-3.0, name="b")
    e = a * b
    loss = (e + 10.0).tanh() * b + a**3
    return a, b, e, loss


@st.composite
def scalar_graphs(draw: st.DrawFn) -> list[Any]:
    """Values in the order in which they were made, the root last; with fan-out and repeats."""
    number = st.floats(-2, 2).map(lambda x: round(x, 3))
    made = [tg.Value(draw(number), name=f"x{i}") for i in range(draw(st.integers(1, 3)))]
    for _ in range(draw(st.integers(1, 12))):
        a, b = (made[draw(st.integers(0, len(made) - 1))] for _ in range(2))
        kind = draw(st.sampled_from("+*-tsq"))
        made.append(
            a + b if kind == "+" else a * b if kind == "*" else a - b if kind == "-"
            else a.tanh() if kind == "t" else a.sin() if kind == "s" else a**2
        )  # fmt: skip
    return made


def test_events_come_in_the_order_of_the_pass_and_say_who_and_what() -> None:
    a, b, e, loss = example()
    log = record(loss)
    assert log[0].node is loss
    assert [event.index for event in log] == list(range(len(log)))
    last = log[-1]
    assert last.node is e and last.name == "e"
    assert [use.input for use in last.uses] == [a, b]
    assert [(use.nth, use.total) for use in last.uses] == [(2, 2), (2, 2)]


@given(scalar_graphs())
def test_final_gradients_are_those_of_backward_bit_for_bit(made: list[Any]) -> None:
    log = record(made[-1]) if made[-1].op is not None else None
    if log is None:
        return
    made[-1].backward()
    for node in log.nodes:
        found = log.gradient(node)
        assert found == node.grad or (math.isnan(found) and math.isnan(node.grad))


@given(programs())
def test_final_gradients_of_tensors_are_those_of_backward_bit_for_bit(program: Any) -> None:
    rng = np.random.default_rng(0)
    xs = [tg.tensor(rng.normal(size=(2, 3)), requires_grad=True) for _ in range(program.inputs)]
    out = program(*xs)
    if not out.requires_grad:
        return
    log = record(out)
    assert all(x.grad is None for x in xs)
    out.backward()
    for node in log.nodes:
        found = log.gradient(node)
        if node.grad is None:
            assert found is None
        else:
            assert found is not None
            assert found.tobytes() == node.grad.numpy().tobytes()


@given(scalar_graphs())
def test_every_moment_is_the_sum_of_what_has_come_so_far(made: list[Any]) -> None:
    """Held to a pass with an observer, which keeps every state it goes through."""
    root = made[-1]
    if root.op is None:
        return
    log = record(root)
    seen: list[Any] = []
    root.backward(observer=seen.append)
    assert [(e.node, e.slot) for e in seen] == [
        (event.node, use.slot) for event in log for use in event.uses
    ]
    told = iter(seen)
    for event in log:
        assert event.upstream == (1.0 if event.node is root and not log.uses_of(root) else
                                  log.gradient(event.node, after=event.index))
        for use in event.uses:
            other = next(told)
            assert use.contribution == other.contribution
            assert use.before == other.before
            assert use.after == other.after


def test_going_back_to_the_start_finds_nothing_arrived() -> None:
    a, _, e, loss = example()
    log = record(loss)
    assert log.gradient(a, after=-1) is None
    assert log.gradient(loss, after=-1) == 1.0
    assert log.gradient(e, after=len(log) - 2) == log[-1].upstream
    moments = [log.gradient(a, after=k) for k in range(len(log))]
    assert moments[0] is None and moments[-1] == log.gradient(a)


def test_the_ledger_lists_each_contribution_and_ends_at_the_gradient() -> None:
    a, b, _, loss = example()
    log = record(loss)
    entries = log.ledger(b)
    assert [log[entry.event].name for entry in entries] == [entry.node for entry in entries]
    assert sum(entry.contribution for entry in entries) == log.gradient(b) == entries[-1].after
    assert log.ledger(loss)[0].event == -1
    twice = a * a
    assert [entry.contribution for entry in record(twice).ledger(a)] == [2.0, 2.0]


def test_nothing_is_stored_in_the_graph() -> None:
    a, b, e, loss = example()
    record(loss)
    assert not any(node.has_grad for node in (a, b, e, loss))
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    out = (x * x).sum()
    out.backward()
    before = x.grad.numpy().copy()
    log = record(out)
    for event in log:
        repr(event)
    assert (x.grad.numpy() == before).all()


def test_a_hook_is_part_of_the_pass() -> None:
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    y.register_hook(lambda g: g * 10)
    log = record(y.sum())
    assert log.gradient(x).tolist() == [30.0, 30.0]


def test_names_are_the_users_or_her_variables() -> None:
    weight = tg.tensor([1.0], requires_grad=True)
    hidden = weight * 2
    loss = hidden.sum()
    log = record(loss)
    assert [log.names[node] for node in log.nodes] == ["weight", "hidden", "loss"]
    assert log.loss == "loss"
    assert log.name(hidden._args[1]) == "2.0"


def test_beyond_its_limit_a_log_keeps_less_and_says_the_same() -> None:
    x = tg.tensor(np.linspace(-1, 1, 64), requires_grad=True)
    y = x
    for _ in range(20):
        y = (y * 1.1).tanh()
    loss = y.sum()
    whole, little = record(loss), record(loss, limit=2048)
    assert little.memory <= 2048 < whole.memory
    assert little.dropped > 0 and "not kept" in repr(little)
    assert whole.compare(little) is None
    for k in range(len(whole) - 1, -1, -3):
        assert whole[k].upstream.tobytes() == little[k].upstream.tobytes()
    assert little.memory <= 2048
    assert sum(g.nbytes for g in little._kept.values()) <= 2 * 2048


def test_a_log_frees_its_graph_with_itself() -> None:
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    log = record(y.sum())
    repr(list(log))
    gone = weakref.ref(y)
    gc.disable()
    try:
        del y
        assert gone() is not None
        del log
        gc.collect()
        assert gone() is None
    finally:
        gc.enable()


def test_a_chain_of_ten_thousand_and_a_diamond_of_depth_60_are_ordinary() -> None:
    y = tg.Value(1.0, name="x")
    x = y
    for _ in range(10_000):
        y = y + 0.0
    log = record(y)
    assert len(log) == 10_000
    assert log.gradient(x) == 1.0
    assert log[-1].uses[0].after == 1.0
    y = x = tg.Value(1.0, name="x")
    for _ in range(60):
        y = y + y
    assert record(y).gradient(x) == 2.0**60


def test_wrong_use_is_said_in_a_sentence() -> None:
    with pytest.raises(TypeError, match="record\\(\\) was given a float"):
        record(2.0)
    with pytest.raises(GraphError, match="made by no operation"):
        record(tg.Value(1.0))
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(GraphError, match="needs a gradient"):
        record(x * 2)
    out = (x * x).sum()
    out.backward(retain_graph=False)
    with pytest.raises(GraphError, match="freed"):
        record(out)
    out = (x * x).sum()
    x.data -= 1
    with pytest.raises(MutationError):
        record(out)


def test_a_seed_is_the_gradient_of_the_root() -> None:
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    log = record(x * x, gradient=np.array([1.0, 10.0], np.float32))
    assert log.gradient(x).tolist() == [2.0, 40.0]
    a = tg.Value(3.0, name="a")
    assert record(a * a, gradient=0.5).gradient(a) == 3.0


def test_broadcast_axes_are_said() -> None:
    x = tg.tensor(np.ones((3, 2)), requires_grad=True)
    b = tg.tensor(np.ones((1, 2)), requires_grad=True)
    log = record((x + b).sum())
    add = next(event for event in log if event.node.op.name == "add")
    assert [use.summed_axes for use in add.uses] == [(), (0,)]
    assert "summed over axes (0,)" in repr(add)


@pytest.mark.parametrize("make", [lambda a, b: a * b, lambda a, b: (a / b).exp() - a.sqrt()])
def test_each_contribution_agrees_with_differences(make: Any) -> None:
    a, b = tg.Value(1.3, name="a"), tg.Value(-0.7, name="b")
    for event in record(make(a, b)):
        for use in event.uses:
            found = use.check()
            assert found is not None and found.ok
            assert found.numeric == pytest.approx(float(use.contribution), rel=1e-6, abs=1e-12)


def test_a_wrong_rule_disagrees_with_differences_where_it_is_used() -> None:
    wrong = tg.primitive("log_wrong_cube", lambda F, x: x * x * x, partials=[lambda x: 3 * x])
    x = tg.tensor([0.5, 2.0], requires_grad=True)
    log = record((wrong(x * 2)).sum())
    found = {event.node.op.name: [use.check().ok for use in event.uses] for event in log}
    assert found == {"sum": [True], "log_wrong_cube": [False], "multiply": [True]}


def test_a_log_is_a_sequence() -> None:
    log: Log = record(example()[3])
    assert log[1:3] == [log[1], log[2]]
    assert next(reversed(log)) is log[-1]
    assert log.event_of(log[2].node) is log[2]
    assert log.event_of(tg.Value(1.0)) is None
