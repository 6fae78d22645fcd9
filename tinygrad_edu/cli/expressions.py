"""Expressions typed at the shell: arithmetic on names, as a graph of Values.

The expression's tree is walked, and nothing but numbers, names, operators and the functions of
`Value` is accepted.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tinygrad_edu.cli.scripts import ScriptError, result_of
from tinygrad_edu.scalar.value import Value

__all__ = ["evaluated", "root_of", "settings"]

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
        try:
            return float(tree.value)
        except OverflowError as error:
            raise ScriptError("a number is too large: write it as 1e400, infinity") from error
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
            found = _OPERATORS[type(tree.op)](left, right)
            if isinstance(found, complex):
                raise ValueError("the root of a negative number is no real number")
            return found
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


def root_of(what: str, given: Sequence[str], name: str) -> tuple[Any, dict[str, Any]]:
    """The result of an expression, with its names; or of a script, with its variables.

    Args:
        what: the expression, or a path that ends in .py.
        given: "a=2" for each name of the expression.
        name: the script's variable.

    Raises:
        ScriptError: there is no such result.
    """
    if what.endswith(".py"):
        return result_of(Path(what), name)
    names = settings(given)
    return evaluated(what, names), dict(names)
