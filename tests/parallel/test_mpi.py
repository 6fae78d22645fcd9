"""Workers over MPI: the gradient of the whole batch, one set of weights, and ranks that fail."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinygrad_edu import lm
from tinygrad_edu.lm.checkpoint import load_checkpoint

pytest.importorskip("mpi4py", reason="mpi4py (extra `mpi`) is not installed")
CHECKOUT = Path(__file__).resolve().parents[2]
MPIEXEC = Path(sys.executable).with_name("mpiexec")
LAUNCHER = str(MPIEXEC) if MPIEXEC.exists() else shutil.which("mpiexec")
if LAUNCHER is None:
    pytest.skip("there is no mpiexec", allow_module_level=True)


def started(ranks: int, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    environment = {
        **os.environ, "PYTHONPATH": f"{CHECKOUT}{os.pathsep}{CHECKOUT / 'tests'}",
        "OPENBLAS_NUM_THREADS": "1", **variables,
    }  # fmt: skip
    return subprocess.Popen(
        [str(LAUNCHER), "-n", str(ranks), sys.executable, *arguments],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def program(ranks: int, name: str, *arguments: str) -> Any:
    """What a program of `mpi_programs` printed."""
    running = started(ranks, str(CHECKOUT / "tests/parallel/mpi_programs.py"), name, *arguments)
    out, err = running.communicate(timeout=120)
    assert running.returncode == 0, err
    return json.loads(out)


@pytest.mark.parametrize(("ranks", "turns"), [(1, 1), (2, 1), (3, 2), (6, 1)])
def test_any_number_of_ranks_gives_the_gradient_of_the_whole_batch(ranks: int, turns: int) -> None:
    """Weighted by targets, clipped after the sum; rows that do not divide, ranks without any."""
    found = program(ranks, "whole_batch", str(turns))
    assert found["worst"] < 1e-12
    assert found["weights"] < 1e-9
    for key in ("norms", "losses"):
        for mine, expected in found[key]:
            assert mine == pytest.approx(expected, rel=1e-12)
    assert any(norm > 0.3 for norm, _ in found["norms"]), "something was clipped"
    assert len(set(found["digests"])) == 1 and len(found["digests"]) == ranks


def test_what_a_rank_raises_is_raised_and_the_others_go_on() -> None:
    found = program(3, "failing")
    assert found["said"].startswith("a part of number 1 | In another worker process:")
    assert "fails_on" in found["said"]
    assert not found["changed"]
    assert found["loss"] > 0
    assert "cannot be sent to another process" in found["unsendable"]


def test_what_the_first_changes_reaches_the_others() -> None:
    found = program(3, "changed_here")
    assert all(len(set(digests)) == 1 for digests in found)
    assert len({digests[0] for digests in found[:-1]}) == len(found) - 1


def test_a_rank_that_dies_ends_the_job() -> None:
    """(By mpiexec, which names the process and not the rank.)"""
    programs = str(CHECKOUT / "tests/parallel/mpi_programs.py")
    running = started(3, programs, "losing", "1", str(int(signal.SIGKILL)))
    out, _ = running.communicate(timeout=60)
    assert running.returncode != 0 and "not reached" not in out


def test_a_rank_that_hangs_is_named_after_the_time_it_may_take() -> None:
    programs = str(CHECKOUT / "tests/parallel/mpi_programs.py")
    begin = time.monotonic()
    running = started(
        3, programs, "losing", "2", str(int(signal.SIGSTOP)), TINYGRAD_EDU_PATIENCE="2"
    )
    out, err = running.communicate(timeout=60)
    assert running.returncode != 0 and "not reached" not in out
    assert "rank 2 of 3 has not worked out its part of a batch for 2 seconds" in err
    assert "--resume" in err
    assert time.monotonic() - begin > 2


# The command


def options(run: Path, text: Path, *more: str) -> list[str]:
    return [
        "-m", "tinygrad_edu", "train", "--corpus", str(text), "--run", str(run), "--steps", "12",
        "--num-layers", "2", "--num-heads", "2", "--embed-dim", "16", "--block-size", "8",
        "--batch-size", "5", "--accumulate", "2", "--validation-interval", "4",
        "--checkpoint-interval", "4", "--sample-length", "5", "--no-report", "--no-curve",
        "--no-tune-allocator", "--schedule", "constant", "--warmup-steps", "1", *more,
    ]  # fmt: skip


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "words.txt"
    path.write_text("the cat sat on the mat and the rat ate the hat. " * 40, encoding="utf-8")
    return path


def logged(run: Path) -> list[dict[str, Any]]:
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def ended(running: subprocess.Popen[str]) -> str:
    out, err = running.communicate(timeout=120)
    assert running.returncode == 0, out + err
    return out


def test_a_run_is_that_of_one_worker_and_goes_on_with_another_number(
    words: Path, tmp_path: Path
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    alone = subprocess.run(
        [sys.executable, *options(one, words, "--threads", "1")], cwd=CHECKOUT, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    assert "Done" in alone.stdout
    said = ended(started(2, *options(two, words, "--parallel", "mpi", "--steps", "8")))
    assert said.count("8/8") <= 1 and "2 MPI processes share a batch" in said
    goes_on = ["-m", "tinygrad_edu", "train", "--resume", str(two), "--steps", "12"]
    said = ended(started(3, *goes_on))
    assert "workers: 3 now, 2 before" in said
    mine = {row["step"]: row["loss"] for row in logged(one) if "loss" in row}
    theirs = {row["step"]: row["loss"] for row in logged(two) if "loss" in row}
    assert theirs.keys() == mine.keys()
    for step, loss in mine.items():
        assert theirs[step] == pytest.approx(loss, rel=1e-4)


def test_a_run_whose_rank_is_killed_goes_on(words: Path, tmp_path: Path) -> None:
    run = tmp_path / "killed"
    running = started(2, *options(run, words, "--parallel", "mpi", "--steps", "100000"))
    deadline = time.monotonic() + 60
    while not list(run.glob("checkpoint/step-*/state.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    ranks = [
        int(pid)
        for pid in subprocess.run(
            ["pgrep", "-f", str(run)], capture_output=True, text=True, check=False
        ).stdout.split()
        if Path(f"/proc/{pid}/environ").read_bytes().find(b"PMI_RANK=1\0") >= 0
    ]
    assert ranks
    os.kill(ranks[0], signal.SIGKILL)
    running.communicate(timeout=60)
    assert running.returncode != 0
    made = load_checkpoint(run).progress.step
    local = dataclasses.replace(lm.read_config(run), parallel="local", steps=made + 2)
    result = lm.resume(run, local)
    assert result.step == made + 2
    assert np.isfinite(result.loss or 0)


def test_several_processes_without_the_option_and_mistakes_are_told_once(
    words: Path, tmp_path: Path
) -> None:
    for more, said in (
        ((), "mpiexec started this 3 times without --parallel mpi"),
        (("--parallel", "mpi", "--embed-dim", "17"), "--embed-dim 17 is not a multiple"),
        (("--parallel", "mip"), "mip"),
    ):
        running = started(3, *options(tmp_path / "no", words, *more))
        out, err = running.communicate(timeout=60)
        assert running.returncode == 2
        assert (out + err).count(said) == 1
        assert not (tmp_path / "no").exists()
