"""Moving through a pass: there and back is the start; gradients at a moment are the sums so far."""

from __future__ import annotations

from typing import Any

from debugger.test_log import scalar_graphs
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_edu as tg
from tinygrad_edu.debugger.cursor import Cursor
from tinygrad_edu.debugger.log import record


def state(cursor: Cursor) -> tuple[int, list[Any]]:
    return cursor.at, [cursor.gradient(node) for node in cursor.log.nodes]


@given(scalar_graphs(), st.integers(0, 30), st.integers(1, 20))
def test_k_steps_there_and_k_back_is_the_start(made: list[Any], at: int, k: int) -> None:
    if made[-1].op is None:
        return
    cursor = Cursor(record(made[-1]))
    cursor.go(at)
    before = state(cursor)
    k = min(k, len(cursor) - cursor.at)
    for _ in range(k):
        assert cursor.step()
    for _ in range(k):
        assert cursor.step(-1)
    assert state(cursor) == before


@given(scalar_graphs(), st.integers(0, 60))
def test_gradients_at_a_moment_are_the_sums_so_far(made: list[Any], at: int) -> None:
    root = made[-1]
    if root.op is None:
        return
    log = record(root)
    cursor = Cursor(log)
    cursor.go(at)
    sums: dict[int, float] = {id(root): 1.0}
    for use in [use for event in log for use in event.uses][: cursor.at]:
        sums[id(use.input)] = sums.get(id(use.input), 0.0) + float(use.contribution)
    for node in log.nodes:
        found = cursor.gradient(node)
        assert (None if found is None else float(found)) == sums.get(id(node))


def program() -> tuple[Any, Any, Any]:
    a, b = tg.Value(2.0, name="a"), tg.Value(-3.0, name="b")
    e = a * b
    e.name = "e"
    return (e + a) * e, a, e


def test_events_nodes_and_ends() -> None:
    root, a, e = program()
    cursor = Cursor(record(root))
    assert cursor.event is None and not cursor.previous_event() and not cursor.step(-1)
    assert cursor.next_event() and not cursor.within
    assert [u.name for u in cursor.event.uses] == ["add:1", "e"]  # type: ignore[union-attr]
    cursor.step()
    assert cursor.within
    assert cursor.next_event() and not cursor.within and cursor.event.index == 1  # type: ignore
    assert cursor.until(e) is False  # whole already
    assert cursor.until(a) and cursor.arrived(a) == 2
    assert cursor.last_change(a) and cursor.arrived(a) == 1
    assert cursor.first_change(e) and cursor.arrived(e) == 1
    cursor.go_event(10_000)
    assert cursor.at == len(cursor) and not cursor.step() and not cursor.next_event()
    cursor.go_event(-1)
    assert cursor.at == 0
    stranger = tg.Value(1.0)
    assert not cursor.until(stranger) and not cursor.last_change(stranger)
