"""`Value`: a float that remembers how it was made, and so can say how it depends on its makers.

An operation on Values computes a number and, beside it, the numbers of its local derivatives: that
is all the chain rule needs. A node holds its inputs and these derivatives flat in slots. It stores
no closure and knows nothing of its consumers, so there is no reference cycle, and a graph is freed
the moment its last node is dropped. Numbers come out as NumPy has them: inf, -inf and NaN where
Python would raise, NaN never swallowed, no complex numbers.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from tinygrad_edu.graph import Observer
from tinygrad_edu.scalar import arithmetic, backward
from tinygrad_edu.scalar.arithmetic import described, real_number

_allocate = object.__new__


class Value:
    """One float in a graph.

    `Value(2.0, name="a")` is a leaf; operators and methods on Values make the other nodes. Means
    what micrograd's `Value` means, and reads `_prev` and `_op` as micrograd's drawings do.

    `<`, `>`, `<=`, `>=`, `bool`, `float` and `int` look at the number. `==` and `hash` look at the
    identity, so that Values can be members of sets and keys of dictionaries: two Values are equal
    when they are the same node.

    Args:
        data: a real number (Python's or NumPy's); kept as a float.
        name: what drawings and messages call it.

    Raises:
        TypeError: `data` is no real number, or `name` no string.
    """

    # 104 bytes a node, 128 with its number: the links and derivatives are flat here, not in tuples.
    # What is not needed stays unset: `_label` without a name, the inputs of a leaf.
    __slots__ = (
        "__weakref__",
        "_d_left",
        "_d_right",
        "_data",
        "_grad",
        "_label",
        "_left",
        "_right",
        "_rule",
    )
    _data: float
    _grad: float | None
    _rule: str | None
    _left: Value
    _right: Value | None
    _d_left: float
    _d_right: float
    _label: str | None

    def __init__(self, data: Any, name: str | None = None) -> None:
        self._data = data if type(data) is float else _as_float(data, "Value(data)")
        self._grad = None
        self._rule = None
        if name is not None:
            self.name = name

    # The protocol of `graph.Node`

    @property
    def data(self) -> float:
        """The number. Assigning changes it for later operations, not for results already made."""
        return self._data

    @data.setter
    def data(self, number: Any) -> None:
        self._data = _as_float(number, "Value.data")

    @property
    def grad(self) -> float:
        """d(root) / d(self) as backward passes left it; 0.0 before any (see `has_grad`)."""
        return 0.0 if self._grad is None else self._grad

    @grad.setter
    def grad(self, number: Any) -> None:
        self._grad = None if number is None else _as_float(number, "Value.grad")

    @property
    def has_grad(self) -> bool:
        """Whether a gradient has arrived or been assigned; assigning None takes it away."""
        return self._grad is not None

    @property
    def op(self) -> str | None:
        """What made this node, such as "*" or "tanh"; None for a leaf."""
        return self._rule

    @property
    def inputs(self) -> tuple[Value, ...]:
        """What it was made from, one entry an edge: `x * x` lists x twice."""
        if self._rule is None:
            return ()
        return (self._left,) if self._right is None else (self._left, self._right)

    @property
    def local_derivatives(self) -> tuple[float, ...]:
        """The derivative of this node by each of its inputs, as numbers of the forward pass."""
        if self._rule is None:
            return ()
        return (self._d_left,) if self._right is None else (self._d_left, self._d_right)

    @property
    def name(self) -> str | None:
        try:
            return self._label
        except AttributeError:
            return None

    @name.setter
    def name(self, name: str | None) -> None:
        if name is not None and not isinstance(name, str):
            raise TypeError(
                f"the name of a Value is a string, got {described(name)}: "
                "leave it out, or write Value(2.0, name='a')"
            )
        if name is not None:
            self._label = name
        elif self.name is not None:
            del self._label

    @property
    def is_constant(self) -> bool:
        """Whether it is a number of the program that met a Value, such as the 2.0 of `x * 2.0`."""
        return self._rule is None and getattr(self, "_label", "") is None

    @property
    def _prev(self) -> set[Value]:
        """micrograd's name for the inputs, as its drawing code reads it."""
        return set(self.inputs)

    @property
    def _op(self) -> str:
        """micrograd's name for `op`, as its drawing code reads it."""
        return self._rule or ""

    def backward(self, gradient: float = 1.0, observer: Observer | None = None) -> None:
        """Set the gradient of every node this one depends on, times `gradient`.

        Leaves add up over calls until they are set to 0; other nodes start afresh at each call.
        Iterative, linear in nodes and edges. `observer` is told of every contribution.
        """
        seed = _as_float(gradient, "backward(gradient)")
        if observer is not None:
            backward.observed_sweep(self, seed, observer)
        elif self._rule is None:
            self._grad = self.grad + seed
        else:
            backward.sweep(backward.order_and_clear(self), seed)

    # Arithmetic. + and * make up nearly all of a network, so they spell out what `node` does.

    def __add__(self, other: Any) -> Value:
        if type(other) is not Value:
            other = _operand(other, "+")
            if other is NotImplemented:
                return NotImplemented
        out = _allocate(Value)
        out._data = self._data + other._data
        out._grad = None
        out._rule = "+"
        out._left = self
        out._right = other
        out._d_left = out._d_right = 1.0
        return out

    def __mul__(self, other: Any) -> Value:
        if type(other) is not Value:
            other = _operand(other, "*")
            if other is NotImplemented:
                return NotImplemented
        out = _allocate(Value)
        out._d_right = x = self._data
        out._d_left = y = other._data
        out._data = x * y
        out._grad = None
        out._rule = "*"
        out._left = self
        out._right = other
        return out

    def __sub__(self, other: Any) -> Value:
        if type(other) is not Value:
            other = _operand(other, "-")
            if other is NotImplemented:
                return NotImplemented
        return node("-", self._data - other._data, self, 1.0, other, -1.0)

    def __truediv__(self, other: Any) -> Value:
        if type(other) is not Value:
            other = _operand(other, "/")
            if other is NotImplemented:
                return NotImplemented
        x, y = self._data, other._data
        if y != 0.0:
            out, d_left = x / y, 1.0 / y
            return node("/", out, self, d_left, other, -out / y)
        out, d_left = arithmetic.divide(x, y), arithmetic.divide(1.0, y)
        return node("/", out, self, d_left, other, arithmetic.divide(-out, y))

    def __pow__(self, other: Any) -> Value:
        """`self ** other`. A number as exponent is part of the operation, as in micrograd.

        0**0 is 1 with gradient 0; a negative base with a fractional exponent gives NaN.
        """
        if isinstance(other, Value):
            x, p = self._data, other._data
            out = arithmetic.power(x, p)
            by_base, by_exponent = arithmetic.power_partials(x, p, out)
            return node("**", out, self, by_base, other, by_exponent)
        exponent = real_number(other)
        if exponent is None:
            _unsupported(other, "**")
            return NotImplemented
        x = self._data
        out = arithmetic.power(x, exponent)
        return node(_power_label(exponent), out, self, arithmetic.base_partial(x, exponent))

    def __radd__(self, other: Any) -> Value:
        other = _operand(other, "+", reflected=True)
        return NotImplemented if other is NotImplemented else other + self

    def __rmul__(self, other: Any) -> Value:
        other = _operand(other, "*", reflected=True)
        return NotImplemented if other is NotImplemented else other * self

    def __rsub__(self, other: Any) -> Value:
        other = _operand(other, "-", reflected=True)
        return NotImplemented if other is NotImplemented else other - self

    def __rtruediv__(self, other: Any) -> Value:
        other = _operand(other, "/", reflected=True)
        return NotImplemented if other is NotImplemented else other / self

    def __rpow__(self, other: Any) -> Value:
        other = _operand(other, "**", reflected=True)
        return NotImplemented if other is NotImplemented else other**self

    def __neg__(self) -> Value:
        return node("neg", -self._data, self, -1.0)

    def __pos__(self) -> Value:
        return self

    # Functions

    def exp(self) -> Value:
        out = arithmetic.exp(self._data)
        return node("exp", out, self, out)

    def expm1(self) -> Value:
        return node("expm1", arithmetic.expm1(self._data), self, arithmetic.exp(self._data))

    def log(self) -> Value:
        """Natural logarithm: -inf at 0, NaN below."""
        x = self._data
        return node("log", arithmetic.log(x), self, arithmetic.divide(1.0, x))

    def log1p(self) -> Value:
        x = self._data
        return node("log1p", arithmetic.log1p(x), self, arithmetic.divide(1.0, 1.0 + x))

    def sqrt(self) -> Value:
        out = arithmetic.sqrt(self._data)
        return node("sqrt", out, self, arithmetic.divide(0.5, out))

    def tanh(self) -> Value:
        out = math.tanh(self._data)
        return node("tanh", out, self, 1.0 - out * out)

    def sigmoid(self) -> Value:
        out = arithmetic.sigmoid(self._data)
        return node("sigmoid", out, self, out * (1.0 - out))

    def sin(self) -> Value:
        return node("sin", arithmetic.sin(self._data), self, arithmetic.cos(self._data))

    def cos(self) -> Value:
        return node("cos", arithmetic.cos(self._data), self, -arithmetic.sin(self._data))

    def erf(self) -> Value:
        x = self._data
        return node("erf", math.erf(x), self, 2.0 / math.sqrt(math.pi) * math.exp(-x * x))

    def relu(self) -> Value:
        """max(self, 0), with derivative 0 at 0."""
        x = self._data
        if x > 0.0:
            return node("relu", x, self, 1.0)
        return node("relu", 0.0, self, 0.0) if x <= 0.0 else node("relu", x, self, x)

    def abs(self) -> Value:
        """|self|, with derivative 0 at 0."""
        return node("abs", abs(self._data), self, arithmetic.sign(self._data))

    __abs__ = abs

    def maximum(self, other: Any) -> Value:
        """The larger of two, NaN if either is; the gradient of a tie is shared equally."""
        other = _expected_operand(other, "maximum")
        out, by_self, by_other = arithmetic.maximum(self._data, other._data)
        return node("maximum", out, self, by_self, other, by_other)

    def minimum(self, other: Any) -> Value:
        """The smaller of two, NaN if either is; the gradient of a tie is shared equally."""
        other = _expected_operand(other, "minimum")
        out, by_self, by_other = arithmetic.maximum(-self._data, -other._data)
        return node("minimum", -out, self, by_self, other, by_other)

    def clip(self, low: float, high: float) -> Value:
        """Held between two numbers; the derivative is 1 from `low` to `high`, bounds included."""
        low, high = _as_float(low, "clip(low)"), _as_float(high, "clip(high)")
        x = self._data
        if low <= x <= high:
            return node("clip", x, self, 1.0)
        # a NaN anywhere lands here with every comparison false, and stays NaN by the sum
        nearest = high if x > high or low > high else low if x < low else x + low + high
        return node("clip", nearest, self, nearest if math.isnan(nearest) else 0.0)

    # Looking at the number

    def __float__(self) -> float:
        return self._data

    def __int__(self) -> int:
        return int(self._data)

    def __lt__(self, other: Any) -> bool:
        number = _comparable(other)
        return NotImplemented if number is None else self._data < number

    def __le__(self, other: Any) -> bool:
        number = _comparable(other)
        return NotImplemented if number is None else self._data <= number

    def __gt__(self, other: Any) -> bool:
        number = _comparable(other)
        return NotImplemented if number is None else self._data > number

    def __ge__(self, other: Any) -> bool:
        number = _comparable(other)
        return NotImplemented if number is None else self._data >= number

    def __bool__(self) -> bool:
        return self._data != 0.0

    def __repr__(self) -> str:
        grad = f", grad={self._grad}" if self._grad is not None else ""
        name = f", name={self.name!r}" if self.name is not None else ""
        return f"Value(data={self._data}{grad}{name})"


def node(
    rule: str,
    data: float,
    left: Value,
    d_left: float,
    right: Value | None = None,
    d_right: float = 0.0,
) -> Value:
    """The result of an operation on one or two Values: its number and its local derivatives."""
    out = _allocate(Value)
    out._data = data
    out._grad = None
    out._rule = rule
    out._left = left
    out._d_left = d_left
    out._right = right
    out._d_right = d_right
    return out


@lru_cache(maxsize=1024)
def _power_label(exponent: float) -> str:
    """One shared string an exponent, so that a node need not hold its own."""
    return f"**{exponent:.12g}"


def _as_float(thing: Any, place: str) -> float:
    number = real_number(thing)
    if number is None:
        hint = ": float(value) gives its number" if isinstance(thing, Value) else ""
        raise TypeError(f"{place} takes one real number, got {described(thing)}{hint}")
    return number


def _comparable(other: Any) -> float | None:
    return other._data if isinstance(other, Value) else real_number(other)


def _operand(other: Any, sign: str, reflected: bool = False) -> Any:
    """`other` as a Value, or NotImplemented where the type of `other` may know what to do."""
    if isinstance(other, Value):
        return other
    number = real_number(other)
    return _constant(number) if number is not None else _unsupported(other, sign, reflected)


def _expected_operand(other: Any, function: str) -> Value:
    if isinstance(other, Value):
        return other
    return _constant(_as_float(other, f"Value.{function}(other)"))


def _constant(number: float) -> Value:
    """A number beside a Value, marked as such by a name that is set and None."""
    made = Value(number)
    made._label = None
    return made


def _unsupported(other: Any, sign: str, reflected: bool = False) -> Any:
    """Leave it to `other` if that is a kind of number or array; else a TypeError that says why."""
    if hasattr(other, "__rtruediv__") and not isinstance(other, (complex, np.complexfloating)):
        return NotImplemented
    what = described(other)
    given = f"{what} {sign} Value" if reflected else f"Value {sign} {what}"
    if isinstance(other, (list, tuple)):
        hint = "for one result per element write [v + x for x in xs], or use a NumPy array"
    else:
        hint = "convert it with float(...) first"
    raise TypeError(f"{given}: a Value combines with Values and real numbers; {hint}")
