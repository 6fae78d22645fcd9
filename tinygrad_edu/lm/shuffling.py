"""An order of n things, drawn by chance, that is never written down.

`Permutation` gives the places of an epoch's windows one by one. Up to `HELD` it is NumPy's own,
each order equally likely. Beyond, where an array of it would be large, it is a Feistel network
(Luby & Rackoff 1988, "How to construct pseudorandom permutations"): a number is cut in two halves,
and each round replaces (L, R) by (R, L xor f(R)), which can be undone whatever f is, so different
numbers stay different. Its domain is a power of 4; what falls outside n is sent through again until
it does not (cycle walking: Black & Rogaway 2002, "Ciphers with arbitrary finite domains", section
3), fewer than 4 times on average.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

HELD = 1 << 20
"""Things up to which the order is held in memory, 8 MB."""
ROUNDS = 8
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
"""Of splitmix64's finaliser (Steele, Lea & Flood 2014)."""

Places = NDArray[np.int64]


def places(wanted: Places, n: int, entropy: tuple[int, ...], held: int = HELD) -> Places:
    """Where the things numbered `wanted`, of n, stand in the order that `entropy` decides.

    Over all numbers below n each place comes once.
    """
    if n <= held:
        return _held(n, entropy)[wanted]
    keys = np.random.default_rng(entropy).integers(0, 2**64, ROUNDS, dtype=np.uint64)
    half = ((n - 1).bit_length() + 1) // 2
    found = np.asarray(wanted, np.uint64)
    limit = np.uint64(n)
    found = _feistel(found, half, keys)
    while (outside := found >= limit).any():
        found[outside] = _feistel(found[outside], half, keys)
    return found.astype(np.int64)


@lru_cache(maxsize=2)
def _held(n: int, entropy: tuple[int, ...]) -> Places:
    return np.random.default_rng(entropy).permutation(n)


def _feistel(numbers: NDArray[np.uint64], half: int, keys: NDArray[np.uint64]) -> (
    NDArray[np.uint64]
):  # fmt: skip
    """One application to numbers of 2·half bits."""
    bits, mask = np.uint64(half), np.uint64((1 << half) - 1)
    left, right = numbers >> bits, numbers & mask
    for key in keys:
        left, right = right, left ^ (_mixed(right + key) & mask)
    return (left << bits) | right


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * _MIX[0]
    x = (x ^ (x >> np.uint64(27))) * _MIX[1]
    return x ^ (x >> np.uint64(31))
