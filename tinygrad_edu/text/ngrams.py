"""What counting alone can predict: the yardstick that gives a language model's loss its meaning.

An n-gram model predicts a token from the n-1 before it, by how often each followed them in the
training text. Few contexts are seen often enough, so each order is mixed with the one below it:
interpolated Kneser-Ney smoothing, with three discounts (Chen & Goodman 1999, "An empirical study of
smoothing techniques for language modeling", section 3 and equations 2.28 and 26):

    p(w | c) = max(0, count(c w) - D) / count(c) + γ(c) · p(w | c without its first token)

D is 0 for a count of 0, and D₁, D₂, D₃ for 1, 2, more; γ(c) gives what was discounted to the order
below, whose counts are of another kind: in how many different contexts w was seen (its
continuations), as a word that only ever follows "San" is no likely word elsewhere. At the bottom
all V tokens are equally likely. D₁, D₂, D₃ come from how many counts are 1, 2, 3 and 4, so that
nothing is fitted to the text that the model is then measured on.

An n-gram is kept as (number of the n-1-gram it begins with, last token) in one sorted array of
integers: exact for every vocabulary and order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tinygrad_edu.text.errors import CorpusError

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
MAX_ORDER = 8
"""Longer contexts are hardly ever seen twice in a text of some megabytes."""


@dataclass(frozen=True, slots=True)
class Yardsticks:
    """Mean losses over the same targets, in nats a token.

    Attributes:
        uniform: of guessing: ln V.
        unigram: of how often each token comes.
        best: of the best n-gram.
        order: its n.
    """

    uniform: float
    unigram: float
    best: float
    order: int


class NGramModel:
    """Counts of all n-grams up to `order`, made by `fit`."""

    def __init__(self, vocab_size: int, grams: list[Ids], tables: list[_Pair]) -> None:
        self.vocab_size = vocab_size
        self.order = len(tables)
        self._grams = grams
        self._tables = tables

    @classmethod
    def fit(cls, tokens: Ids, vocab_size: int, order: int) -> NGramModel:
        """Count the n-grams of a text of integers in [0, vocab_size).

        Raises:
            CorpusError: an order below 1, an empty text, or tokens outside the vocabulary.
        """
        tokens = np.asarray(tokens, dtype=np.int64)
        _check(tokens, vocab_size, order)
        order = min(order, len(tokens))
        numbers = tokens  # of the n-gram that begins at each place
        grams, counts, suffixes = [np.arange(vocab_size)], [], []
        counts.append(np.bincount(tokens, minlength=vocab_size))
        for n in range(2, order + 1):
            keys = numbers[:-1] * vocab_size + tokens[n - 1 :]
            found, first, numbers_now, count = np.unique(
                keys, return_index=True, return_inverse=True, return_counts=True
            )
            suffixes.append(numbers[1:][first])  # each n-gram without its first token
            numbers = numbers_now.reshape(-1)
            grams.append(found)
            counts.append(count)
        tables = []
        for n, count in enumerate(counts, start=1):
            before = grams[n - 1] // vocab_size if n > 1 else np.zeros(vocab_size, np.int64)
            contexts = len(grams[n - 2]) if n > 1 else 1
            continuations = (
                np.bincount(suffixes[n - 1], minlength=len(count)) if n < order else None
            )
            tables.append(_Pair(
                _Table.of(count, before, contexts),
                None if continuations is None else _Table.of(continuations, before, contexts),
            ))  # fmt: skip
        return cls(vocab_size, grams, tables)

    def losses(self, windows: Ids) -> Floats:
        """-ln p of each next token, in nats: windows (B, T+1) -> (B, T).

        A token is predicted from those before it in its window, at most order-1 of them.
        """
        return _losses(self._by_order(windows), self.order)

    def loss(self, tokens: Ids) -> float:
        """The mean over a running text, whose first token is not predicted."""
        return float(self.losses(np.asarray(tokens)[None, :]).mean())

    def probabilities(self, context: Sequence[int]) -> Floats:
        """(V,), of every token after `context`."""
        start = list(context)[-(self.order - 1) :] if self.order > 1 else []
        if not start:
            everything = np.arange(self.vocab_size)
            return self._tables[0].counts.mixed(everything, np.zeros_like(everything), self._bottom)
        windows = np.array([[*start, token] for token in range(self.vocab_size)])
        return np.exp(-self.losses(windows)[:, -1])

    @property
    def _bottom(self) -> float:
        return 1 / self.vocab_size

    def _by_order(self, windows: Ids) -> list[Floats]:
        """For n = 1, 2, …: p of each target that has n-1 tokens before it, (B, T+2-n) or (B, T)."""
        windows = np.asarray(windows, dtype=np.int64)
        if windows.ndim != 2 or windows.shape[1] < 2:
            raise CorpusError(
                f"losses were asked for windows of shape {windows.shape}; expected (B, T+1), with "
                "a token and at least one to predict from it"
            )
        _check(windows.reshape(-1), self.vocab_size, 1)
        numbers: Ids = windows  # of the n-gram that begins at each place, -1 where it is not known
        lower: Floats | float = self._bottom
        found: list[Floats] = []
        for n, pair in enumerate(self._tables, start=1):
            if n > windows.shape[1]:
                break
            before = numbers[:, :-1] if n > 1 else np.zeros_like(windows)
            if n > 1:
                numbers = self._look_up(n, before, windows[:, n - 1 :])
            below = lower if n <= 1 else lower[:, 1:]  # type: ignore[index]
            found.append(pair.counts.mixed(numbers, before, below))
            if pair.continuations is not None:
                lower = pair.continuations.mixed(numbers, before, below)
        found[0] = found[0][:, 1:]  # the first token of a window is no target
        return found

    def _look_up(self, n: int, before: Ids, last: Ids) -> Ids:
        grams = self._grams[n - 1]
        keys = before * self.vocab_size + last
        place = np.minimum(np.searchsorted(grams, keys), len(grams) - 1)
        return np.where((before >= 0) & (grams[place] == keys), place, -1)


def yardsticks(
    training: Ids, windows: Iterable[Ids], vocab_size: int, max_order: int = MAX_ORDER
) -> Yardsticks:
    """Losses of n-grams counted in `training` on the targets of `windows`, arrays of (B, T+1).

    The best order is the one with the lowest loss on these very windows: a yardstick may have that
    advantage over the model that is measured by it.

    Raises:
        CorpusError: no windows, or an argument that `NGramModel` refuses.
    """
    model = NGramModel.fit(training, vocab_size, max_order)
    sums, targets = [0.0] * model.order, 0
    for part in windows:
        found = model._by_order(part)
        sums = [s + float(_losses(found, n).sum()) for n, s in enumerate(sums, 1)]
        targets += part.shape[0] * (part.shape[1] - 1)
    if not targets:
        raise CorpusError("yardsticks were asked for no windows; give at least one with a target")
    means = [s / targets for s in sums]
    best = min(range(len(means)), key=means.__getitem__)
    return Yardsticks(math.log(vocab_size), means[0], means[best], best + 1)


def _losses(by_order: list[Floats], order: int) -> Floats:
    """Each target by the longest context that it has, up to `order`."""
    losses = -np.log(by_order[0])
    for n in range(2, min(order, len(by_order)) + 1):
        losses[:, n - 2 :] = -np.log(by_order[n - 1])
    return losses


@dataclass(frozen=True)
class _Pair:
    """The n-grams of one order: how often each came, and after how many different tokens.

    The first are for predicting with, the second for mixing into the order above.
    """

    counts: _Table
    continuations: _Table | None


@dataclass(frozen=True)
class _Table:
    """Attributes:
    share: of each n-gram, (count - D) / count of its context.
    kept_back: of each context, γ; 1 where it was never seen.
    """

    share: Floats
    kept_back: Floats

    @classmethod
    def of(cls, counts: Ids, before: Ids, contexts: int) -> _Table:
        """From the count of each n-gram, and the number of the context that it begins with."""
        discount = _discounts(counts)[np.minimum(counts, 3)]
        total = np.bincount(before, counts, contexts)
        held = np.bincount(before, np.minimum(discount, counts), contexts)
        seen = total > 0
        safe = np.where(seen, total, 1.0)
        share = np.maximum(counts - discount, 0) / safe[before]
        return cls(share, np.where(seen, held / safe, 1.0))

    def mixed(self, numbers: Ids, before: Ids, lower: Floats | float) -> Floats:
        """p by n-grams `numbers` after contexts `before` (-1: never seen), with the order below."""
        share = np.where(numbers >= 0, self.share[numbers], 0.0)
        kept_back = np.where(before >= 0, self.kept_back[before], 1.0)
        mixed: Floats = share + kept_back * lower
        return mixed


def _discounts(counts: Ids) -> Floats:
    """(0, D₁, D₂, D₃) by Chen & Goodman's estimate; a half each where there are too few counts."""
    n1, n2, n3, n4 = (int((counts == k).sum()) for k in (1, 2, 3, 4))
    if not (n1 and n2 and n3):
        return np.array([0.0, 0.5, 0.5, 0.5])
    y = n1 / (n1 + 2 * n2)
    found = [1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3]
    return np.array([0.0, *(min(max(d, 0.01), k) for k, d in enumerate(found, start=1))])


def _check(tokens: Ids, vocab_size: int, order: int) -> None:
    if order < 1:
        raise CorpusError(f"an n-gram of order {order} was asked for; it must be 1 or more")
    if not tokens.size:
        raise CorpusError("n-grams were asked of no tokens; give at least one")
    low, high = int(tokens.min()), int(tokens.max())
    if low < 0 or high >= vocab_size:
        raise CorpusError(
            f"n-grams were given tokens from {low} to {high}; a vocabulary of {vocab_size} has 0 "
            f"to {vocab_size - 1}"
        )
