"""What a plan foresaw, as it came to be."""

from __future__ import annotations

from tinygrad_edu.lm.learner import Learner
from tinygrad_edu.lm.machine import peak_resident
from tinygrad_edu.lm.pace import Pace
from tinygrad_edu.lm.plan import Plan
from tinygrad_edu.lm.reporting import Measured


def measured(
    plan: Plan, learner: Learner, pace: Pace, first_step: int, resident_before: int | None
) -> Measured | None:
    """Speed and memory of the steps since `first_step`; None where there were none."""
    steps = learner.step - first_step
    seconds = pace.total() - pace.before - pace.paused
    if not steps or seconds <= 0:
        return None
    workers = learner.workers
    others: list[tuple[()]] = [()] * (workers.count if workers.kind != "threads" else 1)
    resident = workers.each(_resident, others)
    return Measured(
        steps=steps,
        step_seconds=seconds,
        pauses_seconds=pace.paused,
        tokens_per_second=steps * plan.tokens_per_step / seconds,
        flops_per_second=steps * plan.step_flops / seconds,
        weight_bytes=sum(p.data.nbytes for p in learner.model.parameters()),
        optimizer_bytes=learner.optimizer_bytes(),
        resident_bytes=tuple(size for size in resident if size is not None),
        resident_before=resident_before,
    )


def _resident(model: object) -> int | None:
    """`peak_resident` of the process that a worker is; it is given its model, as all functions."""
    return peak_resident()
