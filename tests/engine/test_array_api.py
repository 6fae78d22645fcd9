"""The array API namespace: what is made there is tracked, and the standard's special cases hold.

The consortium's own suite runs by `tests/array_api/run.py`; here is what needs no checkout.
"""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
import tinygrad_edu.array_api as xp

INF, NAN = math.inf, math.nan


def test_whatever_is_made_is_tracked_and_can_be_differentiated() -> None:
    x = xp.asarray([1.0, 2.0])
    y = xp.sum(xp.exp(x) * xp.linspace(0.0, 1.0, 2))
    y.backward()
    assert x.grad.tolist() == pytest.approx([0, math.exp(2)])
    assert not xp.asarray([1, 2]).requires_grad
    assert x.__array_namespace__() is xp
    assert xp.argmax(x).tolist() == 1
    with tg.no_grad():
        assert not xp.ones(2).requires_grad


def test_another_version_of_the_standard_is_refused() -> None:
    with pytest.raises(ValueError, match=r"version 2024.12; got '2019.01'"):
        xp.ones(1).__array_namespace__(api_version="2019.01")


# f, special input, what the standard says; the sign of 0 counts.
ONE: list[tuple[str, float, float]] = [
    ("acos", 1.5, NAN), ("acosh", 1.0, 0.0), ("acosh", 0.5, NAN), ("asin", -0.0, -0.0),
    ("asinh", -INF, -INF), ("asinh", -0.0, -0.0), ("atan", INF, math.pi / 2), ("atan", -0.0, -0.0),
    ("atanh", 1.0, INF), ("atanh", -0.0, -0.0), ("ceil", -0.5, -0.0), ("cos", INF, NAN),
    ("cosh", -INF, INF), ("exp", -INF, 0.0), ("expm1", -INF, -1.0), ("expm1", -0.0, -0.0),
    ("floor", -0.0, -0.0), ("log", -1.0, NAN), ("log", 0.0, -INF), ("log1p", -1.0, -INF),
    ("log1p", -0.0, -0.0), ("log2", 1.0, 0.0), ("log10", INF, INF), ("round", -0.5, -0.0),
    ("round", 2.5, 2.0), ("sign", NAN, NAN), ("sign", -0.0, 0.0), ("sin", -0.0, -0.0),
    ("sinh", INF, INF), ("sqrt", -1.0, NAN), ("sqrt", -0.0, -0.0), ("tan", -0.0, -0.0),
    ("tanh", -INF, -1.0), ("tanh", -0.0, -0.0), ("trunc", -0.5, -0.0), ("abs", -0.0, 0.0),
    ("negative", 0.0, -0.0), ("reciprocal", -0.0, -INF), ("square", -INF, INF),
]  # fmt: skip
TWO: list[tuple[str, float, float, float]] = [
    ("atan2", 0.0, -0.0, math.pi), ("atan2", -0.0, 0.0, -0.0),
    ("atan2", INF, -INF, 3 * math.pi / 4),
    ("add", INF, -INF, NAN), ("add", -0.0, -0.0, -0.0), ("divide", 1.0, -0.0, -INF),
    ("divide", 0.0, 0.0, NAN), ("hypot", INF, NAN, INF), ("logaddexp", -INF, -INF, -INF),
    ("maximum", NAN, 1.0, NAN), ("minimum", 1.0, NAN, NAN), ("multiply", INF, 0.0, NAN),
    ("pow", NAN, 0.0, 1.0), ("pow", 1.0, NAN, 1.0), ("pow", -0.0, 3.0, -0.0),
    ("pow", -0.0, -1.0, -INF), ("pow", 0.5, INF, 0.0), ("pow", -2.0, 0.5, NAN),
    ("remainder", 1.0, INF, 1.0), ("remainder", -1.0, INF, INF), ("remainder", 1.0, 0.0, NAN),
    ("floor_divide", 1.0, 0.0, INF), ("floor_divide", 0.0, -1.0, -0.0),
]  # fmt: skip


def same(found: Any, want: float) -> bool:
    value = float(found)
    if math.isnan(want):
        return math.isnan(value)
    return value == want and math.copysign(1, value) == math.copysign(1, want)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("name", "x", "want"), ONE)
def test_special_cases_of_one_argument(name: str, x: float, want: float) -> None:
    assert same(getattr(xp, name)(xp.asarray(x)), want)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("name", "x", "y", "want"), TWO)
def test_special_cases_of_two_arguments(name: str, x: float, y: float, want: float) -> None:
    assert same(getattr(xp, name)(xp.asarray(x), xp.asarray(y)), want)


def test_reductions_of_nothing() -> None:
    empty = xp.zeros((0, 3))
    assert xp.sum(empty).item() == 0
    assert xp.prod(empty).item() == 1
    assert xp.all(xp.asarray([], dtype=xp.bool)).item() is True
    with pytest.warns(RuntimeWarning):
        assert math.isnan(xp.mean(empty).item())


def test_operators_keep_the_dtype_of_integers() -> None:
    x = xp.asarray([7, -7], dtype=xp.int16)
    for found, want in ((x // 2, [3, -4]), (x % 4, [3, 1]), (x << 1, [14, -14]), (x >> 1, [3, -4])):
        assert found.dtype == xp.int16
        assert found.tolist() == want
    x = x + 1
    assert x.dtype == xp.int16


def test_numpy_and_others_read_its_memory() -> None:
    x = xp.asarray([1.0, 2.0])
    np.testing.assert_array_equal(np.from_dlpack(x), [1, 2])
    assert x.__dlpack_device__()[0] == 1
    assert xp.from_dlpack(np.ones(2)).tolist() == [1, 1]


def test_every_skip_of_the_suite_has_a_reason(tmp_path: Path) -> None:
    folder = Path(__file__).resolve().parents[1] / "array_api"
    text = (folder / "skips.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert all("  # " in line and line.split("  # ")[1].strip() for line in lines)
    spec = importlib.util.spec_from_file_location("run", folder / "run.py")
    assert spec is not None and spec.loader is not None
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["run.py", str(tmp_path)])
        assert run.main() == 2
