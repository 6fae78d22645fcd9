"""The command: what it prints, what it returns, and that errors are one line."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tinygrad_edu.cli import main

ROOT = Path(__file__).parents[2]
SMALL = [
    "--num-layers=1", "--num-heads=2", "--embed-dim=16", "--block-size=16", "--batch-size=4",
    "--steps=12", "--validation-interval=6", "--sample-length=20",
]  # fmt: skip
TEXT = "".join(f"{k} green bottles hanging on the wall, number {k * k}.\n" for k in range(60))[
    :2000
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "bottles.txt").write_text(TEXT, encoding="utf-8")
    return tmp_path


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tinygrad_edu", *arguments]


def environment() -> dict[str, str]:
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return {**inherited, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "COLUMNS": "80"}


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), cwd=cwd, env=environment(), capture_output=True, encoding="utf-8"
    )


def test_train_then_sample_from_end_to_end(folder: Path) -> None:
    trained = run("train", "--corpus", "bottles.txt", *SMALL, cwd=folder)
    assert trained.returncode == 0, trained.stderr
    assert trained.stderr == ""
    assert "bottles.txt: 2,000 characters" in trained.stdout
    assert "step 12/12" in trained.stdout
    assert len(re.findall(r"^step .* validation loss", trained.stdout, re.MULTILINE)) == 3
    assert "tinygrad-edu sample runs/bottles-1" in trained.stdout

    first = run("sample", "runs/bottles-1", "10 green", "--max-new-tokens=40", cwd=folder)
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith("10 green")
    assert len(first.stdout.rstrip("\n")) >= 40
    again = run("sample", "runs/bottles-1", "10 green", "--max-new-tokens=40", cwd=folder)
    assert again.stdout == first.stdout

    longer = run("train", "--resume", "runs/bottles-1", "--steps=15", cwd=folder)
    assert longer.returncode == 0, longer.stderr
    assert "Going on from step 12." in longer.stdout
    assert "step 15/15" in longer.stdout


@pytest.mark.skipif(os.name != "posix", reason="closes a pipe")
def test_a_reader_that_stops_reading_is_no_error(folder: Path) -> None:
    main(["train", "--corpus=bottles.txt", *SMALL])
    process = subprocess.Popen(
        command("sample", "runs/bottles-1", "--max-new-tokens=100000"),
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.read(50)
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    assert process.stderr.read() == ""
    process.stderr.close()


@pytest.mark.skipif(os.name != "posix", reason="closes a pipe")
@pytest.mark.parametrize("errors_too", [False, True])
def test_training_goes_on_where_nobody_reads_its_output(folder: Path, errors_too: bool) -> None:
    process = subprocess.Popen(
        command("train", "--corpus=bottles.txt", *SMALL, "--steps=400"),
        cwd=folder, env=environment(), encoding="utf-8", stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if errors_too else subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert "bottles.txt" in process.stdout.readline()
    process.stdout.close()
    errors = "" if process.stderr is None else process.stderr.read()
    assert process.wait(timeout=60) == 141
    assert (folder / "runs/bottles-1/checkpoint/step-00000400").is_dir()
    if process.stderr is not None:
        process.stderr.close()
        first, last = errors.splitlines()
        assert "can no longer be written (Broken pipe); training goes on unseen" in first
        assert "tinygrad-edu sample runs/bottles-1" in last


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_ctrl_c_saves_and_says_how_to_go_on(folder: Path) -> None:
    process = subprocess.Popen(
        command("train", "--corpus=bottles.txt", *SMALL, "--steps=1000000"),
        cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        encoding="utf-8",
    )  # fmt: skip
    metrics = folder / "runs" / "bottles-1" / "metrics.jsonl"
    deadline = time.monotonic() + 60
    while not (metrics.exists() and metrics.read_text().count("\n") > 5):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == ""
    step = re.search(r"Stopped at step ([\d,]+) and saved", output)
    assert step is not None
    assert "tinygrad-edu train --resume runs/bottles-1" in output
    assert (
        folder / "runs/bottles-1/checkpoint" / f"step-{int(step[1].replace(',', '')):08}"
    ).is_dir()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "--corpus", "botles.txt"], "no file 'botles.txt'; did you mean bottles.txt?"),
        (["train", "--steps=-1"], "--steps is -1; it must be 0 or more"),
        (["train", "--corpus=bottles.txt", "--block-size=5000"], "--block-size to 1799 or less"),
        (["train", "--corpus=empty.txt"], "empty.txt is empty"),
        (["train", "--corpus=latin.txt"], "latin.txt is not UTF-8"),
        (["train", "--corpus=same.txt"], "nothing to predict"),
        (["train", "--resume=nowhere"], "nowhere is not a run folder"),
        (["train", "--config=nowhere.toml"], "nowhere.toml cannot be read"),
        (["train", "--config=odd.toml"], "unknown option 'stepz'; the nearest one is 'steps'"),
        (["train", "--config=odd.toml", "--resume=x"], "--resume and --config were both given"),
        (["sample", "nowhere", "hello"], "nowhere is not a run folder"),
        (["train", "--corpus=bottles.txt", "--run=bottles.txt/x"], "Not a directory"),
        (["train", "--resume=done", "--run=other"], "--run other was given with --resume done"),
        (["train", "--resume=done", "--minutes=3"], "--minutes was given with --resume"),
        (["train", "--resume=done", "--steps=2"], "made 3 steps already, more than --steps 2"),
        (["train", "--resume=done", "--seed=2"], "--seed was 1 when the run was started"),
        (["train", "--resume=done", "--no-bias"], "--bias was true when the run was started"),
        (["sample", "done", "10", "--seed=-1"], "the seed is -1; it must be 0 or more"),
        (["sample", "done", "10", "--top-k=-1"], "top_k is -1; it must be 1 or more, or 0"),
        (["sample", "done", "10", "--temperature=-1"], "the temperature is -1.0; it must be 0"),
        (["sample", "done", "10", "--max-new-tokens=-1"], "max_new_tokens is -1; it must be 0"),
        (["sample", "done", "Ω"], "'Ω' (U+03A9, GREEK CAPITAL LETTER OMEGA)"),
        (["demo", "4711"], "there is no demo 4711"),
    ],
)
def test_a_mistake_is_told_in_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    (folder / "empty.txt").write_bytes(b"")
    (folder / "latin.txt").write_bytes("café\n".encode("latin-1") * 99)
    (folder / "same.txt").write_bytes(b"a" * 999)
    (folder / "odd.toml").write_text("stepz = 3\n")
    if any("done" in argument for argument in arguments):
        assert main(["train", "--corpus=bottles.txt", *SMALL, "--steps=3", "--run=done"]) == 0
        capsys.readouterr()
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("tinygrad-edu: ")
    assert captured.err.count("\n") == 1
    assert words in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [
        (["train", "--learing-rate=3"], "--learning-rate"),
        (["sample", "run", "text", "--temprature=1"], "--temperature"),
    ],
)
def test_an_unknown_option_names_the_nearest(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], nearest: str
) -> None:
    assert main(arguments) == 2
    errors = capsys.readouterr().err
    assert "Unrecognized options" in errors
    assert nearest in errors
    assert max(map(len, errors.splitlines())) <= 80


@pytest.mark.parametrize(
    "arguments", [[], ["trian"], ["train", "--steps=many"], ["sample", "--seed=x"]]
)
def test_a_command_line_that_makes_no_sense_is_code_2(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err


@pytest.mark.parametrize("command", ["train", "sample", "demo", "info"])
def test_help_describes_every_option_and_fits_80_columns(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert main([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert "{None}" not in text
    words = " ".join(text.replace("│", " ").split())
    assert not re.findall(r"--[a-z-]+ [A-Z]+ \(default", words), "an option without a description"


def test_a_run_that_diverges_is_code_1_and_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["train", "--corpus=bottles.txt", *SMALL, "--learning-rate=1e30", "--clip-norm=0"])
    assert code == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("tinygrad-edu: step ")
    for words in ("learning rate", "gradient norm", "keeps the checkpoint of step 0"):
        assert words in captured.err


def test_options_come_from_a_config_file_and_the_line_replaces_them(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "--corpus=bottles.txt", *SMALL, "--seed=5"]) == 0
    assert main(["train", "--config=runs/bottles-1/config.toml", "--steps=6", "--run=again"]) == 0
    first, second = (
        (folder / run / "config.toml").read_text() for run in ("runs/bottles-1", "again")
    )
    assert first.replace("steps = 12", "steps = 6", 1) == second


def test_a_model_that_cannot_write_prints_no_prompt(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tinygrad_edu.lm import checkpoint

    main(["train", "--corpus=bottles.txt", *SMALL])
    path = folder / "runs" / "bottles-1" / "model.safetensors"
    weights = checkpoint.read_arrays(path)
    checkpoint.write_arrays(path, {name: array * np.nan for name, array in weights.items()})
    capsys.readouterr()
    assert main(["sample", "runs/bottles-1", "10"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "not all finite" in captured.err


@pytest.mark.parametrize("reason", ["", "Unable to allocate 175. TiB for an array"])
def test_too_little_memory_is_told_in_one_line_and_leaves_no_folder(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    from tinygrad_edu.lm import learner

    def none_left(*arguments: object) -> None:
        raise MemoryError(reason)

    monkeypatch.setattr(learner, "GPT", none_left)
    assert main(["train", "--corpus=bottles.txt", *SMALL]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("tinygrad-edu: out of memory")
    assert captured.err.count("\n") == 1
    assert reason in captured.err and "()" not in captured.err and "--batch-size" in captured.err
    assert not (folder / "runs").exists()


def test_a_sample_that_cannot_be_drawn_while_training_is_code_1(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(
        ["train", "--corpus=bottles.txt", *SMALL, "--learning-rate=1e30", "--warmup-steps=3",
         "--validation-interval=1", "--validation-fraction=0"]
    )  # fmt: skip
    assert code == 1
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    for words in ("after step 1", "learning rate 2.5e+29", "gradient norm", "logits of a sample"):
        assert words in errors


def test_demos_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo"]) == 0
    assert "One weight on a slope" in capsys.readouterr().out


def test_importing_the_command_loads_nothing_it_may_not_need() -> None:
    script = "import sys, tinygrad_edu.cli; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT, env=environment(), capture_output=True, encoding="utf-8", check=True,
    )  # fmt: skip
    loaded = set(done.stdout.split())
    assert not loaded & {"matplotlib", "tyro", "rich", "safetensors", "tinygrad_edu.lm"}


def test_our_own_mistakes_keep_their_traceback(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tinygrad_edu import demos

    def broken() -> None:
        raise ValueError("nobody foresaw this")

    monkeypatch.setattr(demos, "list_demos", broken)
    with pytest.raises(ValueError, match="nobody"):
        main(["demo"])
