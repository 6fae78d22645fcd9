"""The run folder: what training leaves behind, each file whole or absent.

    config.toml         the options; with the tokenizer they fix the model's shape
    tokenizer.json      symbols and their ids
    model.safetensors   the weights of the newest checkpoint; at the end of a run with patience,
                        those of the best validation
    metrics.jsonl       one JSON object a step, and one a validation
    samples.txt         what the model wrote at each validation
    loss.svg            the losses over the steps (`lm.curve`)
    report.html         the whole run on a page, written at its end (`lm.report`)
    tensorboard/        the logs as TensorBoard reads them, if asked for (`lm.events`)
    checkpoint/step-N/  all that is needed to go on as if nothing had happened
    checkpoint/best-N.safetensors  the weights of the best validation
    .lock               held by the process that trains (`lm.lock`)

A checkpoint is a folder of its own, written under a temporary name, synced and renamed: weights and
optimizer state in it always belong to the same step, whenever the machine goes down. It holds a
digest of each file; where the newest is damaged, the run goes on from the one before.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_edu.backend import is_array, namespace_of
from tinygrad_edu.files import sync_folder, write_atomically
from tinygrad_edu.lm.config import TrainConfig, read_config_file, to_toml
from tinygrad_edu.lm.errors import RunError
from tinygrad_edu.lm.lock import LOCK, held
from tinygrad_edu.lm.safetensors_files import Arrays, read_safetensors, write_safetensors

CONFIG, TOKENIZER, MODEL = "config.toml", "tokenizer.json", "model.safetensors"
METRICS, SAMPLES, CHECKPOINTS = "metrics.jsonl", "samples.txt", "checkpoint"
OPTIMIZER, STATE = "optimizer.safetensors", "state.json"
FORMAT = 1
"""Of a checkpoint's files; a reader refuses a higher one."""
_STEP_FOLDER = re.compile(r"step-(\d+)(?:-(\d+))?")


@dataclass(frozen=True)
class Progress:
    """How far a run has come.

    All randomness is drawn from streams that are functions of `(seed, step)` (`lm.data.stream`), so
    the step, and the seed among the options, are the whole random state.

    Attributes:
        step: updates made.
        seconds: spent on them, over all resumptions.
        text_sha256: of the text, to notice that it has changed.
        options: those that cannot change (`config.fixed_options`), to notice that they have.
        metrics_bytes, samples_bytes: lengths of the two logs at this step.
        loss: the training loss of the last step; None before the first.
        validation_loss: the last one measured, or None.
        best: `patience.Best` as a mapping; None before the first validation.
        environment: what the bits depend on beside all this (`machine.environment`).
    """

    step: int
    seconds: float
    text_sha256: str
    options: dict[str, Any]
    metrics_bytes: int
    samples_bytes: int
    loss: float | None
    validation_loss: float | None
    best: dict[str, Any] | None = None
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Checkpoint:
    """What `load_checkpoint` gives: weights by name, the optimizer's state_dict, the progress.

    Attributes:
        damaged: why a newer checkpoint was passed over; empty where none was.
        best_lost: why it names no best weights any more; empty where it does.
    """

    weights: Arrays
    optimizer: dict[str, Any]
    progress: Progress
    damaged: str = ""
    best_lost: str = ""


@contextlib.contextmanager
def new_run(config: TrainConfig, name: str) -> Iterator[Path]:
    """Make the folder of a new run, and hold it: `config.run`, or the next free `runs/NAME-K`.

    `name` is that of the text, of which what a folder's name can well have is kept.

    Raises:
        RunError: the folder given already holds something, or another process trains in it.
    """
    if config.run is None:
        folder = _next_folder(name)
    else:
        folder = config.run
        _check_free(folder)
        folder.mkdir(parents=True, exist_ok=True)
    with held(folder):
        _check_free(folder)  # between the check above and the lock another run may have come
        yield folder


def _next_folder(name: str) -> Path:
    stem = re.sub(r"[^\w-]+", "-", Path(name).stem).strip("-") or "run"
    for number in itertools.count(1):
        folder = Path("runs") / f"{stem}-{number}"
        with contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True)
            break
    return folder


def _check_free(folder: Path) -> None:
    if (folder / CONFIG).exists():
        raise RunError(
            f"{folder} already holds a run; go on with it with --resume {folder}, "
            "or give another folder with --run"
        )
    if folder.exists() and (
        not folder.is_dir() or any(entry.name != LOCK for entry in folder.iterdir())
    ):
        raise RunError(f"{folder} exists and is not an empty folder; give another with --run")


def write_config(run: Path, config: TrainConfig) -> None:
    """Put `config` into the run folder, without the folder's name: it may be moved, or copied."""
    write_atomically(run / CONFIG, to_toml(replace(config, run=None)))


def read_config(run: str | Path) -> TrainConfig:
    """The options the run was started with.

    Raises:
        RunError: there is no run in that folder.
        ConfigError: its config.toml cannot be read as one.
    """
    path = Path(run) / CONFIG
    if not path.is_file():
        raise RunError(f"{run} is not a run folder: it has no {CONFIG}; give the folder of a run")
    return read_config_file(path)


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], digests: bool = False) -> None:
    """Write named arrays as safetensors, with a digest of each if asked for."""
    write_safetensors(path, arrays, {"format": "tinygrad_edu"}, digests)


def read_arrays(path: Path) -> Arrays:
    """The named arrays of a safetensors file.

    Raises:
        RunError: the file is missing or damaged.
    """
    if not path.is_file():
        raise RunError(f"{path} is missing; the run has no whole checkpoint to read")
    return read_safetensors(path)


def save_checkpoint(
    run: Path,
    weights: Mapping[str, NDArray[Any]],
    optimizer: Mapping[str, Any],
    progress: Progress,
    keep: int = 1,
) -> None:
    """Write a checkpoint, then `model.safetensors`, then drop all but the newest `keep`.

    One of the same step, too, is dropped only when the new one is there, under the name
    `step-N-2`: at no time is there none. Best weights that no checkpoint names are dropped as well.
    """
    parent = run / CHECKPOINTS
    parent.mkdir(exist_ok=True)
    for log in (METRICS, SAMPLES):
        _sync(run / log)  # a machine that goes down must not leave them shorter than it says
    name = f"step-{progress.step:08d}"
    times = [time for step, time in _step_folders(run) if step == progress.step]
    final = parent / (f"{name}-{max(times) + 1}" if times else name)
    partial = parent / f".{final.name}.{os.getpid()}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    arrays, plain = split_state(optimizer)
    write_arrays(partial / MODEL, weights)
    write_arrays(partial / OPTIMIZER, arrays)
    digests = {name: _digest(partial / name) for name in (MODEL, OPTIMIZER)}
    state = {
        "format": FORMAT, "progress": asdict(progress), "sha256": digests, "optimizer": plain
    }  # fmt: skip
    write_atomically(partial / STATE, json.dumps(state, indent=1) + "\n")
    os.replace(partial, final)
    sync_folder(parent)
    write_arrays(run / MODEL, weights)
    newest: dict[int, Path] = {}
    for (step, _), path in sorted(_step_folders(run).items()):
        newest[step] = path
    # Those of later steps were passed over, as damaged, by the run that made this one.
    kept = [newest[step] for step in sorted(newest) if step <= progress.step][-keep:]
    for other in parent.iterdir():
        if other not in kept and other.is_dir():
            shutil.rmtree(other)
    _drop_bests(run, {best for folder in kept if (best := _best_of(folder)) is not None})


def write_best(run: Path, step: int, weights: Mapping[str, NDArray[Any]]) -> None:
    """Keep the weights of the best validation so far, under their step's name.

    Those kept before stay until no checkpoint names them: a run that is killed in between goes on
    from the checkpoint, and needs the ones that it knows of.
    """
    (run / CHECKPOINTS).mkdir(exist_ok=True)
    write_arrays(_best(run, step), weights, digests=True)


def _drop_bests(run: Path, but: set[int]) -> None:
    """Drop the kept weights of all steps but some."""
    kept = {_best(run, step) for step in but}
    for path in (run / CHECKPOINTS).glob("best-*.safetensors"):
        if path not in kept:
            path.unlink()


def _best_of(folder: Path) -> int | None:
    """The step whose weights a checkpoint names as the best; None too where it is damaged."""
    try:
        best = _read_state(folder)["progress"]["best"]
        return int(best["step"]) if best else None
    except (RunError, KeyError, TypeError):
        return None


def publish(run: Path, weights: Mapping[str, NDArray[Any]]) -> None:
    """Make these the run's `model.safetensors`, which is what samples are written with."""
    write_arrays(run / MODEL, weights)


def read_best(run: Path, step: int) -> Arrays:
    """The weights that `write_best` kept; RunError where they are missing or damaged."""
    return read_arrays(_best(run, step))


def _best(run: Path, step: int) -> Path:
    return run / CHECKPOINTS / f"best-{step:08d}.safetensors"


def begun(run: Path) -> bool:
    """Whether a checkpoint was ever written; without one nothing was learnt that could be lost."""
    return bool(_step_folders(run)) or (run / MODEL).exists()


def _step_folders(run: Path) -> dict[tuple[int, int], Path]:
    """Checkpoints by their step and, for one that was written again, which time."""
    return {
        (int(match[1]), int(match[2] or 1)): path
        for path in (run / CHECKPOINTS).glob("step-*")
        if (match := _STEP_FOLDER.fullmatch(path.name))
    }


def load_checkpoint(run: Path) -> Checkpoint:
    """The newest whole checkpoint of a run.

    Raises:
        RunError: there is none, all of them are damaged (the newest is named), or one was written
            by a newer version of this package.
    """
    folders = _step_folders(run)
    if not folders:
        raise RunError(f"{run} has no checkpoint to go on from; start a new run")
    damage: list[DamagedError] = []
    for number in sorted(folders, reverse=True):
        try:
            found = _load(folders[number])
        except DamagedError as error:
            damage.append(error)
        else:
            return replace(found, damaged=str(damage[0])) if damage else found
    raise damage[0]


class DamagedError(RunError):
    """A checkpoint that is not what was written; one before it may be whole."""


def _load(folder: Path) -> Checkpoint:
    path = folder / STATE
    state = _read_state(folder)
    try:
        progress = Progress(**state["progress"])
        plain = state["optimizer"]
        for name, digest in state.get("sha256", {}).items():
            if _digest(folder / name) != digest:
                raise DamagedError(f"{folder / name} is damaged: it is not what was written")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, RunError):
            raise
        raise DamagedError(f"{path} is missing or damaged ({error}); start a new run") from error
    try:
        arrays, weights = read_arrays(folder / OPTIMIZER), read_arrays(folder / MODEL)
    except RunError as error:
        raise DamagedError(str(error)) from error
    try:
        optimizer = join_state(arrays, plain)
    except KeyError as error:
        raise DamagedError(
            f"{folder / OPTIMIZER} lacks {error}, which {STATE} beside it names: the two are of "
            "different checkpoints, or damaged; start a new run"
        ) from error
    return Checkpoint(weights, optimizer, progress)


def _read_state(folder: Path) -> dict[str, Any]:
    path = folder / STATE
    try:
        state: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        version = int(state.get("format", FORMAT))
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise DamagedError(f"{path} is missing or damaged ({error}); start a new run") from error
    if version > FORMAT:
        raise RunError(
            f"{path} is of format {version}, and this version of tinygrad_edu reads up to "
            f"{FORMAT}: update it to go on with this run"
        )
    return state


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def split_state(state: Mapping[str, Any]) -> tuple[Arrays, Any]:
    """An optimizer's nested state_dict as flat named arrays, and the rest of it as JSON has it.

    Where an array was, the rest has `{"array": name}`; the keys of a mapping are kept as pairs, so
    that numbers stay numbers, and tuples are marked, so that they come back as tuples.
    """
    arrays: Arrays = {}

    def visit(value: Any, path: str) -> Any:
        if is_array(value):
            arrays[path] = namespace_of(value).to_numpy(value)
            return {"array": path}
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, Mapping):
            return {"pairs": [[key, visit(item, f"{path}.{key}")] for key, item in value.items()]}
        if isinstance(value, list | tuple):
            items = [visit(item, f"{path}.{index}") for index, item in enumerate(value)]
            return {"list" if isinstance(value, list) else "tuple": items}
        return value

    plain = visit(dict(state), "optimizer")
    return arrays, plain


def join_state(arrays: Mapping[str, NDArray[Any]], plain: Any) -> dict[str, Any]:
    """What `split_state` took apart, put together again."""

    def visit(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if "array" in value:
            return arrays[value["array"]]
        if "pairs" in value:
            return {key: visit(item) for key, item in value["pairs"]}
        if "tuple" in value:
            return tuple(visit(item) for item in value["tuple"])
        return [visit(item) for item in value["list"]]

    joined: dict[str, Any] = visit(plain)
    return joined


def truncate(path: Path, length: int) -> None:
    """Cut a log back to the length it had at the checkpoint; what came later is made again.

    Of one that is shorter, half a line at its end is cut off: what is added begins a line.
    """
    if not path.exists():
        return
    if path.stat().st_size < length:
        length = path.read_bytes().rfind(b"\n") + 1
    os.truncate(path, length)


def _sync(path: Path) -> None:
    """Have what was added to a log on the disk."""
    with contextlib.suppress(FileNotFoundError), open(path, "rb+") as file:
        os.fsync(file.fileno())


def length(path: Path) -> int:
    """Bytes in a log; 0 where it has not been begun."""
    return path.stat().st_size if path.exists() else 0


def append(path: Path, text: str) -> None:
    """Add `text` to a log and hand it to the system."""
    with open(path, "a", encoding="utf-8", newline="") as file:
        file.write(text)
