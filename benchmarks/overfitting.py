"""Overfitting, seen: a model that is too large for 20 KB of text, with and without early stopping.

    python benchmarks/overfitting.py tinyshakespeare.txt

The first 20,480 characters, the last tenth held out; 4 layers, 4 heads, 128 wide, block 64, batch
12 (the sizes of nanoGPT's CPU recipe), 1,500 steps. The loss on what is learnt keeps falling, the
one on what is held out falls, turns and rises. With `--patience 3` the run ends three validations
behind the turn, and keeps the weights of the best one: they are read back from the run, and
measured again.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import _rounds

from tinygrad_edu import lm

EXCERPT = 20_480
SIZES: dict[str, Any] = {
    "num_layers": 4, "num_heads": 4, "embed_dim": 128, "block_size": 64, "batch_size": 12,
    "dropout": 0.0, "learning_rate": 1e-3, "validation_interval": 50, "sample_length": 0,
    "report": False, "curve": False,
}  # fmt: skip


def trained(text: Path, run: Path, steps: int, patience: int) -> lm.Result:
    config = lm.TrainConfig(
        corpus=(str(text),), run=run, steps=steps, patience=patience, **SIZES
    )
    return lm.train(config)


def validations(run: Path) -> list[tuple[int, float]]:
    rows = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [(r["step"], r["validation_loss"]) for r in rows if "validation_loss" in r]


def training_loss(run: Path, around: int) -> float:
    """The mean of 20 steps."""
    rows = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    near = [r["loss"] for r in rows if "loss" in r and around - 20 < r["step"] <= around]
    return sum(near) / len(near)


def measured_again(run: Path, text: Path) -> float:
    """The held-out loss of the weights that a run left."""
    from tinygrad_edu.lm.evaluation import evaluate
    from tinygrad_edu.lm.material import read_material

    found = lm.load_trained(run)
    held_out = read_material(lm.read_config(run)).split.validation
    return float(evaluate(found.model, held_out, found.config.batch_size).loss)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--patience", type=int, default=3)
    asked = parser.parse_args()
    _rounds.print_machine("overfitting on 20 KB")
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "excerpt.txt"
        whole = asked.corpus.read_text(encoding="utf-8")
        text.write_text(whole[:EXCERPT], encoding="utf-8")
        to_the_end = trained(text, Path(folder) / "to-the-end", asked.steps, 0)
        stopped = trained(text, Path(folder) / "stopped", asked.steps, asked.patience)
        print("\n| step | training | validation |\n|---|---|---|")
        course = validations(to_the_end.run)
        best = min(course, key=lambda pair: pair[1])
        for step, loss in course:
            if step and (step % 250 == 0 or step == best[0]):
                mark = " (the best)" if step == best[0] else ""
                learnt = training_loss(to_the_end.run, step)
                print(f"| {step:,}{mark} | {learnt:.3f} | {loss:.3f} |")
        again = measured_again(stopped.run, text)
        print(f"\nwith patience {asked.patience}: stopped at step {stopped.step:,}; "
              f"the weights left give {again:.3f}")  # fmt: skip
        kept = min(loss for _, loss in validations(stopped.run))
        if abs(again - kept) > 1e-3:
            print(f"the best validation was {kept:.3f}: the weights left are not its")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
