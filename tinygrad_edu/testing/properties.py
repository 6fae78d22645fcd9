"""A property test of a function's derivatives in one line, and a file of them written out."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tinygrad_edu import linalg
from tinygrad_edu.autograd import functions
from tinygrad_edu.ops.registry import Primitive, registry
from tinygrad_edu.testing import strategies as own
from tinygrad_edu.testing.checks import check_jvp, check_second_order, check_vjp

# Functions that rules call and `tg` does not have.
_RULES_ALONE = {"absorb", "cast", "cofactors", "scatter_add", "sinc_derivative"}
DOMAINS: dict[str, tuple[float, float]] = {
    "any": (-4.0, 4.0), "positive": (0.125, 4.0), "unit": (-0.875, 0.875),
    "probability": (0.0625, 0.9375),
}  # fmt: skip


def _domain(given_domain: Any, name: str) -> tuple[float, float]:
    if isinstance(given_domain, dict):
        given_domain = given_domain.get(name, "any")
    if isinstance(given_domain, str):
        if given_domain not in DOMAINS:
            raise ValueError(
                f"given_gradcheck's domain is {', '.join(map(repr, DOMAINS))} or (low, high); got "
                f"{given_domain!r}"
            )
        return DOMAINS[given_domain]
    low, high = given_domain
    return float(low), float(high)


def given_gradcheck(
    function: Callable[..., Any] | None = None,
    *,
    domain: Any = "any",
    shapes: str = "same",
    dtype: Any = np.float64,
    second: bool = True,
    max_examples: int | None = None,
    **options: Any,
) -> Any:
    """Make a hypothesis test of a function of tensors: its derivatives, wherever it is drawn.

        @given_gradcheck(domain="positive")
        def test_mine(x, y):
            return tg.log(x) * y

    Args:
        function: what is decorated; its arguments are the inputs to draw.
        domain: "any", "positive", "unit", "probability" or (low, high); or a dictionary of them by
            argument.
        shapes: "same" for all arguments, "broadcast" for shapes that fit together, "number" for
            none.
        dtype: of the inputs.
        second: whether second derivatives are checked too.
        max_examples: how many draws; hypothesis' own setting by default.
        options: those of `check_vjp`, such as `roundings` and `inner`.
    """
    if shapes not in ("same", "broadcast", "number"):
        raise ValueError(f"shapes is 'same', 'broadcast' or 'number'; got {shapes!r}")

    def decorate(f: Callable[..., Any]) -> Callable[[], None]:
        names = list(inspect.signature(f).parameters)
        ranges = [_domain(domain, name) for name in names]

        def test(data: Any) -> None:
            xs = _draw(data, ranges, shapes, dtype)
            g = data.draw(own.cotangents(np.shape(f(*map(_tensor, xs))._data)), label="g")
            check_vjp(f, *xs, g=g, **options)
            check_jvp(f, *xs, g=g, **options)
            if second:
                check_second_order(f, *xs, g=g)

        test.__name__ = test.__qualname__ = f.__name__
        test.__doc__, test.__module__ = f.__doc__, f.__module__
        made = given(data=st.data())(test)
        how: dict[str, Any] = {"deadline": None}
        if max_examples is not None:
            how["max_examples"] = max_examples
        found: Callable[[], None] = settings(**how)(made)
        return found

    return decorate if function is None else decorate(function)


def _tensor(x: Any) -> Any:
    from tinygrad_edu.autograd.tensor import Tensor

    return Tensor(x)


def _draw(data: Any, ranges: list[tuple[float, float]], shapes: str, dtype: Any) -> list[Any]:
    count = len(ranges)
    if shapes == "number":
        drawn: list[Any] = [()] * count
    elif shapes == "broadcast":
        drawn = data.draw(own.broadcastable(count, max_dims=2), label="shapes")
    else:
        drawn = [data.draw(own.shapes(max_dims=2, max_side=3), label="shape")] * count
    return [
        data.draw(own.values(shape, within, dtype=dtype), label=f"input {i}")
        for i, (shape, within) in enumerate(zip(drawn, ranges, strict=True))
    ]


_FILE = '''"""Derivatives of `{name}`: {formula}."""

import numpy as np

import tinygrad_edu as tg
from tinygrad_edu.testing import check_convention, check_taylor, gradcheck
from tinygrad_edu.testing.properties import given_gradcheck
{imports}

@given_gradcheck(domain={domain}{more})
def test_derivatives_wherever_it_is_drawn({arguments}):
    """First ones in both modes and second ones, on shapes that hypothesis chooses."""
    return {call}


def test_derivatives_at_one_point():
    {point}
    gradcheck(lambda {arguments}: {call}, ({arguments},))
    check_taylor(lambda {arguments}: {call}, {arguments})
{float32}{kinks}'''

_FLOAT32 = '''

def test_float32_stays_float32():
    {point}
    gradcheck(lambda {arguments}: {call}, ({single},))
'''

_KINK = '''

# {line}
# def test_{number}():
#     check_convention(lambda {first}: …, at, gradient)
'''


def ghostwrite(function: Any, params: str = "") -> str:
    """A test file for an operation: a built-in one by name, one of `tg.primitive`, or any function
    of tensors that can be imported. It runs as it stands; each delicate point that the registry
    names is left as a test to fill in.

    `params` is what follows the inputs in a call, such as "axis=-1".

    Raises:
        TypeError: something that is neither.
    """
    primitive = _primitive(function)
    if primitive is not None:
        names = list(primitive.inputs)
        if primitive.variadic:
            names = ["a", "b"]
        domain: Any = dict(zip(names, (*primitive.domain, *[(-4.0, 4.0)] * 9), strict=False))
        formula, kinks = primitive.formula, primitive.kinks
        broadcasts = primitive.kind == "elementwise"
    elif callable(function):
        names = [
            p.name for p in inspect.signature(function).parameters.values()
            if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]  # fmt: skip
        domain, formula, kinks, broadcasts = {}, (function.__doc__ or "").split("\n")[0], (), False
    else:
        raise TypeError(
            "ghostwrite takes the name of a primitive or a function of tensors; got "
            f"{type(function).__name__}"
        )
    name, imports = _imported(function, primitive)
    arguments = ", ".join(names)
    call = f"{name}({arguments}{', ' + params if params else ''})"
    points = []
    for i, n in enumerate(names):
        low, high = domain.get(n, (-4.0, 4.0))
        third = (high - low) / 8
        points.append(f"{n} = np.array([{low + third * (2 + i)!r}, {high - third!r}])")
    point = "\n    ".join(points)
    shown = {n: tuple(d) for n, d in domain.items()}
    fill = {"arguments": arguments, "call": call, "point": point}
    single = ", ".join(f"{n}.astype(np.float32)" for n in names)
    return _FILE.format(
        name=name, formula=formula.rstrip("."), imports=imports, domain=shown or '"any"',
        more=', shapes="broadcast"' if broadcasts and len(names) > 1 else "",
        float32=_FLOAT32.format(single=single, **fill),
        kinks="".join(_KINK.format(line=line, number=i, first=names[0])
                      for i, line in enumerate(kinks, 1)),
        **fill,
    )  # fmt: skip


def _primitive(function: Any) -> Primitive | None:
    if isinstance(function, Primitive):
        return function
    if isinstance(function, str):
        if function not in registry:
            raise TypeError(f"there is no primitive {function!r}; ops.registry names them")
        return registry[function]
    found: Primitive | None = getattr(function, "primitive", None)
    return found


def _imported(function: Any, primitive: Primitive | None) -> tuple[str, str]:
    """(how the function is called, the line that imports it)."""
    if isinstance(function, (str, Primitive)):
        assert primitive is not None
        if primitive.name in linalg.__all__:
            return f"tg.linalg.{primitive.name}", ""
        if primitive.name in functions.__all__ and primitive.name not in _RULES_ALONE:
            return f"tg.{primitive.name}", ""
        return (
            f"apply_{primitive.name}",
            "from tinygrad_edu.autograd import apply\n"
            "from tinygrad_edu.ops import registry\n\n\n"
            f"def apply_{primitive.name}(*xs, **params):\n"
            f"    return apply(registry[{primitive.name!r}], *xs, **params)\n",
        )
    name: str = function.__name__
    if getattr(functions, name, None) is function:
        return f"tg.{name}", ""
    return name, f"from {getattr(function, '__module__', '__main__')} import {name}\n"
