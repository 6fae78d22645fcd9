"""Programs that draw: found, missing, failing, hanging; files; the terminal's tree."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from drawing.graphs import NASTY, gpt_loss, mlp_loss, needs_graphviz

import tinygrad_edu as tg
from tinygrad_edu.drawing import render
from tinygrad_edu.drawing.draw import DrawingError, draw, print_graph
from tinygrad_edu.drawing.tree import tree_text

PYTHON = sys.executable


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!{PYTHON}\n{text}")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH of one empty folder, and no program beside the interpreter."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(render.sys, "executable", str(tmp_path / "nowhere" / "python"))
    return folder


def loss() -> tg.Value:
    a = tg.Value(2.0, name="a")
    return (a * a).tanh()


@pytest.mark.skipif(os.name != "posix", reason="the stand-in programs are scripts")
class TestPrograms:
    def test_none_leaves_the_dot_file_and_a_line(self, alone: Path, tmp_path: Path) -> None:
        with pytest.raises(DrawingError) as error:
            draw(loss()).save(tmp_path / "f.svg")
        said = str(error.value)
        assert "pip install graphviz-pure" in said and "\n" not in said
        assert (tmp_path / "f.dot").read_text() == draw(loss()).dot
        assert not (tmp_path / "f.svg").exists()
        bundle = draw(loss())._repr_mimebundle_()
        assert "text/html" not in bundle and "tanh" in bundle["text/plain"]

    def test_pdf_needs_dot(self, alone: Path, tmp_path: Path) -> None:
        with pytest.raises(DrawingError, match="a pdf needs the system's `dot`"):
            draw(loss()).save(tmp_path / "f.pdf")

    def test_one_that_fails_is_reported(self, alone: Path) -> None:
        program(alone, "dot", "import sys; sys.stdin.read(); sys.exit('Error: no such plugin')")
        with pytest.raises(DrawingError, match="dot failed with exit code 1: Error: no such"):
            _ = draw(loss()).svg

    def test_one_that_writes_nonsense_beside_an_error_is_not_believed(self, alone: Path) -> None:
        program(
            alone, "dot",
            "import sys; sys.stdin.read(); print('<svg/>'); sys.stderr.write('Error: bad label')",
        )  # fmt: skip
        with pytest.raises(DrawingError, match="bad label"):
            _ = draw(loss()).svg

    def test_one_that_hangs_is_stopped(self, alone: Path) -> None:
        program(alone, "dot", "import time; time.sleep(60)")
        with pytest.raises(DrawingError, match=r"dot was stopped after 0\.5 seconds"):
            render.render("digraph {}", "svg", seconds=0.5)

    def test_the_next_one_is_asked(self, alone: Path) -> None:
        program(alone, "dot", "import sys; sys.exit(3)")
        program(alone, "graphviz-pure", "import sys; sys.stdin.read(); print('<svg/>')")
        with pytest.warns(UserWarning, match=r"dot failed with exit code 3.*graphviz-pure"):
            assert render.render("digraph {}", "svg") == b"<svg/>\n"


@needs_graphviz
def test_files_by_their_endings(tmp_path: Path) -> None:
    drawing = draw(loss())
    assert drawing.save(tmp_path / "f.svg").read_text(encoding="utf-8") == drawing.svg
    assert drawing.save(str(tmp_path / "f.png")).read_bytes().startswith(b"\x89PNG")
    assert drawing.save(tmp_path / "f.dot").read_text(encoding="utf-8") == drawing.dot


def test_the_tree_of_an_expression(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = tg.Value(2.0, name="a"), tg.Value(-3.0, name="b")
    e = a * b
    out = (e - 1.0) * (a - e)
    out.backward()
    print_graph(out)
    assert capsys.readouterr().out.splitlines() == [
        "out = ×                                     -56.0  grad 1.0",
        "├─ - 1.0                                    -7.0  grad 8.0",
        "│  └─ e = × #1                              -6.0  grad 15.0",
        "│     ├─ a                                  2.0  grad -52.0",
        "│     └─ b                                  -3.0  grad 30.0",
        "└─ -                                        8.0  grad -7.0",
        "   ├─ 1: a                                  2.0  grad -52.0",
        "   └─ 2: e = × #1 (above)                   -6.0  grad 15.0",
    ]


@pytest.mark.parametrize("make", [mlp_loss, gpt_loss])
def test_trees_keep_to_80_columns(make: object) -> None:
    made = make()  # type: ignore[operator]
    made.backward()
    text = draw(made).tree()
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "token_embedding.weight" in text or "0.weight" in text


def test_a_deep_tree_goes_on_at_the_left_and_a_diamond_is_written_once() -> None:
    x = tg.Value(0.5, name="x")
    y = x
    for _ in range(100):
        y = y.tanh()
    text = draw(y, collapse="none").tree()
    assert all(len(line) <= 80 for line in text.splitlines())
    assert text.count("tanh") - text.count("(below)") == 100
    a = tg.Value(1.0, name="a")
    for _ in range(60):
        a = a.exp() * 0.0 + a.tanh()
    lines = tree_text(draw(a, collapse="none").picture(), limit=10_000).splitlines()
    assert len(lines) < 60 * 8


def test_a_tree_has_a_limit(capsys: pytest.CaptureFixture[str]) -> None:
    y = tg.Value(0.5)
    for _ in range(100):
        y = y.tanh()
    print_graph(y, limit=10)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 11 and lines[-1].startswith("… more than 10 lines")


@pytest.mark.parametrize("name", NASTY)
def test_a_tree_controls_no_terminal(name: str) -> None:
    a = tg.Value(2.0, name=name)
    for line in draw(a.exp()).tree().splitlines():
        assert line.isprintable() or "\u200d" in line


def test_drawing_loads_no_graphviz_with_the_package() -> None:
    code = "import sys, tinygrad_edu; print('graphviz' in sys.modules, 'subprocess' in sys.modules)"
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == "False"
