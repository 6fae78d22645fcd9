"""Graphs to draw, and reading a drawing back."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import graph, nn
from tinygrad_edu.drawing.draw import Drawing
from tinygrad_edu.drawing.render import renderers
from tinygrad_edu.lm.gpt import GPT, GPTConfig

SVG = "{http://www.w3.org/2000/svg}"
NASTY = [
    "<lambda>", "<map>", 'a"b', "it's", "a & b", "&amp;", "{x|y}", "back\\slash", "\\N\\G",
    "new\nline", "tab\there", "∂L/∂w", "张量", "🧠👩‍🔬", "مرحبا",
    "</script><script>alert(1)</script>", "a:b", "-->", "]]>", "\u202eabc", "\x00\x1b[31m",
    "%PATH%", "",
]  # fmt: skip

needs_graphviz = pytest.mark.skipif(
    not renderers("svg"), reason="neither dot nor graphviz-pure is installed"
)


def gpt_loss(layers: int = 4, fused: bool = True) -> Any:
    """The loss of a small GPT on random tokens."""
    model = GPT(
        GPTConfig(vocab_size=31, block_size=16, num_layers=layers, num_heads=2, embed_dim=32)
    )
    ids = np.random.default_rng(0).integers(0, 31, (2, 16))
    if fused:
        return tg.cross_entropy(model(ids), ids)
    with tg.unfused():
        return tg.cross_entropy(model(ids), ids)


def mlp_loss() -> Any:
    """Two linear layers and a mean."""
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    x = tg.tensor(np.ones((5, 3), np.float32), name="x")
    return ((model(x) * 2 - 1) ** 2).mean()


def edges_of_graph(roots: list[Any], kept: Any = lambda x: True) -> Counter[tuple[int, int, int]]:
    """(input's id, node's id, slot) of every argument in a graph."""
    found: Counter[tuple[int, int, int]] = Counter()
    for root in roots:
        for node in graph.topological_order(root):
            for slot, x in enumerate(node.inputs):
                if kept(x):
                    found[id(x), id(node), slot] = 1
    return found


def edges_of_svg(drawing: Drawing) -> list[tuple[str, str, int]]:
    """(tail, head, slot) of every arrow in the svg."""
    root = ET.fromstring(drawing.svg)
    return [
        (g.get("data-tail", ""), g.get("data-head", ""), int(g.get("data-slot", "0")))
        for g in root.iter(f"{SVG}g") if g.get("data-tail")
    ]  # fmt: skip


def ids_of(svg: str) -> list[str]:
    """Every id in an svg."""
    return re.findall(r'\bid="([^"]*)"', svg)


def texts_of(svg: str) -> list[str]:
    """What the svg's text elements say."""
    return ["".join(t.itertext()) for t in ET.fromstring(svg).iter(f"{SVG}text")]
