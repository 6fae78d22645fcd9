"""When a run's files cannot be written: what has been learnt is saved elsewhere, and said.

A disk that is full, a folder that was removed or made read-only while it trained: the steps made
since the last checkpoint are in memory only. They are written as a run folder of their own, beside
the run or in the system's folder for temporary files, from where the run can go on.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tinygrad_edu.lm import checkpoint
from tinygrad_edu.lm.errors import RunError

if TYPE_CHECKING:
    from tinygrad_edu.lm.session import Session

MOST = 1000
"""Names that are tried for a folder to rescue into."""


def rescued(session: Session, error: OSError) -> RunError:
    """The error to raise for one of the system, after saving what is not in a checkpoint yet."""
    step, run = session.learner.step, session.run
    what = f"the files of {run} cannot be written ({_why(error, run)})"
    kept = _kept(run)
    if kept == step:
        return RunError(f"{what}; it keeps the checkpoint of step {step}: mend that, and go on "
                        f"with --resume {run}")  # fmt: skip
    for folder in _folders(run):
        try:
            lost = _save(session, folder)
        except OSError:
            continue
        return RunError(
            f"{what}; step {step} was saved in {folder} instead{lost}: go on with "
            f"--resume {folder}"
        )
    left = "nothing of it is left" if kept is None else f"it keeps the checkpoint of step {kept}"
    return RunError(f"{what}, and no other folder either; {left}; free some space and try again")


def _why(error: OSError, run: Path) -> str:
    if not run.exists():
        return "the folder is gone: removed or renamed"
    return (error.strerror or str(error)).lower()


def _kept(run: Path) -> int | None:
    try:
        return checkpoint.load_checkpoint(run).progress.step
    except (RunError, OSError):
        return None


def _folders(run: Path) -> list[Path]:
    """Where to try: new folders beside the run, then among the temporary files."""
    found = []
    for parent in (run.absolute().parent, Path(tempfile.gettempdir())):
        for number in range(1, MOST):
            folder = parent / f"{run.name}-rescued-{number}"
            if not folder.exists():
                found.append(folder)
                break
    return found


def _save(session: Session, folder: Path) -> str:
    """A new run folder with the session's state, or none where it cannot be written whole.

    Gives what is lost nevertheless, as words to go on a sentence with; empty where nothing is.
    """
    folder.mkdir(parents=True)
    try:
        return _fill(session, folder)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _fill(session: Session, folder: Path) -> str:
    """Write the session's state, its logs as far as they can be read."""
    before = session.run
    for log in (checkpoint.METRICS, checkpoint.SAMPLES):
        with contextlib.suppress(OSError):
            whole = (before / log).read_bytes()
            (folder / log).write_bytes(whole[: whole.rfind(b"\n") + 1])
    lost = _save_best(session, folder)
    if session.unlogged:
        checkpoint.append(folder / checkpoint.METRICS, session.unlogged)
    session.run = folder
    try:
        session.save()
    finally:
        session.run = before
    return lost


def _save_best(session: Session, folder: Path) -> str:
    """The weights of the best validation; where they are gone, the next one is the best."""
    best = session.best
    if best is None:
        return ""
    if best.step == session.learner.step:
        weights = session.weights()
    else:
        try:
            weights = checkpoint.read_best(session.run, best.step)
        except (OSError, RunError):
            session.best = None
            return f" (the weights of the best validation, of step {best.step}, were lost with it)"
    checkpoint.write_best(folder, best.step, weights)
    return ""
