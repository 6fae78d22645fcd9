"""What is installed, what computes, and what is missing with the way to get it.

For a reader who wonders, and for a bug report. Each missing thing stands in one line with the
command that brings it. Whatever cannot be found out on an odd machine is told as that, since a
report is wanted most where something is odd.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path

import tinygrad_edu as tg
from tinygrad_edu.backend import default_namespace, gpu_problem

HEADING = 13
WIDTH = 80 - HEADING
"""Columns for the headings, and for the facts."""
PATIENCE = 10.0
"""Seconds that another program may take to answer."""
NEEDED = ("numpy", "ml_dtypes", "safetensors", "rich", "matplotlib", "tyro", "regex", "graphviz",
          "threadpoolctl")  # fmt: skip
"""Distributions whose versions are told."""
EXTRAS = ("cupy-cuda12x", "cupy-cuda13x", "graphviz-pure", "hypothesis", "jupyterlab", "mpi4py",
          "torch")  # fmt: skip
"""Those whose versions are told where they are installed."""
OPTIONAL = (
    ("hypothesis", "property tests", "pip install 'tinygrad_edu[hypothesis]'"),
    ("jupyterlab", "notebooks", "pip install 'tinygrad_edu[notebook]'"),
    ("mpi4py", "many processes", "pip install 'tinygrad_edu[mpi]'"),
    ("torch", "a judge for tests", "pip install 'tinygrad_edu[oracle]'"),
)  # fmt: skip
"""(module, what it is for, how it comes)."""
FIRST_DRIVER_OF_CUDA13 = 580
PURE = "graphviz-pure"


def facts() -> list[tuple[str, str]]:
    """(heading, line) pairs that fit 80 columns; a heading of "" goes on with the one before."""
    cards = _or_reason(gpus)
    found = []
    for heading, find in (
        ("tinygrad_edu", package),
        ("python", python),
        ("system", system),
        ("backend", backend),
        ("GPU", lambda: gpu(cards)),
        ("BLAS", blas),
        ("training", workers),
        ("drawing", drawing),
        ("versions", versions),
        ("missing", lambda: missing(cards)),
    ):
        lines = [line for said in _or_reason(find) for line in _wrapped(said)]
        found += [("" if i else heading, line) for i, line in enumerate(lines)]
    return found


def _or_reason(find: Callable[[], Iterable[str]]) -> list[str]:
    """What `find` finds, or why it could not."""
    try:
        return list(find())
    except Exception as error:  # noqa: BLE001 - that something is wrong is what is told here
        reason = str(error).partition("\n")[0]
        return [f"cannot be told here: {type(error).__name__}: {reason}"]


def _wrapped(said: str) -> list[str]:
    """In lines of `WIDTH`; a path longer than that stays whole."""
    return textwrap.wrap(said, WIDTH, break_long_words=False, break_on_hyphens=False)


def package() -> list[str]:
    """Its version and where it lies."""
    return [f"{tg.__version__} in {Path(tg.__file__).parent}"]


def python() -> list[str]:
    """Its version and where it lies."""
    return [f"{platform.python_version()} ({sys.executable})"]


def system() -> list[str]:
    """What runs, on what, and the cores that this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return [f"{platform.system()} {platform.machine()}, {cores} of {os.cpu_count()} cores"]


def backend() -> list[str]:
    """Where new arrays are made."""
    return [f"{default_namespace().name}, on the {'GPU' if on_gpu() else 'CPU'}"]


def on_gpu() -> bool:
    """Whether new arrays are made on one."""
    return default_namespace().name != "numpy"


def gpus() -> list[str]:
    """`NVIDIA H200, 143771 MiB, driver 570.86`, each that NVIDIA's driver tells of."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    asked = ["--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    answer = _answer([program, *asked])
    cards = [line.rpartition(", ") for line in answer.splitlines() if line.count(",") == 2]
    return [f"{card}, driver {driver}" for card, _, driver in cards]


def gpu(cards: list[str]) -> list[str]:
    """Those that are seen, and whether cupy can compute on them."""
    if not installed("cupy"):
        return [*cards, "cupy is not installed"] if cards else ["no NVIDIA GPU seen"]
    problem = gpu_problem()
    if problem is None:
        use = "" if on_gpu() else ": set TINYGRAD_EDU_BACKEND=cupy"
        return [*cards, f"cupy can compute on it{use}"]
    return [*(cards or ["no NVIDIA GPU seen"]), f"cupy cannot compute here ({problem})"]


def blas() -> list[str]:
    """The libraries behind NumPy's matmul, with kernel and threads."""
    import numpy as np
    from threadpoolctl import threadpool_info

    said = []
    for pool in threadpool_info():
        if pool["user_api"] == "blas":
            kernel = f", {pool['architecture']} kernels" if pool.get("architecture") else ""
            threads = f"{pool['num_threads']} threads"
            said.append(f"{pool['internal_api']} {pool['version']}{kernel}, {threads}")
    if said:
        return said
    built = np.show_config(mode="dicts")  # type: ignore[call-overload, unused-ignore]
    with_what = built["Build Dependencies"]["blas"]["name"]
    return [f"{with_what}, says NumPy; its threads cannot be told"]


def workers() -> list[str]:
    """What the trainer will use here."""
    from tinygrad_edu import lm
    from tinygrad_edu.lm.config import worker_count

    count = worker_count(lm.TrainConfig())
    if count == 1:
        return ["one worker"]
    kind = "processes" if sys.platform.startswith("linux") else "threads"
    return [f"a batch is shared by {count} {kind}"]


def drawing() -> list[str]:
    """The program that draws graphs."""
    if shutil.which("dot"):
        return ["the system's dot"]
    if pure_draws():
        return [f"{PURE}, for svg and png"]
    return ["nothing that draws graphs"]


def pure_draws() -> bool:
    """Whether graphviz-pure is installed and runs: it is asked for a drawing."""
    folders = (sysconfig.get_path("scripts"), os.environ.get("PATH", ""))
    program = shutil.which(PURE, path=os.pathsep.join(folders))
    return program is not None and "<svg" in _answer([program, "-Tsvg"], "digraph { a -> b }")


def _answer(command: list[str], given: str = "") -> str:
    """What a program writes; nothing where it fails, hangs, or cannot be run."""
    try:
        done = subprocess.run(
            command, input=given, capture_output=True, encoding="utf-8", errors="replace",
            timeout=PATIENCE, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def versions() -> list[str]:
    """Of what the package needs and of the extras that are there, a few a line."""
    from tinygrad_edu.lm.plan import filled

    told = [f"{name} {version(name) or '(missing)'}" for name in NEEDED]
    told += [f"{name} {found}" for name in EXTRAS if (found := version(name))]
    return list(filled(told, WIDTH))


def version(distribution: str) -> str | None:
    """Of a distribution; None where it is not there."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def installed(module: str) -> bool:
    """Whether it could be imported, without doing so."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # ValueError: a module without a spec stands in its place
        return False


def missing(cards: list[str]) -> list[str]:
    """Each thing that is not there, with the command that brings it."""
    found = [
        said
        for find in (lambda: gpu_missing(cards), drawing_missing, optional_missing)
        for said in _or_reason(find)
    ]
    return found or ["nothing"]


def gpu_missing(cards: list[str]) -> list[str]:
    """What keeps arrays off a GPU; nothing where they can be there."""
    if not installed("cupy"):
        extra, other = ("cuda12", "cuda13") if _old_driver(cards) else ("cuda13", "cuda12")
        also = f" (or {other})" if not cards else ""
        return [f"cupy (NVIDIA GPU): pip install 'tinygrad_edu[{extra}]'{also}"]
    if gpu_problem() is None:
        return []
    if not cards:
        return ["an NVIDIA GPU with its driver, for cupy: nvidia.com/drivers"]
    if _old_driver(cards):
        return ["a cupy for this driver: pip install 'tinygrad_edu[cuda12]'"]
    return ["a driver as new as cupy wants it: nvidia.com/drivers"]


def _old_driver(cards: list[str]) -> bool:
    """Whether the driver is older than CUDA 13 wants it."""
    major = cards[0].rpartition(" ")[2].partition(".")[0] if cards else ""
    return major.isdecimal() and int(major) < FIRST_DRIVER_OF_CUDA13


def drawing_missing() -> list[str]:
    """What is not there to draw graphs with."""
    if shutil.which("dot"):
        return []
    install = {"darwin": "brew install graphviz", "win32": "winget install graphviz"}
    command = install.get(sys.platform, "apt install graphviz")
    if pure_draws():
        return [f"dot (graphs as pdf): {command}"]
    return [f"dot (graphs): pip install graphviz-pure, or {command}"]


def optional_missing() -> list[str]:
    """Extras that are not installed."""
    return [
        f"{module} ({purpose}): {command}"
        for module, purpose, command in OPTIONAL
        if not installed(module)
    ]
