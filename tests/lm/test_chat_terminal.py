"""`chat` on a terminal: typing, pasting, Ctrl-C, Ctrl-D."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tinygrad_edu import lm, text
from tinygrad_edu.lm import checkpoint
from tinygrad_edu.lm.chat import Chat
from tinygrad_edu.lm.trained import describe_model

pty = pytest.importorskip("pty", reason="this system has no pseudo terminals")
fcntl = pytest.importorskip("fcntl", reason="this system has no pseudo terminals")
termios = pytest.importorskip("termios", reason="this system has no pseudo terminals")

CTRL_C, CTRL_D = b"\x03", b"\x04"
ASKS = b"you> "


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained model, which never ends an answer by itself."""
    folder = tmp_path_factory.mktemp("chat") / "run"
    folder.mkdir()
    tokenizer = text.BPETokenizer([])
    model = lm.GPT(lm.GPTConfig(tokenizer.vocab_size, 128, 1, 2, 16), np.random.default_rng(0))
    checkpoint.write_config(folder, lm.FinetuneConfig(
        base="none", steps=1, num_layers=1, num_heads=2, embed_dim=16, block_size=128
    ))  # fmt: skip
    checkpoint.publish(folder, {n: a.numpy() for n, a in model.state_dict().items()})
    tokenizer.save(folder / checkpoint.TOKENIZER)
    describe_model(folder, model)
    return folder


class Terminal:
    """A `chat` whose keyboard and screen are ours."""

    def __init__(self, run: Path, *more: str) -> None:
        self._screen, its = pty.openpty()
        command = [sys.executable, "-m", "tinygrad_edu", "chat", str(run), *more]
        self.process = subprocess.Popen(
            command, stdin=its, stdout=its, stderr=its, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C is a signal
            env={**os.environ, "TERM": "xterm", "PYTHONUTF8": "1"},
        )  # fmt: skip
        os.close(its)

    def types(self, keys: bytes) -> None:
        time.sleep(0.3)  # a signal before the prompt waits for a key comes with the next one
        os.write(self._screen, keys)

    def shows(self, *expected: bytes) -> bytes:
        """What is shown until all of it was, in this order."""
        found, at, ends = b"", 0, time.monotonic() + 60
        for part in expected:
            while found.find(part, at) < 0:
                assert time.monotonic() < ends, (part, found)
                if select.select([self._screen], [], [], 0.1)[0]:
                    try:
                        found += os.read(self._screen, 4096)
                    except OSError:  # the other side is closed
                        assert found.find(part, at) >= 0, (part, found)
            at = found.find(part, at) + len(part)
        return found

    def ends(self) -> int:
        return self.process.wait(30)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._screen)


@pytest.fixture
def brief(run: Path) -> Iterator[Terminal]:
    terminal = Terminal(run, "--max-new-tokens", "3")
    yield terminal
    terminal.close()


@pytest.fixture
def endless(run: Path) -> Iterator[Terminal]:
    terminal = Terminal(run, "--max-new-tokens", "1000000", "--temperature", "1")
    yield terminal
    terminal.close()


def test_ctrl_c_stops_an_answer_and_at_the_prompt_the_line(endless: Terminal) -> None:
    endless.shows(b"Ctrl-C stops an answer", ASKS)
    endless.types(b"go on\n")
    endless.shows(b"model> ")
    endless.types(CTRL_C)
    endless.shows(b"(stopped)", ASKS)
    endless.types(b"half a li" + CTRL_C)
    endless.shows(b"(once more ends)", ASKS)
    endless.types(b"again\n")
    endless.shows(b"model> ")
    endless.types(CTRL_C)
    endless.shows(b"(stopped)", ASKS)
    endless.types(CTRL_C)
    endless.shows(b"(once more ends)", ASKS)
    endless.types(CTRL_C)
    assert endless.ends() == 128 + signal.SIGINT


def test_what_is_typed_reaches_the_model_and_what_cannot_gets_a_line(brief: Terminal) -> None:
    brief.shows(ASKS)
    brief.types(b"\n")
    assert b"model>" not in brief.shows(ASKS)
    brief.types("olá, ação 😀\n".encode())
    assert b"tinygrad-edu:" not in brief.shows(b"model> ", ASKS)
    brief.types(b"x" * 300 + b"\n")
    shown = brief.shows(b"say it shorter", ASKS)
    assert b"324 tokens" in shown and b"model>" not in shown
    brief.types(b"\xff\xfe\n")
    brief.shows(b"model> ", ASKS)
    brief.types(b"--- exd\x1b[D\x7fn\n")  # edited to be a marker
    assert b"by which the template marks turns" in brief.shows(ASKS)
    brief.types(b"/help\n")
    brief.shows(b"/reset forgets", ASKS)
    brief.types(CTRL_D)
    assert brief.ends() == 0


@pytest.mark.parametrize("bracketed", [False, True])
def test_pasted_lines_are_one_question(bracketed: bool, brief: Terminal) -> None:
    brief.shows(ASKS)
    lines = b"one\n--- user\nthree"  # of which the second shows that all were taken as one text
    brief.types(b"\x1b[200~" + lines + b"\x1b[201~\n" if bracketed else lines + b"\n")
    shown = brief.shows(b"a line of a message is '--- user'", ASKS)
    assert b"model>" not in shown
    brief.types(b"/quit\n")
    assert brief.ends() == 0


def test_of_an_answer_that_is_stopped_what_was_given_is_remembered(run: Path) -> None:
    talk = Chat(lm.load_trained(run), max_new_tokens=50)
    given = talk.reply("a")
    said = next(given)
    given.close()
    assert [m.content for m in talk.messages] == ["a", said]
    talk.reset()
    talk.reply("b").close()
    assert talk.messages == []
