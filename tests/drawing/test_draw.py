"""Drawings: one box a value, one arrow a slot, what stands on them, and that nothing is touched."""

from __future__ import annotations

import copy
import gc
import weakref
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawing.graphs import (
    NASTY,
    SVG,
    edges_of_graph,
    edges_of_svg,
    gpt_loss,
    ids_of,
    mlp_loss,
    needs_graphviz,
    texts_of,
)
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_edu as tg
from tinygrad_edu import graph, nn
from tinygrad_edu.drawing.build import build, modules_of
from tinygrad_edu.drawing.dot import text_of
from tinygrad_edu.drawing.draw import draw
from tinygrad_edu.drawing.names import names_in


def box_of(drawing: Any, name: str) -> Any:
    return next(b for b in drawing.picture().boxes if b.name == name)


def test_a_box_a_value_and_an_arrow_a_slot() -> None:
    x = tg.Value(3.0, name="x")
    y = x * x
    picture = draw(y).picture()
    assert [(b.kind, b.title, b.name) for b in picture.boxes] == [
        ("parameter", "", "x"), ("operation", "×", "y"),
    ]  # fmt: skip
    assert [(a.tail, a.head, a.slot) for a in picture.arrows] == [("n0", "n1", 0), ("n0", "n1", 1)]


def test_order_is_numbered_only_where_it_matters() -> None:
    a, b = tg.Value(1.0, name="a"), tg.Value(2.0, name="b")
    cases = ((a + b, ["", ""]), (a - b, ["1", "2"]), (a - 1.0, [""]), (a / b, ["1", "2"]))
    for made, labels in cases:
        assert [x.label for x in draw(made).picture().arrows] == labels
    w, t = (tg.tensor(np.ones((2, 2)), requires_grad=True, name=n) for n in "wt")
    assert [x.label for x in draw(w @ t).picture().arrows] == ["1", "2"]
    made = nn.functional.linear(w, t)
    assert [x.label for x in draw(made).picture().arrows] == ["x", "weight"]
    made = nn.functional.linear(w, t, tg.tensor(np.ones(2), requires_grad=True))
    assert [x.label for x in draw(made).picture().arrows] == ["x", "weight", "bias"]


def test_constants_stand_inside_their_consumer_and_weights_do_not() -> None:
    a, w = tg.Value(2.0, name="a"), tg.Value(2.0)
    for made, title in (
        (a * 2.0, "× 2.0"), (3 - a, "3.0 -"), (a**2, "^ 2"), (a.maximum(0.5), "max(·, 0.5)"),
        (tg.tensor([1.0, 2.0], requires_grad=True) + 1, "+ 1.0"),
        (tg.tensor([1.0, 2.0], requires_grad=True) ** 3, "^ 3"),
    ):  # fmt: skip
        picture = draw(made).picture()
        assert [b.title for b in picture.boxes if b.kind == "operation"] == [title]
        assert len(picture.boxes) == 2
    del w  # no variable names it: a Value of the user's is drawn all the same
    unnamed = draw(a * tg.Value(5.0)).picture()
    assert [b.kind for b in unnamed.boxes] == ["parameter", "parameter", "operation"]


def test_grad_dash_is_not_grad_zero() -> None:
    a, b = tg.Value(2.0, name="a"), tg.Value(3.0, name="b")
    loss = a * b * 0.0
    assert box_of(draw(loss), "a").lines == ("2.0", "grad –")
    loss.backward()
    assert box_of(draw(loss), "a").lines == ("2.0", "grad 0.0")
    x = tg.tensor([[1.0, 2.0]], requires_grad=True, name="x")
    total = x.sum()
    assert box_of(draw(total), "x").lines == ("(1, 2) float32", "grad –")
    total.backward()
    assert box_of(draw(total), "x").lines == ("(1, 2) float32", "grad norm 1.414")
    data = tg.tensor([[1.0, 2.0]], name="data")
    assert box_of(draw((x * data).sum()), "data").lines == ("(1, 2) float32",)


def test_names_come_from_variables_containers_and_the_argument() -> None:
    ws = [tg.Value(1.0), tg.Value(2.0)]
    out = ws[0] * ws[1]
    assert {b.name for b in draw(out).picture().boxes} == {"ws[0]", "ws[1]", "out"}
    assert box_of(draw(out, names={"first": ws[0]}), "first").kind == "parameter"
    assert draw(out).picture().title == "out"


def test_variables_of_rewritten_assertions_are_no_names() -> None:
    a = tg.Value(2.0, name="a")
    assert draw(a.exp()).picture().boxes[1].name == ""


def test_values_and_gradients_can_be_left_out() -> None:
    a = tg.Value(2.0, name="a")
    assert box_of(draw(a * a, values=False, gradients=False), "a").lines == ()
    assert box_of(draw(a * a, gradients=False), "a").lines == ("2.0",)


@needs_graphviz
@pytest.mark.parametrize("make", [mlp_loss, gpt_loss], ids=["mlp", "gpt"])
@pytest.mark.parametrize("when", ["before", "after", "without"])
def test_the_arrows_of_the_svg_are_the_edges_of_the_graph(make: Any, when: str) -> None:
    loss = make()
    if when == "without":
        loss = loss.detach()
    if when == "after":
        loss.backward()
    opened, nodes = build([loss], names_in())
    drawing = draw(loss, collapse="none")
    node_of = {box.id: id(node) for box, node in zip(opened.boxes, nodes, strict=True)}
    constants = {id(n) for n in graph.topological_order(loss)} - set(node_of.values())
    drawn = sorted((node_of[a], node_of[b], slot) for a, b, slot in edges_of_svg(drawing))
    wanted = edges_of_graph([loss], lambda x: id(x) not in constants)
    assert drawn == sorted(wanted)
    root = ET.fromstring(drawing.svg)
    drawn_boxes = [g.get("data-box") for g in root.iter(f"{SVG}g") if g.get("data-box")]
    assert sorted(drawn_boxes) == sorted(box.id for box in opened.boxes)


@given(st.integers(0, 2**32 - 1))
def test_random_graphs_keep_every_edge(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes: list[Any] = [tg.Value(float(i), name=f"x{i}") for i in range(3)]
    for _ in range(int(rng.integers(1, 40))):
        a, b = (nodes[int(i)] for i in rng.integers(0, len(nodes), 2))
        nodes.append((a + b, a * b, a - b, a.tanh())[int(rng.integers(4))])
    opened, made = build([nodes[-1]], {})
    node_of = {box.id: id(node) for box, node in zip(opened.boxes, made, strict=True)}
    drawn = sorted((node_of[a.tail], node_of[a.head], a.slot) for a in opened.arrows)
    assert drawn == sorted(edges_of_graph([nodes[-1]]))
    operations = [box for box in opened.boxes if box.kind == "operation"]
    assert len(operations) == sum(n.op is not None for n in graph.topological_order(nodes[-1]))


def test_an_input_used_far_apart_is_drawn_near_each_use_and_says_so() -> None:
    x = tg.Value(2.0, name="x")
    many = x
    for _ in range(6):
        many = many.tanh() * x
    boxes = [b for b in draw(many).picture().boxes if b.name == "x"]
    assert [b.kind for b in boxes] == ["parameter"] + ["copy"] * (len(boxes) - 1)
    assert len(boxes) == 7
    assert {b.copy_of for b in boxes[1:]} == {boxes[0].id}
    tied = draw(gpt_loss(1), collapse="none").picture()
    weights = [b for b in tied.boxes if dict(b.details)["name"] == "token_embedding.weight"]
    assert [b.kind for b in weights] == ["parameter", "copy"]
    assert weights[0].module == ("GPT", "token_embedding")


def test_modules_are_paths_and_numbers_of_lists_go_with_them() -> None:
    assert modules_of("GPT.blocks.0.attn") == ("GPT", "blocks.0", "attn")
    assert modules_of("Sequential.0") == ("Sequential", "0")
    assert modules_of("") == ()
    picture = draw(mlp_loss(), collapse="none").picture()
    places = {(b.title or b.name): b.module for b in picture.boxes}
    assert places["linear"] == ("Sequential", "2")
    assert places["weight"] == ("Sequential", "2")
    assert places["x"] == ()
    assert places["mean"] == ()


def test_a_fused_node_says_what_it_hides() -> None:
    boxes = draw(gpt_loss(1), collapse="none").picture().boxes
    box = next(b for b in boxes if b.title == "layer_norm")
    assert box.hides == "in one step: (x - μ)/σ · w + b"
    assert next(b for b in draw(mlp_loss()).picture().boxes if b.title == "relu").hides == ""


@needs_graphviz
def test_equal_graphs_give_equal_bytes_and_two_pictures_share_no_ids() -> None:
    def made() -> Any:
        a = tg.Value(2.0, name="a")
        return (a * a).tanh()

    first, second = draw(made()), draw(made())
    assert first.svg == second.svg
    assert first.dot == second.dot
    shown = [d._repr_mimebundle_()["text/html"] for d in (first, first, second)]
    ids = [set(ids_of(text)) for text in shown]
    assert not ids[0] & ids[1] and not ids[1] & ids[2] and not ids[0] & ids[2]
    a = tg.Value(2.0, name="a")
    assert not set(ids_of(draw(a * 3.0).svg)) & set(ids_of(draw(a * 4.0).svg))
    for text in (first.svg, *shown):
        everything = ids_of(text)
        assert len(everything) == len(set(everything))
        assert "0x" not in text.replace("x0x", "")


@needs_graphviz
def test_a_picture_names_no_folder_and_is_the_same_in_every_one() -> None:
    x = tg.tensor([1.0], requires_grad=True, name="x")
    drawing = draw(x.exp())
    assert "line: test_draw.py:" in drawing.svg
    assert str(Path(__file__).parent) not in drawing.svg + drawing.dot
    elsewhere = copy.deepcopy(drawing.picture())
    for box in elsewhere.boxes:
        box.source = box.source.replace(str(Path(__file__).parent), "/elsewhere")
    elsewhere.sources = ()
    assert text_of(elsewhere) == drawing.dot


def sizes_beside(other: Any) -> Any:
    """A measure that holds a node."""
    return lambda node: node.size + other.size


def test_nothing_is_computed_changed_or_kept() -> None:
    a = tg.Value(2.0, name="a")
    loss = (a * 3.0).tanh()
    loss.backward()
    before = [(n.data, n.grad, n.has_grad) for n in graph.topological_order(loss)]
    drawing = draw(loss, overlay="gradient")
    assert [(n.data, n.grad, n.has_grad) for n in graph.topological_order(loss)] == before
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    total = (x * x).sum()
    other = draw(total, overlay=sizes_beside(x), between=x)
    gone = [weakref.ref(loss), weakref.ref(a), weakref.ref(total), weakref.ref(x)]
    del loss, a, total, x
    gc.collect()
    assert [ref() for ref in gone] == [None] * 4
    assert drawing.picture("none").boxes and other.picture("none").boxes


def test_drawing_works_in_the_middle_of_a_backward_pass() -> None:
    x = tg.tensor([1.0, 2.0], requires_grad=True, name="x")
    y = x * 2.0
    seen = []
    y.register_hook(lambda g: seen.append(draw(y, gradients=True).picture()))
    y.sum().backward()
    assert len(seen) == 1 and seen[0].boxes[0].gradient == "–"


@needs_graphviz
@pytest.mark.parametrize("name", NASTY)
def test_any_text_survives_and_injects_nothing(name: str) -> None:
    a = tg.Value(2.0, name=name)
    out = (a * tg.Value(3.0, name="plain")).tanh()
    drawing = draw(out, title=name)
    root = ET.fromstring(drawing.svg)
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags <= {"svg", "title", "desc", "style", "g", "path", "polygon", "text"}
    assert len([g for g in root.iter(f"{SVG}g") if g.get("data-box")]) == 4
    if name and name.isprintable():
        assert name in texts_of(drawing.svg) or name.strip() in texts_of(drawing.svg)
    assert not any(c in drawing.dot for c in "\x00\x1b\u202e")


def test_the_paths_between_two_nodes_are_marked() -> None:
    a, b = tg.Value(1.0, name="a"), tg.Value(2.0, name="b")
    c = a * b
    d = b.exp()
    loss = c + d
    picture = draw(loss, between=a).picture()
    assert {b.name for b in picture.boxes if b.marked} == {"a", "c", "loss"}
    names = {box.id: box.name for box in picture.boxes}
    assert [(names[x.tail], names[x.head]) for x in picture.arrows if x.marked] == [
        ("a", "c"), ("c", "loss"),
    ]  # fmt: skip
    with pytest.warns(UserWarning, match="no path leads"):
        draw(loss, between=tg.Value(1.0))


def test_several_results_are_one_graph() -> None:
    a = tg.Value(1.0, name="a")
    b, c = a.exp(), a.tanh()
    picture = draw([b, c, b]).picture()
    assert [box.name for box in picture.boxes] == ["a", "b", "c"]
    assert picture.title == "b, c"


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda a: draw(3.0), TypeError, "give it a Value, a Tensor, or a list of them"),
        (lambda a: draw([]), TypeError, "an empty list"),
        (lambda a: draw(a, direction="up"), ValueError, "'LR' or 'TB'"),
        (lambda a: draw(a, collapse="some"), ValueError, "'auto', 'none', 'all'"),
        (lambda a: draw(a, collapse=-1), ValueError, "collapse was -1"),
        (lambda a: draw(a, collapse=1.5), ValueError, "collapse was 1.5"),
        (lambda a: draw(a, overlay="size"), ValueError, "'gradient', 'nan', 'memory'"),
        (lambda a: draw(a).save("a.jpg"), ValueError, r"saved as \.svg"),
    ],
)  # fmt: skip
def test_bad_arguments_are_said_in_a_sentence(call: Any, error: Any, said: str) -> None:
    with pytest.raises(error, match=said):
        call(tg.Value(1.0).exp())


@needs_graphviz
def test_the_svg_scales_reads_and_has_colours_for_light_and_dark() -> None:
    a = tg.Value(2.0, name="a")
    root = ET.fromstring(draw(a.exp()).svg)
    assert root.get("width", "").endswith("pt") and root.get("viewBox")
    assert "max-width:100%" in root.get("style", "")
    assert root.get("role") == "img"
    described = root.find(f"{SVG}desc")
    assert described is not None and described.text == "2 boxes, 1 arrows. exp of a: 7.389"
    style = root.find(f"{SVG}style")
    assert style is not None and "prefers-color-scheme: dark" in (style.text or "")
    path = next(g for g in root.iter(f"{SVG}g") if g.get("data-box")).find(f"{SVG}path")
    assert path is not None and path.get("fill", "").startswith("#")
    fonts = {t.get("font-family") for t in root.iter(f"{SVG}text")}
    assert fonts == {"Arial, 'Liberation Sans', Helvetica, sans-serif"}


def test_digraph_is_the_graphviz_packages_own() -> None:
    graphviz = pytest.importorskip("graphviz")
    drawing = draw(tg.Value(2.0, name="a").exp())
    made = drawing.digraph
    assert isinstance(made, graphviz.Digraph)
    assert [line.strip() for line in made.source.splitlines()][1:-1] == [
        line.strip() for line in drawing.dot.splitlines()
    ][1:-1]
