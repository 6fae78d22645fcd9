"""Folding: modules, equal blocks, long runs; what is hidden is said, and no difference is."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from drawing.graphs import gpt_loss, mlp_loss, needs_graphviz

import tinygrad_edu as tg
from tinygrad_edu import nn
from tinygrad_edu.drawing.collapse import AUTO, LIMIT
from tinygrad_edu.drawing.draw import draw


def titles(picture: Any) -> list[str]:
    return [box.title for box in picture.boxes if box.kind == "module"]


def test_none_opens_all_and_all_folds_the_outermost() -> None:
    loss = gpt_loss(2)
    drawing = draw(loss, collapse="all")
    assert titles(drawing.picture()) == ["GPT"]
    assert titles(drawing.picture("none")) == []
    assert titles(drawing.picture(0)) == ["GPT"]
    assert titles(drawing.picture(1)) == [
        "token_embedding", "position_embedding", "blocks.0", "blocks.1", "final_norm",
    ]  # fmt: skip
    whole = drawing.picture()
    model = next(box for box in whole.boxes if box.title == "GPT")
    assert model.lines[0] == "19 operations, 28 weights"
    assert model.hides == "9 linear, 5 layer_norm, 2 packed_attention, add, embedding, getitem"


def test_a_larger_fraction_never_opens() -> None:
    drawing = draw(gpt_loss(2))
    counts = [len(drawing.picture(x / 10).boxes) for x in range(11)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == len(drawing.picture("none").boxes)
    assert counts[-1] == len(drawing.picture("all").boxes)


def test_folding_keeps_how_things_hang_together() -> None:
    opened = draw(gpt_loss(2), collapse="none").picture()
    folded = draw(gpt_loss(2), collapse=1).picture()
    place: dict[str, str] = {}
    for box in opened.boxes:
        deep = len(box.module) > 1
        place[box.id] = box.module[1] if deep else box.id
    wanted = {
        (place[a.tail], place[a.head]) for a in opened.arrows if place[a.tail] != place[a.head]
    }
    called = {b.id: b.title if b.kind == "module" else b.id for b in folded.boxes}
    assert {(called[a.tail], called[a.head]) for a in folded.arrows} == wanted
    slots = sum(place[a.tail] != place[a.head] for a in opened.arrows)
    assert sum(a.count for a in folded.arrows) == slots


@pytest.mark.parametrize(("layers", "fused"), [(4, True), (12, True), (4, False), (12, False)])
def test_auto_is_readable_and_draws_equal_blocks_once(layers: int, fused: bool) -> None:
    picture = draw(gpt_loss(layers, fused)).picture()
    assert len(picture.boxes) <= AUTO
    around = {name for box in picture.boxes for name in (*box.module, box.title)}
    assert f"blocks.0 … blocks.{layers - 1} × {layers}" in around
    assert {box.count for box in picture.boxes} == {1, layers}
    assert not any("×" in name and "ln_1" in name for name in around)  # they do not stand together


def test_repeats_are_drawn_once_at_any_depth_when_asked() -> None:
    drawing = draw(gpt_loss(4), collapse=1, repeats=True)
    assert "blocks.0 … blocks.3 × 4" in titles(drawing.picture())
    assert {box.count for box in drawing.picture("none").boxes} == {1}


def test_a_small_graph_is_left_open() -> None:
    assert titles(draw(mlp_loss()).picture()) == []


class Block(nn.Module):
    def __init__(self, width: int = 4, square: bool = False) -> None:
        super().__init__()
        self.fc = nn.Linear(width, width)
        self.square = square

    def forward(self, x: Any) -> Any:
        y = self.fc(x)
        return (y * y if self.square else y.tanh()) + x


class Stack(nn.Module):
    def __init__(self, blocks: list[Any], skip: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.skip = skip

    def forward(self, x: Any) -> Any:
        first = None
        for block in self.blocks:
            x = block(x)
            first = x if first is None else first
        return x + first if self.skip else x


def stacked(*blocks: Any, skip: bool = False, scale: float = 1.0) -> Any:
    """A loss over blocks, with enough around them that the picture is folded."""
    x = tg.tensor(np.ones((2, 4)), name="x")
    y = Stack(list(blocks), skip)(x)
    for _ in range(17):
        y = (y * scale).tanh()
    return y.sum()


def counts(loss: Any) -> set[int]:
    return {box.count for box in draw(loss).picture().boxes}


def test_blocks_that_differ_are_not_drawn_as_equal() -> None:
    assert counts(stacked(*(Block() for _ in range(6)))) == {1, 6}
    # One of them squares: the run ends there.
    mixed = [Block(square=i == 3) for i in range(6)]
    assert counts(stacked(*mixed)) == {1, 3, 2}
    # The first one also goes on to the end: it is not like the others.
    assert counts(stacked(*(Block() for _ in range(6)), skip=True)) == {1, 5}


def test_what_differs_between_equal_blocks_is_shown_as_a_range() -> None:
    loss = stacked(*(Block() for _ in range(6)))
    loss.backward()
    box = next(b for b in draw(loss).picture().boxes if b.count == 6 and b.title == "tanh")
    opened = draw(loss, collapse="none").picture()
    norms = [
        float(b.gradient.split()[1]) for b in opened.boxes if b.title == "tanh" and b.module
    ]
    assert len(norms) == 6
    low, high = (f"{x:.4g}" for x in (min(norms), max(norms)))
    assert box.lines[1] == f"grad norm {low} … {high}"
    assert ("stands for", "6 equal blocks") in box.details


class Heads(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.heads = nn.ModuleList([nn.Linear(4, 4) for _ in range(count)])

    def forward(self, x: Any) -> Any:
        return tg.concatenate([head(x) for head in self.heads], axis=1)


def test_blocks_side_by_side_are_drawn_once_with_their_arrows_counted() -> None:
    y = Heads(20)(tg.tensor(np.ones((2, 4)), name="x"))
    picture = draw(y).picture()
    around = {name for box in picture.boxes for name in box.module}
    assert "heads.0 … heads.19 × 20, side by side" in around
    into = [a for a in picture.arrows if a.head == picture.boxes[-1].id]
    assert [(a.count, a.slot) for a in into] == [(20, -1)]


def test_a_chain_of_5000_and_a_diamond_of_depth_60_are_drawn_in_bounded_size() -> None:
    x = tg.Value(0.5)
    for i in range(5000):
        x = x.tanh() if i % 2 else x * 1.01
    start = time.perf_counter()
    drawing = draw(x)
    assert len(drawing.picture().boxes) <= AUTO
    assert len(drawing.picture("none").boxes) <= LIMIT
    assert "5,001 boxes are too many to read" in drawing.picture().notes[0]
    assert sum(int(b.lines[0].split()[0].replace(",", "")) for b in drawing.picture().boxes
               if b.kind == "module") == 4980  # fmt: skip
    a = tg.Value(1.0)
    for _ in range(60):
        a = a * 2.0 + a * 3.0
    assert len(draw(a).picture().boxes) <= AUTO
    assert len(draw(a, collapse="none").picture().boxes) == 181
    assert time.perf_counter() - start < 60  # no path by path walk: that would take for ever


@needs_graphviz
def test_a_gpt_of_four_layers_is_drawn() -> None:
    svg = draw(gpt_loss(4, fused=False)).svg
    assert "blocks.0 … blocks.3 × 4" in svg


def test_a_limit_holds_even_where_all_is_to_be_open_and_says_so() -> None:
    x = tg.Value(0.5)
    for _ in range(100):
        x = x.tanh()
    picture = draw(x, collapse="none", limit=30).picture()
    assert len(picture.boxes) <= 30
    assert picture.notes
    assert draw(x, collapse="none").picture().notes == ()
