"""TensorBoard's event files, written by hand: what `metrics.jsonl` and `samples.txt` say, again.

A file is a row of records (TFRecord: `tensorflow/core/lib/io/record_writer.h`)

    length, uint64 | masked CRC of the length | data | masked CRC of the data

in little-endian order, and the data of each is an `Event` as a protocol buffer
(`tensorboard/compat/proto/{event,summary,tensor}.proto`), of which a few fields are used.

There is one file a process, and each holds the whole run: a run that goes on writes a new file from
the logs, which end at its checkpoint, and drops the old one. So no step is there twice, and a run
that began without TensorBoard shows from its first step. The file begins with a `SessionLog.START`
of step 0, at which a TensorBoard that had read the old one forgets it.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tinygrad_edu.lm import checkpoint
from tinygrad_edu.lm.history import log_rows
from tinygrad_edu.lm.samples_file import read_samples

FOLDER = "tensorboard"
_POLYNOMIAL = 0x82F63B78
_MASK_DELTA = 0xA282EAD8
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
_START = 1
"""`SessionLog.SessionStatus.START`."""
_STRING = 7
"""`DataType.DT_STRING`."""

SCALARS = {
    "loss": "loss/training",
    "validation_loss": "loss/validation",
    "bits_per_byte": "validation/bits_per_byte",
    "perplexity": "validation/perplexity",
    "learning_rate": "learning_rate",
    "gradient_norm": "gradient_norm/all",
}
"""What a line of the log has, and its name in TensorBoard; the part before the slash is a group."""


def _crc_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return tuple(table)


_TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    """The Castagnoli CRC (RFC 3720, section 12.1 and appendix B.4), which zlib does not have."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def masked_crc(data: bytes) -> int:
    """As records keep it: a CRC of data that holds its own CRC would say little."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def record(data: bytes) -> bytes:
    """One record of a file."""
    length = struct.pack("<Q", len(data))
    checks = (struct.pack("<I", masked_crc(part)) for part in (length, data))
    return length + next(checks) + data + next(checks)


def _varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; the top bit says that more follow. (`number` ≥ 0.)"""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _field(number: int, kind: int, content: bytes) -> bytes:
    return _varint(number << 3 | kind) + content


def _whole(number: int, value: int) -> bytes:
    return _field(number, _VARINT, _varint(value))


def _nested(number: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    return _field(number, _BYTES, _varint(len(content)) + content)


def _string(number: int, text: str) -> bytes:
    return _nested(number, text.encode("utf-8", "replace"))


def event(wall_time: float, step: int, *parts: bytes) -> bytes:
    """`Event`: when, after which step, and what."""
    when = _field(1, _FIXED_64, struct.pack("<d", wall_time))
    return b"".join([when, _whole(2, step), *parts])


def version() -> bytes:
    """The first event of every file has it."""
    return _string(3, "brain.Event:2")


def started() -> bytes:
    """A `SessionLog` of status START: what was read of this step and later ones is void."""
    return _nested(7, _whole(1, _START))


def scalars(values: Mapping[str, float]) -> bytes:
    """A `Summary` with one value a name."""
    return _nested(5, *(
        _nested(1, _string(1, name), _field(2, _FIXED_32, struct.pack("<f", value)))
        for name, value in values.items()
    ))  # fmt: skip


def text(name: str, content: str) -> bytes:
    """A `Summary` with one text, as TensorBoard's text plugin shows it."""
    shape = _nested(2, _nested(2, _whole(1, 1)))
    tensor = _nested(8, _whole(1, _STRING), shape, _string(8, content))
    plugin = _nested(9, _nested(1, _string(1, "text")))
    return _nested(5, _nested(1, _string(1, name), tensor, plugin))


def as_markdown(sample: str) -> str:
    """A sample as it is: TensorBoard reads Markdown, in which an indented block is left alone."""
    return "".join(f"    {line}\n" for line in sample.split("\n"))


def scalars_of(row: Mapping[str, Any]) -> dict[str, float]:
    """What a line of metrics.jsonl has to show; numbers that were not finite are null there."""
    found = {
        shown: float(row[name]) for name, shown in SCALARS.items() if row.get(name) is not None
    }
    parts = row.get("gradient_norms") or {}
    return found | {f"gradient_norm/{part}": float(norm) for part, norm in parts.items()}


class EventLog:
    """The event file of a run that trains.

    Args:
        run: the run folder; what its logs hold is written first.
        clock: seconds since 1970.
    """

    def __init__(self, run: Path, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        folder = run / FOLDER
        folder.mkdir(exist_ok=True)
        before = sorted(folder.glob("*tfevents*"))
        # Later than those before, by its name too: TensorBoard reads files in that order.
        now = max(int(clock()), *(_stamp(path) + 1 for path in before), 0)
        self.path = folder / f"events.out.tfevents.{now:010d}.tinygrad_edu"
        begun = clock()
        first = (event(begun, 0, version()), event(begun, 0, started()))
        partial = folder / f".{self.path.name.replace('tfevents', 'partial')}"
        partial.write_bytes(b"".join(map(record, (*first, *_told(run, begun)))))
        os.replace(partial, self.path)
        for path in before:
            path.unlink(missing_ok=True)

    def row(self, row: Mapping[str, Any]) -> None:
        """Add what a new line of metrics.jsonl has to show."""
        if found := scalars_of(row):
            self._append(event(self.clock(), int(row["step"]), scalars(found)))

    def sample(self, step: int, written: str) -> None:
        """Add what the model has written."""
        self._append(event(self.clock(), step, text("sample", as_markdown(written))))

    def _append(self, data: bytes) -> None:
        with open(self.path, "ab") as file:
            file.write(record(data))


def _stamp(path: Path) -> int:
    """The seconds in a file's name; -1 in that of a stranger's."""
    digits = path.name.partition("tfevents.")[2].partition(".")[0]
    return int(digits) if digits.isdecimal() else -1


def _told(run: Path, now: float) -> Iterator[bytes]:
    """The events of a run's logs, as if it had been training without a break until now."""
    rows = [row for _, row in log_rows(run / checkpoint.METRICS)]
    last = max((row["seconds"] for row in rows if "seconds" in row), default=0.0)
    when = now - last
    times: dict[int, float] = {}
    for row in rows:
        when = now - last + row["seconds"] if "seconds" in row else when
        times.setdefault(row["step"], when)
        if found := scalars_of(row):
            yield event(when, row["step"], scalars(found))
    for sample in read_samples(run / checkpoint.SAMPLES):
        shown = text("sample", as_markdown(sample.text))
        yield event(times.get(sample.step, now), sample.step, shown)
