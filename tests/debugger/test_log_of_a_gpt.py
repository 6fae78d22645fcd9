"""A language model's backward pass as a log: within its memory, readable, right at every event."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu.debugger.log import record
from tinygrad_edu.lm.gpt import GPT, GPTConfig


def loss_of(layers: int, width: int) -> Any:
    config = GPTConfig(
        vocab_size=31, block_size=16, num_layers=layers, num_heads=2, embed_dim=width
    )
    model = GPT(config)
    ids = np.random.default_rng(0).integers(0, 31, (2, 16))
    return tg.cross_entropy(model(ids), ids)


@pytest.mark.parametrize("fused", [True, False])
def test_four_layers_are_read_at_80_columns_within_the_stated_memory(fused: bool) -> None:
    if fused:
        loss = loss_of(4, 32)
    else:
        with tg.unfused():
            loss = loss_of(4, 32)
    log = record(loss)
    assert log.memory == sum(np.asarray(log.gradient(node)).nbytes for node in log.nodes)
    assert len(log) == (34 if fused else 242)
    for event in log:
        text = repr(event)
        assert all(len(line) <= 80 for line in text.splitlines()), text
        assert "'(…)" not in text
    little = record(loss, limit=log.memory // 4)
    assert little.memory <= log.memory // 4
    assert little.compare(log) is None


@pytest.mark.parametrize("fused", [True, False])
def test_each_event_of_a_block_agrees_with_differences(fused: bool) -> None:
    tg.set_default_dtype("float64")
    try:
        if fused:
            loss = loss_of(1, 8)
        else:
            with tg.unfused():
                loss = loss_of(1, 8)
        for event in record(loss):
            for use in event.uses:
                found = use.check()
                assert found is not None and found.ok, f"{event!r}: {found}"
    finally:
        tg.set_default_dtype("float32")


def test_events_know_their_module() -> None:
    log = record(loss_of(1, 8))
    assert any("GPT.blocks.0.attn.qkv" in repr(event) for event in log)
