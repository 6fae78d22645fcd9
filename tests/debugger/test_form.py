"""The log as JSON: the documented form, the same bytes each time, and the first difference."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu.debugger.form import as_dict
from tinygrad_edu.debugger.log import record

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "log.md"


def scalars(b: float = -3.0) -> Any:
    x, y = tg.Value(2.0, name="a"), tg.Value(b, name="b")
    return record((x * y + x).tanh() * y)


def arrays(shift: float = 0.0) -> Any:
    x = tg.tensor(np.arange(6.0).reshape(2, 3) / 7 + shift, requires_grad=True, name="x")
    w = tg.tensor(np.ones((3, 200)), requires_grad=True, name="w")
    return record((x @ w).tanh().mean())


def keys(found: Any) -> set[str]:
    if isinstance(found, dict):
        return set(found) | {k for each in found.values() for k in keys(each)}
    if isinstance(found, list):
        return {k for each in found for k in keys(each)}
    return set()


def test_the_document_names_every_key_and_no_other() -> None:
    with record():
        a = tg.Value(2.0, name="a")
        recorded = record(a * a)
    shown = as_dict(recorded)
    for event in shown["events"]:
        event["variables"] = {}  # named by the user
    found = keys(shown) | keys(as_dict(arrays())) | keys(as_dict(scalars()))
    listed = set(re.findall(r"^\| `(\w+)` \|", DOCUMENT.read_text(encoding="utf-8"), re.M))
    assert found == listed


@pytest.mark.parametrize("make", [scalars, arrays])
def test_it_is_json_with_the_same_bytes_each_time(make: Any, tmp_path: Path) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    make().save_json(first)
    make().save_json(second)
    assert first.read_bytes() == second.read_bytes()
    found = json.loads(first.read_text(encoding="utf-8"))
    assert found["format"] == "tinygrad_edu.log"
    assert not re.search(r"0x[0-9a-f]{6}", first.read_text(encoding="utf-8"))


def test_the_numbers_are_those_of_the_pass() -> None:
    log = scalars()
    found = as_dict(log)
    for event, written in zip(log, found["events"], strict=True):
        assert written["upstream"] == event.upstream
        for use, other in zip(event.uses, written["uses"], strict=True):
            assert other["contribution"] == use.contribution
            assert found["nodes"][other["input"]]["name"] == use.name
    for node, gradient in zip(log.nodes, found["gradients"], strict=True):
        assert gradient == log.gradient(node)


def test_nan_and_inf_are_texts() -> None:
    a = tg.Value(0.0, name="a")
    found = as_dict(record(a.log() * 0.0))
    text = json.dumps(found, allow_nan=False)
    assert '"-inf"' in text and '"nan"' in text
    assert not math.isfinite(float("nan"))


def test_large_arrays_are_a_digest_small_ones_whole() -> None:
    found = as_dict(arrays())
    by_name = {node["name"]: node["value"] for node in found["nodes"]}
    assert len(by_name["x"]["values"]) == 6
    assert "values" not in by_name["w"] and len(by_name["w"]["sha256"]) == 16


def test_equal_logs_do_not_differ_and_names_do_not_count() -> None:
    assert scalars().compare(scalars()) is None
    assert arrays().compare(as_dict(arrays())) is None
    a, b = tg.Value(2.0, name="p"), tg.Value(-3.0, name="q")
    assert scalars().compare(record((a * b + a).tanh() * b)) is None


def test_the_first_event_that_differs_is_named_with_both_numbers() -> None:
    def run(wrong: bool) -> Any:
        x = tg.tensor([1.0, 2.0], requires_grad=True, name="x")
        y = (x * x).tanh()
        if wrong:
            y.register_hook(lambda g: -g)
        return record(y.sum())

    found = run(False).compare(run(True))
    assert found is not None
    assert found.event == 1
    assert str(found) == "event 2, upstream of y at [0]: 1.0 ≠ -1.0"


def test_graphs_that_differ_are_said_to() -> None:
    found = scalars().compare(scalars(b=-3.5))
    assert found is not None and found.event == -1
    assert str(found) == "the graphs differ: value of node 1 (b): -3.0 ≠ -3.5"
    a, b = tg.Value(2.0, name="a"), tg.Value(-3.0, name="b")
    found = scalars().compare(record((a * b - a).tanh() * b))
    assert found is not None and found.what.startswith("op of node")


def test_a_tolerance_lets_rounding_pass() -> None:
    assert arrays().compare(arrays(1e-12)) is not None
    assert arrays().compare(arrays(1e-12), rel=1e-6) is None
    assert arrays().compare(arrays(1e-2), rel=1e-6) is not None


def test_what_is_no_log_is_refused_with_a_sentence() -> None:
    with pytest.raises(ValueError, match="format None"):
        scalars().compare({})
