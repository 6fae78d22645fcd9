"""`tg.primitive`: an operation of one's own does all that a built-in one does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu.autograd import defining
from tinygrad_edu.ops import registry
from tinygrad_edu.testing import GradValueError, check_vjp, gradcheck

X = np.array([0.5, -1.0, 2.0])


@pytest.fixture(autouse=True)
def _forget_them() -> Iterator[None]:
    before = set(registry)
    yield
    for name in set(registry) - before:
        defining._forget(name)


def test_an_elementwise_one_in_one_line() -> None:
    cube = tg.primitive("cube", lambda F, x: x * x * x, partials=[lambda x: 3 * x * x])
    gradcheck(cube, X)
    x = tg.tensor(X, requires_grad=True)
    out = cube(x)
    assert (out.op.name, out.op.formula, out.inputs) == ("cube", "cube", (x,))
    assert tg.hessian(lambda v: cube(v).sum())(X).tolist() == np.diag(6 * X).tolist()


def test_a_linear_one_and_one_with_a_vjp_and_parameters() -> None:
    twice = tg.primitive("each_twice", lambda F, x: F.concatenate([x, x]),
                         transposes=[lambda F, g, x_shape: g[: x_shape[0]] + g[x_shape[0] :]])
    gradcheck(twice, X)
    scaled = tg.primitive(
        "scaled", lambda F, x, w, *, by=2.0: by * F.exp(x) * w,
        vjp=lambda F, g, w, out, x, by: (F.absorb(g, out), F.absorb(g, by * F.exp(x))),
        formula="by · eˣ · w",
    )  # fmt: skip
    gradcheck(scaled, (X, X + 3))
    gradcheck(lambda a, b: scaled(a, b, by=-0.5), (X, X + 3))
    assert scaled(X, X).tolist() == (2 * np.exp(X) * X).tolist()


def test_a_wrong_rule_is_found() -> None:
    wrong = tg.primitive("wrong_cube", lambda F, x: x * x * x, partials=[lambda x: 3 * x])
    with pytest.raises(GradValueError):
        check_vjp(wrong, X)


def test_it_is_profiled_and_explained_like_the_others() -> None:
    from tinygrad_edu.autograd.pull import explain_pull

    cube = tg.primitive("cube", lambda F, x: x * x * x, partials=[lambda x: 3 * x * x])
    with tg.profile() as seen:
        cube(tg.tensor(X, requires_grad=True)).sum().backward()
    assert "cube" in seen.table()
    assert "rule0(x0._data)" in explain_pull(cube.primitive)  # type: ignore[attr-defined]


def test_a_notebook_may_define_it_again_but_not_a_built_in_one() -> None:
    def define(power: int) -> Any:
        return tg.primitive("mine", lambda F, x: x**power,
                            partials=[lambda F, x: power * F.power(x, power - 1)])

    first = define(2)
    assert first(3.0).item() == 9
    assert define(3)(3.0).item() == 27
    with pytest.raises(ValueError, match="there is a primitive 'exp' already"):
        tg.primitive("exp", lambda F, x: x, partials=[1])
    assert registry["exp"].formula == "eᵃ"


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({}, "exactly one of partials, transposes and vjp; got 0"),
        ({"partials": [1], "vjp": lambda g: (g,)}, "got 2"),
        ({"partials": [1, 1]}, r"1 inputs \(x\) and 2 partials"),
        ({"partials": [lambda y: y]}, "names 'y', which is neither"),
    ],
)
def test_refusals(rules: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tg.primitive("never", lambda F, x: x, **rules)
    assert "never" not in registry
