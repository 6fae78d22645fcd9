"""The stepper's page in headless Chromium: slider, keys, forward and backward fill, its panels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import Page
from drawing.graphs import NASTY, gpt_loss

import tinygrad_edu as tg
from tinygrad_edu import nn
from tinygrad_edu.debugger.log import record
from tinygrad_edu.debugger.prompt import Stepper
from tinygrad_edu.drawing import facts


def program() -> Any:
    with tg.record():
        a, b = tg.Value(2.0, name="a"), tg.Value(-3.0, name="b")
        e = a * b
        e.name = "e"
        loss = (e + a).tanh() * e
    loss.name = "loss"
    return loss


def opened(browser: Page, tmp_path: Path, loss: Any, fragment: str = "", **options: Any) -> Page:
    path = tmp_path / "page.html"
    record(loss).save_html(path)
    return browser.open(path, fragment, **options)


LINES = """Object.fromEntries([...document.querySelectorAll('[data-box]')].map(b =>
  [b.dataset.box, [...b.querySelectorAll('.line')].map(l => l.textContent)]))"""
CLOCK = "document.querySelector('.time output').value"
EVENT = "document.querySelector('.event').textContent"


def test_the_forward_pass_fills_in_then_the_backward_pass(browser: Page, tmp_path: Path) -> None:
    loss = program()
    log = record(loss)
    page = opened(browser, tmp_path, loss, "#f0")
    assert page.value(CLOCK) == "nothing computed yet"
    lines = page.value(LINES)
    assert [lines[f"n{i}"] for i in range(5)] == [
        ["2.0", "grad –"], ["-3.0", "grad –"], ["?", "grad –"], ["?", "grad –"], ["?", "grad –"],
    ]  # fmt: skip
    page.key("ArrowRight")
    assert page.value(CLOCK) == "forward 1 of 4"
    assert page.value(LINES)["n2"] == ["-6.0", "grad –"]
    page.key("End")
    assert page.value(CLOCK) == "event 4 of 4"
    lines = page.value(LINES)
    for i, node in enumerate(log.nodes):
        assert lines[f"n{i}"][1] == f"grad {facts.number(log.gradient(node))}"
    page.key("Home")
    assert page.value(CLOCK) == "nothing computed yet"


def test_every_moment_shows_the_logs_numbers(browser: Page, tmp_path: Path) -> None:
    loss = program()
    log = record(loss)
    page = opened(browser, tmp_path, loss)
    for event in log:
        page.value(f"stepper.go(stepper.F + 1 + {event.index})")
        lines = page.value(LINES)
        for i, node in enumerate(log.nodes):
            g = log.gradient(node, after=event.index)
            count, total = log.arrived(node, event.index), log.uses_of(node)
            uses = f"  ({count} of {total})" if 0 < count < total else ""
            shown = "–" if g is None else facts.number(g)
            assert lines[f"n{i}"][1] == f"grad {shown}{uses}"
        text = page.value(EVENT)
        for use in event.uses:
            assert use.formula.names in text
            assert facts.number(use.contribution) in text


def test_forth_and_back_is_the_same(browser: Page, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, program(), "#e2")
    whole = "document.querySelector('.boxes').outerHTML + " + EVENT
    before = page.value(whole)
    page.key("ArrowRight", "ArrowRight", "ArrowLeft", "ArrowLeft")
    assert page.value(whole) == before
    assert page.value("location.hash") == "#e2"


def test_the_slider_and_the_address_say_the_moment(browser: Page, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, program(), "#e3")
    assert page.value(CLOCK) == "event 3 of 4"
    page.value("(() => { const s = document.querySelector('.time [type=range]'); s.value = 5; "
               "s.dispatchEvent(new Event('input')); })()")  # fmt: skip
    assert page.value(CLOCK) == "event 1 of 4"
    assert page.value("location.hash") == "#e1"
    assert page.value("document.querySelector('.time [type=range]').getAttribute('aria-valuetext')"
                      ) == "event 1 of 4"  # fmt: skip
    page.value("document.querySelector('.time [type=range]').focus()")
    page.key("ArrowRight")
    assert page.value(CLOCK) == "event 2 of 4"


def test_the_current_node_its_inputs_and_its_line_are_marked(browser: Page, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, program(), "#e4")
    marked = "[...document.querySelectorAll('.box.%s')].map(b => b.dataset.box)"
    assert page.value(marked % "now") == ["n2"]
    assert page.value(marked % "gets") == ["n0", "n1"]
    assert page.value("document.querySelectorAll('.arrow.on').length") == 2
    assert "e = a * b" in page.value("document.querySelector('.row.here').textContent")
    assert "variables there:" in page.value(EVENT)


def test_the_ledger_lists_what_has_come_and_what_will(browser: Page, tmp_path: Path) -> None:
    loss = program()
    log = record(loss)
    page = opened(browser, tmp_path, loss, "#e1")
    page.click("[data-box='n2']")
    rows = page.value("[...document.querySelectorAll('.ledger tbody tr')].map(r => "
                      "[r.className, ...[...r.cells].map(c => c.textContent)])")  # fmt: skip
    node = log.nodes[2]
    wanted = [
        ["later" if entry.event > 0 else "", str(entry.event + 1), entry.node,
         facts.number(entry.contribution), facts.number(entry.after)]
        for entry in log.ledger(node)
    ]  # fmt: skip
    assert rows == wanted
    page.value("document.querySelector('.ledger tr.later button').click()")
    assert page.value(CLOCK) == "event 3 of 4"


def test_breakpoints_run_both_ways(browser: Page, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, program(), "#f0")
    page.value("""(() => { const f = document.querySelector('.stops form');
      f.querySelector('select').value = 'second'; f.requestSubmit(); })()""")
    on = "[...document.querySelectorAll('.stops > button')][1].click()"
    back = "[...document.querySelectorAll('.stops > button')][0].click()"
    page.value("stepper.go(stepper.F)")
    page.value(on)
    assert page.value(CLOCK) == "event 3 of 4"
    page.value(on)
    assert page.value(CLOCK) == "event 4 of 4"
    page.value(back)
    assert page.value(CLOCK) == "event 3 of 4"
    page.value(back)
    assert "none in that direction" in page.value("document.querySelector('.stops').textContent")


@pytest.mark.parametrize(
    ("kind", "what"),
    [("op", "tanh"), ("op", "*"), ("name", "e"), ("zero", ""), ("sign", ""), ("second", ""),
     ("big", "0.5"), ("small", "0.5"), ("nan", ""), ("inf", "")],
)  # fmt: skip
def test_breakpoints_of_the_page_are_those_of_the_prompt(
    browser: Page, tmp_path: Path, kind: str, what: str
) -> None:
    from tinygrad_edu.debugger.breakpoints import Breakpoint

    loss = program()
    log = record(loss)
    page = opened(browser, tmp_path, loss)
    page.value(f"stepper.stops = [{{kind: '{kind}', what: '{what}', label: ''}}]")
    found = page.value("stepper.log.events.map((_, e) => Boolean(stepper.reason(e)))")
    op = {"tanh": "tanh", "*": "*"}.get(what, what)
    text = {"big": f"big > {what}", "small": f"small < {what}"}.get(kind, f"{kind} {op}".strip())
    point = Breakpoint.parse(text)
    assert found == [bool(point.reason(event)) for event in log]


def test_watches_show_old_and_new(browser: Page, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, program(), "#e1")
    page.click("[data-box='n2']")
    page.value("document.querySelector('.panel button:not(.link)').click()")
    buttons = "[...document.querySelectorAll('button')]"
    page.value(f"{buttons}.find(b => b.textContent === 'watch e').click()")
    page.value("stepper.go(stepper.F + 3)")
    text = page.value("document.querySelector('.watch').textContent")
    assert "e.grad" in text and "→" in text


def test_it_plays_and_stops(browser: Page, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, program(), "#e3")
    page.value("document.querySelector('.graph').focus()")
    page.key(" ")
    page.until(f"{CLOCK} === 'event 4 of 4'")
    page.until("stepper.playing === null")


def test_arrays_in_modules_step_too(browser: Page, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    x = tg.tensor(np.ones((5, 3), np.float32), name="x")
    loss = ((model(x) - 1) ** 2).mean()
    log = record(loss)
    page = opened(browser, tmp_path, loss, f"#e{len(log)}")
    assert "= linear(x, 0.weight, 0.bias" in page.value(EVENT)
    assert "norm" in page.value(EVENT)
    assert page.value("document.querySelectorAll('.box.now').length") == 1
    page.value("document.querySelector('.graph').focus()")
    page.key("ArrowLeft", shift=True)
    assert page.value("document.querySelectorAll('.box.chosen').length") == 1
    assert page.value(CLOCK) == f"event {len(log)} of {len(log)}"


def test_a_chain_of_10000_steps_in_the_page(browser: Page, tmp_path: Path) -> None:
    y = tg.Value(0.5, name="x")
    for _ in range(10_000):
        y = y * 1.0001
    page = opened(browser, tmp_path, y, "#e5000")
    assert page.value(CLOCK) == "event 5000 of 10000"
    assert page.value("document.querySelectorAll('.box').length") <= 60
    assert page.value("document.querySelectorAll('.box.now').length") == 1
    page.key("ArrowRight", "End", "Home")
    assert page.value(CLOCK) == "nothing computed yet"


def test_a_gpt_of_four_layers_opens_and_steps(browser: Page, tmp_path: Path) -> None:
    loss = gpt_loss(4)
    page = opened(browser, tmp_path, loss, "#e9")
    assert page.value("document.querySelectorAll('.box.now').length") == 1
    page.key("ArrowRight")
    assert page.value(CLOCK).startswith("event 10 of ")


@pytest.mark.parametrize("name", NASTY)
def test_any_text_survives(browser: Page, tmp_path: Path, name: str) -> None:
    a = tg.Value(2.0, name=name)
    page = opened(browser, tmp_path, a.exp() * a, "#e2")
    assert page.value("document.querySelectorAll('script').length") == 2
    assert page.value("document.querySelector('[data-box=n0] .head')?.textContent ?? ''") == name


def test_two_in_a_notebook_share_nothing() -> None:
    first, second = record(program())._repr_html_(), record(program())._repr_html_()
    assert first.startswith("<iframe") and "srcdoc=" in first
    assert "<script" not in first  # it is escaped, inside of the attribute
    assert first == second


def test_the_prompt_writes_the_page(tmp_path: Path) -> None:
    import io

    path = tmp_path / "f.html"
    Stepper(record(program()), [], io.StringIO(f"draw {path}\n"), io.StringIO()).start()
    assert "Stepper" in path.read_text(encoding="utf-8")
