"""Files of a run: whole or absent, and refused with a sentence where they are damaged."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tinygrad_edu import lm, text
from tinygrad_edu.lm import checkpoint
from tinygrad_edu.lm.checkpoint import join_state, load_checkpoint, split_state

MakeConfig = Callable[..., lm.TrainConfig]


@pytest.fixture
def run(make_config: MakeConfig) -> Path:
    return lm.train(make_config()).run


def test_an_optimizer_state_comes_back_as_it_was() -> None:
    state = {
        "state": {0: {"step": 3, "exp_avg": np.arange(3.0)}, 1: {}},
        "param_groups": [{"lr": 0.1, "betas": (0.9, 0.99), "params": [0, 1], "flag": None}],
        "count": np.int64(4),
    }
    arrays, plain = split_state(state)
    assert list(arrays) == ["optimizer.state.0.exp_avg"]
    back = join_state(arrays, plain)
    np.testing.assert_array_equal(back["state"][0].pop("exp_avg"), np.arange(3.0))
    assert back == {
        "state": {0: {"step": 3}, 1: {}},
        "param_groups": [{"lr": 0.1, "betas": (0.9, 0.99), "params": [0, 1], "flag": None}],
        "count": 4,
    }


def test_a_transposed_array_is_written_right(tmp_path: Path) -> None:
    array = np.arange(6.0).reshape(2, 3).T
    checkpoint.write_arrays(tmp_path / "a.safetensors", {"a": array})
    np.testing.assert_array_equal(checkpoint.read_arrays(tmp_path / "a.safetensors")["a"], array)


@pytest.mark.parametrize("failing", ["model.safetensors", "optimizer.safetensors", "state.json"])
def test_a_checkpoint_is_whole_or_absent(
    make_config: MakeConfig, run: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    before = load_checkpoint(run)
    weights = (run / "model.safetensors").read_bytes()
    write = checkpoint.write_atomically

    def fail(path: Path, content: str | bytes) -> None:
        if path.name == failing:
            raise OSError("no space left on device")
        write(path, content)

    monkeypatch.setattr(checkpoint, "write_atomically", fail)
    with pytest.raises(OSError, match="no space"):
        checkpoint.save_checkpoint(
            run, before.weights, before.optimizer, checkpoint.Progress(99, 1, 0.0, "", 0, 0)
        )
    monkeypatch.undo()
    assert load_checkpoint(run).progress == before.progress
    assert (run / "model.safetensors").read_bytes() == weights


def test_the_weights_beside_the_config_are_those_of_the_checkpoint(run: Path) -> None:
    beside = checkpoint.read_arrays(run / "model.safetensors")
    inside = load_checkpoint(run).weights
    assert beside.keys() == inside.keys()
    assert all((beside[name] == inside[name]).all() for name in beside)


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    for use in (lm.resume, lm.load_trained, lm.read_config):
        with pytest.raises(lm.RunError, match=r"is not a run folder.*config\.toml"):
            use(tmp_path / "nothing")


def test_damaged_files_are_named(run: Path) -> None:
    (run / "model.safetensors").write_bytes(b"\x05" * 40)
    with pytest.raises(lm.RunError, match=r"model\.safetensors is not a whole safetensors file"):
        lm.load_trained(run)
    (run / "model.safetensors").unlink()
    with pytest.raises(lm.RunError, match=r"model\.safetensors is missing"):
        lm.load_trained(run)
    (run / "checkpoint" / "step-00000008" / "state.json").write_text("{")
    with pytest.raises(lm.RunError, match=r"state\.json is missing or damaged"):
        load_checkpoint(run)
    shutil.rmtree(run / "checkpoint")
    with pytest.raises(lm.RunError, match="no checkpoint"):
        lm.resume(run)


def test_weights_of_another_model_are_refused(run: Path) -> None:
    config = (run / "config.toml").read_text()
    (run / "config.toml").write_text(config.replace("embed_dim = 16", "embed_dim = 32"))
    with pytest.raises(lm.RunError, match=r"does not fit the run.*16.*32"):
        lm.load_trained(run)


def test_a_trained_model_writes_the_same_for_the_same_seed(run: Path) -> None:
    trained = lm.load_trained(run)
    first = "".join(trained.write("the ", 30, seed=3))
    assert len(first) == 30
    assert "".join(trained.write("the ", 30, seed=3)) == first
    assert "".join(trained.write("the ", 30, seed=4)) != first
    assert len("".join(trained.write("", 5))) == 5


def test_a_prompt_with_unknown_symbols_names_them(run: Path) -> None:
    with pytest.raises(text.TokenizerError, match="Ω"):
        "".join(lm.load_trained(run).write("the Ω", 5))
