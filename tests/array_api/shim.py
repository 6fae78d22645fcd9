"""A pytest plugin for the suite: leaves out what `skips.txt` names, each with its reason.

It also lets the suite load for a library without complex numbers: at import the suite takes the
widest complex dtype, `max([...])[0]`, also where all are skipped.
"""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pytest

import tinygrad_edu.array_api as xp

SKIPS = Path(__file__).resolve().parent / "skips.txt"
_max = builtins.max


def _or_real(*args: Any, **kwargs: Any) -> Any:
    if len(args) == 1 and args[0] == []:
        return (xp.float64, 64)
    return _max(*args, **kwargs)


builtins.max = _or_real
try:
    import array_api_tests.dtype_helpers  # type: ignore[import-not-found]  # noqa: F401
finally:
    builtins.max = _max


def reasons() -> dict[str, str]:
    """Part of a test's id -> why it is left out.

    Raises:
        ValueError: a line without a reason.
    """
    found = {}
    for number, line in enumerate(SKIPS.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        part, _, why = line.partition("  # ")
        if not why:
            raise ValueError(f"{SKIPS.name}: no reason on line {number}")
        found[part.strip()] = why.strip()
    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark them."""
    left_out = reasons()
    for item in items:
        for part, why in left_out.items():
            if part in item.nodeid:
                item.add_marker(pytest.mark.skip(reason=why))
