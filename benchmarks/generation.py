"""Writing text with and without kept keys and values: tokens a second after a prompt.

    python benchmarks/generation.py

A GPT and a Llama of nanoGPT's CPU sizes (4 layers, 4 heads, 128 wide; the Llama's keys in 2 heads)
with a block of 512 tokens write 32 tokens, greedily, after a prompt of 32, 128 and 448: without a
cache a token costs the whole text before it again. One BLAS thread. A step is a whole text, reading
of the prompt included.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import _rounds

SYMBOLS, BLOCK, NEW = 65, 512, 32
PROMPTS = (32, 128, 448)
MUST = {32: 1.0, 128: 2.0, 448: 5.0}
"""How many times as fast the cache has to be, by the length of the prompt."""


def writer(architecture: str, cache: bool, prompt: int) -> Callable[[], Any]:
    """A step writes `NEW` tokens after `prompt` of them."""
    import numpy as np

    from tinygrad_edu import lm
    from tinygrad_edu.lm.sampling import continuations

    source = np.random.default_rng(0)
    model: lm.LanguageModel
    if architecture == "gpt":
        model = lm.GPT(lm.GPTConfig(SYMBOLS, block_size=BLOCK), source)
    else:
        model = lm.Llama(lm.LlamaConfig(SYMBOLS, block_size=BLOCK, num_kv_heads=2), source)
    start = np.random.default_rng(1).integers(0, SYMBOLS, (1, prompt))

    def step() -> list[int]:
        new = continuations(
            model.predictor(cache=cache), start,
            max_new_tokens=NEW, block_size=BLOCK, temperature=0.0, generator=source,
        )  # fmt: skip
        return [int(ids[0]) for ids in new]

    # Both ways write the same text: the sum of its ids, weighted by place, stands in the record.
    step.facts = {"text": sum(i * token for i, token in enumerate(step(), 1))}  # type: ignore[attr-defined]
    return step


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    _rounds.add_arguments(parser)
    asked = parser.parse_args()
    contenders = [
        _rounds.Contender(
            f"{architecture}, prompt {prompt}, {'cache' if cache else 'none'}", __file__, "writer",
            {"architecture": architecture, "cache": cache, "prompt": prompt},
            packages=["numpy"], environment={"OPENBLAS_NUM_THREADS": "1"},
        )
        for architecture in ("gpt", "llama") for prompt in PROMPTS for cache in (True, False)
    ]  # fmt: skip
    title = "writing with and without a cache"
    _rounds.print_setting(title, asked.rounds, asked.seconds, asked.seed)
    times = _rounds.measure(
        contenders, rounds=asked.rounds, seconds=asked.seconds, seed=asked.seed
    )
    reached = True
    print("\ntokens a second (medians), and without / with, in a round: median [quartiles]")
    for with_cache, without in zip(contenders[::2], contenders[1::2], strict=True):
        kept, anew = times[with_cache.name], times[without.name]
        ratio = _rounds.Ratio.of(kept, anew)
        must = MUST[int(with_cache.options["prompt"])]
        reached = reached and ratio.median >= must
        speeds = [NEW / _rounds.quartiles(samples)[1] for samples in (kept, anew)]
        print(
            f"{with_cache.name.rpartition(',')[0]:<20} {speeds[0]:7.0f} with, {speeds[1]:7.0f} "
            f"without: {ratio.median:.1f} [{ratio.lower:.1f}, {ratio.upper:.1f}] times as fast, "
            f"must {must:g}: {'reached' if ratio.median >= must else 'MISSED'}"
        )
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
