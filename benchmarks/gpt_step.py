"""One training step of nanoGPT's CPU recipe, against torch eager, HIPS autograd and JAX.

    python benchmarks/gpt_step.py --torch-python PATH --jax-python PATH

(Pythons that have torch, and jax with autograd, where this one has not.)

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


def _pure(np: Any, erf: Any) -> tuple[dict[str, Any], Callable[[dict[str, Any]], Any]]:
    """(weights, loss of weights) of the same model as one function, in NumPy or a library alike."""
    import numpy

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

    return w, loss


def _adamw(np: Any, time: Any, w: Any, m: Any, v: Any, g: Any) -> tuple[Any, Any]:
    """(clip factor, new (w, m, v) by name), for values of NumPy or a library alike."""
    total = np.sqrt(sum(np.vdot(d, d) for d in g.values()))
    clip = np.minimum(1.0, 1.0 / (total + 1e-6)).astype(np.float32)
    new: dict[str, Any] = {}
    for key, old in w.items():
        d = g[key] * clip
        mean = 0.9 * m[key] + 0.1 * d
        square = 0.999 * v[key] + 0.001 * d * d
        step = (1e-3 / (1 - 0.9**time)) * mean / (np.sqrt(square / (1 - 0.999**time)) + 1e-8)
        new[key] = old * (1 - 1e-5) - step, mean, square
    return clip, new


def hips() -> Callable[[], Any]:
    """HIPS autograd's step, with AdamW in NumPy, all in float32."""
    import autograd
    import autograd.numpy
    import numpy
    from autograd.scipy.special import erf

    w, loss = _pure(autograd.numpy, erf)
    both = autograd.value_and_grad(loss)
    m = {key: numpy.zeros_like(value) for key, value in w.items()}
    v = {key: numpy.zeros_like(value) for key, value in w.items()}
    time = 0

    def step() -> float:
        nonlocal time
        time += 1
        value, g = both(w)
        _, new = _adamw(numpy, time, w, m, v, g)
        for key in w:
            w[key], m[key], v[key] = new[key]
        return float(value)

    step.facts = {"first loss": round(step(), 3), "dtype": str(w["tokens"].dtype)}  # type: ignore[attr-defined]
    return step


def jax() -> Callable[[], Any]:
    """JAX's step, compiled whole, its old weights' memory given to the new ones."""
    import jax
    import jax.numpy as jnp

    start, loss = _pure(jnp, jax.scipy.special.erf)

    def whole(time: Any, w: Any, m: Any, v: Any) -> Any:
        value, g = jax.value_and_grad(loss)(w)
        _, new = _adamw(jnp, time, w, m, v, g)
        return value, *({key: new[key][i] for key in new} for i in range(3))

    compiled = jax.jit(whole, donate_argnums=(1, 2, 3))
    state = [
        {key: jnp.asarray(value) for key, value in start.items()},
        *({key: jnp.zeros_like(value) for key, value in start.items()} for _ in range(2)),
    ]
    time = 0

    def step() -> float:
        nonlocal time
        time += 1
        value, *state[:] = compiled(jnp.float32(time), *state)
        jax.block_until_ready(state)
        return float(value)

    step.facts = {"first loss": round(step(), 3), "dtype": str(state[0]["tokens"].dtype)}  # type: ignore[attr-defined]
    return step


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch-python", default=sys.executable)
    parser.add_argument("--jax-python", default=sys.executable, help="has jax and autograd")
    _rounds.add_arguments(parser)
    asked = parser.parse_args()
    contenders = [
        _rounds.Contender("tinygrad_edu", __file__, "ours", packages=["numpy"]),
        _rounds.Contender("torch eager", __file__, "torch", {"fused": False},
                          python=asked.torch_python, packages=["torch"]),
        _rounds.Contender("torch eager, fused AdamW", __file__, "torch", {"fused": True},
                          python=asked.torch_python, packages=["torch"]),
        _rounds.Contender("autograd", __file__, "hips", python=asked.jax_python,
                          packages=["autograd", "numpy", "scipy"]),
        _rounds.Contender("JAX, compiled", __file__, "jax", python=asked.jax_python,
                          packages=["jax", "jaxlib"]),
    ]  # fmt: skip
    marks = [
        _rounds.Mark("tinygrad_edu", "torch eager", 0.95, 1.15),
        _rounds.Mark("tinygrad_edu", "torch eager, fused AdamW", 0.9, 1.05),
        _rounds.Mark("tinygrad_edu", "autograd", 5, 8),
        _rounds.Mark("tinygrad_edu", "JAX, compiled", 1.3, 2),
    ]
    reached = _rounds.run(
        contenders, marks, rounds=asked.rounds, seconds=asked.seconds, seed=asked.seed,
        title="one step of nanoGPT's CPU recipe",
    )  # fmt: skip
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
