"""The models that come with the package."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tinygrad_edu import lm, text
from tinygrad_edu.lm import checkpoint, probabilities, shipped
from tinygrad_edu.lm.shipped import train as script
from tinygrad_edu.text import sentences

MakeConfig = Callable[..., lm.TrainConfig]


def facts(name: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((shipped.folder(name) / shipped.FACTS).read_text())
    return found


def test_two_models_come_with_the_package_in_less_than_two_megabytes() -> None:
    assert shipped.names() == ("grammar", "python-docs") == tuple(sorted(script.RECIPES))
    files = [path for path in shipped.FOLDER.rglob("*") if path.suffix in (".json", ".safetensors")]
    assert sum(path.stat().st_size for path in files) < 2_000_000


@pytest.mark.parametrize("name", ["grammar", "python-docs"])
def test_a_shipped_model_writes(name: str) -> None:
    trained = lm.load_trained(name)
    assert trained.model.token_embedding.weight.dtype == np.float32
    assert len("".join(trained.write("the ", 20))) == 20
    assert trained.model.num_parameters() == facts(name)["parameters"]


@pytest.mark.parametrize("name", ["grammar", "python-docs"])
def test_a_shipped_model_has_the_loss_that_is_recorded(name: str) -> None:
    known = facts(name)
    if script.text_sha256(name) != known["text_sha256"]:
        pytest.skip(f"{name} is another text than that of Python {known['python']}")
    found = script.validation_loss(shipped.folder(name))
    assert found == pytest.approx(known["validation_loss"], abs=1e-5)


def test_the_grammars_model_is_near_the_exact_distribution() -> None:
    trained, grammar = lm.load_trained("grammar"), sentences.grammar()
    held_out = sentences.text()[-40_000:]
    starts = np.random.default_rng(0).integers(0, 39_000, 200)
    views = [
        probabilities.next_view(trained, held_out[start : start + 64], grammar) for start in starts
    ]
    assert np.mean([view.divergence for view in views]) < 0.005
    for prompt in ("\no gato ", "o gato subiu no ", "the cat climbed ", "\n"):
        divergence = probabilities.next_view(trained, prompt, grammar).divergence
        assert divergence is not None and divergence < 0.02, prompt


def test_a_model_and_a_folder_of_the_same_name_are_told_apart(
    make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lm.train(make_config(run=Path("grammar"), steps=2))
    assert lm.load_trained("grammar").config.corpus == ("grammar",)
    assert lm.load_trained("./grammar").config.steps == 2


def test_what_is_neither_names_the_models(tmp_path: Path) -> None:
    with pytest.raises(lm.RunError, match=r"come. with the package \(grammar, python-docs\)"):
        lm.load_trained(tmp_path / "nowhere")


def test_the_script_ships_what_its_training_made(
    make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    small = make_config(corpus=("grammar",), validation_fraction=0.01, validation_interval=100)
    small = replace(small, run=None)
    monkeypatch.setattr(script, "RECIPES", {"grammar": small})
    monkeypatch.setattr(shipped, "FOLDER", tmp_path)
    monkeypatch.setattr(script, "DRAWN", 20_000)
    assert script.main(["grammar"]) == 0
    known = facts("grammar")
    content = text.load_corpus("grammar").text
    assert known["text_sha256"] == hashlib.sha256(content.encode()).hexdigest()
    arrays = checkpoint.read_arrays(tmp_path / "grammar" / "model.safetensors")
    assert {array.dtype for array in arrays.values()} == {np.dtype(np.float16)}
    assert shipped.names() == ("grammar",)
    assert script.main(["grammar", "--check"]) == 0
    assert "the same bits" in capsys.readouterr().out
    known["validation_loss"] = 0.5
    (tmp_path / "grammar" / "facts.json").write_text(json.dumps(known))
    assert script.main(["--check"]) == 1
    known["text_sha256"] = "another"
    (tmp_path / "grammar" / "facts.json").write_text(json.dumps(known))
    assert script.main(["--check"]) == 0
    assert "cannot be compared" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        script.main(["nothing"])
