"""Questions: the right answer is taken, wrong and merely lucky ones are not; hints; the score."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from debugger.test_log import scalar_graphs
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_edu as tg
from tinygrad_edu import nn
from tinygrad_edu.debugger.log import record
from tinygrad_edu.errors import GraphError
from tinygrad_edu.learn.answers import AnswerError
from tinygrad_edu.learn.quiz import KINDS, ask, quiz


def expression(a: float = 2.0, b: float = -3.0) -> Any:
    x, y = tg.Value(a, name="a"), tg.Value(b, name="b")
    e = x * y
    e.name = "e"
    loss = (e + x).tanh() * e
    loss.name = "L"
    return loss


def layer() -> Any:
    rng = np.random.default_rng(0)
    x = tg.tensor(rng.normal(size=(3, 2)), name="x")
    w = tg.tensor(rng.normal(size=(2, 4)), requires_grad=True, name="w")
    b = tg.tensor(rng.normal(size=4), requires_grad=True, name="b")
    h = x @ w
    h.name = "h"
    return ((h + b).tanh() * 2.0).sum()


@pytest.mark.parametrize("make", [expression, layer])
@pytest.mark.parametrize("seed", range(4))
def test_the_right_answer_is_taken_and_reads_at_80_columns(make: Any, seed: int) -> None:
    found = ask(make(), seed=seed, questions=12)
    assert len(found) >= 5
    for question in found:
        assert question.grade(question.answer()), question.answer()
        texts = (question.ask(), question.solution(), *question.hints())
        assert all(len(line) <= 80 for line in question.ask().splitlines())
        assert all(texts)
        assert len(question.hints()) == 3


@given(scalar_graphs(), st.integers(0, 5))
def test_right_answers_on_any_graph(made: list[Any], seed: int) -> None:
    root = made[-1]
    if root.op is None:
        return
    try:
        found = ask(root, seed=seed, questions=8)
    except GraphError:
        return
    for question in found:
        assert question.grade(question.answer())


def test_all_kinds_of_questions_come() -> None:
    kinds = {type(q) for q in ask(expression(), questions=40)}
    kinds |= {type(q) for q in ask(layer(), questions=40)}
    assert kinds == set(KINDS)


def test_numbers_are_taken_to_one_per_cent_or_as_shown_and_no_further() -> None:
    number = next(q for q in ask(expression(), questions=40) if type(q).__name__ == "LocalQuestion")
    value = float(number._number())  # type: ignore[attr-defined]
    assert number.grade(repr(value)) and number.grade(repr(value * 1.005))
    assert not number.grade(repr(value * 1.05))
    wrong = number.grade(repr(-value))
    assert not wrong and wrong.message


def test_a_formula_that_only_happens_to_fit_is_not_taken() -> None:
    loss = expression(2.0, 2.0)  # a and b have the same number
    log = record(loss)
    product = next(
        q for q in ask(log, questions=60)
        if type(q).__name__ == "FormulaQuestion" and q.event.name == "e" and q.use.name == "a"
    )  # fmt: skip
    assert product.grade("g * b")
    lucky = product.grade("g * a")
    assert not lucky and lucky.message
    assert not product.grade("g * 2")
    for other in ("∂L/∂e · b", "b*g", "g·b", "(g)*(b)"):
        assert product.grade(other), other


@pytest.mark.parametrize(
    "text", ["", "b b", "import os", "__import__('os')", "nosuch", "g +", "[1]"]
)
def test_what_cannot_be_read_is_not_graded(text: str) -> None:
    formula = next(
        q for q in ask(expression(), questions=40) if type(q).__name__ == "FormulaQuestion"
    )
    with pytest.raises(AnswerError):
        formula.grade(text)


def test_shapes_axes_and_elements() -> None:
    questions = ask(layer(), questions=60)
    shape = next(q for q in questions if type(q).__name__ == "ShapeQuestion")
    wanted = re.findall(r"\d+", shape.answer())
    assert shape.grade(" x ".join(wanted)) or shape.grade(f"({', '.join(wanted)})")
    assert not shape.grade("(7, 7)")
    axes = next(q for q in questions if type(q).__name__ == "AxesQuestion")
    assert not axes.grade("5") or axes.grade(axes.answer())


def test_the_same_seed_asks_the_same() -> None:
    first, same, other = ([q.ask() for q in ask(expression(), seed=s)] for s in (2, 2, 3))
    assert first == same != other


def test_a_graph_without_anything_to_ask_is_refused() -> None:
    with pytest.raises(GraphError, match="has no step to ask about"):
        ask(tg.Value(2.0) * 3.0)  # nothing in it has a name


def run_quiz(lines: list[str], **options: Any) -> tuple[Any, str]:
    out: list[str] = []
    typed = iter(lines)

    def read(prompt: str) -> str:
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    return quiz(expression(), read=read, write=out.append, **options), "\n".join(out)


def test_the_terminal_asks_hints_grades_and_keeps_the_score() -> None:
    answers = [q.answer() for q in ask(expression(), seed=1, questions=4)]
    score, text = run_quiz(answers, seed=1, questions=4)
    assert (score.asked, score.right, score.points, score.missed) == (4, 4, 4.0, {})
    assert text.count("✓") == 4
    score, text = run_quiz(["?", answers[0], "skip", "7777777", answers[2]], seed=1, questions=3)
    assert (score.asked, score.right) == (3, 2)
    assert score.points == 0.5 + 0.5
    assert len(score.missed) == 1 and "look again at" in text and "The solution:" in text
    score, _ = run_quiz(["(", answers[0], "quit"], seed=1, questions=4)
    assert (score.asked, score.right, score.points) == (1, 1, 1.0)  # unread is free
    score, text = run_quiz(["8", "9", "10"], seed=1, questions=1)
    assert score.right == 0 and "The solution:" in text


def test_no_gradient_is_touched() -> None:
    loss = expression()
    for question in ask(loss, questions=20):
        question.grade(question.answer())
    assert all(not node.has_grad for node in record(loss).nodes)


def test_a_quiz_of_a_network_of_modules() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    loss = model(tg.tensor(np.ones((4, 2), np.float32), name="x")).sum()
    for question in ask(loss, questions=10):
        assert question.grade(question.answer())
