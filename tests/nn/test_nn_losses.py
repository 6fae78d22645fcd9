"""Losses: against their formulas, at their delicate points, and their gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu.errors import ShapeError
from tinygrad_edu.nn import functional as F
from tinygrad_edu.testing import check_second_order, check_vjp

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(3, 4)), RNG.normal(size=(3, 4))
P = 1 / (1 + np.exp(-A))
T = (B > 0).astype(float)
SIDE = np.sign(B)
LOG = np.log(P / P.sum(-1, keepdims=True))
Q = np.exp(B) / np.exp(B).sum(-1, keepdims=True)
IDS = np.array([2, -100, 0])
W = np.array([1.0, 2.0, 0.5, 3.0])


def _classes(logs: Any, weight: Any, smoothing: float, reduction: str) -> Any:
    total, weights, each = 0.0, 0.0, []
    for row, k in zip(logs, IDS, strict=True):
        term = 0.0
        if k >= 0:
            term = -(1 - smoothing) * weight[k] * row[k] - smoothing * (weight * row).mean()
            weights += weight[k]
        each.append(term)
        total += term
    return {"none": each, "sum": total, "mean": total / weights}[reduction]


def _softmax_logs(z: Any) -> Any:
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


TERMS: list[tuple[str, Any, Any, Any]] = [
    ("mse", F.mse_loss, (A, B), (A - B) ** 2),
    ("l1", F.l1_loss, (A, B), np.abs(A - B)),
    ("huber", lambda *a, **k: F.huber_loss(*a, delta=0.7, **k), (A, B),
     np.where(np.abs(A - B) < 0.7, (A - B) ** 2 / 2, 0.7 * (np.abs(A - B) - 0.35))),
    ("smooth l1", lambda *a, **k: F.smooth_l1_loss(*a, beta=0.7, **k), (A, B),
     np.where(np.abs(A - B) < 0.7, (A - B) ** 2 / 1.4, np.abs(A - B) - 0.35)),
    ("hinge", F.hinge_loss, (A, SIDE), np.maximum(0, 1 - A * SIDE)),
    ("hinge embedding", F.hinge_embedding_loss, (A, SIDE),
     np.where(SIDE == 1, A, np.maximum(0, 1 - A))),
    ("bce", F.binary_cross_entropy, (P, Q), -(Q * np.log(P) + (1 - Q) * np.log(1 - P))),
    ("bce weighted", lambda *a, **k: F.binary_cross_entropy(*a, weight=W, **k), (P, T),
     -W * (T * np.log(P) + (1 - T) * np.log(1 - P))),
    ("bce with logits", F.binary_cross_entropy_with_logits, (A, Q),
     -(Q * np.log(P) + (1 - Q) * np.log(1 - P))),
    ("bce with logits, positive weight",
     lambda *a, **k: F.binary_cross_entropy_with_logits(*a, pos_weight=W, **k), (A, Q),
     -(W * Q * np.log(P) + (1 - Q) * np.log(1 - P))),
    ("kl", F.kl_div, (LOG, Q), Q * (np.log(Q) - LOG)),
    ("kl of logarithms", lambda *a, **k: F.kl_div(*a, log_target=True, **k), (LOG, np.log(Q)),
     Q * (np.log(Q) - LOG)),
]  # fmt: skip
REDUCE: dict[str, Any] = {"mean": np.mean, "sum": np.sum, "none": lambda x: x}


@pytest.mark.parametrize("reduction", list(REDUCE))
@pytest.mark.parametrize(("f", "xs", "terms"), [t[1:] for t in TERMS], ids=[t[0] for t in TERMS])
def test_a_loss_is_its_formula(f: Any, xs: Any, terms: Any, reduction: str) -> None:
    found = f(*xs, reduction=reduction)
    np.testing.assert_allclose(found._data, REDUCE[reduction](terms), rtol=1e-12, atol=1e-14)
    check_vjp(lambda x: f(x, xs[1], reduction=reduction), xs[0], step=2**-8, inner=1e-3)


@pytest.mark.parametrize("reduction", list(REDUCE))
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weight", [None, W])
def test_classes_with_weights_and_smoothing(weight: Any, smoothing: float, reduction: str) -> None:
    how = {"weight": weight, "reduction": reduction}
    used = np.ones(4) if weight is None else weight
    found = F.cross_entropy(A, IDS, label_smoothing=smoothing, **how)
    want = _classes(_softmax_logs(A), used, smoothing, reduction)
    np.testing.assert_allclose(found._data, want, rtol=1e-13)
    if not smoothing:
        np.testing.assert_allclose(
            F.nll_loss(LOG, IDS, **how)._data, _classes(LOG, used, 0, reduction), rtol=1e-13
        )
    check_vjp(lambda z: F.cross_entropy(z, IDS, label_smoothing=smoothing, **how), A, inner=1e-3)
    check_second_order(lambda z: F.cross_entropy(z, IDS, label_smoothing=smoothing, **how), A)


def test_targets_that_are_probabilities() -> None:
    want = -(Q * _softmax_logs(A)).sum(-1)
    np.testing.assert_allclose(F.cross_entropy(A, Q, reduction="none")._data, want, rtol=1e-13)
    np.testing.assert_allclose(F.cross_entropy(A, Q).item(), want.mean(), rtol=1e-13)
    hard = np.eye(4)[[2, 1, 0]]
    np.testing.assert_allclose(
        F.cross_entropy(A, hard).item(), F.cross_entropy(A, np.array([2, 1, 0])).item(), rtol=1e-13
    )
    check_vjp(lambda z, t: F.cross_entropy(z, t), A, Q)


def slope(f: Any, *xs: Any) -> list[Any]:
    leaves = [tg.Tensor(np.asarray(x, float), requires_grad=True) for x in xs]
    out = f(*leaves)
    out.backward(np.ones(out.shape))
    return [out.tolist(), *[x.grad.tolist() for x in leaves]]


@pytest.mark.parametrize("how", [{}, {"weight": W}, {"label_smoothing": 0.1}])
def test_a_mean_over_no_target_is_nan_with_gradient_0(how: Any) -> None:
    value, dz = slope(lambda z: F.cross_entropy(z, np.full(3, -100), **how), A)
    assert math.isnan(value)
    assert dz == np.zeros((3, 4)).tolist()
    assert F.cross_entropy(A, np.full(3, -100), reduction="sum", **how).item() == 0


def test_label_smoothing_of_two_equal_logits() -> None:
    z = tg.tensor([[0.0, 0.0]], requires_grad=True)
    F.cross_entropy(z, np.array([0]), label_smoothing=0.1).backward()
    assert z.grad is not None
    np.testing.assert_allclose(z.grad.data, [[-0.45, 0.45]], rtol=1e-6)


def test_absolute_errors_at_0_and_bends() -> None:
    assert slope(lambda a: F.l1_loss(a, np.zeros(3), "sum"), [-1.0, 0.0, 1.0])[1] == [-1, 0, 1]
    assert slope(lambda a: F.huber_loss(a, np.zeros(3), "sum"), [-1.0, 0.0, 1.0])[1] == [-1, 0, 1]
    assert slope(lambda a: F.hinge_loss(a, np.ones(2), "sum"), [1.0, 0.5])[1] == [0, -1]


def test_binary_cross_entropy_far_out_and_certain() -> None:
    f = F.binary_cross_entropy_with_logits
    value, dz = slope(lambda z: f(z, np.array([0.0, 1.0, 0.0, 1.0]), reduction="none"),
                      [0.0, 0.0, 1000.0, -1000.0])  # fmt: skip
    assert value == [math.log(2), math.log(2), 1000, 1000]
    assert dz == [0.5, -0.5, 1, -1]
    tiny = slope(lambda z: f(z, np.ones(1)), [50.0])
    assert tiny[0] == pytest.approx(math.exp(-50), rel=1e-12)
    with np.errstate(all="ignore"):
        value, dp = slope(lambda p: F.binary_cross_entropy(p, np.array([0.0, 1.0]),
                                                           reduction="none"), [0.0, 1.0])
    assert value == [0, 0]
    assert dp == [1, -1]


def test_terms_of_a_target_of_0_are_0_beside_an_infinite_log_probability() -> None:
    value, dx = slope(lambda x: F.kl_div(x, np.array([0.0, 1.0]), "sum"), [-np.inf, 0.0])
    assert (value, dx) == (0, [0, -1])
    z = np.array([[0.0, -np.inf]])
    value, dz = slope(lambda x: F.cross_entropy(x, np.array([[1.0, 0.0]])), z)
    assert (value, dz) == (0, [[0, 0]])
    value, dz = slope(lambda x: F.cross_entropy(x, np.array([0]), weight=np.ones(2)), z)
    assert (value, dz) == (0, [[0, 0]])


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: F.l1_loss(A, A[0]), ShapeError, "expected two equal ones: reshape one"),
        (lambda: F.l1_loss(A, A, "avg"), ValueError, "'mean', 'sum' or 'none'"),
        (lambda: F.kl_div(A, A, "avg"), ValueError, "'batchmean' or 'none'"),
        (lambda: F.huber_loss(A, A, delta=0), ValueError, "delta has to be above 0; got 0"),
        (lambda: F.smooth_l1_loss(A, A, beta=-1), ValueError, "beta has to be at least 0"),
        (lambda: F.cross_entropy(A, IDS, label_smoothing=2), ValueError, "from 0 to 1; got 2"),
        (lambda: F.cross_entropy(A, IDS, weight=W[:2]), ShapeError, "one a class"),
        (lambda: F.nll_loss(A, IDS[:2]), ShapeError, "one a row"),
        (lambda: F.nll_loss(A, [9, 0, 0]), IndexError, "from 0 to 3; got 9 at position"),
        (lambda: tg.nn.KLDivLoss(reduction="avg"), ValueError, "KLDivLoss was given"),
    ],
)
def test_refusals(call: Any, error: Any, said: str) -> None:
    with pytest.raises(error, match=said):
        call()
