"""From Graphviz' language to svg, png or pdf: by the system's `dot`, else by graphviz-pure.

A program that fails or hangs is stopped, and the next one asked; where none is left, an error says
in a line how to get one.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import warnings
from pathlib import Path

__all__ = ["DrawingError", "FormatError", "render", "renderers"]

SECONDS = 120.0
"""After which a program counts as hanging."""
_HOW = "install Debian's or Homebrew's graphviz, or: pip install graphviz-pure"
_TOO_LARGE = "the picture is too large for a png: save it as .svg, or fold it with collapse=…"


class DrawingError(RuntimeError):
    """A picture could not be made; what was to be drawn is untouched."""


class FormatError(DrawingError, ValueError):
    """A file's ending names no form that a drawing has."""


def renderers(form: str) -> list[str]:
    """The programs here that can make a form, the best first."""
    found = shutil.which("dot")
    pure = shutil.which("graphviz-pure")
    if pure is None:  # beside the interpreter, where its environment is not on the PATH
        beside = Path(sys.executable).with_name("graphviz-pure")
        pure = str(beside) if beside.exists() else None
    return [p for p in (found, pure if form != "pdf" else None) if p is not None]


def render(dot: str, form: str, seconds: float = SECONDS) -> bytes:
    """The graph in a form that Graphviz writes.

    Args:
        dot: the graph.
        form: "svg", "png" or "pdf"; a pdf needs the system's `dot`.
        seconds: how long a program may take.

    Raises:
        DrawingError: no program is there, or each of them failed.
    """
    programs = renderers(form)
    if not programs:
        which = "the system's `dot`" if form == "pdf" else "Graphviz"
        how = _HOW.split(", or")[0] if form == "pdf" else _HOW
        raise DrawingError(f"a {form} needs {which}, which is not here: {how}")
    failed: list[str] = []
    for program in programs:
        made, why = _run(program, dot, form, seconds)
        if made is not None:
            if failed:
                warnings.warn(f"{failed[0]}; drawn by {Path(program).name}", stacklevel=4)
            return made
        failed.append(why)
    raise DrawingError("; ".join(failed))


def _run(program: str, dot: str, form: str, seconds: float) -> tuple[bytes | None, str]:
    """(the output, "") or (None, why there is none)."""
    for dpi in (192, 96) if form == "png" else (0,):
        made, why = _run_at(dpi, program, dot, form, seconds)
        if why != _TOO_LARGE:
            return made, why
    raise DrawingError(_TOO_LARGE)


def _run_at(
    dpi: int, program: str, dot: str, form: str, seconds: float
) -> tuple[bytes | None, str]:
    name = Path(program).name
    command = [program, f"-T{form}"] + ([f"-Gdpi={dpi}"] if dpi else [])
    try:
        done = subprocess.run(
            command, input=dot.encode(), capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return None, f"{name} was stopped after {seconds:g} seconds; collapse=… makes it less"
    except OSError as error:
        return None, f"{name} could not be run ({error})"
    errors = [
        line for line in done.stderr.decode(errors="replace").splitlines()
        if line.strip() and not _harmless(line)
    ]  # fmt: skip
    if any("too large for" in line for line in errors):  # scaled down till nothing can be read
        return None, _TOO_LARGE
    if done.returncode != 0 or not done.stdout or any("rror" in line for line in errors):
        said = errors[0].strip() if errors else "it said nothing"
        return None, f"{name} failed with exit code {done.returncode}: {said:.200}"
    return done.stdout, ""


def _harmless(line: str) -> bool:
    """Whether a line of stderr is about widths of letters, which boxes have room for, or fonts."""
    return "no value for width" in line or "ontconfig" in line or "falling back" in line.lower()
