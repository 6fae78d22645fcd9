"""The prompt at its edges: odd names, expressions that fail, much used nodes, readers that are not
there, and what must come back as it was.
"""

from __future__ import annotations

import io
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from debugger.test_log import scalar_graphs
from debugger.test_prompt import Terminal, said
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_edu as tg
from tinygrad_edu.cli.scripts import ScriptError, result_of
from tinygrad_edu.debugger import log as logs
from tinygrad_edu.debugger.breakpoints import Breakpoint
from tinygrad_edu.debugger.log import record
from tinygrad_edu.debugger.prompt import Stepper, debug
from tinygrad_edu.debugger.stopping import breakpoint as stop_here
from tinygrad_edu.debugger.stopping import post_mortem
from tinygrad_edu.errors import ShapeError


def small() -> Any:
    a, b = tg.Value(2.0, name="a"), tg.Value(-3.0, name="b")
    return (a * b).tanh() * a + b


def matrices() -> Any:
    x = tg.tensor(np.arange(6.0).reshape(2, 3) / 7, requires_grad=True, name="x")
    w = tg.tensor(np.linspace(-1, 1, 12).reshape(3, 4), requires_grad=True, name="w")
    return (tg.softmax(x @ w) ** 2).sum(), x, w


# Moving


def moved(at: int, command: str, ends: list[int]) -> int:
    """Where a command leads, by a list of the places where events end."""
    before, after = [0, *ends], [*ends, ends[-1]]
    return {
        "s": min(at + 1, ends[-1]), "rs": max(at - 1, 0),
        "n": next(e for e in after if e > at or e == ends[-1]),
        "rn": max((e for e in before if e < at), default=0),
        "run": ends[-1], "restart": 0, "goto 1": ends[0],
    }[command]  # fmt: skip


@given(
    scalar_graphs(),
    st.lists(st.sampled_from(["s", "rs", "n", "rn", "run", "restart", "goto 1"]), max_size=15),
)
def test_the_prompt_stands_where_a_count_says_and_shows_the_sums_so_far(
    made: list[Any], commands: list[str]
) -> None:
    if made[-1].op is None:
        return
    log = record(made[-1])
    prompt = Stepper(log, [], io.StringIO(), io.StringIO())
    uses = [use for event in log for use in event.uses]
    ends = list(np.cumsum([len(event.uses) for event in log]))
    at = 0
    for command in commands:
        prompt.onecmd(command)
        at = moved(at, command, ends)
        assert prompt.cursor.at == at, command
        sums: dict[int, float] = {id(log.root): 1.0}
        for use in uses[:at]:
            sums[id(use.input)] = sums.get(id(use.input), 0.0) + float(use.contribution)
        for name, node in prompt.scope.nodes.items():
            found = prompt.scope.evaluate("node.grad", {"node": node})
            assert found == sums.get(id(node)), name


def much_used(count: int) -> tuple[Any, Any]:
    x = tg.Value(0.5, name="x")
    total = x * 1.0
    for _ in range(count - 1):
        total = total * 0.9 + x
    return total, x


@given(st.integers(2, 60), st.data())
def test_partial_sums_of_a_much_used_node_are_the_plain_sums(count: int, data: Any) -> None:
    total, x = much_used(count)
    log = record(total)
    pieces = [float(use.contribution) for e in log for use in e.uses if use.input is x]
    assert len(pieces) == count
    for _ in range(8):
        k = data.draw(st.integers(0, count))
        wanted: float | None = None
        for piece in pieces[:k]:
            wanted = piece if wanted is None else wanted + piece
        assert log._partial(x, k) == wanted


def test_walking_a_much_used_node_both_ways_costs_a_rule_an_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    total, x = much_used(1500)
    log = record(total)
    pulls = 0
    pull = logs._pull

    def counted(node: Any, g: Any) -> Any:
        nonlocal pulls
        pulls += 1
        return pull(node, g)

    monkeypatch.setattr(logs, "_pull", counted)
    for event in [*log, *log[::-1]]:
        log.gradient(x, after=event.index)
    assert pulls < 5 * len(log)


def test_ten_thousand_events_are_scanned_in_linear_time() -> None:
    total, _ = much_used(5000)
    begun = time.perf_counter()
    answers = said(
        "b sign\nb if x.grad > 1e9\nc\nrc\nn 9999\nrn 9999\ndisplay x.grad\nlast x\nrun\nlast x\n",
        record(total),
    )
    assert answers[2] == "the end of the pass" and answers[3] == "the start of the pass"
    assert time.perf_counter() - begun < 20  # each was above a minute where it was quadratic


def test_an_interrupted_scan_stands_where_it_was_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reason = Breakpoint.reason

    def interrupted(self: Breakpoint, event: Any, evaluate: Any = None) -> str:
        if event.index == 1:
            raise KeyboardInterrupt
        return reason(self, event, evaluate)

    monkeypatch.setattr(Breakpoint, "reason", interrupted)
    answers = said("b nan\nc\np event.index\n", record(small()))
    assert answers[1].startswith("interrupted\n[2/4]")
    assert answers[2] == "1"


# Expressions


def test_expressions_see_names_inside_comprehensions_and_functions() -> None:
    answers = said(
        "p [k for k in (1, 2) if a.data == k]\np (lambda: b.data * 2)()\np a * b + 1\np -a\n"
        "p max(abs(n.data) for n in (a, b))\np np.hypot(a, b)\n",
        record(small()),
    )
    assert answers[:6] == ["[2]", "-6.0", "-5.0", "-2.0", "3.0", "3.606"]


def test_arrays_answer_as_arrays_and_cannot_be_written_to() -> None:
    loss, x, w = matrices()
    before = x.data.copy(), w.data.copy()
    log = record(loss)
    whole = [np.array(log.gradient(node)) for node in log.nodes]
    answers = said(
        "p x.sum()\np (x @ w.T)[0] if False else x[1, 2] * 7\nn 3\np x.data.fill(9)\n"
        "p upstream.fill(7)\np event.upstream.shape\np node_of\n",
        log,
    )
    assert answers[0] == "2.143" and answers[1] == "5.0"
    assert "read-only" in answers[3] and "read-only" in answers[4]
    assert np.array_equal(x.data, before[0]) and np.array_equal(w.data, before[1])
    for node, g in zip(log.nodes, whole, strict=True):
        assert np.array_equal(np.asarray(log.gradient(node)), g)


def test_exit_in_an_expression_leaves_nothing() -> None:
    answers = said("p exit()\np 1 + 1\n", record(small()))
    assert answers[0].startswith("SystemExit") and answers[1] == "2"


def test_a_condition_on_a_gradient_that_has_not_arrived_does_not_apply() -> None:
    loss = small()
    log = record(loss)
    a = next(node for node in log.nodes if node.name == "a")
    first = next(e.index for e in log if log.gradient(a, after=e.index) is not None)
    assert first > 0
    assert f"[{first + 1}/{len(log)}]" in said("b if a.grad < 1e9\nc\n", log)[1]
    assert said("display a.grad * 2\n", log)[0].strip() == "watch a.grad * 2: –"
    assert "a.grad has not arrived yet" in said("p a.grad * 2\n", log)[0]


def test_names_that_python_cannot_read_may_stand_in_expressions() -> None:
    rate = tg.Value(0.5, name="lambda")
    odd = tg.Value(3.0, name="it's 2")
    answers = said("run\np lambda.grad\np it's 2.grad * 2\np multiply:9\n", record(rate * odd))
    assert answers[1:3] == ["3.0", "1.0"]
    assert answers[3].startswith("no node is called multiply:9")


def test_a_name_with_the_model_before_it_finds_the_node_s_own() -> None:
    model = tg.nn.Sequential(tg.nn.Linear(2, 2))
    loss = model(tg.tensor([[1.0, 2.0]])).sum()
    log = record(loss)
    own = next(name for name in map(log.names.__getitem__, log.nodes) if name.endswith("weight"))
    for command in (f"p model.{own}.grad", f"ledger model.{own}", f"display model.{own}.grad"):
        answers = said(f"{command}\ndisplay\n", log)
        assert answers[0] == f"no node is called model.{own}; there is {own}", command
        assert answers[1] == "nothing is watched; display w.grad would watch that"


def test_in_the_frames_above_variables_come_first() -> None:
    def program() -> Any:
        a = tg.Value(2.0, name="a")
        return a * 3.0

    with tg.record():
        loss = program()
    a = "mine"
    out = io.StringIO()
    debug(loss, reads=io.StringIO("n\np a\nu\np a\n"), writes=out)
    answers = out.getvalue().split("(tg) ")
    assert answers[2].startswith("a = 2.0") and answers[4].strip() == repr(a)


def test_a_change_too_small_to_see_is_said() -> None:
    x = tg.Value(1.0, name="x")
    answers = said("n\ndisplay x.grad\nn\n", record(x + x * 1e-9))
    assert answers[2].splitlines()[-1] == "  watch x.grad: 1.0 → 1.000 (by 1e-09)"
    x = tg.Value(1.0, name="x")
    same = (x * 1.0 + 0.0) + x
    assert "(by" not in "".join(said("n\ndisplay x.grad\nrun\n", record(same)))


# Breakpoints


def test_operations_called_like_a_word_of_ours() -> None:
    point = Breakpoint.parse("op log if upstream > 1")
    assert (point.kind, point.argument, point.condition) == ("op", "log", "upstream > 1")
    point = Breakpoint.parse('op log log "at {upstream}"')
    assert (point.argument, point.message) == ("log", "at {upstream}")
    assert Breakpoint.parse("12").kind == "line"


# What is shown


def test_control_characters_in_names_do_not_reach_the_terminal() -> None:
    a = tg.Value(2.0, name="two\nlines\x1b[2J\u202e")
    text = "\n".join(said("n\ni\nledger\np\ntree\ns\nrs\ndisplay\n", record(a * a)))
    assert "\x1b" not in text and "\u202e" not in text
    assert "two\\nlines\\x1b[2J" in text


def test_an_element_that_is_not_there_is_the_largest() -> None:
    loss, _, _ = matrices()
    answers = said("n 4\nelement 1,2\nelement 9,9\nrn\nelement x\ngoto 2\n", record(loss))
    assert answers[1].count("at [1, 2]:") == 2
    assert answers[2] == answers[0]
    assert answers[3].startswith("[3/4]")
    assert answers[4] == "'x': it takes an index, such as 0,2"
    assert answers[5].startswith("[2/4]") and "at [" in answers[5]


def test_the_ledger_marks_what_has_arrived_within_an_event() -> None:
    z = tg.Value(3.0, name="z")
    answers = said("s\nledger z\ns\nledger z\n", record(z * z))
    assert [line[1] for line in answers[1].splitlines()] == ["·", " "]
    assert [line[1] for line in answers[3].splitlines()] == ["·", "·"]
    x = tg.tensor([np.nan, 1.0], requires_grad=True, name="x")
    y = (x * 2.0).sum() * x.sum()
    y.backward()
    assert "other passes" not in said("ledger x\n", record(y))[0]


def test_zooming_steps_through_one_element_and_comes_back() -> None:
    loss, _, _ = matrices()
    log = record(loss)
    product = next(node for node in log.nodes if log.names[node] == "matmul:1")
    out = io.StringIO()
    commands = ["n 2", "zoom matmul:1 1,2", "run", "p w[0,2].grad", "q", "p event.index", "zoom x"]
    commands += ["zoom matmul:1", ""]
    Stepper(log, [], io.StringIO("\n".join(commands)), out).start()
    inside, *after = out.getvalue().split("(tg zoom) ")[-1].split("(tg) ")
    assert inside == "" and after[0].strip() == "1"
    wanted = float(np.asarray(log.gradient(product))[1, 2]) * 3 / 7
    shown = float(out.getvalue().split("(tg zoom) ")[2])
    assert shown == pytest.approx(wanted, rel=1e-3)
    assert "which no tensor operation made" in " ".join(after[1].split())
    assert "no fused operation" in " ".join(after[2].split())
    fused = next(name for name in map(log.names.__getitem__, log.nodes) if "softmax" in name)
    out = io.StringIO()
    Stepper(log, [], io.StringIO(f"zoom {fused}\nn\n"), out).start()
    assert "exp" in out.getvalue() and "cmd.py" not in out.getvalue()


def test_help_knows_every_command_at_80_columns() -> None:
    prompt = Stepper(record(small()), [], io.StringIO(), io.StringIO())
    answers = said("h\n?b\n!1 + 1\n", record(small()))
    first = [line.split()[0] for line in answers[0].splitlines()]
    assert set(prompt.commands()) <= set(first)
    assert all(len(line) <= 80 for answer in answers for line in answer.splitlines())
    assert answers[1].startswith("b [WHAT]:") and answers[2] == "2"
    grouped = [name for names in prompt.groups.values() for name in names]
    assert len(grouped) == len(set(grouped)) and set(grouped) <= set(prompt.commands())


# Nobody there, errors, and what comes back


def test_without_anyone_to_ask_the_program_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    debug(small())  # pytest lets nobody read from the terminal
    assert "no commands can be read here" in capsys.readouterr().out


def test_a_terminal_without_these_letters_shows_question_marks() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    debug(small(), reads=io.StringIO("n\n"), writes=out)
    out.flush()
    assert b"?L/?" in raw.getvalue() or b"?loss/?" in raw.getvalue()


def test_what_nobody_foresaw_is_a_line_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Any, text: str) -> None:
        raise ZeroDivisionError("oh") if not text else ShapeError("shapes (2,) and (3,)")

    monkeypatch.setattr(Stepper, "do_w", broken)
    answers = said("w\nw x\np 1\n", record(small()))
    assert answers[:3] == ["ZeroDivisionError: oh", "shapes (2,) and (3,)", "1"]


def test_a_breakpoint_on_a_gradient_is_silent_while_a_log_is_made() -> None:
    x = tg.tensor([1.0, 2.0], requires_grad=True, name="x")
    y = x * 3.0
    out = io.StringIO()
    stop_here(y, reads=io.StringIO("c\n" * 9), writes=out)
    loss = y.sum()
    log = record(loss, limit=0)  # every gradient is found by running the pass again
    assert np.asarray(log.gradient(x)).tolist() == [3.0, 3.0]
    assert out.getvalue() == ""
    loss.backward()
    assert out.getvalue().count("has arrived") == 1


def test_debug_after_an_exception_knows_the_names_of_the_program() -> None:
    def failing() -> None:
        weight = tg.Value(2.0)
        loss = weight * 3.0
        raise ValueError(loss.data)

    out = io.StringIO()
    with pytest.raises(ValueError, match="6") as caught:
        failing()
    post_mortem(caught.value, reads=io.StringIO("debug loss\nn\nq\nq\n"), writes=out)
    assert "loss = weight × 3.0" in out.getvalue()
    assert "cmd.py" not in out.getvalue()


def test_a_script_that_ends_itself_is_debugged_all_the_same(tmp_path: Path) -> None:
    script = tmp_path / "main.py"
    script.write_text(
        "import sys\nimport tinygrad_edu as tg\nloss = tg.Value(2.0) * 3.0\nsys.exit(0)\n"
    )
    found, _ = result_of(script)
    assert found.data == 6.0
    script.write_text("import sys\nsys.exit('no file given')\n")
    with pytest.raises(ScriptError, match="leaves no Value or Tensor"):
        result_of(script)


def test_frames_of_a_failed_script_are_its_own(tmp_path: Path) -> None:
    script = tmp_path / "bad.py"
    script.write_text("def f(x):\n    return x / 0\n\nf(4)\n")
    with pytest.raises(ZeroDivisionError) as caught:
        result_of(script)
    out = io.StringIO()
    post_mortem(caught.value, reads=io.StringIO("w\n"), writes=out)
    assert "runpy" not in out.getvalue()
    assert "bad.py:4" in out.getvalue() and "bad.py:2 in f" in out.getvalue()


@pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are POSIX")
@pytest.mark.parametrize("writable", [True, False])
def test_a_python_prompt_finds_its_history_and_completion_again(
    tmp_path: Path, writable: bool
) -> None:
    pytest.importorskip("readline")
    (tmp_path / "file").write_text("")
    state = tmp_path / "state" if writable else tmp_path / "file" / "state"
    code = "import readline as r, tinygrad_edu as tg; L = (tg.Value(2.0, name='a') * 3).tanh()"
    command = ["env", f"XDG_STATE_HOME={state}", "NO_COLOR=1", sys.executable, "-i", "-c", code]
    terminal = Terminal(command, tmp_path)
    try:
        terminal.until(">>> ")
        terminal.send("before = r.get_completer_delims(), r.get_history_length()\n")
        terminal.until(">>> ")
        terminal.send("tg.debug(L)\n")
        terminal.until("(tg) ")
        terminal.send("n\n")
        terminal.until("(tg) ")
        terminal.send("p multiply:\t + 1\n")  # completed: a word does not end at the colon
        assert "7.0" in terminal.until("(tg) ")
        terminal.send("q\n")
        terminal.until(">>> ")
        terminal.send("before == (r.get_completer_delims(), r.get_history_length())\n")
        assert "True" in terminal.until(">>> ").split("\n", 1)[1]
        terminal.send("[r.get_history_item(i) for i in range(1, r.get_current_history_length())]\n")
        kept = terminal.until(">>> ").split("\n", 1)[1]
        assert "tg.debug(L)" in kept and "'n'" not in kept and "multiply" not in kept
    finally:
        terminal.close()
    if writable:
        assert "p multiply:1" in (state / "tinygrad_edu" / "history").read_text()
