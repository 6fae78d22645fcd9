"""Every primitive runs on a strict stand-in for CuPy, both ways, and agrees with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine.derivatives.cases import EVERY, Case
from engine.standin.strict_array import (
    _FACTS,
    _METHODS,
    LINALG_NAMES,
    NAMES,
    StrictArray,
    strict_xp,
)

import tinygrad_edu as tg
from tinygrad_edu import backend
from tinygrad_edu.autograd.apply import apply
from tinygrad_edu.testing.ledger import Ledger

backend.add_array_library("strict", StrictArray, backend.ArrayNamespace("strict", strict_xp))


def there(x: Any) -> Any:
    """`x` on the stand-in; what is not an array stays."""
    if isinstance(x, np.ndarray):
        return StrictArray(x.copy())
    return tuple(there(v) for v in x) if isinstance(x, tuple) else x


def run(case: Case, inputs: list[Any], params: dict[str, Any], create_graph: bool) -> list[Any]:
    """[value, gradients…] as NumPy arrays."""
    leaves = [
        tg.Tensor(x, requires_grad=i in case.floating(inputs)) if x is not None else None
        for i, x in enumerate(inputs)
    ]
    out = apply(case.primitive, *leaves, **params)
    rng = np.random.default_rng(0)
    g = rng.choice([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0], out.shape).astype(out.dtype)
    seed = tg.Tensor(out._namespace.asarray(g))
    out.backward(seed, create_graph=create_graph)
    found = [out, *[x.grad for x in leaves if x is not None and x.requires_grad]]
    kind = type(next(x._data for x in leaves if x is not None))
    assert all(type(t._data) is kind for t in found)
    return [t.detach().numpy() for t in found]


@pytest.mark.parametrize("create_graph", [False, True], ids=["arrays", "tensors"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("case", EVERY, ids=str)
def test_agrees_with_numpy(case: Case, dtype: Any, create_graph: bool, ledger: Ledger) -> None:
    ledger.record(case.name, "P16")
    inputs = case.inputs(dtype)
    here = run(case, inputs, case.params, create_graph)
    params = {k: there(v) for k, v in case.params.items()}
    strict = run(case, [there(x) for x in inputs], params, create_graph)
    for found, want in zip(strict, here, strict=True):
        assert (found.shape, found.dtype) == (want.shape, want.dtype)
        size = np.abs(want).max(initial=0)
        assert (np.abs(found - want) <= 16 * np.finfo(want.dtype).eps * size).all()


@pytest.mark.parametrize("case", [c for c in EVERY if c.primitive.reference], ids=str)
def test_references_run_too(case: Case) -> None:
    inputs = case.inputs()
    with tg.unfused():
        here = run(case, inputs, case.params, create_graph=False)
        strict = run(case, [there(x) for x in inputs], case.params, create_graph=False)
    for found, want in zip(strict, here, strict=True):
        size = np.abs(want).max(initial=0)
        assert (np.abs(found - want) <= 16 * np.finfo(float).eps * size).all()


@pytest.mark.parametrize("case", EVERY, ids=str)
def test_tangents_run_too(case: Case) -> None:
    inputs = case.inputs()
    us = [np.ones_like(inputs[i]) for i in case.floating(inputs)]

    def tangent(arrays: list[Any], vs: list[Any], params: dict[str, Any]) -> Any:
        f, xs = Case(**{**vars(case), "params": params}).function(arrays)
        return tg.jvp(f, xs, vs)[1].numpy()

    here = tangent(inputs, us, case.params)
    params = {k: there(v) for k, v in case.params.items()}
    strict = tangent([there(x) for x in inputs], [there(u) for u in us], params)
    np.testing.assert_allclose(strict, here, rtol=1e-12, atol=1e-12)


# A whole use: tensors, methods, operators, public functions.


def test_a_small_network_trains_on_it() -> None:
    def losses(move: Any) -> list[float]:
        rng = np.random.default_rng(0)
        x = tg.Tensor(move(rng.standard_normal((6, 4)).astype(np.float32)))
        w = tg.Tensor(move(rng.standard_normal((3, 4)).astype(np.float32)), requires_grad=True)
        b = tg.Tensor(move(np.zeros(3, np.float32)), requires_grad=True)
        targets = tg.Tensor(move(np.array([0, 1, 2, 0, 1, 2])))
        seen = []
        for _ in range(4):
            hidden = tg.dropout(x @ w.T + b, 0.5, generator=np.random.default_rng(1))
            loss = tg.cross_entropy(tg.layer_norm(hidden * 0.5 - 1.0), targets)
            loss = loss + 0.1 * (w**2).mean() + tg.maximum(b, 0.0).sum() / 3 + (2.0 - b).max()
            loss.backward(retain_graph=False)
            for p in (w, b):
                assert p.grad is not None
                p.data -= 0.1 * p.grad.data
                p.zero_grad()
            seen.append(loss.item())
        return seen

    assert losses(there) == pytest.approx(losses(lambda a: a), rel=1e-5)


def test_indices_and_targets_may_be_tensors_of_it() -> None:
    x = tg.Tensor(there(np.arange(4.0)), requires_grad=True)
    x[tg.Tensor(there(np.array([0, 0, 1])))].sum().backward()
    assert x.grad is not None
    assert x.grad.numpy().tolist() == [2, 1, 0, 0]


def test_out_of_range_ids_are_refused_there_too_or_at_least_do_no_harm() -> None:
    with pytest.raises(IndexError):
        tg.embedding(there(np.array([0, 5])), there(np.ones((3, 2))))


def test_anomalies_are_found_there_too() -> None:
    x = tg.Tensor(there(np.array([-1.0])), requires_grad=True, name="x")
    with tg.detect_anomaly(), np.errstate(all="ignore"), pytest.raises(tg.errors.AnomalyError):
        tg.log(x)


def test_repr_item_and_lists() -> None:
    x = tg.Tensor(there(np.array([1.5, 2.0])), name="x")
    assert "1.5" in repr(x) and x.tolist() == [1.5, 2.0] and x[0].item() == 1.5 and float(x[1]) == 2


@pytest.mark.parametrize(
    "mix",
    [
        lambda here, strict: here + strict,
        lambda here, strict: strict @ here,
        lambda here, strict: tg.where(strict > 0, here, strict),
        lambda here, strict: tg.concatenate([here, strict]),
        lambda here, strict: tg.linear(strict, here),
        lambda here, strict: strict * np.ones((2, 2)),
    ],
)
def test_mixing_devices_is_an_error_that_names_both(mix: Any) -> None:
    here = tg.Tensor(np.ones((2, 2)), requires_grad=True, name="weight")
    strict = tg.Tensor(there(np.ones((2, 2))), requires_grad=True, name="batch")
    with pytest.raises(tg.errors.DeviceError) as caught:
        mix(here, strict)
    text = str(caught.value)
    assert "on strict" in text
    assert "on cpu" in text
    assert "'batch'" in text or "'weight'" in text
    assert ".to(" in text


def test_a_tensor_there_does_not_become_a_numpy_array_by_itself() -> None:
    with pytest.raises(TypeError, match="does not become a NumPy array by itself"):
        np.asarray(tg.Tensor(there(np.ones(2))))


# The stand-in itself.


@pytest.mark.parametrize(
    "use",
    [
        lambda x: np.asarray(x),
        lambda x: np.sin(x),
        lambda x: np.concatenate([x, x]),
        lambda x: x + np.ones(2),
        lambda x: np.ones(2) + x,
        lambda x: strict_xp.add(x, np.ones(2)),
        lambda x: x[np.array([0, 1])],
        lambda x: strict_xp.where(x > 0, x, np.zeros(2)),
        lambda x: strict_xp.exp(x, where=x > 0),
    ],
)
def test_the_standin_refuses_what_cupy_refuses(use: Any) -> None:
    with pytest.raises(TypeError):
        use(StrictArray(np.ones(2)))


def test_the_standin_takes_numbers_and_numpy_scalars_and_keeps_rank_0() -> None:
    x = StrictArray(np.ones(2, np.float32))
    two = np.float32(2)
    for y in (2 * x, x * 2.0, two * x, x / np.float32(0.5), strict_xp.multiply(two, x)):
        assert type(y) is StrictArray and y.dtype == np.float32 and y.get().tolist() == [2, 2]
    total = x.sum()
    assert type(total) is StrictArray and total.shape == () and float(total) == 2


def test_the_standin_offers_only_what_cupy_has() -> None:
    cupy = pytest.importorskip("cupy", reason="cupy is not installed")
    assert [name for name in NAMES if not hasattr(cupy, name)] == []
    assert [name for name in _FACTS | _METHODS if not hasattr(cupy.ndarray, name)] == []
    assert hasattr(cupy.add, "at")
    assert [name for name in LINALG_NAMES if not hasattr(cupy.linalg, name)] == []
    with pytest.raises(AttributeError, match="add it to NAMES"):
        strict_xp.nanmean  # noqa: B018
