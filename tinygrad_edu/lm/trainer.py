"""Begins a training run, or goes on with one.

A run ends when its steps are made, at Ctrl-C (saved, to be resumed), or at a number that is not
finite (the last checkpoint stays). A run that was interrupted and resumed ends with the same bits
as one that was not.
"""

from __future__ import annotations

import dataclasses
import time
from contextlib import closing
from pathlib import Path

import numpy as np

from tinygrad_edu import text
from tinygrad_edu.lm import allocator, checkpoint
from tinygrad_edu.lm.config import TrainConfig
from tinygrad_edu.lm.cost import parameters_by_group, step_cost
from tinygrad_edu.lm.errors import ConfigError, RunError
from tinygrad_edu.lm.evaluation import evaluate_batches
from tinygrad_edu.lm.finetune_config import FinetuneConfig
from tinygrad_edu.lm.going_on import newest_state, remarks
from tinygrad_edu.lm.interrupt import limited_threads
from tinygrad_edu.lm.learner import Learner, model_config, new_model
from tinygrad_edu.lm.lessons import steps_for
from tinygrad_edu.lm.lock import held
from tinygrad_edu.lm.machine import blas
from tinygrad_edu.lm.material import Material, anchored, read_material
from tinygrad_edu.lm.pace import Clock
from tinygrad_edu.lm.plan import Plan
from tinygrad_edu.lm.reporting import Reporter, Result
from tinygrad_edu.lm.resuming import changed_rate, check_left, checked
from tinygrad_edu.lm.session import Session

WARM_UP_STEPS = 3
"""Steps made before the measured ones, while caches and memory are cold."""


def train(
    config: TrainConfig, reporter: Reporter | None = None, clock: Clock = time.perf_counter
) -> Result:
    """Train a new model as `config` says, in a run folder of its own.

    `clock` gives seconds; only what is shown and logged about speed depends on it.

    Raises:
        TextError: the text cannot be learnt from.
        RunError: `config.run` is taken, by a run or by another process.
        DivergenceError: a loss or gradient that is not finite; the last checkpoint stays.
    """
    if isinstance(config, FinetuneConfig):
        raise ConfigError("these are the options of a fine-tuning run; give them to finetune")
    material = read_material(config)
    with limited_threads(1):
        tuned = config.tune_allocator and allocator.tune()
        config = limited(config, material, clock)
        # As they are now: another directory, or other steps, must not change them on resume.
        config = dataclasses.replace(
            config, corpus=anchored(config.corpus), warmup_steps=config.warmup
        )
        learner = _learner(config, material)
        with closing(learner), checkpoint.new_run(config, material.name) as run:
            checkpoint.write_config(run, config)
            material.tokenizer.save(run / checkpoint.TOKENIZER)
            plan = _plan(run, material, learner, tuned)
            return Session(plan, learner, material, reporter or Reporter(), clock).run_to_end()


def resume(
    run: str | Path,
    config: TrainConfig | None = None,
    reporter: Reporter | None = None,
    clock: Clock = time.perf_counter,
) -> Result:
    """Go on with the run in the folder `run`, from its newest checkpoint.

    A run that was stopped before its first checkpoint begins at step 0: it had learnt nothing yet,
    and everything in it is a function of its seed.

    `config`, where given, is the run's own with some of `lm.config.CHANGEABLE` changed: more
    `steps`, say, or a `corpus` that has moved. The learning rate is a function of these options and
    of the step, so with other ones it may jump; the plan says so.

    Raises:
        RunError: no run, no whole checkpoint, nothing left to do, a text that has changed or is not
            there, or a folder in which another process trains.
        ConfigError: an option that cannot change.
    """
    run = Path(run)
    # Read before it is locked: no lock is to be left in a folder that is no run.
    if isinstance(checkpoint.read_config(run), FinetuneConfig):
        raise RunError(
            f"{run} is a fine-tuning run; go on with it with tinygrad-edu finetune --resume {run}"
        )
    with held(run):
        return _resume(run, config, reporter or Reporter(), clock)


def _resume(run: Path, config: TrainConfig | None, reporter: Reporter, clock: Clock) -> Result:
    saved = checkpoint.read_config(run)
    saved = dataclasses.replace(saved, warmup_steps=saved.warmup)
    state = newest_state(run)
    progress = state.progress if state else None
    config = checked(run, saved, config or saved, progress)
    material = _same_material(run, saved, config, progress)
    config = limited(config, material, clock)
    check_left(run, config, progress)
    config = dataclasses.replace(config, corpus=anchored(config.corpus))
    with limited_threads(1):
        tuned = config.tune_allocator and allocator.tune()
        learner = _learner(config, material)
        with closing(learner):
            plan = _plan(run, material, learner, tuned)
            plan = dataclasses.replace(
                plan, changed_rate=changed_rate(saved, config, progress),
                remarks=tuple(remarks(state, run, plan.workers)),
            )  # fmt: skip
            session = Session(plan, learner, material, reporter, clock)
            session.restore(state)
            checkpoint.write_config(run, config)
            material.tokenizer.save(run / checkpoint.TOKENIZER)
            return session.run_to_end()


def _same_material(
    run: Path, saved: TrainConfig, config: TrainConfig, progress: checkpoint.Progress | None
) -> Material:
    """The text that the run was started with, wherever it lies now."""
    # Its own tokenizer: a file that the config names may have changed since.
    kept = run / checkpoint.TOKENIZER
    own = None if saved.tokenizer == "characters" else text.load_tokenizer(kept)
    try:
        material = read_material(config, own)
    except text.CorpusError as error:
        if config.corpus != saved.corpus:
            raise
        raise RunError(
            f"the text of {run} cannot be read ({error}); where it has moved, name it with --corpus"
        ) from error
    if progress and material.sha256 != progress.text_sha256:
        raise RunError(
            f"{material.name} is not the text that {run} was started with, or it has changed "
            "since; name that text with --corpus, or start a new run"
        )
    if kept.exists() and text.load_tokenizer(kept) != material.tokenizer:
        raise RunError(
            f"{material.name} has another vocabulary than {run} was started with; name the text of "
            "that run with --corpus, or start a new run"
        )
    return material


def _plan(run: Path, material: Material, learner: Learner, allocator_tuned: bool) -> Plan:
    return Plan(
        config=learner.config,
        run=run,
        text=material.name,
        characters=material.characters,
        symbols=material.tokenizer.vocab_size,
        training_tokens=learner.lessons.training_targets,
        validation_tokens=len(material.split.validation),
        groups=parameters_by_group(learner.model),
        cost=step_cost(learner.model.config, learner.config.batch_size),
        workers=(learner.workers.count, learner.workers.kind),
        blas=blas(),
        allocator_tuned=allocator_tuned,
    )


def _learner(config: TrainConfig, material: Material) -> Learner:
    model = new_model(config, material.tokenizer.vocab_size)
    return Learner(config, model, material.lessons(config))


def limited(config: TrainConfig, material: Material, clock: Clock) -> TrainConfig:
    """The config with `steps` in place of epochs, minutes or FLOPs: at least one, and as many as
    stay within it (epochs: as make it whole).

    Raises:
        ConfigError: fewer FLOPs than one step takes.
    """
    steps = config.steps
    if config.minutes is not None:
        steps = steps_in(config, material, 60 * config.minutes, clock)
    elif config.epochs is not None:
        targets = material.lessons(config).training_targets
        steps = steps_for(config, targets, config.epochs)
    elif config.flops is not None:
        cost = step_cost(model_config(config, material.tokenizer.vocab_size), config.batch_size)
        a_step = config.accumulate * (cost.forward_flops + cost.backward_flops)
        steps = int(config.flops // a_step)
        if not steps:
            raise ConfigError(
                f"--flops {config.flops:.3g} is less than the {a_step:.3g} of one step; give more, "
                "or a smaller model or batch"
            )
    return dataclasses.replace(config, steps=steps, epochs=None, minutes=None, flops=None)


def steps_in(config: TrainConfig, material: Material, seconds: float, clock: Clock) -> int:
    """How many steps fit into `seconds`, judged by a few of them made on a model thrown away.

    The validation is timed before the steps, on a model that cannot have diverged: whether this
    training does is found, and told, when it is made.
    """
    learner = _learner(config, material)
    with closing(learner), np.errstate(all="ignore"):
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
    if learner.lessons.validation_targets:
        evaluate_batches(
            learner.model, learner.lessons.held_out(), workers=learner.workers
        )
    learner.model.generate([material.opening], learner.config.sample_length)
    return clock() - started
