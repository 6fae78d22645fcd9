"""The learning-rate range test: one short training whose rate grows, to see which rates it bears.

Each step multiplies the rate by the same factor, from so low that nothing is learnt to so high that
all is lost (Smith 2017, "Cyclical Learning Rates", section 3.3; that the rate grows exponentially
is fastai's). The loss is that of a step's batch before its update, smoothed and bias-corrected. The
test stops where the smoothed loss is above four times its lowest, as fastai's does, or clearly
above the first: a language model that has learnt nothing loses ln V, and clipped gradients may keep
one that is lost below four times its lowest for long. What can be read off:

    steepest    where the smoothed loss falls fastest to the logarithm of the rate
    lowest      where it is lowest; beyond it the rate already harms
    suggested   `steepest`, or a tenth of `lowest` where that is less

The model is thrown away, and nothing is written into `runs/`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from tinygrad_edu.lm import allocator
from tinygrad_edu.lm.config import TrainConfig
from tinygrad_edu.lm.errors import ConfigError
from tinygrad_edu.lm.history import Smooth
from tinygrad_edu.lm.interrupt import limited_threads
from tinygrad_edu.lm.learner import Learner, new_model
from tinygrad_edu.lm.material import Material, read_material

SMOOTHING = 0.9
"""How much of the average each step keeps: it looks back about 10 steps."""
DIVERGED = 4.0
"""Times the lowest smoothed loss at which the test stops."""
WORSE = 1.25
"""Times the first loss at which it stops."""
LEAST_STEPS = 10
SHOWN = 12
"""Lines of the table."""


RangeProgress = Callable[[int, float, float], None]
"""Hears of each step: its number from 1, its rate and its loss."""


@dataclass(frozen=True)
class RangeTest:
    """What a range test measured, a number a step each.

    Attributes:
        rates: the learning rates, up to the last one that could be measured.
        losses: of the batches, in nats.
        smoothed: the losses' exponential average, bias-corrected.
        diverged: the rate at which the test stopped early; None where it came to its end.
    """

    rates: tuple[float, ...]
    losses: tuple[float, ...]
    smoothed: tuple[float, ...]
    diverged: float | None = None

    @property
    def lowest(self) -> int:
        """The step of the lowest smoothed loss."""
        return int(np.argmin(self.smoothed))

    @property
    def steepest(self) -> int | None:
        """The step before `lowest` at which it falls fastest to ln(rate); None where it never does.

        The slope is a difference over both neighbours.
        """
        if self.lowest < 2:
            return None
        slopes = np.gradient(self.smoothed, np.log(self.rates))[: self.lowest]
        step = int(np.argmin(slopes))
        return step if slopes[step] < 0 else None

    @property
    def suggested(self) -> float | None:
        """A rate to train with; None where the loss never fell."""
        if self.steepest is None:
            return None
        return min(self.rates[self.steepest], self.rates[self.lowest] / 10)

    def lines(self) -> list[str]:
        """The table, and what it says, in lines of at most 80 columns."""
        marks = {self.lowest: "lowest"}
        if self.steepest is not None:
            marks[self.steepest] = "steepest"
        last = len(self.rates) - 1
        evenly = {round(i * last / (SHOWN - 1)) for i in range(SHOWN)}
        told = [f"{'rate':>10}  {'loss':>8}  {'smoothed':>8}"]
        for step in sorted(evenly | set(marks)):
            told.append(
                f"{self.rates[step]:>10.3g}  {self.losses[step]:>8.4g}  "
                f"{self.smoothed[step]:>8.4g}  {marks.get(step, '')}".rstrip()
            )
        return [*told, "", *self._said()]

    def _said(self) -> list[str]:
        end = (
            f"It did not diverge up to {self.rates[-1]:.3g}; a larger --highest would show where."
            if self.diverged is None
            else f"It diverged at {self.diverged:.3g}, after {len(self.rates)} steps."
        )
        if self.suggested is None or self.steepest is None:
            return [end, "The loss never fell; try a smaller --lowest, or more --steps."]
        steepest, tenth = self.rates[self.steepest], self.rates[self.lowest] / 10
        return [
            end,
            f"Steepest descent is at {steepest:.3g}, a tenth of the lowest point's rate is "
            f"{tenth:.3g};",
            f"the smaller of the two is the suggestion: --learning-rate {self.suggested:.2g}",
        ]


def range_test(
    config: TrainConfig,
    lowest: float = 1e-6,
    highest: float = 1.0,
    told: RangeProgress | None = None,
) -> RangeTest:
    """Train a new model for `config.steps` steps at most, at rates from `lowest` to `highest`.

    All else is as in a training with `config`: batches, optimizer, clipping. One seed, one result.

    Raises:
        ConfigError: rates or steps that make no test.
        TextError: the text cannot be learnt from.
    """
    rates = growing(lowest, highest, config.steps)
    return _tested(config, read_material(config), rates, told)


def growing(lowest: float, highest: float, steps: int) -> tuple[float, ...]:
    """As many rates, each the same number of times the one before; both ends are exact."""
    if not (0 < lowest < highest < math.inf):
        raise ConfigError(
            f"--lowest is {lowest:g} and --highest {highest:g}; give numbers above 0, the first "
            "below the second"
        )
    if steps < LEAST_STEPS:
        raise ConfigError(f"--steps is {steps}; a range test needs {LEAST_STEPS} or more")
    return tuple(float(rate) for rate in np.geomspace(lowest, highest, steps))


def _tested(
    config: TrainConfig,
    material: Material,
    rates: Sequence[float],
    told: RangeProgress | None,
) -> RangeTest:
    config = dataclasses.replace(config, overfit_one_batch=False, steps=len(rates))
    smooth = Smooth(SMOOTHING)
    losses: list[float] = []
    smoothed: list[float] = []
    diverged = None
    with limited_threads(1), np.errstate(all="ignore"):
        if config.tune_allocator:
            allocator.tune()
        model = new_model(config, material.tokenizer.vocab_size)
        learner = Learner(config, model, material.lessons(config))
        with closing(learner):
            learner.schedule = rates.__getitem__
            for rate in rates:
                gradient = learner.gradient()
                average = smooth.add(gradient.loss)
                if not gradient.finite or _lost(average, smoothed):
                    diverged = rate
                    break
                losses.append(gradient.loss)
                smoothed.append(average)
                learner.move()
                if told:
                    told(len(losses), rate, gradient.loss)
    if not losses:
        raise ConfigError(
            "the loss of the new model is no finite number, before any step; look at the text and "
            "the model's sizes"
        )
    return RangeTest(tuple(rates[: len(losses)]), tuple(losses), tuple(smoothed), diverged)


def _lost(average: float, before: Sequence[float]) -> bool:
    """Whether a smoothed loss has diverged from those before it."""
    return bool(before) and average > min(DIVERGED * min(before), WORSE * before[0])
