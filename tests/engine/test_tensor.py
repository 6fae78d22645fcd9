"""A tensor as a Python object: making, truth, length, comparison, numbers, dtypes, looks."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu.errors import DTypeError, ShapeError

# Making.


@pytest.mark.parametrize("data", [2, 2.5, [1, 2], [[1.0], [2.0]], (1, 2), []], ids=repr)
def test_python_numbers_and_lists_become_float32(data: Any) -> None:
    t = tg.tensor(data)
    assert t.dtype == np.float32
    assert t.shape == np.shape(data)
    np.testing.assert_array_equal(t.data, np.asarray(data, dtype=np.float32))


@pytest.mark.parametrize("dtype", ["float64", "float16", "int64", "uint8", "bool"])
def test_arrays_and_numpy_numbers_keep_their_dtype(dtype: str) -> None:
    assert tg.tensor(np.ones(3, dtype=dtype)).dtype == dtype
    assert tg.tensor(np.dtype(dtype).type(1)).dtype == dtype
    assert tg.tensor([np.ones(2, dtype=dtype), np.zeros(2, dtype=dtype)]).dtype == dtype


def test_bools_stay_bools_and_a_dtype_may_be_asked_for() -> None:
    assert tg.tensor([True, False]).dtype == bool
    assert tg.tensor([1, 2], dtype=int).dtype == np.int64
    assert tg.tensor(np.ones(2), dtype=np.float32).dtype == np.float32


def test_tensor_copies_and_the_class_does_not() -> None:
    a = np.ones(3)
    assert not np.shares_memory(tg.tensor(a).data, a)
    assert tg.Tensor(a).data is a


def test_an_empty_list_is_an_empty_tensor_one_can_compute_with() -> None:
    t = tg.tensor([], requires_grad=True)
    assert t.shape == (0,)
    (t * 2).sum().backward()
    assert t.grad is not None and t.grad.shape == (0,)


@pytest.mark.parametrize(
    "data",
    ["abc", ["a"], np.array(["a", "b"]), np.str_("a"), None, [None], [1.0, "x"], {"a": 1}, object(),
     1j, [1j], np.array([1j]), np.array([1], dtype="datetime64[s]")],
    ids=lambda data: type(data).__name__,
)  # fmt: skip
def test_what_is_no_real_number_is_refused(data: Any) -> None:
    with pytest.raises(DTypeError, match="made of real numbers; got"):
        tg.tensor(data)
    with pytest.raises(DTypeError):
        tg.Tensor(data)


def test_rows_of_different_lengths_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"rows of one length; got '\[\[1, 2\], \[3\]\]'"):
        tg.tensor([[1, 2], [3]])


def test_makers_take_a_tuple_or_separate_lengths() -> None:
    for make in (tg.zeros, tg.ones, tg.randn, tg.rand):
        assert make(2, 3).shape == make((2, 3)).shape == make([2, 3]).shape == (2, 3)
        assert make(4).shape == (4,)
        assert make().shape == make(()).shape == ()
        assert make(2, dtype=np.float64).dtype == np.float64
        assert make(2, requires_grad=True).requires_grad
        assert make(2).dtype == np.float32
    assert tg.full((2, 2), 7).tolist() == [[7.0, 7.0], [7.0, 7.0]]
    assert tg.full(3, 0.5).shape == (3,)
    assert tg.eye(2, 3).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert tg.zeros_like(tg.ones(2, dtype=np.float64)).dtype == np.float64
    assert tg.full_like(tg.ones(2), 3).tolist() == [3.0, 3.0]


def test_arange_of_whole_numbers_is_for_ids_and_others_are_floats() -> None:
    assert tg.arange(4).dtype == np.int64
    assert tg.arange(4).tolist() == [0, 1, 2, 3]
    assert tg.arange(1.0, 2.0, 0.25).dtype == np.float32
    assert tg.arange(3, dtype=np.float32).dtype == np.float32


def test_the_default_dtype_can_be_changed() -> None:
    assert tg.get_default_dtype() == np.float32
    tg.set_default_dtype(np.float64)
    try:
        assert tg.tensor([1.0]).dtype == tg.zeros(2).dtype == tg.randn(2).dtype == np.float64
        assert (tg.ones(2) * 2.0).dtype == np.float64
        assert (tg.Tensor(np.ones(2, dtype=np.float32)) * 2.0).dtype == np.float32
    finally:
        tg.set_default_dtype(np.float32)
    with pytest.raises(DTypeError, match="floating dtype; int64 is not"):
        tg.set_default_dtype(int)
    assert tg.get_default_dtype() == np.float32


# Truth, length, iteration, hash.


def test_one_number_is_true_or_false() -> None:
    assert tg.tensor(2.0) and tg.tensor([1.0]) and not tg.tensor(0.0)
    assert tg.tensor([2.0], requires_grad=True)
    assert tg.tensor(1.0) < 2


@pytest.mark.parametrize("shape", [(2,), (1, 2), (0,)])
def test_many_numbers_are_neither_true_nor_false(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"neither true nor false; use \.all\(\) or \.any\(\)"):
        bool(tg.ones(shape))


def test_length_is_the_first_axis_and_a_number_has_none() -> None:
    assert len(tg.ones(3, 2)) == 3
    with pytest.raises(TypeError, match=r"0-d tensor has no len\(\)"):
        len(tg.tensor(1.0))
    with pytest.raises(TypeError, match="0-d"):
        iter(tg.tensor(1.0))


def test_iteration_gives_tracked_rows() -> None:
    x = tg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    rows = list(x)
    assert [r.tolist() for r in rows] == [[1.0, 2.0], [3.0, 4.0]]
    a, b = x
    (a * 2 + b * b).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[2.0, 2.0], [6.0, 8.0]]


def test_tensors_are_hashed_by_identity() -> None:
    a, b = tg.ones(2), tg.ones(2)
    assert {a: 1, b: 2}[a] == 1
    assert len({a, b, a}) == 2


def test_builtin_sum_min_max_work() -> None:
    x = tg.tensor([3.0, 1.0, 2.0], requires_grad=True)
    assert sum(x).item() == 6.0
    assert max(x).item() == 3.0 and min(x).item() == 1.0
    sum(x).backward()
    assert x.grad is not None and x.grad.tolist() == [1.0, 1.0, 1.0]


# Comparison.


@pytest.mark.parametrize("compare", [operator.lt, operator.le, operator.gt, operator.ge,
                                     operator.eq, operator.ne])  # fmt: skip
def test_comparisons_are_elementwise_untracked_bools(compare: Callable[[Any, Any], Any]) -> None:
    a, b = np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0])
    t = tg.tensor(a, requires_grad=True)
    for found, wanted in (
        (compare(t, tg.tensor(b)), compare(a, b)),
        (compare(t, b), compare(a, b)),
        (compare(b, t), compare(b, a)),
        (compare(t, 2), compare(a, 2)),
        (compare(2.0, t), compare(2.0, a)),
        (compare(t, [3.0, 2.0, 1.0]), compare(a, b)),
    ):
        assert isinstance(found, tg.Tensor) and not found.requires_grad
        assert found.dtype == bool
        np.testing.assert_array_equal(found.data, wanted)


def test_a_tensor_is_not_equal_to_none_or_to_text() -> None:
    x = tg.ones(2)
    assert (x == None) is False  # noqa: E711
    assert (x != None) is True  # noqa: E711
    assert (x == "a") is False
    assert None not in [x]
    with pytest.raises(TypeError, match="'<' not supported"):
        x < "a"  # noqa: B015


def test_masks_combine() -> None:
    x = tg.tensor([1.0, 2.0, 3.0])
    assert ((x > 1) & (x < 3)).tolist() == [False, True, False]
    assert ((x == 1) | (x == 3)).tolist() == [True, False, True]
    assert ((x > 1) ^ (x > 2)).tolist() == [False, True, False]
    assert (~(x > 1)).tolist() == [True, False, False]
    assert x[~(x > 1)].tolist() == [1.0]


# As a Python number.


def test_one_number_converts_to_python_numbers() -> None:
    x = tg.tensor([[2.5]], requires_grad=True)
    assert float(x) == 2.5 and int(x) == 2 and x.item() == 2.5
    assert isinstance(x.item(), float)
    assert isinstance(tg.tensor(3, dtype=int).item(), int)


@pytest.mark.parametrize("convert", [float, int, lambda t: t.item()])
def test_many_numbers_do_not(convert: Callable[[Any], Any]) -> None:
    with pytest.raises(ValueError, match=r"item\(\) takes a tensor of one number.*\(2,\)"):
        convert(tg.ones(2))


def test_an_integer_tensor_is_an_index_and_a_float_is_not() -> None:
    assert ["a", "b", "c"][tg.tensor(1, dtype=int)] == "b"
    assert list(range(tg.tensor(2, dtype=int))) == [0, 1]  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"only an integer tensor can be an index.*float32"):
        ["a"][tg.tensor(0.0)]  # type: ignore[call-overload]


def test_signs() -> None:
    x = tg.tensor([1.0, -2.0], requires_grad=True)
    assert (+x) is x
    assert (-x).tolist() == [-1.0, 2.0]
    assert abs(x).tolist() == [1.0, 2.0]


# dtypes.


def named(name: str, **options: Any) -> Callable[[Any], Any]:
    return lambda t: getattr(tg, name)(t, **options)


ELEMENTWISE: dict[str, Callable[[Any], Any]] = {
    "+ number": lambda t: t + 2.0,
    "number -": lambda t: 1 - t,
    "* number": lambda t: t * 0.1,
    "/ number": lambda t: t / 3,
    "number /": lambda t: 2.0 / t,
    "** number": lambda t: t**2.5,
    "number **": lambda t: 2.0**t,
    "** 2": lambda t: t**2,
    "* True": lambda t: t * True,
    "maximum": lambda t: tg.maximum(t, 0.5),
    "where": lambda t: tg.where(t > 1, t, 0.0),
    "clip": lambda t: t.clip(0.1, 2.0),
    "* float64 scalar": lambda t: t * np.float64(2.0),
    "** float64 scalar": lambda t: t ** np.float64(3.0),
    "/ np.sqrt": lambda t: t / np.sqrt(64),
    **{
        name: named(name)
        for name in "exp log log1p expm1 sqrt tanh sigmoid sin cos erf relu gelu abs sign".split()
    },
    "gelu tanh": lambda t: tg.gelu(t, approximate="tanh"),
}
OTHERS: dict[str, Callable[[Any], Any]] = {
    **{
        name: named(name, axis=-1)
        for name in "sum mean var max min logsumexp softmax log_softmax".split()
    },
    "matmul": lambda t: t @ t,
    "getitem": lambda t: t[:, [0, 0, 1]],
    "concatenate": lambda t: tg.concatenate([t, t]),
    "stack": lambda t: tg.stack([t, t]),
    "linear": lambda t: tg.linear(t, t, t[0], activation="gelu", residual=t),
    "linear tanh": lambda t: tg.linear(t, t, activation="tanh"),
    "linear sigmoid": lambda t: tg.linear(t, t, activation="sigmoid"),
    "layer_norm": lambda t: tg.layer_norm(t, t[0], t[1]),
    "linear silu": lambda t: tg.linear(t, t, t[0], activation="silu"),
    "rms_norm": lambda t: tg.rms_norm(t, t[0]),
    "rotary": lambda t: tg.rotary(t, start=3),
    "cross_entropy": lambda t: tg.cross_entropy(t, [0, 1]),
    "cross_entropy none": lambda t: tg.cross_entropy(t, [0, 1], reduction="none"),
    "embedding": lambda t: tg.embedding([[1, 0]], t),
    "attention": lambda t: tg.attention(t, t, t, causal=True, dropout=0.5),
    "packed_attention": lambda t: tg.packed_attention(tg.concatenate([t, t, t], 1)[None], 2),
    "dropout": lambda t: tg.dropout(t, 0.5),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("f", (ELEMENTWISE | OTHERS).values(), ids=(ELEMENTWISE | OTHERS).keys())
def test_every_operation_keeps_the_dtype_forward_and_backward(
    f: Callable[[Any], Any], dtype: Any
) -> None:
    x = tg.tensor(np.array([[0.5, 1.25], [2.0, 0.75]], dtype=dtype), requires_grad=True)
    y = f(x)
    assert y.dtype == dtype
    y.sum().backward()
    assert x.grad is not None and x.grad.dtype == dtype
    with tg.unfused():
        assert f(x).dtype == dtype
        f(x).sum().backward(create_graph=True)
    assert x.grad.dtype == dtype


@pytest.mark.parametrize("left", ["float32", "float64", "float16", "int64", "int32", "bool"])
@pytest.mark.parametrize("right", ["float32", "float64", "int64", "bool", 2, 2.5])
def test_mixed_dtypes_promote_as_in_numpy(left: str, right: Any) -> None:
    a = np.array([1, 0, 1]).astype(left)
    b = np.array([1, 1, 0]).astype(right) if isinstance(right, str) else right
    for op in (operator.add, operator.mul):
        found = op(tg.tensor(a), tg.tensor(b) if isinstance(right, str) else b)
        wanted = op(a, b)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found.data, wanted)


def test_integers_divide_to_floats() -> None:
    i = tg.tensor([1, 2, 4], dtype=int)
    assert (i / 2).dtype == np.float64
    assert (i / i).tolist() == [1.0, 1.0, 1.0]
    assert (i * 2).dtype == np.int64
    assert (i / tg.tensor([2.0])).tolist() == [0.5, 1.0, 2.0]
    assert i.mean().item() == pytest.approx(7 / 3)
    assert i.sum().dtype == np.int64


def test_astype_and_to_bring_the_gradient_back_in_the_inputs_dtype() -> None:
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    for y in (x.astype(np.float64), x.to(np.float64), x.to("float64")):
        assert y.dtype == np.float64 and y.requires_grad
        y.sum().backward()
    assert x.grad is not None and x.grad.dtype == np.float32 and x.grad.tolist() == [3.0, 3.0]
    assert x.astype(np.float32) is x and x.to("cpu") is x


# Looks.


def test_repr_shows_numbers_name_operation_and_whether_it_is_tracked() -> None:
    x = tg.tensor([1.0, 2.5], requires_grad=True, name="x")
    assert repr(x) == "tensor([1. , 2.5], name='x', requires_grad=True)"
    assert repr(x * 2) == "tensor([2., 5.], op=multiply)"
    assert repr(tg.tensor([1, 2], dtype=int)) == "tensor([1, 2], dtype=int64)"
    assert repr(tg.tensor(3.0)) == "tensor(3.)"
    assert repr(tg.ones(1, 1)) == "tensor([[1.]])"
    assert repr(tg.zeros(0, 3)) == "tensor([], shape=(0, 3))"
    (x * x).sum().backward()
    assert repr(x.grad) == "tensor([2., 5.])"


def test_repr_of_a_large_tensor_is_short_and_says_the_shape() -> None:
    text = repr(tg.ones(100, 100))
    assert "shape=(100, 100)" in text and "..." in text
    assert len(text) < 600


def test_a_label_is_the_name_or_what_it_is() -> None:
    x = tg.tensor(1.0, requires_grad=True)
    assert x.label() == "the tensor"
    assert (x * 2).label() == "the result of multiply"
    x.name = "x"
    assert x.label() == "'x'"


def test_what_a_tensor_tells_of_itself() -> None:
    x = tg.ones(2, 3, 4, requires_grad=True)
    assert (x.shape, x.ndim, x.size, x.dtype, x.device) == ((2, 3, 4), 3, 24, np.float32, "cpu")
    assert x.is_leaf and not (x * 2).is_leaf
    assert x.T.shape == (4, 3, 2) and x.mT.shape == (2, 4, 3)
    assert x.op is None and x.inputs == () and x.grad is None
    assert (x * 2).op.name == "multiply"


def test_in_place_operators_make_a_new_tensor() -> None:
    x = tg.tensor([1.0], requires_grad=True)
    y = x
    y += 1
    assert x.tolist() == [1.0] and y.tolist() == [2.0] and y is not x


def test_aliases_mean_the_same() -> None:
    x = tg.randn(2, 3, 4)
    same: Iterator[tuple[tg.Tensor, tg.Tensor]] = iter([
        (x.sum(dim=1, keepdim=True), x.sum(axis=1, keepdims=True)),
        (x.mean(dim=(0, 2)), x.mean(axis=(0, 2))),
        (x.var(dim=-1), x.var(axis=-1)),
        (x.max(dim=0), x.max(axis=0)),
        (x.softmax(dim=1), x.softmax(axis=1)),
        (x.view(6, 4), x.reshape((6, 4))),
        (x.permute(2, 0, 1), x.transpose(2, 0, 1)),
        (x.unsqueeze(1), x.expand_dims(1)),
        (tg.cat([x, x], dim=1), tg.concatenate([x, x], axis=1)),
        (tg.clamp(x, 0, 1), tg.clip(x, 0, 1)),
        (x.flatten(1), x.reshape(2, 12)),
    ])  # fmt: skip
    for a, b in same:
        np.testing.assert_array_equal(a.data, b.data)


def test_numpys_methods_and_attributes_are_not_invented() -> None:
    with pytest.raises(AttributeError, match="no_such"):
        tg.ones(1).no_such  # noqa: B018
    with pytest.raises((TypeError, AttributeError)):
        tg.ones(1).colour = "red"  # a slot that is not there
