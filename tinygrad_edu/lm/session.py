"""One run in memory: the learner's steps, with validation, samples, checkpoints and metrics around.

A checkpoint is written only where the next step's gradient is finite, and after a validation that
was: what a run folder keeps can always be trained on. That gradient is then used by the next step,
so looking ahead costs nothing.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from tinygrad_edu.lm import checkpoint, curve, diagnosis, report, rescue, yardsticks
from tinygrad_edu.lm.config import TrainConfig, fixed_options
from tinygrad_edu.lm.data import stream
from tinygrad_edu.lm.errors import DivergenceError, RunError, SamplingError
from tinygrad_edu.lm.evaluation import evaluate_batches, window_losses
from tinygrad_edu.lm.events import EventLog
from tinygrad_edu.lm.history import History, read_history
from tinygrad_edu.lm.interrupt import Interruption
from tinygrad_edu.lm.learner import Gradient, Learner
from tinygrad_edu.lm.machine import environment, peak_resident
from tinygrad_edu.lm.material import Material
from tinygrad_edu.lm.measured import measured
from tinygrad_edu.lm.pace import Clock, Pace
from tinygrad_edu.lm.patience import Best, after
from tinygrad_edu.lm.plan import Plan
from tinygrad_edu.lm.reporting import Reporter, Result, StepReport, ValidationReport
from tinygrad_edu.lm.safetensors_files import Arrays
from tinygrad_edu.lm.samples_file import Sample, entry
from tinygrad_edu.lm.sampling import continuations
from tinygrad_edu.lm.verdict import batch_floor, verdict
from tinygrad_edu.lm.vocabulary import written_by
from tinygrad_edu.nn import StateDictError


class Session:
    """The learner, what it learns from, the run's folder (in the plan), and whom to tell."""

    about: tuple[str, ...] = (checkpoint.CONFIG, checkpoint.TOKENIZER)
    """The files that `describe` writes."""

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
        self.validated_step: int | None = None
        self.best: Best | None = None
        self.history = History()
        self.source: yardsticks.PerWindow | None = None
        self.excess: yardsticks.Excess | None = None
        self.first_step = 0
        self.resident_before = peak_resident()
        self.unlogged = ""
        self.events: EventLog | None = None

    def restore(self, state: checkpoint.Checkpoint | None) -> None:
        """Be where the checkpoint was, the logs included; without one, where every run begins."""
        if state:
            self._load(state)
            self.learner.step = self.saved_step = state.progress.step
            self.pace.before = state.progress.seconds
            self.loss = state.progress.loss
            self.validation_loss = state.progress.validation_loss
            self.first_step = state.progress.step
            self.best = Best(**state.progress.best) if state.progress.best else None
        for log, length in (
            (checkpoint.METRICS, state.progress.metrics_bytes if state else 0),
            (checkpoint.SAMPLES, state.progress.samples_bytes if state else 0),
        ):
            checkpoint.truncate(self.run / log, length)
        self.history = read_history(self.run / checkpoint.METRICS)

    def _load(self, state: checkpoint.Checkpoint) -> None:
        try:
            self.learner.load_weights(state.weights)
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
                try:
                    self._loop()
                except OSError as error:
                    raise rescue.rescued(self, error) from error
            result = self._with_report(self._result())
            self.reporter.finished(result)
            return result
        finally:
            self.reporter.closed()

    def _loop(self) -> None:
        config, learner = self.config, self.learner
        self.pace.start()
        self.events = EventLog(self.run) if config.tensorboard else None
        if self.saved_step is None:
            self.validate()
            self.save()
        elif self._due(config.validation_interval) and not self._validated():
            self.validate()  # a checkpoint that was written where the disk was full
        self._measure_yardsticks()
        while learner.step < config.steps and not self._stopping() and not self._exhausted():
            self.update()
            if self._due(config.validation_interval):
                self.validate()
            if self._due(config.checkpoint_interval) or self._exhausted():
                self.save()
        if learner.step != self.saved_step:
            self.save()
        if learner.step != self.validated_step:
            # After the checkpoint, whose logs end before it: a run that is interrupted and resumed
            # ends with the logs of one that was not.
            self.validate(sample=False, counts=False)
        with self.pace.pause():
            self._compare_with_the_source()
            if self.config.patience and self.best and not self._interrupted():
                self._publish(self.best.step)

    def _publish(self, best: int) -> None:
        """Make the weights of the best validation, that of step `best`, the run's own."""
        try:
            checkpoint.publish(self.run, checkpoint.read_best(self.run, best))
        except RunError as error:
            raise RunError(
                f"the training is at its end and saved, but the weights of the best validation, of "
                f"step {best:,}, were lost while it ran ({error}); {checkpoint.MODEL} has those of "
                "the last step"
            ) from error

    def _with_report(self, result: Result) -> Result:
        """`result` with the page of the run; where that cannot be written, all else is there."""
        if not self.config.report or result.interrupted:
            return result
        self.reporter.measuring("what is to be seen in report.html")
        lessons = self.learner.lessons
        try:
            path = report.write_report(self.run, lessons=lessons, verdict=result.verdict)
        except (OSError, RunError) as error:
            why = getattr(error, "strerror", None) or error
            said = f"{report.REPORT} could not be written: {why}."
            return replace(result, verdict=(*result.verdict, said))
        return replace(result, report=path)

    def _validated(self) -> bool:
        """Whether the logs have the validation of this step."""
        last = self.history.validations[-1:]
        return not self.learner.lessons.validation_targets or (
            bool(last) and last[0][0] == self.learner.step
        )

    def _interrupted(self) -> bool:
        return self.learner.step < self.config.steps and not self._exhausted()

    def _exhausted(self) -> bool:
        """Whether the validations have been no better for as long as patience lasts."""
        return self.best is not None and self.best.exhausted(self.config.patience)

    def _result(self) -> Result:
        stopped_early = self._exhausted() and self.learner.step < self.config.steps
        floor = batch_floor(*self.learner.batch()) if self.config.overfit_one_batch else None
        return Result(
            run=self.run,
            step=self.learner.step,
            loss=self.loss,
            validation_loss=self.validation_loss,
            seconds=self.pace.total(),
            interrupted=self._interrupted(),
            signal=self.interruption.signal,
            stopped_early=stopped_early,
            best=self.best,
            verdict=verdict(
                self.config,
                self.history,
                best=self.best,
                stopped_early=stopped_early,
                excess=self.excess,
                batch_floor=floor,
            ),
            measured=measured(
                self.plan, self.learner, self.pace, self.first_step, self.resident_before
            ),
            history=self.history,
        )

    def _measure_yardsticks(self) -> None:
        """Once a run: what its losses are compared with. (One batch read over is no comparison.)"""
        held_out = len(self.material.split.validation)
        if not held_out or self.config.overfit_one_batch:
            return
        source, known = self.material.source, self.history.yardsticks
        if source is None and known:
            return
        with self.pace.pause():
            floor = None
            if source is not None:
                self.reporter.measuring("the true probabilities of the held-out text")
                self.source = yardsticks.source_losses(source, self.material, self.config)
                floor = self.source.mean
            if known is None:
                self.reporter.measuring("n-grams of the training text, to compare with")
                known = yardsticks.measure(self.material, self.config, floor)
                self._log(**known.to_row())

    def _compare_with_the_source(self) -> None:
        """How much more the model loses than the true probabilities, window by window."""
        if self.source is None:
            return
        config = self.config
        losses = window_losses(
            self.learner.model,
            self.material.split.validation,
            config.batch_size,
            config.max_validation_tokens,
            workers=self.learner.workers,
        )
        self.excess = yardsticks.excess(yardsticks.per_window(losses), self.source)

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
        raise self._divergence(what + self._cause(), rate, gradient.norm, gradient.loss)

    def _cause(self) -> str:
        """In debug mode, where in the model the numbers stop being finite."""
        if not self.config.debug:
            return ""
        found = diagnosis.cause(self.learner)
        return f"\n{found}\n" if found else ""

    def _seconds_left(self) -> float:
        steps = self.config.steps - self.learner.step
        pauses = steps / self.config.validation_interval + steps / self.config.checkpoint_interval
        return self.pace.left(steps, pauses)

    def validate(self, *, sample: bool = True, counts: bool = True) -> None:
        """Read the held-out part, and write a sample; DivergenceError where neither is possible.

        `counts` says whether patience hears of it: it does not at Ctrl-C, where a run that goes on
        would have no validation.
        """
        with self.pace.pause():
            report = self._validation(counts)
            written = self.sample() if sample and self.config.sample_length else ""
            if written:
                text = entry(Sample(report.step, report.loss, written))
                checkpoint.append(self.run / checkpoint.SAMPLES, text)
                if self.events:
                    self.events.sample(report.step, written)
            self.validated_step = report.step
            self._draw()
            self.reporter.validated(replace(report, sample=written))
        if counts:
            self._next_gradient()
            self._log(gradient_norms=self.learner.gradient_norms())

    def _validation(self, counts: bool) -> ValidationReport:
        step, lessons = self.learner.step, self.learner.lessons
        if not lessons.validation_targets:
            return ValidationReport(step, None, None, "")
        found = evaluate_batches(
            self.learner.model,
            lessons.held_out(),
            after_batch=self._stopping,
            workers=self.learner.workers,
            token_bytes=self.material.token_bytes,
        )
        if not math.isfinite(found.loss):
            raise self._spoilt(f"the validation loss is {found.loss:g}", found.loss)
        self.validation_loss = found.loss
        if counts:
            self._remember(found.loss, found.tokens)
        self._log(
            validation_loss=found.loss,
            perplexity=found.perplexity,
            bits_per_byte=found.bits_per_byte,
            seconds=self.pace.total(),
        )
        return ValidationReport(step, found.loss, found.perplexity, "", found.bits_per_byte)

    def _remember(self, loss: float, tokens: int) -> None:
        """Let patience hear of a validation, and keep the weights if it was the best."""
        before = self.best
        self.best = after(before, self.learner.step, loss, tokens, self.config.min_delta)
        if self.best and self.best.step == self.learner.step:
            checkpoint.write_best(self.run, self.best.step, self.weights())

    def weights(self) -> Arrays:
        """What a checkpoint keeps of the model."""
        return self.learner.weights()

    def _draw(self) -> None:
        """`loss.svg`, once there is something to see."""
        if self.config.curve and self.history.losses:
            plan = self.plan
            subject = curve.Subject(
                plan.text,
                plan.symbols,
                plan.parameters,
                plan.tokens_per_step,
                self.config.model_name,
            )
            curve.write(self.run, subject, self.history)

    def sample(self) -> str:
        """Text the model writes on its own; the same seed and step give the same text."""
        ids: list[int] = []
        try:
            for new in continuations(
                written_by(self.learner.model.predictor(), self.material.tokenizer),
                np.array([[self.material.opening]]),
                max_new_tokens=self.config.sample_length,
                block_size=self.learner.model.config.block_size,
                temperature=0.8,
                generator=stream(self.config.seed, "samples", self.learner.step),
            ):
                ids += new.tolist()
                self._stopping()
        except SamplingError as error:  # the options are ours, so it is the logits
            raise self._spoilt("the logits of a sample are not all finite") from error
        return self.material.tokenizer.decode(ids)

    def describe(self, folder: Path) -> None:
        """Write what a run folder needs beside its checkpoints."""
        checkpoint.write_config(folder, self.config)
        self.material.tokenizer.save(folder / checkpoint.TOKENIZER)

    def save(self) -> None:
        """Write a checkpoint; DivergenceError where the model cannot be trained on from it."""
        learner = self.learner
        weights = self.weights()
        if not all(np.isfinite(array).all() for array in weights.values()):
            raise self._spoilt("the weights are not all finite")
        self._next_gradient()
        with self.pace.pause():
            if not all((self.run / name).exists() for name in self.about):
                self.describe(self.run)  # removed while it trained; without them nothing goes on
            progress = checkpoint.Progress(
                step=learner.step,
                seconds=self.pace.total(),
                text_sha256=self.material.sha256,
                options=fixed_options(self.config),
                metrics_bytes=checkpoint.length(self.run / checkpoint.METRICS),
                samples_bytes=checkpoint.length(self.run / checkpoint.SAMPLES),
                loss=self.loss,
                validation_loss=self.validation_loss,
                best=asdict(self.best) if self.best else None,
                environment=environment((learner.workers.count, learner.workers.kind)),
            )
            checkpoint.save_checkpoint(
                self.run, weights, learner.optimizer.state_dict(), progress,
                keep=self.config.keep_checkpoints,
            )  # fmt: skip
        self.saved_step = learner.step

    def _log(self, **values: Any) -> None:
        """One line of JSON, which knows no inf (a perplexity may be): null stands for it."""
        row = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in values.items()
        }
        whole = {"step": self.learner.step, **row}
        self.history.add(whole)
        self.unlogged = json.dumps(whole, allow_nan=False) + "\n"
        checkpoint.append(self.run / checkpoint.METRICS, self.unlogged)
        self.unlogged = ""
        if self.events:
            self.events.row(whole)

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

    def _how_to_look(self) -> str:
        if self.config.debug or self.saved_step is None:
            return ""
        return f", or see where it begins with --resume {self.run} --debug"

    def _divergence(
        self, what: str, rate: float, norm: float | None, loss: float | None
    ) -> DivergenceError:
        kept = (
            "no checkpoint has been written yet"
            if self.saved_step is None
            else f"{self.run} keeps the checkpoint of step {self.saved_step}"
        )
        return DivergenceError(
            f"{what}; {kept}; try a lower --learning-rate{self._how_to_look()}",
            step=self.learner.step,
            learning_rate=rate,
            gradient_norm=norm,
            loss=loss,
        )
