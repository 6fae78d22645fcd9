"""`tinygrad-edu chat`: a conversation in the terminal."""

from __future__ import annotations

import contextlib
import select
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from tinygrad_edu import lm
from tinygrad_edu.cli.codes import FINISHED

if TYPE_CHECKING:
    from tinygrad_edu.lm.chat import Chat

__all__ = ["ChatCommand"]

_HELP = "/reset forgets what was said; /quit or Ctrl-D ends; Ctrl-C stops an answer"
_PASTED_WITHIN = 0.05
"""Seconds within which the next line of a paste is there; nobody types as fast."""


@dataclass(frozen=True)
class ChatCommand:
    """Talk with a fine-tuned model.

    /reset forgets what was said, /quit ends, as does the end of the input (Ctrl-D). Ctrl-C stops an
    answer, of which what was written is remembered; at the prompt it drops the line, and twice in a
    row it ends. Pasted lines are one question.

    Attributes:
        run_folder: the folder of a fine-tuning run, or a merged one.
        system: what the model is told beforehand.
        temperature: 0 always takes the likeliest token.
        top_p: draw among the fewest likeliest tokens that reach this sum.
        max_new_tokens: of an answer, at most.
        seed: another seed gives other answers.
    """

    run_folder: Annotated[Path, tyro.conf.arg(name="run", metavar="RUN"), tyro.conf.Positional]
    system: str = ""
    temperature: float = 0.0
    top_p: float = 1.0
    max_new_tokens: int = 200
    seed: int = 1

    def run(self) -> int:
        """Ask and answer until the end."""
        from tinygrad_edu.lm.chat import Chat

        options = lm.SamplingOptions(temperature=self.temperature, top_p=self.top_p)
        chat = Chat(
            lm.load_trained(self.run_folder), self.system, options, self.seed, self.max_new_tokens
        )
        terminal = sys.stdin.isatty()
        if terminal:
            print(_HELP)
            with contextlib.suppress(ImportError):  # Windows has none: a prompt without editing
                import readline

                readline.parse_and_bind("set enable-bracketed-paste on")
        dropped = False
        while True:
            try:
                said = _question(terminal)
            except KeyboardInterrupt:
                if dropped or not terminal:
                    raise
                dropped = True
                print("\n(once more ends)")
                continue
            dropped = False
            if said is None or said == "/quit":
                return FINISHED
            if said in ("/help", "/?"):
                print(_HELP)
            elif said == "/reset":
                chat.reset()
            elif said:
                _answer(chat, said)


def _question(terminal: bool) -> str | None:
    """What is typed, without blanks around it; None at the end of the input."""
    try:
        lines = [input("you> ")]
        while terminal and _more():
            lines.append(input())
    except EOFError:
        print()
        return None
    # what is no UTF-8 comes as lone surrogates, which no tokenizer takes
    return "\n".join(lines).strip().encode("utf-8", "replace").decode("utf-8")


def _more() -> bool:
    """Whether another line is there already, as after a paste that did not come in one piece."""
    try:
        return bool(select.select([sys.stdin], [], [], _PASTED_WITHIN)[0])
    except (OSError, ValueError):  # Windows asks sockets only
        return False


def _answer(chat: Chat, said: str) -> None:
    """The answer as it comes, until its end or Ctrl-C; or a line why there is none."""
    from tinygrad_edu import text
    from tinygrad_edu.lm.display import printable

    before = chat.forgotten
    try:
        pieces = chat.reply(said)
    except (lm.SamplingError, lm.ConversationError, text.TokenizerError) as error:
        print(f"tinygrad-edu: {error}", file=sys.stderr)
        return
    try:
        print("model> ", end="", flush=True)
        for piece in pieces:
            print(printable(piece), end="", flush=True)
        print()
    except KeyboardInterrupt:
        pieces.close()
        print("\n(stopped)")
    except lm.SamplingError as error:
        print(f"\ntinygrad-edu: {error}", file=sys.stderr)
    if chat.forgotten > before:
        print("(the oldest of what was said no longer fits, and is forgotten)")
