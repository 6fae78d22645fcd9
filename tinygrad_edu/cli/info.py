"""What is installed and what computes, for a reader and for a bug report."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info

import tinygrad_edu as tg
from tinygrad_edu.backend import default_namespace


def facts() -> list[tuple[str, str]]:
    """(heading, fact) pairs."""
    return [
        ("tinygrad_edu", f"{tg.__version__} in {Path(tg.__file__).parent}"),
        ("python", f"{platform.python_version()} ({sys.executable})"),
        ("system", f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"),
        ("numpy", np.__version__),
        ("BLAS", blas()),
        ("backend", default_namespace().name),
        ("cupy", "installed" if importlib.util.find_spec("cupy") else "not installed"),
    ]


def blas() -> str:
    """The library behind NumPy's matmul, with its threads."""
    found = [
        f"{pool['internal_api']} {pool['version']}, {pool['num_threads']} threads"
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    ]
    return "; ".join(found) or "unknown"
