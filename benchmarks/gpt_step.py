"""One training step of nanoGPT's CPU recipe, against torch eager and HIPS autograd.

    python benchmarks/gpt_step.py --torch-python PATH    # a Python that has torch, if not this one

4 layers, 4 heads, 128 wide, block 64, batch 12, 65 symbols; float32, GELU by the exact erf, AdamW,
gradients clipped to norm 1; forward, loss, backward, clip, update. The same weights to start with
are not needed: the work does not depend on them. Every contender may use all cores.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from typing import Any

import _rounds

LAYERS, HEADS, WIDTH, BLOCK, BATCH, SYMBOLS = 4, 4, 128, 64, 12, 65


def _batch() -> tuple[Any, Any]:
    import numpy as np

    draw = np.random.default_rng(0)
    return draw.integers(0, SYMBOLS, (BATCH, BLOCK)), draw.integers(0, SYMBOLS, (BATCH, BLOCK))


def _loss_of(model: Any, *part: Any) -> Any:
    return model.loss(*part)


def ours(workers: int = 2) -> Callable[[], Any]:
    """tinygrad_edu's step as its trainer does it: allocator, and the batch split over workers."""
    from threadpoolctl import threadpool_limits

    import tinygrad_edu as tg
    from tinygrad_edu import optim
    from tinygrad_edu.lm import GPT, GPTConfig, allocator
    from tinygrad_edu.parallel import make_workers, split_batch

    allocator.tune()
    tg.manual_seed(0)
    model = GPT(GPTConfig(SYMBOLS, BLOCK, LAYERS, HEADS, WIDTH))
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    x, y = _batch()
    threadpool_limits(1)
    shared = make_workers(model, workers, optimizer)

    def step() -> float:
        optimizer.zero_grad()
        loss = shared(_loss_of, split_batch([x, y], workers))
        shared.clip_grad_norm_(1.0)
        shared.step(optimizer)
        return loss

    step.facts = {"workers": shared.kind, "first loss": round(step(), 3)}  # type: ignore[attr-defined]
    step.optimizer, step.workers = optimizer, shared  # type: ignore[attr-defined]
    return step


def torch(fused: bool) -> Callable[[], Any]:
    """torch eager's step; `fused` chooses its fastest AdamW."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    torch.manual_seed(0)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            heads = (BATCH, BLOCK, HEADS, WIDTH // HEADS)
            q, k, v = (
                t.view(heads).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(WIDTH, 2)
            )
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(BATCH, BLOCK, WIDTH))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(SYMBOLS, WIDTH), nn.Embedding(BLOCK, WIDTH)
            self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
            self.norm = nn.LayerNorm(WIDTH)
            for parameter in self.parameters():
                if parameter.ndim == 2:
                    nn.init.normal_(parameter, std=0.02)

        def forward(self, x: Any, y: Any) -> Any:
            h = self.tokens(x) + self.places(torch.arange(BLOCK))
            for block in self.blocks:
                h = block(h)
            logits = self.norm(h) @ self.tokens.weight.T
            return F.cross_entropy(logits.view(-1, SYMBOLS), y.view(-1))

    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=fused)
    x, y = (torch.tensor(t) for t in _batch())

    def step() -> float:
        optimizer.zero_grad()
        loss = model(x, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return float(loss.item())

    step.facts = {"threads": torch.get_num_threads(), "first loss": round(step(), 3)}  # type: ignore[attr-defined]
    step.optimizer = optimizer  # type: ignore[attr-defined]
    return step


def hips() -> Callable[[], Any]:
    """HIPS autograd's step, with AdamW in NumPy. Its SciPy wrappers give the erf."""
    import autograd
    import autograd.numpy as np
    import numpy
    from autograd.scipy.special import erf

    draw = numpy.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return draw.normal(0, 0.02, shape).astype(numpy.float32)

    def zeros(*shape: int) -> Any:
        return numpy.zeros(shape, numpy.float32)

    one = numpy.ones(WIDTH, numpy.float32)
    half, root = numpy.float32(0.5), numpy.float32(math.sqrt(0.5))
    w = {"tokens": normal(SYMBOLS, WIDTH), "places": normal(BLOCK, WIDTH), "g": one, "b": 0 * one}
    for i in range(LAYERS):
        w |= {
            f"{i}g1": one, f"{i}b1": 0 * one, f"{i}g2": one, f"{i}b2": 0 * one,
            f"{i}qkv": normal(WIDTH, 3 * WIDTH), f"{i}qkvb": zeros(3 * WIDTH),
            f"{i}out": normal(WIDTH, WIDTH), f"{i}outb": zeros(WIDTH),
            f"{i}up": normal(WIDTH, 4 * WIDTH), f"{i}upb": zeros(4 * WIDTH),
            f"{i}down": normal(4 * WIDTH, WIDTH), f"{i}downb": zeros(WIDTH),
        }  # fmt: skip
    x, y = _batch()
    hidden = numpy.triu(numpy.full((BLOCK, BLOCK), -1e9, numpy.float32), 1)
    scale = numpy.float32(1 / math.sqrt(WIDTH // HEADS))

    def norm(h: Any, g: Any, b: Any) -> Any:
        centred = h - np.mean(h, axis=-1, keepdims=True)
        variance = np.mean(centred * centred, axis=-1, keepdims=True)
        return centred / np.sqrt(variance + numpy.float32(1e-5)) * g + b

    def block(h: Any, w: Any, i: int) -> Any:
        packed = norm(h, w[f"{i}g1"], w[f"{i}b1"]) @ w[f"{i}qkv"] + w[f"{i}qkvb"]
        heads = np.reshape(packed, (BATCH, BLOCK, 3, HEADS, WIDTH // HEADS))
        q, k, v = (np.transpose(heads[:, :, j], (0, 2, 1, 3)) for j in range(3))
        s = q @ np.transpose(k, (0, 1, 3, 2)) * scale + hidden
        a = np.exp(s - np.max(s, axis=-1, keepdims=True))
        a = a / np.sum(a, axis=-1, keepdims=True)
        o = np.reshape(np.transpose(a @ v, (0, 2, 1, 3)), (BATCH, BLOCK, WIDTH))
        h = h + o @ w[f"{i}out"] + w[f"{i}outb"]
        u = norm(h, w[f"{i}g2"], w[f"{i}b2"]) @ w[f"{i}up"] + w[f"{i}upb"]
        return h + (half * u * (1 + erf(u * root))) @ w[f"{i}down"] + w[f"{i}downb"]

    def loss(w: Any) -> Any:
        h = w["tokens"][x] + w["places"]
        for i in range(LAYERS):
            h = block(h, w, i)
        logits = np.reshape(norm(h, w["g"], w["b"]) @ w["tokens"].T, (-1, SYMBOLS))
        logits = logits - np.max(logits, axis=-1, keepdims=True)
        chosen = logits[numpy.arange(BATCH * BLOCK), y.reshape(-1)]
        return np.mean(np.log(np.sum(np.exp(logits), axis=-1)) - chosen)

    both = autograd.value_and_grad(loss)
    m = {key: numpy.zeros_like(value) for key, value in w.items()}
    v = {key: numpy.zeros_like(value) for key, value in w.items()}
    time = 0

    def step() -> float:
        nonlocal time
        time += 1
        value, g = both(w)
        total = math.sqrt(sum(float(numpy.vdot(d, d)) for d in g.values()))
        clip = numpy.float32(min(1.0, 1.0 / (total + 1e-6)))
        for key, old in w.items():
            d = g[key] * clip
            m[key] = 0.9 * m[key] + 0.1 * d
            v[key] = 0.999 * v[key] + 0.001 * d * d
            w[key] = old * (1 - 1e-5) - (1e-3 / (1 - 0.9**time)) * m[key] / (
                numpy.sqrt(v[key] / (1 - 0.999**time)) + 1e-8
            )
        return float(value)

    step.facts = {"first loss": round(step(), 3), "dtype": str(w["tokens"].dtype)}  # type: ignore[attr-defined]
    return step


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch-python", default=sys.executable)
    _rounds.add_arguments(parser)
    asked = parser.parse_args()
    contenders = [
        _rounds.Contender("tinygrad_edu", __file__, "ours", packages=["numpy"]),
        _rounds.Contender("torch eager", __file__, "torch", {"fused": False},
                          python=asked.torch_python, packages=["torch"]),
        _rounds.Contender("torch eager, fused AdamW", __file__, "torch", {"fused": True},
                          python=asked.torch_python, packages=["torch"]),
        _rounds.Contender("autograd", __file__, "hips", packages=["autograd", "numpy", "scipy"]),
    ]  # fmt: skip
    marks = [
        _rounds.Mark("tinygrad_edu", "autograd", 3, 6),
        _rounds.Mark("tinygrad_edu", "torch eager", 0.7, 1.0),
        _rounds.Mark("tinygrad_edu", "torch eager, fused AdamW", 0.0, 0.9),
    ]
    reached = _rounds.run(
        contenders, marks, rounds=asked.rounds, seconds=asked.seconds, seed=asked.seed,
        title="one step of nanoGPT's CPU recipe",
    )  # fmt: skip
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
