"""The page of delicate points is what the registry says today."""

from __future__ import annotations

from pathlib import Path

import tinygrad_edu as tg
from tinygrad_edu.nn import functional
from tinygrad_edu.ops import registry
from tinygrad_edu.ops.table import CHOICES, markdown

PAGE = Path(__file__).resolve().parents[3] / "docs" / "derivatives.md"


def test_the_page_is_up_to_date() -> None:
    said = PAGE.read_text(encoding="utf-8")
    again = "write it again: python -m tinygrad_edu.ops.table > docs/derivatives.md"
    assert said == markdown(), again


def test_every_primitive_has_a_row_and_every_choice_names_a_function() -> None:
    text = markdown()
    assert all(f"| `{name}` |" in text for name in registry)
    for names, _ in CHOICES:
        first = names.split(",")[0].split(" ")[0]
        places = (tg, functional, tg.linalg)
        assert any(hasattr(p, first) or hasattr(p, f"{first}1d") for p in places), first
