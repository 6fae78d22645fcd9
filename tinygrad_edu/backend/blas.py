"""y ← y + a·x by the BLAS that NumPy multiplies its matrices with: one pass, on all its threads.

NumPy itself needs two passes and one thread for it, and after a matrix product half of the result
lies in the cache of another core; fetching it from there costs several times the arithmetic. NumPy
has no name for this routine (`axpy`, Lawson et al. 1979), so it is looked up in the library that
NumPy has loaded. Where there is none, or it does not do what is needed, NumPy does the work.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["axpy"]

Array = Any
Routine = Callable[[int, float, int, int, int, int], None]

# What the builds of NumPy call it: wheels with OpenBLAS, OpenBLAS with 64-bit integers, any other.
_NAMES = ("scipy_cblas_{}axpy64_", "scipy_cblas_{}axpy", "cblas_{}axpy64_", "cblas_{}axpy")
_KINDS: dict[Any, tuple[str, Any]] = {
    np.dtype(np.float32): ("s", ctypes.c_float),
    np.dtype(np.float64): ("d", ctypes.c_double),
}


def axpy(y: Array, a: float, x: Array) -> bool:
    """y ← y + a·x in place, each element rounded once or twice; False, and nothing done, where BLAS
    cannot: arrays that are not NumPy's, not contiguous or not of one float dtype.
    """
    if y.__class__ is not np.ndarray or x.__class__ is not np.ndarray:
        return False
    routine = _routine(y.dtype)
    flags = y.flags
    if (
        routine is None
        or x.dtype is not y.dtype
        or x.shape != y.shape
        or not (flags.c_contiguous and flags.writeable and x.flags.c_contiguous)
        or y.dtype.type(a) == 0  # by which BLAS does not multiply: a NaN in x would stay unseen
    ):
        return False
    routine(y.size, a, x.ctypes.data, 1, y.ctypes.data, 1)
    return True


@functools.lru_cache(None)
def _routine(dtype: Any) -> Routine | None:
    """The routine for this dtype, once it has been seen to work; None where there is none."""
    kind = _KINDS.get(dtype)
    if kind is None:
        return None
    letter, real = kind
    try:
        core = importlib.import_module("numpy._core._multiarray_umath")
        library = ctypes.CDLL(core.__file__)  # finds its symbols, and of the libraries it needs
    except (ImportError, AttributeError, OSError):
        return None
    for name in _NAMES:
        routine = getattr(library, name.format(letter), None)
        if routine is not None:
            size, memory = ctypes.c_ssize_t, ctypes.c_void_p
            routine.argtypes = (size, real, memory, size, memory, size)
            routine.restype = None
            return routine if _is_sound(routine, dtype) else None
    return None


def _is_sound(routine: Routine, dtype: Any) -> bool:
    """Whether it adds what it should, and the same bits wherever an array is cut: workers cut the
    weights into parts, and one process does not.
    """
    count = 131  # no multiple of what a processor takes at once
    x = np.cos(np.arange(count, dtype=np.float64)).astype(dtype)
    start = np.sin(np.arange(count, dtype=np.float64)).astype(dtype)
    whole, single = start.copy(), start.copy()
    routine(count, -0.3, x.ctypes.data, 1, whole.ctypes.data, 1)
    for i in range(count):
        routine(1, -0.3, x[i:].ctypes.data, 1, single[i:].ctypes.data, 1)
    wanted = start - dtype.type(0.3) * x
    close = np.allclose(whole, wanted, rtol=0, atol=4 * float(np.finfo(dtype).eps))
    return bool(close and (whole == single).all())
