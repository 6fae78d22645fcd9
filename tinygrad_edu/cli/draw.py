"""`tinygrad-edu draw`: an expression or a script's result as a picture."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from tinygrad_edu import graph
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.cli.expressions import root_of
from tinygrad_edu.cli.scripts import ScriptError
from tinygrad_edu.drawing.draw import Drawing, draw
from tinygrad_edu.errors import GraphError
from tinygrad_edu.scalar.value import Value

__all__ = ["collapse_of", "drawing_of"]


def collapse_of(text: str) -> str | int | float:
    """What `--collapse` says, as `draw` takes it.

    Raises:
        ScriptError: it is no word or number that `draw` knows.
    """
    if text in ("auto", "none", "all"):
        return text
    try:
        found = float(text) if "." in text else int(text)
        if found < 0 or (isinstance(found, float) and found > 1):
            raise ValueError
    except ValueError as error:
        raise ScriptError(
            f"--collapse {text}: give auto, none, all, a number of levels, or a fraction from 0.0 "
            "to 1.0"
        ) from error
    return found


def drawing_of(
    what: str, set_: Sequence[str], name: str, backward: bool, options: Mapping[str, Any]
) -> Drawing:
    """The drawing of an expression, or of a script's result."""
    root, variables = root_of(what, set_, name)
    options = {"names": variables, **options}
    if not what.endswith(".py"):
        options = {"title": what, **options}
    if backward and not _has_gradients(root):
        try:
            root.backward()
        except GraphError as error:  # not one number, not tracked, freed: drawn all the same
            warnings.warn(f"drawn without gradients: {error}", stacklevel=2)
    return draw(root, **options)


def _has_gradients(root: Any) -> bool:
    return root.has_grad if isinstance(root, Value) else any(
        isinstance(x, Tensor) and x._grad is not None for x in graph.ancestors(root)
    )  # fmt: skip
