"""Begins a training run, or goes on with one.

A run ends when its steps are made, at Ctrl-C (saved, to be resumed), or at a number that is not
finite (the last checkpoint stays). A run that was interrupted and resumed ends with the same bits
as one that was not.
"""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import numpy as np

from tinygrad_edu.lm import allocator, checkpoint
from tinygrad_edu.lm.config import TrainConfig
from tinygrad_edu.lm.errors import ConfigError, RunError
from tinygrad_edu.lm.evaluation import evaluate
from tinygrad_edu.lm.interrupt import limited_threads
from tinygrad_edu.lm.learner import Learner
from tinygrad_edu.lm.material import Material, read_material
from tinygrad_edu.lm.pace import Clock
from tinygrad_edu.lm.plan import Plan
from tinygrad_edu.lm.reporting import Reporter, Result
from tinygrad_edu.lm.session import Session

CHANGEABLE = (
    "steps",
    "learning_rate",
    "min_learning_rate",
    "warmup_steps",
    "clip_norm",
    "validation_interval",
    "checkpoint_interval",
    "sample_length",
    "threads",
    "tune_allocator",
)
"""Options that may differ when a run is resumed: none changes its data or the weights' shapes."""

WARM_UP_STEPS = 3
"""Steps made before the measured ones, while caches and memory are cold."""


def train(
    config: TrainConfig, reporter: Reporter | None = None, clock: Clock = time.perf_counter
) -> Result:
    """Train a new model as `config` says, in a run folder of its own.

    `clock` gives seconds; only what is shown and logged about speed depends on it.

    Raises:
        TextError: the text cannot be learnt from.
        RunError: `config.run` is taken.
        DivergenceError: a loss or gradient that is not finite; the last checkpoint stays.
    """
    material = read_material(config)
    with limited_threads(config.threads):
        tuned = config.tune_allocator and allocator.tune()
        if config.minutes is not None:
            steps = steps_in(config, material, 60 * config.minutes, clock)
            config = dataclasses.replace(config, steps=steps, minutes=None)
        learner = Learner(config, material.tokenizer.vocab_size, material.split.training)
        run = checkpoint.create_run(config, material.name)
        checkpoint.write_config(run, config)
        material.tokenizer.save(run / checkpoint.TOKENIZER)
        plan = _plan(run, material, learner, tuned)
        return Session(plan, learner, material, reporter or Reporter(), clock).run_to_end()


def resume(
    run: Path,
    config: TrainConfig | None = None,
    reporter: Reporter | None = None,
    clock: Clock = time.perf_counter,
) -> Result:
    """Go on with the run in the folder `run`, from its newest checkpoint.

    `config`, where given, is the run's own with some of `CHANGEABLE` changed (more `steps`, say).

    Raises:
        RunError: no run, no whole checkpoint, nothing left to do, or a text that has changed.
        ConfigError: an option that cannot change.
    """
    saved = checkpoint.read_config(run)
    config = saved if config is None else dataclasses.replace(config, run=saved.run)
    _check_changes(saved, config)
    state = checkpoint.load_checkpoint(run)
    if state.progress.step >= config.steps:
        raise RunError(
            f"{run} has made all its {config.steps:,} steps; give a larger --steps to train it on"
        )
    material = read_material(config)
    if material.sha256 != state.progress.text_sha256:
        raise RunError(
            f"{material.name} is not the text that {run} was started with (it has changed since); "
            "start a new run"
        )
    with limited_threads(config.threads):
        tuned = config.tune_allocator and allocator.tune()
        learner = Learner(config, material.tokenizer.vocab_size, material.split.training)
        plan = _plan(run, material, learner, tuned)
        session = Session(plan, learner, material, reporter or Reporter(), clock)
        session.restore(state)
        checkpoint.write_config(run, config)
        return session.run_to_end()


def _check_changes(saved: TrainConfig, config: TrainConfig) -> None:
    for field in dataclasses.fields(config):
        before, after = getattr(saved, field.name), getattr(config, field.name)
        if before != after and field.name not in CHANGEABLE:
            raise ConfigError(
                f"--{field.name.replace('_', '-')} was {before} when the run was started and "
                f"cannot become {after}; start a new run for that"
            )


def _plan(run: Path, material: Material, learner: Learner, allocator_tuned: bool) -> Plan:
    return Plan(
        config=learner.config,
        run=run,
        text=material.name,
        characters=material.characters,
        symbols=material.tokenizer.vocab_size,
        training_tokens=len(material.split.training),
        validation_tokens=len(material.split.validation),
        parameters=learner.model.num_parameters(),
        allocator_tuned=allocator_tuned,
    )


def steps_in(config: TrainConfig, material: Material, seconds: float, clock: Clock) -> int:
    """How many steps fit into `seconds`, judged by a few of them made on a model thrown away.

    The validation is timed before the steps, on a model that cannot have diverged: whether this
    training does is found, and told, when it is made.
    """
    learner = Learner(config, material.tokenizer.vocab_size, material.split.training)
    with np.errstate(all="ignore"):
        validation = _seconds_a_validation(learner, material, clock)
        for _ in range(WARM_UP_STEPS):
            learner.gradient()
            learner.move()
        started, made = clock(), 0
        while made < 3 or clock() - started < min(2.0, seconds / 20):
            learner.gradient()
            learner.move()
            made += 1
        step = (clock() - started) / made
    return max(1, int((seconds - validation) / (step + validation / config.validation_interval)))


def _seconds_a_validation(learner: Learner, material: Material, clock: Clock) -> float:
    learner.model.next_logits(np.array([[material.opening]]))  # memory and caches are cold
    started = clock()
    if len(material.split.validation):
        evaluate(learner.model, material.split.validation, learner.config.batch_size)
    learner.model.generate([material.opening], learner.config.sample_length)
    return clock() - started
