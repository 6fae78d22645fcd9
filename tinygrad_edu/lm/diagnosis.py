"""Where in a model a loss or gradient stops being finite: the failing batch, looked at again."""

from __future__ import annotations

import tinygrad_edu as tg
from tinygrad_edu.debugger.why_nan import why_nan
from tinygrad_edu.lm.learner import Learner, loss_of


def cause(learner: Learner) -> str:
    """What `tg.why_nan` says of the first part of the next batch that is not finite.

    The batch, its parts and what dropout drops are those of the step; fused operations are taken
    apart, so that the place is one of their parts. Empty where, worked out like this, all is finite
    (a number that is just too large for one order of a sum may not be for another).
    """
    jobs, _ = learner.jobs(*learner.batch())
    for job in (job for part in jobs for job in part):
        with tg.unfused():
            loss = loss_of(learner.model, *job)
            found = why_nan(loss)
        if found.kind:
            return str(found)
    return ""
