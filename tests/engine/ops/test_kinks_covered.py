"""Every line on kinks in the registry has a test, in one of the modules beside this one."""

from __future__ import annotations

import importlib
from pathlib import Path

from engine.ops.kinks import COVERED

from tinygrad_edu.ops import registry


def test_every_kink_has_a_test() -> None:
    for path in sorted(Path(__file__).parent.glob("test_kinks*.py")):
        importlib.import_module(f"engine.ops.{path.stem}")
    assert {(name, line) for name, p in registry.items() for line in p.kinks} == COVERED
