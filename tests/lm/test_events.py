"""TensorBoard's event files: their framing, and that they say what the logs say."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lm.recording import Killed, Recorder, rows

from tinygrad_edu import lm
from tinygrad_edu.lm import events
from tinygrad_edu.lm.samples_file import Sample, entry, read_samples

MakeConfig = Callable[..., lm.TrainConfig]


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43), (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C), (b"123456789", 0xE3069283), (b"", 0),
    ],
)  # fmt: skip
def test_crc32c_has_the_values_of_rfc_3720(data: bytes, crc: int) -> None:
    assert events.crc32c(data) == crc


def test_the_mask_is_a_rotation_by_15_and_a_sum() -> None:
    crc = events.crc32c(b"foo")
    rotated = int(f"{crc:032b}"[-15:] + f"{crc:032b}"[:-15], 2)
    assert events.masked_crc(b"foo") == (rotated + 0xA282EAD8) % 2**32


def records(path: Path) -> Iterator[bytes]:
    """The data of each record of a file, its checks checked."""
    content = path.read_bytes()
    while content:
        (size,) = struct.unpack("<Q", content[:8])
        assert struct.unpack("<I", content[8:12]) == (events.masked_crc(content[:8]),)
        data = content[12 : 12 + size]
        assert len(data) == size
        check = content[12 + size : 16 + size]
        assert struct.unpack("<I", check) == (events.masked_crc(data),)
        yield data
        content = content[16 + size :]


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """(number, value) of each field of a message, by the wire format's own rules."""
    place = 0

    def varint() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = data[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(data):
        key = varint()
        number, kind = key >> 3, key & 7
        if kind == 0:
            yield number, varint()
            continue
        size = {1: 8, 5: 4}.get(kind) or varint()
        yield number, data[place : place + size]
        place += size


def scalars_in(folder: Path) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    (path,) = folder.iterdir()
    for data in records(path):
        event = dict(fields(data))
        for number, value in fields(event.get(5, b"")):
            assert number == 1
            parts = dict(fields(value))
            if 2 in parts:
                (number_in,) = struct.unpack("<f", parts[2])
                found.setdefault(parts[1].decode(), []).append((event.get(2, 0), number_in))
    return found


def told(run: Path) -> dict[str, list[tuple[int, float]]]:
    """What the log says, under TensorBoard's names, in float32."""
    found: dict[str, list[tuple[int, float]]] = {}
    for row in rows(run):
        values = {shown: row[name] for name, shown in events.SCALARS.items() if name in row}
        parts = row.get("gradient_norms", {})
        values |= {f"gradient_norm/{part}": norm for part, norm in parts.items()}
        for name, value in values.items():
            found.setdefault(name, []).append((row["step"], float(np.float32(value))))
    return found


def test_a_run_tells_tensorboard_what_it_logs(make_config: MakeConfig) -> None:
    run = lm.train(make_config(tensorboard=True)).run
    shown = scalars_in(run / "tensorboard")
    assert shown == told(run)
    assert len(shown["loss/training"]) == 8 and len(shown["loss/validation"]) == 3
    assert "gradient_norm/blocks.0" in shown
    plain = lm.train(make_config(run=run.parent / "plain")).run
    assert not (plain / "tensorboard").exists()


@pytest.mark.parametrize("began_with_it", [True, False])
def test_a_run_that_goes_on_has_no_step_twice(
    make_config: MakeConfig, tmp_path: Path, began_with_it: bool
) -> None:
    def kill() -> None:
        raise Killed

    run = tmp_path / "run"
    with pytest.raises(Killed):
        lm.train(make_config(steps=12, tensorboard=began_with_it), Recorder({7: kill}))
    (before,) = (run / "tensorboard").iterdir() if began_with_it else (None,)
    if before is not None:  # as a machine that goes down leaves it
        before.write_bytes(before.read_bytes()[:-3])
    lm.resume(run, make_config(steps=12, tensorboard=True))
    shown = scalars_in(run / "tensorboard")
    assert shown == told(run)
    assert [step for step, _ in shown["loss/training"]] == list(range(1, 13))
    (now,) = (run / "tensorboard").iterdir()
    assert before is None or now.name > before.name
    first, second = (dict(fields(data)) for data, _ in zip(records(now), range(2), strict=False))
    assert first[3] == b"brain.Event:2"
    assert dict(fields(second[7])) == {1: 1}, "a SessionLog of status START"


def test_wall_times_of_a_rewritten_log_go_as_its_seconds_did(
    make_config: MakeConfig, tmp_path: Path
) -> None:
    run = lm.train(make_config()).run
    events.EventLog(run, clock=lambda: 1e9)
    (path,) = (run / "tensorboard").iterdir()
    seconds = {row["step"]: row["seconds"] for row in rows(run) if "loss" in row}
    last = max(row["seconds"] for row in rows(run) if "seconds" in row)
    steps = 0
    for data in records(path):
        event = dict(fields(data))
        if b"loss/training" in data:
            steps += 1
            (when,) = struct.unpack("<d", event[1])
            assert when == pytest.approx(1e9 - last + seconds[event[2]], abs=1e-6)
    assert steps == 8


def test_what_is_not_finite_is_left_out(tmp_path: Path) -> None:
    assert events.scalars_of({"step": 1, "validation_loss": 2.0, "perplexity": None}) == {
        "loss/validation": 2.0
    }


SAMPLES = [
    Sample(0, None, "a\n\nb\n"), Sample(5, 1.25, "--- step 3\n--- step x\n"),
    Sample(10, 0.5, ""), Sample(12, 0.25, "\r\n \u2028end"),
]  # fmt: skip


def test_samples_come_back_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "samples.txt"
    assert read_samples(path) == []
    path.write_bytes("".join(map(entry, SAMPLES)).encode())
    assert read_samples(path) == SAMPLES


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_reads_it(make_config: MakeConfig) -> None:
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="tensorboard is not installed",
    )
    run = lm.train(make_config(tensorboard=True)).run
    read = accumulator.EventAccumulator(str(run / "tensorboard"))
    read.Reload()
    shown = {
        tag: [(found.step, found.value) for found in read.Scalars(tag)]
        for tag in read.Tags()["scalars"]
    }
    assert shown == told(run)
    samples = read_samples(run / "samples.txt")
    written = [(e.step, e.tensor_proto.string_val[0].decode()) for e in read.Tensors("sample")]
    assert written == [(s.step, events.as_markdown(s.text)) for s in samples]
    assert read.SummaryMetadata("sample").plugin_data.plugin_name == "text"
