"""Data changed between forward and backward is an error that names it, never a wrong number."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu.errors import GraphError, MutationError, ShapeError


def weights() -> tg.Tensor:
    return tg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True, name="weights")


def assign(t: tg.Tensor) -> None:
    t.data = t.data * 2


def subtract(t: tg.Tensor) -> None:
    t.data -= 1


def through_out(t: tg.Tensor) -> None:
    np.multiply(t.data, 2, out=t.data)
    t._written()


WRITES = [assign, subtract, through_out]


@pytest.mark.parametrize("write", WRITES)
def test_a_write_to_a_leaf_that_a_rule_names_is_found(write: Callable[[tg.Tensor], None]) -> None:
    x = weights()
    loss = (x * x).sum()
    write(x)
    with pytest.raises(MutationError, match="data of 'weights'"):
        loss.backward()
    assert x.grad is None


@pytest.mark.parametrize("write", WRITES)
def test_a_write_to_a_result_that_its_rule_names_is_found(
    write: Callable[[tg.Tensor], None],
) -> None:
    x = weights()
    y = x.exp()
    loss = y.sum()
    write(y)
    with pytest.raises(MutationError, match="data of the result of exp"):
        loss.backward()


def test_the_error_names_tensor_shape_operation_and_line() -> None:
    x = weights()
    loss = (x * 3 + x.tanh() * x).sum(); here = _line()  # noqa: E702
    x.data -= 1
    with pytest.raises(MutationError) as caught:
        loss.backward()
    message = str(caught.value)
    assert "'weights' (shape (2, 2)) was changed after multiply used it at" in message
    assert re.search(rf"test_mutation\.py:{here},", message)
    assert isinstance(caught.value, GraphError)


def _line() -> int:
    import sys

    return sys._getframe(1).f_lineno


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t.reshape(4),
        lambda t: t.T,
        lambda t: t.mT,
        lambda t: t[0],
        lambda t: t[:, 1:],
        lambda t: t.detach(),
        lambda t: t.detach()[1].reshape(2, 1),
        lambda t: t.unsqueeze(0),
        lambda t: t.reshape(1, 2, 2).squeeze(0),
        lambda t: tg.split(t, 2)[1],
        lambda t: t.flatten(),
    ],
    ids="reshape T mT row slice detach detach-row unsqueeze squeeze split flatten".split(),
)
def test_a_write_through_a_view_is_found_in_the_tensor_and_back(
    view: Callable[[tg.Tensor], tg.Tensor],
) -> None:
    x = weights()
    loss = (x * x).sum()
    part = view(x)
    assert np.shares_memory(part.data, x.data)
    part.data -= 1
    with pytest.raises(MutationError, match="'weights'"):
        loss.backward()
    x = weights()
    part = view(x)
    loss = (part * tg.ones(part.shape, requires_grad=True)).sum()
    x.data -= 1
    with pytest.raises(MutationError):
        loss.backward()


def test_a_view_made_before_the_first_use_counts_too() -> None:
    x = weights()
    raw = x.detach()
    loss = (x * x).sum()
    raw.data *= 0
    with pytest.raises(MutationError):
        loss.backward()


def test_a_copy_is_no_view() -> None:
    x = weights()
    for copy in (x.T.reshape(4), x[[0, 1]], tg.tensor(x.detach()), x * 1):
        assert not np.shares_memory(copy.data, x.data)
        loss = (x * x).sum()
        copy.data -= 1
        loss.backward()
        loss = (copy * copy).sum()
        x.data -= 1
        if loss.requires_grad:
            loss.backward()


def test_new_data_parts_a_tensor_from_its_old_views() -> None:
    x = weights()
    old = x.reshape(4)
    x.data = np.ones((2, 2), dtype=np.float32)
    loss = (old * old).sum()
    x.data -= 1
    loss.backward()
    assert x.grad is not None and x.grad.tolist() == [[2.0, 4.0], [6.0, 8.0]]


def test_data_that_no_rule_named_may_change() -> None:
    x, y = weights(), weights()
    loss = (x + y - 3).sum()
    x.data -= 1
    y.data = np.zeros((2, 2), dtype=np.float32)
    loss.backward()
    assert x.grad is not None and x.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_a_rule_that_names_its_result_does_not_guard_its_input() -> None:
    x = weights()
    y = x.exp()
    x.data -= 1
    y.sum().backward()
    np.testing.assert_allclose(x.grad.data, y.data)  # type: ignore[union-attr]


def test_of_a_product_with_a_constant_only_the_constant_is_guarded() -> None:
    x, c = weights(), tg.tensor([2.0, 5.0], name="c")
    y = (x * c / 2).sum()
    x.data -= 1
    y.backward()
    assert x.grad is not None and x.grad.tolist() == [[1.0, 2.5], [1.0, 2.5]]
    c.data -= 1
    with pytest.raises(MutationError, match="'c'"):
        y.backward()


def test_an_optimizers_update_after_backward_is_fine() -> None:
    x = weights()
    for _ in range(3):
        loss = (x * x).sum()
        loss.backward()
        assert x.grad is not None
        x.data -= 0.25 * x.grad.data
        x.zero_grad()
    np.testing.assert_allclose(x.data, np.array([[1, 2], [3, 4]]) / 8)


def test_a_second_pass_after_an_update_is_an_error_and_changes_no_gradient() -> None:
    x = weights()
    loss = (x * x).sum()
    loss.backward()
    assert x.grad is not None
    before = x.grad.data.copy()
    x.data -= 0.1 * before
    with pytest.raises(MutationError):
        loss.backward()
    np.testing.assert_array_equal(x.grad.data, before)


def test_a_write_between_two_graphs_touches_only_the_first() -> None:
    x = weights()
    old = (x * x).sum()
    x.data -= 1
    new = (x * x).sum()
    new.backward()
    assert x.grad is not None and x.grad.tolist() == [[0.0, 2.0], [4.0, 6.0]]
    with pytest.raises(MutationError):
        old.backward()


def test_writes_to_an_unrelated_tensor_are_no_matter() -> None:
    x, other = weights(), weights()
    loss = (x * x).sum()
    other.data -= 1
    loss.backward()


@pytest.mark.parametrize(
    "f",
    [
        lambda x, w: x @ w,
        lambda x, w: tg.linear(x, w, activation="gelu"),
        lambda x, w: tg.layer_norm(x, w[0]),
        lambda x, w: tg.attention(x, w, w),
        lambda x, w: x / w,
        lambda x, w: x**w,
        lambda x, w: tg.maximum(x, w),
    ],
    ids="matmul linear layer_norm attention divide power maximum".split(),
)
def test_fused_and_binary_operations_guard_their_weights(
    f: Callable[[tg.Tensor, tg.Tensor], tg.Tensor],
) -> None:
    x, w = weights(), tg.tensor([[2.0, 1.0], [0.5, 1.5]], requires_grad=True, name="w")
    loss = f(x, w).sum()
    w.data += 1
    with pytest.raises(MutationError, match="changed after"):
        loss.backward()
    assert x.grad is None and w.grad is None


def test_ids_of_an_embedding_are_guarded() -> None:
    table = weights()
    ids = tg.tensor([0, 1], dtype=int, name="ids")
    loss = tg.embedding(ids, table).sum()
    ids.data[:] = 0
    ids.data = ids.data
    with pytest.raises(MutationError, match="'ids'"):
        loss.backward()


def test_an_index_may_be_changed_after_it_was_used() -> None:
    x = weights()
    at = np.array([0, 0])
    loss = x[at].sum() + x[:, at].sum()
    at[:] = 1
    loss.backward()
    assert x.grad is not None and x.grad.tolist() == [[4.0, 2.0], [2.0, 0.0]]


def test_higher_derivatives_and_jvp_find_writes_too() -> None:
    x = weights()
    y = (x * x).sum()
    x.data -= 1
    with pytest.raises(MutationError):
        y.backward(create_graph=True)

    def f(a: tg.Tensor) -> tg.Tensor:
        y = a * a
        a.data -= 1
        return y.sum()

    with pytest.raises(MutationError):
        tg.grad(f)(np.ones(2))
    with pytest.raises(MutationError):
        tg.jvp(f, np.ones(2), np.ones(2))


def test_a_silent_write_is_found_under_detect_anomaly() -> None:
    x = weights()
    with tg.detect_anomaly():
        loss = (x * x).sum()
    x.data[0] = 7.0
    with pytest.raises(MutationError, match=r"'weights'.*multiply used it at .*test_mutation.py"):
        loss.backward()
    assert x.grad is None


def test_a_silent_write_to_what_no_rule_named_is_fine_under_detect_anomaly() -> None:
    x = weights()
    with tg.detect_anomaly():
        loss = (x + 1).sum()
        x.data[0] = 7.0
        loss.backward()


def test_data_keeps_its_shape() -> None:
    x = weights()
    with pytest.raises(ShapeError, match=r"'weights'.data has shape \(2, 2\).*become \(4,\)"):
        x.data = np.ones(4)
    assert x.data.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_writing_by_index_into_a_tensor_is_refused_with_the_way_out() -> None:
    with pytest.raises(GraphError, match=r"t\[index\] = value.*tg\.where.*t\.data\[index\]"):
        weights()[0] = 1.0  # type: ignore[index]


def test_a_write_is_found_through_any_tensor_that_shares_the_array() -> None:
    raw = np.array([2.0, 3.0])
    a, b = tg.Tensor(raw, requires_grad=True), tg.Tensor(raw, requires_grad=True)
    y = (b * b).sum()
    a.data -= 1
    with pytest.raises(MutationError):
        y.backward()
    c = tg.tensor([5.0, 6.0], requires_grad=True, dtype=float)
    c.data = raw
    z = (c * c).sum()
    b.data *= 2
    with pytest.raises(MutationError):
        z.backward()


def test_writes_are_forgotten_with_the_memory_they_were_made_to() -> None:
    from tinygrad_edu.autograd import writes

    before = len(writes._writes)
    for _ in range(100):
        t = tg.tensor([1.0])
        t.data -= 1
        del t
    assert len(writes._writes) <= before + 1
