"""A batch split over threads gives the gradients of the whole."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu.lm import GPT, GPTConfig
from tinygrad_edu.parallel import ThreadedBackward, split_batch

DRAW = np.random.default_rng(0)
IDS, TARGETS = DRAW.integers(0, 11, (5, 8)), DRAW.integers(0, 11, (5, 8))


def model() -> GPT:
    return GPT(GPTConfig(11, 8, 2, 2, 16), np.random.default_rng(1))


def loss_of(m: GPT, ids: Any, targets: Any) -> tg.Tensor:
    return m.loss(ids, targets)


def gradients(m: GPT) -> dict[str, Any]:
    return {name: p.grad.data for name, p in m.named_parameters() if p.grad is not None}


def run(workers: int) -> tuple[float, dict[str, Any]]:
    m = model()
    parts = split_batch([IDS, TARGETS], workers)
    threads = ThreadedBackward(m, workers)
    loss = threads(loss_of, parts, [len(part[0]) / len(IDS) for part in parts])
    threads.close()
    return loss, gradients(m)


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_the_parts_sum_to_the_gradient_of_the_whole_batch(workers: int) -> None:
    whole = model()
    loss = whole.loss(IDS, TARGETS)
    loss.backward()
    found_loss, found = run(workers)
    assert found_loss == pytest.approx(loss.item(), rel=1e-6)
    for name, want in gradients(whole).items():
        scale = np.abs(want).max()
        np.testing.assert_allclose(found[name], want, atol=2e-6 * scale, rtol=0)


def test_the_same_workers_give_the_same_bits() -> None:
    first, again = run(3), run(3)
    assert first[0] == again[0]
    for name, want in first[1].items():
        np.testing.assert_array_equal(again[1][name], want)


def test_replicas_share_the_numbers_and_not_the_gradients() -> None:
    m = model()
    threads = ThreadedBackward(m, 2)
    m.final_norm.weight.data = np.full(16, 2.0, np.float32)  # assigned, not written
    threads(loss_of, split_batch([IDS, TARGETS], 2))
    for mine, theirs in zip(m.parameters(), threads.models[1].parameters(), strict=True):
        assert np.shares_memory(mine.data, theirs.data)
        assert mine.grad is not None and theirs.grad is None
    threads.close()


def test_gradients_add_to_those_that_are_there() -> None:
    m = model()
    threads = ThreadedBackward(m, 2)
    for _ in range(2):
        threads(loss_of, split_batch([IDS, TARGETS], 2))
    _, once = run(2)
    m2 = model()
    threads2 = ThreadedBackward(m2, 2)
    threads2(loss_of, split_batch([IDS, TARGETS], 2))
    for name, g in gradients(m2).items():
        np.testing.assert_allclose(gradients(m)[name], 2 * g, rtol=1e-6)
    threads.close()
    threads2.close()
    assert once.keys() == gradients(m).keys()


def test_every_part_runs_in_a_thread_of_its_own() -> None:
    seen: list[int] = []
    together = threading.Barrier(3, timeout=30)

    def watched(m: GPT, ids: Any, targets: Any) -> tg.Tensor:
        seen.append(threading.get_ident())
        together.wait()  # ends only if all three are here at once
        return m.loss(ids, targets)

    threads = ThreadedBackward(model(), 3)
    threads(watched, split_batch([IDS, TARGETS], 3))
    threads.close()
    assert len(set(seen)) == 3


def test_workers_run_under_the_modes_of_the_thread_that_asked() -> None:
    m = model()
    m.token_embedding.weight.data[:] = np.nan
    threads = ThreadedBackward(m, 2)
    seen: list[bool] = []

    def watched(m: GPT, ids: Any, targets: Any) -> tg.Tensor:
        seen.append(np.geterr()["over"] == "raise")
        return m.loss(ids, targets)

    with tg.detect_anomaly(), np.errstate(over="raise"), pytest.raises(tg.errors.AnomalyError):
        threads(watched, split_batch([IDS, TARGETS], 2))
    assert seen == [True, True]
    threads.close()


def test_a_worker_that_fails_is_reported_and_nothing_has_changed() -> None:
    m = model()
    threads = ThreadedBackward(m, 2)

    def failing(m: GPT, ids: Any, targets: Any) -> tg.Tensor:
        if len(ids) == 3:
            raise RuntimeError("the second part")
        return m.loss(ids, targets)

    with pytest.raises(RuntimeError, match="the second part"):
        threads(failing, split_batch([IDS, TARGETS], 2))
    assert gradients(m) == {}
    threads.close()


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="5 examples cannot be split over 6"):
        split_batch([IDS], 6)
    with pytest.raises(ValueError, match="workers=0"):
        ThreadedBackward(model(), 0)
    threads = ThreadedBackward(model(), 1)
    with pytest.raises(ValueError, match="2 parts"):
        threads(loss_of, split_batch([IDS, TARGETS], 2))
