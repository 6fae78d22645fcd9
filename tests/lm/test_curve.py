"""`loss.svg`, the loss curve in its file."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from lm.courses import SYMBOLS, course, spoilt

from tinygrad_edu import lm
from tinygrad_edu.lm import curve
from tinygrad_edu.lm.history import History
from tinygrad_edu.lm.yardsticks import Yardsticks

MakeConfig = Callable[..., lm.TrainConfig]
SUBJECT = curve.Subject("python-docs", SYMBOLS, 814_720, 768)


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
    close = Yardsticks(math.log(SYMBOLS), 1.42, 1.41, 6, 1000, floor=1.40)
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


@pytest.mark.parametrize("wrong", [math.nan, math.inf, 3e38, 80.0])
@pytest.mark.parametrize("steps", [(1, 2, 3), (50,), (99, 100), tuple(range(1, 101))])
def test_losses_beyond_all_measure_do_not_stop_the_drawing(
    steps: tuple[int, ...], wrong: float
) -> None:
    history = spoilt(dict.fromkeys(steps, wrong))
    history.add({"step": 100, "validation_loss": wrong})
    svg = curve.to_svg(SUBJECT, history)
    assert "uniform, ln 103" in words(svg)
    low, high = curve.to_figure(SUBJECT, history).axes[0].get_ylim()
    assert 0 <= low < 1 and high < 1.6 * math.log(SYMBOLS)


def test_a_validation_above_the_picture_is_not_drawn_outside_of_it() -> None:
    history = course()
    history.add({"step": 200, "validation_loss": 80.0})
    axes = curve.to_figure(SUBJECT, history).axes[0]
    high = axes.get_ylim()[1]
    marked = [line for line in axes.get_lines() if line.get_marker() == "o"]
    assert [len(line.get_xdata()) for line in marked] == [4]  # type: ignore[arg-type]
    for line in axes.get_lines():
        if not line.get_clip_on():
            assert max(line.get_ydata()) <= high  # type: ignore[arg-type]


def test_validation_is_marked_and_training_is_smoothed_and_light() -> None:
    axes = curve.to_figure(SUBJECT, course()).axes[0]
    curves = [line for line in axes.get_lines() if len(line.get_xdata()) == 200]  # type: ignore[arg-type]
    raw, smooth = curves
    assert list(raw.get_ydata()) == course().losses and (raw.get_alpha() or 1.0) < 0.5  # type: ignore[arg-type]
    assert list(smooth.get_ydata()) == course().smoothed  # type: ignore[arg-type]
    marked = next(line for line in axes.get_lines() if line.get_marker() == "o")
    assert list(marked.get_ydata()) == [loss for _, loss in course().validations]  # type: ignore[arg-type]


def test_from_a_validation_before_the_end_dots_lead_on_to_its_label() -> None:
    early = course(220)
    lines = curve.to_figure(SUBJECT, early).axes[0].get_lines()
    last = early.validations[-1][1]
    spans = [list(x.get_xdata()) for x in lines if list(x.get_ydata()) == [last, last]]  # type: ignore[arg-type]
    assert spans == [[200, 220]]


def test_tokens_seen_are_steps_times_tokens_a_step() -> None:
    figure = curve.to_figure(SUBJECT, course())
    figure.draw_without_rendering()
    above = figure.axes[0].child_axes[0]
    assert above.get_xlim() == pytest.approx((0, 200 * 768))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a$b$c_{.txt", "a$b$c_{.txt"), ("\u65e5\u672c.txt", "\u65e5\u672c.txt"),
        ("a<b>&.txt", "a<b>&.txt"), ("x\x1b\udcff.txt", "x\ufffd\ufffd.txt"),
        ("n" * 300, "n" * 49 + "\u2026"),
    ],
)  # fmt: skip
def test_any_name_of_a_text_can_stand_in_the_title(name: str, said: str) -> None:
    svg = curve.to_svg(curve.Subject(name, SYMBOLS, 814_720, 768), course())
    assert f"{said}: a GPT of 814,720 parameters" in words(svg)


def test_lines_that_lead_to_labels_end_where_the_labels_begin() -> None:
    close = Yardsticks(math.log(SYMBOLS), 1.42, 1.41, 6, 1000, floor=1.40)
    axes = curve.to_figure(SUBJECT, course(known=close)).axes[0]
    begin = min(text.get_position()[0] for text in axes.texts)
    leading = [line for line in axes.get_lines() if not line.get_clip_on() and len(line.get_xdata()) == 2]  # type: ignore[arg-type]  # noqa: E501
    assert len(leading) == 6
    assert max(max(line.get_xdata()) for line in leading) < begin  # type: ignore[arg-type]


def test_neither_a_curve_in_the_terminal_nor_training_loads_pyplot() -> None:
    code = (
        "import sys; from tinygrad_edu.lm import curve, textplot, history as h; "
        "assert 'matplotlib' not in sys.modules; x = h.History(); "
        "[x.add({'step': i, 'loss': 3.0}) for i in (1, 2)]; textplot.plot(x, 9); "
        "assert 'matplotlib' not in sys.modules; curve.to_svg(curve.Subject('a', 9, 9, 9), x); "
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
