"""`tinygrad-edu lr-range`: which learning rates a model bears, as a table and a plot."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from tinygrad_edu import lm

__all__ = ["LrRange"]


@dataclass(frozen=True)
class LrRange:
    """Find a learning rate: train a model that is thrown away at rates that grow until it diverges.

    It takes the options of train, of which --steps is the length of the test; nothing is saved but
    the plot.

    Attributes:
        lowest: the first learning rate.
        highest: the last one, unless the loss diverges before.
        output: the plot, an svg file.
    """

    options: Annotated[lm.TrainConfig, tyro.conf.arg(name="")] = field(
        default_factory=lambda: lm.TrainConfig(steps=100)
    )
    lowest: float = 1e-6
    highest: float = 1.0
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("lr-range.svg")

    def run(self) -> int:
        """Print the table, and write the plot."""
        from tinygrad_edu.files import write_atomically
        from tinygrad_edu.lm import range_plot
        from tinygrad_edu.lm.curve import named

        if not self.output.parent.is_dir():
            raise lm.ConfigError(
                f"--output is {self.output}, but {self.output.parent} is not a folder; make it "
                "first, or give another path"
            )
        test = lm.range_test(self.options, self.lowest, self.highest, self._told())
        print("\n".join(test.lines()))
        write_atomically(self.output, range_plot.to_svg(test, named(self.options.corpus)))
        print(f"plot       {self.output}")
        return 0

    def _told(self) -> lm.RangeProgress | None:
        """A live line where somebody looks."""
        if not sys.stderr.isatty():
            return None

        def told(step: int, rate: float, loss: float) -> None:
            line = f"step {step}/{self.options.steps}  rate {rate:.1e}  loss {loss:.3f}"
            end = "" if step < self.options.steps else "\n"
            print(f"\r{line:<60}", end=end, file=sys.stderr, flush=True)

        return told
