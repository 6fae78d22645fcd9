"""The training run around the learner's steps: validation, samples, checkpoints, metrics, its end.

A run ends when its steps are made, at Ctrl-C (saved, to be resumed), or at a number that is not
finite (the last checkpoint stays). A run that was interrupted and resumed ends with the same bits
as one that was not.
"""

from __future__ import annotations

import dataclasses
import json
import math
import time
from pathlib import Path

import numpy as np

from tinygrad_edu.lm import allocator, checkpoint
from tinygrad_edu.lm.config import TrainConfig
from tinygrad_edu.lm.data import stream
from tinygrad_edu.lm.errors import ConfigError, DivergenceError, RunError
from tinygrad_edu.lm.evaluation import Evaluation, evaluate
from tinygrad_edu.lm.interrupt import Interruption, limited_threads
from tinygrad_edu.lm.learner import Gradient, Learner
from tinygrad_edu.lm.material import Material, read_material
from tinygrad_edu.lm.pace import Clock, Pace
from tinygrad_edu.lm.plan import Plan
from tinygrad_edu.lm.reporting import Reporter, Result, StepReport, ValidationReport

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
        run = checkpoint.create_run(config, material.name)
        checkpoint.write_config(run, config)
        material.tokenizer.save(run / checkpoint.TOKENIZER)
        session = Session(run, config, material, tuned, reporter or Reporter(), clock)
        return session.run_to_end()


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
        session = Session(run, config, material, tuned, reporter or Reporter(), clock)
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


class Session:
    """One run in memory: the learner, what it learns from, its folder, and whom to tell."""

    def __init__(
        self,
        run: Path,
        config: TrainConfig,
        material: Material,
        allocator_tuned: bool,
        reporter: Reporter,
        clock: Clock,
    ) -> None:
        self.run = run
        self.config = config
        self.material = material
        self.reporter = reporter
        self.pace = Pace(clock)
        vocab_size = material.tokenizer.vocab_size
        self.learner = Learner(config, vocab_size, material.split.training)
        self.saved_step = -1
        self.loss: float | None = None
        self.validation: Evaluation | None = None
        self.plan = Plan(
            config=config,
            run=run,
            text=material.name,
            characters=material.characters,
            symbols=vocab_size,
            training_tokens=len(material.split.training),
            validation_tokens=len(material.split.validation),
            parameters=self.learner.model.num_parameters(),
            allocator_tuned=allocator_tuned,
        )

    def restore(self, state: checkpoint.Checkpoint) -> None:
        """Be where the checkpoint was, the logs included."""
        self.learner.model.load_state_dict(state.weights)
        self.learner.optimizer.load_state_dict(state.optimizer)
        self.learner.step = self.saved_step = state.progress.step
        self.pace.before = state.progress.seconds
        checkpoint.truncate(self.run / checkpoint.METRICS, state.progress.metrics_bytes)
        checkpoint.truncate(self.run / checkpoint.SAMPLES, state.progress.samples_bytes)

    def run_to_end(self) -> Result:
        """All steps that are left, or as many as Ctrl-C leaves time for."""
        try:
            self.reporter.planned(self.plan, self.learner.step)
            with Interruption() as interruption:
                self._loop(interruption)
            result = Result(
                run=self.run,
                step=self.learner.step,
                loss=self.loss,
                validation_loss=self.validation.loss if self.validation else None,
                seconds=self.pace.total(),
                interrupted=self.learner.step < self.config.steps,
            )
            self.reporter.finished(result)
            return result
        finally:
            self.reporter.closed()

    def _loop(self, interruption: Interruption) -> None:
        config, learner = self.config, self.learner
        self.pace.start()
        if learner.step == 0:
            self.validate()
            self.save()
            self.pace.pause()
        while learner.step < config.steps and not interruption.requested:
            self.update()
            to_validate = self._due(config.validation_interval)
            to_save = self._due(config.checkpoint_interval)
            if to_validate:
                self.validate()
            if to_save:
                self.save()
            if to_validate or to_save:
                self.pace.pause()
        if learner.step != self.saved_step:
            self.save()

    def _due(self, interval: int) -> bool:
        step = self.learner.step
        return step % interval == 0 or step == self.config.steps

    def update(self) -> None:
        """One step, told and logged; none where the loss or the gradient is not finite."""
        rate = self.learner.learning_rate()
        gradient = self.learner.gradient()
        if not gradient.finite:
            raise self._divergence(rate, gradient)
        self.learner.move()
        step = self.learner.step
        self.pace.tick()
        self.loss = gradient.loss
        self._log(
            loss=gradient.loss,
            learning_rate=rate,
            gradient_norm=gradient.norm,
            seconds=self.pace.total(),
        )
        report = StepReport(
            step=step,
            steps=self.config.steps,
            loss=gradient.loss,
            learning_rate=rate,
            gradient_norm=gradient.norm,
            tokens_per_second=self.pace.rate() * self.plan.tokens_per_step,
            seconds_left=self._seconds_left(),
        )
        self.reporter.stepped(report)

    def _seconds_left(self) -> float:
        steps = self.config.steps - self.learner.step
        interval = min(self.config.validation_interval, self.config.checkpoint_interval)
        return self.pace.left(steps, steps / interval)

    def validate(self) -> None:
        """Read the whole held-out part, and write a sample."""
        held_out = self.material.split.validation
        step = self.learner.step
        heading = f"step {step}"
        if len(held_out):
            found = evaluate(self.learner.model, held_out, self.config.batch_size)
            self.validation = found
            heading += f", validation loss {found.loss:.4f}"
            self._log(
                validation_loss=found.loss,
                perplexity=found.perplexity,
                seconds=self.pace.total(),
            )
        sample = self.sample() if self.config.sample_length else ""
        if sample:
            checkpoint.append(self.run / checkpoint.SAMPLES, f"--- {heading}\n{sample}\n\n")
        loss = self.validation.loss if self.validation else None
        perplexity = self.validation.perplexity if self.validation else None
        self.reporter.validated(ValidationReport(step, loss, perplexity, sample))

    def sample(self) -> str:
        """Text the model writes on its own; the same seed and step give the same text."""
        ids = self.learner.model.generate(
            [self.material.opening],
            self.config.sample_length,
            temperature=0.8,
            generator=stream(self.config.seed, "samples", self.learner.step),
        )
        written: str = self.material.tokenizer.decode(ids[1:].tolist())
        return written

    def save(self) -> None:
        """Write a checkpoint, unless the weights are no longer numbers."""
        learner = self.learner
        weights = {name: value.numpy() for name, value in learner.model.state_dict().items()}
        if not all(np.isfinite(array).all() for array in weights.values()):
            raise self._divergence(learner.learning_rate(), Gradient(math.nan, math.nan))
        progress = checkpoint.Progress(
            step=learner.step,
            seed=self.config.seed,
            seconds=self.pace.total(),
            text_sha256=self.material.sha256,
            metrics_bytes=checkpoint.length(self.run / checkpoint.METRICS),
            samples_bytes=checkpoint.length(self.run / checkpoint.SAMPLES),
        )
        checkpoint.save_checkpoint(self.run, weights, learner.optimizer.state_dict(), progress)
        self.saved_step = learner.step

    def _log(self, **values: float) -> None:
        row = json.dumps({"step": self.learner.step, **values})
        checkpoint.append(self.run / checkpoint.METRICS, row + "\n")

    def _divergence(self, rate: float, gradient: Gradient) -> DivergenceError:
        step = self.learner.step
        return DivergenceError(
            f"step {step + 1} gave a loss of {gradient.loss:g} and a gradient norm of "
            f"{gradient.norm:g} at learning rate {rate:.3g}, so it was not made; {self.run} keeps "
            f"the checkpoint of step {self.saved_step}; try a lower --learning-rate",
            step=step,
            learning_rate=rate,
            gradient_norm=gradient.norm,
            loss=gradient.loss,
        )


def steps_in(config: TrainConfig, material: Material, seconds: float, clock: Clock) -> int:
    """How many steps fit into `seconds`, judged by a few of them made on a model thrown away."""
    learner = Learner(config, material.tokenizer.vocab_size, material.split.training)
    for _ in range(WARM_UP_STEPS):
        learner.gradient()
        learner.move()
    started, made = clock(), 0
    while made < 3 or clock() - started < min(2.0, seconds / 20):
        learner.gradient()
        learner.move()
        made += 1
    step = (clock() - started) / made
    started = clock()
    if len(material.split.validation):
        evaluate(learner.model, material.split.validation, config.batch_size)
    learner.model.generate([material.opening], config.sample_length)
    validation = clock() - started
    return max(1, int((seconds - validation) / (step + validation / config.validation_interval)))
