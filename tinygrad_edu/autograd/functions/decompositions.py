"""Linear algebra, on a matrix or a stack of them (…, m, n): the functions of `tg.linalg`."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from tinygrad_edu.autograd import origin
from tinygrad_edu.autograd.apply import apply
from tinygrad_edu.autograd.functions import shape
from tinygrad_edu.autograd.functions.arguments import Axis, axes_of, one_float
from tinygrad_edu.autograd.functions.elementwise import abs as _abs
from tinygrad_edu.autograd.functions.movement import moveaxis
from tinygrad_edu.autograd.functions.plain import compare
from tinygrad_edu.autograd.functions.reduction import max as _max
from tinygrad_edu.autograd.functions.reduction import min as _min
from tinygrad_edu.autograd.functions.reduction import sum as _sum
from tinygrad_edu.autograd.functions.shape import (
    concatenate,
    expand_dims,
    getitem,
    matmul,
    squeeze,
    swapaxes,
)
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.errors import ShapeError
from tinygrad_edu.ops import decompositions as _d
from tinygrad_edu.ops import reduction as _r


class Eigen(NamedTuple):
    """What `eigh` returns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class Svd(NamedTuple):
    """What `svd` returns: A = U diag(S) Vh."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class Qr(NamedTuple):
    """What `qr` returns: A = Q R."""

    Q: Tensor
    R: Tensor


class Slogdet(NamedTuple):
    """What `slogdet` returns: det A = sign · exp(logabsdet)."""

    sign: Tensor
    logabsdet: Tensor


def _matrix(x: Any, what: str, square: bool = True) -> Tensor:
    (x,) = one_float(x)
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        kind = "square matrices (…, n, n)" if square else "matrices (…, m, n)"
        raise ShapeError(f"{what} needs {kind}; got {x.shape} at {origin.current_line()}")
    found: Tensor = x
    return found


def inv(x: Any) -> Tensor:
    """The inverse. (To solve a system, `solve` is faster and more exact.)

    Raises:
        numpy.linalg.LinAlgError: a singular matrix.
    """
    return apply(_d.inv, _matrix(x, "inv"))


def solve(a: Any, b: Any) -> Tensor:
    """X with a X = b: a (…, n, n), b (…, n, k), or (n) for one vector.

    Raises:
        numpy.linalg.LinAlgError: a singular matrix.
    """
    a, b = one_float(_matrix(a, "solve"), b)
    one = b.ndim == 1
    columns = expand_dims(b, -1) if one else b
    if columns.ndim < 2 or columns.shape[-2] != a.shape[-1]:
        raise ShapeError(
            f"solve was given a {a.shape} and b {b.shape}; b needs {a.shape[-1]} rows"
        )
    found = apply(_d.solve, a, columns)
    return squeeze(found, -1) if one else found


def det(x: Any) -> Tensor:
    """The determinant. Its gradient is the matrix of cofactors, also where A is singular."""
    return apply(_d.det, _matrix(x, "det"))


def cofactors(x: Any) -> Tensor:
    """The matrix of cofactors, ∂ det A/∂A, also where A is singular."""
    return apply(_d.cofactors, _matrix(x, "cofactors"))


def slogdet(x: Any) -> Slogdet:
    """(the sign of the determinant, ln of its size), which do not overflow where `det` would."""
    x = _matrix(x, "slogdet")
    F = x._namespace
    return Slogdet(Tensor(F.asarray(F.linalg.slogdet(x._data)[0])), apply(_d.logabsdet, x))


def cholesky(x: Any) -> Tensor:
    """The lower triangular L with L Lᵀ = A, for A symmetric and positive definite.

    Raises:
        numpy.linalg.LinAlgError: A is not positive definite.
    """
    return apply(_d.cholesky, _matrix(x, "cholesky"))


def eigh(x: Any) -> Eigen:
    """Eigenvalues (…, n), ascending, and eigenvectors (…, n, n), in columns, of a symmetric A.

    A vector is determined up to its sign only, and vectors of equal eigenvalues up to a turn: a
    function of them has a gradient where it does not depend on these.
    """
    packed = apply(_d.eigh, _matrix(x, "eigh"))
    values, vectors = (..., 0, slice(None)), (..., slice(1, None), slice(None))
    return Eigen(getitem(packed, values), getitem(packed, vectors))


def eigvalsh(x: Any) -> Tensor:
    """Eigenvalues (…, n), ascending, of a symmetric A."""
    return eigh(x).eigenvalues


def svd(x: Any, full_matrices: bool = False) -> Svd:
    """Singular values (…, k), descending, and their vectors U (…, m, k), Vh (…, k, n), k = min(m,
    n). Vectors are determined as far as those of `eigh` are.

    Raises:
        ValueError: full_matrices, whose further vectors are arbitrary and have no derivative.
    """
    if full_matrices:
        raise ValueError(
            "svd with full_matrices=True has no derivative: vectors beyond min(m, n) are "
            "arbitrary; use full_matrices=False"
        )
    x = _matrix(x, "svd", square=False)
    return Svd(*_d.split_row(shape, apply(_d.svd, x), _d.svd_shapes(x.shape)))


def svdvals(x: Any) -> Tensor:
    """Singular values (…, min(m, n)), descending."""
    return svd(x).S


def qr(x: Any) -> Qr:
    """Q (…, m, k) with orthonormal columns and R (…, k, n) upper triangular, k = min(m, n)."""
    x = _matrix(x, "qr", square=False)
    m, n = x.shape[-2:]
    if m >= n:
        return Qr(*_d.split_row(shape, apply(_d.qr, x), _d.qr_shapes(x.shape)))
    q, r = qr(getitem(x, (..., slice(0, m))))  # the columns that fix Q; it turns the others
    rest = matmul(swapaxes(q, -1, -2), getitem(x, (..., slice(m, None))))
    return Qr(q, concatenate([r, rest], axis=-1))


def norm(
    x: Any,
    ord: Any = None,  # noqa: A002 - NumPy's name
    axis: Axis = None,
    keepdims: bool = False,
    *,
    dim: Axis = None,
) -> Tensor:
    """The size of vectors or matrices, as `numpy.linalg.norm`; at 0 it is 0, with gradient 0.

    Over all numbers by default; over one axis the norm of vectors, over two that of matrices, as
    also where `ord` is given for a matrix. `ord` is for vectors the p of (Σ |x|ᵖ)^(1/p), 2 by
    default: any number but 0, where it counts those that are not 0, and ±inf, where it is the
    largest or smallest |x|. For matrices it is "fro" (the default), "nuc", ±1 (sums of columns),
    ±inf (of rows), ±2 (singular values).

    Raises:
        ValueError: another `ord`.
        ShapeError: more than two axes.
    """
    (x,) = one_float(x)
    axes = axes_of(axis, dim, x.ndim, "norm")
    if axes is None:
        axes = tuple(range(x.ndim))
        if ord is None:
            return apply(_r.norm, x, axis=axes, keepdims=keepdims, p=2.0)
    if len(axes) == 1:
        return _vector_norm(x, 2.0 if ord is None else ord, axes, keepdims)
    if len(axes) != 2:
        raise ShapeError(f"norm with ord={ord!r} goes over one axis or two; got {len(axes)}")
    return _matrix_norm(x, "fro" if ord is None else ord, axes, keepdims)


def _vector_norm(x: Tensor, p: Any, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    if isinstance(p, str):
        raise ValueError(f"norm of a vector takes a number as ord; got {p!r}")
    if p == math.inf:
        return _max(_abs(x), axes, keepdims)
    if p == -math.inf:
        return _min(_abs(x), axes, keepdims)
    if p == 0:
        return _sum(compare("not_equal", x, 0.0).astype(x.dtype), axes, keepdims)
    return apply(_r.norm, x, axis=axes, keepdims=keepdims, p=float(p))


def _matrix_norm(x: Tensor, kind: Any, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    rows, columns = axes
    if kind == "fro":
        return apply(_r.norm, x, axis=axes, keepdims=keepdims, p=2.0)
    if kind in (1, -1, math.inf, -math.inf):
        over, left = (rows, columns) if abs(kind) == 1 else (columns, rows)
        extreme = (_max if kind > 0 else _min)(_sum(_abs(x), over, True), left, True)
        return extreme if keepdims else squeeze(extreme, axes)
    if kind not in ("nuc", 2, -2):
        raise ValueError(
            f"norm of a matrix takes 'fro', 'nuc', ±1, ±2 or ±inf as ord; got {kind!r}"
        )
    s = svdvals(moveaxis(x, axes, (-2, -1)))
    found = _sum(s, -1) if kind == "nuc" else (_max if kind > 0 else _min)(s, -1)
    return expand_dims(found, axes) if keepdims else found


__all__ = [
    "Eigen", "Qr", "Slogdet", "Svd", "cholesky", "cofactors", "det", "eigh", "eigvalsh", "inv",
    "norm", "qr", "slogdet", "solve", "svd", "svdvals",
]  # fmt: skip

