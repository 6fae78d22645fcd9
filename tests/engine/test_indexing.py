"""Reading elements in all of NumPy's forms; the gradient goes back to where each was read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tinygrad_edu as tg

SHAPE = (3, 4, 2)

FORMS: dict[str, Any] = {
    "integer": 1,
    "negative integer": -1,
    "NumPy integer": np.int64(2),
    "two integers": (1, -2),
    "all integers": (0, 3, 1),
    "slice": slice(1, 3),
    "slice with a step": (slice(None, None, 2), slice(3, 0, -1)),
    "empty slice": slice(2, 2),
    "ellipsis": (..., 0),
    "ellipsis alone": ...,
    "new axis": (None, 1, None),
    "nothing": (),
    "list": [0, 2],
    "list with repeats": [1, 1, 0, 1],
    "empty list": (slice(None), np.zeros(0, dtype=int)),
    "array of two axes": np.array([[0, 1], [2, 2]]),
    "negative indices": np.array([-1, 2, -3]),
    "two arrays": (np.array([0, 2, 0]), np.array([1, 3, 1])),
    "broadcast arrays": (np.array([[0], [2]]), np.array([1, 3, 1])),
    "np.ix_": np.ix_([0, 2], [1, 1, 3], [0]),
    "array and slice": (slice(1, None), np.array([3, 3])),
    "arrays apart": (np.array([0, 1]), slice(None), np.array([1, 1])),
    "array and integer": (np.array([0, 0]), 1),
    "array and new axis": (np.array([2, 0]), None, slice(1, 3)),
    "mask": np.arange(24).reshape(SHAPE) % 3 == 0,
    "mask of the first axis": np.array([True, False, True]),
    "mask of two axes": np.arange(12).reshape(3, 4) % 5 == 0,
    "mask of nothing": np.zeros(SHAPE, dtype=bool),
    "mask and integer": (np.array([True, False, True]), 2),
    "list of bools": [True, False, True],
    "True": True,
    "False": False,
    "tensor": tg.tensor([2, 0, 2], dtype=int),
    "tensor mask": tg.tensor([False, True, True]),
    "tensor in a tuple": (slice(None), tg.tensor([1, 1], dtype=int)),
    "0-d tensor": tg.tensor(1, dtype=int),
}


def plain(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(plain(i) for i in index)
    return index.data if isinstance(index, tg.Tensor) else index


def check(index: Any, shape: tuple[int, ...] = SHAPE) -> None:
    data = np.random.default_rng(0).standard_normal(shape)
    x = tg.tensor(data, requires_grad=True)
    y = x[index]
    wanted = data[plain(index)]
    assert y.shape == wanted.shape
    np.testing.assert_array_equal(y.data, wanted)
    upstream = np.random.default_rng(1).standard_normal(y.shape)
    y.backward(upstream)
    # Where each number came from, by reading the numbers' own places.
    places = np.arange(data.size).reshape(shape)[plain(index)]
    back = np.bincount(places.ravel(), weights=upstream.ravel(), minlength=data.size)
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.data, back.reshape(shape), rtol=1e-12)


@pytest.mark.parametrize("index", FORMS.values(), ids=FORMS.keys())
def test_every_form_reads_as_numpy_and_adds_back_by_place(index: Any) -> None:
    check(index)


@given(st.data())
def test_any_basic_index(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    index = data.draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    check(index, shape)


@given(st.data())
def test_any_integer_arrays(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4))
    index = data.draw(hnp.integer_array_indices(shape))
    check(index, shape)


@given(st.data())
def test_any_mask(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=4))
    axes = data.draw(st.integers(1, len(shape)))
    check(data.draw(hnp.arrays(bool, shape[:axes])), shape)


@given(st.data())
def test_any_mixture_of_slices_integers_and_arrays(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=2, max_dims=4, min_side=1, max_side=4))
    broadcast = data.draw(st.sampled_from([(), (3,), (2, 1)]))
    parts: list[Any] = []
    for n in shape:
        kind = data.draw(st.sampled_from(["slice", "integer", "array"]))
        if kind == "slice":
            parts.append(data.draw(st.slices(n)))
        elif kind == "integer":
            parts.append(data.draw(st.integers(-n, n - 1)))
        else:
            parts.append(data.draw(hnp.arrays(int, broadcast, elements=st.integers(-n, n - 1))))
    check(tuple(parts), shape)


def test_an_element_read_three_times_gets_the_sum_of_three_gradients() -> None:
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    x[[0, 0, 1, 0]].backward([1.0, 10.0, 100.0, 1000.0])
    assert x.grad is not None and x.grad.tolist() == [1011.0, 100.0]


def test_indexing_can_be_differentiated_twice_and_forwards() -> None:
    x = np.array([1.0, 2.0, 3.0])

    def f(t: tg.Tensor) -> tg.Tensor:
        return (t[[0, 0, 2]] ** 3).sum()

    second = tg.grad(lambda t: tg.grad(f)(t).sum())(x)
    assert second.tolist() == [12.0, 0.0, 18.0]
    _, tangent = tg.jvp(f, x, np.ones(3))
    assert tangent.item() == 2 * 3 + 27


def test_scatter_add_is_the_transpose_of_reading() -> None:
    x = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = tg.scatter_add(x, [0, 2, 0], (4,))
    assert y.tolist() == [4.0, 0.0, 2.0, 0.0]
    y.backward([1.0, 2.0, 3.0, 4.0])
    assert x.grad is not None and x.grad.tolist() == [1.0, 3.0, 1.0]


@pytest.mark.parametrize("sections", [2, [1], [1, 3], [0, 4]], ids=str)
def test_split_cuts_as_numpy_and_puts_gradients_together(sections: Any) -> None:
    data = np.arange(8.0).reshape(4, 2)
    x = tg.tensor(data, requires_grad=True)
    parts = tg.split(x, sections)
    wanted = np.split(data, sections)
    assert len(parts) == len(wanted)
    for i, (part, array) in enumerate(zip(parts, wanted, strict=True)):
        np.testing.assert_array_equal(part.data, array)
        (part * (i + 1)).sum().backward()
    assert x.grad is not None
    counted = np.concatenate([np.full(a.shape, i + 1.0) for i, a in enumerate(wanted)])
    np.testing.assert_array_equal(x.grad.data, counted)
