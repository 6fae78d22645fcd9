"""Inputs on which public engines give a wrong derivative, from a file that is not part of the
project: each has the right value and gradients, and says where it was reported.

Every kind of them has tests of ours too (`engine/ops/test_kinks*.py`, `nn/test_nn_losses.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu.nn import functional as F

FILE = Path(__file__).resolve().parents[4] / "shared" / "data" / "derivative-cases.jsonl"
CASES = [json.loads(line) for line in FILE.read_text().splitlines()] if FILE.exists() else []
needs_file = pytest.mark.skipif(
    not CASES, reason="../shared/data/derivative-cases.jsonl is absent"
)

# What an expression means that is told in words, or has NumPy's names for something of ours.
_MASK = np.array([[True, True], [False, False]])
CALLS: dict[str, Callable[..., Any]] = {
    "kink-norm-f16": tg.norm,
    "kink-topk": lambda x: tg.topk(x, 2)[0].sum(),
    "kink-clip-g-squared": lambda x: tg.clip(x, -1, 1),
    "kink-sort-ties": tg.sort,
    "kink-bce-logits-0": F.binary_cross_entropy_with_logits,
    "kink-softplus-0": tg.softplus,
    "where-broadcast": lambda c, x, y: tg.where(c[:, None], x, y),
    "where-nan-target": lambda w, x, y: (((w * x - y) ** 2)[~np.isnan(y)]).sum(),
    "where-sqrt-norm": lambda x: _lengths(tg.sqrt((x**2).sum(1))),
    "mean-empty": lambda x: tg.mean(x, axis=0),
    "softmax-nonuniform-g": tg.softmax,
    "logsoftmax-f16": tg.log_softmax,
    "lse-masked": lambda x: tg.logsumexp(tg.where([True, False], x, -np.inf)),
    "lse-zero-weight": lambda b: tg.log((b * tg.exp(np.zeros(3))).sum()),
    "hypot-2nd-axis": lambda x, y: tg.grad(tg.hypot)(x, y),
    "sinc-0-2nd": lambda x: tg.grad(lambda t: tg.sinc(t).sum())(x),
    "tanh-saturated-2nd": lambda v: tg.grad(lambda t: _saturated(t).sum())(v),
    "entropy-0": lambda p: -tg.xlogy(p, p),
    "sinc-0": tg.sinc,
    "gelu-erf": tg.gelu,
    "ce-some-ignored": lambda x: tg.cross_entropy(x, np.array([0, -100])),
    "ce-neginf-nontarget": lambda x: tg.cross_entropy(x, np.array([0])),
    "mse-mixed-dtype": F.mse_loss,
    "ce-all-ignored": lambda x: tg.cross_entropy(x, np.array([-100])),
    "ce-label-smoothing": lambda x: F.cross_entropy(x, np.array([0]), label_smoothing=0.1),
    "setitem-dup-last-wins": lambda v: tg.set_at(np.zeros(2), [0, 0], v),
    "take-along-axis-dup": lambda x: tg.take_along_axis(x, np.array([[2, 2, 0]]), axis=1),
    "embedding-padding-dup": lambda w: tg.embedding(np.array([0, 1, 1, 2]), w, padding_idx=0),
    "index-separated-adv": lambda x: x[[0, 1], :, [1, 1]],
    "unbroadcast-where-shape": lambda c, x, y: tg.where(c, x, y),
    "concat-empty": lambda x, y: tg.concatenate([x, y]),
    "einsum-size1-bcast": lambda x, y: tg.einsum("...i,...i->...", x, y),
    "diag-tril": lambda x: tg.tril(x, -1),
    "mvn-cov-sign": lambda S, x: -0.5 * x @ tg.linalg.solve(S, x),
    "inv-2x2": tg.linalg.inv,
    "dropout-p1": lambda x: tg.where(np.zeros(2, bool), x / 0.0, 0.0),
    "attention-masked-row": lambda q, k, v: tg.attention(q, k, v, mask=_MASK),
    "attention-masked-row-dq": lambda q, k, v: tg.attention(q, k, v, mask=_MASK).sum(),
    "maxpool-ties": lambda x: F.max_pool2d(x[None], 2).sum(),
    "graph-detach": lambda x: x * x.detach(),
    "graph-diamond": lambda x: _diamond(x),
    "graph-deep-chain": lambda x: _chain(x),
    "dtype-int-plus-float": lambda x, k: x * k,
}  # fmt: skip
# Not a function and its gradient: these have a test of their own below.
TOLD = {"graph-inplace-after-save", "graph-backward-twice"}


def _lengths(r: Any) -> Any:
    return tg.where(r > 0.5, r, 1.0).sum()


def _saturated(v: Any) -> Any:
    u = -1e8 * v
    return tg.tanh(u) * u * u


def _diamond(x: Any) -> Any:
    y = x * x
    return y * y + tg.sin(y)


def _chain(x: Any) -> Any:
    for _ in range(10_000):
        x = x + 1
    return x


def numbers(x: Any, dtype: Any = None) -> Any:
    """An array of what the file has: nested lists of numbers, "nan", "inf"."""
    if isinstance(x, list):
        return np.array([numbers(v) for v in x], dtype=dtype)
    return np.asarray(float(x) if isinstance(x, str) else x, dtype=dtype)


def function_of(case: Any) -> Callable[..., Any]:
    found = CALLS.get(case["id"])
    if found is not None:
        return found
    names = {
        name: getattr(tg, name)
        for name in ("max sqrt std arctan2 arcsin norm maximum minimum relu sum abs median where "
                     "log exp prod cumprod var cumsum logsumexp xlogy hypot softplus flip roll "
                     "tile repeat pad broadcast_to einsum").split()
    }  # fmt: skip
    code = compile(case["numpy_like_expression"], case["id"], "eval")
    return lambda **given: eval(code, {**names, "ones": np.ones}, given)


def inputs_of(case: Any) -> dict[str, Any]:
    dtype = case.get("dtype")
    found = {}
    for name, value in case["inputs"].items():
        array = numbers(value)
        if array.dtype.kind == "f":
            array = array.astype(dtype or np.float64)
        if array.size == 0:
            array = np.zeros(EMPTY.get(case["id"], (0,)))
        found[name] = array
    if case["id"] == "mse-mixed-dtype":
        found["x"] = found["x"].astype(np.float32)
    return found


EMPTY = {"mean-empty": (0, 3), "sum-empty": (0, 3), "bcast-size0": (0, 1)}


@needs_file
@pytest.mark.parametrize(
    "case", [c for c in CASES if c["id"] not in TOLD], ids=[c["id"] for c in CASES
                                                             if c["id"] not in TOLD]
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_public_case(case: Any) -> None:
    given = inputs_of(case)
    wanted = case["expected_grads"]
    leaves = {
        name: tg.Tensor(x, requires_grad=True) if name in wanted else x
        for name, x in given.items()
    }
    f = function_of(case)
    out = f(*leaves.values()) if case["id"] in CALLS else f(**leaves)
    if case["expected_value"] is not None:
        value = numbers(case["expected_value"])
        near(out._data, value.reshape(out.shape) if not value.size else value, out.dtype)
    g = case["cotangent"]
    upstream = np.ones(out.shape) if g == "ones" else np.broadcast_to(numbers(g), out.shape)
    out.backward(upstream.astype(out.dtype))
    for name, want in wanted.items():
        grad = leaves[name].grad
        assert grad is not None, name
        assert grad.dtype == given[name].dtype
        if case["id"] == "logsoftmax-f16":  # half precision: the file admits a rounding of g
            assert (abs(grad._data) <= 59).all()
            continue
        expected = numbers(want)
        near(grad._data, expected.reshape(grad.shape) if expected.size == 0 else expected,
             given[name].dtype)  # fmt: skip


def near(found: Any, want: Any, dtype: Any) -> None:
    """Equal to a few roundings, at the size of the largest number; the same NaN and inf."""
    assert found.shape == want.shape
    eps = float(np.finfo(dtype).eps)
    size = np.abs(want[np.isfinite(want)]).max(initial=0)
    np.testing.assert_allclose(found.astype(float), want, rtol=8 * eps, atol=8 * eps * size)


@needs_file
def test_every_public_case_is_run() -> None:
    assert len(CASES) >= 119
    assert {c["id"] for c in CASES} >= TOLD
    assert set(CALLS) <= {c["id"] for c in CASES}


def test_a_write_after_saving_is_an_error() -> None:
    x = tg.tensor([3.0], requires_grad=True)
    y = x * x
    x.data += 1
    with pytest.raises(tg.errors.MutationError):
        y.sum().backward()


def test_a_second_backward_adds_and_after_freeing_is_an_error() -> None:
    x = tg.tensor([3.0], requires_grad=True)
    y = (x * x).sum()
    y.backward()
    assert x.grad is not None and x.grad.tolist() == [6]
    y.backward(retain_graph=False)
    assert x.grad.tolist() == [12]
    with pytest.raises(tg.errors.GraphError, match="freed"):
        y.backward()
