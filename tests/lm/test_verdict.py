"""What a run is told at its end, and the numbers behind it."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import numpy as np
import pytest

from tinygrad_edu import lm
from tinygrad_edu.lm import yardsticks
from tinygrad_edu.lm.history import History
from tinygrad_edu.lm.patience import Best
from tinygrad_edu.lm.verdict import batch_floor, verdict
from tinygrad_edu.lm.yardsticks import Excess, PerWindow, Yardsticks, per_window

KNOWN = Yardsticks(4.0, 3.0, 2.0, 5, 1000)


def history(training: float, *validations: float, known: Yardsticks | None = KNOWN) -> History:
    found = History()
    for step in range(1, 101):
        found.add({"step": step, "loss": training})
    for number, loss in enumerate(validations):
        found.add({"step": 10 * number, "validation_loss": loss})
    if known:
        found.add({"step": 0, **known.to_row()})
    return found


def said(
    course: History,
    *,
    best: Best | None = None,
    stopped_early: bool = False,
    excess: Excess | None = None,
    batch_floor: float | None = None,
    config: lm.TrainConfig | None = None,
) -> str:
    return "\n".join(
        verdict(
            config or lm.TrainConfig(), course, best=best, stopped_early=stopped_early,
            excess=excess, batch_floor=batch_floor,
        )
    )  # fmt: skip


def test_a_model_below_the_unigram_hears_that_counting_symbols_does_better() -> None:
    text = said(history(3.5, 3.5))
    assert "3.500, is above the unigram's, 3.000" in text and "n-gram" not in text


def test_a_model_below_the_best_n_gram_hears_so() -> None:
    text = said(history(2.5, 2.5))
    assert "2.500, is above that of the best n-gram, 2.000 (a 5-gram)" in text
    assert "the last 4 symbols still does better" in text
    assert "not overfitting, and more --steps or a larger model" in text


def test_a_model_that_beats_counting_hears_so() -> None:
    text = said(history(1.79, 1.8))
    assert "1.800, is below that of the best n-gram, 2.000 (a 5-gram)" in text
    assert "overfitting" not in text and "by heart" not in text


def test_training_far_below_validation_is_called_learning_by_heart() -> None:
    assert "Training, 0.500, is well below validation: it learns its text by heart" in (
        said(history(0.5, 1.8))
    )


def test_an_earlier_validation_that_was_clearly_better_is_named() -> None:
    best = Best(10, 1.5, 1.5, 1, 100)
    text = said(history(1.7, 2.0, 1.5, 1.8), best=best)
    assert "best at step 10, 1.500: with --patience the model of that step is kept" in text
    nearly = Best(10, 1.795, 1.795, 1, 100)
    assert "step 10" not in said(history(1.7, 2.0, 1.795, 1.8), best=nearly)


def test_with_patience_the_model_kept_is_named() -> None:
    config = lm.TrainConfig(patience=3, min_delta=0.01)
    best = Best(10, 1.5, 1.5, 3, 100)
    text = said(history(1.4, 2.0, 1.5, 1.6), best=best, stopped_early=True, config=config)
    assert "3 validations in a row were no better by more than 0.01" in text
    assert "The model kept is that of step 10, validation loss 1.500." in text


def test_beside_the_true_source_the_excess_is_told_with_its_error() -> None:
    known = Yardsticks(4.0, 3.0, 2.0, 5, 1000, floor=1.0)
    text = said(history(1.02, 1.02, known=known), excess=Excess(0.02, 0.001, 700))
    assert "700 windows it loses 0.0200 ± 0.0010 more than the true probabilities" in text
    assert "which lose 1.000" in text and "honest" not in text
    text = said(history(0.9, 0.9, known=known), excess=Excess(-0.1, 0.01, 700))
    assert "which no honest measurement gives" in text


def test_a_model_not_below_the_floor_by_three_errors_is_possible() -> None:
    assert not Excess(-0.029, 0.01, 50).impossible
    assert Excess(-0.031, 0.01, 50).impossible
    assert not Excess(-1e-7, 0.0, 50).impossible, "float32 rounds"


def test_one_batch_is_judged_by_its_own_floor() -> None:
    config = lm.TrainConfig(overfit_one_batch=True)
    course = history(0.0, 5.0)
    course.losses[0], course.losses[-1] = 4.2, 0.15
    text = said(course, batch_floor=0.12, config=config)
    assert "100 times: its loss went from 4.200 to 0.150. The lowest possible is 0.120" in text
    assert "The model can learn." in text and "n-gram" not in text
    course.losses[-1] = 2.0
    assert "give more --steps" in said(course, batch_floor=0.0, config=config)


def test_nothing_held_out_and_nothing_trained_leave_nothing_to_say() -> None:
    assert said(History()) == ""
    assert said(history(1.0)) == ""


def test_the_floor_of_a_batch_is_the_entropy_of_targets_given_equal_pasts() -> None:
    ids = np.array([[1, 2, 3], [1, 2, 4], [1, 2, 3], [5, 2, 3]])
    targets = np.array([[2, 3, 9], [2, 4, 9], [2, 3, 8], [2, 3, 9]])
    # (1) -> 2, 2, 2; (1, 2) -> 3, 4, 3; (1, 2, 3) -> 9, 8; all else is alone.
    want = (3 * (-(2 / 3) * math.log(2 / 3) - (1 / 3) * math.log(1 / 3)) + 2 * math.log(2)) / 12
    assert batch_floor(ids, targets) == pytest.approx(want, rel=1e-12)
    assert batch_floor(ids[:1], targets[:1]) == 0


def test_the_floor_of_a_batch_is_what_counting_in_plain_python_gives() -> None:
    draw = np.random.default_rng(0)
    ids, targets = draw.integers(0, 2, (20, 6)), draw.integers(0, 2, (20, 6))
    follow: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    for window, wanted in zip(ids.tolist(), targets.tolist(), strict=True):
        for t in range(6):
            follow[tuple(window[: t + 1])][wanted[t]] += 1
    nats = -sum(n * math.log(n / sum(c.values())) for c in follow.values() for n in c.values())
    assert batch_floor(ids, targets) == pytest.approx(nats / 120, rel=1e-12)


def test_the_error_of_a_paired_difference_is_clustered_by_window() -> None:
    """Within a window all differences are the same: they count as one observation."""
    draw = np.random.default_rng(1)
    differences = draw.normal(0.05, 0.2, 400)
    model = PerWindow(64 * differences, np.full(400, 64))
    found = yardsticks.excess(model, PerWindow(np.zeros(400), np.full(400, 64)))
    assert found.mean == pytest.approx(differences.mean())
    assert found.error == pytest.approx(differences.std(ddof=1) / 20)
    assert found.windows == 400


def test_the_mean_of_windows_weighs_targets_the_same() -> None:
    found = per_window([np.full((2, 4), 1.0), np.full((1, 2), 7.0)])
    assert found.mean == pytest.approx((8 * 1 + 2 * 7) / 10)
    assert found.targets.tolist() == [4, 4, 2]


def test_one_window_has_no_error_that_could_be_known() -> None:
    one = PerWindow(np.array([3.0]), np.array([4]))
    assert yardsticks.excess(one, one).error == math.inf


def test_yardsticks_stand_in_the_log_and_come_back() -> None:
    assert Yardsticks.from_row({"step": 0, **KNOWN.to_row()}) == KNOWN
    whole = Yardsticks(4.0, 3.0, 2.0, 5, 1000, floor=1.5)
    assert Yardsticks.from_row(whole.to_row()) == whole
    assert "floor" not in KNOWN.to_row()
