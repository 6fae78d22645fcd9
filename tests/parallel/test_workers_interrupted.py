"""Workers after an interruption, with chance, with changed flags, and beside other processes."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from parallel.test_workers import IDS, KINDS, PROCESSES, TARGETS, loss_of, model

import tinygrad_edu as tg
from tinygrad_edu import nn, optim
from tinygrad_edu.parallel import ProcessBackward, WorkerError, Workers, split_batch
from tinygrad_edu.parallel import processes as module

Kind = Callable[..., Workers[Any]]
PARTS = [(np.zeros(1),), (np.ones(1),)]


class Small(nn.Module):
    """Two layers with dropout between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4, generator=np.random.default_rng(0))
        self.drop = nn.Dropout(0.5)
        self.second = nn.Linear(4, 4, generator=np.random.default_rng(1))

    def forward(self, x: Any) -> Any:
        return self.second(self.drop(self.first(x)))


# At the top of the module, so that other processes find them.


def mask(m: Any, x: Any) -> Any:
    return tg.dropout(tg.ones(64), 0.5).tolist()


def training(m: Any, x: Any) -> bool:
    return bool(m.training)


def unsendable(m: Any, x: Any) -> Any:
    return lambda: 1


def square(m: Any, x: Any) -> Any:
    return (m(tg.ones(3, 4) + tg.tensor(x)) ** 2).sum()


def first_number(m: Any, x: Any) -> float:
    return float(x[0])


# Interruptions.


@PROCESSES
@pytest.mark.parametrize("where", ["_send", "_receive"])
def test_an_interrupted_call_ends_the_team_rather_than_mix_answers_up(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = ProcessBackward(Small(), 2)
    assert workers.each(first_number, PARTS) == [0, 1]

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ProcessBackward, where, interrupted)
        with pytest.raises(KeyboardInterrupt):
            workers.each(first_number, PARTS)
    with pytest.raises(WorkerError, match="the workers were closed; make new ones"):
        workers.each(first_number, [(np.full(1, 7.0),), (np.full(1, 8.0),)])
    again = ProcessBackward(Small(), 2)
    assert again.each(first_number, [(np.full(1, 7.0),), (np.full(1, 8.0),)]) == [7, 8]
    again.close()


@PROCESSES
def test_a_result_that_cannot_be_sent_is_an_error_and_the_team_lives_on() -> None:
    workers = ProcessBackward(Small(), 2)
    with pytest.raises(WorkerError, match="a result cannot be sent back"):
        workers.each(unsendable, PARTS)
    assert workers.each(first_number, PARTS) == [0, 1]
    workers.close()


@PROCESSES
def test_closing_does_not_wait_for_processes_that_were_forked_later() -> None:
    first, second = ProcessBackward(Small(), 2), ProcessBackward(Small(), 2)
    other = multiprocessing.get_context("fork").Process(target=time.sleep, args=(20,), daemon=True)
    other.start()
    processes = [*first._processes, *second._processes]
    start = time.perf_counter()
    first.close()
    second.close()
    assert time.perf_counter() - start < 4
    assert [p.exitcode for p in processes] == [0, 0]
    other.kill()
    assert not any(not pipe.closed for pipe in [*first._pipes, *second._pipes])
    assert len(list(module._open)) >= 0


# Chance.


@pytest.mark.parametrize("kind", KINDS)
def test_each_worker_has_a_random_stream_of_its_own_that_the_seed_decides(kind: Kind) -> None:
    workers = kind(Small(), 3)
    parts = [*PARTS, (np.ones(1),)]
    tg.manual_seed(5)
    one = workers.each(mask, parts)
    after = tg.default_generator().random()
    two = workers.each(mask, parts)
    tg.manual_seed(5)
    again = workers.each(mask, parts)
    assert tg.default_generator().random() == after
    workers.close()
    assert one == again
    assert len({tuple(m) for m in (*one, *two)}) == 6


# Flags.


@pytest.mark.parametrize("kind", KINDS)
def test_freezing_and_eval_reach_every_worker(kind: Kind) -> None:
    net = Small()
    workers = kind(net, 2)
    assert workers.each(training, PARTS) == [True, True]
    net.eval()
    assert workers.each(training, PARTS) == [False, False]
    net.first.weight.requires_grad_(False)
    workers(square, PARTS)
    assert net.first.weight.grad is None
    assert net.second.weight.grad is not None
    net.first.weight.requires_grad_(True)
    net.zero_grad()
    workers(square, PARTS)
    whole = Small().eval()
    ((square(whole, *PARTS[0]) + square(whole, *PARTS[1])) * 0.5).backward()
    np.testing.assert_allclose(net.first.weight.grad.data, whole.first.weight.grad.data, rtol=1e-5)
    workers.close()


# Rounding.


def test_plain_descent_has_the_same_bits_for_many_small_parameters() -> None:
    def trained(kind: Any) -> list[Any]:
        net = nn.Sequential(*[nn.Linear(8, 8, generator=np.random.default_rng(i))
                              for i in range(300)])  # fmt: skip
        optimizer = optim.SGD(net.parameters(), lr=0.1)
        rng = np.random.default_rng(3)
        workers = kind(net, 2, optimizer) if kind is ProcessBackward else None
        for _ in range(2):
            for p in net.parameters():
                p.grad = tg.tensor(rng.normal(size=p.shape).astype(np.float32))
            if workers is None:
                optimizer.step()
            else:
                for i, p in enumerate(net.parameters()):
                    workers._memory.total[i][...] = p.grad.data
                    p._grad = workers._memory.total[i]
                workers.step(optimizer)
        if workers is not None:
            workers.close()
        return [p.data.copy() for p in net.parameters()]

    if not module.can_fork(nn.Linear(2, 2)):
        pytest.skip("processes are forked on Linux only")
    for a, b in zip(trained(None), trained(ProcessBackward), strict=True):
        assert (a == b).all()


# What is refused.


@pytest.mark.parametrize("kind", KINDS)
def test_no_parts_and_uneven_arrays_are_refused(kind: Kind) -> None:
    workers = kind(model(), 2)
    with pytest.raises(ValueError, match="0 parts were given to 2 workers"):
        workers(loss_of, [])
    workers.close()
    with pytest.raises(ValueError, match=r"of one length; got \[5, 4\]"):
        split_batch([IDS, TARGETS[:4]], 2)
