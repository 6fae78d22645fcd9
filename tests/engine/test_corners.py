"""Corners that a review of the engine found: wrong numbers, dtypes, copies, messages."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu.errors import DTypeError, GraphError, MutationError, ShapeError


def leaf(data: Any) -> tg.Tensor:
    return tg.tensor(np.asarray(data, dtype=float), requires_grad=True)


def test_a_kernel_that_is_rerun_for_a_second_derivative_guards_all_its_inputs() -> None:
    x = leaf([1.0])
    y = tg.gelu(x).sum()
    x.data = np.array([5.0])
    with pytest.raises(MutationError, match="gelu"):
        y.backward(create_graph=True)
    y.backward()  # the kernel itself needs its saved slope only
    np.testing.assert_allclose(x.grad.data, [1.0833154705876864])  # type: ignore[union-attr]


def test_a_silent_write_before_a_second_derivative_is_found_under_detect_anomaly() -> None:
    x = leaf([1.0])
    with tg.detect_anomaly():
        y = tg.gelu(x).sum()
        x.data[0] = 5.0
        with pytest.raises(MutationError):
            y.backward(create_graph=True)


@pytest.mark.parametrize("dtype", [int, bool])
def test_no_gradient_flows_through_integers(dtype: type) -> None:
    a = leaf([1.7])
    assert not a.astype(dtype).requires_grad
    out = (a.astype(dtype) * 2.5 + a).sum()
    out.backward()
    np.testing.assert_array_equal(a.grad.data, [1.0])  # type: ignore[union-attr]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_ignored_row_of_cross_entropy_gets_0_whatever_it_holds(bad: float) -> None:
    z = leaf([[bad, 1.0], [1.0, 2.0]])
    with np.errstate(all="ignore"):
        tg.cross_entropy(z, np.array([-100, 0])).backward()
    assert z.grad is not None
    np.testing.assert_array_equal(z.grad.data[0], [0, 0])
    assert np.isfinite(z.grad.data).all()


def test_a_tracked_bound_of_clip_gets_its_gradient() -> None:
    x, low, high = leaf([-1.0, 1.0, 5.0]), leaf(0.0), leaf(2.0)
    tg.clip(x, low, high).sum().backward()
    found = [t.grad.data.tolist() for t in (x, low, high) if t.grad is not None]
    assert found == [[0.0, 1.0, 0.0], 1.0, 1.0]


def test_gradients_of_a_differentiable_pass_share_no_memory() -> None:
    a, b = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    ((a + b) * leaf([1.0, 1.0])).sum().backward(create_graph=True)
    assert a.grad is not None and b.grad is not None
    a.grad.data *= 0.5
    np.testing.assert_array_equal(b.grad.data, [1.0, 1.0])
    c = leaf([1.0, 2.0])
    c.sum().backward(create_graph=True)
    assert c.grad is not None
    c.grad.data *= 0.5
    seed = leaf([1.0, 1.0])
    d = leaf([1.0, 2.0])
    (d + 0.0).backward(seed, create_graph=True)
    assert d.grad is not seed and not np.shares_memory(d.grad.data, seed.data)  # type: ignore[union-attr]


@pytest.mark.parametrize("create_graph", [False, True])
def test_what_a_hook_returns_takes_the_dtype_of_its_tensor(create_graph: bool) -> None:
    a = tg.tensor([1.0], requires_grad=True)
    a.register_hook(lambda g: np.array([2.0]))
    (a * 1.5).sum().backward(create_graph=create_graph)
    assert a.grad is not None and a.grad.dtype == np.float32 and a.grad.item() == 2.0


def test_fused_operations_promote_dtypes_as_their_references_do() -> None:
    x = tg.tensor(np.ones((2, 3), np.float32), requires_grad=True)
    weight, wide = np.ones((4, 3), np.float32), np.ones(4)
    calls = [
        lambda: tg.linear(x, weight, wide),
        lambda: tg.linear(np.ones((2, 3), int), np.ones((4, 3), int), wide),
        lambda: tg.layer_norm(x, np.ones(3)),
        lambda: tg.packed_attention(np.ones((1, 2, 6), np.float32), 1, mask=np.zeros((2, 2))),
        lambda: tg.gelu(np.array([1, 2, 3])),
        lambda: tg.cross_entropy(np.array([[1, 2]]), np.array([0])),
    ]
    for call in calls:
        fused = call()
        with tg.unfused():
            opened = call()
        assert fused.dtype == opened.dtype
        np.testing.assert_allclose(fused.data, opened.data, rtol=1e-6)


def test_a_bool_mask_may_have_more_axes_than_the_scores() -> None:
    q, k, v = (np.random.default_rng(i).standard_normal((3, 4)) for i in range(3))
    mask = np.ones((2, 3, 3), bool)
    mask[1, :, 0] = False
    out = tg.attention(q, k, v, mask=mask)
    with tg.unfused():
        np.testing.assert_allclose(out.data, tg.attention(q, k, v, mask=mask).data)


def test_an_integer_mask_is_refused_as_it_would_hide_nothing() -> None:
    x = np.ones((1, 2, 6))
    with pytest.raises(DTypeError, match="mask != 0"):
        tg.packed_attention(x, 1, mask=np.ones((2, 2), int))
    with pytest.raises(DTypeError, match="mask != 0"):
        tg.attention(x, x, x, mask=np.ones((2, 2), int))


def test_numbers_of_numpy_as_bounds_do_not_widen() -> None:
    x = tg.tensor([1.0, 2.0])
    assert tg.clip(x, np.float64(0), np.float64(1)).dtype == np.float32


def test_a_leaf_survives_pickle_and_deepcopy_and_a_result_refuses() -> None:
    x = tg.tensor([1.0, 2.0], requires_grad=True, name="x")
    (x * x).sum().backward()
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):  # noqa: S301 - our own bytes
        assert y.name == "x" and y.requires_grad and y.grad.tolist() == [2.0, 4.0]
        assert not np.shares_memory(x.data, y.data)
        assert y._replaced == 0  # a write clock of another process means nothing here
    with pytest.raises(GraphError, match="detach"):
        copy.deepcopy(x * 2)
    with pytest.raises(GraphError, match="detach"):
        pickle.dumps(x * 2)


def test_a_write_to_a_condition_is_found() -> None:
    c, x = tg.tensor([True, False]), leaf([1.0, 2.0])
    y = tg.where(c, x, 0.0).sum()
    c.data ^= True
    with pytest.raises(MutationError):
        y.backward()


def test_a_bound_changed_later_changes_nothing() -> None:
    x, high = leaf([3.0]), tg.tensor(np.array([2.0]))
    y = tg.clip(x, None, high).sum()
    high.data += 5
    y.backward()
    assert x.grad is not None and x.grad.item() == 0.0


def test_numpy_cannot_write_into_a_tensor() -> None:
    x = tg.tensor([1.0])
    with pytest.raises(TypeError, match=r"\.data"):
        np.add(x, 1, out=x)  # type: ignore[call-overload]


def test_a_list_takes_the_dtype_of_what_it_meets() -> None:
    t = leaf([0.0])
    assert (t + [0.1]).item() == 0.1
    assert tg.maximum(t, [0.1]).item() == 0.1
    (t * 1.0).backward([0.1])
    assert t.grad is not None and t.grad.item() == 0.1
    t.data = [0.1]
    assert t.dtype == np.float64
    assert (tg.tensor([1.0]) + [0.1]).dtype == np.float32


def test_bfloat16_stays_itself_beside_python_numbers() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    x = tg.tensor([1.0], dtype=ml_dtypes.bfloat16, requires_grad=True)
    assert (x * 2.0).dtype == ml_dtypes.bfloat16
    assert tg.grad(lambda x: (x * x).sum())(x).item() == 2.0


def test_the_padding_row_is_checked_and_stands_still_in_both_modes() -> None:
    table, ids = np.ones((3, 2)), np.array([0, 1, 1])
    with pytest.raises(IndexError, match="padding_idx"):
        tg.embedding(ids, table, padding_idx=10)
    with pytest.raises(ShapeError, match=r"\(V, C\)"):
        tg.embedding(ids, np.ones(3))
    _, moved = tg.jvp(lambda w: tg.embedding(ids, w, padding_idx=1), table, np.ones((3, 2)))
    np.testing.assert_array_equal(moved.data, [[1, 1], [0, 0], [0, 0]])


def test_logsumexp_with_an_infinite_element_gives_it_all_the_gradient() -> None:
    x = leaf([np.inf, 0.0])
    tg.logsumexp(x).backward()
    np.testing.assert_array_equal(x.grad.data, [1.0, 0.0])  # type: ignore[union-attr]


def test_float16_means_and_ties_of_many_numbers_do_not_vanish() -> None:
    x = tg.tensor(np.zeros(70_000, np.float16), requires_grad=True)
    for f in (tg.mean, tg.max):
        x.grad = None
        f(x).backward()
        assert x.grad is not None
        np.testing.assert_allclose(x.grad.data[0], 1 / 70_000, rtol=0.01)


def test_anything_to_the_power_0_has_gradient_0() -> None:
    a = leaf([np.nan, np.inf, 0.0, 2.0])
    tg.power(a, tg.tensor(np.zeros(4))).sum().backward()
    np.testing.assert_array_equal(a.grad.data, np.zeros(4))  # type: ignore[union-attr]


def test_a_mode_may_be_entered_again_and_nested() -> None:
    quiet = tg.no_grad()
    for _ in range(2):
        with quiet:
            with quiet:
                assert not tg.is_grad_enabled()
            assert not tg.is_grad_enabled()
        assert tg.is_grad_enabled()


def test_an_empty_list_of_ids_reads_no_rows() -> None:
    assert tg.embedding([], np.ones((3, 2))).shape == (0, 2)


def test_attention_and_logsumexp_of_nothing_are_nothing() -> None:
    for batch, time in ((0, 3), (2, 0)):
        qkv = tg.zeros(batch, time, 12, requires_grad=True)
        out = tg.packed_attention(qkv, 2)
        out.sum().backward()
        assert out.shape == (batch, time, 4) and qkv.grad is not None
    q, empty = leaf(np.ones((3, 4))), leaf(np.ones((0, 4)))
    np.testing.assert_array_equal(tg.attention(q, empty, empty).data, np.zeros((3, 4)))
    np.testing.assert_array_equal(tg.logsumexp(leaf(np.ones((2, 0))), axis=1).data, [-np.inf] * 2)


def test_argnums_count_from_the_end_and_name_each_argument_once() -> None:
    assert tg.grad(lambda a, b: a * b * b, argnums=-1)(2.0, 3.0).item() == 12.0
    with pytest.raises(ValueError, match="twice"):
        tg.grad(lambda a, b: a * b, argnums=(0, 0))(2.0, 3.0)


def test_a_jvp_past_a_masked_slope_is_silent() -> None:
    with np.errstate(all="raise"):
        _, moved = tg.jvp(lambda x: tg.where(x > 0, tg.sqrt(x), 0.0), leaf([0.0, 4.0]), np.ones(2))
    np.testing.assert_array_equal(moved.data, [0.0, 0.25])


def test_what_is_wrong_but_no_shape_is_no_shape_error() -> None:
    with pytest.raises(ValueError, match="power_constant") as found:
        tg.power(tg.tensor(np.array([2])), -1)
    assert not isinstance(found.value, ShapeError)
    with pytest.raises(ShapeError, match="one number has no axes"):
        tg.softmax(tg.tensor(1.0))
    with pytest.raises(ShapeError, match="each axis once"):
        tg.transpose(tg.tensor(1.0), 0)
    with pytest.raises(ValueError, match="num_heads=0"):
        tg.packed_attention(np.ones((1, 2, 6)), 0)
