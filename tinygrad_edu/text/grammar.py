"""A language whose probabilities are known exactly: a grammar of weighted rules.

A rule names its alternatives, each with a weight, words, and other rules in braces:

    Grammar({
        "line": "2 o {cat} subiu no {place} | 1 o {cat} dormiu",
        "cat": "3 gato | 1 macaco",
        "place": "1 telhado | 1 muro",
    })

`line` begins; its sentences, each drawn for itself and ended by a line break, make the text. As no
rule leads back to itself, the grammar is a finite chain of states, each of which writes one
character (a hidden Markov model). Two places from which all goes on alike are one state.

Whoever sees a stretch of the text does not see the state, nor where in a sentence the stretch
begins. What can be known of the next character is then Bayes' rule, from the stationary
distribution of the chain on: the forward algorithm (Rabiner 1989, section III A). No model that
sees the same stretch can do better on average, so these probabilities' own loss is the floor of
every model's.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from tinygrad_edu.text.errors import CorpusError

START, END = "line", "\n"
_REFERENCE = re.compile(r"\{([^{}]*)\}")

Spread = tuple[tuple[int, float], ...]
"""Where a chain goes next: (state, probability), the states in ascending order."""
Floats = NDArray[np.float64]


class Grammar:
    """The language of `rules`.

    Args:
        rules: alternatives by name, `WEIGHT words {name} … | …`; `line` is the sentence.

    Attributes:
        rules: the same.
        symbols: the characters it writes, sorted.
        states: how many states the chain has.

    Raises:
        CorpusError: a rule that is missing, leads back to itself, or cannot be read; it is named.
    """

    def __init__(self, rules: Mapping[str, str]) -> None:
        self.rules = dict(rules)
        self._emits, self._next, self._start = _Chain(self.rules).build()
        self._next[0] = self._start
        self.states = len(self._emits)
        self.symbols = tuple(sorted(set(self._emits)))

    def sample(self, generator: np.random.Generator, characters: int) -> str:
        """Sentences until there are at least so many characters, the last one whole."""
        written: list[str] = []
        draws = _draws(generator)
        choices = [(tuple(accumulate(p for _, p in go)), go) for go in self._next]
        while len(written) < characters:
            state = 0
            while True:
                cumulative, go = choices[state]
                last = len(go) - 1
                pick = min(bisect_right(cumulative, next(draws)), last) if last else 0
                state = go[pick][0]
                written.append(self._emits[state])
                if state == 0:
                    break
        return "".join(written)

    def sentence_probability(self, sentence: str) -> float:
        """Of one sentence among all; 0 for what is none. The line break may be left out."""
        sentence = sentence.removesuffix(END)
        weights = {0: 1.0} if END not in sentence else {}
        for character in sentence + END:
            weights = self._advanced(weights, character)
        return weights.get(0, 0.0)

    def next_probabilities(self, context: str) -> dict[str, float]:
        """Each character that may follow, with its exact probability.

        The context may begin anywhere in the text; an empty one tells nothing.

        Raises:
            CorpusError: the grammar cannot have written the context.
        """
        follow: dict[str, float] = defaultdict(float)
        for state, weight in self._belief(context).items():
            for then, probability in self._next[state]:
                follow[self._emits[then]] += weight * probability
        return {character: follow[character] for character in sorted(follow)}

    def losses(self, windows: Sequence[str]) -> Floats:
        """-ln p(next character | those before it in the window), in nats.

        `windows` are B strings of T+1 characters each, cut from anywhere; gives (B, T).

        Raises:
            CorpusError: windows of several lengths, or one that the grammar cannot have written;
                its number and the place are named.
        """
        if len({len(window) for window in windows}) > 1:
            raise CorpusError("losses were asked for windows of several lengths; give equal ones")
        if not windows or len(windows[0]) < 2:
            return np.zeros((len(windows), max(0, len(windows[0]) - 1 if windows else 0)))
        codes = np.array([[self._code(symbol) for symbol in window] for window in windows])
        found = np.empty((len(windows), codes.shape[1] - 1))
        beliefs: list[Floats] = [np.zeros(0)] * len(windows)
        for number, code in enumerate(codes[:, 0]):
            if code < 0:
                self._refuse(windows[number], number, 0)
            beliefs[number] = self._blocks.stationary[code]
        for t in range(codes.shape[1] - 1):
            self._step(codes[:, t : t + 2], beliefs, found[:, t])
            impossible = np.flatnonzero(~np.isfinite(found[:, t]))
            if impossible.size:
                number = int(impossible[0])
                self._refuse(windows[number], number, t + 1)
        return found

    def _step(self, pair: NDArray[np.int64], beliefs: list[Floats], losses: Floats) -> None:
        """One character on: windows that go from the same symbol to the same one go together."""
        order = np.lexsort(pair.T)
        cuts = np.flatnonzero((pair[order][1:] != pair[order][:-1]).any(axis=1)) + 1
        for group in np.split(order, cuts):
            here, there = (int(code) for code in pair[group[0]])
            step = self._blocks.steps.get((here, there))
            if step is None:
                losses[group] = math.inf
                continue
            onward = np.stack([beliefs[i] for i in group]) @ step
            total = onward.sum(axis=1)
            with np.errstate(divide="ignore"):
                losses[group] = -np.log(total)
            onward /= np.where(total > 0, total, 1.0)[:, None]
            for i, belief in zip(group, onward, strict=True):
                beliefs[i] = belief

    def _refuse(self, window: str, number: int, place: int) -> None:
        before = window[max(0, place - 30) : place]
        raise CorpusError(
            f"window {number} cannot be of this grammar: after {before!r} comes "
            f"{window[place]!r}; give text that it wrote"
        )

    def _code(self, symbol: str) -> int:
        return self._codes.get(symbol, -1)

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {symbol: code for code, symbol in enumerate(self.symbols)}

    def _belief(self, context: str) -> dict[int, float]:
        """The states the chain may be in after `context`, with their probabilities."""
        weights = {state: float(p) for state, p in enumerate(self.stationary)}
        for place, character in enumerate(context):
            if place == 0:
                weights = {s: p for s, p in weights.items() if self._emits[s] == character}
            else:
                weights = self._advanced(weights, character)
            total = sum(weights.values())
            if not total:
                self._refuse(context, 0, place)
            weights = {state: weight / total for state, weight in weights.items()}
        return weights

    def _advanced(self, weights: Mapping[int, float], character: str) -> dict[int, float]:
        """What is left of `weights` when `character` comes next."""
        onward: dict[int, float] = defaultdict(float)
        for state, weight in weights.items():
            for then, probability in self._next[state]:
                if self._emits[then] == character:
                    onward[then] += weight * probability
        return dict(onward)

    @cached_property
    def stationary(self) -> Floats:
        """(states,), the share of the text's characters that each state writes.

        Sentences are independent, so it is the expected number of visits in one, over its expected
        length. States are numbered so that a chain goes from higher to lower ones; 0 ends.
        """
        visits = np.zeros(self.states)
        for state, probability in self._start:
            visits[state] += probability
        for state in range(self.states - 1, 0, -1):
            for then, probability in self._next[state]:
                visits[then] += visits[state] * probability
        share: Floats = visits / visits.sum()
        return share

    @cached_property
    def mean_length(self) -> float:
        """Characters of a sentence on average, the line break among them."""
        return float(1 / self.stationary[0])  # one state in so many is the end

    @cached_property
    def entropy(self) -> float:
        """Nats a character that nobody can know who has read the whole text so far.

        The entropy of a sentence, over its mean length. A sentence's is the sum over its places of
        the entropy of the next character given the sentence so far; beginnings after which the
        chain is in the same states with the same probabilities are counted together. A model that
        sees a window only has a somewhat higher floor, `losses`.
        """
        level: dict[Spread, float] = {((0, 1.0),): 1.0}
        nats = 0.0
        while level:
            onward: dict[Spread, float] = defaultdict(float)
            for belief, mass in level.items():
                follow: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
                for state, weight in belief:
                    for then, probability in self._next[state]:
                        follow[self._emits[then]][then] += weight * probability
                for character, states in follow.items():
                    p = sum(states.values())
                    nats -= mass * p * math.log(p)
                    if character != END:
                        key = tuple((s, round(w / p, 12)) for s, w in sorted(states.items()))
                        onward[key] += mass * p
            level = onward
        return nats / self.mean_length

    @cached_property
    def _blocks(self) -> _Blocks:
        return _Blocks(self)


class _Blocks:
    """The chain cut by symbols: dense matrices from the states of one symbol to those of another.

    Attributes:
        stationary: of each symbol's states, normalised: what is known after one character.
        steps: (symbol, next symbol) -> probabilities (states here, states there).
    """

    def __init__(self, grammar: Grammar) -> None:
        of_symbol: dict[str, list[int]] = defaultdict(list)
        for state, symbol in enumerate(grammar._emits):
            of_symbol[symbol].append(state)
        place = {s: i for states in of_symbol.values() for i, s in enumerate(states)}
        code, whole = grammar._codes, grammar.stationary
        self.stationary: list[Floats] = []
        for symbol in grammar.symbols:
            share = whole[of_symbol[symbol]]
            self.stationary.append(share / share.sum())
        self.steps: dict[tuple[int, int], Floats] = {}
        for state, go in enumerate(grammar._next):
            here = grammar._emits[state]
            for then, probability in go:
                there = grammar._emits[then]
                key = code[here], code[there]
                if key not in self.steps:
                    shape = len(of_symbol[here]), len(of_symbol[there])
                    self.steps[key] = np.zeros(shape)
                self.steps[key][place[state], place[then]] += probability


class _Chain:
    """Turns rules into states, from the end of the sentence to its beginning.

    A state is what it writes and where it goes, so whatever goes on alike is one state: the many
    sentences that end in "no telhado" share its letters. State 0 writes the line break.
    """

    def __init__(self, rules: Mapping[str, str]) -> None:
        self.rules = {name: _alternatives(name, rule) for name, rule in rules.items()}
        self.emits = [END]
        self.next: list[Spread] = [()]
        self.known: dict[tuple[str, Spread], int] = {}
        self.built: dict[tuple[str, Spread], Spread] = {}
        self.open: list[str] = []

    def build(self) -> tuple[list[str], list[Spread], Spread]:
        """(what each state writes, where it goes, where a sentence begins)."""
        return self.emits, self.next, self.before(START, ((0, 1.0),))

    def before(self, name: str, then: Spread) -> Spread:
        """Where one is who is about to write rule `name` and then to go on to `then`."""
        if (name, then) in self.built:
            return self.built[name, then]
        if name not in self.rules:
            raise CorpusError(f"the grammar has no rule {name!r}{self._asked_for()}; write it")
        if name in self.open:
            loop = " > ".join([*self.open[self.open.index(name) :], name])
            raise CorpusError(f"the rule {name!r} leads back to itself ({loop}); break the circle")
        self.open.append(name)
        mixed: dict[int, float] = defaultdict(float)
        for share, parts in self.rules[name]:
            for state, probability in self.sequence(parts, then):
                mixed[state] += share * probability
        self.open.pop()
        spread = self.built[name, then] = tuple(sorted(mixed.items()))
        return spread

    def sequence(self, parts: Sequence[tuple[bool, str]], then: Spread) -> Spread:
        """The same for words and rules one after another."""
        for is_rule, part in reversed(parts):
            if is_rule:
                then = self.before(part, then)
                continue
            for character in reversed(part):
                then = ((self.state(character, then), 1.0),)
        return then

    def state(self, character: str, then: Spread) -> int:
        """The number of the state that writes `character` and goes on to `then`."""
        key = character, then
        if key not in self.known:
            self.known[key] = len(self.emits)
            self.emits.append(character)
            self.next.append(then)
        return self.known[key]

    def _asked_for(self) -> str:
        return f", which {self.open[-1]!r} asks for" if self.open else ", from which it begins"


def _alternatives(name: str, rule: str) -> list[tuple[float, list[tuple[bool, str]]]]:
    """(share, parts) of each alternative; a part is (whether it names a rule, its text)."""
    found = []
    for alternative in rule.split("|"):
        words = alternative.strip()
        first, _, rest = words.partition(" ")
        weight, words = (int(first), rest.strip()) if first.isdecimal() else (1, words)
        if not words or not weight or END in words:
            raise CorpusError(
                f"the rule {name!r} has the alternative {alternative.strip()!r}; expected a weight "
                "above 0, or none for 1, and words without a line break"
            )
        pieces = _REFERENCE.split(words)
        parts = [(i % 2 == 1, piece) for i, piece in enumerate(pieces) if piece]
        found.append((float(weight), parts))
    total = sum(weight for weight, _ in found)
    return [(weight / total, parts) for weight, parts in found]


def _draws(generator: np.random.Generator) -> Iterator[float]:
    while True:
        yield from generator.random(4096).tolist()
