"""The tokens of one chunk: pairs are joined, the earliest learnt first, the leftmost of equals
first.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from itertools import pairwise, repeat

__all__ = ["LONG", "Pair", "joined"]

Pair = tuple[int, int]

LONG = 64
"""Tokens from which a heap is faster than looking at all pairs for each join."""


def joined(tokens: list[int], ranks: Mapping[Pair, int], made: Sequence[int]) -> list[int]:
    """What a chunk's tokens become; the list given may be changed.

    Args:
        tokens: those of its single bytes.
        ranks: which merge joins a pair.
        made: the token that each merge makes.
    """
    if len(tokens) > LONG:
        return _joined_long(tokens, ranks, made)
    rank_of, none = ranks.get, len(made)
    found = list(map(rank_of, pairwise(tokens), repeat(none)))
    found.append(none)  # behind the last token
    while (best := min(found)) != none:
        at = found.index(best)
        token = tokens[at] = made[best]
        del tokens[at + 1], found[at]
        if at:
            found[at - 1] = rank_of((tokens[at - 1], token), none)
        if at + 1 < len(tokens):
            found[at] = rank_of((token, tokens[at + 1]), none)
    return tokens


def _joined_long(tokens: list[int], ranks: Mapping[Pair, int], made: Sequence[int]) -> list[int]:
    """The same with a heap of pairs and links between neighbours: n log n."""
    count = len(tokens)
    after = list(range(1, count + 1))
    before = list(range(-1, count - 1))
    heap = []
    for i, pair in enumerate(pairwise(tokens)):
        rank = ranks.get(pair)
        if rank is not None:
            heap.append((rank, i, *pair))
    heapq.heapify(heap)
    while heap:
        rank, i, a, b = heapq.heappop(heap)
        j = after[i]
        if tokens[i] != a or j >= count or tokens[j] != b:
            continue  # one of the two has been joined with another meanwhile
        tokens[i], tokens[j] = made[rank], -1
        after[i] = after[j]
        if after[i] < count:
            before[after[i]] = i
        for left, right in ((before[i], i), (i, after[i])):
            if left >= 0 and right < count:
                found = ranks.get((tokens[left], tokens[right]))
                if found is not None:
                    heapq.heappush(heap, (found, left, tokens[left], tokens[right]))
    return [token for token in tokens if token >= 0]
