"""What the README says is what happens: its commands, its tour and what the tour prints."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tinygrad_edu.drawing.render import renderers

CHECKOUT = Path(__file__).resolve().parents[1]
README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
CI = (CHECKOUT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
SET_UP = "python3 -m venv .venv && . .venv/bin/activate && pip install -e "


def blocks(language: str) -> list[str]:
    return [content for marked, content in BLOCKS if marked == language]


def command(line: str, cwd: Path, *options: str, given: str = "") -> str:
    """What a `tinygrad-edu …` line prints, run by this Python, which need not have it installed."""
    program, *arguments = shlex.split(line)
    assert program == "tinygrad-edu"
    done = subprocess.run(
        [sys.executable, "-m", "tinygrad_edu", *arguments, *options],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "PYTHONUTF8": "1"},
        capture_output=True,
        input=given,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_there_are_three_commands_of_one_line_each() -> None:
    train, tests, demo = blocks("sh")
    assert train == f"{SET_UP}. && tinygrad-edu train\n"
    assert tests == f"{SET_UP}'.[test]' && pytest -n auto\n"
    assert demo == "tinygrad-edu demo 1\n"


def test_ci_runs_the_tests_and_the_demo_as_the_readme_prints_them() -> None:
    _, tests, demo = blocks("sh")
    assert CI.count(tests.strip()) == 1
    assert CI.count(demo.strip()) == 1


def test_every_block_is_checked_here() -> None:
    assert [language for language, _ in BLOCKS] == ["sh", "sh", "sh", *["python", "text"] * 3]


@pytest.mark.parametrize("number", [0, 1, 2], ids=["tour", "see it", "derivatives"])
def test_a_program_prints_what_the_readme_says(
    number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    from tinygrad_edu.autograd import defining

    program, printed = blocks("python")[number], blocks("text")[number]
    assert len([line for line in program.splitlines() if line]) <= 24
    try:
        exec(compile(program, "README.md", "exec"), {"__name__": "readme"})
    finally:
        for name in list(defining._own):
            defining._forget(name)
    assert capsys.readouterr().out == printed


def test_the_demo_command_runs(tmp_path: Path) -> None:
    assert "η = 1.1: each step multiplies w by" in command(blocks("sh")[2], tmp_path)


@pytest.mark.slow
def test_the_train_command_leaves_a_run_that_the_sample_command_writes_from(tmp_path: Path) -> None:
    train = blocks("sh")[0].rpartition("&& ")[2]
    command(train, tmp_path, "--steps", "2", "--validation-fraction", "0.01")
    (sample,) = re.findall(r"`(tinygrad-edu sample runs[^`]*)`", README)
    assert command(sample, tmp_path).startswith("The ")
    assert (tmp_path / "runs" / "python-docs-1" / "loss.svg").exists()


def test_the_models_that_come_with_the_package_write(tmp_path: Path) -> None:
    (docs,) = re.findall(r"`(tinygrad-edu sample)`", README)
    assert len(command(docs, tmp_path, "--max-new-tokens", "30")) > 30
    (grammar,) = re.findall(r"`(tinygrad-edu sample grammar [^`]*)`", README)
    shown = command(grammar, tmp_path)
    assert "after 'o gato subiu no '" in shown and "KL(truth | model)" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_what_computes_is_told(tmp_path: Path) -> None:
    (info,) = re.findall(r"`(tinygrad-edu info)`", README)
    assert "numpy" in command(info, tmp_path)


@pytest.mark.slow
def test_a_step_is_taken_apart(tmp_path: Path) -> None:
    (profile,) = re.findall(r"`(tinygrad-edu train --profile)`", README)
    assert "linear" in command(profile, tmp_path)
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_the_train_command_takes_a_text_file(tmp_path: Path) -> None:
    (tmp_path / "FILE.txt").write_text("the cat sat on the mat. " * 100, encoding="utf-8")
    (train,) = re.findall(r"`(tinygrad-edu train --corpus FILE[^`]*)`", README)
    command(train, tmp_path, "--steps", "2")


@pytest.mark.slow
def test_a_language_model_is_made_measured_tuned_and_exported(tmp_path: Path) -> None:
    (tmp_path / "FILE.txt").write_text("the cat sat on the mat. " * 100, encoding="utf-8")
    (tmp_path / "chat.jsonl").write_text('{"instruction": "a", "output": "b"}\n' * 2
                                         + '{"instruction": "c", "output": "d"}\n')  # fmt: skip
    section = README[README.index("## A language model of one's own") :]
    commands = re.findall(r"`(tinygrad-edu [^`]*)`", section[: section.index("\n## Is this")])
    few = ("--steps", "2", "--validation-fraction", "0.01")
    more = {
        "tinygrad-edu train --architecture llama": (*few, "--run", "RUN"),
        "tinygrad-edu train --resume RUN": ("--steps", "3"),
        "tinygrad-edu finetune python-docs --data chat.jsonl --lora-rank 8": (
            "--steps", "2", "--run", "TUNED"),
        "tinygrad-edu train --corpus tokens": ("--steps", "2"),
    }  # fmt: skip
    given = {"tinygrad-edu chat RUN": "tinygrad-edu chat TUNED --max-new-tokens 5"}
    assert set(more) | set(given) < set(commands)
    commands.remove("tinygrad-edu sample glassllm-pt")  # the test below
    for line in commands:
        command(given.get(line, line), tmp_path, *more.get(line, ()), given="a\n")
    assert (tmp_path / "RUN" / "report.html").exists()
    assert (tmp_path / "FOLDER" / "model.safetensors").exists()


def test_weights_of_glassllm_write() -> None:
    pytest.importorskip("glassllm", reason="the package whose weights these are is not installed")
    assert "`tinygrad-edu sample glassllm-pt`" in README
    written = command("tinygrad-edu sample glassllm-pt", CHECKOUT, "--max-new-tokens", "5")
    assert written.strip()


def test_an_expression_is_drawn(tmp_path: Path) -> None:
    (draw,) = re.findall(r"`(tinygrad-edu draw [^`]*)`", README)
    if not renderers("svg"):
        pytest.skip("neither dot nor graphviz-pure is installed")
    assert "f.svg" in command(draw, tmp_path)
    assert "tanh" in (tmp_path / "f.svg").read_text(encoding="utf-8")


def test_a_script_is_stepped_through(tmp_path: Path) -> None:
    (tmp_path / "SCRIPT.py").write_text(
        "import tinygrad_edu as tg\na = tg.Value(2.0, name='a')\nloss = a * a\n"
    )
    (debug,) = re.findall(r"`(tinygrad-edu debug [^`]*)`", README)
    shown = command(debug, tmp_path, given="n\nq\n")
    assert "[1/1] loss = a × a" in shown and "(use 2 of 2)" in shown


def test_exercises_are_made(tmp_path: Path) -> None:
    (hunt,) = re.findall(r"`(tinygrad-edu hunt [^`]*)`", README)
    assert "One thing went wrong" in command(hunt, tmp_path, given="quit\n")
    (sheet,) = re.findall(r"`(tinygrad-edu worksheet [^`]*)`", README)
    assert "sheet.key.md" in command(sheet, tmp_path)
    assert "____(1)" in (tmp_path / "sheet.md").read_text(encoding="utf-8")
    (quiz,) = re.findall(r"`(tinygrad-edu quiz [^`]*)`", README)
    assert "questions on the backward pass" in command(quiz, tmp_path, given="quit\n")


@pytest.mark.parametrize("name", ["expression.svg", "gpt.svg"])
def test_the_pictures_are_what_is_drawn_today(name: str) -> None:
    spec = importlib.util.spec_from_file_location("pictures", CHECKOUT / "docs" / "pictures.py")
    assert spec is not None and spec.loader is not None
    pictures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pictures)
    picture = pictures.PICTURES[name]().picture()
    root = ET.fromstring((CHECKOUT / "docs" / name).read_text(encoding="utf-8"))
    groups = list(root.iter("{http://www.w3.org/2000/svg}g"))
    boxes = {g.get("data-box", ""): " ".join(g.itertext()) for g in groups if g.get("data-box")}
    arrows = {
        (g.get("data-tail"), g.get("data-head"), g.get("data-slot"))
        for g in groups if g.get("data-tail")
    }  # fmt: skip
    again = f"make it again: python docs/pictures.py ({name})"
    assert set(boxes) == {box.id for box in picture.boxes}, again
    assert arrows == {(a.tail, a.head, str(a.slot)) for a in picture.arrows}, again
    for box in picture.boxes:
        assert all(text in boxes[box.id] for text in (box.title, box.name, *box.lines)), again


def test_links_lead_to_files_that_are_there() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    assert [link for link in links if not (CHECKOUT / link).exists()] == []


def test_the_judge_that_ci_installs_is_the_one_declared() -> None:
    (pinned,) = re.findall(r"'(torch==[\d.]+)'", "\n".join(CI))
    assert f'"{pinned}"' in (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8")
