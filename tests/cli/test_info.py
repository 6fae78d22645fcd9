"""`tinygrad-edu info`: it tells everything in 80 columns, and stops at nothing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tinygrad_edu.cli import info, main

HEADINGS = ("tinygrad_edu", "python", "system", "backend", "GPU", "BLAS", "training", "drawing",
            "versions", "missing")  # fmt: skip


def told(heading: str) -> list[str]:
    """The lines under a heading."""
    now, found = "", []
    for name, line in info.facts():
        now = name or now
        if now == heading:
            found.append(line)
    return found


def test_info_says_what_computes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    text = capsys.readouterr().out
    for heading in ("tinygrad_edu", "python", "system", "BLAS", "backend", "training", "versions"):
        assert re.search(rf"^{heading} +\S", text, re.MULTILINE), heading
    assert f"numpy {np.__version__}" in text


def test_a_gpu_that_is_not_there_is_told_in_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import ModuleType, SimpleNamespace

    from tinygrad_edu import backend

    def refuse() -> int:
        raise RuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")

    for count, want in ((refuse, "cudaErrorNoDevice"), (lambda: 0, "no device"), (lambda: 1, None)):
        fake = ModuleType("cupy")
        fake.cuda = SimpleNamespace(runtime=SimpleNamespace(getDeviceCount=count))  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "cupy", fake)
        assert backend.gpu_problem() == want


def test_every_heading_is_told_in_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line[0] != " "] == list(HEADINGS)
    assert [line for line in lines if len(line) > 80 and " in /" not in line] == []


def test_each_missing_thing_is_one_line_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    lines = told("missing")
    assert [line.split()[0] for line in lines] == ["cupy", "dot", *[o[0] for o in info.OPTIONAL]]
    assert all(re.search(r": (pip|apt|brew|winget) install ", line) for line in lines)
    monkeypatch.setattr(info, "drawing_missing", list)
    monkeypatch.setattr(info, "gpu_missing", lambda cards: [])
    monkeypatch.setattr(info, "optional_missing", list)
    assert told("missing") == ["nothing"]


def test_what_cannot_be_found_out_is_told_and_the_rest_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import threadpoolctl

    def refuse(*_: object) -> None:
        raise RuntimeError("no such thing\nand more")

    monkeypatch.setattr(threadpoolctl, "threadpool_info", refuse)
    monkeypatch.setattr(info, "default_namespace", refuse)
    monkeypatch.setattr(importlib.metadata, "version", refuse)
    reason = ["cannot be told here: RuntimeError: no such thing"]
    assert told("BLAS") == told("backend") == told("versions") == reason
    assert told("python") and told("missing")


def test_blas_that_does_not_answer_is_named_by_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    import threadpoolctl

    monkeypatch.setattr(threadpoolctl, "threadpool_info", list)
    assert re.fullmatch(r"\S+, says NumPy; its threads cannot be told", told("BLAS")[0])


CARD = "NVIDIA H200, 143771 MiB, driver 570.86.10"


def test_a_gpu_is_told_by_its_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, **_: name)
    monkeypatch.setattr(info, "_answer", lambda *_: "NVIDIA H200, 143771 MiB, 570.86.10\n")
    assert info.gpus() == [CARD]
    monkeypatch.setattr(info, "_answer", lambda *_: "NVIDIA-SMI has failed, because\n")
    assert info.gpus() == []
    monkeypatch.setattr(info, "_answer", lambda *_: "")
    assert info.gpus() == []


@pytest.mark.parametrize(
    ("cupy", "problem", "cards", "said", "lacks"),
    [
        (False, None, [], "no NVIDIA GPU seen", "[cuda13]' (or cuda12)"),
        (False, None, [CARD], "cupy is not installed", "[cuda12]'"),
        (False, None, [CARD.replace("570", "580")], "cupy is not installed", "[cuda13]'"),
        (True, None, [CARD], "on it: set TINYGRAD_EDU_BACKEND", None),
        (True, "cudaError", [CARD], "cupy cannot compute here (cudaError)", "[cuda12]'"),
        (True, "cudaError", [], "cupy cannot compute here (cudaError)", "an NVIDIA GPU with"),
        (True, "cudaError", [CARD.replace("570", "580")], "(cudaError)", "a driver as new"),
    ],
)
def test_a_gpu_and_cupy_are_told_with_what_brings_them_together(
    monkeypatch: pytest.MonkeyPatch, cupy: bool, problem: str | None, cards: list[str], said: str,
    lacks: str | None,
) -> None:  # fmt: skip
    monkeypatch.setattr(info, "installed", lambda module: cupy)
    monkeypatch.setattr(info, "gpu_problem", lambda: problem)
    lines, missing = info.gpu(cards), info.gpu_missing(cards)
    assert said in " ".join(lines) and lines[: len(cards)] == cards
    assert (lacks is None and missing == []) or (lacks and lacks in missing[0])
    assert all(len(line) <= 67 for line in lines + missing)


def program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.skipif(sys.platform == "win32", reason="the programs of this test are shell scripts")
@pytest.mark.parametrize(
    ("script", "serves"),
    [("echo '<svg/>'", True), ("exit 1", False), ("echo '<svg/>'; exit 1", False)],
)
def test_graphviz_pure_serves_where_it_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, serves: bool
) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    assert not info.pure_draws()
    program(tmp_path, "graphviz-pure", script)
    assert info.pure_draws() is serves
    assert ("graphs as pdf" in info.drawing_missing()[0]) is serves
    assert told("drawing") == (["graphviz-pure, for svg and png"] if serves else
                               ["nothing that draws graphs"])  # fmt: skip
    monkeypatch.setenv("PATH", str(tmp_path))
    program(tmp_path, "dot", "exit 0")
    assert info.drawing_missing() == [] and told("drawing") == ["the system's dot"]


def test_a_program_that_hangs_or_is_none_has_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(info, "PATIENCE", 0.05)
    assert info._answer([sys.executable, "-c", "import time; time.sleep(1); print(1)"]) == ""
    assert info._answer([os.path.join("no", "such", "program")]) == ""
    assert info._answer([sys.executable, "-c", "raise SystemExit(3)"]) == ""


def test_a_module_that_something_else_stands_for_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from types import ModuleType

    stand_in = ModuleType("torch")
    stand_in.__spec__ = None
    monkeypatch.setitem(sys.modules, "torch", stand_in)
    assert not info.installed("torch") and info.installed("numpy")


def test_a_backend_that_is_not_there_does_not_keep_info_from_saying_the_rest() -> None:
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "tinygrad_edu", "info"],
        env={**os.environ, "PYTHONPATH": str(root), "TINYGRAD_EDU_BACKEND": "foo"},
        capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "there is no backend 'foo'" in " ".join(done.stdout.split())
    assert f"numpy {np.__version__}" in done.stdout
