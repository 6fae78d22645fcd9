"""Learning rates as pure functions of the step: `schedule(step) -> lr`, steps counted from 0.

    schedule = warmup_cosine(3e-4, warmup_steps=100, total_steps=2000)
    for step in range(2000):
        for group in optimizer.param_groups:
            group["lr"] = schedule(step)

Being functions they have no state to save, and can be plotted before a run. Beyond their last step
all stay where they ended.
"""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = [
    "Schedule",
    "constant",
    "cosine",
    "linear",
    "warmup",
    "warmup_cosine",
    "warmup_linear",
    "warmup_stable_decay",
]

Schedule = Callable[[int], float]


def constant(lr: float) -> Schedule:
    """`lr` at every step."""
    _check_rates("constant", lr=lr)
    return lambda step: lr


def linear(lr: float, total_steps: int, final_lr: float = 0.0) -> Schedule:
    """A straight line from `lr` at step 0 to `final_lr` at step `total_steps`."""
    _check_rates("linear", lr=lr, final_lr=final_lr)
    _check_steps("linear", total_steps=total_steps)

    def schedule(step: int) -> float:
        done = _share(step, total_steps)
        return (1.0 - done) * lr + done * final_lr

    return schedule


def cosine(lr: float, total_steps: int, final_lr: float = 0.0) -> Schedule:
    """Half a cosine from `lr` at step 0 to `final_lr` at step `total_steps` (Loshchilov & Hutter
    2017, eq. 5).
    """
    _check_rates("cosine", lr=lr, final_lr=final_lr)
    _check_steps("cosine", total_steps=total_steps)

    def schedule(step: int) -> float:
        remaining = 0.5 * (1.0 + math.cos(math.pi * _share(step, total_steps)))
        return remaining * lr + (1.0 - remaining) * final_lr

    return schedule


def warmup(schedule: Schedule, warmup_steps: int) -> Schedule:
    """A straight rise towards `schedule(0)`, reached at step `warmup_steps`, where `schedule`
    begins.

    Step 0 has the share 1/(warmup_steps + 1), not 0: a step at rate 0 would be a batch computed for
    nothing.
    """
    _check_steps("warmup", least=0, warmup_steps=warmup_steps)

    def warmed(step: int) -> float:
        if step >= warmup_steps:
            return schedule(step - warmup_steps)
        return schedule(0) * (_natural(step) + 1) / (warmup_steps + 1)

    return warmed


def warmup_cosine(
    lr: float, warmup_steps: int, total_steps: int, final_lr: float = 0.0
) -> Schedule:
    """A rise to `lr` at step `warmup_steps`, then half a cosine to `final_lr` at step
    `total_steps`.
    """
    rest = _after_warmup("warmup_cosine", warmup_steps, total_steps)
    return warmup(cosine(lr, rest, final_lr), warmup_steps)


def warmup_linear(
    lr: float, warmup_steps: int, total_steps: int, final_lr: float = 0.0
) -> Schedule:
    """A rise to `lr` at step `warmup_steps`, then a straight line to `final_lr` at step
    `total_steps`.
    """
    rest = _after_warmup("warmup_linear", warmup_steps, total_steps)
    return warmup(linear(lr, rest, final_lr), warmup_steps)


def warmup_stable_decay(
    lr: float, warmup_steps: int, total_steps: int, decay_steps: int, final_lr: float = 0.0
) -> Schedule:
    """A rise to `lr` at step `warmup_steps`, which stays until `decay_steps` before the end, then a
    straight line to `final_lr` at step `total_steps`.

    Up to the decay it does not depend on where the run will end, so that a run can be made longer
    (Hu et al. 2024, MiniCPM, section 4; Hägele et al. 2024 for the straight line).
    """
    rest = _after_warmup("warmup_stable_decay", warmup_steps, total_steps)
    _check_steps("warmup_stable_decay", least=0, decay_steps=decay_steps)
    if decay_steps > rest:
        raise ValueError(
            f"warmup_stable_decay was given decay_steps={decay_steps}, but only {rest} steps are "
            "left after the warm-up."
        )
    stable, falling = rest - decay_steps, linear(lr, max(1, decay_steps), final_lr)

    def schedule(step: int) -> float:
        return lr if _natural(step) < stable else falling(step - stable)

    return warmup(schedule if decay_steps else constant(lr), warmup_steps)


def _share(step: int, total_steps: int) -> float:
    return min(_natural(step), total_steps) / total_steps


def _natural(step: int) -> int:
    if step < 0:
        raise ValueError(f"a schedule was asked for step {step}, expected 0 or more.")
    return step


def _after_warmup(owner: str, warmup_steps: int, total_steps: int) -> int:
    if not 0 <= warmup_steps < total_steps:
        raise ValueError(
            f"{owner} was given warmup_steps={warmup_steps} and total_steps={total_steps}, "
            "expected a warm-up shorter than the whole."
        )
    return total_steps - warmup_steps


def _check_rates(owner: str, **rates: float) -> None:
    for name, rate in rates.items():
        if not 0.0 <= rate < math.inf:
            raise ValueError(f"{owner} was given {name}={rate}, expected at least 0 and finite.")


def _check_steps(owner: str, least: int = 1, **steps: int) -> None:
    for name, count in steps.items():
        if count < least:
            raise ValueError(f"{owner} was given {name}={count}, expected at least {least}.")
