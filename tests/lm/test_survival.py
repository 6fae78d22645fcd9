"""What a run survives: damaged checkpoints, a full disk, a folder that goes, SIGTERM."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lm.recording import Killed, Recorder, assert_same, rows, untimed

from tinygrad_edu import lm
from tinygrad_edu.lm import checkpoint, safetensors_files
from tinygrad_edu.lm.checkpoint import load_checkpoint
from tinygrad_edu.lm.learner import Learner, new_model
from tinygrad_edu.lm.material import read_material

MakeConfig = Callable[..., lm.TrainConfig]


def steps_kept(run: Path) -> list[int]:
    return sorted(int(path.name[5:13]) for path in (run / "checkpoint").glob("step-*"))


def kill() -> None:
    raise Killed


def flip_a_bit(path: Path) -> None:
    """In the last array's numbers, where a safetensors file still reads well."""
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(bytes(content))


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def remove(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json"])
@pytest.mark.parametrize("harm", [flip_a_bit, cut_short, remove])
def test_a_run_goes_on_from_the_checkpoint_before_a_damaged_one(
    make_config: MakeConfig, tmp_path: Path, name: str, harm: Callable[[Path], None]
) -> None:
    whole = lm.train(make_config(run=tmp_path / "whole", steps=12)).run
    run = tmp_path / "hurt"
    with pytest.raises(Killed):
        lm.train(make_config(run=run, steps=12), Recorder({9: kill}))
    hurt = run / "checkpoint" / "step-00000008" / name
    if name == "state.json" and harm is flip_a_bit:
        hurt.write_text("{" + hurt.read_text())
    else:
        harm(hurt)
    recorder = Recorder()
    lm.resume(run, reporter=recorder)
    assert recorder.steps[0].step == 5
    remarks = [text for name, text in recorder.plans[0].lines() if name == "note"]
    assert any(str(hurt) in text and "step 4" in text for text in remarks), remarks
    assert_same(load_checkpoint(run), load_checkpoint(whole))
    assert untimed(run) == untimed(whole)
    assert steps_kept(run) == [8, 12], "the damaged one was written anew"


def test_where_all_checkpoints_are_damaged_the_newest_is_named(make_config: MakeConfig) -> None:
    run = lm.train(make_config()).run
    for folder in (run / "checkpoint").glob("step-*"):
        flip_a_bit(folder / "model.safetensors")
    with pytest.raises(lm.RunError, match=r"step-00000008\S+ is damaged: it is not what was"):
        lm.resume(run, make_config(steps=12))
    assert steps_kept(run) == [4, 8], "nothing was removed"


def test_a_checkpoint_of_a_newer_version_is_refused_and_kept(make_config: MakeConfig) -> None:
    run = lm.train(make_config()).run
    path = run / "checkpoint" / "step-00000008" / "state.json"
    state = json.loads(path.read_text())
    state["format"] = checkpoint.FORMAT + 1
    path.write_text(json.dumps(state))
    with pytest.raises(lm.RunError, match=r"of format 2, and .* reads up to 1: update"):
        lm.resume(run, make_config(steps=12))
    assert json.loads(path.read_text()) == state


@pytest.mark.parametrize(("keep", "kept"), [(1, [12]), (2, [9, 12]), (9, [0, 3, 6, 9, 12])])
def test_as_many_checkpoints_are_kept_as_asked_for(
    make_config: MakeConfig, keep: int, kept: list[int]
) -> None:
    run = lm.train(make_config(steps=12, checkpoint_interval=3, keep_checkpoints=keep)).run
    assert steps_kept(run) == kept


def test_what_the_bits_depend_on_is_told_where_it_has_changed(make_config: MakeConfig) -> None:
    run = lm.train(make_config(threads=1)).run
    again, other = Recorder(), Recorder()
    lm.resume(run, make_config(threads=1, steps=9), again)
    assert "note" not in dict(again.plans[0].lines())
    lm.resume(run, make_config(threads=2, steps=10), other)
    assert "up to rounding" in dict(other.plans[0].lines())["note"]
    assert "1" in dict(other.plans[0].lines())["note"]


class FullDisk:
    """Refuses what is written into a folder, from a moment on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.folder = folder
        self.full = False
        for module, name in (
            (checkpoint, "write_atomically"), (checkpoint, "append"),
            (safetensors_files, "write_atomically"),
        ):  # fmt: skip
            monkeypatch.setattr(module, name, self.refusing(getattr(module, name)))

    def refusing(self, write: Callable[..., None]) -> Callable[..., None]:
        def wrapped(path: Path, content: Any) -> None:
            if self.full and self.folder in path.parents:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            write(path, content)

        return wrapped

    def fill(self) -> None:
        self.full = True


@pytest.mark.parametrize("fills_at", [5, 7, 8])
def test_a_full_disk_loses_no_step(
    make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fills_at: int
) -> None:
    whole = lm.train(make_config(run=tmp_path / "whole", steps=12, dropout=0.1)).run
    config = make_config(run=tmp_path / "disk" / "run", steps=12, dropout=0.1)
    assert config.run is not None
    disk = FullDisk(monkeypatch, config.run)
    with pytest.raises(lm.RunError, match=r"no space left") as caught:
        lm.train(config, Recorder({fills_at: disk.fill}))
    rescued = tmp_path / "disk" / "run-rescued-1"
    assert f"go on with --resume {rescued}" in str(caught.value)
    assert load_checkpoint(rescued).progress.step >= fills_at
    assert lm.resume(rescued).step == 12
    assert_same(load_checkpoint(rescued), load_checkpoint(whole))
    assert untimed(rescued) == untimed(whole)
    assert (rescued / "samples.txt").read_text() == (whole / "samples.txt").read_text()


def test_a_folder_that_is_removed_while_it_trains_loses_no_step(
    make_config: MakeConfig, tmp_path: Path
) -> None:
    whole = lm.train(make_config(run=tmp_path / "whole", steps=12)).run
    run = tmp_path / "parts"
    gone = Recorder({6: lambda: shutil.rmtree(run)})
    with pytest.raises(lm.RunError, match=r"the folder is gone.*step 7 was saved in") as caught:
        lm.train(make_config(run=run, steps=12), gone)
    assert "parts-rescued-1" in str(caught.value)
    assert "best validation, of step 4, were lost with it" in str(caught.value)
    rescued = tmp_path / "parts-rescued-1"
    lm.resume(rescued)
    assert_same(load_checkpoint(rescued), load_checkpoint(whole))


def emptied(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def test_a_folder_that_is_emptied_while_it_trains_can_be_gone_on_with(
    make_config: MakeConfig, tmp_path: Path
) -> None:
    whole = lm.train(make_config(run=tmp_path / "whole", steps=12)).run
    run = tmp_path / "parts"
    lm.train(make_config(run=run, steps=12), Recorder({6: lambda: emptied(run)}))
    assert_same(load_checkpoint(run), load_checkpoint(whole))
    assert (run / "tokenizer.json").read_bytes() == (whole / "tokenizer.json").read_bytes()
    assert "".join(lm.load_trained(run).write("a", 3))
    longer = lm.TrainConfig(**{**vars(checkpoint.read_config(run)), "steps": 13})
    assert lm.resume(run, longer).step == 13


def test_best_weights_that_are_lost_while_it_trains_are_told_at_the_end(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    write = checkpoint.write_best

    def lost(folder: Path, step: int, weights: Any) -> None:
        write(folder, step, weights)
        (run / "checkpoint" / f"best-{step:08d}.safetensors").unlink()

    monkeypatch.setattr(checkpoint, "write_best", lost)
    with pytest.raises(lm.RunError, match=r"at its end and saved, but .* has those of the last"):
        lm.train(make_config(run=run, patience=9))
    assert load_checkpoint(run).progress.step == 8


def test_where_nothing_can_be_written_the_last_checkpoint_is_named(
    make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk(monkeypatch, tmp_path)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    with pytest.raises(lm.RunError, match=r"no other folder either; it keeps .* of step 4;"):
        lm.train(make_config(), Recorder({6: disk.fill}))
    assert [path.name for path in tmp_path.glob("*rescued*")] == []
    disk.full = False
    assert lm.resume(tmp_path / "run").step == 8


SCRIPT = """
import sys
from pathlib import Path
from tinygrad_edu.cli import main
sys.exit(main(["train", "--corpus", sys.argv[1], "--run", sys.argv[2], "--steps", "100000",
    "--num-layers", "1", "--embed-dim", "16", "--block-size", "8", "--batch-size", "4",
    "--num-heads", "2", "--sample-length", "0", "--validation-interval", "50", "--no-curve",
    "--checkpoint-interval", "1000000", "--threads", "2"]))
"""


def begun(run: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    metrics = run / "metrics.jsonl"
    while time.monotonic() < deadline and process.poll() is None:
        if metrics.exists() and metrics.read_text().count("\n") > 10:
            return
        time.sleep(0.05)
    raise AssertionError(process.communicate(timeout=10))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to catch")
@pytest.mark.parametrize("whole_group", [False, True])
def test_sigterm_saves_the_run_as_ctrl_c_does(
    text_file: Path, tmp_path: Path, whole_group: bool
) -> None:
    run = tmp_path / "run"
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(text_file), str(run)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    begun(run, process)
    if whole_group:
        os.killpg(process.pid, signal.SIGTERM)
    else:
        process.terminate()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, (out, err)
    assert "--resume" in out and "Traceback" not in err
    kept = load_checkpoint(run).progress.step
    assert kept > 0
    assert max(row["step"] for row in rows(run)) == kept


def poisoned(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """From one step on a norm's scale is infinite, and what comes of it a NaN."""
    gradient = Learner.gradient

    def spoilt(self: Learner) -> Any:
        if self.step == step:
            self.model.blocks[0].ln_2.weight.data[0] = np.float32(np.inf)
        return gradient(self)

    monkeypatch.setattr(Learner, "gradient", spoilt)


def test_in_debug_mode_the_cause_of_a_nan_is_named(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    poisoned(monkeypatch, 6)
    with pytest.raises(lm.DivergenceError) as caught:
        lm.train(make_config(debug=True, threads=1))
    assert "step 7 gave a loss of nan" in str(caught.value)
    assert "blocks.0.ln_2" in str(caught.value)
    assert "--debug" not in str(caught.value)


def test_without_debug_mode_it_is_told_how_to_see_the_cause(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    poisoned(monkeypatch, 6)
    config = make_config(threads=1)
    with pytest.raises(lm.DivergenceError, match=rf"see where .* --resume {config.run} --debug"):
        lm.train(config)


@pytest.mark.parametrize("clip_norm", [0.0, 1e-3])
@pytest.mark.parametrize("threads", [1, 2])
def test_gradient_norms_are_those_of_a_plain_backward_pass(
    make_config: MakeConfig, clip_norm: float, threads: int
) -> None:
    config = make_config(threads=threads, clip_norm=clip_norm)
    run = lm.train(config).run
    logged = [row for row in rows(run) if "gradient_norms" in row]
    assert [row["step"] for row in logged] == [0, 4, 8]
    material = read_material(config)
    model = new_model(config, material.tokenizer.vocab_size)
    model.loss(*material.lessons(config).batch(0)).backward()
    squares: dict[str, float] = {}
    for name, parameter in model.named_parameters():
        part = ".".join(name.split(".")[: 2 if name.startswith("blocks") else 1])
        grad = np.asarray(parameter.grad.numpy(), dtype=np.float64)
        squares[part] = squares.get(part, 0.0) + float((grad**2).sum())
    assert logged[0]["gradient_norms"] == pytest.approx(
        {part: square**0.5 for part, square in squares.items()}, rel=1e-4
    )


def test_a_damaged_checkpoint_of_a_later_step_does_not_outlive_a_whole_one(
    make_config: MakeConfig,
) -> None:
    run = lm.train(make_config()).run
    cut_short(run / "checkpoint" / "step-00000008" / "model.safetensors")
    press = Recorder({7: lambda: signal.raise_signal(signal.SIGINT)})
    lm.resume(run, make_config(checkpoint_interval=3), press)
    assert steps_kept(run) == [6, 7]


@pytest.mark.parametrize("left", [0, 1, 100, -1, -30])
@pytest.mark.parametrize("log", ["metrics.jsonl", "samples.txt"])
def test_logs_that_lost_their_end_are_told_and_gone_on_with(
    make_config: MakeConfig, log: str, left: int
) -> None:
    """As a machine that goes down may leave them, or an editor."""
    run = lm.train(make_config(steps=8)).run
    whole = (run / log).read_bytes()
    (run / log).write_bytes(whole[:left])
    heard = Recorder()
    lm.resume(run, lm.TrainConfig(**{**vars(checkpoint.read_config(run)), "steps": 12}), heard)
    (remark,) = heard.plans[0].remarks
    assert f"{log} has lost its end since step 8 was saved" in remark
    kept = whole[: whole[:left].rfind(b"\n") + 1]
    assert (run / log).read_bytes().startswith(kept)
    steps = [row["step"] for row in rows(run) if "loss" in row]  # each line is JSON
    assert steps[-4:] == [9, 10, 11, 12]
    lm.write_report(run)


def test_logs_are_on_the_disk_before_the_checkpoint_that_names_their_length(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        done.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        fsync(descriptor)

    def renamed(source: Any, target: Any) -> None:
        done.append(Path(target).name)
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    lm.train(make_config(steps=4, report=False))
    there = done.index("step-00000004")
    since = done[done.index("step-00000000") : there]
    assert {"metrics.jsonl", "samples.txt"} <= set(since)


@pytest.mark.parametrize("harm", [flip_a_bit, cut_short, remove])
def test_best_weights_that_are_lost_are_told_before_the_run_goes_on(
    make_config: MakeConfig, harm: Callable[[Path], None]
) -> None:
    run = lm.train(make_config(steps=8, patience=5)).run
    (best,) = (run / "checkpoint").glob(f"best-{load_checkpoint(run).progress.best['step']:08d}*")
    harm(best)
    heard = Recorder()
    longer = lm.TrainConfig(**{**vars(checkpoint.read_config(run)), "steps": 16})
    result = lm.resume(run, longer, heard)
    (remark,) = heard.plans[0].remarks
    assert "the weights of the best validation" in remark and "are lost" in remark
    assert result.best is not None and result.best.step > 8
    published = checkpoint.read_arrays(run / "model.safetensors")
    for name, array in checkpoint.read_best(run, result.best.step).items():
        np.testing.assert_array_equal(published[name], array)
