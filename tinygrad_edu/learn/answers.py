"""What a learner typed, read but never run: numbers, formulas in the graph's names, shapes, axes.

A formula is cut into names and the rest, so that any name a node can have is understood
(`tanh:1`, `ws[0]`, `∂L/∂e`); the rest is parsed by `ast`, and of its tree only arithmetic, a few
functions, comparisons and `1 if a > 0 else 0` are worked out, in floating numbers.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinygrad_edu.drawing import facts

__all__ = [
    "AnswerError", "Formula", "Reader", "agrees", "axes_from", "number_from", "shape_from",
    "shown_unit",
]  # fmt: skip

LONGEST = 300
"""Characters that an answer may have."""


class AnswerError(ValueError):
    """An answer that cannot be read; the message says what to write instead."""


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "log": np.log, "ln": np.log, "sqrt": np.sqrt, "tanh": np.tanh, "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "abs": np.abs, "sign": np.sign,
    "max": np.maximum, "min": np.minimum, "maximum": np.maximum, "minimum": np.minimum,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "softplus": lambda x: np.logaddexp(0, x),
    "relu": lambda x: np.maximum(x, 0), "hypot": np.hypot, "log1p": np.log1p, "expm1": np.expm1,
}  # fmt: skip
CONSTANTS = {"pi": math.pi, "inf": math.inf, "nan": math.nan}
_WORDS = {"if", "else", "and", "or", "not"}
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.Pow: operator.pow,
}  # fmt: skip
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
_SIGNS = {
    "·": "*", "×": "*", "∙": "*", "⋅": "*", "−": "-", "–": "-", "²": "**2", "³": "**3", "^": "**",
    "½": "0.5", "≤": "<=", "≥": ">=", "≠": "!=", "√": "sqrt ", "π": "pi", "∞": "inf",
}  # fmt: skip
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_UNREADABLE = re.compile(r"[\x00-@\[-^`{-\x7f]*|" + _NUMBER.pattern)
"""Names that would be taken for numbers or signs."""
_WORD = re.compile(r"[^\W\d²³½][^\W²³½]*")
_ALONE = re.compile(r"\b(ln|log|sign|exp|sin|cos|tanh|sqrt) +(v__\d+|[\d.]+)")
_TIE = re.compile(r"(\S+) if (\S+) ([<>]) (\S+), 0\.5 if equal, else")


@dataclass(frozen=True)
class Formula:
    """A formula that was read.

    Attributes:
        text: what was typed.
        used: what it names, in order: ("value", i) or ("gradient", i) of node number i.
    """

    text: str
    used: tuple[tuple[str, int], ...]
    _tree: ast.expr

    def __call__(self, number: Callable[[str, int], float]) -> float:
        """Its number, where `number("value", i)` gives the number of node i."""
        known = {f"v__{k}": np.float64(number(*each)) for k, each in enumerate(self.used)}
        with np.errstate(all="ignore"):
            return float(_worked_out(self._tree, known))


class Reader:
    """Reads formulas in the names of a graph.

    Args:
        names: of the nodes, in their order; empty ones and those that are numbers are not read.
        loss: the name of what is differentiated; "∂L/∂" and "dL/d" are understood as well.
    """

    def __init__(self, names: Sequence[str], loss: str = "L") -> None:
        self._at = {name: i for i, name in enumerate(names) if not _UNREADABLE.fullmatch(name)}
        self._longest = max(map(len, self._at), default=0)
        self._before = tuple({f"∂{loss}/∂", f"d{loss}/d", "∂L/∂", "dL/d"})

    def read(self, text: str, upstream: int | None = None) -> Formula:
        """The formula in a text.

        Args:
            text: such as "∂L/∂e · b", "dL/de * b", "g*(1 - e**2)".
            upstream: the node whose gradient "g" and "upstream" stand for, where no node is called
                so.

        Raises:
            AnswerError: with what is wrong with it.
        """
        used: list[tuple[str, int]] = []
        source = self._cut(_short(text), used, upstream)
        return Formula(text.strip(), tuple(used), _parsed(source, text))

    def _cut(self, text: str, used: list[tuple[str, int]], upstream: int | None) -> str:
        """The text as Python would write it, "v__0", "v__1", … in place of names."""
        parts: list[str] = []

        def name(kind: str, index: int) -> None:
            if parts and parts[-1][-1:].isdigit():
                parts.append("*")  # 2a is 2·a
            parts.append(f"v__{len(used)}")
            used.append((kind, index))

        i = 0
        while i < len(text):
            gradient = next((p for p in self._before if text.startswith(p, i)), None)
            if gradient is not None and (found := self._name_at(text, i + len(gradient), True)):
                name("gradient", self._at[found])
                i += len(gradient) + len(found)
            elif gradient is not None and gradient.startswith("∂"):
                raise self._unknown(text[i + len(gradient) :])
            elif found := self._name_at(text, i):
                i += len(found)
                arrived = text.startswith(".grad", i)
                name("gradient" if arrived else "value", self._at[found])
                i += len(".grad") * arrived
            elif number := _NUMBER.match(text, i):
                parts.append(number[0])
                i = number.end()
            elif word := _WORD.match(text, i):
                if word[0] in ("g", "upstream") and upstream is not None:
                    name("gradient", upstream)
                else:
                    parts.append(self._known(word[0]))
                i = word.end()
            else:
                parts.append(_SIGNS.get(text[i], text[i]))
                i += 1
        return _pythons("".join(parts))

    def _name_at(self, text: str, i: int, inside: bool = False) -> str:
        """The longest name that stands at a place in the text, whole; "" where there is none.

        `inside`: what stands before it belongs to it, as the "d" in "dL/de".
        """
        for length in range(min(self._longest, len(text) - i), 0, -1):
            name = text[i : i + length]
            if name not in self._at:
                continue
            after = text[i + length : i + length + 1]
            if _joined(name[-1], after) or (i and not inside and _joined(text[i - 1], name[0])):
                continue
            if name in FUNCTIONS and after == "(":
                continue
            return name
        return ""

    def _known(self, word: str) -> str:
        if word in FUNCTIONS or word in CONSTANTS or word in _WORDS or word == "equal":
            return word
        raise self._unknown(word)

    def _unknown(self, word: str) -> AnswerError:
        names = list(self._at)
        if not names:
            return AnswerError(
                f"{word!r} is not understood here: write a number, or a product such as -2 * 3"
            )
        shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
        return AnswerError(
            f"{word!r} is no name in this graph: use {shown}, gradients such as ∂L/∂{names[-1]}, "
            "and functions such as exp(x)"
        )


def number_from(text: str) -> float:
    """A number, or arithmetic that gives one: "6", "-2.0 × -3.0", "1 - tanh(0.5)²".

    Raises:
        AnswerError: it is neither.
    """
    return Reader(()).read(text)(lambda kind, i: math.nan)


def shape_from(text: str) -> tuple[int, ...]:
    """A shape in any spelling: "(3, 2)", "3,2", "3x2", "[3 2]", "()" for a single number.

    Raises:
        AnswerError: it is none.
    """
    inner = _short(text).strip().lower().removeprefix("shape").strip(" =()[],")
    if inner in ("", "scalar"):
        return ()
    parts = re.split(r"\s*[,x×]\s*|\s+", inner)
    if not all(part.isdecimal() for part in parts):
        raise AnswerError(f"{text.strip()!r} is no shape: write its lengths, such as (3, 2)")
    return tuple(int(part) for part in parts)


def axes_from(text: str) -> tuple[int, ...]:
    """Axes in any spelling: "0", "(0, 2)", "axis 1", "none".

    Raises:
        AnswerError: it is none.
    """
    inner = re.sub(r"\b(axis|axes|and)\b", " ", _short(text).lower()).strip(" =()[],")
    if inner in ("", "none", "no", "-", "–"):
        return ()
    parts = re.split(r"\s*,\s*|\s+", inner)
    if not all(re.fullmatch(r"-?\d+", part) for part in parts):
        raise AnswerError(f"{text.strip()!r} names no axes: write numbers, such as 0, or none")
    return tuple(sorted({int(part) for part in parts}))


def agrees(text: str, given: float, wanted: float, slack: float = 0.0) -> bool:
    """Whether a number is right: to 1 %, or rounded to the two or more digits that were typed.

    Args:
        text: what was typed.
        given: its number.
        wanted: the right one.
        slack: what the rounding of the numbers shown may do to the answer.
    """
    if math.isnan(wanted) or math.isinf(wanted):
        return given == wanted or (math.isnan(given) and math.isnan(wanted))
    off = abs(given - wanted)
    return off <= max(0.01 * abs(wanted), slack, _half_unit(text)) * (1 + 1e-9)


def shown_unit(number: float) -> float:
    """One unit in the last digit of a number as it is shown; 0 where that is the whole number."""
    shown = facts.number(number)
    if not math.isfinite(number) or float(shown) == number:
        return 0.0
    digits, _, exponent = shown.partition("e")
    places = len(digits.partition(".")[2])
    return float(10.0 ** (int(exponent or 0) - places))


def _half_unit(text: str) -> float:
    """Half a unit in the last digit of a number that was typed with at least two of them."""
    typed = text.strip().replace("−", "-")
    if not re.fullmatch(r"-?\d*\.\d+([eE][+-]?\d+)?", typed):
        return 0.0
    digits, _, exponent = typed.lower().partition("e")
    if len(digits.lstrip("-").replace(".", "").lstrip("0")) < 2:
        return 0.0
    return float(0.5 * 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2])))


def _short(text: str) -> str:
    if len(text) > LONGEST:
        raise AnswerError(f"an answer has at most {LONGEST} characters, this one {len(text)}")
    return text.strip()


def _joined(left: str, right: str) -> bool:
    """Whether two characters belong to one word; a digit before a name does not: 2a is 2·a."""
    if left.isdecimal():
        return right.isdecimal()
    return _in_word(left) and _in_word(right)


def _in_word(character: str) -> bool:
    return character == "_" or (character.isalnum() and character not in _SIGNS)


def _pythons(source: str) -> str:
    """Our ways of writing, in Python's."""
    source = _TIE.sub(r"\1 if \2 \3 \4 else 0.5 if \2 == \4 else", source)
    source = source.replace(", else", " else")
    source = re.sub(r"\|([^|]+)\|", r"abs(\1)", source)
    source = re.sub(r"\bsqrt +\(", "sqrt(", source)
    return _ALONE.sub(r"\1(\2)", source)


def _parsed(source: str, text: str) -> ast.expr:
    try:
        return ast.parse(source.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise AnswerError(
            f"{text.strip()!r} cannot be read as a formula: write it like  -2 * x + exp(y)  with a "
            "sign between any two factors"
        ) from None


def _worked_out(node: ast.expr, known: Mapping[str, Any]) -> Any:
    """The number of a tree; whatever is not arithmetic is refused."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return np.float64(node.value)
    if isinstance(node, ast.Name) and (node.id in known or node.id in CONSTANTS):
        return known[node.id] if node.id in known else np.float64(CONSTANTS[node.id])
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_worked_out(node.left, known), _worked_out(node.right, known))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        inner = _worked_out(node.operand, known)
        return -inner if isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.IfExp):
        return _worked_out(node.body if _worked_out(node.test, known) else node.orelse, known)
    if isinstance(node, ast.Call):
        return _called(node, known)
    if isinstance(node, (ast.Compare, ast.BoolOp, ast.UnaryOp)):
        return np.float64(_true(node, known))
    raise _refused()


def _called(node: ast.Call, known: Mapping[str, Any]) -> Any:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name not in FUNCTIONS or node.keywords:
        raise _refused()
    try:
        return FUNCTIONS[name](*[_worked_out(x, known) for x in node.args])
    except (TypeError, ValueError):  # of NumPy, for too few or too many arguments
        raise AnswerError(f"{name}() was given {len(node.args)} numbers, which it does not take") \
            from None


def _true(node: ast.expr, known: Mapping[str, Any]) -> bool:
    """Whether a comparison, or several with and, or, not, holds."""
    if isinstance(node, ast.BoolOp):
        decide = all if isinstance(node.op, ast.And) else any
        return decide(_true(x, known) for x in node.values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not _true(node.operand, known)
    if not isinstance(node, ast.Compare):
        return bool(_worked_out(node, known))
    numbers = [_worked_out(x, known) for x in (node.left, *node.comparators)]
    if any(type(op) not in _COMPARED for op in node.ops):
        raise _refused()
    return all(
        _COMPARED[type(op)](a, b)
        for op, a, b in zip(node.ops, numbers, numbers[1:], strict=False)
    )


def _refused() -> AnswerError:
    return AnswerError(
        "only + - * / **, brackets, functions such as exp(x), and  1 if x > 0 else 0  can stand in "
        "an answer"
    )
