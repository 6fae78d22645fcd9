"""`import tinygrad_edu` loads NumPy and nothing else; rooms are imported when they are named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tinygrad_edu as tg

ROOT = Path(tg.__file__).resolve().parent.parent
HEAVY = (
    "rich matplotlib graphviz hypothesis safetensors cupy tyro regex threadpoolctl ml_dtypes torch "
    "IPython pytest scipy asyncio http.client urllib.request ssl"
).split()


def modules_after(code: str, **environment: str) -> set[str]:
    program = f"import sys\n{code}\nimport json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, **environment},
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_import_loads_no_heavy_library_and_no_room_above_autograd() -> None:
    loaded = modules_after("import tinygrad_edu")
    assert not {m for m in loaded if m.split(".")[0] in HEAVY or m in HEAVY}
    rooms = {m.split(".")[1] for m in loaded if m.startswith("tinygrad_edu.")}
    assert rooms == {"autograd", "backend", "errors", "graph", "ops"}
    assert "numpy" in loaded


def test_a_training_step_loads_none_either() -> None:
    loaded = modules_after(
        "import tinygrad_edu as tg\n"
        "m = tg.nn.Linear(2, 1); o = tg.optim.AdamW(m.parameters(), lr=0.1)\n"
        "m(tg.ones(3, 2)).sum().backward(); o.step()"
    )
    assert not {m for m in loaded if m.split(".")[0] in HEAVY or m in HEAVY}


def test_every_public_name_is_there_and_listed() -> None:
    for name in tg.__all__:
        assert getattr(tg, name) is not None
        assert name in dir(tg)
    assert tg.nn.__name__ == "tinygrad_edu.nn"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="tinygrad_edu has no 'nothing'"):
        tg.nothing  # noqa: B018


def test_the_backend_may_be_named_by_the_environment() -> None:
    code = "import tinygrad_edu as tg; assert tg.get_backend() == 'numpy'"
    modules_after(code, TINYGRAD_EDU_BACKEND="cpu")
    with pytest.raises(subprocess.CalledProcessError) as caught:
        modules_after(code, TINYGRAD_EDU_BACKEND="abacus")
    assert "there is no backend 'abacus'; choose 'numpy' or 'cupy'" in caught.value.stderr
