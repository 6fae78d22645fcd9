"""`samples.txt`: what the model wrote at each validation, put into the file and read back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_HEADING = re.compile(r"--- step (\d+)(?:, validation loss (\d+\.\d{4}))?")


@dataclass(frozen=True, slots=True)
class Sample:
    """What a model wrote after `step` updates; `loss` of its validation, where there was one."""

    step: int
    loss: float | None
    text: str


def entry(sample: Sample) -> str:
    """As it stands in the file."""
    heading = f"--- step {sample.step}"
    heading += "" if sample.loss is None else f", validation loss {sample.loss:.4f}"
    return f"{heading}\n{sample.text}\n\n"


def read_samples(path: Path) -> list[Sample]:
    """The samples of a file in their order; none where there is no file.

    A line that looks like a heading, and names no later step, is the model's own writing.
    """
    if not path.exists():
        return []
    found: list[tuple[int, float | None, list[str]]] = []
    # As bytes and by "\n" alone: a model of bytes may write any other kind of line break.
    whole = path.read_bytes().decode("utf-8", "replace").removesuffix("\n")
    for line in whole.split("\n"):
        heading = _HEADING.fullmatch(line)
        if heading and (not found or int(heading[1]) > found[-1][0]):
            loss = None if heading[2] is None else float(heading[2])
            found.append((int(heading[1]), loss, []))
        elif found:
            found[-1][2].append(line)
    return [
        Sample(step, loss, "\n".join(lines).removesuffix("\n")) for step, loss, lines in found
    ]
