"""Wrong derivatives of every kind, to test a checker with; `mutation_score()` counts what is found.

Each mutant names the property it violates (numbered as in the list of properties that the checks of
this room go by) and the error that should call it by its name; controls are right, and must pass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinygrad_edu.autograd import functions as fn
from tinygrad_edu.autograd import pull, transforms
from tinygrad_edu.autograd.apply import apply
from tinygrad_edu.ops import elementwise, linalg, reduction
from tinygrad_edu.ops.registry import Primitive, _bind
from tinygrad_edu.testing import errors
from tinygrad_edu.testing.checks import check_adjoint, check_jvp, check_second_order, check_vjp
from tinygrad_edu.testing.errors import DerivativeError
from tinygrad_edu.testing.kinks import check_convention
from tinygrad_edu.testing.layout import check_layout
from tinygrad_edu.testing.taylor import check_taylor

X = np.array([0.3, -1.2, 2.1])
M = np.arange(6.0).reshape(2, 3) / 4 + 0.1


@dataclass(frozen=True)
class Mutant:
    """A wrong derivative: what it violates, what it should be called, and the check that runs."""

    name: str
    property: str
    error: type[DerivativeError]
    run: Callable[[], Any]


@dataclass(frozen=True)
class Score:
    """How a checker did: mutants called by their names, mutants missed, and false alarms."""

    caught: tuple[str, ...]
    missed: tuple[str, ...]
    false_alarms: tuple[str, ...]

    @property
    def perfect(self) -> bool:
        """All caught, and nothing right called wrong."""
        return not self.missed and not self.false_alarms

    def __str__(self) -> str:
        total = len(self.caught) + len(self.missed)
        text = f"{len(self.caught)} of {total} wrong derivatives found"
        text += f", missed: {', '.join(self.missed)}" if self.missed else ""
        alarms = ", ".join(self.false_alarms) or "none"
        return f"{text}; false alarms: {alarms}"


def matrix_product(a: Any, b: Any) -> Any:
    """a @ b."""
    return a @ b


def changed(primitive: Primitive, *rules: Any, **facts: Any) -> Primitive:
    """A copy of a primitive, outside the registry, with other rules."""
    bound = tuple(_bind(r, primitive) if callable(r) else r for r in rules)
    return dataclasses.replace(primitive, rules=bound, pull=None, **facts)


_calls = [0]


def _every_other_time(g: Any, x: Any) -> Any:
    _calls[0] += 1
    return g * np.cos(x) * (1 if _calls[0] % 2 else 1.5)


def _writes_to_x(g: Any, x: Any) -> Any:
    x *= 1.5
    return g * np.cos(x)


def _writes_to_g(g: Any, x: Any) -> Any:
    g *= np.cos(x)
    return g.copy()


def _slope(f: Callable[..., Any], g: Any, x: Any) -> Any:
    return transforms.vjp(f, x)[1](g)._data


# name: the error, the function, its inputs, a wrong rule
RULES: dict[str, tuple[type[DerivativeError], Any, list[Any], Callable[..., Any]]] = {
    "squares g": (
        errors.GradNotLinear, lambda x: fn.clip(x, -1, 1), [X], lambda g, x: g * g * (abs(x) <= 1)
    ),
    "ignores g": (errors.GradNotLinear, fn.sin, [X], lambda g, x: np.cos(x)),
    "is affine in g": (errors.GradNotLinear, fn.sin, [X], lambda g, x: g * np.cos(x) + 1e-9),
    "takes |g|": (errors.GradNotLinear, fn.sin, [X], lambda g, x: abs(g) * np.cos(x)),
    "scales, but does not add": (
        errors.GradNotLinear, fn.sin, [X], lambda g, x: np.cos(x) * g**3 / max(1e-9, (g**2).mean())
    ),
    "is zero": (errors.GradValueError, fn.softmax, [X], lambda g, x: 0 * x),
    "forgets a term": (errors.GradValueError, fn.log_softmax, [X], lambda g, x: g.copy()),
    "off by 5e-4": (errors.GradValueError, fn.exp, [X], lambda g, x: g * np.exp(x) * (1 + 5e-4)),
    "off by 1e-5": (errors.GradValueError, fn.exp, [X], lambda g, x: g * np.exp(x) * (1 + 1e-5)),
    "off by 1e-7": (errors.GradValueError, fn.exp, [X], lambda g, x: g * np.exp(x) * (1 + 1e-7)),
    "off by 1e-12": (errors.GradValueError, fn.exp, [X], lambda g, x: g * np.exp(x) * (1 + 1e-12)),
    "off by 1e-5 at a kink op": (
        errors.GradValueError, fn.relu, [X], lambda g, x: g * (x > 0) * (1 + 1e-5)
    ),
    "the other gelu": (
        errors.GradValueError, fn.gelu, [X],
        lambda g, x: _slope(lambda t: fn.gelu(t, "tanh"), g, x),
    ),
    "tiny and zero": (
        errors.GradValueError, lambda x: fn.sin(x) * 1e-9, [X], lambda g, x: 0 * x
    ),
    "wrong permutation": (
        errors.GradValueError, lambda x: x[np.array([1, 2, 0])], [X], lambda g, x: g[[1, 2, 0]]
    ),
    "one entry of 4096": (
        errors.GradValueError, lambda x: (x * x).sum(), [np.linspace(1, 2, 4096)],
        lambda g, x: 2 * g * x * np.where(np.arange(4096) == 77, -1, 1),
    ),
    "forgets a transpose": (
        errors.GradValueError, matrix_product, [np.array([[1.0, 2.0], [3.0, 4.0]])] * 2,
        lambda g, a, b: (g @ b.T, a @ g),
    ),
    "loses the small entry": (
        errors.GradValueError, lambda x: (x * np.array([1e9, 1.0, 1.0])).sum(), [X],
        lambda g, x: g * np.array([1e9, 0.0, 1.0]),
    ),
    "keeps the broadcast axis": (
        errors.GradShapeError, lambda a, b: a * b, [M, X], lambda g, a, b: (g * b, g * a)
    ),
    "float32 for float64": (
        errors.GradDtypeError, fn.sin, [X], lambda g, x: (g * np.cos(x)).astype(np.float32)
    ),
    "float64 for float32": (
        errors.GradDtypeError, fn.sin, [X.astype(np.float32)],
        lambda g, x: g * np.cos(x) * np.ones(()),
    ),
    "None": (errors.GradMissing, fn.sin, [X], lambda g, x: None),
    "NaN": (errors.GradNaN, fn.abs, [X], lambda g, x: g * np.where(x == 0.3, np.nan, np.sign(x))),
    "inf": (errors.GradInf, fn.abs, [X], lambda g, x: g * np.where(x == 0.3, np.inf, np.sign(x))),
    "right on odd calls": (errors.NotReentrant, fn.sin, [X], _every_other_time),
    "writes to its input": (errors.MutatedInput, fn.sin, [X], _writes_to_x),
    "writes to g": (errors.MutatedCotangent, fn.sin, [X], _writes_to_g),
    "returns g": (errors.AliasedGradient, lambda x: x + 1, [X], lambda g, x: g),
    "returns one array twice": (
        errors.AliasedGradient, lambda a, b: a + b, [X, X], lambda g, a, b: (g[:] * 1,) * 2
    ),
}  # fmt: skip

CONTROLS: dict[str, tuple[Any, list[Any], Callable[..., Any]]] = {
    "tanh": (fn.tanh, [X], lambda g, x: g * (1 - np.tanh(x) ** 2)),
    "a product": (matrix_product, [M, M.T], lambda g, a, b: (g @ b.T, a.T @ g)),
    "relu off its kink": (fn.relu, [X], lambda g, x: g * (x > 0)),
    "a linear function": (lambda x: x.sum(), [X], lambda g, x: g * np.ones(3)),
    "a tiny function": (lambda x: fn.sin(x) * 1e-9, [X], lambda g, x: g * np.cos(x) * 1e-9),
    "nothing at all": (fn.sin, [np.zeros((0, 3))], lambda g, x: g * np.cos(x)),
    "a number": (fn.exp, [1.5], lambda g, x: g * np.exp(x)),
}

_PROPERTY = {
    errors.GradNotLinear: "P2", errors.GradValueError: "P3", errors.GradShapeError: "P14",
    errors.GradDtypeError: "P1", errors.GradMissing: "P1", errors.GradNaN: "P17",
    errors.GradInf: "P17", errors.NotReentrant: "P11", errors.MutatedInput: "P10",
    errors.MutatedCotangent: "P10", errors.AliasedGradient: "P10",
}  # fmt: skip


def _by_rule(name: str) -> Mutant:
    error, f, xs, rule = RULES[name]
    return Mutant(name, _PROPERTY[error], error, lambda: check_vjp(f, *xs, vjp=rule))


# Mutants of the engine's own entries.

_STEEP = changed(elementwise.tanh, lambda out: (1 - out * out) * 1.00001)
_FLAT = changed(elementwise.tanh, lambda F, out: F.constant(1 - out * out))
_OTHER = changed(
    linalg.matmul, lambda F, g, b: F.matmul(g, F.swapaxes(b, -1, -2)) * 1.00001,
    linalg.matmul.rules[1].rule,  # type: ignore[union-attr]
)  # fmt: skip
_BOLD = changed(elementwise.relu, lambda a: a >= 0)


def _max_with(jvp: Callable[..., Any]) -> Callable[..., Any]:
    wrong = dataclasses.replace(reduction.max_, jvp=jvp, pull=None)
    return lambda a: apply(wrong, a, axis=None, keepdims=False)


def _wide(F: Any, tangents: Any, a: Any, *, out: Any, axis: Any, keepdims: Any) -> Any:
    return F.sum(F.cast(tangents[0], dtype=np.dtype(float)), axis=axis, keepdims=keepdims)


def _narrow(F: Any, tangents: Any, a: Any, *, out: Any, axis: Any, keepdims: Any) -> Any:
    return F.sum(tangents[0], axis=None, keepdims=True)


def _draws() -> Callable[..., Any]:
    rng = np.random.default_rng(0)
    return lambda x: fn.dropout(x, 0.5, generator=rng)


def _writes(x: Any) -> Any:
    x.data[0] = 5.0
    return x * 2


def _by_layout(g: Any, x: Any) -> Any:
    return g * np.cos(x) * (1.0 if x.flags.c_contiguous else 1.01)


def _crossed(a: Any) -> Any:
    """Σ a₀·a₁ with a rule whose own derivative is not symmetric."""
    wrong = dataclasses.replace(elementwise.multiply, pull=None)
    wrong.rules = (_bind(lambda b: b, wrong), _bind(lambda F, a: F.constant(a), wrong))
    return apply(wrong, a[0], a[1])


@contextmanager
def _patched(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def _overwrites() -> None:
    from tinygrad_edu.autograd import backward

    def overwrite(leaf: Any, upstream: Any, create_graph: Any) -> None:
        leaf._grad = upstream

    with _patched(backward, "_accumulate", overwrite):
        check_vjp(fn.sin, X)


def _forgets_to_sum() -> None:
    with (
        _patched(pull, "edge", lambda F, c, like, exact=None: c),
        _patched(elementwise.multiply, "pull", None),
    ):
        try:
            check_vjp(lambda a, b: a * b, M, X)
        finally:
            elementwise.multiply.pull = None


def _selects() -> None:
    """where(g == 0, 0, g·d) in a rule: right in first order, without the mixed second one."""

    def select(F: Any, g: Any, g0: Any, d: Any) -> Any:
        return F.where(F.constant(g0) == 0, F.zeros_like(g * d), g * d)

    wrong = changed(elementwise.absorb, select, lambda F, g, g0: F.absorb(g, g0))
    with _patched(elementwise, "absorb", wrong):
        check_second_order(lambda a, b: a * fn.exp(b), np.zeros(1), np.ones(1))


def _engine() -> list[Mutant]:
    def steep(a: Any) -> Any:
        return apply(_STEEP, a)

    def other(a: Any, b: Any) -> Any:
        return apply(_OTHER, a, b)

    single = X[:1].astype(np.float32)
    return [
        Mutant("a slope off by 1e-5, forward", "P4", errors.TangentValueError,
               lambda: check_jvp(steep, X)),
        Mutant("a slope off by 1e-5, backward", "P3", errors.GradValueError,
               lambda: check_vjp(steep, X)),
        Mutant("a transpose of another function", "P5", errors.AdjointMismatch,
               lambda: check_adjoint(other, M, M.T)),
        Mutant("a tangent in float64", "P15", errors.TangentDtypeError,
               lambda: check_jvp(_max_with(_wide), single)),
        Mutant("a tangent of the wrong shape", "P1", errors.TangentShapeError,
               lambda: check_jvp(_max_with(_narrow), X[:1])),
        Mutant("the other side of a kink", "P7", errors.GradConventionError,
               lambda: check_convention(lambda a: apply(_BOLD, a), 0.0, 0.0)),
        Mutant("a remainder of first order", "P8", errors.TaylorRateError,
               lambda: check_taylor(fn.sin, X, vjp=lambda g, x: g * np.cos(x) * 1.001)),
        Mutant("a rule that forgets how it was made", "P9", errors.HessianValueError,
               lambda: check_second_order(lambda a: apply(_FLAT, a), X)),
        Mutant("half of a mixed derivative", "P9", errors.HessianValueError,
               lambda: check_second_order(_crossed, X[:2])),
        Mutant("a test of g for 0 in a rule", "P9", errors.HessianValueError, _selects),
        Mutant("a function that writes to its input", "P10", errors.MutatedInput,
               lambda: check_vjp(_writes, X.copy())),
        Mutant("a function that draws anew", "P11", errors.NotDeterministic,
               lambda: check_vjp(_draws(), np.ones(64))),
        Mutant("an engine that overwrites gradients", "P12", errors.NotAccumulated, _overwrites),
        Mutant("a rule for contiguous arrays only", "P13", errors.LayoutDependent,
               lambda: check_layout(fn.sin, M, vjp=_by_layout)),
        Mutant("an engine that does not sum broadcasts", "P14", errors.GradShapeError,
               _forgets_to_sum),
        Mutant("a branch that is detached", "P22", errors.GradValueError,
               lambda: check_vjp(lambda x: x * 2 + fn.sin(x).detach(), X)),
        Mutant("an input that is detached", "P1", errors.GradMissing,
               lambda: check_vjp(lambda a, b: a * 2 + b.detach(), X, X)),
    ]  # fmt: skip


MUTANTS: list[Mutant] = [*map(_by_rule, RULES), *_engine()]


def mutation_score() -> Score:
    """Run every mutant and every control; a mutant counts as found if its error has its class."""
    caught: list[str] = []
    missed: list[str] = []
    alarms: list[str] = []
    for mutant in MUTANTS:
        try:
            mutant.run()
        except DerivativeError as error:
            (caught if type(error) is mutant.error else missed).append(mutant.name)
        else:
            missed.append(mutant.name)
    for name, (f, xs, rule) in CONTROLS.items():
        try:
            check_vjp(f, *xs, vjp=rule)
            check_taylor(f, *xs, vjp=rule)
            check_layout(f, *xs, vjp=rule)
            check_jvp(f, *xs)
            check_adjoint(f, *xs)
            check_second_order(f, *xs)
        except DerivativeError as error:
            alarms.append(f"{name} ({type(error).__name__})")
    return Score(tuple(caught), tuple(missed), tuple(alarms))

