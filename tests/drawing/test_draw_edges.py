"""Pictures of what people draw by accident: odd numbers, rings, millions of things in scope."""

from __future__ import annotations

import math
import stat
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawing.graphs import gpt_loss, needs_graphviz
from drawing.test_collapse import Block, stacked

import tinygrad_edu as tg
from tinygrad_edu import graph, nn
from tinygrad_edu.cli import main
from tinygrad_edu.cli.expressions import evaluated
from tinygrad_edu.cli.scripts import ScriptError
from tinygrad_edu.drawing import draw as draw_module
from tinygrad_edu.drawing import facts, overlays, render
from tinygrad_edu.drawing.collapse import largest
from tinygrad_edu.drawing.draw import DrawingError, draw
from tinygrad_edu.drawing.names import Names, nodes_in
from tinygrad_edu.drawing.tree import tree_text


def last_title(x: Any) -> str:
    return draw(x).picture().boxes[-1].title


def ones(*shape: int) -> Any:
    return tg.tensor(np.ones(shape, np.float32))


# What boxes say


def test_titles_keep_every_constant() -> None:
    w = tg.tensor([1.0, 2.0], requires_grad=True, name="w")
    v = tg.Value(2.0, name="v")
    assert last_title(3.0**v) == "3.0 ^"
    assert last_title(v**v) == "^"
    assert last_title(tg.where(tg.tensor(True), w, tg.tensor(0.0))) == "where(True, ·, 0.0)"

    class Both:
        op, inputs = "*", (v, v)

    from tinygrad_edu.drawing.build import _title

    assert _title(Both(), {0: "2.0", 1: "3.0"}) == "2.0 × 3.0"


def test_whole_numbers_and_truths_are_shown_as_such() -> None:
    shown = [
        draw(tg.tensor(np.array(x))).picture().boxes[0].lines[0]
        for x in ([1, 2, 3], [True, False], True, 7, [1.0, 2.0])
    ]
    assert shown == ["[1 2 3]", "[True False]", "True", "7", "[1.0 2.0]"]


@pytest.mark.filterwarnings("error")
def test_norms_beyond_the_range_of_squares_are_neither_infinite_nor_zero() -> None:
    assert facts.norm(np.array([3e200, 4e200])) == pytest.approx(5e200)
    assert facts.norm(np.array([3e-200, 4e-200])) == pytest.approx(5e-200)
    assert facts.norm(np.array([np.inf, 1.0])) == math.inf
    assert facts.norm(np.zeros((0, 3))) == facts.norm(np.zeros(3)) == 0.0
    assert facts.health(np.array([3e200, 4e200])).norm == pytest.approx(5e200)
    x = tg.tensor(np.array([1.0, 2.0]), requires_grad=True)
    y = (x * 3.0).sum()
    y.backward(np.float64(1e-250))
    assert draw(y).picture().boxes[0].gradient == "norm 4.24e-250"


def test_two_modules_of_one_name_are_not_taken_for_one() -> None:
    def made() -> Any:
        return nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    y = made()(made()(ones(2, 4)))
    whole = draw(y, collapse="all").picture()
    (title,) = (b.title for b in whole.boxes if b.kind == "module")
    assert title == "Sequential (2 sets of weights)"
    model = made()
    twice = draw(model(model(ones(2, 4))), collapse="all").picture()
    assert [b.title for b in twice.boxes if b.kind == "module"] == ["Sequential"]


# Names


def test_names_are_unique_also_beside_a_users_own_number() -> None:
    nodes = [tg.Value(1.0, name=name) for name in ("w", "w", "w#2", "w")]
    names = Names(nodes)
    assert len({names[node] for node in nodes}) == 4


def test_names_hold_no_address() -> None:
    a, b = tg.Value(1.0), tg.Value(2.0)
    assert nodes_in({"d": {object(): a, "b": b, ("l", 0): [b]}}) == {id(b): "d['b']"}


def test_odd_things_in_scope_are_left_alone() -> None:
    class Proxy:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("working outside of a request")

        @property  # type: ignore[misc]
        def __class__(self) -> Any:
            raise RuntimeError("working outside of a request")

    a = tg.Value(1.0)
    assert nodes_in({"request": Proxy(), "a": a}) == {id(a): "a"}
    assert draw(a.tanh(), names={"request": Proxy(), "the request": Proxy()}).dot


def test_lists_of_lists_of_numbers_in_scope_cost_little() -> None:
    a = tg.Value(1.0)
    row = [0] * 2000
    start = time.perf_counter()
    assert nodes_in({"tokens": [[row] * 2000] * 50, "a": [a]}) == {id(a): "a[0]"}
    assert time.perf_counter() - start < 1.0


def test_names_that_are_given_need_not_be_identifiers() -> None:
    a = tg.Value(1.0)
    out = a.tanh()
    del a
    assert draw(out, names={"my weight": out.inputs[0]}).picture().boxes[0].name == "my weight"


def test_one_node_can_be_marked_without_a_list() -> None:
    w = tg.tensor(np.ones((3, 2)), requires_grad=True, name="w")
    assert [b.name for b in draw((w * 2.0).sum(), marked=w).picture().boxes if b.marked] == ["w"]


# Folding


def blocks_with_gradients(*gradients: Any) -> Any:
    loss = stacked(*(Block() for _ in gradients))
    loss.backward()
    made = [n for n in graph.topological_order(loss) if n.module and facts.word(n) == "tanh"]
    for node, given in zip(made, gradients, strict=True):
        node._grad = None if given is None else np.full(node.shape, given)
    return loss


def test_a_range_does_not_hide_nan_nor_what_has_no_gradient() -> None:
    loss = blocks_with_gradients(1.0, 2.0, math.nan, 3.0, None, 1.5)
    box = next(
        b for b in draw(loss, overlay="gradient").picture().boxes if b.title == "tanh" and b.module
    )
    size = math.sqrt(8)
    assert box.lines[1] == f"grad norm {size:.4g} … {3 * size:.4g}, nan, –"
    assert box.fill == overlays._BAD
    details = dict(box.details)
    assert details["gradient"] == box.gradient
    assert "8 of 8 NaN (of another)" in details["of it"]
    assert details["module"] == "Stack.blocks.0…5"
    assert math.isnan(largest([1.0, math.nan, 2.0]))


def test_blocks_side_by_side_that_lead_to_different_operations_are_not_equal() -> None:
    class Gated(nn.Module):
        def __init__(self, same: bool) -> None:
            super().__init__()
            self.fc1, self.fc2, self.same = nn.Linear(4, 4), nn.Linear(4, 4), same

        def forward(self, x: Any) -> Any:
            a, b = self.fc1(x), self.fc2(x)
            return a.sigmoid() * (b.sigmoid() if self.same else b.tanh())

    def titles(same: bool) -> list[str]:
        x = tg.tensor(np.ones((2, 4), np.float32), name="x")
        picture = draw(Gated(same)(x), collapse=1, repeats=True).picture()
        return [b.title for b in picture.boxes if b.kind == "module"]

    assert titles(True) == ["fc1 … fc2 × 2, side by side"]
    assert titles(False) == ["fc1", "fc2"]


class Tower(nn.Module):
    """Five equal heads and a number of tanhs that tells towers apart."""

    def __init__(self, tanhs: int) -> None:
        super().__init__()
        self.heads = nn.ModuleList([nn.Linear(4, 4) for _ in range(5)])
        self.tanhs = tanhs

    def forward(self, x: Any) -> Any:
        y = sum((head(x) for head in self.heads[1:]), self.heads[0](x))
        for _ in range(self.tanhs):
            y = y.tanh()
        return y


def test_two_hundred_towers_fold_in_seconds() -> None:
    y = nn.Sequential(*(Tower(i % 7) for i in range(200)))(ones(2, 4)).sum()
    start = time.perf_counter()
    draw(y)
    assert time.perf_counter() - start < 8  # one run after the other took half a minute


def test_parts_count_what_the_modules_in_them_hold() -> None:
    x = ones(2, 4)
    for i in range(150):
        kind = type(f"Tower{i}_", (Tower,), {})
        x = kind(1)(x)
    opened, folded = draw(x).opened(), draw(x).picture()
    assert any(b.title.startswith("part") for b in folded.boxes)
    for kind, at in (("operation", 0), ("parameter", 1)):
        held = sum(b.inside[at] * b.count for b in folded.boxes if b.kind == "module")
        assert held == sum(b.kind == kind for b in opened.boxes)
    part = next(b for b in folded.boxes if b.title == "part 1")
    assert part.lines[0].startswith(f"{part.inside[0]} operations, {part.inside[1]} weights")
    assert "Tower0_" in part.hides


def test_what_is_marked_stays_open_in_a_long_chain() -> None:
    x = tg.Value(0.5)
    middle = x
    for i in range(300):
        x = x.tanh()
        if i == 100:
            middle = x
    picture = draw(x, marked=[middle]).picture()
    assert [b.name for b in picture.boxes if b.marked] == ["middle"]
    assert len(picture.boxes) <= 60
    held = sum(b.inside[0] for b in picture.boxes)
    assert held + sum(b.kind == "operation" for b in picture.boxes) == 300
    assert "but for those marked" in picture.notes[0]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_small_limits_hold(limit: int) -> None:
    x = tg.Value(0.5)
    for _ in range(50):
        x = x.tanh()
    assert len(draw(x, collapse="none", limit=limit).picture().boxes) <= limit


def test_a_limit_below_one_is_said() -> None:
    with pytest.raises(ValueError, match="limit was 0; give how many boxes"):
        draw(tg.Value(1.0).exp(), limit=0)


def test_a_copy_has_its_own_number_when_its_original_is_folded() -> None:
    picture = draw(gpt_loss(2), overlay="memory", collapse=1).picture()
    copy = next(b for b in picture.boxes if b.kind == "copy")
    assert copy.strength == f"{31 * 32 * 4 / 1000:.3g} kB"


def test_the_legend_counts_a_bad_weight_once() -> None:
    w = tg.Value(math.nan, name="w")
    y = w
    for _ in range(6):
        y = y * w
    picture = draw(y, overlay="nan").picture()
    assert sum(b.kind == "copy" for b in picture.boxes) == 5
    assert picture.legend[0][1] == "NaN or inf in value or gradient: 7"


def test_a_large_weight_is_measured_once_for_all_its_copies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured = []
    health = facts.health
    monkeypatch.setattr(facts, "health", lambda x: (measured.append(np.shape(x)), health(x))[1])
    w = tg.tensor(np.ones((3, 3)), requires_grad=True, name="w")
    y = w
    for _ in range(50):
        y = w * y
    assert sum(b.name == "w" for b in draw(y).picture("none").boxes) == 50
    assert len(measured) == 51


# The terminal's tree


def test_a_ring_of_folded_modules_is_written() -> None:
    layer = nn.Linear(4, 4)
    y = layer(layer(ones(2, 4)).tanh())
    text = draw(y, collapse="all").tree()
    assert text.splitlines()[0].startswith("Linear") and "tanh" in text


def columns(line: str) -> int:
    import unicodedata

    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def test_wide_letters_and_long_names_leave_room_for_the_numbers() -> None:
    for name in ("张量" * 30, "🧠" * 60, "w" * 200):
        y = tg.Value(2.0, name=name)
        for _ in range(12):
            y = y.tanh()
        lines = draw(y).tree().splitlines()
        assert all(columns(line) <= 80 for line in lines)
        assert lines[-1].endswith("2.0  grad –")


def test_notes_keep_to_80_columns() -> None:
    picture = draw(tg.Value(1.0).exp()).picture()
    picture.notes = ("too many to read " * 12,)
    assert all(len(line) <= 80 for line in tree_text(picture).splitlines())


# Files


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in program is a script")
def test_a_png_too_large_to_be_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "dot: graph is too large for cairo-renderer bitmaps. Scaling by 0.1 to fit"
    program = tmp_path / "dot"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.stdin.read()\nprint('png', *sys.argv)\n"
        f"if len(sys.argv) > 1 and sys.argv[-1] != LIMIT: sys.stderr.write({said!r})\n"
        .replace("LIMIT", "'-Gdpi=96'")
    )
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert b"-Gdpi=96" in render.render("digraph {}", "png")
    program.write_text(program.read_text().replace("-Gdpi=96", "none"))
    with pytest.raises(DrawingError, match=r"too large for a png: save it as \.svg"):
        render.render("digraph {}", "png")


def test_a_png_has_a_ground_and_the_legend_and_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = tg.Value(0.5)
    for _ in range(100):
        x = x.tanh()
    drawing = draw(x, overlay="nan")
    given: list[str] = []
    monkeypatch.setattr(draw_module, "render", lambda dot, form: given.append(dot) or b"png")
    drawing.save(tmp_path / "f.png")
    picture = drawing.picture()
    assert picture.notes and picture.legend and 'bgcolor="white"' in given[0]
    for text in (*picture.notes, *(text for _, text in picture.legend)):
        assert text in given[0] and text not in drawing.dot


@needs_graphviz
def test_graphviz_draws_the_legend(tmp_path: Path) -> None:
    drawn = draw(tg.Value(0.5).exp(), overlay="flops").save(tmp_path / "f.png").read_bytes()
    plain = draw(tg.Value(0.5).exp()).save(tmp_path / "g.png").read_bytes()
    height = [int.from_bytes(image[20:24], "big") for image in (drawn, plain)]
    assert height[0] > height[1] + 20


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no folder .*nowhere to save f\.svg"):
        draw(tg.Value(1.0).exp()).save(tmp_path / "nowhere" / "f.svg")


# The command


@pytest.mark.parametrize(
    ("text", "said"),
    [("a * 1" + "0" * 400, "a number is too large"), ("(-8)**0.5 * a", "no real number")],
)
def test_numbers_that_are_no_floats_are_said(text: str, said: str) -> None:
    with pytest.raises(ScriptError, match=said):
        evaluated(text, {"a": tg.Value(1.0)})


@pytest.mark.parametrize("line", ["y = x * 2", "y = x.detach() * 2"])
def test_a_script_without_a_loss_is_drawn_without_gradients(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "run.py"
    script.write_text(
        "import tinygrad_edu as tg\nx = tg.tensor([1.0, 2.0], requires_grad=True)\n" + line + "\n"
    )
    with pytest.warns(UserWarning, match="drawn without gradients: "):
        assert main(["draw", str(script), "--name", "y"]) == 0
    assert capsys.readouterr().out.startswith("y")


def test_a_proxy_among_a_scripts_variables_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "run.py"
    script.write_text(
        "import tinygrad_edu as tg\n"
        "class Proxy:\n"
        "    @property\n"
        "    def __class__(self): raise RuntimeError('working outside of a request')\n"
        "request = Proxy()\n"
        "y = tg.Value(2.0).tanh()\n"
    )
    assert main(["draw", str(script)]) == 0
    assert capsys.readouterr().out.startswith("y = tanh")
