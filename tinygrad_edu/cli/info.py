"""What is installed, what computes, and what is missing with the way to get it.

For a reader who wonders, and for a bug report. Each missing thing stands in one line with the
command that brings it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from pathlib import Path

import tinygrad_edu as tg
from tinygrad_edu.backend import default_namespace, gpu_problem

NEEDED = ("numpy", "ml_dtypes", "safetensors", "rich", "matplotlib", "tyro", "regex", "graphviz")
"""Distributions whose versions are told."""
OPTIONAL = (
    ("hypothesis", "property tests", "pip install 'tinygrad_edu[hypothesis]'"),
    ("jupyterlab", "notebooks", "pip install 'tinygrad_edu[notebook]'"),
    ("mpi4py", "training by many processes with MPI", "pip install 'tinygrad_edu[mpi]'"),
    ("torch", "tests that ask another engine", "pip install 'tinygrad_edu[oracle]'"),
)  # fmt: skip
"""(module, what it is for, how it comes)."""


def facts() -> list[tuple[str, str]]:
    """(heading, fact) pairs; a heading of "" goes on with the one before."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found = [
        ("tinygrad_edu", f"{tg.__version__} in {Path(tg.__file__).parent}"),
        ("python", f"{platform.python_version()} ({sys.executable})"),
        ("system", f"{platform.system()} {platform.machine()}, {cores} of {os.cpu_count()} cores"),
        ("backend", f"{default_namespace().name}, on the {'GPU' if on_gpu() else 'CPU'}"),
        *[("BLAS" if not i else "", said) for i, said in enumerate(blas())],
        ("training", f"a batch is shared by {workers()}"),
        *[("versions" if not i else "", said) for i, said in enumerate(versions())],
    ]
    missing = [*gpu_missing(), *drawing_missing(), *optional_missing()]
    found += [("missing" if not i else "", said) for i, said in enumerate(missing)]
    return found


def on_gpu() -> bool:
    """Whether new arrays are made on one."""
    return default_namespace().name != "numpy"


def blas() -> list[str]:
    """The libraries behind NumPy's matmul, with kernel and threads."""
    from threadpoolctl import threadpool_info

    said = []
    for pool in threadpool_info():
        if pool["user_api"] == "blas":
            kernel = f", {pool['architecture']} kernels" if pool.get("architecture") else ""
            threads = f"{pool['num_threads']} threads"
            said.append(f"{pool['internal_api']} {pool['version']}{kernel}, {threads}")
    return said or ["unknown: NumPy does not tell which library multiplies its matrices"]


def workers() -> str:
    """What the trainer will use here."""
    from tinygrad_edu import lm
    from tinygrad_edu.lm.config import worker_count

    count = worker_count(lm.TrainConfig())
    if count == 1:
        return "one worker"
    return f"{count} {'processes' if sys.platform.startswith('linux') else 'threads'}"


def versions() -> list[str]:
    """Of what the package needs, a few a line."""
    from tinygrad_edu.lm.plan import filled

    return list(filled((f"{name} {version(name)}" for name in NEEDED), 65))


def version(distribution: str) -> str:
    """Of a distribution; a word where it is not there."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "(missing)"


def gpu_missing() -> list[str]:
    """What keeps arrays off a GPU; nothing where they can be there."""
    if importlib.util.find_spec("cupy") is None:
        return [
            "cupy, for arrays on an NVIDIA GPU:",
            "  pip install 'tinygrad_edu[cuda13]' (or cuda12)",
        ]
    problem = gpu_problem()
    return [] if problem is None else [f"a GPU that the installed cupy can use ({problem})"]


def drawing_missing() -> list[str]:
    """What is not there to draw graphs with."""
    if shutil.which("dot"):
        return []
    if importlib.util.find_spec("graphviz_pure"):
        return ["a system `dot` (graphviz-pure draws svg and png without it; for pdf:",
                "  apt install graphviz, brew install graphviz)"]  # fmt: skip
    return ["`dot`, to draw: pip install graphviz-pure or apt install graphviz"]


def optional_missing() -> list[str]:
    """Extras that are not installed."""
    said = []
    for module, purpose, command in OPTIONAL:
        if importlib.util.find_spec(module) is None:
            said += [f"{module}, for {purpose}:", f"  {command}"]
    return said
