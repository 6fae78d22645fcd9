"""Short programs, one idea each: `tinygrad-edu demo 1` runs `demos/01_one_weight.py`.

A demo is a script in cells (`# %%`), so an editor or a notebook runs it step by step. Its file name
starts with its number, and the first line of its docstring gives the title and the time it takes:
`One weight on a slope (1 second)`. There is no other list of demos.
"""

if __name__ == "demos":
    raise ImportError(
        "`import demos` would make a second copy of `tinygrad_edu.demos`: write "
        "`from tinygrad_edu import demos`."
    )

import ast
import re
import runpy
from dataclasses import dataclass
from pathlib import Path

_FOLDER = Path(__file__).parent
_TITLE = re.compile(r"(?P<title>.+) \((?P<seconds>\d+) seconds?\)\.?$")


@dataclass(frozen=True, slots=True)
class Demo:
    """One demo: its number, what it is about, and about how long it runs on two cores."""

    number: int
    title: str
    seconds: int
    path: Path


class UnknownDemoError(LookupError):
    """There is no demo of that number; the message lists those there are."""

    def __str__(self) -> str:
        return str(self.args[0])


def list_demos() -> list[Demo]:
    """All demos, in the order of their numbers."""
    return sorted(map(_read, _FOLDER.glob("[0-9]*.py")), key=lambda demo: demo.number)


def run(number: int) -> None:
    """Run a demo as a script; it prints what it shows, and fails where a claim of it is wrong.

    Raises:
        UnknownDemoError: there is no demo of this number.
    """
    demos = {demo.number: demo for demo in list_demos()}
    if number not in demos:
        listed = ", ".join(f"{demo.number} ({demo.title})" for demo in demos.values())
        raise UnknownDemoError(f"there is no demo {number}; there are: {listed}")
    runpy.run_path(str(demos[number].path), run_name="__main__")


def _read(path: Path) -> Demo:
    first_line = (ast.get_docstring(ast.parse(path.read_bytes())) or "").partition("\n")[0]
    match = _TITLE.match(first_line)
    if match is None:
        raise ValueError(
            f"the first line of {path.name} is {first_line!r}; a demo's docstring begins with its "
            "title and its time, as in 'One weight on a slope (1 second)'"
        )
    number = int(path.name.partition("_")[0])
    return Demo(number, match["title"], int(match["seconds"]), path)
