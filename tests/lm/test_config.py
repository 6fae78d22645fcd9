"""The options: one dataclass, one file."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinygrad_edu import lm


def test_defaults_round_trip() -> None:
    assert lm.from_toml(lm.to_toml(lm.TrainConfig())) == lm.TrainConfig()


words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
positive = st.floats(1e-300, 1e300)


@given(
    corpus=st.lists(words, min_size=1).map(tuple),
    run=st.none() | st.just(Path('a folder/é\\"x')),
    learning_rate=positive,
    weight_decay=st.floats(0, 1e300),
    minutes=st.none() | positive,
    betas=st.tuples(st.floats(0, 0.999), st.floats(0, 0.999)),
    seed=st.integers(0, 2**62),
    bias=st.booleans(),
)
def test_any_config_round_trips_exactly(**values: Any) -> None:
    config = lm.TrainConfig(**values)
    assert lm.from_toml(lm.to_toml(config)) == config


def test_every_option_is_written_under_its_name() -> None:
    config = lm.TrainConfig(run=Path("r"), minutes=1.0, min_learning_rate=0.0, warmup_steps=1)
    names = {field.name for field in dataclasses.fields(config)}
    written = set(tomllib.loads(lm.to_toml(config)))
    assert names - written == {"epochs", "flops"}, "None, as minutes takes their place"


def test_an_unknown_option_names_the_nearest() -> None:
    with pytest.raises(
        lm.ConfigError, match=r"my\.toml has an unknown option 'learing_rate'.*'learning_rate'"
    ):
        lm.from_toml("learing_rate = 0.1", source="my.toml")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("steps = 'many'", "steps = 'many'; expected a whole number"),
        ("steps = 1.5", "steps = 1.5; expected a whole number"),
        ("bias = 1", "bias = 1; expected true or false"),
        ("seed = true", "seed = True; expected a whole number"),
        ("betas = [0.9]", "expected a list of 2 numbers"),
        ("corpus = 'x'", "expected a list of strings"),
        ("steps =", "not valid TOML"),
    ],
)
def test_a_value_of_another_type_is_refused(line: str, words: str) -> None:
    with pytest.raises(lm.ConfigError, match=words.replace("[", r"\[")):
        lm.from_toml(line)


def test_whole_numbers_do_for_floats() -> None:
    config = lm.from_toml("learning_rate = 1\nmin_learning_rate = 0\n")
    assert config.learning_rate == 1.0
    assert isinstance(config.learning_rate, float)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"steps": -1}, "--steps is -1; it must be 0 or more"),
        ({"learning_rate": -1e-3}, "--learning-rate is -0.001; it must be more than 0"),
        ({"learning_rate": float("nan")}, "--learning-rate is nan"),
        ({"learning_rate": float("inf")}, "--learning-rate is inf"),
        ({"dropout": 1.0}, "--dropout is 1.0; it must be 0 or more and less than 1"),
        ({"betas": (0.9, 1.0)}, "--betas is 1.0"),
        ({"embed_dim": 30}, "--embed-dim 30 is not a multiple of --num-heads 4"),
        ({"min_learning_rate": 1.0}, "--min-learning-rate 1 is above --learning-rate 0.002"),
        ({"corpus": ()}, "--corpus is empty"),
        ({"block_size": 0}, "--block-size is 0; it must be 1 or more"),
        ({"architecture": "bert"}, "--architecture is 'bert'; it must be one of gpt, llama"),
        ({"num_kv_heads": 2}, "--num-kv-heads 2 was given for a gpt, which has no such option; "),
        ({"hidden_dim": 99}, "--hidden-dim 99 was given for a gpt.* add --architecture llama"),
        ({"tied_head": False}, "--no-tied-head was given for a gpt"),
        ({"architecture": "llama", "num_kv_heads": 3}, "--num-heads 4 is not a multiple of"),
        ({"architecture": "llama", "embed_dim": 12}, "heads of width 3; a llama's have an even"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused(option: dict[str, Any], words: str) -> None:
    with pytest.raises(lm.ConfigError, match=words):
        lm.TrainConfig(**option)


def test_a_config_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(lm.ConfigError, match=r"none\.toml cannot be read"):
        lm.read_config_file(tmp_path / "none.toml")


def test_warm_up_never_fills_a_short_run() -> None:
    assert lm.TrainConfig(steps=2000).warmup == 100
    assert lm.TrainConfig(steps=50).warmup == 5
    assert lm.TrainConfig(steps=50, warmup_steps=70).warmup == 70


def test_paths_may_be_strings_and_one_text_needs_no_tuple(tmp_path: Path) -> None:
    loose: Any = lm.TrainConfig
    assert loose(corpus="a.txt", run="r") == lm.TrainConfig(corpus=("a.txt",), run=Path("r"))
    assert loose(corpus=[Path("a.txt"), "b"]) == lm.TrainConfig(corpus=("a.txt", "b"))
    (tmp_path / "c.toml").write_text("steps = 3")
    assert lm.read_config_file(str(tmp_path / "c.toml")).steps == 3
