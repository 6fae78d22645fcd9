"""Trains the models that come with the package, or checks that training them gives the same again.

    python -m tinygrad_edu.lm.shipped.train [NAME ...] [--check]

A few minutes each on two cores. The same machine, workers and BLAS give the same bits. Elsewhere
rounding differs and with it the course of training, so `--check` takes a loss for reproduced that
is within a hundredth of the recorded one. A text that has changed (python-docs grows with each
version of Python) is named, as its loss cannot be compared.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tinygrad_edu import lm, text
from tinygrad_edu.files import write_atomically
from tinygrad_edu.lm import checkpoint, shipped
from tinygrad_edu.lm.display import TerminalReporter
from tinygrad_edu.lm.evaluation import evaluate
from tinygrad_edu.lm.material import read_material
from tinygrad_edu.text import sentences

TOLERANCE = 0.01
"""Nats by which a loss that was reached elsewhere may differ."""

RECIPES = {
    "python-docs": lm.TrainConfig(
        corpus=("python-docs",), steps=8000, patience=16, validation_interval=500,
        checkpoint_interval=2000, sample_length=0, curve=False,
    ),
    "grammar": lm.TrainConfig(
        corpus=("grammar",), steps=16000, num_layers=3, embed_dim=64, batch_size=24,
        learning_rate=4e-3, min_learning_rate=4e-5, validation_fraction=0.01,
        validation_interval=1000, checkpoint_interval=4000, sample_length=0, curve=False,
    ),
}  # fmt: skip
"""How each was trained."""


DRAWN, DRAWN_WITH = 4_000_000, 2
"""Characters that the grammar's model learns from, and the seed they are drawn with. The corpus of
that name is a ninth as long: the model would learn it by heart, and is measured on it instead."""


def train(name: str, run: Path) -> lm.Result:
    """Make the run that a model is taken from."""
    config = replace(RECIPES[name], run=run)
    if name == "grammar":
        drawn = run.with_name("grammar.txt")
        generator = np.random.default_rng(DRAWN_WITH)
        drawn.write_text(sentences.grammar().sample(generator, DRAWN), encoding="utf-8")
        config = replace(config, corpus=(str(drawn),))
    return lm.train(config, TerminalReporter())


def ship(name: str, result: lm.Result, target: Path) -> dict[str, Any]:
    """Put what a model needs to write into `target`; gives its facts."""
    target.mkdir(parents=True, exist_ok=True)
    arrays = checkpoint.read_arrays(result.run / checkpoint.MODEL)
    half = {key: value.astype(np.float16) for key, value in arrays.items()}
    checkpoint.write_arrays(target / checkpoint.MODEL, half)
    config = replace(RECIPES[name], run=None)
    checkpoint.write_config(target, config)
    shutil.copyfile(result.run / checkpoint.TOKENIZER, target / checkpoint.TOKENIZER)
    facts = {
        "text": name,
        "text_sha256": text_sha256(name),
        "python": platform.python_version(),
        "command": f"python -m tinygrad_edu.lm.shipped.train {name}",
        "steps": result.step,
        "seed": config.seed,
        "parameters": sum(array.size for array in arrays.values()),
        "validation_loss": validation_loss(target),
    }
    write_atomically(target / shipped.FACTS, json.dumps(facts, indent=1) + "\n")
    return facts


def validation_loss(folder: Path) -> float:
    """Of a shipped model, as it is in the file, on the last tenth of its corpus.

    It was held out; of the grammar's corpus nothing was learnt.
    """
    trained = lm.load_trained(folder)
    held_out = read_material(replace(trained.config, validation_fraction=0.1)).split.validation
    return evaluate(trained.model, held_out, trained.config.batch_size).loss


def text_sha256(name: str) -> str:
    """Of the text as it is here."""
    content = text.load_corpus(name).text
    return hashlib.sha256(content.encode("utf-8")).hexdigest()


def check(name: str, facts: dict[str, Any]) -> bool:
    """Compare new facts with those recorded; says what it finds."""
    known = json.loads((shipped.folder(name) / shipped.FACTS).read_text(encoding="utf-8"))
    if facts["text_sha256"] != known["text_sha256"]:
        print(
            f"{name}: the text is not the one of Python {known['python']}, so the loss of "
            f"{facts['validation_loss']:.4f} cannot be compared with {known['validation_loss']:.4f}"
        )
        return True
    difference = facts["validation_loss"] - known["validation_loss"]
    print(
        f"{name}: validation loss {facts['validation_loss']:.6f}, recorded "
        f"{known['validation_loss']:.6f}, {'the same bits' if not difference else 'by rounding'}"
    )
    return bool(abs(difference) <= TOLERANCE)


def main(arguments: list[str] | None = None) -> int:
    """Train the models named, by default all; 1 where `--check` finds another loss."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(RECIPES))
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    asked = parser.parse_args(arguments)
    unknown = set(asked.names) - set(RECIPES)
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))} is none of {', '.join(RECIPES)}")
    reproduced = True
    for name in asked.names or RECIPES:
        with tempfile.TemporaryDirectory() as scratch:
            result = train(name, Path(scratch) / "run")
            target = Path(scratch) / "shipped" if asked.check else shipped.folder(name)
            facts = ship(name, result, target)
        if asked.check:
            reproduced = check(name, facts) and reproduced
    return 0 if reproduced else 1


if __name__ == "__main__":
    sys.exit(main())
