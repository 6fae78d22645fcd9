"""The judges themselves: which one is asked, that it is right, and that a better one sees more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu.autograd.differences import by_differences
from tinygrad_edu.testing import DerivativeError, check_vjp, extended
from tinygrad_edu.testing.oracle import Oracle

X = np.array([[0.3, -1.2, 2.1], [0.7, 1.9, -0.4]])
Y = np.array([[1.1, 0.2, -0.6], [2.3, -1.7, 0.9]])



def needs_mpmath(test: Any) -> Any:
    absent = extended.high_precision() is None
    found = pytest.mark.skipif(absent, reason="mpmath, the judge, is not installed")(test)
    return pytest.mark.oracle(found)


needs_long = pytest.mark.skipif(
    extended.LONG is None, reason="NumPy's long double is no wider than float64 here"
)


@pytest.fixture
def without_mpmath(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extended, "high_precision", lambda: None)


def test_an_analytic_function_is_judged_by_complex_step() -> None:
    assert check_vjp(lambda x: (x * x).sin(), X).oracle == "complex step"


@needs_mpmath
@pytest.mark.parametrize(
    ("f", "xs"),
    [(tg.erf, [X]), (tg.erfc, [X]), (tg.gelu, [X]), (tg.logaddexp, [X, Y]), (tg.arctan2, [X, Y]),
     (tg.hypot, [X, Y]), (tg.cbrt, [X]), (tg.norm, [X]), (tg.mish, [X]), (tg.softplus, [X])],
)  # fmt: skip
def test_what_is_not_analytic_is_judged_in_400_bits(f: Any, xs: list[Any]) -> None:
    report = check_vjp(f, *xs)
    assert report.oracle == "mpmath"
    assert min(report.digits) > 13  # mish has its minimum at -1.19, where terms cancel


@needs_long
@pytest.mark.parametrize(
    ("f", "xs"), [(tg.logaddexp, [X, Y]), (tg.arctan2, [X, Y]), (tg.hypot, [X, Y]), (tg.cbrt, [X])]
)
def test_without_mpmath_a_long_double_judges(
    f: Any, xs: list[Any], without_mpmath: None
) -> None:
    report = check_vjp(f, *xs)
    assert report.oracle == "longdouble"
    assert min(report.digits) > 14


def test_a_kernel_with_the_digits_of_float64_is_not_trusted_in_long_double(
    without_mpmath: None,
) -> None:
    """erf is a rational function with coefficients for float64, in whatever it is computed."""
    assert check_vjp(tg.erf, X).oracle == "differences"


def test_on_a_platform_without_either_differences_judge(
    without_mpmath: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extended, "LONG", None)
    assert check_vjp(tg.logaddexp, X, Y).oracle == "differences"


def off(relative: float) -> Any:
    """A function whose rule is that of logaddexp, too large by a share."""
    return lambda g, a, b: [
        g * np.exp(a - np.logaddexp(a, b)) * (1 + relative), g * np.exp(b - np.logaddexp(a, b))
    ]  # fmt: skip


@needs_mpmath
def test_a_rule_that_is_off_in_its_thirteenth_digit_is_found() -> None:
    check_vjp(tg.logaddexp, X, Y, vjp=off(0.0))
    with pytest.raises(DerivativeError, match="mpmath"):
        check_vjp(tg.logaddexp, X, Y, vjp=off(2e-13))


@needs_long
def test_a_long_double_sees_a_twelfth_digit(without_mpmath: None) -> None:
    check_vjp(tg.logaddexp, X, Y, vjp=off(0.0))
    with pytest.raises(DerivativeError, match="longdouble"):
        check_vjp(tg.logaddexp, X, Y, vjp=off(1e-12))


def test_differences_in_float64_do_not_see_that_far(
    without_mpmath: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the two better oracles are worth their place."""
    monkeypatch.setattr(extended, "LONG", None)
    check_vjp(tg.logaddexp, X, Y, vjp=off(1e-12))


def test_what_leaves_the_graph_is_not_judged_by_a_run_of_the_graph() -> None:
    """A run of the graph again takes a detached part for a constant; the function moves it."""
    oracle = Oracle(lambda x: x * tg.erf(x).detach(), [X], 2.0**-5, 0, 0.0)
    assert oracle.name == "differences"
    with pytest.raises(DerivativeError):
        check_vjp(lambda x: x * tg.erf(x).detach(), X)


@needs_mpmath
def test_a_large_graph_is_not_asked_of_mpmath() -> None:
    large = np.linspace(-2, 2, 400)
    assert Oracle(tg.erf, [large], 2.0**-5, 0, 0.0).name != "mpmath"
    assert Oracle(tg.erf, [large[:20]], 2.0**-5, 0, 0.0).name == "mpmath"


@needs_mpmath
@pytest.mark.parametrize(
    "name",
    "exp expm1 log log1p log10 log2 exp2 sqrt cbrt sin cos tan sinh cosh tanh floor ceil trunc "
    "rint arcsin arccos arctan arcsinh arccosh arctanh sinc isfinite isnan isinf".split(),
)
def test_its_functions_of_one_number_are_numpys(name: str) -> None:
    F = extended.high_precision()
    assert F is not None
    at = {
        "arcsin": [-0.5, 0.25], "arccos": [-0.5, 0.25], "arctanh": [-0.5, 0.25],
        "arccosh": [1.5, 20.0], "log": [0.25, 7.0], "log2": [0.25, 7.0], "log10": [0.25, 7.0],
        "log1p": [-0.5, 1e-9], "sqrt": [0.0, 7.0], "rint": [0.5, 1.5, 2.5, -0.5, -1.5, 0.7],
        "sinc": [0.5, -1.25, 0.0],
    }.get(name, [-2.5, -0.25, 0.0, 1e-3, 1.5, 3.0])  # fmt: skip
    x = np.array(at)
    got = getattr(F, name)(extended.to_numbers(F, x)).astype(np.float64)
    np.testing.assert_allclose(got, getattr(np, name)(x), rtol=4e-16, atol=0)


@needs_mpmath
@pytest.mark.parametrize("name", ["hypot", "arctan2", "logaddexp", "copysign"])
def test_its_functions_of_two_numbers_are_numpys(name: str) -> None:
    F = extended.high_precision()
    assert F is not None
    a, b = np.array([3.0, -0.5, 1.0, -2.0]), np.array([4.0, 2.0, -1.0, -0.25])
    got = getattr(F, name)(extended.to_numbers(F, a), extended.to_numbers(F, b))
    np.testing.assert_allclose(got.astype(np.float64), getattr(np, name)(a, b), rtol=4e-16)


@needs_mpmath
def test_the_users_own_precision_stays_as_it_is() -> None:
    import mpmath  # type: ignore[import-not-found, import-untyped, unused-ignore]

    before = mpmath.mp.prec
    assert check_vjp(tg.erf, X).oracle == "mpmath"
    assert mpmath.mp.prec == before


@needs_long
def test_noise_tells_a_step_through_float64() -> None:
    x, v = [np.asarray([0.7], extended.LONG)], [np.ones(1)]
    clean = extended.noise(np.exp, x, v, 2.0**-24)
    dirty = extended.noise(lambda a: np.exp(a.astype(np.float64)), x, v, 2.0**-24)
    assert clean < 1e-18
    assert dirty > 1e-17


@needs_long
def test_differences_in_long_double_are_exact_in_float64() -> None:
    x = np.asarray([0.7, -1.3], extended.LONG)
    slope = by_differences(np.exp, [x], [np.ones(2)])
    assert slope.value.dtype == np.float64
    np.testing.assert_allclose(slope.value, np.exp([0.7, -1.3]), rtol=1e-15)
    assert (np.abs(slope.value - np.exp([0.7, -1.3])) <= slope.error + 3e-16).all()
    assert (slope.error < 1e-12).all()
