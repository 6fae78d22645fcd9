"""microgpt's configuration on names: its own program, and the same training on Tensors.

    python benchmarks/names.py names.txt --microgpt microgpt.py            # takes minutes
    python benchmarks/names.py names.txt --microgpt microgpt.py --values   # and on our Value
    python benchmarks/names.py names.txt                                   # ours alone

(The program is Andrej Karpathy's public gist of that name; it reads the `input.txt` beside it.)

1 layer, 4 heads, 16 wide, block 16, RMSNorm, ReLU, no biases: 4,192 parameters; one name a step,
1,000 steps of Adam (0.85, 0.99) at a rate that falls from 0.01 to 0 in a straight line. Python's
own `random`, seeded alike, deals out names and starting weights in the same order, and all is
float64, so the losses are not only as good: they are the same numbers, up to rounding. Our run
comes before theirs and after it, as the machine may be slower at one time than at another.
"""

from __future__ import annotations

import argparse
import ast
import math
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import _rounds
import numpy as np

import tinygrad_edu as tg
from tinygrad_edu import optim
from tinygrad_edu.nn import functional as F

LAYERS, WIDTH, BLOCK, HEADS = 1, 16, 16, 4
RATE, BETAS, SEED, LAST = 0.01, (0.85, 0.99), 42, 100
OUR_VALUE = "from tinygrad_edu.scalar import Value\n"


@dataclass(frozen=True)
class Run:
    """The loss of each step, in nats, and the seconds that all of them took."""

    losses: list[float]
    seconds: float

    def row(self, name: str) -> str:
        last = statistics.fmean(self.losses[-LAST:])
        return f"| {name} | {len(self.losses):,} | {last:.4f} | {self.seconds:.2f} |"


def dealt(path: Path) -> tuple[list[list[int]], int, Callable[[int, int], tg.Tensor]]:
    """The names as ids between two boundary ids, in the order dealt out; how many symbols there
    are; and what draws a matrix of starting weights, N(0, 0.08).
    """
    draw = random.Random(SEED)
    names = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    names = [name for name in names if name]
    draw.shuffle(names)
    letters = sorted(set("".join(names)))
    boundary = len(letters)
    ids = [[boundary, *(letters.index(letter) for letter in name), boundary] for name in names]

    def matrix(rows: int, columns: int) -> tg.Tensor:
        values = [[draw.gauss(0, 0.08) for _ in range(columns)] for _ in range(rows)]
        return tg.Tensor(np.array(values), requires_grad=True)

    return ids, boundary + 1, matrix


def weights(symbols: int, matrix: Callable[[int, int], tg.Tensor]) -> dict[str, tg.Tensor]:
    """All matrices, output by input, drawn in the order of the program."""
    found = {
        "tokens": matrix(symbols, WIDTH),
        "places": matrix(BLOCK, WIDTH),
        "head": matrix(symbols, WIDTH),
    }
    for layer in range(LAYERS):
        found |= {f"{name}{layer}": matrix(WIDTH, WIDTH) for name in ("q", "k", "v", "out")}
        found[f"up{layer}"] = matrix(4 * WIDTH, WIDTH)
        found[f"down{layer}"] = matrix(WIDTH, 4 * WIDTH)
    return found


def norm(x: tg.Tensor) -> tg.Tensor:
    """x / √(mean of squares + 1e-5), without a gain."""
    return x / tg.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def logits(w: dict[str, tg.Tensor], ids: list[int]) -> tg.Tensor:
    """(T,) ids -> (T, V)."""
    length = len(ids)
    x = norm(F.embedding(np.array(ids), w["tokens"]) + w["places"][:length])
    for i in range(LAYERS):
        h = norm(x)
        q, k, v = (
            F.linear(h, w[f"{name}{i}"]).reshape(length, HEADS, -1).transpose(1, 0, 2)
            for name in "qkv"
        )
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + F.linear(seen.transpose(1, 0, 2).reshape(length, WIDTH), w[f"out{i}"])
        x = x + F.linear(F.relu(F.linear(norm(x), w[f"up{i}"])), w[f"down{i}"])
    return F.linear(x, w["head"])


def ours(path: Path, steps: int) -> Run:
    """The training, on Tensors."""
    documents, symbols, matrix = dealt(path)
    w = weights(symbols, matrix)
    optimizer = optim.Adam(list(w.values()), lr=RATE, betas=BETAS)
    losses = []
    began = time.perf_counter()
    for step in range(steps):
        ids = documents[step % len(documents)][: BLOCK + 1]
        loss = F.cross_entropy(logits(w, ids[:-1]), np.array(ids[1:]))
        optimizer.zero_grad()
        loss.backward(retain_graph=False)
        optimizer.param_groups[0]["lr"] = RATE * (1 - step / steps)
        optimizer.step()
        losses.append(float(loss.item()))
    return Run(losses, time.perf_counter() - began)


def program(path: Path, names: Path, steps: int, values: bool = False) -> Run:
    """The program as it stands, but for its number of steps where that is another, and with
    `values` for its class, which is then ours; its time is that between its lines, from the first.
    """
    source = path.read_text(encoding="utf-8")
    if values:
        source = with_our_value(source)
    if steps != 1000:
        source, found = re.subn(r"(?m)^num_steps = 1000\b", f"num_steps = {steps}", source)
        if not found:
            raise SystemExit(f"{path} sets no num_steps = 1000 that --steps could change")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(names, Path(folder) / "input.txt")
        script = Path(folder) / "program.py"
        script.write_text(source, encoding="utf-8")
        stamps = list(lines_of(script))
    if len(stamps) < 2:
        raise SystemExit(f"{path} printed no losses: give the path of microgpt's program")
    # The first step's own time is not between two lines; the others' mean stands for it.
    between = stamps[-1][0] - stamps[0][0]
    return Run([loss for _, loss in stamps], between * len(stamps) / (len(stamps) - 1))


def with_our_value(source: str) -> str:
    """The program with an import in place of its class `Value`."""
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.ClassDef) and statement.name == "Value":
            lines = source.splitlines(keepends=True)
            lines[statement.lineno - 1 : statement.end_lineno] = [OUR_VALUE]
            return "".join(lines)
    raise SystemExit("the program defines no class Value")


def lines_of(script: Path) -> Iterator[tuple[float, float]]:
    """When each `step … | loss …` was printed, and that loss; they end in carriage returns."""
    environment: dict[str, Any] = {"PYTHONPATH": str(_rounds.ROOT), "PATH": ""}
    with subprocess.Popen(
        [sys.executable, "-u", script.name], cwd=script.parent, env=environment,
        stdout=subprocess.PIPE, bufsize=0,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        pending = b""
        while chunk := process.stdout.read(4096):
            now = time.perf_counter()
            *whole, pending = re.split(rb"[\r\n]", pending + chunk)
            for line in whole:
                if match := re.search(rb"step +\d+ / +\d+ \| loss (\S+)", line):
                    yield now, float(match[1])
    if process.returncode:
        raise SystemExit(f"the program ended with code {process.returncode}; see above")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", type=Path, help="one a line")
    parser.add_argument("--microgpt", type=Path, help="the program to stand beside")
    parser.add_argument("--values", action="store_true", help="also the program on our Value")
    parser.add_argument("--steps", type=int, default=1000)
    asked = parser.parse_args()
    _rounds.print_machine("microgpt's configuration on names")
    runs = {"tinygrad_edu, Tensors": ours(asked.names, asked.steps)}
    if asked.microgpt:
        runs["microgpt"] = program(asked.microgpt, asked.names, asked.steps)
        if asked.values:
            runs["microgpt on tinygrad_edu's Value"] = program(
                asked.microgpt, asked.names, asked.steps, values=True
            )
        runs["tinygrad_edu, Tensors, again"] = ours(asked.names, asked.steps)
    print(f"\n| | steps | mean loss of the last {LAST}, nats | seconds |\n|---|---|---|---|")
    for name, run in runs.items():
        print(run.row(name))
    return judged(runs) if asked.microgpt else 0


def judged(runs: dict[str, Run]) -> int:
    """0 where ours is no worse (its losses are printed with four digits) and faster."""
    mine, theirs = runs["tinygrad_edu, Tensors"], runs["microgpt"]
    apart = max(abs(a - b) for a, b in zip(mine.losses, theirs.losses, strict=True))
    slowest = max(run.seconds for name, run in runs.items() if "Tensors" in name)
    print(f"\nno step's loss differs by more than {apart:.1e} (printed: 4 digits)")
    print(f"{theirs.seconds / slowest:.0f} times as fast, by our slower run")
    means = [statistics.fmean(run.losses[-LAST:]) for run in (mine, theirs)]
    worse = not means[0] <= means[1] + 1e-4 or any(map(math.isnan, mine.losses))
    return int(worse or slowest > theirs.seconds)


if __name__ == "__main__":
    sys.exit(main())
