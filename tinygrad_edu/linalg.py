"""Linear algebra under NumPy's names: `tg.linalg.inv(x)`. Every function takes stacks (…, m, n)."""

from tinygrad_edu.autograd.functions.contraction import multi_dot
from tinygrad_edu.autograd.functions.decompositions import (
    Eigen,
    Qr,
    Slogdet,
    Svd,
    cholesky,
    det,
    eigh,
    eigvalsh,
    inv,
    norm,
    qr,
    slogdet,
    solve,
    svd,
    svdvals,
)

__all__ = [
    "Eigen", "Qr", "Slogdet", "Svd", "cholesky", "det", "eigh", "eigvalsh", "inv", "multi_dot",
    "norm", "qr", "slogdet", "solve", "svd", "svdvals",
]  # fmt: skip
