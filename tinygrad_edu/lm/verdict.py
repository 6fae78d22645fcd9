"""What is to be said of a run at its end: what it learnt, against what it could be compared with.

Each function gives one sentence or two, or None where it has nothing to say. A loss alone says
little: it is told beside counting (n-grams), beside the truth where that is known, and training
beside validation.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np

from tinygrad_edu.lm.config import TrainConfig
from tinygrad_edu.lm.data import Tokens
from tinygrad_edu.lm.history import History
from tinygrad_edu.lm.patience import Best
from tinygrad_edu.lm.yardsticks import Excess, Yardsticks

OVERFITTING = 0.1
"""How far training may be below validation, as a share of it, before it is called overfitting."""
LEARNT = 0.1
"""Nats above the lowest possible loss of one batch that count as having learnt it."""
CLEARLY = 0.01
"""By what share of it an earlier validation has to be better to be worth a word."""


def verdict(
    config: TrainConfig,
    history: History,
    *,
    best: Best | None,
    stopped_early: bool,
    excess: Excess | None,
    batch_floor: float | None,
) -> tuple[str, ...]:
    """All that is to be said, the most important first."""
    return tuple(_said(config, history, best, stopped_early, excess, batch_floor))


def _said(
    config: TrainConfig,
    history: History,
    best: Best | None,
    stopped_early: bool,
    excess: Excess | None,
    batch_floor: float | None,
) -> Iterator[str]:
    if config.overfit_one_batch:
        if batch_floor is not None and history.losses:
            yield one_batch(history, batch_floor)
        return
    loss = history.validations[-1][1] if history.validations else None
    if loss is None:
        return
    found = [
        kept(config, best, loss, stopped_early),
        against_counting(loss, history.yardsticks) if history.yardsticks else None,
        against_the_source(loss, history.yardsticks, excess) if excess else None,
        fit(history, loss),
    ]
    yield from (sentence for sentence in found if sentence)


def kept(config: TrainConfig, best: Best | None, loss: float, stopped: bool) -> str | None:
    """Which model is kept, where it is not the last one, or should perhaps not be."""
    if best is None:
        return None
    if config.patience:
        why = ""
        if stopped:
            by = f" by more than {config.min_delta:g}" if config.min_delta else ""
            why = f"Stopped early: {best.waited} validations in a row were no better{by}. "
        where = f"step {best.step:,}, validation loss {best.loss:.3f}"
        return f"{why}The model kept is that of {where}."
    if best.loss < loss * (1 - CLEARLY):
        return (
            f"The validation was best at step {best.step:,}, {best.loss:.3f}: with --patience the "
            "model of that step is kept."
        )
    return None


def against_counting(loss: float, known: Yardsticks) -> str:
    """Beside the unigram and the best n-gram."""
    name = f"{known.order}-gram" if known.order > 1 else "unigram"
    name = f"an {name}" if known.order == 8 else f"a {name}"
    if loss > known.unigram:
        return (
            f"The validation loss, {loss:.3f}, is above the unigram's, {known.unigram:.3f}: "
            "knowing nothing but how often each symbol comes does better. It needs more steps, or "
            "another learning rate."
        )
    if loss > known.ngram:
        return (
            f"The validation loss, {loss:.3f}, is above that of the best n-gram, {known.ngram:.3f} "
            f"({name}): counting what follows the last {known.order - 1} symbols still does "
            "better."
        )
    return (
        f"The validation loss, {loss:.3f}, is below that of the best n-gram, {known.ngram:.3f} ("
        f"{name}): the model has learnt more than counting gives."
    )


def against_the_source(loss: float, known: Yardsticks | None, excess: Excess) -> str:
    """Beside the probabilities that the text was drawn with."""
    floor = "" if known is None or known.floor is None else f", which lose {known.floor:.3f}"
    said = (
        f"On the same {excess.windows:,} windows it loses {excess.mean:.4f} ± {excess.error:.4f} "
        f"more than the true probabilities{floor}."
    )
    if excess.impossible:
        said += (
            " That is below the truth by more than three standard errors, which no honest "
            "measurement gives: what was held out was learnt from, or a number is wrong."
        )
    return said


def fit(history: History, loss: float) -> str | None:
    """Whether it learns its text by heart, or could still learn."""
    training, known = history.recent_loss(), history.yardsticks
    if training is None:
        return None
    if training < loss * (1 - OVERFITTING):
        return (
            f"Training, {training:.3f}, is well below validation: it learns its text by heart. A "
            "smaller model, --dropout 0.1, more text or --patience would help."
        )
    if known and loss > known.ngram:
        return (
            f"Training, {training:.3f}, is not far below validation: it is not overfitting, and "
            "more --steps or a larger model would help."
        )
    return None


def one_batch(history: History, floor: float) -> str:
    """Whether a model that reads one batch over and over has learnt it."""
    first, last = history.losses[0], history.losses[-1]
    said = (
        f"One batch was read {len(history.losses):,} times: its loss went from {first:.3f} to "
        f"{last:.3f}. The lowest possible is {floor:.3f}"
        + (", as equal contexts go on in different ways." if floor else ".")
    )
    if last - floor < LEARNT:
        return said + " The model can learn."
    return said + " A model that can learn gets there: give more --steps or another learning rate."


def batch_floor(ids: Tokens, targets: Tokens) -> float:
    """The lowest mean loss any model can have on a batch: its targets given all before in a window.

    Windows that begin alike and go on differently cannot all be predicted; what is left is the
    entropy of the targets among equal contexts.
    """
    follow: dict[bytes, Counter[int]] = defaultdict(Counter)
    for window, wanted in zip(ids, targets, strict=True):
        for t, target in enumerate(wanted):
            follow[window[: t + 1].tobytes()][int(target)] += 1
    nats = 0.0
    for counts in follow.values():
        times = np.array(list(counts.values()), float)
        nats -= float((times * np.log(times / times.sum())).sum())
    return nats / targets.size
