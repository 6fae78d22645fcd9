"""Learning the merges of byte-level BPE: the most frequent pair is joined, again and again.

Texts are split into chunks, and equal chunks are counted once, so that the work is that of the
different words. A merge looks only at words that hold its pair; counts of pairs are kept up to date
by differences, and a heap gives the most frequent one (Sennrich et al. 2016; the incremental form
is that of Hugging Face's trainer, and gives its merges). Of equally frequent pairs the one of the
smallest ids is taken: the result depends on the counts of chunks alone, not on their order.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tinygrad_edu.text.bpe import BPETokenizer
from tinygrad_edu.text.chunks import (
    BYTE_ORDER,
    GPT2_PATTERN,
    PLACE_OF_BYTE,
    compiled,
    uncovered,
    utf8,
)
from tinygrad_edu.text.errors import TokenizerError
from tinygrad_edu.text.joining import Pair

__all__ = ["Learned", "Progress", "train_bpe"]

_PAUSE = 0.5
"""Seconds between reports."""


@dataclass(frozen=True)
class Progress:
    """How far a training is.

    Attributes:
        merges, wanted: learnt so far, and in all.
        seconds: since its begin.
        left: seconds that the rest will take, at this pace.
    """

    merges: int
    wanted: int
    seconds: float
    left: float


@dataclass(frozen=True)
class Learned:
    """What a training gave.

    Attributes:
        tokenizer: ready to use, whatever ended the training.
        reason: why it holds fewer tokens than were asked for: "no more pairs", "interrupted"; ""
            where it does not.
        chunks: different chunks that were learnt from.
        counts: how often the pair of each merge was met, at that moment.
    """

    tokenizer: BPETokenizer
    reason: str
    chunks: int
    counts: tuple[int, ...]


def train_bpe(
    texts: str | Iterable[str], vocab_size: int, *, pattern: str = GPT2_PATTERN,
    special_tokens: Sequence[str] = (), min_frequency: int = 2,
    progress: Callable[[Progress], None] | None = None,
) -> Learned:  # fmt: skip
    """Learn a vocabulary from texts.

    Ctrl-C ends it, and gives what was learnt so far.

    Args:
        texts: one text, or several, which are read once, one after the other; their order does not
            matter.
        vocab_size: tokens in all: 256 bytes, the merges, and the special tokens.
        pattern: splits a text into chunks, over whose bounds nothing is joined.
        special_tokens: texts with ids of their own, behind the merges.
        min_frequency: how often a pair has to be met to be joined.
        progress: called about twice a second.

    Raises:
        TokenizerError: a vocabulary of fewer than 256 tokens and the special ones, no text, or a
            pattern that leaves a part of a text out.
    """
    least = 256 + len(special_tokens)
    if vocab_size < least:
        raise TokenizerError(
            f"vocab_size was {vocab_size}; it takes at least {least}: 256 bytes"
            + (f" and {len(special_tokens)} special tokens" if special_tokens else "")
        )
    counts = _chunk_counts(texts, pattern)
    learner = _Learner(counts)
    reason = learner.run(vocab_size - least, max(1, min_frequency), progress)
    tokenizer = BPETokenizer(learner.merges, special_tokens, pattern)
    return Learned(tokenizer, reason, len(counts), tuple(learner.counts))


def _chunk_counts(texts: str | Iterable[str], pattern: str) -> Counter[str]:
    split = compiled(pattern)
    counts: Counter[str] = Counter()
    for text in [texts] if isinstance(texts, str) else texts:
        chunks = split.findall(text)
        if sum(map(len, chunks)) != len(text):
            raise uncovered(split, text)
        counts.update(chunks)
    if not counts:
        raise TokenizerError(
            "a tokenizer was to be trained on an empty text; give the text that the model is to "
            "learn"
        )
    return counts


class _Learner:
    """Words, with the counts of the pairs in them.

    A word is a string whose characters are ids, chr(id), and a pair one of two: strings are
    searched, joined and compared at the speed of C, and compare as their ids do.
    """

    def __init__(self, counts: Counter[str]) -> None:
        self.merges: list[Pair] = []
        self.counts: list[int] = []
        self._tokens: list[bytes] = [bytes([b]) for b in BYTE_ORDER]
        self._ids = {token: i for i, token in enumerate(self._tokens)}
        self._words: list[str] = []
        self._times: list[int] = []
        self._pairs: dict[str, int] = {}
        self._where: dict[str, set[int]] = {}
        for chunk, times in counts.items():
            data = utf8(chunk)
            if len(data) > 1:
                self._enter(data.translate(PLACE_OF_BYTE).decode("latin-1"), times)
        self._heap = [(-count, pair) for pair, count in self._pairs.items()]
        heapq.heapify(self._heap)

    def _enter(self, word: str, times: int) -> None:
        index = len(self._words)
        self._words.append(word)
        self._times.append(times)
        pairs, where = self._pairs, self._where
        for i in range(len(word) - 1):
            pair = word[i : i + 2]
            found = where.get(pair)
            if found is None:
                where[pair] = {index}
                pairs[pair] = times
            else:
                found.add(index)
                pairs[pair] += times

    def run(self, wanted: int, least: int, progress: Callable[[Progress], None] | None) -> str:
        """Learn until there are `wanted` new tokens; why there are fewer, or ""."""
        begin = said = time.monotonic()
        try:
            while len(self._tokens) - 256 < wanted:
                found = self._most_frequent()
                if found is None or found[0] < least:
                    return "no more pairs"
                self._join(*found)
                if progress is not None:
                    now = time.monotonic()
                    if now - said > _PAUSE:
                        said = now
                        progress(self._progress(wanted, now - begin))
        except KeyboardInterrupt:
            return "interrupted"
        return ""

    def _progress(self, wanted: int, seconds: float) -> Progress:
        done = len(self._tokens) - 256
        return Progress(done, wanted, seconds, seconds * (wanted - done) / max(1, done))

    def _most_frequent(self) -> tuple[int, str] | None:
        """(count, pair); counts in the heap that are no longer true are put right on the way."""
        heap, pairs = self._heap, self._pairs
        while heap:
            count, pair = heapq.heappop(heap)
            now = pairs.get(pair, 0)
            if now == -count:
                return now, pair
            if now:
                heapq.heappush(heap, (-now, pair))
        return None

    def _join(self, count: int, pair: str) -> None:
        a, b = map(ord, pair)
        joined = self._tokens[a] + self._tokens[b]
        number = self._ids.get(joined)
        if number is None:
            number = self._ids[joined] = len(self._tokens)
            self._tokens.append(joined)
        self.merges.append((a, b))
        self.counts.append(count)
        made = chr(number)
        lost: dict[str, int] = {}
        gained: dict[str, int] = {}
        words, times, where = self._words, self._times, self._where
        for index in where.pop(pair):
            old = words[index]
            at = old.find(pair)
            if at < 0:
                continue  # joined away by an earlier merge
            n = times[index]
            new = words[index] = old.replace(pair, made)
            if len(new) < len(old) - 1:
                self._repeated(old, made, pair, n, lost, gained, index)
                continue
            if at:
                before = old[at - 1]
                each = before + pair[0]
                lost[each] = lost.get(each, 0) + n
                each = before + made
                gained[each] = gained.get(each, 0) + n
                if each in where:
                    where[each].add(index)
                else:
                    where[each] = {index}
            if at + 2 < len(old):
                behind = old[at + 2]
                each = pair[1] + behind
                lost[each] = lost.get(each, 0) + n
                each = made + behind
                gained[each] = gained.get(each, 0) + n
                if each in where:
                    where[each].add(index)
                else:
                    where[each] = {index}
        self._pairs.pop(pair, None)
        self._apply(lost, gained, pair)

    def _repeated(
        self, old: str, made: str, pair: str, n: int, lost: dict[str, int],
        gained: dict[str, int], index: int,
    ) -> None:  # fmt: skip
        """The changes of a word in which the pair stands more than once: those around it alone, so
        that a word of a megabyte costs a merge no more than what it joins.
        """
        at, length, where = old.find(pair), len(old), self._where
        while at >= 0:
            end = at + 2
            run = 1  # so often in a row, with nothing between
            while old.startswith(pair, end):
                end += 2
                run += 1
            changes = [(pair[1] + pair[0], made + made, n * (run - 1))] if run > 1 else []
            if at:
                changes.append((old[at - 1] + pair[0], old[at - 1] + made, n))
            if end < length:
                changes.append((pair[1] + old[end], made + old[end], n))
            for was, now, times in changes:
                lost[was] = lost.get(was, 0) + times
                gained[now] = gained.get(now, 0) + times
                where.setdefault(now, set()).add(index)
            at = old.find(pair, end)

    def _apply(self, lost: dict[str, int], gained: dict[str, int], joined: str) -> None:
        pairs = self._pairs
        for pair, n in lost.items():
            if pair == joined:
                continue
            left = pairs[pair] - n + gained.pop(pair, 0)
            if left:
                pairs[pair] = left
            else:
                del pairs[pair]
                self._where.pop(pair, None)
        for pair, n in gained.items():
            pairs[pair] = now = pairs.get(pair, 0) + n
            heapq.heappush(self._heap, (-now, pair))
