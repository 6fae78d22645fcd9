"""What a run that goes on has to be asked first: with which options, and is anything left to do."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TypeVar

from tinygrad_edu.lm import checkpoint
from tinygrad_edu.lm.config import TrainConfig, fixed_options, shown
from tinygrad_edu.lm.errors import ConfigError, RunError
from tinygrad_edu.lm.learner import schedule_of
from tinygrad_edu.lm.patience import Best

Config = TypeVar("Config", bound=TrainConfig)


def changed_rate(
    saved: TrainConfig, config: TrainConfig, progress: checkpoint.Progress | None
) -> tuple[float, float] | None:
    """The learning rate that the next step would have had, and the one it has; None where they are
    the same to three digits.
    """
    step = progress.step if progress else 0
    before, now = schedule_of(saved)(step), schedule_of(config)(step)
    return (before, now) if f"{before:.3g}" != f"{now:.3g}" else None


def checked(
    run: Path, saved: TrainConfig, config: Config, progress: checkpoint.Progress | None
) -> Config:
    """`config` for going on with `run`; ConfigError or RunError where it is none."""
    if config.run is not None and config.run.resolve() != run.resolve():
        raise ConfigError(
            f"--run {config.run} was given with --resume {run}; a run goes on in its own folder: "
            "leave --run out, or copy the folder and resume the copy"
        )
    if config.minutes is not None:
        raise ConfigError(
            "--minutes was given with --resume; a run goes on to a number of steps: give --steps, "
            "or --epochs or --flops, which give one"
        )
    _check_fixed(run, saved, config, progress)
    warmup = saved.warmup if config.warmup_steps is None else config.warmup_steps
    return dataclasses.replace(config, run=None, warmup_steps=warmup)


def check_left(run: Path, config: TrainConfig, progress: checkpoint.Progress | None) -> None:
    """RunError where there is nothing left to do."""
    made = progress.step if progress else 0
    if progress and made >= config.steps:
        all_of_them = f"all its {made:,} steps"
        more = f"{made:,} steps already, more than --steps {config.steps:,}"
        raise RunError(
            f"{run} has made {all_of_them if made == config.steps else more}; give a larger "
            "--steps to train it on"
        )
    best = Best(**progress.best) if progress and progress.best else None
    if best and best.exhausted(config.patience):
        raise RunError(
            f"{run} was stopped by its patience: {best.waited} validations since step "
            f"{best.step:,} were no better; give a larger --patience than {config.patience}, or 0, "
            "to train it on"
        )


def _check_fixed(
    run: Path, saved: TrainConfig, config: TrainConfig, progress: checkpoint.Progress | None
) -> None:
    """Neither the command line nor an edited config.toml may change what a run keeps for good."""
    in_file = fixed_options(saved)
    started_with = progress.options if progress else in_file
    for name, now in fixed_options(config).items():
        before = started_with.get(name, now)
        if before == now:
            continue
        if now == in_file[name]:
            raise ConfigError(
                f"{run / checkpoint.CONFIG} has {name} = {shown(now)}, but the run was started "
                f"with {shown(before)}; put that back, or start a new run"
            )
        raise ConfigError(
            f"--{name.replace('_', '-')} was {shown(before)} when the run was started and "
            f"cannot become {shown(now)}; start a new run for that"
        )
