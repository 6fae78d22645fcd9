"""What tests of whole runs share: who listens to a run, and what is read from its folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tinygrad_edu import lm
from tinygrad_edu.lm.checkpoint import Checkpoint


class Killed(BaseException):
    """Ends a run as the death of its process would."""


class Recorder(lm.Reporter):
    """Keeps all it hears; may do something at a step."""

    def __init__(self, at_step: dict[int, Callable[[], None]] | None = None) -> None:
        self.plans: list[lm.Plan] = []
        self.steps: list[lm.StepReport] = []
        self.validations: list[lm.ValidationReport] = []
        self.ended: list[str] = []
        self.at_step = at_step or {}

    def planned(self, plan: lm.Plan, step: int) -> None:
        self.plans.append(plan)

    def stepped(self, report: lm.StepReport) -> None:
        self.steps.append(report)
        self.at_step.get(report.step, lambda: None)()

    def validated(self, report: lm.ValidationReport) -> None:
        self.validations.append(report)

    def stopping(self) -> None:
        self.ended.append("stopping")

    def finished(self, result: lm.Result) -> None:
        self.ended.append("finished")

    def closed(self) -> None:
        self.ended.append("closed")


def rows(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def untimed(run: Path) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if k != "seconds"} for row in rows(run)]


def assert_same(first: Checkpoint, second: Checkpoint) -> None:
    assert first.weights.keys() == second.weights.keys()
    for name, array in first.weights.items():
        np.testing.assert_array_equal(array, second.weights[name], err_msg=name)
    assert first.optimizer["param_groups"] == second.optimizer["param_groups"]
    for index, state in first.optimizer["state"].items():
        for name, value in state.items():
            np.testing.assert_array_equal(value, second.optimizer["state"][index][name])
    assert first.progress.step == second.progress.step
