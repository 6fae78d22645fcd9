"""NumPy indexing in all forms: values as NumPy's, gradients added up at what was read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinygrad_edu as tg
from tinygrad_edu.testing import check_jvp, check_second_order
from tinygrad_edu.testing import strategies as own

some = settings(max_examples=150, derandomize=True, deadline=None)


@some
@given(st.data())
def test_reads_what_numpy_reads_and_adds_gradients_up(data: Any) -> None:
    shape = data.draw(own.shapes(max_dims=3, max_side=3))
    index = data.draw(own.indices(shape))
    x = np.arange(np.prod(shape, dtype=int), dtype=float).reshape(shape)
    leaf = tg.Tensor(x, requires_grad=True)
    out = leaf[index]
    want = x[index]
    assert out.shape == np.shape(want)
    assert (out._data == want).all()
    g = data.draw(own.cotangents(out.shape))
    out.backward(g)
    added = np.zeros(shape)
    np.add.at(added, index, g)
    assert leaf.grad is not None
    assert leaf.grad.shape == shape
    assert (leaf.grad._data == added).all()  # dyadic: nothing rounds


@settings(max_examples=30, derandomize=True, deadline=None)
@given(st.data())
def test_is_linear_in_forward_mode_and_flat_in_second_order(data: Any) -> None:
    shape = data.draw(own.shapes(min_dims=1, max_dims=3, max_side=3))
    index = data.draw(own.indices(shape))
    x = data.draw(own.values(shape))
    check_jvp(lambda t: t[index], x)
    check_second_order(lambda t: t[index] * t[index], x)


@some
@given(st.data())
def test_scatter_add_is_the_transpose(data: Any) -> None:
    shape = data.draw(own.shapes(min_dims=1, max_dims=3, max_side=3))
    index = data.draw(own.indices(shape))
    x = data.draw(own.cotangents(shape))
    g = data.draw(own.cotangents(np.shape(x[index])))
    assert (x[index] * g).sum() == (x * tg.scatter_add(g, index, shape)._data).sum()


@pytest.mark.parametrize(
    "index",
    [
        tg.Tensor(np.array([0, 0, 1])),
        (tg.Tensor(np.array([1, 2])), tg.Tensor(np.array([0, 0]))),
        np.int64(1),
        np.array(1),
        True,
        (True, 0),
        [True, False, True],
        [[0, 1], [1, 2]],
    ],
    ids=str,
)
def test_other_forms(index: Any) -> None:
    def plain(i: Any) -> Any:
        return tuple(map(plain, i)) if isinstance(i, tuple) else getattr(i, "_data", i)

    x = np.arange(12.0).reshape(3, 4)
    leaf = tg.Tensor(x, requires_grad=True)
    out = leaf[index]
    assert (out._data == x[plain(index)]).all()
    out.backward(np.ones(out.shape))
    added = np.zeros(x.shape)
    np.add.at(added, plain(index), 1.0)
    assert leaf.grad is not None
    assert (leaf.grad._data == added).all()


def test_views_and_copies_have_gradients_of_their_own() -> None:
    x = tg.Tensor(np.arange(6.0), requires_grad=True)
    (x[::2].sum() + x[::2].sum() * 2 + x[[0, 0]].sum()).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [5, 0, 3, 0, 3, 0]


def test_float_indices_are_refused_with_what_to_do() -> None:
    x = tg.zeros(3)
    with pytest.raises(tg.errors.DTypeError, match="make it with dtype=int"):
        x[tg.tensor([0.0])]


def test_an_index_out_of_range_names_shape_and_line() -> None:
    x = tg.zeros(3, requires_grad=True)
    with pytest.raises(IndexError, match=r"\(3,\) at .*test_indexing\.py"):
        x[5]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_split_and_concatenate_undo_each_other(axis: int) -> None:
    x = tg.Tensor(np.arange(16.0).reshape(4, 4), requires_grad=True)
    parts = tg.split(x, [1, 3], axis)
    assert [p.shape[axis] for p in parts] == [1, 2, 1]
    back = tg.concatenate(parts, axis)
    assert (back._data == x._data).all()
    g = np.arange(16.0).reshape(4, 4)
    back.backward(g)
    assert x.grad is not None
    assert (x.grad._data == g).all()
