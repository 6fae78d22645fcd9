"""The prompt: driven by scripted input, and by a real pseudo-terminal."""

from __future__ import annotations

import contextlib
import io
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from debugger.test_log import scalar_graphs
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_edu as tg
from tinygrad_edu.debugger.log import Log, record
from tinygrad_edu.debugger.prompt import Stepper, debug
from tinygrad_edu.debugger.stopping import breakpoint as stop_here
from tinygrad_edu.debugger.stopping import post_mortem
from tinygrad_edu.debugger.text import event_text


def program() -> tuple[Any, dict[str, Any]]:
    with tg.record():
        a, b = tg.Value(2.0, name="a"), tg.Value(-3.0, name="b")
        c = tg.Value(10.0, name="c")
        e = a * b
        e.name = "e"
        loss = (e + c).tanh() * e
        loss.name = "loss"
    return loss, {"a": a, "b": b, "c": c, "e": e}


def said(commands: str, loss: Any = None) -> list[str]:
    """What the prompt answers to each line, without the introduction."""
    out = io.StringIO()
    log = loss if isinstance(loss, Log) else record(program()[0] if loss is None else loss)
    Stepper(log, [], io.StringIO(commands), out).start()
    return [part.strip("\n") for part in out.getvalue().split("(tg) ")[1:]]


def test_a_step_shows_what_the_event_says() -> None:
    loss, _ = program()
    log = record(loss)
    answers = said("n\nn\nn\nn\nn\n", loss)
    assert answers[:4] == [event_text(event) for event in log]
    assert answers[4] == "this is the last event; rn goes back, restart begins again"


def test_back_shows_the_same_as_forth() -> None:
    answers = said("n\nn\nn\nrn\nrn\n")
    assert answers[3:5] == [answers[1], answers[0]]


def test_one_contribution_at_a_time() -> None:
    first, second = said("s\ns\n")[:2]
    assert "[1/4, 1 of 2] loss" in first and "∂loss/∂tanh:1 += " in first
    assert "∂loss/∂e" not in first
    assert second.startswith("[1/4] loss = tanh:1 × e")


def test_an_empty_line_repeats() -> None:
    assert said("n\n\n\n")[:3] == said("n\nn\nn\n")[:3]


def test_names_mean_nodes_with_their_gradient_at_that_moment() -> None:
    answers = said("p a.grad\nn 4\np a.grad\np a.data * e.grad\np tanh:1.grad\nrestart\na.grad\n")
    assert answers[0] == "None"
    loss, known = program()
    log = record(loss)
    assert float(answers[2]) == pytest.approx(float(log.gradient(known["a"])), rel=1e-3)
    assert float(answers[3]) == pytest.approx(2 * float(log.gradient(known["e"])), rel=1e-3)
    assert answers[-2] == "None"


def test_odd_names_may_stand_in_expressions() -> None:
    ws = [tg.Value(2.0), tg.Value(3.0)]
    loss = (ws[0] * ws[1]).exp()
    answers = said("n 2\np ws[0].grad + ws[1].grad\np multiply:1.data + 1\n", record(loss))
    assert answers[1:3] == [f"{5 * np.exp(6.0):.0f}", "7.0"]


def test_breakpoints_stop_both_ways_once_or_after_a_count() -> None:
    answers = said("b second\nc\nc\nrc\nclear 1\nrc\n")
    assert answers[1].startswith("breakpoint 1: use 2 of 2 of e\n[3/4]")
    assert answers[2] == "the end of the pass"
    assert answers[3].startswith("breakpoint 1: use 2 of 2 of e\n[3/4]")
    assert answers[5] == "the start of the pass"
    answers = said("tbreak op tanh\nc\nrestart\nc\nb\n")
    assert "operation tanh" in answers[1]
    assert answers[3] == "the end of the pass"
    assert answers[4].startswith("no breakpoints")
    answers = said("b op *\nignore 1 2\nc\nb\n")
    assert "[3/4]" in answers[2] and answers[3] == "1: op *, 3 hits"


def test_conditions_and_log_points() -> None:
    answers = said("b op * if abs(upstream) < 0.5\nc\n")
    assert "[3/4] add:1" in answers[1]
    answers = said('b op * log "{event.name}: {upstream}, {nosuch}"\nc\n')
    assert answers[1].splitlines()[:2] == [
        "[1] loss: 1.0, NameError: name 'nosuch' is not defined; nodes like it: loss",
        "[2] tanh:1: -6.0, NameError: name 'nosuch' is not defined; nodes like it: loss",
    ]
    answers = said("b op *\ncondition 1 e.grad is not None and e.grad < 0.995\nc\n")
    assert "[3/4]" in answers[2]
    assert "its condition fails here" in said("b if nosuch\nc\n")[1]


def test_watches_say_old_and_new() -> None:
    answers = said("display e.grad\nn\nn\nn\nrn\ndisplay\nundisplay e.grad\nn\n")
    assert answers[0].strip() == "watch e.grad: None"
    assert "watch e.grad: None → 0.9993" in answers[1]
    assert "watch" not in answers[2]
    assert "watch e.grad: 0.9993 → 0.9913" in answers[3]
    assert "watch e.grad: 0.9913 → 0.9993" in answers[4]
    assert answers[5] == "e.grad = 0.9993"
    assert "watch" not in answers[7]


def test_going_to_events_and_changes() -> None:
    answers = said("goto 3\nfirst e\nuntil a\nlast e\nrun\ngoto 0\ngoto 9\nuntil loss\n")
    assert answers[0].startswith("[3/4]")
    assert answers[1].startswith("[1/4]")
    assert answers[2].startswith("[4/4, 1 of 2]")
    assert answers[3].startswith("[3/4, 1 of 2]")
    assert answers[4].startswith("[4/4]")
    assert answers[5] == "at the start: only loss has a gradient"
    assert answers[6] == "goto takes the number of an event, from 0 to 4"
    assert "changes no more" in answers[7]


def test_frames_reach_the_forward_line_with_its_variables() -> None:
    with tg.record():
        loss = layered(tg.Value(0.5, name="x"), 3)
    answers = said("n\nw\np depth\np size\nl\nvars\n", loss)
    assert "in layered" in answers[1] and "return" in answers[1]
    assert answers[2:4] == ["3", "6"]
    assert any(line.lstrip().split()[1:2] == ["->"] for line in answers[4].splitlines())
    assert "depth = 3" in answers[5]


def layered(x: Any, depth: int) -> Any:
    size = depth * 2
    return x.tanh() * float(size)


def test_the_stack_of_the_program_lies_above() -> None:
    out = io.StringIO()
    loss, _ = program()
    secret = "of the program"
    debug(loss, reads=io.StringIO("n\nu\np secret\nd\nd\n"), writes=out)
    assert f"'{secret}'" in out.getvalue()
    assert "this is the innermost frame" in out.getvalue()


def test_ledger_info_tree_and_questions() -> None:
    answers = said("n\nledger e\ni e\ntree\nexplain a\nwhy_nan\nwhy_zero a\nbisect\ncheck\nh\n")
    assert answers[1].splitlines()[0].startswith(" · [1] loss")
    assert answers[1].splitlines()[1].startswith("   [3] add:1")
    assert "(1 of 2 uses)" in answers[2]
    assert answers[3].startswith("loss = ×")
    assert "∂loss/∂a" in answers[4] and "2 paths" in answers[4]
    assert "no NaN" in answers[5]
    assert "∂loss/∂a" in answers[6]
    assert "agrees with differences" in answers[7]
    assert "by differences" in answers[8]
    assert all(len(line) <= 80 for answer in answers for line in answer.splitlines())


def test_a_forgotten_zero_grad_shows_in_the_ledger() -> None:
    loss, known = program()
    loss.backward()
    loss.backward()
    assert "other passes have added to it" in said("n 4\nledger a\n", loss)[1]
    assert known["a"].grad != 0


def test_elements_of_arrays() -> None:
    x = tg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True, name="x")
    answers = said("n 2\nelement 0,1\nelement x\n", (x * x).sum())
    assert "at [0, 1]:" in answers[1]
    assert "takes an index" in answers[2]


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("p nosuch.grad", "NameError: name 'nosuch' is not defined"),
        ("nosuch", "nosuch is no command, node or variable; h lists the commands"),
        ("p 1/0", "ZeroDivisionError: division by zero"),
        ("p (", "SyntaxError"),
        ("b nosuch", "no node is called nosuch"),
        ("b frob 3", "is no breakpoint; these are"),
        ("n many", "'many' is no count"),
        ("clear 7", "there is no breakpoint 7; there are: none"),
        ("ignore 1", "ignore takes a breakpoint and a count"),
        ("until nosuch", "name 'nosuch' is not defined"),
        ("explain loss2", "name 'loss2' is not defined; nodes like it: loss"),
        ("draw", "draw takes a file"),
        ("draw x.bmp", "a drawing is saved as .svg"),
        ("undisplay q", "q is not watched"),
        ("h nosuch", "there is no command nosuch"),
        ("u", "this is the outermost frame"),
        ("l x", "no line is known here"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(command: str, answer: str) -> None:
    out = said(f"{command}\n")[0]
    assert answer in " ".join(out.split())
    assert "Traceback" not in out


@given(scalar_graphs(), st.lists(st.sampled_from(
    ["n", "s", "rn", "rs", "c", "rc", "goto 1", "run", "restart", "b second", "p upstream", "w",
     "tbreak sign", "b op *", "clear", "check", "ledger", "i"]), max_size=12))  # fmt: skip
def test_no_sequence_of_commands_fails_or_touches_a_gradient(
    made: list[Any], commands: list[str]
) -> None:
    if made[-1].op is None:
        return
    before = [(n.grad, n.has_grad) for n in made]
    out = io.StringIO()
    Stepper(record(made[-1]), [], io.StringIO("\n".join(commands) + "\n"), out).start()
    assert "Traceback" not in out.getvalue()
    assert [(n.grad, n.has_grad) for n in made] == before


def test_drawing_from_the_prompt(tmp_path: Path) -> None:
    said(f"n\ndraw {tmp_path / 'f.dot'}\n")
    assert "marked" in (tmp_path / "f.dot").read_text()


def test_the_program_goes_on_after_q_and_after_the_end_of_input() -> None:
    for commands in ("q\n", "n\n", ""):
        out = io.StringIO()
        debug(program()[0], reads=io.StringIO(commands), writes=out)


def test_breakpoint_in_forward_code() -> None:
    out = io.StringIO()
    value = 41
    stop_here(reads=io.StringIO("p value + 1\nl\nw\nc\n"), writes=out)
    assert "42" in out.getvalue() and "stop_here(reads=" in out.getvalue()
    assert value == 41


def test_breakpoint_where_a_gradient_arrives() -> None:
    x = tg.tensor([1.0, 2.0], requires_grad=True, name="x")
    y = x * 3.0
    out = io.StringIO()
    stop_here(y, reads=io.StringIO("p gradient.sum()\nc\n"), writes=out)
    y.sum().backward()
    assert "the gradient of y has arrived: (2,)" in out.getvalue()
    assert "2.0" in out.getvalue()
    assert x.grad is not None and np.asarray(x.grad.numpy()).tolist() == [3.0, 3.0]
    with pytest.raises(TypeError, match=r"tg\.debug\(loss\)"):
        stop_here(tg.Value(1.0))


def test_post_mortem_of_an_exception_and_of_a_nan() -> None:
    out = io.StringIO()
    try:
        failing(tg.tensor([1.0, 2.0], requires_grad=True))
    except ValueError as error:
        post_mortem(error, reads=io.StringIO("p inner\nu\nw\ndebug h\nn\nq\nq\n"), writes=out)
    text = out.getvalue()
    assert "ValueError" in text and "in failing" in text and "results in sight: h" in text
    assert "7" in text and "test_post_mortem" in text
    with pytest.raises(ValueError, match="found no exception"):
        post_mortem()


def failing(x: Any) -> Any:
    inner = 7
    h = (x * x).sum()
    raise ValueError(f"{inner} {h}")


SCRIPT = """
import tinygrad_edu as tg
a = tg.Value(2.0, name="a")
b = tg.Value(-3.0, name="b")
loss = (a * b).tanh() + a
print("made", float(loss) < 3)
"""


class Terminal:
    """A program at a pseudo-terminal."""

    def __init__(self, command: list[str], folder: Path) -> None:
        pty = pytest.importorskip("pty", reason="pseudo-terminals are POSIX")
        self.side, other = pty.openpty()
        env = {**os.environ, "TERM": "xterm", "XDG_STATE_HOME": str(folder), "COLUMNS": "80"}
        env["PYTHONPATH"] = os.pathsep.join(sys.path)
        self.process = subprocess.Popen(
            command, stdin=other, stdout=other, stderr=other, cwd=folder, env=env,
            start_new_session=True,
        )  # fmt: skip
        os.close(other)
        self.text = ""

    def until(self, text: str, seconds: float = 60.0) -> str:
        """Read until a text comes; what was read since the last time."""
        end = time.monotonic() + seconds
        while text not in self.text:
            if time.monotonic() > end:
                raise AssertionError(f"no {text!r} in {self.text!r}")
            ready, _, _ = select.select([self.side], [], [], 0.2)
            if ready:
                try:
                    self.text += os.read(self.side, 65536).decode(errors="replace")
                except OSError:
                    break
        before, _, self.text = self.text.partition(text)
        return before

    def interrupt(self, text: str) -> None:
        """Ctrl-C, again where it came before the program had begun to wait."""
        for _ in range(30):
            self.process.send_signal(signal.SIGINT)
            with contextlib.suppress(AssertionError):
                self.until(text, 1.0)
                return
        raise AssertionError(f"no {text!r} after Ctrl-C")

    def close(self) -> None:
        """End the program, whatever it does."""
        self.process.kill()
        self.process.wait()
        os.close(self.side)

    def send(self, text: str) -> None:
        os.write(self.side, text.encode())


Start = Callable[[list[str]], Terminal]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Start]:
    """Starts programs at pseudo-terminals, and ends them after the test."""
    made: list[Terminal] = []

    def start(command: list[str]) -> Terminal:
        made.append(Terminal(command, tmp_path))
        return made[-1]

    yield start
    for terminal in made:
        terminal.close()


@pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are POSIX")
def test_in_a_pseudo_terminal(tmp_path: Path, started: Start) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    code = "import sys; from tinygrad_edu.cli import main; sys.exit(main())"
    terminal = started([sys.executable, "-c", code, "debug", "script.py"])
    before = terminal.until("(tg) ")
    assert "made True" in before and "events from loss" in before
    terminal.send("n\n")
    assert "[1/3] loss = tanh:1 + a" in terminal.until("(tg) ")
    terminal.send("n\n")
    assert "[2/3]" in terminal.until("(tg) ")
    terminal.interrupt("(tg) ")  # Ctrl-C comes back to the prompt
    terminal.send("rn\n")
    assert "[1/3] loss" in terminal.until("(tg) ")
    terminal.send("unt\t multiply:\t\n")  # completion of a command and of a node's name
    assert "[2/3]" in terminal.until("(tg) ")
    terminal.send("p a.grad\n")
    assert "1.0" in terminal.until("(tg) ")
    terminal.send("q\n")
    assert terminal.process.wait(30) == 0
    assert (tmp_path / "tinygrad_edu" / "history").exists()


@pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are POSIX")
def test_a_failing_script_opens_where_it_failed(tmp_path: Path, started: Start) -> None:
    (tmp_path / "bad.py").write_text("def f(x):\n    y = x + 1\n    return y / 0\n\nf(4)\n")
    code = "import sys; from tinygrad_edu.cli import main; sys.exit(main())"
    terminal = started([sys.executable, "-c", code, "debug", "bad.py"])
    assert "ZeroDivisionError" in terminal.until("(tg) ")
    terminal.send("p y\n")
    assert "5" in terminal.until("(tg) ")
    terminal.send("\x04")  # the end of the input
    assert terminal.process.wait(30) == 1
