"""`with tg.record():` notes lines and variables, keeps nothing alive, and costs nothing outside."""

from __future__ import annotations

import gc
import importlib
import inspect
import threading
import weakref

import tinygrad_edu as tg
from tinygrad_edu.autograd.recording import note_of
from tinygrad_edu.debugger.log import record
from tinygrad_edu.scalar import value as scalar

applying = importlib.import_module("tinygrad_edu.autograd.apply")


def here() -> int:
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno


def test_a_value_knows_its_line_and_its_variables_only_while_recorded() -> None:
    rate = 0.5
    with record():
        a = tg.Value(2.0)
        line = here() + 1
        b = a * rate
    note = note_of(b)
    assert note is not None
    assert note.source == f"{__file__}:{line}"
    assert note.function == "test_a_value_knows_its_line_and_its_variables_only_while_recorded"
    assert note.alive()["rate"] == 0.5
    assert note.alive()["a"] is a
    assert "b" not in note.alive()
    assert note_of(a * 3) is None
    assert note_of(a) is None


def test_variables_give_nodes_their_names() -> None:
    def program() -> tg.Value:
        first = tg.Value(2.0)
        product = first * 3.0
        return product + first

    with record():
        out = program()
    log = record(out)
    assert [log.names[node] for node in log.nodes[:1]] == ["first"]
    assert log[-1].name == "product"
    assert log[-1].function == "program"


def test_a_tensors_note_has_the_variables_too() -> None:
    with record():
        x = tg.tensor([1.0, 2.0], requires_grad=True)
        y = (x * x).sum()
    log = record(y)
    assert set(log[0].variables) >= {"x"}


def test_a_note_keeps_no_node_alive() -> None:
    with record():
        a = tg.Value(2.0)
        b = a * 2
        c = b + 1
    gone = weakref.ref(b)
    assert note_of(c) is not None
    del b, c
    gc.collect()
    assert gone() is None


def test_variables_are_numbers_texts_and_nodes_never_the_users_objects() -> None:
    class Loud:
        def __repr__(self) -> str:
            raise RuntimeError("nobody asked")

    loud, many = Loud(), list(range(10_000))
    with record():
        a = tg.Value(2.0)
        b = a * a
    found = note_of(b).alive()  # type: ignore[union-attr]
    assert found["loud"] == "<Loud>"
    assert found["many"] == "list of 10000"
    assert loud and many


def test_the_plain_functions_stand_again_afterwards() -> None:
    plain = (applying._result, scalar.node, tg.Value.__add__, tg.Value.__mul__)
    with record():
        assert applying._result is not plain[0]
        with record():
            pass
        assert applying._result is not plain[0]
    assert (applying._result, scalar.node, tg.Value.__add__, tg.Value.__mul__) == plain
    try:
        with record():
            raise KeyError
    except KeyError:
        assert applying._result is plain[0]


def test_other_threads_are_not_recorded() -> None:
    made: list[tg.Value] = []
    with record():
        thread = threading.Thread(target=lambda: made.append(tg.Value(1.0) * 2))
        thread.start()
        thread.join()
    assert note_of(made[0]) is None
