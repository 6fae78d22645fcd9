"""Memory of fine-tuning with adapters beside fine-tuning all weights, measured beside the plan.

    python benchmarks/lora_memory.py [--width 512]

The same model (4 layers, block 64, of Python's documentation, untrained) learns the same
conversations, 8 at a time, by the step that `tinygrad-edu finetune` makes, with one worker: all
weights, and adapters of rank 8 on every linear layer. Each is measured in a process of its own.

Counted are the bytes asked of the allocator once the base is in memory, by `tracemalloc`, which
NumPy tells of each array. *Held* are the arrays that are there after a backward pass: gradients,
AdamW's two averages and the 0.25 MiB it works in; the adapters are printed apart. *Peak* is the
most in a step, with activations, whatever is made and dropped on the way, and Python's own objects.
The plan is the one that `finetune` prints before it starts: 12 bytes a number that learns.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _rounds

RANK, BATCH, STEPS = 8, 8, 3
NEAR = 0.05
"""How far what is held may be from the plan, as a share of it, beside `WORK`."""
WORK = 2**18
"""Bytes that AdamW works in, whatever learns."""
COLUMNS = ("weights", "adapters", "plan", "held", "peak")


# In a worker; what it finds comes back as the facts of a step that is never made.


def tuned(base: str, data: str, rank: int) -> Callable[[], Any]:
    """Bytes of fine-tuning with adapters of a rank, 0 for all weights."""
    import tracemalloc

    from threadpoolctl import threadpool_limits

    from tinygrad_edu import lm
    from tinygrad_edu.lm.chat_examples import Padded
    from tinygrad_edu.lm.finetuning import adapters_of
    from tinygrad_edu.lm.learner import Learner

    threadpool_limits(1)
    config = lm.FinetuneConfig(
        base=base, corpus=(data,), lora_rank=rank, batch_size=BATCH, steps=STEPS, threads=1
    )
    prepared = lm.prepare_finetuning(config)
    config, model = prepared.config, prepared.base.model
    weights = sum(p.data.nbytes for p in model.parameters())
    gc.collect()
    tracemalloc.start()
    adapter = adapters_of(model, config)
    learner = Learner(config, model, Padded(prepared.division, BATCH, BATCH, 1))
    for _ in range(STEPS):
        learner.gradient()
        learner.move()
    gc.collect()
    tracemalloc.reset_peak()
    learner.gradient()
    held = _arrays()
    learner.move()
    _, peak = tracemalloc.get_traced_memory()
    adapters = sum(p.data.nbytes for p in adapter.parameters()) if adapter else 0
    learning = sum(p.size for p in model.parameters() if p.requires_grad)

    def step() -> None:
        pass

    step.facts = dict(  # type: ignore[attr-defined]
        zip(COLUMNS, (weights, adapters, 12 * learning, held - adapters, peak), strict=True)
    )
    return step


def _arrays() -> int:
    """Bytes of the arrays that are there now."""
    import tracemalloc

    import numpy as np

    gc.collect()
    only = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
    traces = tracemalloc.take_snapshot().filter_traces([only]).traces
    return sum(trace.size for trace in traces)


# The driver's side


def _base(folder: Path, width: int) -> tuple[str, str]:
    """A model of no training, and conversations to teach it."""
    from tinygrad_edu import lm

    config = lm.TrainConfig(
        run=folder / "base", embed_dim=width, steps=0, sample_length=0, report=False, curve=False
    )
    rows = [
        {"instruction": f"What is {a} plus {b}?", "output": f"{a} + {b} = {a + b}"}
        for a in range(20) for b in range(20)
    ]  # fmt: skip
    data = folder / "chat.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return str(lm.train(config).run), str(data)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=512)
    width = parser.parse_args().width
    _rounds.print_machine("memory of fine-tuning, all weights and adapters")
    found: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory() as folder:
        base, data = _base(Path(folder), width)
        for name, rank in (("all weights", 0), (f"adapters, rank {RANK}", RANK)):
            options = {"base": base, "data": data, "rank": rank}
            worker = _rounds.Worker(
                _rounds.Contender(name, __file__, "tuned", options, packages=["numpy"])
            )
            worker.close()
            found[name] = worker.facts
            print(f"{name}: {worker.versions}", flush=True)
    print(f"\n{'MiB':<18}" + "".join(f"{column:>10}" for column in COLUMNS))
    for name, facts in found.items():
        print(f"{name:<18}" + "".join(f"{facts[column] / 2**20:>10.2f}" for column in COLUMNS))
    near = all(abs(f["held"] - WORK - f["plan"]) <= NEAR * f["plan"] for f in found.values())
    everything, adapters = found.values()
    ratio = adapters["peak"] / everything["peak"]
    print(f"\nheld is within {NEAR:.0%} of the plan: {'reached' if near else 'MISSED'}")
    print(f"peak with adapters / with all weights: {ratio:.2f}   must be below 1: "
          f"{'reached' if ratio < 1 else 'MISSED'}")  # fmt: skip
    return 0 if near and ratio < 1 else 1


if __name__ == "__main__":
    sys.exit(main())
