"""One run in memory: the learner's steps, with validation, samples, checkpoints and metrics around.

A checkpoint is written only where the next step's gradient is finite, and after a validation that
was: what a run folder keeps can always be trained on. That gradient is then used by the next step,
so looking ahead costs nothing.
"""

from __future__ import annotations

import json
import math

import numpy as np

from tinygrad_edu.lm import checkpoint
from tinygrad_edu.lm.config import TrainConfig, fixed_options
from tinygrad_edu.lm.data import stream
from tinygrad_edu.lm.errors import DivergenceError, RunError, SamplingError
from tinygrad_edu.lm.evaluation import evaluate
from tinygrad_edu.lm.interrupt import Interruption
from tinygrad_edu.lm.learner import Gradient, Learner
from tinygrad_edu.lm.material import Material
from tinygrad_edu.lm.pace import Clock, Pace
from tinygrad_edu.lm.plan import Plan
from tinygrad_edu.lm.reporting import Reporter, Result, StepReport, ValidationReport
from tinygrad_edu.nn import StateDictError


class Session:
    """The learner, what it learns from, the run's folder (in the plan), and whom to tell."""

    def __init__(
        self, plan: Plan, learner: Learner, material: Material, reporter: Reporter, clock: Clock
    ) -> None:
        self.plan = plan
        self.run = plan.run
        self.config: TrainConfig = plan.config
        self.learner = learner
        self.material = material
        self.reporter = reporter
        self.pace = Pace(clock)
        self.interruption = Interruption()
        self.acknowledged = False
        self.saved_step: int | None = None
        self.last: Gradient | None = None
        self.loss: float | None = None
        self.validation_loss: float | None = None

    def restore(self, state: checkpoint.Checkpoint | None) -> None:
        """Be where the checkpoint was, the logs included; without one, where every run begins."""
        if state:
            self._load(state)
            self.learner.step = self.saved_step = state.progress.step
            self.pace.before = state.progress.seconds
            self.loss = state.progress.loss
            self.validation_loss = state.progress.validation_loss
        for log, length in (
            (checkpoint.METRICS, state.progress.metrics_bytes if state else 0),
            (checkpoint.SAMPLES, state.progress.samples_bytes if state else 0),
        ):
            checkpoint.truncate(self.run / log, length)

    def _load(self, state: checkpoint.Checkpoint) -> None:
        try:
            self.learner.model.load_state_dict(state.weights)
            self.learner.optimizer.load_state_dict(state.optimizer)
        except (StateDictError, ValueError, KeyError) as error:
            raise RunError(
                f"the checkpoint of {self.run} does not fit its options: {error}; start a new run"
            ) from error

    def run_to_end(self) -> Result:
        """All steps that are left, or as many as Ctrl-C leaves time for."""
        try:
            self.reporter.planned(self.plan, self.learner.step)
            # What overflows is found by looking at the numbers, and told once, as a divergence.
            with self.interruption, np.errstate(all="ignore"):
                self._loop()
            result = Result(
                run=self.run,
                step=self.learner.step,
                loss=self.loss,
                validation_loss=self.validation_loss,
                seconds=self.pace.total(),
                interrupted=self.learner.step < self.config.steps,
            )
            self.reporter.finished(result)
            return result
        finally:
            self.reporter.closed()

    def _loop(self) -> None:
        config, learner = self.config, self.learner
        self.pace.start()
        if self.saved_step is None:
            self.validate()
            self.save()
        while learner.step < config.steps and not self._stopping():
            self.update()
            if self._due(config.validation_interval):
                self.validate()
            if self._due(config.checkpoint_interval):
                self.save()
        if learner.step != self.saved_step:
            self.save()

    def _stopping(self) -> bool:
        """Whether Ctrl-C was pressed; the first time it is seen, that is told.

        It is asked within a validation too, which may take a while and is finished first: a run
        that was interrupted logs what one that was not logs.
        """
        requested = self.interruption.requested
        if requested and not self.acknowledged:
            self.acknowledged = True
            self.reporter.stopping()
        return requested

    def _due(self, interval: int) -> bool:
        step = self.learner.step
        return step % interval == 0 or step == self.config.steps

    def update(self) -> None:
        """One step, told and logged; none where the loss or the gradient is not finite."""
        rate = self.learner.learning_rate()
        gradient = self.last = self._next_gradient()
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

    def _next_gradient(self) -> Gradient:
        """That of the step to be made next, or DivergenceError where it is not finite."""
        learner = self.learner
        gradient = learner.gradient()
        if gradient.finite:
            return gradient
        found = f"a loss of {gradient.loss:g} and a gradient norm of {gradient.norm:g}"
        rate = learner.learning_rate()
        if learner.step < self.config.steps:
            what = f"step {learner.step + 1} gave {found} at learning rate {rate:.3g}, so it was "
            what += "not made"
        else:
            what = f"the model of the last step, {learner.step}, gives {found} on one batch more"
        raise self._divergence(what, rate, gradient.norm, gradient.loss)

    def _seconds_left(self) -> float:
        steps = self.config.steps - self.learner.step
        pauses = steps / self.config.validation_interval + steps / self.config.checkpoint_interval
        return self.pace.left(steps, pauses)

    def validate(self) -> None:
        """Read the held-out part, and write a sample; DivergenceError where neither is possible."""
        with self.pace.pause():
            held_out = self.material.split.validation
            step = self.learner.step
            heading = f"step {step}"
            perplexity = None
            if len(held_out):
                found = evaluate(
                    self.learner.model,
                    held_out,
                    self.config.batch_size,
                    self.config.max_validation_tokens,
                    after_batch=self._stopping,
                )
                if not math.isfinite(found.loss):
                    raise self._spoilt(f"the validation loss is {found.loss:g}", found.loss)
                self.validation_loss, perplexity = found.loss, found.perplexity
                heading += f", validation loss {found.loss:.4f}"
                self._log(
                    validation_loss=found.loss,
                    perplexity=perplexity,
                    seconds=self.pace.total(),
                )
            sample = self.sample() if self.config.sample_length else ""
            if sample:
                checkpoint.append(self.run / checkpoint.SAMPLES, f"--- {heading}\n{sample}\n\n")
            loss = self.validation_loss if len(held_out) else None
            self.reporter.validated(ValidationReport(step, loss, perplexity, sample))

    def sample(self) -> str:
        """Text the model writes on its own; the same seed and step give the same text."""
        ids: list[int] = []
        try:
            for new in self.learner.model.stream(
                np.array([[self.material.opening]]),
                self.config.sample_length,
                temperature=0.8,
                generator=stream(self.config.seed, "samples", self.learner.step),
            ):
                ids += new.tolist()
                self._stopping()
        except SamplingError as error:  # the options are ours, so it is the logits
            raise self._spoilt("the logits of a sample are not all finite") from error
        return self.material.tokenizer.decode(ids)

    def save(self) -> None:
        """Write a checkpoint; DivergenceError where the model cannot be trained on from it."""
        learner = self.learner
        weights = {name: value.numpy() for name, value in learner.model.state_dict().items()}
        if not all(np.isfinite(array).all() for array in weights.values()):
            raise self._spoilt("the weights are not all finite")
        self._next_gradient()
        with self.pace.pause():
            progress = checkpoint.Progress(
                step=learner.step,
                seconds=self.pace.total(),
                text_sha256=self.material.sha256,
                options=fixed_options(self.config),
                metrics_bytes=checkpoint.length(self.run / checkpoint.METRICS),
                samples_bytes=checkpoint.length(self.run / checkpoint.SAMPLES),
                loss=self.loss,
                validation_loss=self.validation_loss,
            )
            checkpoint.save_checkpoint(self.run, weights, learner.optimizer.state_dict(), progress)
        self.saved_step = learner.step

    def _log(self, **values: float) -> None:
        """One line of JSON, which knows no inf (a perplexity may be): null stands for it."""
        row = {name: value if math.isfinite(value) else None for name, value in values.items()}
        line = json.dumps({"step": self.learner.step, **row}, allow_nan=False)
        checkpoint.append(self.run / checkpoint.METRICS, line + "\n")

    def _spoilt(self, what: str, loss: float | None = None) -> DivergenceError:
        """The error for a model that the steps made so far have spoilt."""
        step = self.learner.step
        rate = self.learner.schedule(max(0, step - 1))
        norm = self.last.norm if self.last else None
        known = f"learning rate {rate:.3g}"
        if norm is not None:
            known += f", gradient norm {norm:.3g}"
        when = f"after step {step} ({known})" if step else "before the first step"
        return self._divergence(f"{when} {what}", rate, norm, loss)

    def _divergence(
        self, what: str, rate: float, norm: float | None, loss: float | None
    ) -> DivergenceError:
        kept = (
            "no checkpoint has been written yet"
            if self.saved_step is None
            else f"{self.run} keeps the checkpoint of step {self.saved_step}"
        )
        return DivergenceError(
            f"{what}; {kept}; try a lower --learning-rate",
            step=self.learner.step,
            learning_rate=rate,
            gradient_norm=norm,
            loss=loss,
        )
