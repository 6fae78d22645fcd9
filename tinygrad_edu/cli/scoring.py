"""`tinygrad-edu eval`: how well a model predicts texts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from tinygrad_edu import lm
from tinygrad_edu.lm.scoring import together

__all__ = ["Eval"]


@dataclass(frozen=True)
class Eval:
    """Say how well a model predicts texts: nats a token, perplexity, bits a byte.

    Each token but the first of a text is scored exactly once. Bits a byte compares models with
    different tokenizers; the other two do not.

    Attributes:
        run_folder: the folder of a run, or a model that comes with the package: python-docs,
            grammar.
        texts: files in UTF-8, folders of them, or python-docs, grammar; each gets a line.
        stride: tokens that a window scores beyond the one before; the fewer, the more a token has
            before it, and the longer it takes. 0: a whole window, side by side.
        batch_size: windows read at a time, which changes the time and not the result; 0 chooses.
    """

    run_folder: Annotated[Path, tyro.conf.arg(name="run", metavar="RUN"), tyro.conf.Positional]
    texts: Annotated[tuple[str, ...], tyro.conf.arg(metavar="FILE"), tyro.conf.Positional]
    stride: int = 0
    batch_size: int = 0

    def run(self) -> int:
        """Print a line a text, and one for all; nothing where one of them is refused."""
        if not self.texts:
            raise lm.TextError("eval was given no text; name a file to predict")
        trained = lm.load_trained(self.run_folder)
        found = [self._score(trained, name) for name in self.texts]
        block, stride = trained.config.block_size, self.stride or trained.config.block_size
        context = (
            f"each window sees {block} tokens and scores {stride}"
            if stride < block
            else f"windows of {block} tokens, side by side"
        )
        print(f"{self.run_folder}: {context}")
        names = ("tokens", "bytes", "nats/token", "perplexity", "bits/byte")
        widths = (9, 9, 10, 10, 9)
        heads = (f"{name:>{width}}" for name, width in zip(names, widths, strict=True))
        print(" ".join([" " * 24, *heads]))
        for name, part in zip(self.texts, found, strict=True):
            print(_line(name, part))
        if len(found) > 1:
            print(_line("together", together(found)))
        return 0

    def _score(self, trained: lm.Trained, name: str) -> lm.Evaluation:
        from tinygrad_edu.text import TokenizerError, load_corpus

        content = load_corpus((name,)).text
        try:
            return lm.score(
                trained, content, stride=self.stride, batch_size=self.batch_size
            )
        except (TokenizerError, lm.TextError) as error:
            raise lm.TextError(f"{name}: {error}") from error


def _line(name: str, part: lm.Evaluation) -> str:
    short = name if len(name) <= 24 else "…" + name[-23:]
    return (
        f"{short:<24} {part.tokens:>9,} {part.bytes:>9,} {part.loss:>10.4f} "
        f"{part.perplexity:>10.4g} {part.bits_per_byte:>9.4f}"
    )
