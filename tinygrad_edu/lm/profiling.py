"""Where each millisecond and megabyte of a training step goes: `tinygrad-edu train --profile`.

The step is the trainer's own, made by one worker with the whole batch, so that times add up; beside
it stand the same step without the profiler, the step as all workers make it together, and what its
matrix products take alone. Nothing is written, and no run is begun.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tinygrad_edu as tg
from tinygrad_edu.autograd import profile_table as tables
from tinygrad_edu.autograd.profiling import FORWARD, Profile, Row
from tinygrad_edu.lm import allocator
from tinygrad_edu.lm.config import TrainConfig
from tinygrad_edu.lm.cost import Cost, step_cost
from tinygrad_edu.lm.interrupt import limited_threads
from tinygrad_edu.lm.learner import Learner, model_config, new_model
from tinygrad_edu.lm.material import read_material
from tinygrad_edu.lm.operations import Operation, Product, operations
from tinygrad_edu.lm.pace import Clock

WARM_UP = 3
"""Steps made before any is looked at, while caches and memory are cold."""
MOST, LEAST, ENOUGH = 40, 5, 4.0
"""Steps of a kind that are timed: at most, at least, and seconds after which it is enough."""
PRODUCT_ROUNDS = 9

_MAIN = {"GPT": "head", "Llama": "head", "(no module)": "loss"}
"""What the model's own node and the one outside of it are called in the table."""


@dataclass(frozen=True)
class StepProfile:
    """One training step, taken apart.

    Attributes:
        rows: what each operation took in one step of one worker; see `tg.profile`.
        plain_seconds: the same step where nothing looks at the clock.
        split_seconds: the step as the trainer makes it, by all its workers.
        workers: how many, and of what kind: "2 threads", or "one worker".
        product_seconds: by (module, primitive), its matrix products alone, of both passes.
        peak_bytes: the most that a step of one worker held, above weights and optimizer state.
        cost: what its sizes say.
        batch: the batch in words.
    """

    rows: Sequence[Row]
    plain_seconds: float
    split_seconds: float
    workers: str
    product_seconds: dict[tuple[str, str], float]
    peak_bytes: int
    cost: Cost
    batch: str

    @property
    def seconds(self) -> float:
        """The sum of the rows."""
        return sum(row.seconds for row in self.rows)

    @property
    def kept_bytes(self) -> int:
        """What the nodes were seen to keep from the forward to the backward pass."""
        return sum(row.made_bytes for row in self.rows if row.phase == FORWARD)

    def table(self, width: int = 80) -> str:
        """The whole of it as text of at most `width` columns."""
        whole = self.seconds
        labels = {m: _MAIN.get(label, label) for m, label in tables.folded(self.rows).items()}
        floors: dict[tuple[str, str], float] = {}
        for (module, primitive), seconds in self.product_seconds.items():
            key = (labels[module], primitive)
            floors[key] = floors.get(key, 0.0) + seconds
        ms = tables.milliseconds
        body = [
            (line.label, line.primitive, ms(line.forward), ms(line.backward),
             ms(floors.get((line.label, line.primitive), 0.0)),
             tables.percent(line.seconds, whole), tables.mebibytes(line.made))
            for line in tables.gathered(self.rows, labels)
        ]  # fmt: skip
        foot = [
            (name, "", ms(forward), ms(backward), "", tables.percent(forward + backward, whole), "")
            for name, forward, backward in tables.between(self.rows)
        ]
        last = ("all", "", "", ms(whole), ms(sum(floors.values())), tables.percent(whole, whole),
                tables.mebibytes(self.kept_bytes))  # fmt: skip
        head = ("module", "primitive", "forward", "backward", "floor", "share", "kept")
        units = ("", "", "ms", "ms", "ms", "%", "MiB")
        rows = tables.aligned([head, units, *body, *foot, last], width)
        title = f"One training step by one worker: {self.batch}."
        return "\n".join([title, "", rows, "", *self._said()])

    def _said(self) -> list[str]:
        """What stands below the table: how the step compares, and its memory."""
        floor, plain = sum(self.product_seconds.values()), self.plain_seconds
        flops = self.cost.forward_flops + self.cost.backward_flops
        more = self.seconds - plain
        standing = self.cost.weight_bytes + self.cost.optimizer_bytes
        mib, percent = tables.mebibytes, tables.percent
        said = [
            ("Python", "calls, checks, nodes; backward also sums of gradients, freeing"),
            ("floor", f"the matrix products alone, on one BLAS thread: {floor * 1e3:.2f} ms, "
             f"{percent(floor, plain)} % of"),
            ("", f"the step; {flops / 1e9:.2f} GFLOP at {flops / floor / 1e9:.0f} GFLOP/s, and in "
             f"the step at {flops / plain / 1e9:.0f}"),
            ("measured", f"{plain * 1e3:.2f} ms without the profiler; the rows add up to "
             f"{percent(abs(more), plain)} % {'more' if more >= 0 else 'less'}"),
            ("training", f"{self.split_seconds * 1e3:.2f} ms a step, as {self.workers} make it: "
             f"{plain / self.split_seconds:.2f} times as fast"),
            ("memory", f"{mib(self.kept_bytes)} MiB kept for the backward pass "
             f"({mib(self.cost.activation_bytes)} by the sizes),"),
            ("", f"{mib(self.cost.gradient_bytes)} MiB of gradients; {mib(self.peak_bytes)} MiB at "
             "the highest point"),
            ("", f"above weights and optimizer, which have {mib(standing)} MiB"),
        ]  # fmt: skip
        if self.workers == "one worker":
            said = [line for line in said if line[0] != "training"]
        return [f"{heading:<10}{sentence}" for heading, sentence in said]


def profile_step(config: TrainConfig, clock: Clock = time.perf_counter) -> StepProfile:
    """Take a training step of a new model apart, as `config` sets it up.

    `clock` gives seconds.

    Raises:
        TextError: the text cannot be learnt from.
    """
    material = read_material(config)
    config = dataclasses.replace(config, accumulate=1)
    symbols, lessons = material.tokenizer.vocab_size, material.lessons(config)
    sizes = model_config(config, symbols)
    with limited_threads(1), np.errstate(all="ignore"):
        if config.tune_allocator:
            allocator.tune()
        split = Learner(config, new_model(config, symbols), lessons)
        with contextlib.closing(split.workers) as workers:
            together = _middle(_times(lambda: _timed(split, clock), clock))
        alone = dataclasses.replace(config, threads=1)
        one = Learner(alone, new_model(config, symbols), lessons)
        with contextlib.closing(one.workers):
            rows, plain = _taken_apart(one, clock)
            peak = peak_bytes(one)
        products = _product_seconds(list(operations(sizes, config.batch_size)), clock)
    return StepProfile(
        rows=rows,
        plain_seconds=plain,
        split_seconds=together,
        workers=f"{workers.count} {workers.kind}" if workers.count > 1 else "one worker",
        product_seconds=products,
        peak_bytes=peak,
        cost=step_cost(sizes, config.batch_size),
        batch=f"{config.batch_size} windows of {config.block_size} tokens",
    )


def _step(learner: Learner) -> None:
    learner.gradient()
    learner.move()


def _timed(learner: Learner, clock: Clock) -> float:
    started = clock()
    _step(learner)
    return clock() - started


def _times(once: Callable[[], Any], clock: Clock) -> list[Any]:
    """What `once` returns, some times, after it has warmed up."""
    for _ in range(WARM_UP):
        once()
    found: list[Any] = []
    started = clock()
    while len(found) < MOST and (len(found) < LEAST or clock() - started < ENOUGH):
        found.append(once())
    return found


def _taken_apart(learner: Learner, clock: Clock) -> tuple[list[Row], float]:
    """(the rows of one step, seconds of a step without the profiler), measured in turns."""

    def once() -> tuple[float, Profile]:
        plain = _timed(learner, clock)
        with tg.profile(clock) as profile:
            _step(learner)
        return plain, profile

    found = _times(once, clock)
    profiles = _central([profile for _, profile in found], lambda profile: profile.seconds)
    return _mean(profiles), _middle([plain for plain, _ in found])


def rows_of_a_step(
    learner: Learner, count: int, clock: Clock = time.perf_counter
) -> list[Row]:
    """What each operation takes, as the mean of `count` steps; one before them is for warmth."""
    _step(learner)
    profiles = []
    for _ in range(count):
        with tg.profile(clock) as profile:
            _step(learner)
        profiles.append(profile)
    return _mean(profiles)


def _central(found: Sequence[Any], seconds: Callable[[Any], float]) -> list[Any]:
    """The middle half by time: without those that something else in the machine disturbed."""
    ordered = sorted(found, key=seconds)
    cut = len(ordered) // 4
    return ordered[cut : len(ordered) - cut]


def _middle(times: Sequence[float]) -> float:
    """The mean of the middle half; means add up where medians do not."""
    kept = _central(times, float)
    return float(sum(kept)) / len(kept)


def _mean(profiles: Sequence[Profile]) -> list[Row]:
    """The rows of a step that is the mean of several."""
    gathered: dict[tuple[str, str, str], list[Row]] = {}
    for profile in profiles:
        for row in profile.rows:
            gathered.setdefault((row.module, row.primitive, row.phase), []).append(row)
    count = len(profiles)
    made = [
        Row(
            *key,
            calls=round(sum(row.calls for row in rows) / count),
            seconds=sum(row.seconds for row in rows) / count,
            made_bytes=round(sum(row.made_bytes for row in rows) / count),
        )
        for key, rows in gathered.items()
    ]
    return sorted(made, key=lambda row: -row.seconds)


def peak_bytes(learner: Learner) -> int:
    """The most a step holds above what there is before it, by NumPy's own report of its arrays.

    Before a step there are the weights and the optimizer's averages, and no gradients.
    """
    traced = tracemalloc.is_tracing()
    if not traced:
        tracemalloc.start()
    try:
        _step(learner)  # makes again, before the counter's eyes, what the next step replaces
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        _step(learner)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        if not traced:
            tracemalloc.stop()


def _product_seconds(
    nodes: Sequence[Operation], clock: Clock
) -> dict[tuple[str, str], float]:
    """By (module, primitive), seconds of the matrix products of both passes."""
    known: dict[Product, float] = {}
    found: dict[tuple[str, str], float] = {}
    for operation in nodes:
        for product in (*operation.forward, *operation.backward):
            if product not in known:
                known[product] = _seconds_alone(product, clock)
            key = (operation.module, operation.primitive)
            found[key] = found.get(key, 0.0) + known[product]
    return found


def _seconds_alone(product: Product, clock: Clock) -> float:
    """What NumPy takes for it, into memory that exists: the median of a few goes."""
    a, b = _factors(product)
    shape = (*a.shape[:-1], b.shape[-1])
    out = np.empty(shape, np.float32)
    times = []
    for _ in range(PRODUCT_ROUNDS):
        started = clock()
        np.matmul(a, b, out=out)
        times.append(clock() - started)
    return sorted(times)[PRODUCT_ROUNDS // 2]


def _factors(product: Product) -> tuple[Any, Any]:
    """Two arrays of its shapes, lying in memory as its layout says."""
    batch, m, k, n, layout = product
    lead = (batch,) if batch > 1 else ()
    factors = []
    for letter, (rows, columns) in zip(layout, ((m, k), (k, n)), strict=True):
        transposed = letter == "t"
        shape = (*lead, columns, rows) if transposed else (*lead, rows, columns)
        array = np.ones(shape, np.float32)
        factors.append(array.swapaxes(-1, -2) if transposed else array)
    return factors[0], factors[1]
