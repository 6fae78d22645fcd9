"""A bug hunt in the terminal: looking, checking, answering, line by line."""

from __future__ import annotations

from collections.abc import Callable

from tinygrad_edu.learn.bughunt import Hunt
from tinygrad_edu.learn.showing import wrapped

__all__ = ["play"]

_KEYS = """\
  show              the graph, with the gradients that this pass gave
  step [K]          what step K of the pass handed on, or the next one
  value NODE        its numbers
  check NODE        its gradient, held to differences
  kinds             the kinds of mistakes there are
  answer NODE KIND  where it is, and what
  hint              a hint; three in all
  solution          what was wrong
  quit"""


def play(
    hunt: Hunt, read: Callable[[str], str] = input, write: Callable[[str], None] = print
) -> bool:
    """Hunt until the mistake is found, the solution shown or the hunt left; whether it was found.

    Args:
        hunt: as `bug_hunt` makes it.
        read: asks for one line, given the prompt.
        write: shows one text.
    """
    write(hunt.show())
    write(f"\n{_KEYS}\n")
    step = 0
    while True:
        try:
            line = read("(hunt) ").split()
        except EOFError:
            return False
        if not line:
            continue
        word, rest = line[0], line[1:]
        try:
            if word in ("q", "quit", "exit"):
                return False
            if word == "solution":
                write(hunt.solution())
                return False
            if word == "answer":
                if len(rest) != 2:
                    raise ValueError("answer takes a node and a kind, as in: answer h sign")
                verdict = hunt.answer(rest[0], rest[1])
                write(repr(verdict))
                if verdict:
                    return True
            elif word == "step":
                step = _step(hunt, rest, step)
                write(hunt.log[step - 1].text)
            else:
                write(_shown(hunt, word, rest))
        except ValueError as error:
            write(wrapped(str(error)))


def _step(hunt: Hunt, rest: list[str], last: int) -> int:
    """Which step is asked for, from 1."""
    if not rest:
        return last % len(hunt.log) + 1
    if not rest[0].isdigit() or not 1 <= int(rest[0]) <= len(hunt.log):
        raise ValueError(f"step takes a number from 1 to {len(hunt.log)}, or nothing for the next")
    return int(rest[0])


def _shown(hunt: Hunt, word: str, rest: list[str]) -> str:
    if word in ("value", "check"):
        if len(rest) != 1:
            raise ValueError(f"{word} takes a node, as in: {word} h")
        return str(hunt.value(rest[0])) if word == "value" else repr(hunt.check(rest[0]))
    found = {"show": hunt.show, "kinds": hunt.kinds, "hint": hunt.hint}.get(word)
    return _KEYS if found is None else str(found())
