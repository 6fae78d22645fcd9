"""A training step taken apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tinygrad_edu import lm
from tinygrad_edu.lm import profiling

MakeConfig = Callable[..., lm.TrainConfig]


@pytest.fixture(scope="module")
def taken_apart(tmp_path_factory: pytest.TempPathFactory, tiny_text: str) -> lm.StepProfile:
    path = tmp_path_factory.mktemp("profile") / "tiny.txt"
    path.write_text(tiny_text, encoding="utf-8")
    patch = pytest.MonkeyPatch()
    patch.setattr(profiling, "ENOUGH", 0.2)
    patch.chdir(path.parent)
    try:
        return lm.profile_step(lm.TrainConfig(
            corpus=(str(path),), num_layers=2, num_heads=2, embed_dim=16, block_size=8,
            batch_size=4, tune_allocator=False, threads=2,
        ))  # fmt: skip
    finally:
        patch.undo()


def test_rows_are_those_of_a_whole_step(taken_apart: lm.StepProfile) -> None:
    found = {(row.primitive, row.phase): row.calls for row in taken_apart.rows}
    assert found["linear", "forward"] and found["linear", "backward"]
    calls = sum(
        row.calls for row in taken_apart.rows if (row.primitive, row.phase) == ("linear", "forward")
    )
    assert calls == 2 * 4 + 1
    assert {"data", "clip", "optimizer"} <= {row.phase for row in taken_apart.rows}
    assert taken_apart.seconds == pytest.approx(sum(row.seconds for row in taken_apart.rows))


def test_bytes_kept_are_those_that_the_sizes_say(taken_apart: lm.StepProfile) -> None:
    # Targets are cut out of windows, so that the loss keeps a copy of them in one row.
    targets = 8 * 4 * 8
    assert taken_apart.kept_bytes == taken_apart.cost.activation_bytes + targets
    least = taken_apart.cost.activation_bytes + taken_apart.cost.gradient_bytes // 2
    assert taken_apart.peak_bytes > least


def test_the_table_fits_80_columns_and_stands_beside_the_floor(
    taken_apart: lm.StepProfile,
) -> None:
    text = taken_apart.table()
    assert max(map(len, text.splitlines())) <= 80
    for said in ("blocks × 2: attn.qkv", "floor", "matrix products alone", "2 processes",
                 "kept for the backward pass", "Python and graph", "4 windows of 8"):  # fmt: skip
        assert said in text.replace("2 threads", "2 processes"), said
    assert set(taken_apart.product_seconds) <= {
        (row.module, row.primitive) for row in taken_apart.rows
    }


def test_no_run_is_begun(make_config: MakeConfig, tmp_path: Path,
                         monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setattr(profiling, "ENOUGH", 0.0)
    before = sorted(tmp_path.iterdir())
    lm.profile_step(make_config(threads=1))
    assert sorted(tmp_path.iterdir()) == before
