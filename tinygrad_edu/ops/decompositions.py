"""Inverses, determinants and decompositions of (stacks of) matrices.

Formulas after Giles 2008, "Collected matrix derivative results for forward and reverse mode
algorithmic differentiation", and Townsend 2016, "Differentiating the singular value decomposition".
A decomposition of several parts is one primitive whose result holds them packed in one array, so
that it is decomposed once and its gradients arrive together.
"""

from __future__ import annotations

from typing import Any

from tinygrad_edu.ops.registry import joint
from tinygrad_edu.ops.scans import _others

Array = Any
_ANY = (-4.0, 4.0)


def _t(F: Any, a: Array) -> Array:
    return F.swapaxes(a, -1, -2)


def _symmetric(F: Any, a: Array) -> Array:
    return 0.5 * (a + _t(F, a))


inv = joint(
    "inv", "A⁻¹", forward=lambda F, a: F.linalg.inv(a),
    vjp=lambda F, g, out: (-F.matmul(F.matmul(_t(F, out), g), _t(F, out)),),
    analytic=True, domain=(_ANY,), kinks=("a singular matrix is an error",),
)  # fmt: skip


def _solve_vjp(F: Any, g: Any, a: Any, out: Any) -> Any:
    w = F.solve(_t(F, a), g)
    return -F.matmul(w, _t(F, out)), w


solve = joint(
    "solve", "X with A X = B", forward=lambda F, a, b: F.linalg.solve(a, b), vjp=_solve_vjp,
    analytic=True, domain=(_ANY, _ANY), broadcasts=True, kinks=("a singular matrix is an error",),
)  # fmt: skip

# Determinants.


def _wide(F: Any, g: Array) -> Array:
    return F.expand_dims(g, (-2, -1))


det = joint(
    "det", "det A", forward=lambda F, a: F.asarray(F.linalg.det(a)),
    vjp=lambda F, g, a: (F.absorb(_wide(F, g), F.cofactors(a)),), analytic=True, domain=(_ANY,),
    kinks=("a singular matrix: the matrix of cofactors, as everywhere, and right once more",),
)  # fmt: skip


def _cofactors(F: Any, a: Array) -> tuple[Array, Any]:
    """∂ det A/∂A from A = U S Vᵀ: det U·det V·U·diag(Π of the other s)·Vᵀ, with no division."""
    u, s, vh = F.linalg.svd(a, full_matrices=False)
    sign = F.sign(F.linalg.det(u) * F.linalg.det(vh))[..., None, None]
    return sign * F.matmul(u * _others(F, s)[..., None, :], vh), (u, s, vh, sign)


def _cofactors_vjp(F: Any, g: Any, saved: Any) -> Any:
    """In the bases of U and V: diagonal entries couple with each other, others with their mirror,
    each times the product of the s of neither.
    """
    u, s, vh, sign = saved
    n = s.shape[-1]
    m = F.matmul(F.matmul(_t(F, u), g), _t(F, vh))
    same = F.eye(n, dtype=bool)
    without_i = F.where(same, F.ones_like(m), F.broadcast_to(s[..., None, :], m.shape))
    neither = F.where(same, F.zeros_like(m), _others(F, without_i))
    diagonal = F.einsum("...jj,...ij->...i", m, neither)
    moved = F.where(same, F.broadcast_to(diagonal[..., None, :], m.shape), -_t(F, m) * neither)
    return (sign * F.matmul(F.matmul(u, moved), vh),)


def _cofactors_reference(F: Any, a: Array) -> Array:
    return _wide(F, F.det(a)) * _t(F, F.inv(a))


cofactors = joint(
    "cofactors", "∂ det A / ∂A", forward=_cofactors, vjp=_cofactors_vjp,
    reference=_cofactors_reference, domain=(_ANY,),
    kinks=("a singular matrix: right, and so is its gradient; beyond, A has to have an inverse",),
)  # fmt: skip
logabsdet = joint(
    "logabsdet", "ln |det A|", forward=lambda F, a: F.asarray(F.linalg.slogdet(a)[1]),
    vjp=lambda F, g, a: (_wide(F, g) * _t(F, F.inv(a)),), domain=(_ANY,),
    kinks=("a singular matrix: -inf, and its gradient is an error",),
)  # fmt: skip

# Symmetric matrices.


def _cholesky_vjp(F: Any, g: Any, out: Any) -> Any:
    upper = _t(F, out)
    p = F.matmul(upper, F.tril(g))
    half = 0.5 * (F.tril(p) + F.tril(p, -1))
    left = F.solve(upper, half)
    return (_symmetric(F, _t(F, F.solve(upper, _t(F, left)))),)


cholesky = joint(
    "cholesky", "L with L Lᵀ = A", forward=lambda F, a: F.linalg.cholesky(_symmetric(F, a)),
    vjp=_cholesky_vjp, domain=(_ANY,),
    kinks=(
        "A that is not symmetric counts as (A + Aᵀ)/2, so its gradient is symmetric",
        "A that is not positive definite is an error",
    ),
)  # fmt: skip


def _eigh(F: Any, a: Array) -> Array:
    w, v = F.linalg.eigh(_symmetric(F, a))
    return F.concatenate([w[..., None, :], v], axis=-2)


def _one_over(F: Any, gaps: Array, size: Array) -> Array:
    """1/gap, and 0 for a gap that is rounding alone."""
    eps = 1.2e-7 if gaps.dtype == "float32" else 2.3e-16
    none = abs(gaps) <= 8 * gaps.shape[-1] * eps * size
    return F.where(none, F.zeros_like(gaps), 1 / F.where(none, F.ones_like(gaps), gaps))


def _gaps(w: Array) -> Array:
    """w[j] - w[i] at [i, j]."""
    return w[..., None, :] - w[..., :, None]


def _largest(F: Any, w: Array) -> Array:
    """The largest |w| of each matrix, as a constant of shape (…, 1, 1)."""
    size = F.max(F.absolute(w), axis=-1, keepdims=True) if w.shape[-1] else w
    return F.constant(size)[..., None]


def _eigh_vjp(F: Any, g: Any, out: Any) -> Any:
    """V (diag(gw) + (Vᵀ gV)/(wⱼ - wᵢ)) Vᵀ."""
    w, v = out[..., 0, :], out[..., 1:, :]
    inside = F.matmul(_t(F, v), g[..., 1:, :]) * _one_over(F, _gaps(w), _largest(F, w))
    core = F.matmul(v, inside) + v * g[..., 0:1, :]
    return (_symmetric(F, F.matmul(core, _t(F, v))),)


eigh = joint(
    "eigh", "w, V with A = V diag(w) Vᵀ", forward=_eigh, vjp=_eigh_vjp, domain=(_ANY,),
    kinks=(
        "equal eigenvalues: theirs is right in sum; what turns their vectors into each other is 0",
        "A that is not symmetric counts as (A + Aᵀ)/2, so its gradient is symmetric",
    ),
)  # fmt: skip

# Any matrix.


def _join(F: Any, *parts: Array) -> Array:
    """(…, m, n) and (…, k) end to end in one row."""
    rows = [
        F.reshape(p, (*p.shape[:-2], p.shape[-2] * p.shape[-1])) if two else p for p, two in parts
    ]
    return F.concatenate(rows, axis=-1)


def split_row(F: Any, row: Array, shapes: list[tuple[int, ...]]) -> list[Array]:
    """The inverse of packing: matrices and vectors of these shapes, out of one row."""
    found, start = [], 0
    for shape in shapes:
        size = 1
        for n in shape:
            size *= n
        part = row[..., start : start + size]
        found.append(F.reshape(part, (*row.shape[:-1], *shape)))
        start += size
    return found


def svd_shapes(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Of U, s and Vᵀ, for a matrix of this shape."""
    m, n = shape[-2:]
    k = min(m, n)
    return [(m, k), (k,), (k, n)]


def _svd(F: Any, a: Array) -> Array:
    u, s, vh = F.linalg.svd(a, full_matrices=False)
    return _join(F, (u, True), (s, False), (vh, True))


def _svd_vjp(F: Any, g: Any, out: Any, a_shape: Any) -> Any:
    """U (diag(gs) + (J + Jᵀ) S + S (K + Kᵀ)) Vᵀ and what leaves the spans of U and V, where
    J = (Uᵀ gU)/(sⱼ² - sᵢ²) and K = (Vᵀ gV)/(sⱼ² - sᵢ²).
    """
    shapes = svd_shapes(a_shape)
    u, s, vh = split_row(F, out, shapes)
    gu, gs, gvh = split_row(F, g, shapes)
    v, gv = _t(F, vh), _t(F, gvh)
    top = _largest(F, s)
    # sⱼ² - sᵢ² in factors, each of which keeps its digits.
    apart = _one_over(F, _gaps(s), top) * _one_over(F, s[..., None, :] + s[..., :, None], top)
    j = F.matmul(_t(F, u), gu)
    k = F.matmul(vh, gv)
    row, column = s[..., None, :], s[..., :, None]
    core = (j * apart + _t(F, j * apart)) * row + column * (k * apart + _t(F, k * apart))
    found = F.matmul(F.matmul(u, core) + u * gs[..., None, :], vh)
    inverse = _one_over(F, row, top)
    if a_shape[-2] > s.shape[-1]:
        found = found + F.matmul((gu - F.matmul(u, j)) * inverse, vh)
    if a_shape[-1] > s.shape[-1]:
        found = found + F.matmul(u, _t(F, (gv - F.matmul(v, k)) * inverse))
    return (found,)


svd = joint(
    "svd", "U, s, Vᵀ with A = U diag(s) Vᵀ", forward=_svd, vjp=_svd_vjp, domain=(_ANY,),
    kinks=(
        "equal singular values: theirs is right in sum; what turns their vectors is 0",
        "a singular value 0: what would divide by it is 0",
    ),
)  # fmt: skip


def qr_shapes(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Of Q and R, for a matrix of this shape, at least as tall as wide."""
    m, n = shape[-2:]
    return [(m, n), (n, n)]


def _qr(F: Any, a: Array) -> Array:
    q, r = F.linalg.qr(a)
    return _join(F, (q, True), (r, True))


def _qr_vjp(F: Any, g: Any, out: Any, a_shape: Any) -> Any:
    """(gQ + Q·sym(R gRᵀ - gQᵀ Q)) R⁻ᵀ, where sym mirrors the lower triangle into the upper."""
    shapes = qr_shapes(a_shape)
    q, r = split_row(F, out, shapes)
    gq, gr = split_row(F, g, shapes)
    m = F.matmul(r, _t(F, F.triu(gr))) - F.matmul(_t(F, gq), q)
    mirrored = F.tril(m) + _t(F, F.tril(m, -1))
    left = gq + F.matmul(q, mirrored)
    return (_t(F, F.solve(r, _t(F, left))),)


qr = joint(
    "qr", "Q, R with A = Q R", forward=_qr, vjp=_qr_vjp, analytic=False, domain=(_ANY,),
    kinks=("columns that depend on each other: the gradient is an error",),
)  # fmt: skip
