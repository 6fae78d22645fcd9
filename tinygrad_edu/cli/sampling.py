"""`tinygrad-edu sample`: let a model write."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from tinygrad_edu import lm

__all__ = ["Sample"]

SHOWN = 40
"""Symbols that `sample --show-probabilities` writes at most."""
STDIN = "-"


@dataclass(frozen=True)
class Sample:
    """Let a trained model write on from a prompt.

    Attributes:
        run_folder: the folder of a run, or of a model in Hugging Face's layout; or a model that
            comes with the package, python-docs or grammar, or with the package glassllm:
            glassllm-en, glassllm-pt.
        prompt: the text to go on from; without one it begins a new line; - reads it from standard
            input.
        max_new_tokens: how much to write.
        temperature: 0 always takes the likeliest token, 1 draws as the model predicts.
        top_k: draw among the k likeliest tokens only; 0 among all.
        top_p: draw among the fewest likeliest tokens that have this probability together; 1 among
            all.
        min_p: never draw a token less likely than this share of the likeliest one.
        repetition_penalty: above 1 writes less often what stands there already; 1.2 is usual.
        stop: end before any of these strings; nothing of it is shown.
        seed: another seed gives another text.
        num_samples: write so many texts, each with random numbers of its own.
        cache: keep the keys and values of tokens that were read; otherwise they are worked out
            again for each token: slower, and equal up to rounding.
        show_probabilities: show what the model thinks comes next, with the probability that each
            token is drawn with, and the true ones where the text was drawn from the grammar: after
            the prompt, and at each symbol of the first 40.
    """

    run_folder: Annotated[Path, tyro.conf.arg(name="run", metavar="RUN"), tyro.conf.Positional] = (
        Path(lm.shipped.DEFAULT)
    )
    prompt: Annotated[str, tyro.conf.arg(metavar="PROMPT"), tyro.conf.Positional] = ""
    max_new_tokens: int = 500
    temperature: float = 0.8
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int = 1
    num_samples: int = 1
    cache: bool = True
    show_probabilities: bool = False

    def run(self) -> int:
        """Print the prompt and what follows, as it comes; nothing where either is refused."""
        if self.num_samples < 1:
            raise lm.SamplingError(f"--num-samples is {self.num_samples}; it must be 1 or more")
        options = lm.SamplingOptions(
            self.temperature, self.top_k, self.top_p, self.min_p, self.repetition_penalty
        )
        prompt = sys.stdin.read() if self.prompt == STDIN else self.prompt
        trained = lm.load_trained(self.run_folder)
        unseen = trained.unseen(prompt)
        if unseen:
            block = trained.config.block_size
            print(
                f"the prompt has {unseen + block:,} tokens; this model sees the last {block:,}",
                file=sys.stderr,
            )
        if self.show_probabilities:
            self._show(trained, prompt, options)
            return 0
        for sample in range(self.num_samples):
            self._write(trained, prompt, options, sample)
        return 0

    def _write(
        self, trained: lm.Trained, prompt: str, options: lm.SamplingOptions, sample: int
    ) -> None:
        from tinygrad_edu.lm.display import printable

        pieces = trained.write(
            prompt, self.max_new_tokens, seed=self.seed, options=options, stop=self.stop,
            sample=sample, cache=self.cache,
        )  # fmt: skip
        first = next(pieces, "")
        if self.num_samples > 1:
            print(f"--- {sample + 1} of {self.num_samples} ---")
        print(printable(prompt + first), end="", flush=True)
        for piece in pieces:
            print(printable(piece), end="", flush=True)
        print()

    def _show(self, trained: lm.Trained, prompt: str, options: lm.SamplingOptions) -> None:
        """The next symbol after the prompt as a table, then a line for each that is written."""
        from tinygrad_edu.lm import probabilities
        from tinygrad_edu.lm.material import opening

        source = probabilities.source_of(trained)
        context = prompt or opening(trained.tokenizer)
        view = probabilities.view_or_guess(trained, context, source, options=options)
        print("\n".join(probabilities.table(view)))
        print("\nwritten  candidates, model" + ("/truth" if source else ""))
        length = min(self.max_new_tokens, SHOWN)
        for symbol in trained.write(
            prompt, length, seed=self.seed, options=options, stop=self.stop, cache=self.cache
        ):
            print(probabilities.row(symbol, view))
            context += symbol
            view = probabilities.view_or_guess(trained, context, source, options=options)
