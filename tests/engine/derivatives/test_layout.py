"""How an array lies in memory changes nothing: views, strides, read-only arrays, large blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from engine.derivatives.cases import EVERY, Case

import tinygrad_edu as tg
from tinygrad_edu.autograd.apply import apply
from tinygrad_edu.testing.ledger import Ledger


def fortran(x: Any) -> Any:
    return np.asfortranarray(x)


def backwards(x: Any) -> Any:
    """The same numbers, walked from the end."""
    flip = (slice(None, None, -1),) * x.ndim
    return x[flip].copy()[flip]


def sliced(x: Any) -> Any:
    """Every other element of a larger array."""
    wide = np.zeros([2 * n for n in x.shape], x.dtype)
    wide[(slice(None, None, 2),) * x.ndim] = x
    return wide[(slice(None, None, 2),) * x.ndim]


def unaligned(x: Any) -> Any:
    raw = np.empty(x.nbytes + 1, np.uint8)[1:]
    found = raw.view(x.dtype).reshape(x.shape)
    found[...] = x
    return found


def gradients(case: Case, inputs: list[Any], g: Any) -> list[Any]:
    leaves = [
        tg.Tensor(x, requires_grad=i in case.floating(inputs)) if x is not None else None
        for i, x in enumerate(inputs)
    ]
    out = apply(case.primitive, *leaves, **case.params)
    out.backward(g)
    return [out._data, *[x.grad._data for x in leaves if x is not None and x.requires_grad]]


@pytest.mark.parametrize("lay", [fortran, backwards, sliced, unaligned])
@pytest.mark.parametrize("case", EVERY, ids=str)
def test_layout_changes_nothing(case: Case, lay: Callable[[Any], Any], ledger: Ledger) -> None:
    ledger.record(case.name, "P13")
    inputs = case.inputs()
    shape = apply(case.primitive, *inputs, **case.params).shape
    g = np.random.default_rng(0).choice([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0], shape)
    want = gradients(case, inputs, g)

    g = np.asarray(g)
    others = [x if x is None or not x.ndim else lay(x) for x in inputs]
    seed = lay(g) if g.ndim else g
    for x in (*others, seed):
        if x is not None and x.ndim:
            x.flags.writeable = False
    for a, b in zip(gradients(case, others, seed), want, strict=True):
        size = np.abs(b).max(initial=0)
        assert (np.abs(a - b) <= 32 * np.finfo(float).eps * size).all()


@pytest.mark.parametrize("case", EVERY, ids=str)
def test_a_broadcast_upstream_gradient_is_as_good_as_a_full_one(case: Case) -> None:
    inputs = case.inputs()
    shape = apply(case.primitive, *inputs, **case.params).shape
    want = gradients(case, inputs, np.full(shape, 2.0))
    for a, b in zip(gradients(case, inputs, np.broadcast_to(2.0, shape)), want, strict=True):
        size = np.abs(b).max(initial=0)
        assert (np.abs(a - b) <= 32 * np.finfo(float).eps * size).all()


@pytest.mark.parametrize("form", ["none", "tanh"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("turned", [False, True], ids=["straight", "transposed"])
def test_kernels_that_work_in_blocks_leave_no_seam(form: str, dtype: Any, turned: bool) -> None:
    """Larger than a block of the GELU kernel, by a little."""
    x = np.linspace(-7, 7, 70001 * 2, dtype=dtype).reshape(2, -1)
    x = x.T if turned else x
    leaf = tg.Tensor(x, requires_grad=True)
    out = tg.gelu(leaf, form)
    out.backward(np.ones_like(x))
    wide = tg.Tensor(x.astype(np.float64), requires_grad=True)
    with tg.unfused():
        want = tg.gelu(wide, form)
    want.sum().backward()
    assert leaf.grad is not None and wide.grad is not None
    # The float32 erf is good to 1.5e-7 (Abramowitz & Stegun 7.1.26), times |x| <= 7.
    allowed = 2e-6 if dtype == np.float32 else 1e-14
    assert np.abs(out._data - want._data).max() <= allowed
    assert np.abs(leaf.grad._data - wide.grad._data).max() <= allowed


@pytest.mark.parametrize("rows", [512, 513])
def test_the_two_ways_to_add_rows_up_agree(rows: int) -> None:
    """A product with the one-hot matrix for small tables, a scatter for large ones."""
    rng = np.random.default_rng(0)
    ids = rng.integers(0, rows, (4, 200))
    g = rng.standard_normal((4, 200, 3))
    table = tg.Tensor(rng.standard_normal((rows, 3)), requires_grad=True)
    tg.embedding(ids, table).backward(g)
    want = np.zeros((rows, 3))
    np.add.at(want, ids, g)
    assert table.grad is not None
    np.testing.assert_allclose(table.grad._data, want, rtol=1e-13, atol=1e-13)
