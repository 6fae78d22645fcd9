"""Small models that come with the package, so that it writes text right after installing.

Each is a folder beside this file, like a run's but without what training needs: `config.toml`,
`tokenizer.json`, `model.safetensors` (in float16, which halves it and moves a loss by less than a
thousandth), and `facts.json`: what it was trained on, by which command, and the loss it reached.
`python -m tinygrad_edu.lm.shipped.train` trained them; with `--check` it does so again, and
compares.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
DEFAULT = "python-docs"
"""The one that writes where none is named."""
FACTS = "facts.json"


def names() -> tuple[str, ...]:
    """The models there are, by the text that they learnt."""
    return tuple(sorted(path.parent.name for path in FOLDER.glob(f"*/{FACTS}")))


def folder(name: str) -> Path:
    """Where a model lies."""
    return FOLDER / name
