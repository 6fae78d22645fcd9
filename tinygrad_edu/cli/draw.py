"""`tinygrad-edu draw`: an expression or a script's result as a picture.

An expression is arithmetic on names: its tree is walked, and nothing but numbers, names, operators
and the functions of `Value` is accepted.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tinygrad_edu import graph
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.cli.scripts import ScriptError, result_of
from tinygrad_edu.drawing.draw import Drawing, draw
from tinygrad_edu.scalar.value import Value

__all__ = ["collapse_of", "drawing_of", "evaluated", "settings"]

FUNCTIONS = (
    "abs", "clip", "cos", "erf", "exp", "expm1", "log", "log1p", "maximum", "minimum", "relu",
    "sigmoid", "sin", "sqrt", "tanh",
)  # fmt: skip
_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b, ast.Pow: lambda a, b: a**b,
}  # fmt: skip


def settings(given: Sequence[str]) -> dict[str, Value]:
    """"a=2 b=-3" as named Values.

    Raises:
        ScriptError: one is not NAME=NUMBER.
    """
    found: dict[str, Value] = {}
    for text in given:
        name, sign, number = text.partition("=")
        try:
            if not sign or not name.strip().isidentifier():
                raise ValueError
            found[name.strip()] = Value(float(number), name=name.strip())
        except ValueError as error:
            raise ScriptError(f"--set {text}: give NAME=NUMBER, such as a=2") from error
    return found


def evaluated(text: str, names: Mapping[str, Value]) -> Value:
    """An expression of numbers, names, + - * / ** and functions such as tanh, as a graph of Values.

    Raises:
        ScriptError: it is no such expression, or takes a name that has no number.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        found = _value(tree, dict(names))
    except SyntaxError as error:
        raise ScriptError(f"{text!r} is no expression: {error.msg}") from error
    except RecursionError as error:
        raise ScriptError("the expression is nested too deeply") from error
    if not isinstance(found, Value):
        raise ScriptError(f"{text!r} is a number without names; --set a=2 gives a name a number")
    return found


def _value(tree: ast.AST, names: dict[str, Value]) -> Any:
    if isinstance(tree, ast.Constant) and isinstance(tree.value, (int, float)):
        return float(tree.value)
    if isinstance(tree, ast.Name):
        if tree.id not in names:
            known = ", ".join(sorted(names)) or "none yet"
            raise ScriptError(
                f"{tree.id} has no number (those that have: {known}); add --set {tree.id}=2"
            )
        return names[tree.id]
    if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATORS:
        left, right = _value(tree.left, names), _value(tree.right, names)
        try:
            return _OPERATORS[type(tree.op)](left, right)
        except (ArithmeticError, ValueError) as error:
            raise ScriptError(f"{ast.unparse(tree)}: {error}") from error
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, (ast.USub, ast.UAdd)):
        inside = _value(tree.operand, names)
        return -inside if isinstance(tree.op, ast.USub) else inside
    if isinstance(tree, ast.Call):
        return _call(tree, names)
    raise ScriptError(
        f"{ast.unparse(tree)!r} is not arithmetic: numbers, names, + - * / **, and "
        f"{', '.join(FUNCTIONS)}"
    )


def _call(tree: ast.Call, names: dict[str, Value]) -> Any:
    """`tanh(a)` or `a.tanh()`."""
    given = list(tree.args)
    if isinstance(tree.func, ast.Attribute):
        name, given = tree.func.attr, [tree.func.value, *given]
    elif isinstance(tree.func, ast.Name):
        name = tree.func.id
    else:
        name = ""
    if name not in FUNCTIONS or tree.keywords or not given:
        raise ScriptError(
            f"{ast.unparse(tree)!r}: the functions here are {', '.join(FUNCTIONS)}"
        )
    first, *rest = (_value(x, names) for x in given)
    first = first if isinstance(first, Value) else Value(first)
    try:
        return getattr(first, name)(*rest)
    except TypeError as error:
        raise ScriptError(f"{ast.unparse(tree)}: {error}") from error


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
    if what.endswith(".py"):
        root, variables = result_of(Path(what), name)
        options = {"names": variables, **options}
    else:
        root = evaluated(what, settings(set_))
        options = {"title": what, **options}
    if backward and not _has_gradients(root):
        root.backward()
    return draw(root, **options)


def _has_gradients(root: Any) -> bool:
    return root.has_grad if isinstance(root, Value) else any(
        isinstance(x, Tensor) and x._grad is not None for x in graph.ancestors(root)
    )  # fmt: skip
