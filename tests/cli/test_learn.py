"""The commands `quiz`, `worksheet`, `hunt`, `draw` and `debug`, as one types them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from tinygrad_edu.cli import main
from tinygrad_edu.drawing.render import renderers


def typed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_a_quiz_on_an_expression(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, "?\nskip\nquit\n")
    assert main(["quiz", "tanh(a*b)*a", "--set", "a=0.5", "b=-1"]) == 0
    said = capsys.readouterr().out
    assert "questions on the backward pass from L" in said and "The solution:" in said


def test_a_worksheet_of_a_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "s.py"
    script.write_text("import tinygrad_edu as tg\na = tg.Value(2.0)\nloss = (a * a).tanh()\n")
    sheet = tmp_path / "w.md"
    options = ["--drawing"] if renderers("svg") else []
    assert main(["worksheet", str(script), "-o", str(sheet), "--seed", "3", *options]) == 0
    assert "w.key.md" in capsys.readouterr().out
    assert sheet.read_text(encoding="utf-8").startswith("# The backward pass of loss")
    assert (tmp_path / "w.key.md").exists()


def test_a_hunt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    typed(monkeypatch, "check b\nanswer s detached\n")
    assert main(["hunt", "7"]) == 0
    assert "✓ detached at s" in capsys.readouterr().out


def test_an_expression_is_drawn_as_a_tree(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["draw", "tanh(a*b) + 2", "--set", "a=2", "b=-3"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "+ 2.0                                       1.000  grad 1.0",
        "└─ tanh                                     -1.000  grad 1.0",
        "   └─ ×                                     -6.0  grad 2.46e-05",
        "      ├─ a                                  2.0  grad -7.37e-05",
        "      └─ b                                  -3.0  grad 4.92e-05",
    ]


@pytest.mark.parametrize("text", ["a*b", "a.tanh() - b**2", "-a/b", "maximum(a, 0.5)", "exp(a)*3"])
def test_expressions_mean_what_python_means(text: str) -> None:
    import math

    from tinygrad_edu.cli.expressions import evaluated, settings

    a, b = 0.7, -1.2
    names = settings(["a=0.7", "b=-1.2"])
    plain: dict[str, Any] = {"exp": math.exp, "maximum": max, "a": a, "b": b}
    wanted = math.tanh(a) - b**2 if "tanh" in text else eval(text, plain)
    assert evaluated(text, names).data == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["draw", "a*b", "--set", "a=1"], "b has no number (those that have: a)"),
        (["draw", "__import__('os')"], "the functions here are"),
        (["draw", "a.b.c", "--set", "a=1"], "is not arithmetic"),
        (["draw", "(1/0)*a", "--set", "a=1"], "1 / 0: float division by zero"),
        (["draw", "1+", "--set", "a=1"], "is no expression"),
        (["draw", "3*4"], "is a number without names"),
        (["draw", "nosuch.py"], "there is no file nosuch.py"),
        (["draw", "a*a", "--set", "a"], "give NAME=NUMBER"),
        (["draw", "a*a", "--set", "a=1", "-o", "f.jpg"], "a drawing is saved as"),
        (["draw", "a*a", "--set", "a=1", "--collapse", "some"], "give auto, none, all"),
        (["debug", "nosuch.py"], "there is no file nosuch.py"),
        (["hunt", "99"], "there are levels 1 to"),
        (["worksheet", "a*a", "--set", "a=1", "--blanks", "3"], "it is a share"),
        (["quiz", "a+1", "--set", "b=1"], "a has no number"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("tinygrad-edu: ") and said in error
    assert error.count("\n") == 1


def test_a_script_that_leaves_nothing_to_draw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "s.py"
    script.write_text("x = 3\n")
    assert main(["draw", str(script)]) == 2
    assert "leaves no Value or Tensor" in capsys.readouterr().err
    script.write_text("import tinygrad_edu as tg\ny = tg.Value(1.0).exp()\nz = 4\n")
    assert main(["draw", str(script), "--name", "z"]) == 2
    assert "z is a int" in capsys.readouterr().err
    assert main(["draw", str(script), "--name", "w"]) == 2
    assert "has no variable w; it has y" in capsys.readouterr().err
    assert main(["draw", str(script)]) == 0
    assert capsys.readouterr().out.startswith("y = exp")
