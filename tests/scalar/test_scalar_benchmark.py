"""The benchmark's program and driver: the same work for every engine, measured as they say."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def scalar(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("scalar_benchmark", BENCHMARKS / "scalar.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_step_has_the_nodes_and_bytes_of_the_mark(scalar: ModuleType) -> None:
    facts = scalar.make("tinygrad_edu").facts
    assert facts["nodes"] == 65818
    assert facts["bytes a node before backward"] <= 140
    assert facts["first losses"] == sorted(facts["first losses"], reverse=True)


@pytest.mark.oracle
def test_micrograd_does_the_same_work(scalar: ModuleType) -> None:
    pytest.importorskip("micrograd.engine", reason="micrograd is not installed")
    ours, theirs = scalar.make("tinygrad_edu").facts, scalar.make("micrograd").facts
    for fact in ("nodes", "first losses"):
        assert ours[fact] == theirs[fact]


def test_only_the_class_of_a_file_is_executed(scalar: ModuleType, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("raise SystemExit\nclass Value:\n    answer = math.floor(42.5)\n")
    assert scalar.class_of_file(program, "Value").answer == 42
    with pytest.raises(SystemExit, match="defines no class Other"):
        scalar.class_of_file(program, "Other")


def test_the_driver_runs_workers_apart_and_judges_by_ratio(
    scalar: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    rounds = sys.modules["_rounds"]
    script = tmp_path / "contender.py"
    script.write_text(
        "import os, time\n"
        "def make(seconds):\n"
        "    print('not an answer')\n"
        "    def step(): time.sleep(seconds)\n"
        "    step.facts = {'pid': os.getpid(), 'kernel': os.environ.get('OPENBLAS_CORETYPE')}\n"
        "    return step\n"
    )
    monkeypatch.setenv("OPENBLAS_CORETYPE", "generic")
    contenders = [
        rounds.Contender("ours", script, "make", {"seconds": 0.002}),
        rounds.Contender("peer", script, "make", {"seconds": 0.02}),
    ]
    run = {"rounds": 3, "seconds": 0.001, "seed": 1}
    assert rounds.run(contenders, [rounds.Mark("ours", "peer", must=2, aim=1000)], **run)
    assert not rounds.run(contenders, [rounds.Mark("ours", "peer", must=1000, aim=1000)], **run)
    printed = capfd.readouterr().out
    assert "kernel None" in printed and f"pid {os.getpid()}," not in printed
    assert "3 rounds are for a quick look" in printed
    assert "aim 1000: reached" in printed and "MISSED" in printed


def test_a_worker_that_dies_is_named(scalar: ModuleType, tmp_path: Path) -> None:
    rounds = sys.modules["_rounds"]
    script = tmp_path / "contender.py"
    script.write_text("def make():\n    raise SystemExit(3)\n")
    with pytest.raises(RuntimeError, match="the worker of 'bad' ended with code 3"):
        rounds.measure([rounds.Contender("bad", script, "make")], rounds=1, seconds=0.1)
