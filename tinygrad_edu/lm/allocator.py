"""Asks the C library to keep freed memory, which a training loop needs again a moment later.

A step of training makes and drops the same large arrays over and over. By default glibc hands each
array above 128 KiB back to the kernel when it is freed and fetches fresh, zeroed pages for the next
one; the page faults can cost more than the arithmetic. `mallopt(3)` turns that off for the process.
On Linux the heap is also asked to stand on large pages (`madvise(2)`, MADV_HUGEPAGE): a step walks
through tens of megabytes, and its address translations no longer fit the processor's table on pages
of 4 KiB. The trainer calls `tune` and says so in its plan; importing this package never does.
"""

from __future__ import annotations

import ctypes
import sys

MALLOPT_TRIM_THRESHOLD = -1
MALLOPT_TOP_PAD = -2
MALLOPT_MMAP_THRESHOLD = -3
MALLOPT_ARENA_MAX = -8

MMAP_THRESHOLD = 32 * 2**20
"""The largest value glibc accepts on 64-bit systems: blocks up to 32 MiB come from the heap."""
TRIM_THRESHOLD = 2**30
"""The heap is given back only once more than 1 GiB at its end is free."""
TOP_PAD = 64 * 2**20
"""The heap grows by at least 64 MiB at a time."""
MADV_HUGEPAGE = 14
LARGE_PAGE = 2 * 2**20
HEAP_ON_LARGE_PAGES = 16
"""Blocks of the largest size by which the heap is grown for them: about 512 MiB of addresses."""


def tune() -> bool:
    """Make glibc's malloc keep large freed blocks; True where it took effect, False elsewhere."""
    if not sys.platform.startswith("linux"):
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    mallopt = library.mallopt
    mallopt.argtypes = (ctypes.c_int, ctypes.c_int)
    mallopt.restype = ctypes.c_int
    settings = (
        (MALLOPT_MMAP_THRESHOLD, MMAP_THRESHOLD),
        (MALLOPT_TRIM_THRESHOLD, TRIM_THRESHOLD),
        (MALLOPT_TOP_PAD, TOP_PAD),
        (MALLOPT_ARENA_MAX, 1),  # one heap for all threads: theirs would be given back again
    )
    accepted = [bool(mallopt(option, value)) for option, value in settings]
    if all(accepted):
        _ask_for_large_pages(library)
    return all(accepted)


def _ask_for_large_pages(library: ctypes.CDLL) -> None:
    """Grow the heap by address space alone, no memory yet, and advise large pages for that part.

    Advice: where the kernel does not take it, training runs as before.
    """
    for function, result, arguments in (
        (library.malloc, ctypes.c_void_p, (ctypes.c_size_t,)),
        (library.free, None, (ctypes.c_void_p,)),
        (library.sbrk, ctypes.c_void_p, (ctypes.c_ssize_t,)),
        (library.madvise, ctypes.c_int, (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)),
    ):
        function.restype, function.argtypes = result, arguments
    start = library.sbrk(0)
    blocks = [library.malloc(MMAP_THRESHOLD - 4096) for _ in range(HEAP_ON_LARGE_PAGES)]
    end = library.sbrk(0)
    for block in blocks:
        library.free(block)
    first = -(-start // LARGE_PAGE) * LARGE_PAGE
    length = (end - first) // LARGE_PAGE * LARGE_PAGE
    if length > 0:
        library.madvise(first, length, MADV_HUGEPAGE)
