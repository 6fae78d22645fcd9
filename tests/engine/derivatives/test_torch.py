"""Every operation shared with torch, on random inputs: value, gradient and second derivative.

Where the two differ, `docs/torch.md` says who is right; the rows of that page are tests here too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu.nn import functional as F

pytestmark = pytest.mark.oracle

torch: Any = pytest.importorskip("torch", reason="torch, the judge, is not installed")
TF = torch.nn.functional
L, TL = tg.linalg, torch.linalg
PAGE = Path(__file__).resolve().parents[3] / "docs" / "torch.md"

ANY, POSITIVE, UNIT, ABOVE_1 = (-3.0, 3.0), (0.1, 3.0), (-0.9, 0.9), (1.1, 4.0)
IDS = np.array([[2, 0, 1, 1], [0, 1, 2, 2], [1, 1, 0, 2]])
ROW = np.array([2, 0, 1])
MASK = IDS > 0


def _t(x: Any) -> Any:
    return torch.tensor(x)


def _well(x: Any, library: Any) -> Any:
    """A matrix far from singular, symmetric and positive definite, made of any."""
    return x @ x.T + library(np.eye(3))


# name: ours, torch's, the interval of each input (all of shape (3, 4), or (3, 3) for matrices)
PAIRS: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[tuple[float, float]]]] = {
    **{n: (getattr(tg, n), getattr(torch, n), [ANY]) for n in (
        "exp expm1 exp2 sin cos tanh sinh cosh square abs relu sigmoid erf erfc sinc arctan "
        "arcsinh sign round floor ceil trunc negative sum mean").split()},
    **{n: (getattr(tg, n), getattr(torch, n), [POSITIVE]) for n in
       "log log2 log10 log1p sqrt reciprocal".split()},
    **{n: (getattr(tg, n), getattr(torch, n), [UNIT]) for n in "arcsin arccos arctanh tan".split()},
    "arccosh": (tg.arccosh, torch.arccosh, [ABOVE_1]),
    **{n: (getattr(tg, n), getattr(torch, n), [ANY, ANY]) for n in
       "add subtract multiply maximum minimum logaddexp hypot arctan2".split()},
    "divide": (tg.divide, torch.divide, [ANY, POSITIVE]),
    "power": (tg.power, torch.pow, [POSITIVE, ANY]),
    "xlogy": (tg.xlogy, torch.xlogy, [ANY, POSITIVE]),
    "remainder": (tg.remainder, torch.remainder, [ANY, POSITIVE]),
    "clip": (lambda x: tg.clip(x, -1, 1), lambda x: torch.clip(x, -1, 1), [ANY]),
    "where": (lambda a, b: tg.where(MASK, a, b), lambda a, b: torch.where(_t(MASK), a, b),
              [ANY, ANY]),
    **{n: (getattr(F, n), getattr(TF, n), [ANY]) for n in
       "gelu silu mish softplus elu selu leaky_relu hardtanh softsign logsigmoid".split()},
    "gelu tanh": (lambda x: F.gelu(x, "tanh"), lambda x: TF.gelu(x, approximate="tanh"), [ANY]),
    "softmax": (lambda x: tg.softmax(x, 1), lambda x: torch.softmax(x, 1), [ANY]),
    "log_softmax": (lambda x: tg.log_softmax(x, 0), lambda x: torch.log_softmax(x, 0), [ANY]),
    "logsumexp": (lambda x: tg.logsumexp(x, 1), lambda x: torch.logsumexp(x, 1), [ANY]),
    "var": (lambda x: tg.var(x, 1, ddof=1), lambda x: torch.var(x, 1), [ANY]),
    "std": (lambda x: tg.std(x, 1, ddof=1), lambda x: torch.std(x, 1), [ANY]),
    "prod": (lambda x: tg.prod(x, 1), lambda x: torch.prod(x, 1), [ANY]),
    "max": (lambda x: tg.max(x, 1), lambda x: torch.amax(x, 1), [ANY]),
    "min": (lambda x: tg.min(x, 1), lambda x: torch.amin(x, 1), [ANY]),
    "median of an odd number": (lambda x: tg.median(x, 0), lambda x: torch.median(x, 0)[0], [ANY]),
    "norm": (lambda x: tg.norm(x, 2, 1), lambda x: torch.norm(x, 2, 1), [ANY]),
    "norm 3": (lambda x: tg.norm(x, 3, 1), lambda x: torch.norm(x, 3, 1), [ANY]),
    **{n: (lambda x, n=n: getattr(tg, n)(x, 1), lambda x, n=n: getattr(torch, n)(x, 1), [ANY])
       for n in "cumsum cumprod".split()},
    "cummax": (lambda x: tg.cummax(x, 1), lambda x: torch.cummax(x, 1)[0], [ANY]),
    "sort": (lambda x: tg.sort(x, 1), lambda x: torch.sort(x, 1)[0], [ANY]),
    "topk": (lambda x: tg.topk(x, 2)[0], lambda x: torch.topk(x, 2)[0], [ANY]),
    "flip": (lambda x: tg.flip(x, 1), lambda x: torch.flip(x, (1,)), [ANY]),
    "roll": (lambda x: tg.roll(x, 2, 1), lambda x: torch.roll(x, 2, 1), [ANY]),
    "rot90": (tg.rot90, torch.rot90, [ANY]),
    "tile": (lambda x: tg.tile(x, (2, 2)), lambda x: torch.tile(x, (2, 2)), [ANY]),
    "repeat": (lambda x: tg.repeat(x, ROW, 0),
               lambda x: torch.repeat_interleave(x, _t(ROW), 0), [ANY]),
    "pad": (lambda x: tg.pad(x, ((0, 0), (2, 1))), lambda x: TF.pad(x, (2, 1)), [ANY]),
    "pad reflect": (lambda x: tg.pad(x, ((0, 0), (2, 1)), "reflect"),
                    lambda x: TF.pad(x, (2, 1), mode="reflect"), [ANY]),
    "take_along_axis": (lambda x: tg.take_along_axis(x, IDS, 0),
                        lambda x: torch.take_along_dim(x, _t(IDS), 0), [ANY]),
    "index": (lambda x: x[ROW, 1:], lambda x: x[_t(ROW), 1:], [ANY]),
    "mask": (lambda x: x[MASK], lambda x: x[_t(MASK)], [ANY]),
    "tril": (tg.tril, torch.tril, [ANY]), "triu": (tg.triu, torch.triu, [ANY]),
    "diagonal": (lambda x: tg.diagonal(x, 1), lambda x: torch.diagonal(x, 1), [ANY]),
    "einsum": (lambda a, b: tg.einsum("ij,kj->ik", a, b),
               lambda a, b: torch.einsum("ij,kj->ik", a, b), [ANY, ANY]),
    "matmul": (lambda a, b: a @ b.T, lambda a, b: a @ b.T, [ANY, ANY]),
    "outer": (lambda a, b: tg.outer(a[0], b[0]), lambda a, b: torch.outer(a[0], b[0]), [ANY, ANY]),
    "kron": (tg.kron, torch.kron, [ANY, ANY]),
    **{n: (lambda x, n=n: getattr(L, n)(_well(x, np.asarray)),
           lambda x, n=n: getattr(TL, n)(_well(x, _t)), [ANY])
       for n in "inv det cholesky eigvalsh svdvals".split()},
    "slogdet": (lambda x: L.slogdet(_well(x, np.asarray))[1],
                lambda x: TL.slogdet(_well(x, _t))[1], [ANY]),
    "solve": (lambda a, b: L.solve(_well(a, np.asarray), b), lambda a, b: TL.solve(_well(a, _t), b),
              [ANY, ANY]),
    "qr": (lambda x: L.qr(x.T)[1], lambda x: TL.qr(x.T)[1], [ANY]),
    "conv1d": (lambda x, w: F.conv1d(x[None], w.reshape(2, 3, 2), padding=1),
               lambda x, w: TF.conv1d(x[None], w.reshape(2, 3, 2), padding=1), [ANY, ANY]),
    "max_pool1d": (lambda x: F.max_pool1d(x[None], 2), lambda x: TF.max_pool1d(x[None], 2), [ANY]),
    "avg_pool1d": (lambda x: F.avg_pool1d(x[None], 3, 1, 1),
                   lambda x: TF.avg_pool1d(x[None], 3, 1, 1), [ANY]),
    **{n: (getattr(F, n), getattr(TF, n), [ANY, ANY]) for n in
       "mse_loss l1_loss huber_loss smooth_l1_loss".split()},
    "bce": (F.binary_cross_entropy, TF.binary_cross_entropy, [(0.1, 0.9), (0.1, 0.9)]),
    "bce_with_logits": (F.binary_cross_entropy_with_logits, TF.binary_cross_entropy_with_logits,
                        [ANY, (0.1, 0.9)]),
    "kl_div": (F.kl_div, TF.kl_div, [ANY, (0.1, 0.9)]),
    "nll_loss": (lambda x: F.nll_loss(x, ROW), lambda x: TF.nll_loss(x, _t(ROW)), [ANY]),
    "cross_entropy": (
        lambda x: F.cross_entropy(x, ROW, weight=np.arange(1.0, 5), label_smoothing=0.1),
        lambda x: TF.cross_entropy(x, _t(ROW), weight=torch.arange(1.0, 5).double(),
                                   label_smoothing=0.1), [ANY]),
}  # fmt: skip
SQUARE = {"inv", "det", "cholesky", "eigvalsh", "svdvals", "slogdet", "solve"}


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")  # torch, of its kl_div
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", PAIRS)
def test_values_and_derivatives_to_second_order_agree(name: str, seed: int) -> None:
    ours, theirs, domains = PAIRS[name]
    rng = np.random.default_rng(seed)
    shape = (3, 3) if name in SQUARE else (3, 4)
    xs = [rng.uniform(low, high, shape) for low, high in domains]
    us = [rng.normal(size=shape) for _ in xs]

    mine = [tg.tensor(x, requires_grad=True) for x in xs]
    judged = [torch.tensor(x, requires_grad=True) for x in xs]
    out, wanted = ours(*mine), theirs(*judged)
    close(out.data, wanted, "value")
    g = rng.normal(size=out.shape)

    grads = torch.autograd.grad(
        wanted, judged, torch.tensor(g), create_graph=True, allow_unused=True
    ) if wanted.requires_grad else [None] * len(xs)  # fmt: skip
    out.backward(g, create_graph=True)
    for leaf, d in zip(mine, grads, strict=True):
        close(leaf.grad.data if leaf.grad is not None else np.zeros(shape), d, "gradient")

    # ⟨u, gradient⟩, differentiated again.
    first = [leaf.grad for leaf in mine]
    for leaf in mine:
        leaf.grad = None
    total = sum((d * u).sum() for d, u in zip(first, us, strict=True) if d is not None)
    kept = [(d * torch.tensor(u)).sum() for d, u in zip(grads, us, strict=True)
            if d is not None and d.requires_grad]  # fmt: skip
    again: Any = [None] * len(xs)
    if kept and sum(kept).requires_grad:
        again = torch.autograd.grad(sum(kept), judged, allow_unused=True)
    if isinstance(total, tg.Tensor) and total.requires_grad:
        total.backward()
    for leaf, d in zip(mine, again, strict=True):
        close(leaf.grad.data if leaf.grad is not None else np.zeros(shape), d, "second")


def close(found: Any, want: Any, what: str) -> None:
    """Equal to 1e-9 of the largest; None counts as 0."""
    judged = np.zeros(found.shape) if want is None else want.detach().numpy(force=True)
    size = np.abs(judged).max(initial=1e-300)
    np.testing.assert_allclose(found, judged, rtol=1e-9, atol=1e-9 * size, err_msg=what)


def slopes(f: Any, *xs: Any) -> tuple[Any, ...]:
    leaves = [tg.tensor(np.asarray(x, float), requires_grad=True) for x in xs]
    out = f(*leaves)
    out.backward(np.ones(out.shape))
    return tuple(leaf.grad.tolist() for leaf in leaves)


def their_slopes(f: Any, *xs: Any) -> tuple[Any, ...]:
    leaves = [torch.tensor(np.asarray(x, float), requires_grad=True) for x in xs]
    f(*leaves).sum().backward()
    return tuple(leaf.grad.tolist() for leaf in leaves)


def their_second(f: Any, x: Any) -> Any:
    leaf = torch.tensor(np.asarray(x, float), requires_grad=True)
    (d,) = torch.autograd.grad(f(leaf).sum(), leaf, create_graph=True)
    return torch.autograd.grad(d.sum(), leaf)[0].tolist()


def _second(f: Any, x: Any) -> Any:
    return tg.grad(lambda v: tg.grad(lambda t: f(t).sum())(v).sum())(np.asarray(x, float)).tolist()


INF, NAN = math.inf, math.nan
Row = tuple[Callable[[], Any], Callable[[], Any], Any]
# A row of docs/torch.md, by its first cell: ours, torch's, what is right. (Torch's is not.)
ROWS: dict[str, Row] = {
    "`where(x > 0, log(x), 0)` at 0": (
        lambda: slopes(lambda x: tg.where(x > 0, tg.log(x), 0.0), [0.0]),
        lambda: their_slopes(lambda x: torch.where(x > 0, torch.log(x), 0.0), [0.0]), ([0.0],)),
    "`where(x > 0, 0, exp(x))` at 1e10": (
        lambda: slopes(lambda x: tg.where(x > 0, 0.0, tg.exp(x)), [1e10]),
        lambda: their_slopes(lambda x: torch.where(x > 0, 0.0, torch.exp(x)), [1e10]), ([0.0],)),
    "`det` of a singular matrix": (
        lambda: slopes(L.det, [[1.0, 1.0], [1.0, 1.0]]),
        lambda: their_slopes(TL.det, [[1.0, 1.0], [1.0, 1.0]]), ([[1.0, -1.0], [-1.0, 1.0]],)),
    "`norm` of (3e200, 4e200)": (
        lambda: slopes(tg.norm, [3e200, 4e200]),
        lambda: their_slopes(TL.norm, [3e200, 4e200]), ([0.6, 0.8],)),
    "`prod` of (1e-200, 1e-200, 1e300)": (
        lambda: slopes(tg.prod, [1e-200, 1e-200, 1e300]),
        lambda: their_slopes(torch.prod, [1e-200, 1e-200, 1e300]), ([1e100, 1e100, 0.0],)),
    "`arctan2` at (1e-200, 1e-200)": (
        lambda: slopes(tg.arctan2, [1e-200], [1e-200]),
        lambda: their_slopes(torch.arctan2, [1e-200], [1e-200]), ([5e199], [-5e199])),
    "`logsumexp` of (inf, 0)": (
        lambda: slopes(tg.logsumexp, [INF, 0.0]),
        lambda: their_slopes(lambda x: torch.logsumexp(x, 0), [INF, 0.0]), ([1.0, 0.0],)),
    "`logsumexp` of (-inf, -inf)": (
        lambda: slopes(tg.logsumexp, [-INF, -INF]),
        lambda: their_slopes(lambda x: torch.logsumexp(x, 0), [-INF, -INF]), ([0.0, 0.0],)),
    "`xlogy(0, 0)`": (
        lambda: slopes(tg.xlogy, [0.0], [0.0]),
        lambda: their_slopes(torch.xlogy, [0.0], [0.0]), ([-INF], [0.0])),
    "`sinc`'s second derivative at 0": (
        lambda: _second(tg.sinc, [0.0]), lambda: their_second(torch.sinc, [0.0]),
        [-math.pi**2 / 3]),
    "`y[[0, 0]] = v`": (
        lambda: slopes(lambda v: tg.set_at(np.zeros(2), [0, 0], v), [5.0, 6.0]),
        lambda: their_slopes(lambda v: torch.zeros(2).double().index_put((_t([0, 0]),), v),
                             [5.0, 6.0]), ([0.0, 1.0],)),
}  # fmt: skip


def agrees(found: Any, want: Any) -> bool:
    a, b = (np.concatenate([np.ravel(np.asarray(v, float)) for v in x]) if isinstance(x, tuple)
            else np.asarray(x, float) for x in (found, want))  # fmt: skip
    return bool(np.allclose(a, b, rtol=1e-12, atol=1e-300, equal_nan=True))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ROWS)
def test_where_they_differ_ours_is_right_and_the_page_says_so(name: str) -> None:
    ours, theirs, right = ROWS[name]
    assert agrees(ours(), right)
    assert not agrees(theirs(), right), "torch is right today: take the row off docs/torch.md"
    assert f"| {name} |" in PAGE.read_text(encoding="utf-8")


def test_the_page_has_no_row_without_a_test() -> None:
    text = PAGE.read_text(encoding="utf-8").split("## Where")[1].split("## What")[0]
    cells = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| `")]
    assert set(cells) == set(ROWS)
