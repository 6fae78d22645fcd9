"""The README's pictures: `python docs/pictures.py` makes them again, beside this file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import tinygrad_edu as tg
from tinygrad_edu import lm
from tinygrad_edu.drawing.draw import Drawing

HERE = Path(__file__).parent


def expression() -> Drawing:
    """(a·b + c)·tanh(a·b) after a backward pass."""
    a, b = tg.Value(2.0, name="a"), tg.Value(-0.25, name="b")
    c = tg.Value(3.0, name="c")
    e = a * b
    loss = (e + c) * e.tanh()
    loss.backward()
    return tg.draw(loss, names={"e": e, "loss": loss}, title="(a·b + c)·tanh(a·b)")


def gpt() -> Drawing:
    """A GPT of four layers, two levels of modules open, equal blocks drawn once."""
    sizes = lm.GPTConfig(vocab_size=65, block_size=64, num_layers=4, num_heads=4, embed_dim=64)
    ids = np.zeros((8, 64), np.int64)
    loss = tg.cross_entropy(lm.GPT(sizes)(ids), ids)
    return tg.draw(
        loss, names={"loss": loss}, values=False, gradients=False, title="A GPT of four layers",
        collapse=2, repeats=True,
    )  # fmt: skip


PICTURES = {"expression.svg": expression, "gpt.svg": gpt}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        draw().save(HERE / name)
