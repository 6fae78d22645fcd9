"""What the tests of the language models share: a short text, and options that train in a blink."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tinygrad_edu import lm

SENTENCES = (
    "the cat sat on the mat and the dog sat on the cat. ",
    "the rain in spain falls on the plain, and on the dog.\n",
    "who saw the dog? the cat saw it, and the rain fell on.\n",
)


def two_thousand_characters() -> str:
    """Words in an order that repeats slowly, with a dozen and a half symbols."""
    text = ""
    number = 0
    while len(text) < 2000:
        text += SENTENCES[number * number % 3] + SENTENCES[number % 2]
        number += 1
    return text[:2000]


@pytest.fixture(scope="session")
def tiny_text() -> str:
    return two_thousand_characters()


@pytest.fixture
def text_file(tmp_path: Path, tiny_text: str) -> Path:
    path = tmp_path / "tiny.txt"
    path.write_text(tiny_text, encoding="utf-8")
    return path


@pytest.fixture
def make_config(tmp_path: Path, text_file: Path) -> Callable[..., lm.TrainConfig]:
    """A config that trains in a blink, with anything in it replaced."""

    def make(**changes: Any) -> lm.TrainConfig:
        options: dict[str, Any] = {
            "corpus": (str(text_file),),
            "run": tmp_path / "run",
            "num_layers": 1,
            "num_heads": 2,
            "embed_dim": 16,
            "block_size": 8,
            "batch_size": 4,
            "steps": 8,
            "learning_rate": 1e-2,
            "validation_interval": 4,
            "checkpoint_interval": 4,
            "sample_length": 5,
            "curve": False,
            "report": False,
            "tune_allocator": False,
        }
        return lm.TrainConfig(**{**options, **changes})

    return make
