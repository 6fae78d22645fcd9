"""The learning-rate range test: which rates, when it stops, what it suggests."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from tinygrad_edu import lm
from tinygrad_edu.cli import main
from tinygrad_edu.lm import range_plot
from tinygrad_edu.lm.history import Smooth
from tinygrad_edu.lm.learner import Learner, new_model
from tinygrad_edu.lm.material import read_material
from tinygrad_edu.lm.range_test import RangeTest, growing, range_test

MakeConfig = Callable[..., lm.TrainConfig]


def test_rates_grow_by_one_factor_and_have_both_ends() -> None:
    rates = growing(1e-4, 10.0, 51)
    assert rates[0] == 1e-4 and rates[-1] == 10.0
    assert np.diff(np.log(rates)) == pytest.approx(math.log(1e5) / 50)


@pytest.mark.parametrize(
    ("lowest", "highest", "steps", "said"),
    [
        (0.0, 1.0, 100, "--lowest is 0 and"), (1.0, 1.0, 100, "the first below the second"),
        (1.0, 0.1, 100, "below"), (-1.0, 1.0, 100, "above 0"), (1e-3, math.inf, 100, "inf"),
        (math.nan, 1.0, 100, "nan"), (1e-6, 1.0, 9, "--steps is 9; a range test needs 10"),
    ],
)  # fmt: skip
def test_ranges_that_are_none_are_refused(
    make_config: MakeConfig, lowest: float, highest: float, steps: int, said: str
) -> None:
    with pytest.raises(lm.ConfigError, match=said):
        range_test(make_config(steps=steps), lowest, highest)


def test_it_is_a_training_with_those_rates(make_config: MakeConfig, tmp_path: Path) -> None:
    config = make_config(steps=20, threads=1)
    test = range_test(config, 1e-5, 1e-2)
    assert test.rates == growing(1e-5, 1e-2, 20) and test.diverged is None
    material = read_material(config)
    model = new_model(config, material.tokenizer.vocab_size)
    learner = Learner(config, model, material.lessons(config))
    smooth = Smooth(0.9)
    for rate, loss, smoothed in zip(test.rates, test.losses, test.smoothed, strict=True):
        assert learner.gradient().loss == loss
        assert smooth.add(loss) == smoothed
        learner.schedule = lambda step, rate=rate: rate
        learner.move()
    learner.close()
    assert not (tmp_path / "run").exists() and not (tmp_path / "runs").exists()


def test_it_stops_where_the_loss_diverges_and_suggests_less(make_config: MakeConfig) -> None:
    heard: list[int] = []
    config = make_config(steps=60, clip_norm=0.0, batch_size=16)
    test = range_test(config, 1e-5, 100.0, lambda step, rate, loss: heard.append(step))
    assert test.diverged is not None and len(test.rates) < 60
    assert test.diverged == growing(1e-5, 100.0, 60)[len(test.rates)]
    assert heard == list(range(1, len(test.rates) + 1))
    assert test.suggested is not None and test.suggested < test.diverged
    limit = min(4 * min(test.smoothed), 1.25 * test.smoothed[0])
    assert all(loss <= limit for loss in test.smoothed[test.lowest :])
    again = range_test(config, 1e-5, 100.0)
    assert again == test
    assert range_test(make_config(steps=60, seed=2), 1e-5, 100.0).losses != test.losses


def made(smoothed: list[float], diverged: float | None = None) -> RangeTest:
    rates = growing(1e-5, 1.0, len(smoothed))
    return RangeTest(rates, tuple(smoothed), tuple(smoothed), diverged)


def valley(lowest: float, width: float = 1.0, steps: int = 101) -> RangeTest:
    """A loss of 5 that falls into a parabola of ln(rate) with 1 at its lowest."""
    x = np.log(np.array(growing(1e-5, 1.0, steps)) / lowest) / width
    return made([float(v) for v in 1 + np.minimum(x**2, 4)])


def test_the_steepest_point_is_where_the_slope_to_the_logarithm_is_least() -> None:
    test = valley(1e-2)
    x = np.log(np.array(test.rates) / 1e-2)
    y = test.smoothed
    slopes = np.array([(y[i + 1] - y[i - 1]) / (x[i + 1] - x[i - 1]) for i in range(1, 100)])
    assert test.steepest == 1 + int(slopes.argmin())
    assert test.rates[test.lowest] == pytest.approx(1e-2, rel=0.06)


def test_slopes_are_to_the_logarithm_of_the_rate_and_not_to_the_rate() -> None:
    rates = np.array(growing(1e-5, 1.0, 101))
    test = made([float(v) for v in 2 - np.tanh(np.log(rates / 1e-2))])
    assert test.steepest is not None
    assert test.rates[test.steepest] == pytest.approx(1e-2)  # to the rate: at e^-0.55 of it


def test_the_suggestion_is_the_smaller_of_steepest_and_a_tenth_of_the_lowest() -> None:
    near = valley(1e-2, 0.5)  # falls fastest at e⁻¹ of the lowest point's rate, more than a tenth
    assert near.steepest is not None
    assert near.rates[near.steepest] > near.rates[near.lowest] / 10
    assert near.suggested == near.rates[near.lowest] / 10
    far = valley(1e-1, 3.0)
    assert far.steepest is not None
    assert far.suggested == far.rates[far.steepest] < far.rates[far.lowest] / 10


def test_a_loss_that_only_rises_suggests_nothing() -> None:
    test = made([1.0 + 0.01 * i for i in range(40)], diverged=2.0)
    assert test.steepest is None and test.suggested is None
    said = "\n".join(test.lines())
    assert "never fell" in said and "It diverged at 2, after 40 steps." in said


def test_the_table_has_the_points_and_fits_80_columns() -> None:
    lines = valley(1e-2, 0.5).lines()
    assert max(map(len, lines)) <= 80 and len(lines) <= 20
    assert sum(line.endswith("steepest") for line in lines) == 1
    assert sum(line.endswith("lowest") for line in lines) == 1
    assert "--learning-rate 0.001" in lines[-1]


@pytest.mark.parametrize("test", [valley(1e-2), made([1.0 + i for i in range(12)], 2.0)])
def test_the_plot_says_what_the_table_says(test: RangeTest) -> None:
    svg = range_plot.to_svg(test, "a<b>.txt")
    assert svg == range_plot.to_svg(test, "a<b>.txt")
    words = " ".join(ElementTree.fromstring(svg).itertext())
    assert "a<b>.txt: learning-rate range test" in words
    assert ("suggested" in words) == (test.suggested is not None)
    assert ("diverged at 2" in words) == (test.diverged is not None)
    lines = range_plot.to_figure(test, "x").axes[0].get_lines()
    assert tuple(lines[1].get_xdata()) == test.rates  # type: ignore[arg-type]
    assert tuple(lines[1].get_ydata()) == test.smoothed  # type: ignore[arg-type]


def test_the_command_prints_a_table_and_writes_one_file(
    text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    small = [
        "lr-range", "--corpus", str(text_file), "--num-layers=1", "--num-heads=2",
        "--embed-dim=16", "--block-size=8", "--batch-size=4", "--steps=30", "--lowest=1e-5",
    ]  # fmt: skip
    assert main([*small, "-o", "plot.svg"]) == 0
    said = capsys.readouterr()
    assert "smoothed" in said.out and said.out.endswith("plot       plot.svg\n") and not said.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plot.svg", "tiny.txt"]
    assert main([*small, "-o", "none/plot.svg"]) == 2
    assert "none is not a folder" in capsys.readouterr().err
    assert main([*small, "--lowest=2"]) == 2
    assert "--lowest is 2 and --highest 1" in capsys.readouterr().err
