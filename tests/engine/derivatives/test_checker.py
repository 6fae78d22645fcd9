"""The checker is checked: each kind of wrong derivative is found, and called by its name."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import testing
from tinygrad_edu.autograd import apply, pull
from tinygrad_edu.ops import elementwise, fused, linalg, reduction
from tinygrad_edu.ops.registry import Primitive, _bind
from tinygrad_edu.testing import (
    DerivativeError,
    check_jvp,
    check_second_order,
    check_vjp,
    checks,
    form,
)
from tinygrad_edu.testing.mutants import (
    CONTROLS,
    MUTANTS,
    RULES,
    Mutant,
    mutation_score,
)

X = np.array([0.3, -1.2, 2.1])
M = np.arange(6.0).reshape(2, 3) / 4 + 0.1


def changed(primitive: Primitive, *rules: Any, **facts: Any) -> Primitive:
    """A copy of a primitive, outside the registry, with other rules."""
    bound = tuple(_bind(r, primitive) if callable(r) else r for r in rules)
    return dataclasses.replace(primitive, rules=bound, pull=None, **facts)


@pytest.mark.parametrize("mutant", MUTANTS, ids=[m.name for m in MUTANTS])
def test_a_wrong_derivative_is_found_and_called_by_its_name(mutant: Mutant) -> None:
    with pytest.raises(DerivativeError) as caught:
        mutant.run()
    assert caught.type is mutant.error


def test_the_mutation_score_is_perfect_and_says_so() -> None:
    score = mutation_score()
    print(score)
    assert score.perfect, score
    total = len(MUTANTS)
    assert str(score) == f"{total} of {total} wrong derivatives found; false alarms: none"


def test_every_property_that_a_check_holds_has_a_mutant() -> None:
    numbers = {f"P{n}" for n in (1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 22)}
    assert {m.property for m in MUTANTS} == numbers
    assert len(MUTANTS) >= 19 + len(numbers)


def test_a_checker_that_misses_one_does_not_score(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(form, "check_scales", lambda *_: None)
    monkeypatch.setattr(form, "check_adds", lambda *_: None)
    assert "squares g" in mutation_score().missed
    monkeypatch.undo()
    monkeypatch.setattr(checks, "excess", lambda got, want, roundings: np.ones(got.shape, bool))
    assert not mutation_score().perfect


@pytest.mark.parametrize("name", CONTROLS)
def test_a_right_rule_passes(name: str) -> None:
    f, xs, rule = CONTROLS[name]
    report = check_vjp(f, *xs, vjp=rule)
    assert min(report.digits) > 10


def test_messages_name_input_entry_numbers_and_the_call_again() -> None:
    with pytest.raises(testing.GradValueError) as caught:
        check_vjp(lambda a, b: a * b, X, X + 1, vjp=lambda g, a, b: (g * b, g * a * [1, 1, 2]))
    text = str(caught.value)
    assert "input 1 of shape (3,)" in text and "at [2]" in text and "complex step" in text
    assert "0.0 digits agree of terms of size" in text
    assert caught.value.__notes__[0].startswith("again: check_vjp(f, np.array([ 0.3, -1.2,  2.1])")


def test_each_kind_is_raised_at_a_line_of_its_own() -> None:
    """hypothesis tells failures apart by class and line."""
    lines = set()
    for error, f, xs, rule in RULES.values():
        with pytest.raises(error) as caught:
            check_vjp(f, *xs, vjp=rule)
        entry = caught.traceback[-1]
        lines.add((error, str(entry.path), entry.lineno))
    by_line = {(path, line): error for error, path, line in lines}
    assert len(by_line) == len(lines)


# The engine's own rules, broken.


def test_a_slope_that_is_off_is_found_in_each_mode() -> None:
    wrong = changed(elementwise.tanh, lambda out: (1 - out * out) * 1.00001)

    def f(x: Any) -> Any:
        return apply(wrong, x)

    with pytest.raises(testing.GradValueError):
        check_vjp(f, X)
    with pytest.raises(testing.TangentValueError):
        check_jvp(f, X)


def test_a_transpose_of_another_function_is_an_adjoint_mismatch() -> None:
    wrong = changed(linalg.matmul, lambda F, g, b: F.matmul(g, F.swapaxes(b, -1, -2)) * 1.00001,
                    linalg.matmul.rules[1].rule)  # fmt: skip
    with pytest.raises(testing.AdjointMismatch):
        check_jvp(lambda a, b: apply(wrong, a, b), M, M.T)


def test_a_tangent_in_float64_is_found() -> None:
    def wide(F: Any, tangents: Any, a: Any, *, out: Any, axis: Any, keepdims: Any) -> Any:
        return F.sum(F.cast(tangents[0], dtype=np.dtype(float)), axis=axis, keepdims=keepdims)

    wrong = dataclasses.replace(reduction.max_, jvp=wide, pull=None)
    with pytest.raises(testing.TangentDtypeError):
        check_jvp(lambda a: apply(wrong, a, axis=None, keepdims=False), X[:1].astype(np.float32))


def test_a_tangent_of_the_wrong_shape_is_found() -> None:
    def narrow(F: Any, tangents: Any, a: Any, *, out: Any, axis: Any, keepdims: Any) -> Any:
        return F.sum(tangents[0], axis=None, keepdims=True)

    wrong = dataclasses.replace(reduction.max_, jvp=narrow, pull=None)
    with pytest.raises(testing.TangentShapeError):
        check_jvp(lambda a: apply(wrong, a, axis=None, keepdims=False), X[:1])


def test_a_rule_that_cannot_be_differentiated_again_is_found() -> None:
    """Right in first order, but its slope is a constant to the second."""
    wrong = changed(elementwise.tanh, lambda F, out: F.constant(1 - out * out))
    check_vjp(lambda x: apply(wrong, x), X)
    with pytest.raises(testing.HessianValueError):
        check_second_order(lambda x: apply(wrong, x), X)


def test_testing_g_for_zero_in_a_rule_is_found_in_second_order() -> None:
    """z·eʷ at z = 0: where(g == 0, 0, g·d) loses the mixed derivative eʷ, absorb keeps it."""
    def selects(F: Any, g: Any, g0: Any, d: Any) -> Any:
        return F.where(F.constant(g0) == 0, F.zeros_like(g * d), g * d)

    z, w = np.zeros(1), np.ones(1)
    wrong = changed(elementwise.absorb, selects, lambda F, g, g0: F.absorb(g, g0))
    check_second_order(lambda a, b: a * tg.exp(b), z, w)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elementwise, "absorb", wrong)
        with pytest.raises(testing.HessianValueError):
            check_second_order(lambda a, b: a * tg.exp(b), z, w)


def test_a_detached_branch_is_found() -> None:
    with pytest.raises(testing.GradMissing):
        check_vjp(lambda a, b: a * 2 + b.detach(), X, X)
    with pytest.raises(testing.GradValueError):
        check_vjp(lambda x: x * 2 + tg.sin(x).detach(), X)


def test_a_kernel_with_a_stale_gradient_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def half(F: Any, need: Any, g: Any, saved: Any, x: Any, weight: Any) -> Any:
        dx, *rest = (c / 2 if c is not None else None for c in real(F, need, g, saved, x, weight))
        return (dx, *rest)

    from tinygrad_edu.ops import kernels

    real = kernels.layer_norm_vjp
    wrong = dataclasses.replace(fused.layer_norm, pull=None)
    wrong.joint_rule = _bind(half, wrong)
    with pytest.raises(testing.GradValueError):
        check_vjp(lambda x: apply(wrong, x, None, None, eps=1e-5), M)


def test_an_engine_that_forgets_to_sum_broadcasts_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull, "edge", lambda F, c, like, exact=None: c)
    monkeypatch.setattr(elementwise.multiply, "pull", None)
    with pytest.raises(testing.GradShapeError):
        check_vjp(lambda a, b: a * b, M, X)


def test_a_rule_of_the_wrong_shape_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from tinygrad_edu.ops import shape

    wrong = dataclasses.replace(shape.transpose, pull=None)
    wrong.rules = (_bind(lambda g: g, wrong),)  # forgets to permute back
    x = tg.tensor(np.ones((2, 3)), requires_grad=True)
    for create_graph in (False, True):
        out = apply(wrong, x, axes=(1, 0))
        with pytest.raises(tg.errors.ShapeError, match=r"transpose returned shape \(3, 2\)"):
            out.backward(np.ones((3, 2)), create_graph=create_graph)
    assert x.grad is None


def test_an_engine_that_overwrites_gradients_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def overwrite(leaf: Any, upstream: Any, create_graph: Any) -> None:
        leaf._grad = upstream

    import tinygrad_edu.autograd.backward as module

    monkeypatch.setattr(module, "_accumulate", overwrite)
    with pytest.raises(testing.NotAccumulated):
        check_vjp(tg.sin, X)


def test_a_function_that_draws_anew_is_not_deterministic() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(testing.NotDeterministic, match="random numbers from a generator"):
        check_vjp(lambda x: tg.dropout(x, 0.5, generator=rng), np.ones(64))


# What it refuses, in a sentence.


def test_integers_have_no_derivative() -> None:
    with pytest.raises(tg.errors.DTypeError, match=r"input 0 is of int64.*hold its integers"):
        check_vjp(tg.sin, np.arange(3))


def test_a_seed_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"g has shape \(2,\); the function's output has \(3,\)"):
        check_vjp(tg.sin, X, g=[1.0, 2.0])


def test_a_function_that_returns_no_tensor_is_refused() -> None:
    with pytest.raises(TypeError, match="returned float; expected one tensor"):
        check_vjp(lambda x: 1.0, X)


def test_large_inputs_are_judged_by_sample_and_projections() -> None:
    x = np.linspace(0.5, 2, 2000)
    report = check_vjp(lambda t: (t * t * t).sum(), x)
    assert report.entries == 600
    check_jvp(lambda t: (t * t * t).sum(), x)
    with pytest.raises(testing.GradValueError):
        check_vjp(lambda t: (t * t).sum() + t.detach()[-1] * 100.0, x, g=1.0)
