"""`why_zero` names each place where a gradient is lost; `bisect_gradient` finds the wrong rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu.debugger.bisect import bisect_gradient
from tinygrad_edu.debugger.why_zero import why_zero
from tinygrad_edu.drawing import facts
from tinygrad_edu.ops.registry import registry

Case = tuple[Callable[[Any], Any], str, "list[int] | None"]

CASES: dict[str, Case] = {
    # program of x = [-1, 1, 2], the reason, which elements of x's gradient are 0 (None: no grad)
    "dead relu": (lambda x: x.relu().sum(), "dead relu", [0]),
    "times 0": (lambda x: (x * 0.0).sum(), "times 0", [0, 1, 2]),
    "saturated tanh": (lambda x: (x * 20.0).tanh().sum(), "saturated", [0, 1, 2]),
    "saturated sigmoid": (lambda x: (x * 1000.0 + 500.0).sigmoid().sum(), "saturated", [0, 1, 2]),
    "cancels": (lambda x: (x - x).sum(), "cancels", [0, 1, 2]),
    "max": (lambda x: x.max(), "not the largest", [0, 1]),
    "index": (lambda x: x[1:].sum(), "not selected", [0]),
    "where": (lambda x: tg.where(np.array([True, False, True]), x, 0.0).sum(), "masked", [1]),
    "clip": (lambda x: x.clip(-0.5, 1.5).sum(), "clipped", [0, 2]),
    "round": (lambda x: x.round().sum(), "flat", [0, 1, 2]),
    "detach": (
        lambda x: (x.detach() * tg.tensor([1.0], requires_grad=True)).sum(), "detached", None,
    ),
    "another copy": (
        lambda x: (tg.tensor(x.detach().numpy(), requires_grad=True) * 1.0).sum(),
        "not an ancestor", None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_each_kind_of_loss_is_named(case: str) -> None:
    program, kind, zeros = CASES[case]
    x = tg.tensor([-1.0, 1.0, 2.0], requires_grad=True, name="x")
    loss = program(x)
    found = why_zero(x, loss)
    assert [reason.kind for reason in found.reasons] == [kind]
    assert all(len(line) <= 80 for line in str(found).splitlines())
    assert x.grad is None
    if zeros is None:
        assert found.gradient is None
        return
    loss.backward()
    gradient = np.asarray(facts.host(x.grad))
    assert np.flatnonzero(gradient == 0).tolist() == zeros
    assert (found.zeros, found.size) == (len(zeros), 3)
    reason = found.reasons[0]
    assert reason.share == pytest.approx(len(zeros) / 3)


def test_no_grad_untracked_and_whole_numbers() -> None:
    x = tg.tensor([1.0, 2.0], requires_grad=True, name="x")
    with tg.no_grad():
        made = (x * 2).sum()
    assert [r.kind for r in why_zero(x, made).reasons] == ["not tracked"]
    w = tg.tensor([1.0, 2.0], name="w")
    assert [r.kind for r in why_zero(w, (x * w).sum()).reasons] == ["not tracked"]
    ids = tg.tensor([0, 1], dtype=int)
    assert [r.kind for r in why_zero(ids, (x[ids] * 1.0).sum()).reasons] == ["integers"]


def test_nothing_lost_is_said() -> None:
    x = tg.tensor([1.0, 2.0], requires_grad=True, name="x")
    found = why_zero(x, (x * 2).sum())
    assert found.reasons == () and "nothing is lost on the way" in str(found)


def test_values_too_and_each_of_several_places() -> None:
    a = tg.Value(-2.0, name="a")
    assert [r.kind for r in why_zero(a, a.relu() * 3 + 1).reasons] == ["dead relu"]
    found = why_zero(a, a.relu() + a * 0.0)
    assert {r.kind for r in found.reasons} == {"dead relu", "times 0"}


@pytest.fixture
def wrong_rules() -> Iterator[Callable[..., Any]]:
    """Makes primitives that are forgotten afterwards."""
    made: list[str] = []

    def make(name: str, forward: Any, **rules: Any) -> Any:
        made.append(name)
        return tg.primitive(name, forward, **rules)

    yield make
    for name in made:
        registry.pop(name, None)


def test_bisect_points_at_the_users_wrong_rule(wrong_rules: Callable[..., Any]) -> None:
    cube = wrong_rules("wrong_cube", lambda F, x: x * x * x, partials=[lambda x: 3 * x])
    x = tg.tensor([0.5, 2.0], requires_grad=True, name="x")
    h = x.relu() * 2.0
    bad = cube(h)
    loss = (bad.tanh() * x).sum()
    found = bisect_gradient(loss)
    assert found.found and found.event is not None and found.event.node is bad
    assert found.use is not None and found.use.input is h
    assert found.check is not None and not found.check.ok
    assert found.overlay(bad) > 0.1 and found.overlay(h) < 1e-6
    assert "wrong_cube" in str(found) and "3 · h" in str(found)
    assert all(len(line) <= 80 for line in str(found).splitlines())
    assert x.grad is None


@pytest.mark.parametrize(
    ("name", "forward", "rules"),
    [
        ("bad_sign", lambda F, x: F.sin(x), {"partials": [lambda F, x: -F.cos(x)]}),
        ("bad_factor", lambda F, x: x * x, {"partials": [lambda x: x]}),
        ("bad_transpose", lambda F, a, b: a @ b,
         {"vjp": lambda F, g, a, b: (g @ b, F.swapaxes(a, 0, 1) @ g)}),
        ("bad_sum", lambda F, x: F.sum(x),
         {"vjp": lambda F, g, x: (F.broadcast_to(g / x.size, x.shape),)}),
    ],
)  # fmt: skip
def test_bisect_finds_every_kind_of_wrong_rule(
    name: str, forward: Any, rules: dict[str, Any], wrong_rules: Callable[..., Any]
) -> None:
    op = wrong_rules(name, forward, **rules)
    x = tg.tensor(np.array([[0.5, 2.0], [1.5, -0.3]]), requires_grad=True, name="x")
    y = (x * 1.5).tanh()
    bad = op(y, y + 1.0) if name == "bad_transpose" else op(y)
    found = bisect_gradient((bad * bad).sum())
    assert found.event is not None and found.event.node is bad


def test_bisect_clears_right_rules_at_kinks_too() -> None:
    z = tg.tensor([0.0, 2.0], requires_grad=True)
    found = bisect_gradient(((z.relu() + z.abs()) * z.maximum(0.0)).sum())
    assert not found.found and found.checked == 8
    assert "agrees with differences" in str(found)
    a = tg.Value(0.3, name="a")
    assert not bisect_gradient((a * a).tanh() / a).found
