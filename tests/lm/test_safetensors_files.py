"""Safetensors: contiguous always, half precision, shards, and a sentence for what is no such file.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save

from tinygrad_edu import lm
from tinygrad_edu.lm.safetensors_files import (
    DIGESTS,
    metadata_of,
    read_safetensors,
    read_weights,
    write_safetensors,
)

GOLDEN = Path(__file__).parents[3] / "shared" / "data" / "safetensors_golden.safetensors"
KINDS = {
    "float16": np.float16, "float32": np.float32, "float64": np.float64, "int64": np.int64,
    "int8": np.int8, "uint8": np.uint8, "uint64": np.uint64, "bool": np.bool_,
    "bfloat16": ml_dtypes.bfloat16,
}  # fmt: skip


def refusal(path: Path) -> str:
    with pytest.raises(lm.RunError) as error:
        read_safetensors(path)
    said = str(error.value)
    assert str(path) in said
    return said


@pytest.mark.parametrize("kind", KINDS)
def test_every_type_comes_back_as_it_was(kind: str, tmp_path: Path) -> None:
    arrays = {
        "a": np.arange(6).reshape(2, 3).astype(KINDS[kind]),
        "none": np.zeros((0, 5), KINDS[kind]), "one": np.ones((), KINDS[kind]),
    }  # fmt: skip
    write_safetensors(tmp_path / "x", arrays, digests=True)
    back = read_safetensors(tmp_path / "x")
    assert back.keys() == arrays.keys()
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype
        assert back[name].shape == array.shape
        assert np.array_equal(back[name], array)


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a.T, lambda a: a[::-1], lambda a: a[:, ::2], lambda a: a[1:, 1:],
        lambda a: np.asfortranarray(a), lambda a: np.broadcast_to(a[0], a.shape),
        lambda a: a.astype(">f4"),
    ],
)  # fmt: skip
def test_views_are_written_as_they_read(view: Any, tmp_path: Path) -> None:
    """The library writes the memory of a transposed view, which is other numbers (its #17)."""
    array = view(np.arange(12, dtype=np.float32).reshape(3, 4))
    write_safetensors(tmp_path / "x", {"a": array}, digests=True)
    assert np.array_equal(load_file(tmp_path / "x")["a"], array)
    assert np.array_equal(read_safetensors(tmp_path / "x")["a"], array)


def test_the_golden_file_of_the_official_library_is_read() -> None:
    if not GOLDEN.exists():
        pytest.skip("the golden file is not beside this checkout")
    found = read_safetensors(GOLDEN)
    kinds = {name: (str(array.dtype), array.shape) for name, array in found.items()}
    assert kinds == {
        "ids": ("int64", (5,)), "empty": ("float32", (0, 5)), "scalar": ("float32", ()),
        "wte.weight": ("float32", (7, 4)), "h.0.attn.c_attn.weight": ("float16", (4, 12)),
        "mask": ("bool", (2,)),
    }  # fmt: skip
    for name, array in load_file(GOLDEN).items():
        assert np.array_equal(found[name], array)
    assert metadata_of(GOLDEN) == {"note": "ação ✓", "format": "np"}


def test_what_is_no_whole_file_is_said(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    assert "cannot be read (No such file" in refusal(path)
    whole = save({"a": np.zeros(100, np.float32), "b": np.ones(3, np.float32)})
    path.write_bytes(whole[:-50])
    assert f"it has {len(whole) - 50:,} of {len(whole):,} bytes; copy it again" in refusal(path)
    path.write_bytes(whole + b"x")
    assert "not a whole safetensors file: deserializing: incomplete metadata" in refusal(path)
    path.write_bytes(b"{" + whole[1:])
    assert "not a whole safetensors file" in refusal(path)
    path.write_bytes(whole[:8] + b"!" + whole[9:])
    assert "invalid JSON in header" in refusal(path)
    path.write_bytes(b"")
    assert "it is empty; copy it again" in refusal(path)
    path.write_bytes(whole[:30])
    assert "not a whole safetensors file: deserializing: " in refusal(path)
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    assert "a pointer of Git LFS" in refusal(path)
    for protocol in (2, 4):
        path.write_bytes(pickle.dumps({"a": 1}, protocol))
        assert "a pickle of PyTorch, which can run any code" in refusal(path)
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    assert "a pickle of PyTorch" in refusal(path)


def test_a_type_that_is_not_read_is_named(tmp_path: Path) -> None:
    head = b'{"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}}'
    (tmp_path / "x").write_bytes(len(head).to_bytes(8, "little") + head + bytes(4))
    assert "a in " in (said := refusal(tmp_path / "x"))
    assert "is of type F8_E4M3" in said


def shards(folder: Path, change: dict[str, str] | None = None) -> dict[str, Any]:
    """A folder of two shards; the arrays in it."""
    parts = {
        "model-00001-of-00002.safetensors": {"a": np.arange(3.0), "b": np.ones((2, 2))},
        "model-00002-of-00002.safetensors": {"c": np.zeros(1)},
    }
    where = {name: file for file, arrays in parts.items() for name in arrays}
    for file, arrays in parts.items():
        write_safetensors(folder / file, arrays)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": {**where, **(change or {})}}))
    return {name: array for arrays in parts.values() for name, array in arrays.items()}


def test_shards_are_put_together(tmp_path: Path) -> None:
    wanted = shards(tmp_path)
    found = read_weights(tmp_path)
    assert found.keys() == wanted.keys()
    assert all(np.array_equal(found[name], wanted[name]) for name in wanted)


def test_shards_that_do_not_fit_their_index_are_said(tmp_path: Path) -> None:
    def refused() -> str:
        with pytest.raises(lm.RunError) as error:
            read_weights(tmp_path)
        return str(error.value)

    assert "holds no weights: it has neither model.safetensors nor" in refused()
    shards(tmp_path, {"d": "model-00002-of-00002.safetensors"})
    assert "model-00002-of-00002.safetensors lacks d, which" in refused()
    shards(tmp_path, {"d": "../d.safetensors"})
    assert "names files outside its folder: ../d.safetensors" in refused()
    shards(tmp_path)
    both = {"c": np.ones(1), "a": np.ones(1)}
    write_safetensors(tmp_path / "model-00002-of-00002.safetensors", both)
    assert "a of " in (said := refused())
    assert "in more than one shard" in said
    (tmp_path / "model-00001-of-00002.safetensors").unlink()
    assert "lacks model-00001-of-00002.safetensors of its 2 shards" in refused()
    index = tmp_path / "model.safetensors.index.json"
    index.write_text("[]")
    assert "has no weight_map" in refused()
    index.unlink()
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps(1))
    assert "as a pickle only (pytorch_model.bin), which can run any code" in refused()


def test_a_changed_or_turned_array_is_named_by_its_digest(tmp_path: Path) -> None:
    path = tmp_path / "x"
    arrays = {"square": np.arange(9.0).reshape(3, 3), "other": np.ones(4)}
    write_safetensors(path, arrays, digests=True)
    about = metadata_of(path)
    assert json.loads(about[DIGESTS]).keys() == arrays.keys()
    write_safetensors(path, {**arrays, "square": arrays["square"].T}, about)
    assert "square in " in (said := refusal(path))
    assert "stored the other way round" in said
    write_safetensors(path, {**arrays, "other": np.zeros(4)}, about)
    assert "other in " in (said := refusal(path))
    assert "is not what was written there" in said
    write_safetensors(path, arrays, {DIGESTS: "["})
    assert "digests that are none" in refusal(path)
    write_safetensors(path, {**arrays, "more": np.ones(1)}, about)  # of its own no digest is kept
    assert read_safetensors(path).keys() == {"square", "other", "more"}
