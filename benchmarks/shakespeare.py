"""nanoGPT's CPU recipe to its end, ours and torch eager's, under the same full validation.

    python benchmarks/shakespeare.py tinyshakespeare.txt --torch-python PATH
    python benchmarks/shakespeare.py tinyshakespeare.txt --torch-python PATH --twin

4 layers, 4 heads, 128 wide, block 64, batch 12, no dropout, no biases, GELU by the exact erf;
2,000 steps of AdamW (0.9, 0.99), rate 1e-3 falling to 1e-4 by a cosine after 100 steps of warm-up,
decay 0.1 on matrices, gradients clipped to norm 1. Torch has the same recipe written afresh, with
its fused AdamW, and draws weights and batches by itself; with `--twin` it is given ours, so that
the two trainings are one, up to rounding.

A validation is a pass over the whole held-out tenth, windows of 64 side by side, each pair once.
(The 1.88 that nanoGPT publishes is an estimate from 20 batches.) The two take turns of 50 steps, so
that a slow minute of the machine is shared; `--seeds 3` trains each three times.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import _rounds

TURN = 50
"""Steps that one contender makes before the other has its turn."""
ALLOWED = 0.02
"""Nats by which our mean validation loss may be above torch's."""

RECIPE: dict[str, Any] = {
    "num_layers": 4, "num_heads": 4, "embed_dim": 128, "block_size": 64, "batch_size": 12,
    "dropout": 0.0, "bias": False, "learning_rate": 1e-3, "min_learning_rate": 1e-4,
    "warmup_steps": 100, "betas": (0.9, 0.99), "weight_decay": 0.1, "clip_norm": 1.0,
}  # fmt: skip

OUR_NAMES = {
    "token_embedding": "tokens", "position_embedding": "places", "final_norm": "norm",
    "ln_": "norm", "attn.qkv": "qkv", "attn.out_proj": "out", "mlp.layers.0": "up",
    "mlp.layers.1": "down",
}  # fmt: skip
"""Of parts of the model, and what torch's twin below calls them."""


class Ours:
    """The learner of `tinygrad-edu train`, without its logs, samples and checkpoints."""

    def __init__(self, corpus: str, steps: int, seed: int) -> None:
        from threadpoolctl import threadpool_limits

        from tinygrad_edu.lm import TrainConfig, allocator
        from tinygrad_edu.lm.learner import Learner, new_model
        from tinygrad_edu.lm.material import read_material

        allocator.tune()
        threadpool_limits(1)
        config = TrainConfig(corpus=(corpus,), steps=steps, seed=seed, **RECIPE)
        material = read_material(config)
        model = new_model(config, material.tokenizer.vocab_size)
        self.learner = Learner(config, model, material.lessons(config))
        workers = self.learner.workers
        self.facts = {"workers": f"{workers.count} ({workers.kind})"}

    def advance(self, steps: int) -> float:
        """Make steps; the last one's loss."""
        loss = math.nan
        for _ in range(steps):
            loss = self.learner.gradient().loss
            self.learner.move()
        return loss

    def validate(self) -> float:
        """The mean loss of the held-out part."""
        from tinygrad_edu.lm.evaluation import evaluate_batches

        learner = self.learner
        return evaluate_batches(
            learner.model, learner.lessons.held_out(), workers=learner.workers
        ).loss

    def prepare_twin(self, path: str) -> None:
        """Write the starting weights, and each batch, for torch to read."""
        import numpy as np

        learner = self.learner
        ids, targets = zip(*map(learner.lessons.batch, range(learner.config.steps)), strict=True)
        state = {name: value.numpy() for name, value in learner.model.state_dict().items()}
        np.savez(path, ids=np.stack(ids), targets=np.stack(targets), **state)


class Torch:
    """The same in torch eager."""

    def __init__(self, corpus: str, steps: int, seed: int, twin: str = "") -> None:
        import torch

        self.torch, self.steps, self.made = torch, steps, 0
        torch.manual_seed(seed)
        text = Path(corpus).read_text(encoding="utf-8")
        number = {symbol: index for index, symbol in enumerate(sorted(set(text)))}
        tokens = torch.tensor([number[symbol] for symbol in text])
        boundary = len(tokens) - round(len(tokens) * 0.1)
        self.training, self.held_out = tokens[:boundary], tokens[boundary:]
        self.model = torch_model(len(number))
        self.batches: Iterator[tuple[Any, Any]] | None = None
        if twin:
            self.batches = self._be_the_twin(twin)
        parameters = list(self.model.parameters())
        self.optimizer = torch.optim.AdamW(
            [
                {"params": [p for p in parameters if p.ndim >= 2]},
                {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
            ],
            betas=RECIPE["betas"], weight_decay=RECIPE["weight_decay"], fused=True,
        )  # fmt: skip
        self.facts = {"threads": torch.get_num_threads(), "twin": bool(twin)}

    def _be_the_twin(self, path: str) -> Iterator[tuple[Any, Any]]:
        import numpy as np

        given = np.load(path)
        tensors = {name: self.torch.tensor(given[name]) for name in given.files}
        ids, targets = tensors.pop("ids"), tensors.pop("targets")
        for ours, theirs in OUR_NAMES.items():
            tensors = {name.replace(ours, theirs): value for name, value in tensors.items()}
        self.model.load_state_dict(tensors)
        return zip(ids, targets, strict=True)

    def _batch(self) -> tuple[Any, Any]:
        if self.batches is not None:
            return next(self.batches)
        block = RECIPE["block_size"]
        starts = self.torch.randint(len(self.training) - block, (RECIPE["batch_size"], 1))
        windows = self.training[starts + self.torch.arange(block + 1)]
        return windows[:, :-1], windows[:, 1:]

    def _rate(self) -> float:
        highest, final = RECIPE["learning_rate"], RECIPE["min_learning_rate"]
        warmup = RECIPE["warmup_steps"]
        if self.made < warmup:
            return float(highest * (self.made + 1) / (warmup + 1))
        done = (self.made - warmup) / max(1, self.steps - warmup)
        return float(final + 0.5 * (1 + math.cos(math.pi * done)) * (highest - final))

    def advance(self, steps: int) -> float:
        """Make steps; the last one's loss."""
        loss = math.nan
        for _ in range(steps):
            ids, targets = self._batch()
            for group in self.optimizer.param_groups:
                group["lr"] = self._rate()
            self.optimizer.zero_grad()
            value = self.model(ids, targets)
            value.backward()
            self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), RECIPE["clip_norm"])
            self.optimizer.step()
            self.made += 1
            loss = value.item()
        return loss

    def validate(self) -> float:
        """The mean loss of the held-out part, each pair once."""
        block, rows = RECIPE["block_size"], RECIPE["batch_size"]
        ids, targets = self.held_out[:-1], self.held_out[1:]
        whole = len(ids) // block * block
        parts = list(zip(ids[:whole].view(-1, block).split(rows),
                         targets[:whole].view(-1, block).split(rows), strict=True))  # fmt: skip
        if whole < len(ids):
            parts.append((ids[None, whole:], targets[None, whole:]))
        with self.torch.no_grad():
            total = sum(float(self.model(x, y)) * y.numel() for x, y in parts)
        return total / len(ids)


def torch_model(symbols: int) -> Any:
    """The recipe's model; `OUR_NAMES` are those of its parts in ours."""
    import torch.nn.functional as F
    from torch import nn

    layers, heads, width = (RECIPE[k] for k in ("num_layers", "num_heads", "embed_dim"))

    def matrix(columns: int, rows: int) -> Any:
        return nn.Linear(columns, rows, bias=False)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = (nn.LayerNorm(width, bias=False) for _ in range(2))
            self.qkv, self.out = matrix(width, 3 * width), matrix(width, width)
            self.up, self.down = matrix(width, 4 * width), matrix(4 * width, width)

        def forward(self, x: Any) -> Any:
            packed = self.qkv(self.norm1(x)).view(*x.shape[:2], 3, heads, width // heads)
            q, k, v = packed.permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(x.shape))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(symbols, width)
            self.places = nn.Embedding(RECIPE["block_size"], width)
            self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
            self.norm = nn.LayerNorm(width, bias=False)
            for name, parameter in self.named_parameters():
                if parameter.ndim == 2:
                    residual = name.endswith(("out.weight", "down.weight"))
                    nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers if residual else 1))

        def forward(self, ids: Any, targets: Any) -> Any:
            h = self.blocks(self.tokens(ids) + self.places.weight[: ids.shape[1]])
            logits = F.linear(self.norm(h), self.tokens.weight)
            return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    return Model()


Course = dict[str, dict[str, Any]]
"""By contender: `training` and `validating` in seconds, `losses` as (step, validation loss)."""


def trained(workers: dict[str, _rounds.Worker], steps: int, interval: int) -> Course:
    """All steps of all contenders, in turns, with a validation every `interval` steps."""
    course: Course = {n: {"training": 0.0, "validating": 0.0, "losses": []} for n in workers}
    made = 0
    while made < steps:
        turn = min(TURN, steps - made, interval - made % interval)
        made += turn
        for name, worker in workers.items():
            course[name]["training"] += worker.call("advance", steps=turn)[1]
            if made % interval == 0 or made == steps:
                loss, seconds = worker.call("validate")
                course[name]["losses"].append((made, loss))
                course[name]["validating"] += seconds
                print(f"step {made:,}: {name} {loss:.4f}", flush=True)
    return course


def contenders(asked: argparse.Namespace, seed: int) -> list[_rounds.Contender]:
    options = {"corpus": str(asked.corpus.resolve()), "steps": asked.steps, "seed": seed}
    found = [_rounds.Contender("tinygrad_edu", __file__, "Ours", options, packages=["numpy"])]
    if asked.torch_python:
        twin = {"twin": asked.file} if asked.twin else {}
        found.append(_rounds.Contender("torch eager, fused AdamW", __file__, "Torch",
                                       options | twin, asked.torch_python, ["torch"]))  # fmt: skip
    return found


def one_seed(asked: argparse.Namespace, seed: int) -> Course:
    """The trainings of one seed, started, run and ended."""
    workers: dict[str, _rounds.Worker] = {}
    try:
        for contender in contenders(asked, seed):
            worker = workers[contender.name] = _rounds.Worker(contender)
            facts = ", ".join(f"{key} {value}" for key, value in worker.facts.items())
            print(f"{contender.name}: {worker.versions}, {facts}, seed {seed}", flush=True)
            if contender.make == "Ours" and asked.twin:
                worker.call("prepare_twin", path=asked.file)
        return trained(workers, asked.steps, asked.interval)
    finally:
        for worker in workers.values():
            worker.close()


def table(courses: list[Course], steps: int) -> str:
    lines = [
        f"\n| | validation after {steps:,} steps, nats | training, s | a step, ms | with "
        "validations, s |",
        "|---|---|---|---|---|",
    ]
    for name in courses[0]:
        mine = [course[name] for course in courses]
        losses = [m["losses"][-1][1] for m in mine]
        training = statistics.fmean(m["training"] for m in mine)
        whole = training + statistics.fmean(m["validating"] for m in mine)
        each = f" ({', '.join(f'{loss:.4f}' for loss in losses)})" if len(losses) > 1 else ""
        lines.append(f"| {name} | {statistics.fmean(losses):.4f}{each} | {training:.1f} | "
                     f"{1000 * training / steps:.1f} | {whole:.1f} |")  # fmt: skip
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--torch-python", default="", help="has torch; without, ours alone")
    parser.add_argument("--twin", action="store_true", help="torch with our weights and batches")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--interval", type=int, default=250, help="steps between validations")
    parser.add_argument("--seeds", type=int, default=1, help="how many to train with")
    asked = parser.parse_args()
    _rounds.print_machine("nanoGPT's CPU recipe, trained to its end")
    with tempfile.TemporaryDirectory() as folder:
        asked.file = str(Path(folder) / "twin.npz")
        courses = [one_seed(asked, seed) for seed in range(1, asked.seeds + 1)]
    print(table(courses, asked.steps))
    if not asked.torch_python:
        return 0
    ours, theirs = (
        statistics.fmean(course[name]["losses"][-1][1] for course in courses)
        for name in courses[0]
    )
    print(f"\nours - torch = {ours - theirs:+.4f} nats, must be at most {ALLOWED}")
    return int(not ours - theirs <= ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
