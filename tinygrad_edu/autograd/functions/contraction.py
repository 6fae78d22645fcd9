"""Products that sum: einsum and what NumPy writes without it."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from tinygrad_edu.autograd.apply import apply, as_tensor
from tinygrad_edu.autograd.functions.elementwise import multiply
from tinygrad_edu.autograd.functions.movement import diagonal, ravel
from tinygrad_edu.autograd.functions.reduction import sum as _sum
from tinygrad_edu.autograd.functions.shape import matmul, reshape, transpose
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.errors import ShapeError
from tinygrad_edu.ops import contraction as _c


def einsum(subscripts: str, *operands: Any, optimize: Any = True) -> Tensor:
    """Einstein's sum, as `numpy.einsum`: "ij,jk->ik" is a matrix product, "ii->i" a diagonal,
    "...ij->...ji" a transpose. Without "->" the result has the names that occur once, in order of
    the alphabet. `optimize` is taken for NumPy's sake; large contractions always go through BLAS.

    Raises:
        ShapeError: names and shapes that do not fit, or lengths of one name that differ.
    """
    if not isinstance(subscripts, str):
        raise TypeError(
            f"einsum's subscripts are a string such as 'ij,jk->ik'; got "
            f"{type(subscripts).__name__}"
        )
    xs = [as_tensor(x) for x in operands]
    terms, result = _parse(subscripts, xs)
    lengths = _lengths(subscripts, terms, xs)
    for i, x in enumerate(xs):
        xs[i], terms[i] = _plain(x, terms[i], lengths)
    for i, x in enumerate(xs):
        elsewhere = set(result).union(*(t for j, t in enumerate(terms) if j != i))
        alone = tuple(k for k, name in enumerate(terms[i]) if name not in elsewhere)
        if alone:
            xs[i] = _sum(x, alone)
            terms[i] = "".join(n for k, n in enumerate(terms[i]) if k not in alone)
    if len(xs) == 1:
        return transpose(xs[0], [terms[0].index(name) for name in result])
    return apply(_c.einsum, *xs, subscripts=",".join(terms) + "->" + result)


def _refuse(subscripts: str, why: str) -> NoReturn:
    raise ShapeError(f"einsum({subscripts!r}): {why}")


def _parse(subscripts: str, xs: list[Tensor]) -> tuple[list[str], str]:
    """The names of each operand's axes and of the result's, those of '...' made letters too."""
    names, arrow, result = subscripts.replace(" ", "").partition("->")
    terms = names.split(",")
    if len(terms) != len(xs):
        _refuse(subscripts, f"names {len(terms)} operands; {len(xs)} were given")
    for term in (*terms, result):
        if not set(term.replace("...", "")) <= set(string.ascii_letters):
            _refuse(subscripts, f"{term!r} holds something that is neither a letter nor '...'")
    spare = [c for c in string.ascii_letters if c not in names]
    extra = [x.ndim - len(t.replace("...", "")) for x, t in zip(xs, terms, strict=True)]
    for x, term, n in zip(xs, terms, extra, strict=True):
        if n < 0 or (n > 0 and "..." not in term):
            _refuse(subscripts, f"{term!r} does not name the axes of shape {x.shape}")
    widest = max([n for n, t in zip(extra, terms, strict=True) if "..." in t], default=0)
    dots = "".join(spare[:widest])
    full = [
        t.replace("...", dots[widest - n :] if n else "")
        for t, n in zip(terms, extra, strict=True)
    ]
    if arrow:
        found = result.replace("...", dots)
    else:
        once = [c for c in sorted(set("".join(full)) - set(dots)) if "".join(full).count(c) == 1]
        found = dots + "".join(once)
    unknown = sorted(set(found) - set("".join(full)))
    if unknown or len(set(found)) != len(found):
        _refuse(
            subscripts,
            f"the result names {unknown[0]!r}, which no operand has"
            if unknown else "the result names an axis twice",
        )
    return full, found


def _lengths(subscripts: str, terms: list[str], xs: list[Tensor]) -> dict[str, int]:
    """How long each named axis is; 1 gives way to another length."""
    found: dict[str, int] = {}
    for term, x in zip(terms, xs, strict=True):
        for name, n in zip(term, x.shape, strict=True):
            known = found.get(name, 1)
            if known != 1 and n not in (1, known):
                _refuse(subscripts, f"axis {name!r} is {known} long here and {n} there")
            found[name] = known if n == 1 else n
    return found


def _plain(x: Tensor, term: str, lengths: dict[str, int]) -> tuple[Tensor, str]:
    """(x, its names) with each name once, and without axes of 1 that another operand stretches."""
    thin = [k for k, name in enumerate(term) if x.shape[k] == 1 and lengths[name] != 1]
    if thin:
        x = reshape(x, tuple(n for k, n in enumerate(x.shape) if k not in thin))
        term = "".join(name for k, name in enumerate(term) if k not in thin)
    for name in set(term):
        while term.count(name) > 1:
            first = term.index(name)
            second = term.index(name, first + 1)
            x = diagonal(x, axis1=first, axis2=second)
            term = "".join(c for k, c in enumerate(term) if k not in (first, second)) + name
    return x, term


def tensordot(a: Any, b: Any, axes: Any = 2) -> Tensor:
    """Summed over axes of both: the last `axes` of a with the first of b, or those of two lists."""
    a, b = as_tensor(a), as_tensor(b)
    if isinstance(axes, (int, np.integer)):
        left, right = list(range(a.ndim - int(axes), a.ndim)), list(range(int(axes)))
    else:
        left, right = ([int(i)] if isinstance(i, (int, np.integer)) else list(i) for i in axes)
    if len(left) != len(right):
        raise ShapeError(f"tensordot sums over as many axes of each; got {left} and {right}")
    first = list(string.ascii_lowercase[: a.ndim])
    second = list(string.ascii_uppercase[: b.ndim])
    for i, j in zip(left, right, strict=True):
        if not (-a.ndim <= i < a.ndim and -b.ndim <= j < b.ndim) or a.shape[i] != b.shape[j]:
            raise ShapeError(
                f"tensordot cannot sum axis {i} of {a.shape} with axis {j} of {b.shape}"
            )
        second[j] = first[i]
    summed = {first[i] for i in left}
    result = [c for c in (*first, *second) if c not in summed]
    return einsum(f"{''.join(first)},{''.join(second)}->{''.join(result)}", a, b)


def dot(a: Any, b: Any) -> Tensor:
    """NumPy's dot: of vectors their inner product, of matrices their matrix product, else summed
    over the last axis of a and the last but one of b; a number multiplies.
    """
    a, b = as_tensor(a), as_tensor(b)
    if not a.ndim or not b.ndim:
        return multiply(a, b)
    if a.ndim <= 2 and b.ndim <= 2:
        return matmul(a, b)
    return tensordot(a, b, (a.ndim - 1, max(b.ndim - 2, 0)))


def inner(a: Any, b: Any) -> Tensor:
    """Summed over the last axis of both; a number multiplies."""
    a, b = as_tensor(a), as_tensor(b)
    if not a.ndim or not b.ndim:
        return multiply(a, b)
    return tensordot(a, b, (a.ndim - 1, b.ndim - 1))


def outer(a: Any, b: Any) -> Tensor:
    """All products of two vectors: out[i, j] = a[i]·b[j]. More axes count as one."""
    return multiply(reshape(as_tensor(a), (-1, 1)), reshape(as_tensor(b), (1, -1)))


def vdot(a: Any, b: Any) -> Tensor:
    """Σ a·b of all numbers."""
    return matmul(ravel(a), ravel(b))


def kron(a: Any, b: Any) -> Tensor:
    """Kronecker's product: every element of a times the whole of b, side by side."""
    a, b = as_tensor(a), as_tensor(b)
    ndim = max(a.ndim, b.ndim)
    left = (1,) * (ndim - a.ndim) + tuple(a.shape)
    right = (1,) * (ndim - b.ndim) + tuple(b.shape)
    apart = multiply(
        reshape(a, [side for n in left for side in (n, 1)]),
        reshape(b, [side for n in right for side in (1, n)]),
    )
    return reshape(apart, [n * m for n, m in zip(left, right, strict=True)])


def trace(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The sum along a diagonal of two axes."""
    return _sum(diagonal(x, offset, axis1, axis2), -1)


def multi_dot(arrays: Sequence[Any]) -> Tensor:
    """The matrix product of several, in the order that costs least."""
    names = string.ascii_lowercase[: len(arrays) + 1]
    spec = ",".join(names[i : i + 2] for i in range(len(arrays)))
    return einsum(f"{spec}->{names[0]}{names[len(arrays)]}", *arrays)
