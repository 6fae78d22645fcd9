"""How long a run goes on: steps, epochs, minutes or FLOPs; and its learning rate by name."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from lm.recording import Recorder

from tinygrad_edu import lm
from tinygrad_edu.lm.learner import schedule_of

MakeConfig = Callable[..., lm.TrainConfig]


def test_epochs_become_steps_that_read_the_text_as_often(make_config: MakeConfig) -> None:
    recorder = Recorder()
    result = lm.train(make_config(epochs=0.5), recorder)
    assert result.step == 29, "half of 1,800 tokens, 32 a step, rounded up"
    assert recorder.plans[0].epochs >= 0.5
    assert lm.read_config(result.run).steps == 29
    assert lm.read_config(result.run).epochs is None


def test_flops_become_as_many_steps_as_they_pay_for(make_config: MakeConfig) -> None:
    recorder = Recorder()
    lm.train(make_config(steps=1), recorder)
    a_step = recorder.plans[0].step_flops
    run = lm.train(make_config(run=make_config().run.parent / "b", flops=3.9 * a_step)).run
    assert lm.read_config(run).steps == 3
    doubled = make_config(run=run.parent / "c", flops=3.9 * a_step, accumulate=2)
    assert lm.read_config(lm.train(doubled).run).steps == 1


def test_fewer_flops_than_a_step_takes_are_refused(make_config: MakeConfig) -> None:
    config = make_config(flops=10.0)
    with pytest.raises(lm.ConfigError, match=r"--flops 10 is less than the .* of one step"):
        lm.train(config)
    assert config.run is not None and not config.run.exists()


def test_two_limits_are_refused(make_config: MakeConfig) -> None:
    with pytest.raises(lm.ConfigError, match="--epochs and --flops were given"):
        make_config(epochs=1.0, flops=1e9)


def test_a_run_goes_on_to_more_epochs(make_config: MakeConfig) -> None:
    import dataclasses

    run = lm.train(make_config(epochs=0.1)).run
    more = dataclasses.replace(lm.read_config(run), epochs=0.2)
    assert lm.resume(run, more).step == 12
    with pytest.raises(lm.RunError, match="12 steps already"):
        lm.resume(run, dataclasses.replace(lm.read_config(run), epochs=0.1))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("constant", [0.5, 1.0, 1.0, 1.0, 1.0, 1.0]),
        ("linear", [0.5, 1.0, 1.0 - 4 / 9 * 0.8, 1.0 - 7 / 9 * 0.8, 0.2, 0.2]),
        ("wsd", [0.5, 1.0, 1.0, 1.0, 0.2, 0.2]),
    ],
)
def test_schedules_by_name(make_config: MakeConfig, name: str, expected: list[float]) -> None:
    """At 0, the end of the warm-up, in the middle, before wsd's decay, at the end and beyond."""
    config = make_config(
        schedule=name, steps=10, warmup_steps=1, learning_rate=1.0, min_learning_rate=0.2,
        decay_fraction=0.2,
    )  # fmt: skip
    schedule = schedule_of(config)
    assert [schedule(step) for step in (0, 1, 5, 8, 10, 11)] == pytest.approx(expected)
    if name == "wsd":
        assert schedule(9) == pytest.approx(0.6), "half of the way down"


def test_a_longer_wsd_run_has_the_same_rates_up_to_the_decay(make_config: MakeConfig) -> None:
    options = {"schedule": "wsd", "warmup_steps": 3}
    short, long = (schedule_of(make_config(steps=s, **options)) for s in (50, 500))
    assert [short(s) for s in range(40)] == [long(s) for s in range(40)]


@pytest.mark.parametrize(("warmup", "steps"), [(10, 10), (20, 10), (0, 0), (0, 1), (5, 1)])
@pytest.mark.parametrize("name", ["constant", "cosine", "linear", "wsd"])
def test_a_warm_up_as_long_as_the_run_is_cut_off(
    make_config: MakeConfig, name: str, warmup: int, steps: int
) -> None:
    schedule = schedule_of(make_config(schedule=name, steps=steps, warmup_steps=warmup))
    assert all(0 < schedule(step) <= 1e-2 for step in range(steps + 2))


@pytest.mark.parametrize(
    ("option", "value"), [("schedule", "cubic"), ("order", "random"), ("architecture", "bert")]
)
def test_a_name_that_is_none_is_refused_with_those_that_are(
    make_config: MakeConfig, option: str, value: str
) -> None:
    with pytest.raises(lm.ConfigError, match=f"--{option} is '{value}'; it must be one of "):
        make_config(**{option: value})
