"""A batch split over workers, threads or processes, gives the gradients of the whole."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import nn, optim
from tinygrad_edu.lm import GPT, GPTConfig
from tinygrad_edu.parallel import (
    ProcessBackward,
    ThreadedBackward,
    WorkerError,
    Workers,
    can_fork,
    make_workers,
    split_batch,
)

DRAW = np.random.default_rng(0)
IDS, TARGETS = DRAW.integers(0, 11, (5, 8)), DRAW.integers(0, 11, (5, 8))
LINUX = sys.platform.startswith("linux")
PROCESSES = pytest.mark.skipif(not LINUX, reason="processes are forked on Linux only")
KINDS = [
    pytest.param(ThreadedBackward, id="threads"),
    pytest.param(ProcessBackward, id="processes", marks=PROCESSES),
]
Kind = Callable[..., Workers[Any]]


def model() -> GPT:
    return GPT(GPTConfig(11, 8, 2, 2, 16), np.random.default_rng(1))


# At the top of the module, so that other processes find them.


def loss_of(m: GPT, ids: Any, targets: Any) -> tg.Tensor:
    return m.loss(ids, targets)


def failing(m: GPT, ids: Any, targets: Any) -> tg.Tensor:
    if len(ids) == 3:
        raise LookupError("the second part")
    return m.loss(ids, targets)


class _OddError(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def failing_oddly(m: GPT, ids: Any, targets: Any) -> tg.Tensor:
    if len(ids) == 3:
        raise _OddError(1, 2)
    return m.loss(ids, targets)


def overflowing(m: GPT, ids: Any, targets: Any) -> tg.Tensor:
    with_overflow = tg.tensor(np.float32(1e30)) * np.float32(1e30)
    return m.loss(ids, targets) + with_overflow


def dying(m: GPT, ids: Any, targets: Any) -> tg.Tensor:
    if multiprocessing.parent_process() is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    return m.loss(ids, targets)


def some_layers(m: Any, *layers: int) -> tg.Tensor:
    """A loss that needs these layers only."""
    outputs = [m[layer](np.ones((1, 2), np.float32)).sum() for layer in layers]
    return sum(outputs[1:], outputs[0])


def identity(m: GPT, number: int) -> tuple[int, int, int]:
    return number, os.getpid(), threading.get_ident()


def total_of_weights(m: GPT) -> float:
    return float(sum(p.data.sum(dtype=float) for p in m.parameters()))


def gradients(m: nn.Module) -> dict[str, Any]:
    return {name: p.grad.data for name, p in m.named_parameters() if p.grad is not None}


def changed(state: dict[str, Any]) -> dict[str, Any]:
    """An optimizer's state with other averages, as that of another run would be."""
    kept = {
        number: {key: value * 2 if key != "step" else value for key, value in entry.items()}
        for number, entry in state["state"].items()
    }
    return {**state, "state": kept}


def run(kind: Kind, workers: int) -> tuple[float, dict[str, Any]]:
    m = model()
    parts = split_batch([IDS, TARGETS], workers)
    team = kind(m, workers)
    loss = team(loss_of, parts, [len(part[0]) / len(IDS) for part in parts])
    found = {name: g.copy() for name, g in gradients(m).items()}
    team.close()
    return loss, found


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    chosen: Kind = request.param
    return chosen


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_the_parts_sum_to_the_gradient_of_the_whole_batch(kind: Kind, workers: int) -> None:
    whole = model()
    loss = whole.loss(IDS, TARGETS)
    loss.backward()
    found_loss, found = run(kind, workers)
    assert found_loss == pytest.approx(loss.item(), rel=1e-6)
    for name, want in gradients(whole).items():
        scale = np.abs(want).max()
        np.testing.assert_allclose(found[name], want, atol=2e-6 * scale, rtol=0)


@pytest.mark.parametrize("workers", [2, 3])
def test_the_same_number_of_workers_gives_the_same_bits(kind: Kind, workers: int) -> None:
    first, again = run(kind, workers), run(ThreadedBackward, workers)
    assert first[0] == again[0]
    for name, want in first[1].items():
        np.testing.assert_array_equal(again[1][name], want)


def test_workers_see_the_models_numbers_also_those_assigned(kind: Kind) -> None:
    m = model()
    team = kind(m, 3)
    m.final_norm.weight.data = np.full(16, 2.0, np.float32)  # assigned, not written
    sums = team.each(total_of_weights, [()] * 3)
    assert sums == [total_of_weights(m)] * 3
    team.close()


def test_gradients_add_to_those_that_are_there(kind: Kind) -> None:
    m = model()
    team = kind(m, 2)
    for _ in range(3):
        team(loss_of, split_batch([IDS, TARGETS], 2))
    _, once = run(kind, 2)
    # The parts weigh the same here, and 2 and 3 of 5 in `run`.
    single = model()
    other = ThreadedBackward(single, 2)
    other(loss_of, split_batch([IDS, TARGETS], 2))
    assert once.keys() == gradients(m).keys()
    for name, g in gradients(single).items():
        np.testing.assert_allclose(gradients(m)[name], 3 * g, rtol=1e-5, atol=1e-8)
    team.close()
    other.close()


def test_parameters_that_one_part_needs_alone_get_its_gradient(kind: Kind) -> None:
    draw = np.random.default_rng(0)
    m = nn.Sequential(nn.Linear(2, 3, generator=draw), nn.Linear(2, 3, generator=draw))
    team = kind(m, 2)
    for parts in ([(0,), (1,)], [(1,), (0,)], [(0, 1), (0,)], [(0, 1), (1,)], [(0,), (0, 1)]):
        for p in m.parameters():
            p.grad = None
        team(some_layers, parts, [1.0, 1.0])
        for layer in (0, 1):
            times = sum(layer in part for part in parts)
            assert m[layer].weight.grad.data.tolist() == [[times, times]] * 3, parts
    team(some_layers, [(1,)], [1.0])  # fewer parts than workers, and gradients that are there
    assert m[0].weight.grad.data.tolist() == m[1].weight.grad.data.tolist() == [[2, 2]] * 3
    team.close()
    m[1].bias.requires_grad = False
    m[1].bias.grad = None
    team = kind(m, 2)
    team(some_layers, [(0, 1), (1,)], [1.0, 1.0])
    assert m[1].bias.grad is None and m[1].weight.grad.data.tolist() == [[4, 4]] * 3
    team.close()


def test_every_part_runs_in_a_worker_of_its_own(kind: Kind) -> None:
    team = kind(model(), 3)
    found = team.each(identity, [(i,) for i in range(3)])
    assert [number for number, _, _ in found] == [0, 1, 2]
    if kind is ProcessBackward:
        assert len({process for _, process, _ in found}) == 3 and found[0][1] == os.getpid()
    team.close()


def test_threads_work_at_the_same_time() -> None:
    together = threading.Barrier(3, timeout=30)

    def watched(m: GPT, ids: Any, targets: Any) -> tg.Tensor:
        together.wait()  # ends only if all three are here at once
        return m.loss(ids, targets)

    team = ThreadedBackward(model(), 3)
    team(watched, split_batch([IDS, TARGETS], 3))
    team.close()


def test_workers_run_under_the_modes_of_the_caller(kind: Kind) -> None:
    team = kind(model(), 2)
    parts = split_batch([IDS, TARGETS], 2)
    with tg.detect_anomaly(), np.errstate(over="ignore"), pytest.raises(tg.errors.AnomalyError):
        team.each(overflowing, parts)
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        team.each(overflowing, parts)
    with np.errstate(over="ignore"), tg.no_grad():
        assert not any(out.requires_grad for out in team.each(loss_of, parts))
    team.close()


def test_a_worker_that_fails_is_reported_and_nothing_has_changed(kind: Kind) -> None:
    m = model()
    team = kind(m, 2)
    with pytest.raises(LookupError, match="the second part"):
        team(failing, split_batch([IDS, TARGETS], 2))
    assert gradients(m) == {}
    team(loss_of, split_batch([IDS, TARGETS], 2))  # and the workers go on
    assert gradients(m).keys() == dict(m.named_parameters()).keys()
    team.close()


@pytest.mark.parametrize("max_norm", [1e9, 1e-3])
def test_clipping_and_stepping_are_the_optimizers_own_bit_for_bit(
    kind: Kind, max_norm: float
) -> None:
    alone, shared = model(), model()
    serial, split = (
        optim.AdamW(m.parameters(), lr=1e-2, weight_decay=0.1) for m in (alone, shared)
    )
    one = ThreadedBackward(alone, 3)
    team = kind(shared, 3, split) if kind is ProcessBackward else kind(shared, 3)
    for step in range(4):
        for optimizer, workers in ((serial, one), (split, team)):
            optimizer.zero_grad()
            optimizer.param_groups[0]["lr"] = 1e-2 / (step + 1)
            workers(loss_of, split_batch([IDS, TARGETS], 3))
        want = optim.clip_grad_norm_(alone.parameters(), max_norm)
        assert team.clip_grad_norm_(max_norm) == want
        for name, g in gradients(alone).items():
            np.testing.assert_array_equal(gradients(shared)[name], g)
        serial.step()
        team.step(split)
        if step == 1:  # as a resumed run does
            for optimizer in (serial, split):
                optimizer.load_state_dict(changed(optimizer.state_dict()))
    for mine, theirs in zip(alone.parameters(), shared.parameters(), strict=True):
        np.testing.assert_array_equal(theirs.data, mine.data)
        for key, value in serial.state[mine].items():
            np.testing.assert_array_equal(split.state[theirs][key], value)
    one.close()
    team.close()


def test_a_shared_step_counts_as_a_write(kind: Kind) -> None:
    m = model()
    optimizer = optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
    team = make_workers(m, 2, optimizer) if kind is ProcessBackward else kind(m, 2)
    graph = m.loss(IDS, TARGETS)
    team(loss_of, split_batch([IDS, TARGETS], 2))
    team.step(optimizer)
    with pytest.raises(tg.errors.MutationError):
        graph.backward()
    team.close()


@pytest.mark.parametrize("name", ["SGD", "Momentum", "Adam", "AdamW"])
@PROCESSES
def test_processes_share_the_step_of_every_optimizer(name: str) -> None:
    first, second = model(), model()
    make = getattr(optim, name)
    serial, split = make(first.parameters(), lr=0.05), make(second.parameters(), lr=0.05)
    one, team = ThreadedBackward(first, 2), ProcessBackward(second, 2, split)
    for _ in range(3):
        for optimizer, workers in ((serial, one), (split, team)):
            optimizer.zero_grad()
            workers(loss_of, split_batch([IDS, TARGETS], 2))
            workers.step(optimizer)
    for mine, theirs in zip(first.parameters(), second.parameters(), strict=True):
        np.testing.assert_array_equal(theirs.data, mine.data)
    one.close()
    team.close()


@PROCESSES
def test_a_gradient_that_was_replaced_is_the_one_that_is_used() -> None:
    m = model()
    optimizer = optim.SGD(m.parameters(), lr=1.0)
    team = ProcessBackward(m, 2, optimizer)
    team(loss_of, split_batch([IDS, TARGETS], 2))
    before = {name: p.data.copy() for name, p in m.named_parameters()}
    for p in m.parameters():
        p.grad = np.ones(p.shape, np.float32)
    size = sum(p.size for p in m.parameters())
    assert team.clip_grad_norm_(1e9) == pytest.approx(size**0.5)
    team.step(optimizer)
    for name, p in m.named_parameters():
        np.testing.assert_array_equal(p.data, before[name] - 1)
    team.close()


@PROCESSES
def test_an_error_that_cannot_be_sent_is_told_in_words() -> None:
    team = ProcessBackward(model(), 2)
    with pytest.raises(WorkerError, match="_OddError: 1 and 2") as caught:
        team(failing_oddly, split_batch([IDS, TARGETS], 2))
    assert "failing_oddly" in "".join(caught.value.__notes__)  # where it was raised
    team.close()


@PROCESSES
def test_a_process_that_was_killed_is_named_with_its_exit_code() -> None:
    m = model()
    team = ProcessBackward(m, 2)
    with pytest.raises(WorkerError, match=r"worker 2 of 2 \(process \d+\) .* exit code -9"):
        team(dying, split_batch([IDS, TARGETS], 2))
    assert gradients(m) == {}
    with pytest.raises(WorkerError, match="make new ones"):
        team(loss_of, split_batch([IDS, TARGETS], 2))


@PROCESSES
def test_what_cannot_be_sent_is_refused_before_anything_runs() -> None:
    team = ProcessBackward(model(), 2)
    with pytest.raises(WorkerError, match="at the top of a module"):
        team(lambda m, *part: m.loss(*part), split_batch([IDS, TARGETS], 2))
    team(loss_of, split_batch([IDS, TARGETS], 2))
    team.close()


@PROCESSES
def test_a_function_made_after_the_workers_is_reported() -> None:
    team = ProcessBackward(model(), 2)
    globals()["made_later"] = made_later = _named("made_later")
    try:
        with pytest.raises(WorkerError, match="define the function before"):
            team(made_later, split_batch([IDS, TARGETS], 2))
    finally:
        del globals()["made_later"]
    team(loss_of, split_batch([IDS, TARGETS], 2))
    team.close()


def _named(name: str) -> Any:
    def function(m: GPT, ids: Any, targets: Any) -> tg.Tensor:
        return m.loss(ids, targets)

    function.__name__ = function.__qualname__ = name
    return function


@PROCESSES
def test_processes_end_with_the_workers() -> None:
    team = ProcessBackward(model(), 3)
    processes = list(team._processes)
    assert all(p.is_alive() for p in processes)
    team.close()
    assert not any(p.is_alive() for p in processes)
    forgotten = ProcessBackward(model(), 2)
    (process,) = forgotten._processes
    del forgotten
    gc.collect()
    deadline = time.monotonic() + 20
    while process.is_alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not process.is_alive()


@PROCESSES
def test_ctrl_c_is_the_callers_alone() -> None:
    team = ProcessBackward(model(), 2)
    (process,) = team._processes
    team(loss_of, split_batch([IDS, TARGETS], 2))  # it is there and waits
    os.kill(process.pid, signal.SIGINT)
    time.sleep(0.05)
    team(loss_of, split_batch([IDS, TARGETS], 2))
    team.close()


@PROCESSES
def test_a_model_that_changed_its_shapes_is_refused() -> None:
    m = model()
    team = ProcessBackward(m, 2)
    m.final_norm.weight._data = np.ones(17, np.float32)
    with pytest.raises(WorkerError, match=r"float32 \(16,\) when the workers began"):
        team(loss_of, split_batch([IDS, TARGETS], 2))
    team.close()


def test_make_workers_takes_processes_where_the_system_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert isinstance(make_workers(model(), 1), ThreadedBackward)
    team = make_workers(model(), 2)
    assert team.kind == ("processes" if LINUX else "threads")
    team.close()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not can_fork(model()) and make_workers(model(), 2).kind == "threads"
    with pytest.raises(WorkerError, match="use ThreadedBackward"):
        ProcessBackward(model(), 2)


def test_parameters_that_share_an_array_are_left_to_threads() -> None:
    m = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    m[1].weight.data = m[0].weight.data
    assert not can_fork(m)


def test_what_does_not_fit_is_refused(kind: Kind) -> None:
    with pytest.raises(ValueError, match="5 examples cannot be split over 6"):
        split_batch([IDS], 6)
    with pytest.raises(ValueError, match="workers=0"):
        kind(model(), 0)
    team = kind(model(), 1)
    with pytest.raises(ValueError, match="2 parts"):
        team(loss_of, split_batch([IDS, TARGETS], 2))
    with pytest.raises(ValueError, match="1 parts were given with 2 weights"):
        team(loss_of, split_batch([IDS, TARGETS], 1), [1.0, 1.0])
    team.close()
