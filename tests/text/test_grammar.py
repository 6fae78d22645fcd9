"""A grammar's probabilities, against counting all its sentences and against its own text."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np
import pytest

from tinygrad_edu import text
from tinygrad_edu.text import CorpusError, Grammar, sentences

TINY = Grammar({
    "line": "2 {who} sat | 1 {who} ran {where} | 1 a sat",
    "who": "3 a | 1 {two}",
    "two": "1 ab | 1 a b",
    "where": "1 on | 2 off",
})  # fmt: skip


def derivations(rules: dict[str, list[tuple[float, list[str]]]], name: str) -> Iterator[
    tuple[str, float]
]:
    """All (words, probability), by hand: rules here are lists, rules in braces are names."""
    for share, parts in rules[name]:
        options = [list(derivations(rules, p[1:-1])) if p[0] == "{" else [(p, 1.0)] for p in parts]
        for chosen in itertools.product(*options):
            yield "".join(w for w, _ in chosen), share * math.prod(p for _, p in chosen)


def by_hand() -> dict[str, float]:
    rules = {
        "line": [
            (0.5, ["{who}", " sat"]), (0.25, ["{who}", " ran ", "{where}"]), (0.25, ["a sat"]),
        ],
        "who": [(0.75, ["a"]), (0.25, ["{two}"])],
        "two": [(0.5, ["ab"]), (0.5, ["a b"])],
        "where": [(1 / 3, ["on"]), (2 / 3, ["off"])],
    }  # fmt: skip
    found: dict[str, float] = defaultdict(float)
    for words, probability in derivations(rules, "line"):
        found[words] += probability
    return dict(found)


SENTENCES = by_hand()


def test_every_sentence_has_the_probability_that_its_derivations_have() -> None:
    assert math.fsum(SENTENCES.values()) == pytest.approx(1)
    for sentence, probability in SENTENCES.items():
        assert TINY.sentence_probability(sentence) == pytest.approx(probability, rel=1e-12)
        assert TINY.sentence_probability(sentence + "\n") == TINY.sentence_probability(sentence)
    for other in ("", "a", "b sat", "a sat\na sat", "a ran", "sat"):
        assert TINY.sentence_probability(other) == 0


def stretches(length: int) -> dict[str, float]:
    """The probability of each stretch of the endless text, by cutting all that sentences make.

    A stretch begins in a sentence with a probability proportional to that sentence's length, and
    anywhere in it with equal chance; independent sentences follow.
    """
    found: dict[str, float] = defaultdict(float)
    lines = {sentence + "\n": p for sentence, p in SENTENCES.items()}
    mean = sum(len(line) * p for line, p in lines.items())

    def go_on(so_far: str, weight: float) -> None:
        if len(so_far) >= length:
            found[so_far[:length]] += weight
            return
        for line, p in lines.items():
            go_on(so_far + line, weight * p)

    for line, p in lines.items():
        for start in range(len(line)):
            go_on(line[start:], p / mean)
    return found


def test_stretches_from_anywhere_are_as_likely_as_cutting_says() -> None:
    for length in (1, 2, 7):
        want = stretches(length)
        assert math.fsum(want.values()) == pytest.approx(1)
        for stretch, probability in want.items():
            likelihood = 1.0
            for place, character in enumerate(stretch):
                likelihood *= TINY.next_probabilities(stretch[:place]).get(character, 0.0)
            assert likelihood == pytest.approx(probability, rel=1e-10), stretch


def test_losses_of_windows_are_those_of_the_next_probabilities() -> None:
    windows = [stretch for stretch in stretches(9) if "\n" in stretch][:40]
    found = TINY.losses(windows)
    assert found.shape == (40, 8)
    for window, losses in zip(windows, found, strict=True):
        for t in range(8):
            p = TINY.next_probabilities(window[: t + 1])[window[t + 1]]
            assert losses[t] == pytest.approx(-math.log(p), abs=1e-12)


def test_the_stationary_distribution_is_the_one_the_chain_keeps() -> None:
    share = TINY.stationary
    onward = np.zeros(TINY.states)
    for state, go in enumerate(TINY._next):
        for then, probability in go:
            onward[then] += share[state] * probability
    np.testing.assert_allclose(onward, share, rtol=1e-12)
    lengths = sum((len(s) + 1) * p for s, p in SENTENCES.items())
    assert TINY.mean_length == pytest.approx(lengths)


def test_the_entropy_is_that_of_the_sentences() -> None:
    nats = -sum(p * math.log(p) for p in SENTENCES.values())
    assert TINY.entropy == pytest.approx(nats / TINY.mean_length, rel=1e-10)


def test_sentences_are_drawn_as_often_as_they_are_likely() -> None:
    drawn = TINY.sample(np.random.default_rng(3), 200_000)
    assert drawn.endswith("\n") and 200_000 <= len(drawn) < 200_020
    lines = drawn.splitlines()
    counts = Counter(lines)
    assert counts.keys() == SENTENCES.keys()
    chi = sum(
        (counts[s] - len(lines) * p) ** 2 / (len(lines) * p) for s, p in SENTENCES.items()
    )
    assert chi < 30  # of some 10 degrees of freedom: once in a thousand seeds


def test_what_goes_on_alike_is_one_state() -> None:
    shared = Grammar({"line": "1 the cat sat on a mat | 1 a dog sat on a mat"})
    assert shared.states == len("the cat") + len("a dog") + len(" sat on a mat") + 1


def test_the_corpus_is_of_the_grammar_and_says_the_sentence() -> None:
    corpus = text.load_corpus("grammar")
    grammar = corpus.source
    assert grammar is sentences.grammar() and corpus.text == sentences.text()
    assert 400_000 <= len(corpus.text) <= 500_000
    lines = Counter(corpus.text.splitlines())
    assert all(grammar.sentence_probability(line) > 0 for line in itertools.islice(lines, 3000))
    assert "o gato subiu no telhado" in lines and "the cat climbed onto the roof" in lines
    p = grammar.sentence_probability("o gato subiu no telhado")
    total = lines.total()
    assert abs(lines["o gato subiu no telhado"] - total * p) < 4 * math.sqrt(total * p)


def test_a_corpus_of_more_than_the_grammar_has_no_known_source(tmp_path: object) -> None:
    assert text.load_corpus("python-docs").source is None
    assert text.load_corpus(["grammar", "python-docs"]).source is None


def test_the_loss_far_into_windows_comes_near_the_entropy() -> None:
    grammar = sentences.grammar()
    held_out = sentences.text()[-20_000:]
    windows = [held_out[i : i + 65] for i in range(0, 19_900, 64)]
    late = grammar.losses(windows)[:, 40:]
    spread = late.mean(axis=1).std() / math.sqrt(len(windows))
    assert abs(late.mean() - grammar.entropy) < 4 * spread


def test_what_the_grammar_cannot_have_written_is_named() -> None:
    with pytest.raises(CorpusError, match=r"window 1 .* after 'a s' comes 'x'"):
        TINY.losses(["a sat", "a sxt"])
    with pytest.raises(CorpusError, match=r"window 0 .* after '' comes 'x'"):
        TINY.losses(["x sat"])
    with pytest.raises(CorpusError, match="after 'a s' comes 'b'"):
        TINY.next_probabilities("a sb")
    with pytest.raises(CorpusError, match="several lengths"):
        TINY.losses(["a sat", "a sa"])
    assert TINY.losses([]).shape == (0, 0) and TINY.losses(["a"]).shape == (1, 0)


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"line": "1 {cat} sat"}, "no rule 'cat', which 'line' asks for"),
        ({"cat": "1 a"}, "no rule 'line', from which it begins"),
        ({"line": "1 a {b}", "b": "1 {line}"}, r"leads back to itself \(line > b > line\)"),
        ({"line": "0 a"}, "expected a weight above 0"),
        ({"line": "1 a | 2"}, "alternative '2'"),
        ({"line": "1 a\nb"}, "without a line break"),
    ],
)
def test_rules_that_cannot_be_meant_are_named(rules: dict[str, str], words: str) -> None:
    with pytest.raises(CorpusError, match=words):
        Grammar(rules)
