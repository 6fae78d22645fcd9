"""Scripts that commands run, and the result they look for in them."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.scalar.value import Value

__all__ = ["ScriptError", "result_of"]


class ScriptError(ValueError):
    """An expression or script gives nothing that can be shown; says why."""


@contextmanager
def _as_program(path: Path, arguments: Sequence[str]) -> Iterator[None]:
    """`sys.argv` and the folder of a script, as `python SCRIPT.py` sets them."""
    before, folders = sys.argv, list(sys.path)
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before, folders


def result_of(
    path: Path, name: str = "", arguments: Sequence[str] = ()
) -> tuple[Any, dict[str, Any]]:
    """Run a script; (the node in its variable `name`, all its variables).

    Without a name it is `loss`, else the last variable that holds a result of one number, else of
    any size.

    Raises:
        ScriptError: there is no such file or variable.
    """
    if not path.is_file():
        raise ScriptError(f"there is no file {path}")
    with _as_program(path, arguments):
        try:
            found = runpy.run_path(str(path), run_name="__main__")
        except SystemExit as stop:
            found = _variables_at(stop, str(path))
    if name:
        if name not in found:
            known = ", ".join(k for k, v in found.items() if _is_node(v))
            raise ScriptError(f"{path.name} has no variable {name}; it has {known or 'no results'}")
        return _checked(found[name], name), found
    made = [v for v in found.values() if _is_node(v) and v.op is not None]
    if _is_node(found.get("loss")):
        return found["loss"], found
    numbers = [v for v in made if isinstance(v, Value) or v.ndim == 0]
    if not made:
        raise ScriptError(
            f"{path.name} leaves no Value or Tensor that an operation made in a variable; "
            "name it loss, or say which with --name"
        )
    return (numbers or made)[-1], found


def _variables_at(stop: SystemExit, path: str) -> dict[str, Any]:
    """The variables of a script that ended itself, as `sys.exit(main())` does."""
    trace = stop.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            return dict(trace.tb_frame.f_globals)
        trace = trace.tb_next
    raise stop


def _is_node(thing: Any) -> bool:
    """Not by isinstance: a proxy among a script's variables may raise at it."""
    return issubclass(type(thing), (Value, Tensor))


def _checked(thing: Any, name: str) -> Any:
    if not isinstance(thing, (Value, Tensor)):
        raise ScriptError(f"{name} is a {type(thing).__name__}; give the name of a Value or Tensor")
    return thing
