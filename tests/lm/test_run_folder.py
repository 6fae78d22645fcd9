"""Files of a run: whole or absent, and refused with a sentence where they are damaged."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lm.recording import Killed

from tinygrad_edu import lm, text
from tinygrad_edu.lm import checkpoint, material, safetensors_files
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

    for module in (checkpoint, safetensors_files):
        monkeypatch.setattr(module, "write_atomically", fail)
    with pytest.raises(OSError, match="no space"):
        checkpoint.save_checkpoint(
            run, before.weights, before.optimizer, replace(before.progress, step=99)
        )
    monkeypatch.undo()
    assert load_checkpoint(run).progress == before.progress
    assert (run / "model.safetensors").read_bytes() == weights


@pytest.mark.parametrize("killed_at", ["state.json", "model.safetensors"])
def test_saving_a_step_again_never_removes_its_only_copy(
    run: Path, monkeypatch: pytest.MonkeyPatch, killed_at: str
) -> None:
    before = load_checkpoint(run)
    again = {name: array + 1 for name, array in before.weights.items()}
    write, rename = checkpoint.write_atomically, os.replace

    def fail(path: Path, content: str | bytes) -> None:
        if path == run / killed_at or path.name == killed_at == "state.json":
            raise Killed
        write(path, content)

    def watched(source: Path, target: Path) -> None:
        assert load_checkpoint(run).progress == before.progress
        rename(source, target)

    with monkeypatch.context() as patch:
        for module in (checkpoint, safetensors_files):
            patch.setattr(module, "write_atomically", fail)
        patch.setattr(os, "replace", watched)
        with pytest.raises(Killed):
            checkpoint.save_checkpoint(run, again, before.optimizer, before.progress)
    kept = load_checkpoint(run).weights
    expected = before.weights if killed_at == "state.json" else again
    assert all((kept[name] == expected[name]).all() for name in kept)

    checkpoint.save_checkpoint(run, again, before.optimizer, before.progress)
    assert len(list((run / "checkpoint").glob("step-*"))) == 1
    kept = load_checkpoint(run).weights
    assert all((kept[name] == again[name]).all() for name in kept)


def without_digests(folder: Path) -> None:
    """A checkpoint that someone made by hand: nothing says what its files were."""
    state = json.loads((folder / "state.json").read_text())
    del state["sha256"]
    (folder / "state.json").write_text(json.dumps(state))


def test_an_optimizer_state_without_an_array_is_refused(make_config: MakeConfig) -> None:
    run = lm.train(make_config(keep_checkpoints=1)).run
    path = run / "checkpoint" / "step-00000008" / "optimizer.safetensors"
    without_digests(path.parent)
    arrays = checkpoint.read_arrays(path)
    name, array = arrays.popitem()
    checkpoint.write_arrays(path, arrays)
    with pytest.raises(lm.RunError, match=rf"optimizer\.safetensors lacks '{name}'"):
        lm.resume(run, make_config(steps=9))
    checkpoint.write_arrays(path, {**arrays, name: np.zeros((3, 3))})
    with pytest.raises(lm.RunError, match=r"does not fit its options.*\(3, 3\)"):
        lm.resume(run, make_config(steps=9))
    checkpoint.write_arrays(path, {**arrays, name: array})
    weights = path.with_name("model.safetensors")
    checkpoint.write_arrays(weights, {"other": array})
    with pytest.raises(lm.RunError, match=r"does not fit its options.*other"):
        lm.resume(run, make_config(steps=9))


def test_the_weights_beside_the_config_are_those_of_the_checkpoint(run: Path) -> None:
    beside = checkpoint.read_arrays(run / "model.safetensors")
    inside = load_checkpoint(run).weights
    assert beside.keys() == inside.keys()
    assert all((beside[name] == inside[name]).all() for name in beside)


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    for use in (lm.resume, lm.load_trained, lm.read_config):
        with pytest.raises(lm.RunError, match=r"is not a run folder"):
            use(tmp_path / "nothing")


def test_damaged_files_are_named(run: Path) -> None:
    (run / "model.safetensors").write_bytes(b"\x05" * 40)
    with pytest.raises(lm.RunError, match=r"model\.safetensors is not a whole safetensors file"):
        lm.load_trained(run)
    for folder in (run / "checkpoint").glob("step-*"):
        (folder / "state.json").write_text("{")
    with pytest.raises(lm.RunError, match=r"state\.json is missing or damaged"):
        load_checkpoint(run)
    shutil.rmtree(run / "checkpoint")
    with pytest.raises(lm.RunError, match="no checkpoint"):
        lm.resume(run)
    (run / "model.safetensors").unlink()
    with pytest.raises(lm.RunError, match=r"model\.safetensors is missing"):
        lm.load_trained(run)


def test_damaged_weights_are_told_with_those_that_are_whole(run: Path) -> None:
    path = run / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    with pytest.raises(lm.RunError, match=r"own: copy .*step-00000008.model") as caught:
        lm.load_trained(run)
    copied = str(caught.value).partition("own: copy ")[2].partition(" to ")[0]
    path.write_bytes(Path(copied).read_bytes())
    assert lm.load_trained(run).model and path.read_bytes() == whole


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


def test_a_run_folder_may_be_a_string(run: Path, make_config: MakeConfig) -> None:
    assert lm.read_config(str(run)).steps == 8
    assert lm.load_trained(str(run)).config.steps == 8
    assert lm.resume(str(run), make_config(run=str(run), steps=9)).step == 9


@pytest.mark.parametrize("content", ["the cat\n", "zebra crossing"])
def test_samples_of_training_and_an_empty_prompt_begin_alike(
    make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    (tmp_path / "t.txt").write_text(content * 40)
    config = make_config(corpus=(str(tmp_path / "t.txt"),), steps=0)
    trained = lm.load_trained(lm.train(config).run)
    assert material.opening(trained.tokenizer) == ("\n" if "\n" in content else " ")
    given: list[np.ndarray] = []

    def predictor(model: lm.GPT, cache: bool) -> Callable[[np.ndarray], np.ndarray]:
        def noted(ids: np.ndarray) -> np.ndarray:
            given.append(ids)
            return model.next_logits(ids)

        return noted

    monkeypatch.setattr(lm.GPT, "predictor", predictor)
    next(trained.write("", 20))
    assert given[0].tolist() == [[material.read_material(config).opening]]


def test_options_of_writing_are_checked_before_the_first_symbol(run: Path) -> None:
    trained = lm.load_trained(run)
    for options, words in (
        ({"seed": -1}, "seed is -1"),
        ({"temperature": -1.0}, "temperature is -1.0"),
        ({"top_k": -1}, "top_k is -1"),
        ({"stop": ("",)}, "stop string is empty"),
    ):
        with pytest.raises(lm.SamplingError, match=words):
            trained.write("the ", 30, **options)
    with pytest.raises(text.TokenizerError, match="Ω"):
        trained.write("Ω", 30)
