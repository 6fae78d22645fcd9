"""A notebook: pictures inline, with ids of their own; a log as a frame; a session as text."""

from __future__ import annotations

import re
from typing import Any

import pytest
from drawing.graphs import needs_graphviz

nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")

CELLS = [
    "import tinygrad_edu as tg\n"
    "a = tg.Value(2.0, name='a')\nb = tg.Value(-3.0, name='b')\nloss = (a * b).tanh()",
    "tg.draw(loss)",
    "tg.draw(loss)",
    "tg.record(loss)",
    "tg.debug(loss, commands=['n', 'p a.grad'])",
    "with tg.record():\n    c = a * 5.0\nprint(tg.record(c)[0].source.rpartition(':')[2])",
]


@needs_graphviz
@pytest.mark.filterwarnings("ignore")
def test_a_notebook_runs_and_shows() -> None:
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in CELLS])
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
    outputs: list[list[Any]] = [cell.outputs for cell in book.cells]
    pictures = [outputs[i][0]["data"]["text/html"] for i in (1, 2)]
    assert all(text.startswith("<svg") for text in pictures)
    ids = [set(re.findall(r'\bid="([^"]*)"', text)) for text in pictures]
    assert ids[0] and not ids[0] & ids[1]
    frame = outputs[3][0]["data"]["text/html"]
    assert frame.startswith("<iframe") and "Stepper" in frame
    session = "".join(part["text"] for part in outputs[4])
    assert "(tg) n\n[1/2] loss = tanh(multiply:1)" in session and "(tg) p a.grad\nNone" in session
    assert outputs[5][0]["text"].strip() == "2"  # the line of the cell
