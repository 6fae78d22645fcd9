"""Running a gradient rule on words: the rule `1 - out * out` reads "1 - e²" where `out` is e.

A rule is an ordinary function of an array namespace and arrays. Here it is given terms, which carry
a text beside their array: every operation computes the array and writes the text. So the formula
that a learner reads is the rule that runs, and not a second copy of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_edu.backend import NUMPY
from tinygrad_edu.drawing.facts import number

__all__ = ["Symbols", "Term", "Unreadable"]

# How tightly a text binds: what is added needs brackets inside a product.
_SUM, _PRODUCT, _POWER, _ATOM = 1, 2, 3, 4


class Unreadable(Exception):  # noqa: N818 - not an error: another text is shown
    """A rule does what no short text says."""


class Term:
    """An array and the text of how it was made."""

    __array_ufunc__ = None  # NumPy's arrays leave the operators to us
    __slots__ = ("level", "text", "value")

    def __init__(self, text: str, value: Any, level: int = _ATOM) -> None:
        self.text, self.value, self.level = text, np.asarray(value), level

    def inside(self, level: int) -> str:
        """The text, in brackets where it binds less tightly than `level`."""
        return self.text if self.level >= level else f"({self.text})"

    # What rules ask of arrays.

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def ndim(self) -> int:
        return self.value.ndim

    @property
    def size(self) -> int:
        return self.value.size

    @property
    def dtype(self) -> Any:
        return self.value.dtype

    @property
    def mT(self) -> Term:  # noqa: N802 - NumPy's name
        return Term(f"{self.inside(_ATOM)}ᵀ", np.swapaxes(self.value, -1, -2))

    @property
    def T(self) -> Term:  # noqa: N802
        return Term(f"{self.inside(_ATOM)}ᵀ", self.value.T)

    def astype(self, dtype: Any) -> Term:
        return Term(self.text, self.value.astype(dtype), self.level)

    def reshape(self, *shape: Any) -> Term:
        return Term(self.text, self.value.reshape(*shape), self.level)

    def copy(self) -> Term:
        return self

    def __getitem__(self, index: Any) -> Term:
        return Term(self.text, self.value[_plain(index)], self.level)

    def __bool__(self) -> bool:
        return bool(self.value)

    # Operators.

    def __add__(self, other: Any) -> Term:
        return _sum(self, other)

    def __radd__(self, other: Any) -> Term:
        return _sum(other, self)

    def __sub__(self, other: Any) -> Term:
        return _difference(self, other)

    def __rsub__(self, other: Any) -> Term:
        return _difference(other, self)

    def __mul__(self, other: Any) -> Term:
        return _product(self, other)

    def __rmul__(self, other: Any) -> Term:
        return _product(other, self)

    def __truediv__(self, other: Any) -> Term:
        return _quotient(self, other)

    def __rtruediv__(self, other: Any) -> Term:
        return _quotient(other, self)

    def __neg__(self) -> Term:
        return Term(f"-{self.inside(_PRODUCT)}", -self.value, _PRODUCT)

    def __pow__(self, other: Any) -> Term:
        return _power(self, other)

    def __matmul__(self, other: Any) -> Term:
        return _matmul(self, other)

    def __rmatmul__(self, other: Any) -> Term:
        return _matmul(other, self)

    def __and__(self, other: Any) -> Term:
        other = _term(other)
        return Term(f"{self.text} and {other.text}", self.value & other.value, _SUM)

    def __lt__(self, other: Any) -> Term:
        return _compared(self, "<", other)

    def __le__(self, other: Any) -> Term:
        return _compared(self, "<=", other)

    def __gt__(self, other: Any) -> Term:
        return _compared(self, ">", other)

    def __ge__(self, other: Any) -> Term:
        return _compared(self, ">=", other)

    def __eq__(self, other: object) -> Any:
        return _compared(self, "=", other)

    def __ne__(self, other: object) -> Any:
        return _compared(self, "≠", other)

    __hash__ = None  # type: ignore[assignment]


def _term(x: Any) -> Term:
    if isinstance(x, Term):
        return x
    array = np.asarray(x)
    if array.size == 1:
        value = float(array.reshape(())[()])
        text = str(int(value)) if value == int(value) and abs(value) < 1e6 else number(value)
        return Term(text, array, _PRODUCT if text.startswith("-") else _ATOM)
    return Term(f"array{array.shape}", array)


def _is(x: Term, value: float) -> bool:
    """Whether it is the number `value` itself, and nothing that happens to equal it."""
    return x.text == str(int(value)) and x.value.size == 1


def _is_number(text: str) -> bool:
    return text.lstrip("-")[:1].isdigit()


def _sum(a: Any, b: Any) -> Term:
    a, b = _term(a), _term(b)
    right = f" - {b.text[1:]}" if b.text.startswith("-") else f" + {b.inside(_SUM)}"
    return Term(f"{a.inside(_SUM)}{right}", a.value + b.value, _SUM)


def _difference(a: Any, b: Any) -> Term:
    a, b = _term(a), _term(b)
    return Term(f"{a.inside(_SUM)} - {b.inside(_PRODUCT)}", a.value - b.value, _SUM)


def _product(a: Any, b: Any) -> Term:
    a, b = _term(a), _term(b)
    value = a.value * b.value
    if _is(a, 1) or _is(b, 1):
        kept = b if _is(a, 1) else a
        return Term(kept.text, value, kept.level)
    if _is_number(b.text) and not _is_number(a.text):
        a, b = b, a
    if a.text == b.text and a.level == _ATOM:
        return Term(f"{a.text}²", value, _POWER)
    right = f"({b.text})" if b.text.startswith("-") else b.inside(_PRODUCT)
    return Term(f"{a.inside(_PRODUCT)} · {right}", value, _PRODUCT)


def _quotient(a: Any, b: Any) -> Term:
    a, b = _term(a), _term(b)
    return Term(f"{a.inside(_PRODUCT)} / {b.inside(_POWER)}", a.value / b.value, _PRODUCT)


def _power(a: Any, b: Any) -> Term:
    a, b = _term(a), _term(b)
    value = np.power(a.value, b.value)
    if _is(b, 1):
        return Term(a.text, value, a.level)
    if _is(b, 2):
        return Term(f"{a.inside(_ATOM)}²", value, _POWER)
    return Term(f"{a.inside(_ATOM)}^{b.inside(_ATOM)}", value, _POWER)


def _matmul(a: Any, b: Any) -> Term:
    a, b = _term(a), _term(b)
    value = np.matmul(a.value, b.value)
    return Term(f"{a.inside(_PRODUCT)} @ {b.inside(_POWER)}", value, _PRODUCT)


def _compared(a: Any, sign: str, b: Any) -> Term:
    a, b = _term(a), _term(b)
    made = {
        "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
        "=": np.equal, "≠": np.not_equal,
    }[sign](a.value, b.value)  # fmt: skip
    return Term(f"{a.text} {sign} {b.text}", made, _SUM)


_OPERATORS: dict[str, Callable[[Any, Any], Term]] = {
    "add": _sum, "subtract": _difference, "multiply": _product, "divide": _quotient,
    "power": _power, "matmul": _matmul, "absorb": _product,
}  # fmt: skip

# They move numbers about, which a formula does not say.
_SILENT = {
    "reshape", "cast", "broadcast_to", "expand_dims", "squeeze", "constant", "asarray", "copy",
}  # fmt: skip
_SHORT = {
    "zeros_like": "0", "ones_like": "1", "absolute": "|{}|", "sqrt": "√({})", "square": "({})²",
    "sum": "Σ {}", "exp": "exp({})", "negative": "-{}", "logical_not": "not ({})",
}  # fmt: skip


class Symbols:
    """NumPy's names on terms; `attribute` is a part of NumPy, such as "linalg"."""

    name = "symbols"

    def __init__(self, attribute: str | None = None) -> None:
        self._inside = NUMPY if attribute is None else getattr(np, attribute)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "linalg":
            return Symbols("linalg")
        function = getattr(self._inside, name)
        if not callable(function) or isinstance(function, type):
            return function

        def call(*args: Any, **named: Any) -> Any:
            return self._call(name, function, args, named)

        return call

    def _call(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        if name in _OPERATORS and len(args) == 2 and not named:
            return _OPERATORS[name](*args)
        made = function(*_plain(args), **_plain(named))
        if isinstance(made, tuple):
            raise Unreadable(name)
        terms = [x for x in args if isinstance(x, Term)]
        if name in ("transpose", "swapaxes") and terms:
            return Term(f"{terms[0].inside(_ATOM)}ᵀ", made)
        if name in _SILENT and terms:
            return Term(terms[0].text, made, terms[0].level)
        if name in _SHORT and len(terms) == 1:
            text = _SHORT[name]
            return Term(text.format(terms[0].text), made, _PRODUCT if name in "sum" else _ATOM)
        if not terms:
            return made
        shown = ", ".join(x.text if isinstance(x, Term) else str(x) for x in args)
        return Term(f"{name}({shown})", made)


def _plain(x: Any) -> Any:
    """Terms within x as their arrays."""
    if isinstance(x, Term):
        return x.value
    if isinstance(x, (list, tuple)):
        return type(x)(_plain(each) for each in x)
    return {key: _plain(each) for key, each in x.items()} if isinstance(x, dict) else x
