"""N-grams against the published formula in plain Python, and against real texts."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinygrad_edu.text import CorpusError, NGramModel, yardsticks

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
V = 4
DRAW = np.random.default_rng(5)
TEXT = (DRAW.integers(0, 3, 300) * DRAW.integers(0, 2, 300) + DRAW.integers(0, 2, 300)).tolist()
Gram = tuple[int, ...]


class ByHand:
    """Chen & Goodman's modified Kneser-Ney, interpolated, by dictionaries."""

    def __init__(self, tokens: list[int], order: int) -> None:
        self.order = order
        self.counts = [
            Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))
            for n in range(1, order + 1)
        ]
        self.continuations = []
        for n in range(1, order):
            follows: Counter[Gram] = Counter()
            for gram in self.counts[n]:
                follows[gram[1:]] += 1
            self.continuations.append(follows)

    @staticmethod
    def discounts(counts: Counter[Gram]) -> list[float]:
        n = [sum(1 for c in counts.values() if c == k) for k in range(5)]
        if not (n[1] and n[2] and n[3]):
            return [0, 0.5, 0.5, 0.5]
        y = n[1] / (n[1] + 2 * n[2])
        found = [1 - 2 * y * n[2] / n[1], 2 - 3 * y * n[3] / n[2], 3 - 4 * y * n[4] / n[3]]
        return [0, *(min(max(d, 0.01), k) for k, d in enumerate(found, 1))]

    def mix(self, counts: Counter[Gram], context: Gram, word: int, lower: float) -> float:
        d = self.discounts(counts)
        after = {g[-1]: c for g, c in counts.items() if g[:-1] == context and c}
        total = sum(after.values())
        if not total:
            return lower
        c = after.get(word, 0)
        held = sum(min(d[min(k, 3)], k) for k in after.values())
        return max(c - d[min(c, 3)], 0) / total + held / total * lower

    def lower(self, context: Gram, word: int) -> float:
        """By continuations, with all of `context`."""
        below = self.lower(context[1:], word) if context else 1 / V
        return self.mix(self.continuations[len(context)], context, word, below)

    def p(self, context: Gram, word: int) -> float:
        context = context[-(self.order - 1) :] if self.order > 1 else ()
        below = self.lower(context[1:], word) if context else 1 / V
        return self.mix(self.counts[len(context)], context, word, below)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_probabilities_are_those_of_the_published_formula(order: int) -> None:
    model, by_hand = NGramModel.fit(np.array(TEXT), V, order), ByHand(TEXT, order)
    draw = np.random.default_rng(order)
    contexts = [tuple(draw.integers(0, V, n).tolist()) for n in range(6) for _ in range(6)]
    for context in contexts:
        found = model.probabilities(context)
        want = [by_hand.p(context, word) for word in range(V)]
        np.testing.assert_allclose(found, want, rtol=1e-12)
        assert found.sum() == pytest.approx(1, abs=1e-12)


def test_a_target_is_predicted_from_what_its_window_shows() -> None:
    model, by_hand = NGramModel.fit(np.array(TEXT), V, 3), ByHand(TEXT, 3)
    windows = np.random.default_rng(0).integers(0, V, (5, 7))
    found = model.losses(windows)
    assert found.shape == (5, 6)
    for window, losses in zip(windows.tolist(), found, strict=True):
        for t in range(6):
            p = by_hand.p(tuple(window[: t + 1]), window[t + 1])
            assert losses[t] == pytest.approx(-math.log(p), rel=1e-12)


def test_a_running_text_is_one_long_window() -> None:
    model = NGramModel.fit(np.array(TEXT), V, 3)
    other = np.random.default_rng(9).integers(0, V, 50)
    assert model.loss(other) == pytest.approx(float(model.losses(other[None]).mean()))


def test_tokens_that_were_never_seen_have_a_finite_loss() -> None:
    model = NGramModel.fit(np.zeros(20, int), 3, 4)
    assert np.isfinite(model.losses(np.array([[0, 1, 2, 2, 1, 0]]))).all()
    for context in ([], [0], [2, 1], [0, 0, 0]):
        assert model.probabilities(context).sum() == pytest.approx(1)


def test_a_vocabulary_of_all_that_fits_two_bytes_is_counted_exactly() -> None:
    """Packed into one integer each, an 8-gram of such tokens would not fit 64 bits."""
    draw = np.random.default_rng(2)
    tokens = draw.integers(0, 2**16, 400)
    tokens = np.concatenate([tokens, tokens[:200]])
    model = NGramModel.fit(tokens, 2**16, 8)
    repeated = model.losses(tokens[None, 395:595])[0]
    assert repeated[10:].max() < 4 < -math.log(2**-16) / 2
    assert model.losses(draw.integers(0, 2**16, (2, 30))).mean() > 8


def test_yardsticks_are_means_over_all_targets_of_all_windows() -> None:
    training = np.array(TEXT)
    windows = [np.array(TEXT[:60]).reshape(6, 10), np.array([TEXT[60:65]])]
    found = yardsticks(training, windows, V, max_order=4)
    means = []
    for order in range(1, 5):
        model = NGramModel.fit(training, V, order)
        means.append(sum(model.losses(w).sum() for w in windows) / (54 + 4))
    assert found.uniform == math.log(V)
    assert found.unigram == pytest.approx(means[0])
    assert found.best == pytest.approx(min(means)) and found.order == means.index(min(means)) + 1


def test_windows_shorter_than_the_order_are_read_with_what_they_have() -> None:
    assert yardsticks(np.array(TEXT), [np.array([[0, 1], [1, 2]])], V).order in (1, 2)
    assert NGramModel.fit(np.array([0, 1, 2]), V, 8).order == 3, "no longer than the text"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: NGramModel.fit(np.array([0, 4]), 4, 2), "tokens from 0 to 4; a vocabulary of 4"),
        (lambda: NGramModel.fit(np.array([-1, 2]), 4, 2), "tokens from -1 to 2"),
        (lambda: NGramModel.fit(np.array([], int), 4, 2), "of no tokens"),
        (lambda: NGramModel.fit(np.array([0]), 4, 0), "order 0"),
        (lambda: NGramModel.fit(np.array(TEXT), V, 2).losses(np.array([[1]])), r"shape \(1, 1\)"),
        (lambda: yardsticks(np.array(TEXT), [], V), "no windows"),
    ],
    ids=["above", "below", "none", "order", "narrow", "empty"],
)
def test_what_cannot_be_counted_is_refused(call: Any, words: str) -> None:
    with pytest.raises(CorpusError, match=words):
        call()


@pytest.mark.parametrize(
    ("name", "order", "mark"), [("tinyshakespeare.txt", 5, 1.669), ("machado.txt", 6, 1.545)]
)
def test_real_texts_are_predicted_at_least_as_well_as_the_known_yardsticks(
    name: str, order: int, mark: float
) -> None:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{path} is not there")
    content = path.read_text(encoding="utf-8")
    symbols = {symbol: i for i, symbol in enumerate(sorted(set(content)))}
    tokens = np.array([symbols[symbol] for symbol in content])
    boundary = len(tokens) - round(len(tokens) * 0.1)
    model = NGramModel.fit(tokens[:boundary], len(symbols), order)
    assert model.losses(tokens[None, boundary - 20 :])[0, 19:].mean() < mark
