"""What the machine lends to training: its BLAS, and how much memory has been used of it."""

from __future__ import annotations

import platform
import sys

MEBIBYTE = 2**20


def blas() -> str:
    """The library behind NumPy's matrix products with its version; "unknown" where nobody knows."""
    from threadpoolctl import threadpool_info

    found = [
        f"{pool['internal_api']} {pool['version']}"
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    ]
    return "; ".join(found) or "unknown"


def environment(workers: tuple[int, str]) -> dict[str, str]:
    """What a run's bits depend on beside its options: elsewhere it is equal to rounding only.

    `workers` are how many share a batch, and of what kind.
    """
    import numpy

    return {
        "array library": f"NumPy {numpy.__version__}",
        "BLAS": blas_kernel(),
        "workers": str(workers[0]),
        "processor": platform.machine(),
    }


def blas_kernel() -> str:
    """`blas`, with the processor's kind that it computes for."""
    from threadpoolctl import threadpool_info

    kernels = {
        str(pool.get("architecture", "unknown"))
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    }
    return f"{blas()} ({', '.join(sorted(kernels))})" if kernels else blas()


def peak_resident() -> int | None:
    """Bytes of memory that this process held at most, or None where the system does not tell."""
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # Linux counts in KiB


def mebibytes(count: float) -> str:
    """`27.5 MiB`, `1,024 MiB`."""
    size = count / MEBIBYTE
    return f"{size:,.0f} MiB" if size >= 100 else f"{size:.1f} MiB"
