"""One process a run folder, and two processes that begin at once get two folders."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from lm.recording import Recorder, untimed

from tinygrad_edu import lm
from tinygrad_edu.lm.lock import held

MakeConfig = Callable[..., lm.TrainConfig]
ROOT = Path(__file__).parents[2]


def test_a_run_that_is_being_trained_cannot_be_resumed(make_config: MakeConfig) -> None:
    run = make_config().run
    assert run is not None
    refusals: list[str] = []

    def again() -> None:
        before = (run / "metrics.jsonl").read_bytes()
        for use in (lambda: lm.resume(run), lambda: lm.train(make_config())):
            with pytest.raises(lm.RunError) as caught:
                use()
            refusals.append(str(caught.value))
        assert (run / "metrics.jsonl").read_bytes() == before

    lm.train(make_config(), Recorder({5: again}))
    assert f"{run} is being trained by process {os.getpid()}; wait" in refusals[0]
    assert "already holds a run" in refusals[1]
    assert [row["step"] for row in untimed(run) if "loss" in row] == list(range(1, 9))


def test_a_new_run_waits_for_no_folder_that_is_held(
    make_config: MakeConfig, tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    with held(tmp_path / "run"), pytest.raises(lm.RunError, match="is being trained by process"):
        lm.train(make_config())
    assert lm.train(make_config()).step == 8, "what a dead process leaves is no obstacle"


def test_a_dead_process_holds_nothing(make_config: MakeConfig) -> None:
    run = lm.train(make_config(steps=4)).run
    script = (
        "import sys, time, pathlib; from tinygrad_edu.lm.lock import held\n"
        "with held(pathlib.Path(sys.argv[1])): print('held', flush=True); time.sleep(600)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(run)], cwd=ROOT, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(lm.RunError, match=f"is being trained by process {process.pid};"):
            lm.resume(run, make_config(steps=8))
    finally:
        process.kill()
        process.communicate()
    assert lm.resume(run, make_config(steps=8)).step == 8


def test_a_folder_made_between_the_look_and_the_making_is_left_alone(
    make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mkdir = Path.mkdir
    raced: list[Path] = []

    def another_is_quicker(self: Path, *args: int, **options: bool) -> None:
        if self.name == "tiny-1" and not raced:
            raced.append(self)
            mkdir(self, parents=True)
            (self / "theirs").touch()
        mkdir(self, *args, **options)

    monkeypatch.setattr(Path, "mkdir", another_is_quicker)
    assert lm.train(make_config(run=None, steps=0)).run == Path("runs/tiny-2")
    assert [path.name for path in Path("runs/tiny-1").iterdir()] == ["theirs"]


def test_a_folder_that_is_no_run_gets_no_lock(make_config: MakeConfig, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    with pytest.raises(lm.RunError, match="is not a run folder"):
        lm.resume(tmp_path)
    with pytest.raises(lm.RunError, match="not an empty folder"):
        lm.train(make_config(run=tmp_path))
    assert sorted(tmp_path.iterdir()) == before


def test_a_file_system_without_locks_is_no_obstacle(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno

    from tinygrad_edu.lm import lock

    def refuse(descriptor: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock, "_lock", refuse)
    assert lm.train(make_config()).step == 8
