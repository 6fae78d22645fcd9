"""The loss curve, in its file and in the terminal."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from lm.recording import Recorder

from tinygrad_edu import lm
from tinygrad_edu.lm import curve, textplot
from tinygrad_edu.lm.history import History, Smooth, read_history
from tinygrad_edu.lm.lines import lines, spread
from tinygrad_edu.lm.yardsticks import Yardsticks

MakeConfig = Callable[..., lm.TrainConfig]
SUBJECT = curve.Subject("python-docs", 103, 814_720, 768)
KNOWN = Yardsticks(math.log(103), 3.24, 1.19, 6, 1000, floor=1.0)


def course(steps: int = 200, known: Yardsticks | None = KNOWN) -> History:
    found = History()
    for step in range(1, steps + 1):
        found.add({"step": step, "loss": 1.3 + 3.2 * math.exp(-step / 40)})
        if step % 50 == 0:
            found.add({"step": step, "validation_loss": 1.4 + 3.2 * math.exp(-step / 40)})
    if known:
        found.add({"step": 0, **known.to_row()})
    return found


def words(svg: bytes) -> str:
    return " ".join(ElementTree.fromstring(svg).itertext())


def test_the_drawing_names_every_line_and_both_losses() -> None:
    said = words(curve.to_svg(SUBJECT, course()))
    for name in (
        "python-docs: a GPT of 814,720 parameters", "uniform, ln 103 = 4.63", "unigram 3.24",
        "6-gram (the best) 1.19", "true source 1.00", "training 1.", "validation 1.", "steps",
        "tokens seen", "nats a symbol",
    ):  # fmt: skip
        assert name in said, name


def test_the_same_log_gives_the_same_bytes_whatever_the_readers_style() -> None:
    import matplotlib

    first = curve.to_svg(SUBJECT, course())
    with matplotlib.rc_context({"font.size": 20, "axes.grid": False}):
        assert curve.to_svg(SUBJECT, course()) == first
        assert matplotlib.rcParams["font.size"] == 20, "and the style is left as it was"
    assert b"<dc:date>" not in first


def label_heights(svg: bytes) -> list[float]:
    """Of the labels at the right edge, in points from the top."""
    found = []
    for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        text = "".join(element.itertext())
        if re.match(r"(uniform|unigram|\d-gram|true|training|validation)", text):
            place = re.search(r"translate\(([\d.]+) ([\d.]+)\)", element.get("transform", ""))
            y = place[2] if place else element.get("y")
            assert y is not None
            found.append(float(y))
    return found


def test_labels_of_lines_that_lie_close_do_not_overlap() -> None:
    close = Yardsticks(math.log(103), 1.42, 1.41, 6, 1000, floor=1.40)
    heights = sorted(label_heights(curve.to_svg(SUBJECT, course(known=close))))
    assert len(heights) == 6
    assert all(b - a >= 9 for a, b in pairwise(heights))


@pytest.mark.parametrize("steps", [1, 2, 60])
def test_short_runs_can_be_drawn(steps: int) -> None:
    curve.to_svg(SUBJECT, course(steps, None))
    only = History()
    only.add({"step": 0, "validation_loss": 4.6})
    assert "validation 4.60" in words(curve.to_svg(SUBJECT, only))


def test_a_run_draws_its_curve_and_it_can_be_drawn_again(make_config: MakeConfig) -> None:
    run = lm.train(make_config(curve=True)).run
    path = run / "loss.svg"
    first = path.read_bytes()
    path.unlink()
    assert curve.draw(run) == path
    assert path.read_bytes() == first


def test_a_run_without_losses_cannot_be_drawn(make_config: MakeConfig, tmp_path: Path) -> None:
    run = lm.train(make_config(steps=2)).run
    (run / "metrics.jsonl").write_text("")
    with pytest.raises(lm.RunError, match="has no losses"):
        curve.draw(run)
    with pytest.raises(lm.RunError, match="not a run folder"):
        curve.draw(tmp_path)


def test_the_log_comes_back_as_what_was_heard(make_config: MakeConfig) -> None:
    recorder = Recorder()
    result = lm.train(make_config(), recorder)
    read = read_history(result.run / "metrics.jsonl")
    assert read == result.history
    assert read.losses == [report.loss for report in recorder.steps]
    assert read.validations == [(r.step, r.loss) for r in recorder.validations]


def test_a_torn_last_line_is_left_alone_and_another_is_named(tmp_path: Path) -> None:
    log = tmp_path / "metrics.jsonl"
    log.write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "lo')
    assert read_history(log).losses == [2.0]
    log.write_text('{"step": 1, "loss": 2.0}\n[]\n')
    with pytest.raises(lm.RunError, match=r"line 2 of .* is not a JSON object"):
        read_history(log)
    assert read_history(tmp_path / "none").losses == []


def test_the_average_is_unbiased_from_the_first_value_on() -> None:
    smooth = Smooth(0.9)
    assert smooth.add(5.0) == pytest.approx(5.0)
    assert smooth.add(3.0) == pytest.approx((0.9 * 5 + 3) / 1.9)


# In the terminal.


def shown(history: History, *, width: int = 80, marks: textplot.Marks = textplot.UNICODE) -> str:
    rows = textplot.plot(history, 103, width=width, marks=marks)
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


def test_labels_are_spread_in_order_and_at_least_a_gap_apart() -> None:
    places = spread([5.0, 5.1, 0.0, 5.05], 1.0, 0.0, 10.0)
    assert sorted(places, reverse=True) == [places[1], places[3], places[0], places[2]]
    ordered = sorted(places)
    assert all(b - a >= 1 - 1e-9 for a, b in pairwise(ordered))
    assert spread([0.0, 0.1, 0.2], 1.0, 0.0, 10.0) == [0.0, 1.0, 2.0]


def test_lines_are_the_yardsticks_from_the_highest_down() -> None:
    kinds = [line.kind for line in lines(course(), 103)]
    assert kinds == ["uniform", "unigram", "ngram", "floor"]
    assert [line.kind for line in lines(History(), 103)] == ["uniform"]
    same = History()
    same.add({"step": 0, **Yardsticks(4.6, 3.0, 3.0, 1, 10).to_row()})
    assert [line.short for line in lines(same, 103)] == ["uniform", "unigram"]
