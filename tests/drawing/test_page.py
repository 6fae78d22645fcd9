"""The page of a drawing in headless Chromium: layout, keys, search, modules, details, code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import Page
from drawing.graphs import NASTY, gpt_loss

import tinygrad_edu as tg
from tinygrad_edu import nn
from tinygrad_edu.drawing.draw import draw

SHOWN = "[...document.querySelectorAll('.box')].filter(b => b.dataset.box).map(b => b.dataset.box)"
SELECTED = "document.querySelector('.details h2')?.textContent ?? ''"


def expression() -> Any:
    with tg.record():
        a, b = tg.Value(2.0, name="a"), tg.Value(-3.0, name="b")
        e = a * b
        e.name = "e"
        loss = (e + a).tanh() * e
    loss.name = "loss"
    loss.backward()
    return loss


def opened(browser: Page, tmp_path: Path, loss: Any, **options: Any) -> Page:
    size = options.pop("size", (1280, 800))
    return browser.open(draw(loss, **options).save(tmp_path / "page.html"), size=size)


def test_every_box_and_arrow_is_there(browser: Page, tmp_path: Path) -> None:
    loss = expression()
    page = opened(browser, tmp_path, loss)
    picture = draw(loss).picture()
    assert sorted(page.value(SHOWN)) == sorted(box.id for box in picture.boxes)
    drawn = page.value(
        "[...document.querySelectorAll('.arrow')].map(a => [a.dataset.tail, a.dataset.head])"
    )
    assert sorted(map(tuple, drawn)) == sorted((a.tail, a.head) for a in picture.arrows)


OVERLAPS = """(() => {
  const boxes = [...document.querySelectorAll('.box rect')].map(r => r.getBoundingClientRect());
  let n = 0;
  for (let i = 0; i < boxes.length; i++) for (let j = 0; j < i; j++) {
    const a = boxes[i], b = boxes[j];
    const across = a.left < b.right - 0.5 && b.left < a.right - 0.5;
    if (across && a.top < b.bottom - 0.5 && b.top < a.bottom - 0.5) n++;
  }
  return n; })()"""
SPILLS = """[...document.querySelectorAll('.box')].filter(box => {
  const r = box.querySelector('rect').getBoundingClientRect();
  return [...box.querySelectorAll('text')].some(t => {
    const b = t.getBoundingClientRect();
    return b.width > 0 && (b.left < r.left - 1 || b.right > r.right + 1 || b.bottom > r.bottom + 1);
  }); }).length"""
BACKWARDS = """[...document.querySelectorAll('.arrow')].filter(a => {
  const d = a.getAttribute('d').match(/-?[\\d.]+(e-?\\d+)?/g).map(Number);
  return AXIS; }).length"""


@pytest.mark.parametrize("direction", ["LR", "TB"])
@pytest.mark.parametrize("make", [expression, gpt_loss], ids=["expression", "gpt"])
def test_boxes_do_not_overlap_texts_fit_and_arrows_go_forward(
    browser: Page, tmp_path: Path, make: Any, direction: str
) -> None:
    page = opened(browser, tmp_path, make(), direction=direction)
    deepest = page.value("Number(document.querySelector('.dial input')?.max ?? 0)")
    for depth in range(deepest + 1):
        if deepest:
            page.value(
                "(() => { const d = document.querySelector('.dial input'); "
                f"d.value = {depth}; d.dispatchEvent(new Event('input')); }})()"
            )
        assert page.value(OVERLAPS) == 0
        assert page.value(SPILLS) == 0
        axis = "d[0] > d[d.length - 2]" if direction == "LR" else "d[1] > d[d.length - 1]"
        assert page.value(BACKWARDS.replace("AXIS", axis)) == 0
        assert page.value("document.querySelectorAll('.box').length") > 1


def test_the_layout_uncrosses_and_takes_cycles(browser: Page, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, expression())
    places = page.value("""(() => {
      const items = Array.from({ length: 8 }, () => ({ w: 30, h: 20 }));
      Layout.layered(items, [0, 1, 2, 3].map(i => ({ a: i, b: 7 - i })));
      return items.map(i => [i.x, i.y]); })()""")
    left, right = places[:4], places[4:]
    assert [y for _, y in right][::-1] == pytest.approx([y for _, y in left])
    assert len({y for _, y in left}) == 4
    ring = page.value("""(() => {
      const items = Array.from({ length: 3 }, () => ({ w: 30, h: 20 }));
      const edges = [{ a: 0, b: 1 }, { a: 1, b: 2 }, { a: 2, b: 0 }];
      Layout.layered(items, edges);
      return items.map(i => i.x); })()""")
    assert sorted(ring) == ring and len(set(ring)) == 3


class Shared(nn.Module):
    """One layer, used before and after another."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return self.first(self.second(self.first(x)))


def test_a_module_that_is_used_twice_is_a_cycle_when_it_is_closed(
    browser: Page, tmp_path: Path
) -> None:
    loss = Shared()(tg.tensor(np.ones((2, 3)), name="x")).sum()
    page = opened(browser, tmp_path, loss)
    page.value("(() => { const d = document.querySelector('.dial input'); d.value = 1; "
               "d.dispatchEvent(new Event('input')); })()")  # fmt: skip
    names = "[...document.querySelectorAll('[data-module]')].map(b => b.dataset.module)"
    assert sorted(page.value(names)) == ["Shared.first", "Shared.second"]
    assert page.value(OVERLAPS) == 0


def test_keys_walk_along_arrows(browser: Page, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, expression())
    page.value("document.querySelector('.graph').focus()")
    page.key("ArrowLeft")
    assert page.value(SELECTED) == "× loss"
    page.key("ArrowLeft")
    first = page.value(SELECTED)
    assert first in ("tanh", "× e")
    page.key("ArrowRight")
    assert page.value(SELECTED) in ("× loss", "+")
    page.key("Escape")
    assert page.value("document.querySelectorAll('.box.chosen').length") == 0


def test_pointing_shows_details_and_lights_the_line(browser: Page, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, expression())
    page.click("[data-box='n2']")
    assert page.value(SELECTED) == "× e"
    text = page.value("document.querySelector('.details').textContent")
    assert "-6.0" in text and "multiply" in text and "made from: a, b" in text
    here = page.value("document.querySelector('.row.here').textContent")
    assert "e = a * b" in here
    assert page.value("document.querySelectorAll('.arrow.in').length") == 2
    assert page.value("document.querySelectorAll('.arrow.out').length") == 2
    # Clicked by script: a pointer left on a row would get events of its own when the panel scrolls.
    page.value("document.querySelectorAll('.row.made')[1].click()")
    assert page.value(SELECTED) == "× loss"
    page.value("document.querySelectorAll('.row.made')[0].dispatchEvent(new Event('mouseenter'))")
    assert page.value("document.querySelectorAll('.box.lit').length") == 1


def test_modules_open_and_close(browser: Page, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, gpt_loss(2))
    page.value("document.querySelector('.graph').focus()")
    assert page.value("document.querySelectorAll('[data-module]').length") > 3
    page.click("[data-module='GPT.blocks.0']", clicks=1)
    assert page.value(SELECTED) == "blocks.0"
    page.key("Enter")
    closed = "document.querySelectorAll(\"[data-module='GPT.blocks.0%s']\").length"
    assert page.value(closed % "") == 0
    assert page.value(closed % ".attn") == 1
    labels = "[...document.querySelectorAll('.label')]"
    page.value(f"{labels}.find(l => l.textContent.includes('blocks.0'))"
               ".dispatchEvent(new MouseEvent('click'))")  # fmt: skip
    assert page.value(closed % "") == 1


def test_searching_opens_what_it_finds(browser: Page, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, gpt_loss(2))
    page.key("/")
    assert page.value("document.activeElement.type") == "search"
    for character in "blocks.1.attn.qkv.weight":
        page.key(character)
    assert page.value("document.querySelector('.found').textContent") in ("1 found", "1 of 1")
    page.key("Enter")
    assert page.value(SELECTED) == "weight"
    assert page.value("document.querySelector('.box.chosen').dataset.box ?? 'a module'") in {
        box.id for box in draw(gpt_loss(2), collapse="none").picture().boxes
    }
    detail = page.value("document.querySelector('.details').textContent")
    assert "blocks.1.attn.qkv.weight" in detail
    page.value("(() => { const s = document.querySelector('[type=search]'); s.value = 'linear'; "
               "s.dispatchEvent(new Event('input')); })()")  # fmt: skip
    count = int(page.value("document.querySelector('.found').textContent").split()[0])
    boxes = draw(gpt_loss(2), collapse="none").picture().boxes
    assert count == sum(b.title == "linear" for b in boxes)
    page.key("Enter", "Enter")
    assert page.value("document.querySelector('.found').textContent") == f"2 of {count}"


def test_zoom_pan_and_fit(browser: Page, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, expression())
    transform = "document.querySelector('.graph > g').getAttribute('transform')"
    page.value("document.querySelector('.graph').focus()")
    start = page.value(transform)
    page.key("+")
    assert page.value(transform) != start
    page.key("0")
    assert page.value(transform) == start
    page.drag((60.0, 700.0), (160.0, 640.0))
    moved = page.value(transform)
    numbers = [float(x) for x in re.findall(r"-?[\d.]+", moved)]
    before = [float(x) for x in re.findall(r"-?[\d.]+", start)]
    assert numbers[0] - before[0] == pytest.approx(100, abs=2)
    assert numbers[1] - before[1] == pytest.approx(-60, abs=2)


def test_what_is_opened_stays_large_enough_to_read(browser: Page, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, gpt_loss(4))
    page.value("(() => { const d = document.querySelector('.dial input'); d.value = d.max; "
               "d.dispatchEvent(new Event('input')); })()")  # fmt: skip
    transform = page.value("document.querySelector('.graph > g').getAttribute('transform')")
    assert float(transform.split("scale(")[1].rstrip(")")) >= 0.4
    right = page.value("Math.max(...[...document.querySelectorAll('.box rect')]"
                       ".map(r => r.getBoundingClientRect().right))")  # fmt: skip
    width = page.value("document.querySelector('.main').getBoundingClientRect().right")
    assert width - 60 < right <= width  # the loss is in view
    page.value("document.querySelector('.graph').focus()")
    page.key("0")
    left = page.value("Math.min(...[...document.querySelectorAll('.box rect')]"
                      ".map(r => r.getBoundingClientRect().left))")  # fmt: skip
    assert left >= 0


def test_light_dark_and_a_narrow_page(browser: Page, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, expression(), size=(390, 844))
    ground = "getComputedStyle(document.body).backgroundColor"
    before = page.value(ground)
    page.value("[...document.querySelectorAll('.tools button')].pop().click()")
    assert page.value(ground) != before
    assert page.value("document.documentElement.scrollWidth <= window.innerWidth")
    box = page.value("document.querySelector('.main').getBoundingClientRect().height")
    assert box > 300


def test_it_reads_as_text(browser: Page, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, expression())
    lines = page.value("[...document.querySelectorAll('.list li')].map(li => li.textContent)")
    assert len(lines) == 6
    assert lines[-1].startswith("× loss of tanh, × e: ")
    assert page.value("document.querySelectorAll('.box:not([aria-label])').length") == 0
    page.value("document.querySelector('.list button').click()")
    assert page.value(SELECTED) == "a"


@pytest.mark.parametrize("name", NASTY)
def test_any_text_survives_and_injects_nothing(browser: Page, tmp_path: Path, name: str) -> None:
    a = tg.Value(2.0, name=name)
    page = opened(browser, tmp_path, a.exp(), title=name)
    assert page.value("document.querySelectorAll('script').length") == 2
    assert page.value("document.querySelectorAll('.box').length") == 2
    shown = page.value("document.querySelector('[data-box=n0] .head')?.textContent ?? ''")
    assert shown == name
    data = "JSON.parse(document.getElementById('data').textContent)"
    assert page.value(f"{data}.picture.boxes[0].name") == name


def test_the_page_stands_alone(tmp_path: Path) -> None:
    text = draw(expression()).save(tmp_path / "p.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", text)
    assert "innerHTML" not in text
    start = text.index('id="data">') + len('id="data">')
    data = json.loads(text[start : text.index("</script>", start)])
    assert data["picture"]["title"] == "loss"


def test_a_chain_of_10000_opens_as_parts(browser: Page, tmp_path: Path) -> None:
    y = tg.Value(0.5, name="x")
    for _ in range(10_000):
        y = y.tanh()
    page = opened(browser, tmp_path, y)
    assert 2 <= page.value("document.querySelectorAll('.box').length") <= 60
    page.value("(() => { const s = document.querySelector('[type=search]'); s.value = 'tanh:5000'; "
               "s.dispatchEvent(new Event('input')); })()")  # fmt: skip
    page.key("Enter")
    assert page.value("document.querySelector('.box.chosen').dataset.box") == "n5000"


def test_1500_boxes_are_laid_out_in_bounded_time(browser: Page, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    nodes: list[Any] = [tg.Value(float(i), name=f"x{i}") for i in range(8)]
    for i in range(1200):
        a, b = (nodes[-1 - int(j)] for j in rng.integers(0, 8, 2))
        nodes.append(a + b if i % 3 else (a * b).tanh())
    page = opened(browser, tmp_path, nodes[-1] + sum(nodes[-8:], tg.Value(0.0)))
    assert page.value("document.querySelectorAll('.box').length") <= 60
    page.value("(() => { const d = document.querySelector('.dial input'); d.value = d.max; "
               "d.dispatchEvent(new Event('input')); })()")  # fmt: skip
    assert 1200 < page.value("document.querySelectorAll('.box').length") <= 1700
    assert page.value(OVERLAPS) == 0
