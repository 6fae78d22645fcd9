"""`tg.profile()`: where time goes, by operation, and nothing left behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import nn
from tinygrad_edu.autograd.profile_table import folded
from tinygrad_edu.autograd.profiling import PYTHON, Row, new_bytes, section
from tinygrad_edu.errors import ProfileError
from tinygrad_edu.ops.registry import registry


class FakeClock:
    """Each look takes a second."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def model() -> nn.Sequential:
    draw = np.random.default_rng(0)
    first, last = nn.Linear(3, 4, generator=draw), nn.Linear(4, 2, generator=draw)
    return nn.Sequential(first, nn.GELU(), last)


X = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def hooks_are_gone_afterwards() -> Iterator[None]:
    x = tg.tensor([1.0], requires_grad=True)
    for primitive in registry.values():  # as they are once used
        from tinygrad_edu.autograd.pull import compiled

        compiled(primitive)
    before = {name: (p.forward, p.pull) for name, p in registry.items()}
    yield
    assert {name: (p.forward, p.pull) for name, p in registry.items()} == before
    (x * x).sum().backward()


def test_every_operation_is_listed_forward_and_backward_with_its_module() -> None:
    m = model()
    with tg.profile() as p:
        m(X).sum().backward()
    found = {(row.module, row.primitive, row.phase): row.calls for row in p.rows
             if row.primitive != PYTHON}  # fmt: skip
    want = {}
    for phase in ("forward", "backward"):
        want |= {
            ("Sequential.0", "linear", phase): 1, ("Sequential.1", "gelu", phase): 1,
            ("Sequential.2", "linear", phase): 1, ("", "sum", phase): 1,
        }  # fmt: skip
    assert found == want


def test_rows_add_up_to_all_time_but_the_profilers_own() -> None:
    clock = FakeClock()
    start = clock.now
    with tg.profile(clock) as p:
        model()(X).sum().backward()
    opened = start + 1  # the look that opens it
    assert p.seconds + p.own_seconds == pytest.approx(clock.now - opened)
    assert p.seconds == pytest.approx(sum(row.seconds for row in p.rows))
    for row in p.rows:
        if row.primitive != PYTHON:
            assert row.seconds == row.calls, "a second between two looks"


def test_gradients_are_the_same_as_without() -> None:
    first, second = model(), model()
    first(X).sum().backward()
    with tg.profile():
        second(X).sum().backward()
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert a.grad is not None and b.grad is not None
        np.testing.assert_array_equal(a.grad.data, b.grad.data)


def test_hooks_go_after_an_error_too() -> None:
    with pytest.raises(tg.errors.ShapeError), tg.profile() as p:
        tg.ones(2, 3) @ tg.ones(2, 3)
    assert [row.primitive for row in p.rows] == [PYTHON]


def test_other_threads_are_not_seen_and_may_have_a_profile_of_their_own() -> None:
    seen: list[list[str]] = []
    opened, done = threading.Event(), threading.Event()

    def other() -> None:
        with tg.profile() as p:
            opened.wait(30)
            tg.exp(tg.ones(3))
        seen.append([row.primitive for row in p.rows if row.primitive != PYTHON])
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    with tg.profile() as p:
        opened.set()
        done.wait(30)
        tg.tanh(tg.ones(3))
    thread.join()
    assert seen == [["exp"]]
    assert [row.primitive for row in p.rows if row.primitive != PYTHON] == ["tanh"]


def test_one_inside_another_is_refused_and_the_outer_goes_on() -> None:
    with tg.profile() as p:
        with pytest.raises(ProfileError, match="close the outer one first"), tg.profile():
            pass
        tg.exp(tg.ones(3))
    assert "exp" in {row.primitive for row in p.rows}


def test_sections_name_what_lies_between_operations() -> None:
    clock = FakeClock()
    with tg.profile(clock) as p:
        with section("data"):
            clock.now += 10
            with section("deeper"):
                clock.now += 5
        tg.exp(tg.ones(3))
    found = {row.phase: row.seconds for row in p.rows if row.primitive == PYTHON}
    assert found["data"] == pytest.approx(12) and found["deeper"] == pytest.approx(6)
    with section("nobody looks"):
        pass


def test_made_bytes_count_memory_once_and_views_as_what_they_look_into() -> None:
    a = np.zeros(100, np.float32)
    assert new_bytes((a, a[:3], None), []) == 400
    assert new_bytes(a[:3], []) == 400
    assert new_bytes((a, a.copy()), [a[5:]]) == 400
    with tg.profile() as p:
        tg.exp(tg.tensor(a))
    (row,) = [row for row in p.rows if row.primitive == "exp"]
    assert row.made_bytes == 400


def test_modules_that_repeat_stand_in_one_line() -> None:
    blocks = [f"GPT.blocks.{i}.{part}" for i in range(3) for part in ("a", "b")]
    paths = ["GPT", "GPT.norm", *blocks]
    rows = [Row(path, "linear", "forward", 1, 1.0, 0) for path in paths]
    labels = folded(rows)
    assert {labels[f"GPT.blocks.{i}.a"] for i in range(3)} == {"blocks × 3: a"}
    assert labels["GPT.norm"] == "norm"
    odd = [*rows, Row("GPT.blocks.3.a", "linear", "forward", 1, 1.0, 0)]
    assert folded(odd)["GPT.blocks.3.a"] == "blocks.3.a", "another make stands apart"


def test_the_table_fits_80_columns_and_says_all() -> None:
    with tg.profile() as p:
        nn.Sequential(*[nn.TransformerBlock(8, 2) for _ in range(3)])(
            tg.ones(1, 4, 8, requires_grad=True)
        ).sum().backward()
    text = p.table()
    assert max(map(len, text.splitlines())) <= 80
    for name in ("packed_attention", "layer_norm", "linear", "Python and graph", "all", "share"):
        assert name in text, name
