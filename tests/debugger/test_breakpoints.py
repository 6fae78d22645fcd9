"""Breakpoints apply exactly where a scan over the events says; what they cannot read they say."""

from __future__ import annotations

import fnmatch
from typing import Any

import numpy as np
import pytest
from debugger.test_log import scalar_graphs
from hypothesis import given

import tinygrad_edu as tg
from tinygrad_edu import nn
from tinygrad_edu.debugger.breakpoints import Breakpoint, BreakpointError
from tinygrad_edu.debugger.log import record
from tinygrad_edu.drawing import facts


def numbers(event: Any) -> list[Any]:
    return [np.asarray(facts.host(use.contribution)) for use in event.uses]


def sign_changes(event: Any) -> bool:
    return any(
        use.before is not None
        and bool((np.sign(facts.host(use.before)) * np.sign(facts.host(use.after)) < 0).any())
        for use in event.uses
    )


SCANS: dict[str, Any] = {
    "zero": lambda e: any(n.size and not n.any() for n in numbers(e)),
    "big > 2": lambda e: any(np.abs(n).max(initial=0) > 2 for n in numbers(e)),
    "> 2": lambda e: any(np.abs(n).max(initial=0) > 2 for n in numbers(e)),
    "small < 0.1": lambda e: any(0 < np.abs(n).max(initial=0) < 0.1 for n in numbers(e)),
    "op tanh": lambda e: facts.word(e.node) == "tanh",
    "op *": lambda e: True,
    "name add*": lambda e: any(
        fnmatch.fnmatch(n, "add*") for n in (e.name, *(u.name for u in e.uses))
    ),
    "second": lambda e: any(use.nth >= 2 for use in e.uses),
    "sign": sign_changes,
}


@given(scalar_graphs())
def test_a_breakpoint_applies_where_a_scan_says(made: list[Any]) -> None:
    if made[-1].op is None:
        return
    log = record(made[-1])
    for text, scan in SCANS.items():
        point = Breakpoint.parse(text)
        assert [bool(point.reason(e)) for e in log] == [bool(scan(e)) for e in log], text


def tensor_log() -> Any:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    x = tg.tensor(np.arange(6.0, dtype=np.float32).reshape(2, 3) - 3, name="x")
    y = model(x)
    return record((y * y).sum() + y.sum())


@pytest.mark.parametrize("text", SCANS)
def test_on_arrays_too(text: str) -> None:
    log = tensor_log()
    point = Breakpoint.parse(text)
    assert [bool(point.reason(e)) for e in log] == [bool(SCANS[text](e)) for e in log]


def test_modules_and_lines() -> None:
    log = tensor_log()
    found = [e for e in log if Breakpoint.parse("module *.0").reason(e)]
    assert found and all(facts.module_path(e.node) == "Sequential.0" for e in found)
    event = next(e for e in log if facts.word(e.node) == "multiply")
    file, _, line = event.source.rpartition(":")
    same = [e for e in log if e.source == event.source]
    for text in (f"test_breakpoints.py:{line}", f"debugger/test_breakpoints.py:{line}",
                 f"line {line}", f"{file}:{line}"):  # fmt: skip
        assert [e for e in log if Breakpoint.parse(text).reason(e)] == same, text
    assert not any(Breakpoint.parse(f"other.py:{line}").reason(e) for e in log)
    assert not any(Breakpoint.parse(f"points.py:{line}").reason(e) for e in log)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nan_and_inf() -> None:
    x = tg.tensor([0.0, 4.0], requires_grad=True, name="x")
    log = record((x.sqrt() * 2.0).sum())
    assert [bool(Breakpoint.parse("inf").reason(e)) for e in log] == [False, False, True]
    assert not any(Breakpoint.parse("nan").reason(e) for e in log)
    y = tg.tensor([np.nan, 4.0], requires_grad=True, name="y")
    log = record((y * y).sum())
    assert [bool(Breakpoint.parse("nan").reason(e)) for e in log] == [False, True]


def test_conditions_and_messages_are_read_from_the_end() -> None:
    point = Breakpoint.parse('op tanh if upstream > 2 log "here {a.grad}"')
    assert (point.kind, point.argument, point.condition, point.message) == (
        "op", "tanh", "upstream > 2", "here {a.grad}",
    )  # fmt: skip
    a = tg.Value(0.5, name="a")
    log = record(a.tanh() * 3.0)
    seen = []

    def evaluate(text: str, event: Any) -> bool:
        seen.append((text, event.index))
        return event.index == 1

    assert [bool(point.reason(e, evaluate)) for e in log] == [False, True]
    assert seen == [("upstream > 2", 1)]  # not asked where the operation is another
    assert Breakpoint.parse("if True").reason(log[0], lambda t, e: True) == "True"


@pytest.mark.parametrize("text", ["", "big", "big > many", "op", "module", "frob 3", "a b c"])
def test_what_is_no_breakpoint_is_said(text: str) -> None:
    with pytest.raises(BreakpointError):
        Breakpoint.parse(text)
