"""Overlays: what each measures, how folded boxes add up, and that the legend says the colours."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from drawing.graphs import gpt_loss, mlp_loss

import tinygrad_edu as tg
from tinygrad_edu import nn
from tinygrad_edu.drawing import overlays
from tinygrad_edu.drawing.draw import draw
from tinygrad_edu.lm import cost
from tinygrad_edu.lm.gpt import GPTConfig
from tinygrad_edu.ops.registry import registry


def fills(picture: Any) -> dict[str, str]:
    return {box.name or box.title: box.fill for box in picture.boxes}


def test_vanishing_and_exploding_gradients_are_told_apart() -> None:
    x = tg.Value(1.0, name="x")
    tiny = x * 1e-4
    tiny.name = "tiny"
    big = tiny * 1e-4
    big.name = "big"
    loss = big * 1e8 + x * 0.0
    loss.backward()
    picture = draw(loss, overlay="gradient").picture()
    colours = fills(picture)
    assert colours["big"] == overlays._HIGH  # 1e8
    assert colours["x"] in (overlays._FINE, overlays._COOL)
    assert set(colours.values()) <= {colour for colour, _ in picture.legend}
    assert next(b for b in picture.boxes if b.name == "big").strength == "rms 1e+08"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_gradient_that_is_no_number_is_told_from_a_large_one() -> None:
    x = tg.tensor([0.0, 1.0], requires_grad=True, name="x")
    y = x.sqrt()
    y.sum().backward()
    colours = fills(draw(y.sum(), overlay="gradient").picture())
    assert colours["x"] == overlays._BAD and colours["y"] == overlays._FINE


def test_nan_marks_what_is_not_finite_and_counts_it() -> None:
    x = tg.tensor([0.0, 1.0], requires_grad=True, name="x")
    with np.errstate(divide="ignore"):
        y = x.log()
    picture = draw(y.sum(), overlay="nan").picture()
    assert fills(picture) == {"x": overlays._FINE, "y": overlays._BAD, "Σ": overlays._BAD}
    assert picture.legend[0][1] == "NaN or inf in value or gradient: 2"


def test_flops_of_a_gpt_are_those_of_the_planner() -> None:
    config = GPTConfig(vocab_size=31, block_size=16, num_layers=4, num_heads=2, embed_dim=32)
    overlay = overlays.overlay_of("flops")
    nodes = [n for n in _nodes(gpt_loss(4)) if n.op is not None]
    products = [n for n in nodes if n.op.name in ("linear", "packed_attention")]
    counted = sum(overlay.measure(n) or 0 for n in products)
    assert counted == cost.step_cost(config, 2).forward_flops


def _nodes(loss: Any) -> list[Any]:
    from tinygrad_edu import graph

    return graph.topological_order(loss)


def test_a_folded_box_has_the_sum_of_its_parts() -> None:
    loss = mlp_loss()
    drawing = draw(loss, overlay="memory")
    opened, folded = drawing.picture("none"), drawing.picture("all")
    inside = [b for b in opened.boxes if b.module]
    total = sum(float(b.strength.split()[0]) for b in inside)
    box = next(b for b in folded.boxes if b.kind == "module")
    assert float(box.strength.split()[0]) == pytest.approx(total)
    weights = sum(p.size * 4 for n in _nodes(loss) for p in [n] if n.name and n.name != "x")
    assert total == weights + 4 * (5 * 4 + 5 * 4 + 5 * 2)


def test_gradients_of_a_folded_module_are_their_root_mean_square() -> None:
    assert overlays._root_of_squares([3.0, 4.0]) == pytest.approx(5 / math.sqrt(2))
    assert math.isnan(overlays._root_of_squares([1.0, math.nan, math.inf]))
    assert overlays._root_of_squares([1.0, math.inf]) == math.inf


def test_error_holds_each_derivative_to_differences() -> None:
    wrong = tg.primitive("wrong_square", lambda F, a: a * a, partials=[lambda a: a], formula="a²")
    try:
        x = tg.tensor([1.0, 2.0], requires_grad=True, name="x")
        y = wrong(x)
        z = y.tanh()
        picture = draw(z, overlay="error").picture()
        assert fills(picture) == {"x": "", "y": overlays._BAD, "z": overlays._FINE}
    finally:
        registry.pop("wrong_square", None)


def test_a_mapping_and_a_function_colour_what_they_name() -> None:
    a, b = tg.Value(1.0, name="a"), tg.Value(2.0, name="b")
    c = a * b
    assert fills(draw(c, overlay={a: 1.0, b: 5.0}).picture()) == {
        "a": overlays._RAMP[0], "b": overlays._RAMP[3], "c": "",
    }  # fmt: skip
    picture = draw(c, overlay=lambda node: abs(node.data)).picture()
    assert fills(picture)["b"] == overlays._RAMP[3]
    assert len(picture.legend) == 4
    odd = draw(c, overlay=lambda node: math.nan if node is a else 1.0).picture()
    assert fills(odd)["a"] == overlays._BAD


def test_copies_have_their_originals_colour() -> None:
    x = tg.Value(2.0, name="x")
    many = x
    for _ in range(6):
        many = many.tanh() * x
    boxes = [b for b in draw(many, overlay={x: 1.0}).picture().boxes if b.name == "x"]
    assert len({b.fill for b in boxes}) == 1 and boxes[0].fill


def test_what_only_moves_numbers_is_known_to_the_registry() -> None:
    assert set(registry) >= overlays._MOVES


def test_colours_keep_dark_text_readable() -> None:
    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    from tinygrad_edu.drawing.dot import INK

    for colour in {
        overlays._BAD, overlays._HIGH, overlays._WARM, overlays._FINE, overlays._COOL,
        overlays._LOW, *overlays._RAMP,
    }:  # fmt: skip
        contrast = (luminance(colour) + 0.05) / (luminance(INK) + 0.05)
        assert contrast > 3.6, colour


def test_a_module_of_nn_is_folded_with_an_overlay() -> None:
    model = nn.Linear(3, 2)
    loss = model(tg.tensor(np.ones((4, 3), np.float32), name="x")).sum()
    loss.backward()
    box = next(b for b in draw(loss, overlay="gradient", collapse="all").picture().boxes
               if b.kind == "module")  # fmt: skip
    assert box.fill and box.strength.startswith("rms ")
