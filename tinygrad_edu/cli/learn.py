"""`tinygrad-edu quiz`, `worksheet` and `hunt`: exercises made of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tinygrad_edu.autograd.recording import Recording
from tinygrad_edu.cli.expressions import root_of
from tinygrad_edu.cli.scripts import ScriptError
from tinygrad_edu.debugger.log import LIMIT, Log
from tinygrad_edu.drawing.names import nodes_in
from tinygrad_edu.errors import GraphError
from tinygrad_edu.learn.bughunt import bug_hunt
from tinygrad_edu.learn.hunting import play
from tinygrad_edu.learn.quiz import quiz
from tinygrad_edu.learn.worksheet import worksheet

__all__ = ["hunt", "put_questions", "write_worksheet"]


def _log_of(what: str, given: Sequence[str], name: str) -> Log:
    with Recording():
        root, variables = root_of(what, given, name)
    names = nodes_in(variables)
    names.setdefault(id(root), "L")
    try:
        return Log(root, None, LIMIT, names)
    except (GraphError, TypeError) as error:
        raise ScriptError(str(error)) from error


def put_questions(what: str, given: Sequence[str], name: str, seed: int, questions: int) -> None:
    """Ask about the backward pass of an expression or a script.

    Raises:
        ScriptError: there is no such result, or nothing in it to ask about.
    """
    log = _log_of(what, given, name)
    try:
        quiz(log, seed=seed, questions=questions)
    except GraphError as error:
        raise ScriptError(str(error)) from error


def write_worksheet(
    what: str, given: Sequence[str], name: str, output: Path, **options: Any
) -> list[Path]:
    """Write a worksheet and its key; the files that were written.

    Raises:
        ScriptError: there is no such result, or an option is wrong.
    """
    log = _log_of(what, given, name)
    try:
        worksheet(log, output, **options)
    except ValueError as error:
        raise ScriptError(str(error)) from error
    written = [output, output.with_suffix(".key.md")]
    return [*written, output.with_suffix(".svg")] if options.get("drawing") else written


def hunt(level: int, seed: int) -> bool:
    """Hunt the mistake of a level in the terminal; whether it was found.

    Raises:
        ScriptError: there is no such level.
    """
    try:
        made = bug_hunt(seed=seed, level=level)
    except ValueError as error:
        raise ScriptError(str(error)) from error
    return play(made)
