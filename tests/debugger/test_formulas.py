"""A formula that is shown says what the rule computes: its text, evaluated, is the derivative."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from engine.derivatives.cases import EVERY, Case

import tinygrad_edu as tg
from tinygrad_edu.debugger.log import Use, record
from tinygrad_edu.debugger.text import _terms, element_text
from tinygrad_edu.nn import functional
from tinygrad_edu.ops.registry import registry

NAMES = ("p", "q", "r", "s")


def uses(case: Case) -> list[Use]:
    """Of the event of a case's own primitive, on inputs named p, q, …"""
    f, xs = case.function(case.inputs())
    given = [tg.Tensor(x, requires_grad=True, name=n) for x, n in zip(xs, NAMES, strict=False)]
    result = f(*given)
    log = record(result, gradient=np.ones(result.shape))
    return [
        use for event in log for use in event.uses if event.node.op.name == case.name
    ]


CASES = {case.name: case for case in EVERY}


@pytest.mark.parametrize("name", sorted(CASES))
def test_every_primitive_has_a_formula_in_words_of_its_own(name: str) -> None:
    found = [use.formula.names for case in EVERY if case.name == name for use in uses(case)]
    assert found
    for text in found:
        assert "'s rule on" not in text
        assert "'(…)" not in text
        assert "{" not in text
        assert len(text) <= 110


FUNCTIONS: dict[str, Any] = {
    "exp": math.exp, "sqrt": math.sqrt, "sin": math.sin, "cos": math.cos, "sinh": math.sinh,
    "cosh": math.cosh, "tanh": math.tanh, "ln": math.log, "log": math.log, "hypot": math.hypot,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)), "softplus": lambda x: math.log1p(math.exp(x)),
    "abs": abs, "sign": lambda x: (x > 0) - (x < 0), "floor_divide": lambda a, b: a // b,
    "sinc_derivative": lambda x: float(tg.grad(tg.sinc)(tg.tensor(x)).item()),
}  # fmt: skip


def evaluated(text: str, names: dict[str, float]) -> float:
    """The number that a local derivative's text stands for."""
    text = re.sub(r"(.+) if equal, else (.+)", r"\1", text)
    text = re.sub(r"^(.+) if (.+), else (.+)$", r"(\1) if (\2) else (\3)", text)
    text = re.sub(r"\|(\w+)\|", r"abs(\1)", text)
    text = re.sub(r"\b(ln|sign) (\w+)", r"\1(\2)", text)
    for ours, pythons in (("·", "*"), ("²", "**2"), ("^", "**"), ("√", "sqrt"), ("½", "0.5")):
        text = text.replace(ours, pythons)
    return float(eval(text, {"__builtins__": {}}, {**FUNCTIONS, **names}))


SMOOTH = sorted(
    name for name, p in registry.items()
    if p.kind == "elementwise" and name in CASES
    and name not in ("maximum", "minimum", "clip", "sinc_derivative", "copy", "identity")
)  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH)
def test_the_text_of_a_local_derivative_evaluates_to_it(name: str) -> None:
    primitive = registry[name]
    rng = np.random.default_rng(3)
    params = {"elu": {"alpha": 0.7}, "leaky_relu": {"slope": 0.1}, "softplus": {"beta": 1.0}}
    params["power_constant"] = {"exponent": 3.0}
    given = CASES[name].params if name not in params else params[name]
    for _ in range(3):
        spans = primitive.domain * len(primitive.inputs)
        numbers = [
            rng.uniform(*span) for _, span in zip(primitive.inputs, spans, strict=False)
        ]
        xs = [
            tg.tensor(np.float64(x), requires_grad=True, name=n)
            for x, n in zip(numbers, NAMES, strict=False)
        ]
        out = tg.autograd.apply(primitive, *xs, **given)
        out.name = "out"
        log = record(out)
        values = {x.name: x.item() for x in xs} | {"out": out.item()}
        for use in log[0].uses:
            text = use.formula.local
            found = evaluated(text, {k: v for k, v in values.items() if k})
            assert found == pytest.approx(float(use.contribution), rel=1e-3, abs=1e-9), text


def test_the_line_of_the_book() -> None:
    """∂L/∂a += ∂L/∂e · b = -2.0 × -3.0 = 6.0, of a graph everyone knows."""
    a, b, c, f = (tg.Value(x, n) for x, n in ((2.0, "a"), (-3.0, "b"), (10.0, "c"), (-2.0, "f")))
    e = a * b
    loss = (e + c) * f
    log = record(loss)
    text = repr(log[-1])
    assert "[3/3] e = a × b" in text
    assert "upstream  ∂loss/∂e = -2.0" in text
    assert "∂loss/∂a += ∂loss/∂e · b = -2.0 × -3.0 = 6.0" in text
    assert "a.grad – → 6.0" in text
    assert "∂loss/∂b += ∂loss/∂e · a = -2.0 × 2.0 = -4.0" in text


def test_a_matrix_product_shows_its_factors_and_one_element() -> None:
    x = tg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    w = tg.tensor([[0.5, -1.0], [0.25, 2.0]], requires_grad=True)
    y = x @ w
    log = record(y, gradient=np.array([[1.0, 0.0], [2.0, 3.0]], np.float32))
    text = repr(log[0])
    assert "∂y/∂x += ∂y/∂y @ wᵀ" in text
    assert "shapes ∂y/∂y(2, 2) @ w(2, 2)ᵀ" in text
    assert "∂y/∂w += xᵀ @ ∂y/∂y" in text
    # dW[1, 1] = 2·0 + 4·3
    assert "at [1, 1]: 2.0×0.0 + 4.0×3.0 = 12.0" in text


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda a: a**3, "3 · a²"), (lambda a: a**-1, "-1 · a^(-2)"),
        (lambda a: a.tanh(), "1 - o²"),
        (lambda a: a.exp(), "o"), (lambda a: a.log(), "1 / a"), (lambda a: a.relu(), "1 if a > 0"),
        (lambda a: a.sigmoid(), "o · (1 - o)"), (lambda a: -a, "-1"), (lambda a: a.abs(), "sign a"),
        (lambda a: a.clip(0, 9), "1 if within"), (lambda a: a.sqrt(), "0.5 / o"),
        (lambda a: a.maximum(1.0), "1 if a > 1.0"), (lambda a: a.cos(), "-sin(a)"),
    ],
)  # fmt: skip
def test_values_read_like_tensors(make: Any, wanted: str) -> None:
    a = tg.Value(1.5, name="a")
    o = make(a)
    assert record(o)[0].uses[0].formula.local.startswith(wanted)


def test_no_line_is_wider_than_a_terminal() -> None:
    a, b = tg.Value(1.2345678, name="a"), tg.Value(-0.00012345, name="b")
    loss = ((a * b).tanh() * 123456.789 + a / b).exp()
    for event in record(loss):
        assert all(len(line) <= 80 for line in repr(event).splitlines())


def test_a_linear_layer_shows_the_shapes_and_products_of_one_element() -> None:
    rng = np.random.default_rng(0)
    x = tg.tensor(rng.normal(size=(2, 5, 3)), requires_grad=True, name="x")
    w = tg.tensor(rng.normal(size=(4, 3)), requires_grad=True, name="w")
    y = functional.linear(x, w)
    y.name = "y"
    event = record((y * y).sum())[-1]
    by_input = {use.name: use for use in event.uses}
    assert by_input["x"].formula.shapes.endswith("y(2, 5, 4) @ w(4, 3)")
    assert by_input["w"].formula.shapes.endswith("y(10, 4)ᵀ @ x(10, 3)")
    for name, at, count in (("x", (1, 2, 0), 4), ("w", (3, 1), 10)):
        terms = _terms(by_input[name], at)
        assert len(terms) == count
        whole = by_input[name].contribution[at]
        assert sum(a * b for a, b in terms) == pytest.approx(float(whole))
        assert f"({count} products)" in element_text(by_input[name], at)
