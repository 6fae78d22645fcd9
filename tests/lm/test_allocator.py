"""The allocator is tuned by a training run that wants it, and by nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tinygrad_edu import lm
from tinygrad_edu.lm import allocator

COUNT_PAGE_FAULTS = """
import resource, sys
import numpy as np
import tinygrad_edu.lm
from tinygrad_edu.lm import allocator
if sys.argv[1] == "tuned":
    assert allocator.tune()
def work():
    for _ in range(10):
        [np.ones(400_000, dtype=np.float32) for _ in range(8)]
work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def has_glibc() -> bool:
    import ctypes

    return sys.platform.startswith("linux") and hasattr(ctypes.CDLL(None), "gnu_get_libc_version")


@pytest.mark.skipif(not has_glibc(), reason="this system's C library is not glibc")
def test_page_faults_of_large_arrays_go_away() -> None:
    root = Path(__file__).parents[2]
    faults = {
        mode: int(
            subprocess.run(
                [sys.executable, "-c", COUNT_PAGE_FAULTS, mode],
                cwd=root,
                capture_output=True,
                encoding="utf-8",
                check=True,
            ).stdout
        )
        for mode in ("plain", "tuned")
    }
    assert faults["tuned"] < 100 < faults["plain"], "importing must not tune, tuning must work"


def test_elsewhere_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not allocator.tune()


@pytest.mark.parametrize("tuned", [True, False])
def test_the_plan_says_so(
    make_config: Callable[..., lm.TrainConfig], monkeypatch: pytest.MonkeyPatch, tuned: bool
) -> None:
    monkeypatch.setattr(allocator, "tune", lambda: True)
    plans: list[lm.Plan] = []

    class Listener(lm.Reporter):
        def planned(self, plan: lm.Plan, step: int) -> None:
            plans.append(plan)

    lm.train(make_config(steps=0, tune_allocator=tuned), Listener())
    assert plans[0].allocator_tuned is tuned
    assert any("mallopt" in said for _, said in plans[0].lines()) is tuned
