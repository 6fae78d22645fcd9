"""The curves of a run's report, and its gradient norms, from the lines of metrics.jsonl."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tinygrad_edu.lm.lines import heights, lines
from tinygrad_edu.lm.report_charts import Chart, Level, Series, thinned
from tinygrad_edu.lm.report_data import MOST_NORMS, ReportData

ROOM_FOR_NAMES = 126
HIGHEST_NORM = 4.0
"""Times the upper quartile of the gradient norms: what leaps above it leaves the picture."""


def charts(data: ReportData) -> list[Chart]:
    """Loss, bits a byte, perplexity, learning rate and gradient norm over the steps."""
    history, symbols = data.history, data.symbols
    kept = thinned(len(history.steps))
    steps = [history.steps[i] for i in kept]
    across = lines(history, symbols)
    low, high = heights(history, across)
    room = 0.05 * (high - low)
    found = [history.validations[i] for i in thinned(len(history.validations))]
    validation = Series(
        "validation", "validation", [step for step, _ in found], [loss for _, loss in found], True
    )
    loss = Chart(
        "loss", "Loss", "nats a token",
        (
            Series("one batch", "raw", steps, [history.losses[i] for i in kept]),
            Series("training", "training", steps, [history.smoothed[i] for i in kept]),
            validation,
        ),
        tuple(Level(f"{line.short} {line.height:.2f}", line.kind, line.height) for line in across),
        (max(0.0, low - room), high + room),
        ROOM_FOR_NAMES,
    )  # fmt: skip
    rates = _of_updates(data.rows, "learning_rate", kept)
    norm = _of_updates(data.rows, "gradient_norm", kept)
    finite = sorted(y for y in norm if math.isfinite(y))
    top = min(finite[-1], HIGHEST_NORM * finite[3 * len(finite) // 4]) if finite else 1.0
    return [
        loss,
        Chart("bits", "Bits a byte", "", (_of_validations(data.rows, "bits_per_byte"),)),
        Chart("perplexity", "Perplexity", "", (_of_validations(data.rows, "perplexity"),)),
        Chart("rate", "Learning rate", "", (Series("learning rate", "training", steps, rates),)),
        Chart(
            "norm", "Gradient norm", "before clipping",
            (Series("gradient norm", "training", steps, norm),), bounds=(0.0, max(top, 1e-9)),
        ),
    ]  # fmt: skip


def _of_updates(rows: Sequence[dict[str, Any]], name: str, kept: Sequence[int]) -> list[float]:
    updates = [row for row in rows if row.get("loss") is not None]
    return [_number(updates[i].get(name)) for i in kept]


def _of_validations(rows: Sequence[dict[str, Any]], name: str) -> Series:
    """(A number that is not known is null.)"""
    found = [row for row in rows if row.get("validation_loss") is not None and row.get(name)]
    found = [found[i] for i in thinned(len(found))]
    words = name.replace("_", " ").replace("bits per byte", "bits a byte")
    x = [row["step"] for row in found]
    return Series(words, "validation", x, [_number(row[name]) for row in found], True)


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def norms(
    rows: Sequence[dict[str, Any]],
) -> tuple[list[str], list[int], list[list[float | None]]]:
    """(parts, steps, values): the gradient norm of each part at each validation, a row a part."""
    found = [row for row in rows if row.get("gradient_norms")]
    kept = [found[i] for i in thinned(len(found), MOST_NORMS)]
    parts = list(dict.fromkeys(part for row in kept for part in row["gradient_norms"]))
    values = [[row["gradient_norms"].get(part) for row in kept] for part in parts]
    return parts, [row["step"] for row in kept], values
