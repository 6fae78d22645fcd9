"""The loss curve in the terminal, and the lines and labels that both drawings share."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from lm.courses import SYMBOLS, course, spoilt

from tinygrad_edu.lm import textplot
from tinygrad_edu.lm.history import History
from tinygrad_edu.lm.lines import heights, lines, nats, spread
from tinygrad_edu.lm.yardsticks import Yardsticks


def shown(history: History, *, width: int = 80, marks: textplot.Marks = textplot.UNICODE) -> str:
    rows = textplot.plot(history, SYMBOLS, width=width, marks=marks)
    return "\n".join("".join(piece.text for piece in row).rstrip() for row in rows)


@pytest.mark.parametrize("width", [80, 60])
def test_the_plot_fits_its_width_and_names_its_lines(width: int) -> None:
    text = shown(course(), width=width)
    assert len(text.splitlines()) == textplot.ROWS + 3
    assert max(map(len, text.splitlines())) <= width
    for name in ("uniform 4.63", "unigram 3.24", "6-gram 1.19", "true source 1.00",
                 "training 1.", "validation 1."):  # fmt: skip
        assert name in text, name


def test_the_plot_falls_from_the_upper_left_to_the_lower_right() -> None:
    rows = shown(course(known=None)).splitlines()[1 : textplot.ROWS + 1]
    first = [row.find("·") for row in rows if "·" in row[:60]]
    assert first[0] <= first[-1] and first[0] < 12
    assert sum(row[:61].count("●") for row in rows) == 4


def test_a_console_without_such_symbols_gets_plain_ones() -> None:
    assert shown(course(), marks=textplot.ASCII).isascii()


def test_too_short_a_run_has_no_plot() -> None:
    assert textplot.plot(course(1, None), 103) == []


def test_a_window_too_narrow_for_a_plot_has_none() -> None:
    assert textplot.plot(course(), SYMBOLS, width=textplot.NARROWEST - 1) == []
    narrow = shown(course(), width=textplot.NARROWEST)
    assert max(map(len, narrow.splitlines())) <= textplot.NARROWEST


@pytest.mark.parametrize("wrong", [math.nan, math.inf, 3e38, 80.0])
@pytest.mark.parametrize("steps", [(1, 2, 3), (50,), (99, 100), tuple(range(1, 101))])
def test_losses_beyond_all_measure_leave_a_plot_that_fits(
    steps: tuple[int, ...], wrong: float
) -> None:
    text = shown(spoilt(dict.fromkeys(steps, wrong)))
    assert "uniform 4.63" in text and "true source 1.00" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_leap_at_the_start_does_not_press_the_rest_together() -> None:
    rows = shown(spoilt({1: 80.0})).splitlines()[1 : textplot.ROWS + 1]
    named = [row for row, text in enumerate(rows) if "uniform" in text or "true source" in text]
    assert named[1] - named[0] > textplot.ROWS / 2
    assert "·" not in rows[0][:12], "what is above is not drawn as if it were at the top"


def test_labels_at_the_same_height_have_a_row_each() -> None:
    known = Yardsticks(math.log(SYMBOLS), 1.31, 1.31, 6, 1000, floor=1.30)
    labels = [row[-18:] for row in shown(course(known=known)).splitlines()]
    for name in ("uniform", "unigram", "6-gram", "true source", "training", "validation"):
        assert sum(name in label for label in labels) == 1, name


def test_the_heights_hold_all_that_is_compared_and_at_least_half_a_nat() -> None:
    history = course()
    low, high = heights(history, lines(history, SYMBOLS))
    assert low == 1.0 and high == pytest.approx(max(history.smoothed[0], math.log(SYMBOLS)))
    flat = History()
    flat.add({"step": 0, "validation_loss": 4.6})
    low, high = heights(flat, lines(flat, SYMBOLS))
    assert high - low == pytest.approx(0.5) and low < 4.6 < high
    low, high = heights(spoilt({1: 80.0}), lines(history, SYMBOLS))
    assert high == pytest.approx(1.5 * math.log(SYMBOLS))


def test_a_loss_near_nought_is_drawn_from_nought() -> None:
    one = History()
    one.add({"step": 1, "loss": 0.001})
    low, high = heights(one, lines(one, 1))
    assert (low, high) == (0.0, 0.5)


@pytest.mark.parametrize(
    ("loss", "said"),
    [(1.746, "1.75"), (99.99, "99.99"), (99.996, "100"), (123.4, "123"), (2.2e29, "2e+29")],
)
def test_a_loss_is_told_in_five_symbols_at_most(loss: float, said: str) -> None:
    assert nats(loss) == said


def test_labels_are_spread_in_order_and_at_least_a_gap_apart() -> None:
    places = spread([5.0, 5.1, 0.0, 5.05], 1.0, 0.0, 10.0)
    assert sorted(places, reverse=True) == [places[1], places[3], places[0], places[2]]
    ordered = sorted(places)
    assert all(b - a >= 1 - 1e-9 for a, b in pairwise(ordered))
    assert spread([0.0, 0.1, 0.2], 1.0, 0.0, 10.0) == [0.0, 1.0, 2.0]


def test_lines_are_the_yardsticks_from_the_highest_down() -> None:
    kinds = [line.kind for line in lines(course(), SYMBOLS)]
    assert kinds == ["uniform", "unigram", "ngram", "floor"]
    assert [line.kind for line in lines(History(), SYMBOLS)] == ["uniform"]
    same = History()
    same.add({"step": 0, **Yardsticks(4.6, 3.0, 3.0, 1, 10).to_row()})
    assert [line.short for line in lines(same, SYMBOLS)] == ["uniform", "unigram"]
