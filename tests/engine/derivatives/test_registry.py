"""The generic derivative test: every primitive, held to oracles that know values only.

A primitive without an entry in `cases.py` fails here by its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from engine.derivatives.cases import CASES, EVERY, Case

import tinygrad_edu as tg
from tinygrad_edu import graph
from tinygrad_edu.autograd import pull
from tinygrad_edu.autograd.apply import apply
from tinygrad_edu.ops import registry
from tinygrad_edu.testing import check_jvp, check_second_order, check_vjp
from tinygrad_edu.testing.ledger import Ledger

every_case = pytest.mark.parametrize("case", EVERY, ids=str)


@pytest.mark.parametrize("name", sorted(registry))
def test_has_a_case(name: str) -> None:
    assert name in CASES, f"primitive {name!r} has no case: add one to tests/engine/…/cases.py"


def test_no_case_without_a_primitive() -> None:
    assert set(CASES) <= set(registry)


def test_wide_roundings_say_why() -> None:
    assert [c for c in EVERY if (c.roundings > 64 or c.inner > 0) != bool(c.why)] == []


@every_case
def test_value_is_the_definition(case: Case, ledger: Ledger) -> None:
    inputs = case.inputs()
    ledger.record(case.name, "P0")
    out = apply(case.primitive, *inputs, **case.params)
    want = np.asarray(case.value(*inputs, **case.params))
    assert out.shape == want.shape
    assert out.dtype == np.float64
    size = np.abs(want).max(initial=0)
    assert (np.abs(out._data - want) <= 64 * np.finfo(float).eps * size).all()


@every_case
def test_gradient(case: Case, ledger: Ledger, gradcheck_seeds: range) -> None:
    for seed in gradcheck_seeds:
        f, xs = case.function(case.inputs(seed=seed))
        report = check_vjp(f, *xs, roundings=case.roundings, inner=case.inner, seed=seed)
        # The declaration is proved: where it did not hold, the oracle fell back to differences.
        if case.primitive.analytic:
            assert report.oracle == "complex step"
        ledger.record(case.name, "P1", "P2", "P3", "P10", "P11", "P12", report=report)


@every_case
def test_tangent(case: Case, ledger: Ledger, gradcheck_seeds: range) -> None:
    for seed in gradcheck_seeds:
        f, xs = case.function(case.inputs(seed=seed))
        check_jvp(f, *xs, roundings=case.roundings, inner=case.inner, seed=seed)
        ledger.record(case.name, "P4", "P5")


@every_case
def test_second_derivatives(case: Case, ledger: Ledger, gradcheck_seeds: range) -> None:
    for seed in gradcheck_seeds:
        f, xs = case.function(case.inputs(seed=seed))
        check_second_order(f, *xs, seed=seed)
        ledger.record(case.name, "P9")


@pytest.mark.parametrize(
    "case", [c for c in EVERY if c.primitive.degree == 1 and c.name != "mean"], ids=str
)  # a mean divides, which rounds
def test_whole_numbers_give_exact_gradients(case: Case, ledger: Ledger) -> None:
    """Polynomials of degree 1 in each input: central differences are exact, so nothing is off."""
    rng = np.random.default_rng(1)
    inputs = case.inputs()
    for i in case.floating(inputs):
        inputs[i] = rng.integers(-3, 4, inputs[i].shape).astype(float)
    f, xs = case.function(inputs)
    out, back = tg.vjp(f, *xs)
    g = rng.integers(-3, 4, out.shape).astype(float)
    found = back(g)
    for k, d in enumerate(found if isinstance(found, tuple) else (found,)):
        u = rng.integers(-3, 4, xs[k].shape).astype(float)
        moved = [[x + s * u if i == k else x for i, x in enumerate(xs)] for s in (1, -1)]
        change = f(*moved[0])._data - f(*moved[1])._data
        assert (g * change).sum() / 2 == (d._data * u).sum()
    ledger.record(case.name, "P6")


# float32 stays float32.


@pytest.fixture
def no_silent_cast(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The engine casts a gradient to its input's dtype; here a rule that needs it is an error."""
    real = pull.edge

    def edge(F: Any, c: Any, like: Any, exact: Any = None) -> Any:
        assert c.dtype == like.dtype, f"a rule made {c.dtype} for an input of {like.dtype}"
        return real(F, c, like, exact)

    monkeypatch.setattr(pull, "edge", edge)
    for primitive in registry.values():
        monkeypatch.setattr(primitive, "pull", None)  # compiled anew, with the edge above
    return


single_cases = pytest.mark.parametrize(
    "case", [c for c in EVERY if c.name != "cast"], ids=str
)  # cast is there to change dtypes


@single_cases
@pytest.mark.usefixtures("no_silent_cast")
def test_float32_stays_float32_and_is_as_right_as_it_can_be(case: Case, ledger: Ledger) -> None:
    ledger.record(case.name, "P15")
    f, xs = case.function(case.inputs(np.float32))
    assert f(*[tg.Tensor(x) for x in xs]).dtype == np.float32
    check_vjp(f, *xs, roundings=case.roundings, inner=case.inner)


@single_cases
def test_float32_stays_float32_inside_references_and_second_derivatives(case: Case) -> None:
    f, xs = case.function(case.inputs(np.float32))
    leaves = [tg.Tensor(x, requires_grad=True) for x in xs]
    with tg.unfused():
        out = f(*leaves)
    _assert_single(out)
    out = f(*leaves)
    out.backward(np.ones(out.shape, np.float32), create_graph=True)
    for leaf in leaves:
        assert leaf.grad is not None
        _assert_single(leaf.grad)


def _assert_single(root: tg.Tensor) -> None:
    for node in graph.topological_order(root):
        assert node.dtype.kind != "f" or node.dtype == np.float32, node.op
        assert node.op is None or node.op.name != "cast", f"a cast made at {node.line}"


def test_mixed_dtypes_give_each_input_its_own() -> None:
    a = tg.Tensor(np.ones(3, np.float32), requires_grad=True)
    b = tg.Tensor(np.ones(3), requires_grad=True)
    out = a * b
    out.sum().backward()
    assert a.grad is not None and b.grad is not None
    assert (out.dtype, a.grad.dtype, b.grad.dtype) == (np.float64, np.float32, np.float64)


@pytest.mark.parametrize("name", ["identity", "add", "where", "sum", "reshape", "concatenate"])
def test_gradients_of_leaves_are_their_own_memory(name: str) -> None:
    """Rules may pass the upstream gradient on as it is; what is stored may not."""
    for case in CASES[name]:
        f, xs = case.function(case.inputs())
        leaves = [tg.Tensor(x, requires_grad=True) for x in xs]
        out = f(*leaves)
        g = np.ones(out.shape)
        out.backward(g)
        stored = [leaf.grad._data for leaf in leaves if leaf.grad is not None]
        for k, d in enumerate(stored):
            d += 1
            assert (g == 1).all()
            assert not any(np.shares_memory(d, other) for other in stored[:k])
