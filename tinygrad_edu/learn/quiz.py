"""A quiz on the reader's own backward pass: asked first, shown after.

    quiz(loss)                      # in the terminal
    for question in ask(loss): ...  # as objects, which ask and grade
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinygrad_edu.debugger.log import LIMIT, Log
from tinygrad_edu.drawing import facts
from tinygrad_edu.drawing.names import names_in
from tinygrad_edu.errors import GraphError
from tinygrad_edu.learn.answers import AnswerError
from tinygrad_edu.learn.array_questions import AxesQuestion, ElementQuestion, ShapeQuestion
from tinygrad_edu.learn.questions import (
    AfterQuestion,
    ContributionQuestion,
    FormulaQuestion,
    LocalQuestion,
    Question,
)
from tinygrad_edu.learn.setting import Setting

__all__ = ["Score", "ask", "quiz"]

KINDS: tuple[type[Question], ...] = (
    LocalQuestion, FormulaQuestion, ContributionQuestion, AfterQuestion, ShapeQuestion,
    AxesQuestion, ElementQuestion,
)  # fmt: skip
TRIES = 3
WIDTH = 80


@dataclass
class Score:
    """How a quiz went.

    Attributes:
        asked: questions that were put.
        right: those that were answered rightly in the end.
        points: 1 for a right answer at once; half of what is left for every hint and every miss.
        missed: the operations of those that were not, each with how often.
    """

    asked: int = 0
    right: int = 0
    points: float = 0.0
    missed: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        text = f"{self.right} of {self.asked} right, {self.points:g} points"
        if self.missed:
            words = ", ".join(sorted(self.missed, key=lambda w: (-self.missed[w], w)))
            text += f"; look again at: {words}"
        return text


def ask(loss: Any, *, seed: int = 0, questions: int = 10) -> list[Question]:
    """Questions about a backward pass, in its order; the same seed gives the same ones.

    Args:
        loss: a `Value`, a `Tensor`, or the log that `tg.record` made of one.
        seed: which of all questions are asked.
        questions: how many at most; a small graph has fewer.

    Raises:
        GraphError: nothing in the graph can be asked about.
    """
    log: Log = loss if isinstance(loss, Log) else Log(loss, None, LIMIT, names_in())
    setting = Setting(log, seed)
    found = _drawn(setting, np.random.default_rng(seed), questions)
    if not found:
        raise GraphError(
            f"the graph of {log.loss} has no step to ask about: give its leaves names, as in "
            "tg.Value(2.0, name='a'), and take a loss that multiplies or squashes something"
        )
    order = {kind: i for i, kind in enumerate(KINDS)}
    return sorted(found, key=lambda q: (q.event.index, order[type(q)], q.use.slot))


def _drawn(setting: Setting, rng: np.random.Generator, count: int) -> list[Question]:
    """Some questions, of as many kinds and operations as there are, each kind in turn."""
    sources = [_candidates(kind, setting, rng) for kind in KINDS]
    found: list[Question] = []
    while sources and len(found) < count:
        source = sources.pop(0)
        question = next(source, None)
        if question is not None:
            found.append(question)
            sources.append(source)
    return found


def _candidates(
    kind: type[Question], setting: Setting, rng: np.random.Generator
) -> Iterator[Question]:
    """Questions of one kind in random order, an operation after the other."""
    by_word: dict[str, list[Any]] = {}
    for event in setting.log:
        by_word.setdefault(facts.word(event.node), []).extend(event.uses)
    words = [word for word in sorted(by_word) if by_word[word]]
    for uses in by_word.values():
        rng.shuffle(uses)
    words = [words[i] for i in rng.permutation(len(words))]
    while words:
        word = words.pop(0)
        while by_word[word]:
            question = kind(by_word[word].pop(), setting)
            if question.possible():
                yield question
                words.append(word)
                break


def quiz(
    loss: Any, *, seed: int = 0, questions: int = 10,
    read: Callable[[str], str] = input, write: Callable[[str], None] = print,
) -> Score:  # fmt: skip
    """Ask, in the terminal, for numbers and formulas of a backward pass before they are shown.

    Args:
        loss: a `Value`, a `Tensor`, or the log that `tg.record` made of one.
        seed: which of all questions are asked.
        questions: how many at most.
        read: asks for one line, given the prompt.
        write: shows one text.

    Raises:
        GraphError: nothing in the graph can be asked about.
    """
    log = loss if isinstance(loss, Log) else Log(loss, None, LIMIT, names_in())
    found = ask(log, seed=seed, questions=questions)
    write(f"{len(found)} questions on the backward pass from {log.loss}.")
    write("  ? a hint     skip  the solution     quit  the score\n")
    score = Score()
    for number, question in enumerate(found, 1):
        write(f"── {number} of {len(found)} " + "─" * 30)
        write(question.ask())
        if not _put(question, score, read, write):
            break
        write("")
    write(f"\n{score}")
    return score


def _put(
    question: Question, score: Score, read: Callable[[str], str], write: Callable[[str], None]
) -> bool:
    """Put one question until it is answered or given up; False where the quiz is left."""
    hints = list(question.hints())
    worth, tries = 1.0, 0
    score.asked += 1
    while True:
        try:
            answer = read("> ").strip()
        except EOFError:
            answer = "quit"
        if answer == "quit":
            score.asked -= 1
            return False
        if answer in ("?", "hint"):
            write(_wrapped(hints.pop(0) if hints else "no more hints; skip shows the solution"))
            worth /= 2
            continue
        if answer == "":
            continue
        if answer != "skip":
            try:
                grade = question.grade(answer)
            except AnswerError as error:
                write(_wrapped(str(error)))
                continue
            write(_wrapped(str(grade)))
            if grade:
                score.right += 1
                score.points += worth
                return True
            worth /= 2
            tries += 1
            if tries < TRIES:
                continue
        write(_wrapped(f"The solution: {question.solution()}"))
        word = facts.word(question.event.node)
        score.missed[word] = score.missed.get(word, 0) + 1
        return True


def _wrapped(text: str) -> str:
    return textwrap.fill(
        text, WIDTH - 2, initial_indent="  ", subsequent_indent="    ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
