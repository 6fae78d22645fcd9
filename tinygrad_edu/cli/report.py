"""`tinygrad-edu report`: a run as one page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

__all__ = ["Report"]


@dataclass(frozen=True)
class Report:
    """Write a run as one page that needs no network: report.html in its folder.

    It has curves, samples, gradient norms by layer, attention, embeddings before and after, and
    where time and memory went.

    Attributes:
        run_folder: the folder of a run.
        text: whose attention is shown; without it the beginning of the held-out text.
        output: the file to write.
    """

    run_folder: Annotated[Path, tyro.conf.arg(name="run", metavar="RUN"), tyro.conf.Positional]
    text: str = ""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None

    def run(self) -> int:
        """Write it, and say where."""
        from tinygrad_edu import lm

        print(lm.write_report(self.run_folder, self.text or None, self.output))
        return 0
