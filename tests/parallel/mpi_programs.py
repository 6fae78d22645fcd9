"""Programs that tests start under `mpiexec`; each prints what it found, from rank 0, as JSON."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from typing import Any

import numpy as np

from tinygrad_edu import Tensor, lm, optim
from tinygrad_edu.lm.learner import loss_of
from tinygrad_edu.parallel import MPIBackward, WorkerError, serve_mpi, world

IGNORED = -100


def model_of(dtype: str = "float64") -> lm.GPT:
    model = lm.GPT(lm.GPTConfig(17, 8, 2, 2, 16), np.random.default_rng(0))
    for p in model.parameters():
        p.data = p.data.astype(dtype)
    return model


def optimizer_of(model: lm.GPT) -> optim.AdamW:
    return optim.AdamW(model.parameters(), lr=1e-2)


def batch(rows: int, step: int) -> tuple[Any, Any]:
    """Ids and targets, of which some do not count; in the first row none does."""
    rng = np.random.default_rng([7, step])
    ids, targets = rng.integers(0, 17, (2, rows, 8))
    targets[rng.random(targets.shape) < 0.4] = IGNORED
    targets[0] = IGNORED
    targets[-1, 0] = 3
    return ids, targets


def digest(model: lm.GPT) -> str:
    """Of all weights."""
    found = hashlib.sha256()
    for p in model.parameters():
        found.update(np.ascontiguousarray(p._data).tobytes())
    return found.hexdigest()


def jobs(ids: Any, targets: Any, ranks: int, turns: int) -> tuple[list[Any], list[list[float]]]:
    parts, shares = [], []
    whole = (targets != IGNORED).sum()
    for worker, rows in enumerate(np.array_split(np.arange(len(ids)), ranks)):
        pieces = np.array_split(rows, turns)
        found = [(ids[p], targets[p]) for p in pieces if len(p) and (targets[p] != IGNORED).any()]
        if found:
            parts.append([(*one, 1, 0, worker, i) for i, one in enumerate(found)])
            shares.append([(one[1] != IGNORED).sum() / whole for one in found])
    return parts, shares


def whole_batch(link: Any) -> Any:
    """Five steps, each beside the same step of one worker on the whole batch."""
    turns = int(sys.argv[2])
    model, alone = model_of(), model_of()
    mine, other = optimizer_of(model), optimizer_of(alone)
    workers = MPIBackward(model, mine, link)
    worst, norms, losses = 0.0, [], []
    for step in range(5):
        ids, targets = batch(7 if step % 2 else 5, step)
        parts, shares = jobs(ids, targets, link.size, turns)
        loss = workers(loss_of, parts, shares)
        norm = workers.clip_grad_norm_(0.3)
        expected = alone.loss(ids, targets)
        expected.backward()
        norms.append([norm, float(optim.clip_grad_norm_(alone.parameters(), 0.3))])
        losses.append([loss, float(expected.item())])
        for p, q in zip(model.parameters(), alone.parameters(), strict=True):
            assert p.grad is not None and q.grad is not None
            worst = max(worst, float(np.abs(p.grad.data - q.grad.data).max()))
        workers.step(mine)
        mine.zero_grad()
        other.step()
        other.zero_grad()
    digests = workers.each(digest, [()] * link.size)
    weights = max(
        float(np.abs(p._data - q._data).max())
        for p, q in zip(model.parameters(), alone.parameters(), strict=True)
    )
    return {
        "worst": worst, "norms": norms, "losses": losses, "digests": digests, "weights": weights,
    }  # fmt: skip


def fails_on(model: lm.GPT, number: int) -> Tensor:
    if number == 1:
        raise ValueError("a part of number 1")
    return model.loss(np.zeros((1, 8), int), np.ones((1, 8), int))


def failing(link: Any) -> Any:
    """One rank's part raises; then all go on."""
    model = model_of()
    workers = MPIBackward(model, None, link)
    said = ""
    try:
        workers(fails_on, [(0,), (1,), (2,)][: link.size])
    except ValueError as error:
        said = f"{error} | {' '.join(error.__notes__)}"
    changed = any(p.grad is not None for p in model.parameters())
    loss = workers(fails_on, [(0,), (2,)])
    try:
        workers(lambda model: None, [(), ()])
    except WorkerError as error:
        unsendable = str(error)
    return {"said": said, "changed": changed, "loss": loss, "unsendable": unsendable}


def changed_here(link: Any) -> Any:
    """Weights, gradients and averages that rank 0 changes reach the others."""
    model = model_of()
    optimizer = optimizer_of(model)
    workers = MPIBackward(model, optimizer, link)
    every = [()] * link.size
    found = []

    def step() -> None:
        ids, targets = batch(4, 0)
        workers(loss_of, *jobs(ids, targets, 2, 1))
        workers.step(optimizer)
        optimizer.zero_grad()
        found.append(workers.each(digest, every))

    step()
    first = next(model.parameters())
    first.data = first.data * 0.5  # assigned
    found.append(workers.each(digest, every))
    first.data *= 1.5  # written
    found.append(workers.each(digest, every))
    optimizer.load_state_dict(optimizer_of(model_of()).state_dict())  # averages of the beginning
    step()
    for group in optimizer.param_groups:
        group["lr"] = 0.5
    ids, targets = batch(4, 1)
    workers(loss_of, *jobs(ids, targets, 2, 1))
    assert first.grad is not None
    first.grad.data *= 0.0  # a gradient that only rank 0 has
    workers.step(optimizer)
    found.append(workers.each(digest, every))
    workers(loss_of, *jobs(ids, targets, 2, 1))  # added to what is there
    workers.step(optimizer)
    found.append(workers.each(digest, every))
    workers.close()
    again = MPIBackward(model, optimizer, link)
    found.append(again.each(digest, every))
    return found


def dies_or_hangs(model: lm.GPT, number: int, victim: int, how: int) -> Tensor:
    if number == victim:
        os.kill(os.getpid(), how)
    return model.loss(np.zeros((1, 8), int), np.ones((1, 8), int))


def losing(link: Any) -> Any:
    """A rank dies, or stands still, within a step."""
    victim, how = int(sys.argv[2]), int(sys.argv[3])
    workers = MPIBackward(model_of(), None, link)
    workers(dies_or_hangs, [(n, -1, 0) for n in range(link.size)])
    workers(dies_or_hangs, [(n, victim, how) for n in range(link.size)])
    return "not reached"


if __name__ == "__main__":
    here = world()
    if here.rank:
        serve_mpi(here)
    else:
        print(json.dumps(globals()[sys.argv[1]](here)))
