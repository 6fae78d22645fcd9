"""What a backward pass does: seeds, repeated passes, freeing, hooks, whose memory a gradient is."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu.errors import DTypeError, GraphError, ShapeError


def leaf(*values: float, name: str | None = None) -> tg.Tensor:
    return tg.tensor(list(values), requires_grad=True, name=name)


def grad_of(x: tg.Tensor) -> np.ndarray:
    assert x.grad is not None
    assert isinstance(x.grad.data, np.ndarray)
    return x.grad.data


# Seeds.


def test_one_number_needs_no_seed() -> None:
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    assert grad_of(x).tolist() == [2.0, 4.0]


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_one_number_of_any_rank_needs_no_seed(shape: tuple[int, ...]) -> None:
    x = tg.ones(shape, requires_grad=True)
    (x * 3).backward()
    assert grad_of(x).shape == shape
    assert grad_of(x).item() == 3.0


def test_many_numbers_without_a_seed_are_refused_with_what_to_do() -> None:
    y = leaf(1.0, 2.0) * 2
    with pytest.raises(GraphError, match=r"result of multiply of shape \(2,\) needs a gradient"):
        y.backward()
    with pytest.raises(GraphError, match=r"\.sum\(\), \.mean\(\).*gradient="):
        y.backward()


def test_a_seed_of_the_wrong_shape_is_refused_with_both_shapes() -> None:
    y = leaf(1.0, 2.0, name="x") * 2
    with pytest.raises(ShapeError, match=r"shape \(2,\) was given a gradient of shape \(3,\)"):
        y.backward([1.0, 2.0, 3.0])
    with pytest.raises(ShapeError, match=r"shape \(1,\)"):
        y.backward(np.ones(1))


@pytest.mark.parametrize(
    "seed", [[3.0, 5.0], np.array([3.0, 5.0]), np.array([3, 5]), tg.tensor([3.0, 5.0])], ids=repr
)
def test_a_seed_may_be_a_list_an_array_or_a_tensor(seed: Any) -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    y.backward(seed)
    assert grad_of(x).tolist() == [6.0, 10.0]
    assert grad_of(y).tolist() == [3.0, 5.0]
    assert grad_of(x).dtype == grad_of(y).dtype == np.float32


def test_an_untracked_result_is_refused_by_name() -> None:
    with pytest.raises(GraphError, match=r"'loss', which is not tracked.*requires_grad=True"):
        tg.tensor(1.0, name="loss").backward()
    with tg.no_grad():
        y = leaf(1.0) * 2
    with pytest.raises(GraphError, match=r"no_grad\(\)"):
        y.backward()


def test_backward_on_a_leaf_gives_it_the_seed() -> None:
    x = tg.tensor(5.0, requires_grad=True)
    x.backward()
    x.backward()
    assert grad_of(x).item() == 2.0


# Repeated passes.


def test_a_second_pass_adds_to_leaves_and_starts_intermediates_afresh() -> None:
    a, b = tg.tensor(3.0, requires_grad=True), tg.tensor(2.0, requires_grad=True)
    c = a + b
    loss = c * c
    loss.backward()
    assert (grad_of(a).item(), grad_of(c).item()) == (10.0, 10.0)
    loss.backward()
    assert (grad_of(a).item(), grad_of(c).item(), grad_of(loss).item()) == (20.0, 10.0, 1.0)


def test_passes_of_two_losses_add_up_at_a_shared_leaf() -> None:
    x = leaf(1.0, 2.0)
    x.exp().sum().backward()
    (x * 3).sum().backward()
    np.testing.assert_allclose(grad_of(x), np.exp([1.0, 2.0]) + 3, rtol=1e-6)


def test_a_pass_over_part_of_a_graph_leaves_the_rest_as_it_was() -> None:
    x = tg.tensor(2.0, requires_grad=True)
    y = x * x
    z = y * 3
    z.backward()
    y.backward()
    assert grad_of(z).item() == 1.0
    assert grad_of(y).item() == 1.0
    assert grad_of(x).item() == 16.0


def test_accumulation_does_not_change_a_gradient_taken_before() -> None:
    x = leaf(1.0)
    (x * 2).sum().backward()
    first = x.grad
    (x * 2).sum().backward()
    assert first is not None and first.data.tolist() == [2.0]
    assert grad_of(x).tolist() == [4.0]


def test_zero_grad_makes_the_gradient_none() -> None:
    x = leaf(1.0)
    (x * 2).sum().backward()
    x.zero_grad()
    assert x.grad is None


def test_a_leaf_the_loss_does_not_depend_on_keeps_none() -> None:
    x, unused = leaf(1.0), leaf(1.0)
    aside = unused * 2
    x.sum().backward()
    assert unused.grad is None and aside.grad is None


def test_an_untracked_input_gets_no_gradient() -> None:
    x, c = leaf(1.0, 2.0), tg.tensor([3.0, 4.0])
    (x * c).sum().backward()
    assert c.grad is None
    assert grad_of(x).tolist() == [3.0, 4.0]


# Freeing.


def test_a_freed_graph_says_so_at_the_second_pass() -> None:
    x = leaf(1.0, 2.0)
    loss = (x * x).sum()
    loss.backward(retain_graph=False)
    before = grad_of(x).copy()
    with pytest.raises(
        GraphError, match=r"sum.*freed by an earlier backward\(retain_graph=False\).*retain_graph"
    ):
        loss.backward()
    np.testing.assert_array_equal(grad_of(x), before)


def test_a_freed_subgraph_says_so_in_another_loss_that_shares_it() -> None:
    x, w = leaf(1.0, 2.0), leaf(5.0, 5.0)
    shared = x.exp()
    first, second = shared.sum(), (shared * w).sum()
    first.backward(retain_graph=False)
    with pytest.raises(GraphError, match=r"the result of exp, made at .*test_backward.py:.*freed"):
        second.backward()
    assert w.grad is None


def test_a_freed_subgraph_says_so_when_used_by_a_new_operation() -> None:
    y = leaf(1.0, 2.0).exp()
    y.sum().backward(retain_graph=False)
    with pytest.raises(GraphError, match="freed"):
        (y * 2).sum().backward()


def test_freeing_gives_the_gradients_that_keeping_gives() -> None:
    def run(retain: bool) -> tuple[Any, Any]:
        x = tg.tensor([[0.3, -1.0], [2.0, 0.1]], requires_grad=True)
        h = x @ x
        (h.tanh() * h + x).mean().backward(retain_graph=retain)
        return grad_of(x).tolist(), h.grad

    kept, freed = run(True), run(False)
    assert kept[0] == freed[0]
    assert kept[1] is not None
    assert freed[1] is None


def test_freeing_forgets_the_gradients_of_an_earlier_kept_pass() -> None:
    x = leaf(2.0)
    y = x * x
    z = (y * y).sum()
    z.backward()
    assert y.grad is not None
    z.backward(retain_graph=False)
    assert y.grad is None and z.grad is None


def test_freeing_lets_each_node_and_its_data_go_while_the_pass_runs() -> None:
    x = tg.randn(4, requires_grad=True)
    first = x.exp()
    second = first.sin()
    third = second.cos()
    loss = third.sum()
    watched = [weakref.ref(second), weakref.ref(third)]
    arrays = [weakref.ref(second.data), weakref.ref(third.data)]
    alive: list[Any] = []
    first.register_hook(lambda g: alive.extend([r() for r in (*watched, *arrays)]))
    del second, third
    loss.backward(retain_graph=False)
    assert alive == [None] * 4


def test_keeping_keeps_them() -> None:
    x = tg.randn(4, requires_grad=True)
    loss = x.exp().sin().sum()
    loss.backward()
    middle = loss.inputs[0]
    assert middle.op.name == "sin" and middle.grad is not None


# create_graph.


def test_create_graph_makes_gradients_that_can_be_differentiated() -> None:
    x = tg.tensor(2.0, requires_grad=True)
    (x * x * x).backward(create_graph=True)
    g = x.grad
    assert g is not None and g.item() == 12.0 and g.requires_grad
    x.grad = None
    g.backward()
    assert grad_of(x).item() == 12.0


def test_without_create_graph_gradients_are_not_tracked() -> None:
    x = tg.tensor(2.0, requires_grad=True)
    y = x * x
    y.backward()
    assert x.grad is not None and not x.grad.requires_grad
    assert y.grad is not None and not y.grad.requires_grad


def test_a_gradient_penalty_trains_through_the_gradient() -> None:
    # d/dw of (d/dx of w x²)² = (2 w x)² is 8 w x².
    w, x = tg.tensor(3.0, requires_grad=True), tg.tensor(2.0, requires_grad=True)
    (w * x * x).backward(create_graph=True)
    g = x.grad
    assert g is not None
    w.zero_grad()
    (g * g).backward()
    assert grad_of(w).item() == 96.0


def test_create_graph_adds_to_what_leaves_hold() -> None:
    x = tg.tensor(2.0, requires_grad=True)
    (x * 3).backward()
    (x * x).backward(create_graph=True)
    assert grad_of(x).item() == 7.0
    assert x.grad is not None and x.grad.requires_grad


def test_create_graph_works_inside_no_grad() -> None:
    x = tg.tensor(2.0, requires_grad=True)
    y = x**3
    with tg.no_grad():
        y.backward(create_graph=True)
    assert x.grad is not None and x.grad.requires_grad


# Hooks.


def test_hooks_run_in_the_order_they_were_registered_and_pass_on_what_they_return() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    seen: list[list[float]] = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.sum().backward()
    assert seen == [[1.0, 1.0], [10.0, 10.0]]
    assert grad_of(y).tolist() == [10.0, 10.0]
    assert grad_of(x).tolist() == [20.0, 20.0]


def test_a_hook_on_a_leaf_sees_this_pass_alone_and_can_replace_it() -> None:
    x = leaf(1.0)
    seen: list[float] = []

    def halve(g: tg.Tensor) -> tg.Tensor:
        seen.append(g.item())
        return g * 0.5

    x.register_hook(halve)
    (x * 4).sum().backward()
    (x * 4).sum().backward()
    assert seen == [4.0, 4.0]
    assert grad_of(x).tolist() == [4.0]


def test_a_hook_is_called_once_with_the_whole_gradient() -> None:
    x = leaf(1.0)
    y = x * 1
    seen: list[float] = []
    y.register_hook(lambda g: seen.append(g.item()))
    (y * 2 + y * 3).sum().backward()
    assert seen == [5.0]


def test_a_hook_that_returns_another_shape_is_refused_and_changes_nothing() -> None:
    x = leaf(1.0, 2.0, name="x")
    w = leaf(1.0, 2.0)
    y = x * w
    y.name = "hidden"
    y.register_hook(lambda g: g.sum())
    with pytest.raises(ShapeError, match=r"hook on 'hidden' of shape \(2,\).*shape \(\)"):
        y.sum().backward()
    assert x.grad is None and w.grad is None and y.grad is None


def test_a_removed_hook_is_not_called() -> None:
    x = leaf(1.0)
    seen: list[int] = []
    remove = x.register_hook(lambda g: seen.append(1))
    x.register_hook(lambda g: seen.append(2))
    remove()
    remove()
    x.sum().backward()
    assert seen == [2]


def test_a_hook_registered_twice_is_removed_once_a_call() -> None:
    x = leaf(1.0)
    seen: list[int] = []

    def hook(g: tg.Tensor) -> None:
        seen.append(1)

    first, second = x.register_hook(hook), x.register_hook(hook)
    first()
    x.sum().backward()
    assert seen == [1]
    second()
    x.sum().backward()
    assert seen == [1]


def test_hooks_run_in_tg_grad_and_under_create_graph() -> None:
    def f(x: tg.Tensor) -> tg.Tensor:
        y = x * x
        y.register_hook(lambda g: g * 3)
        return y.sum()

    assert tg.grad(f)(tg.tensor([2.0])).tolist() == [12.0]
    x = leaf(2.0)
    f(x).backward(create_graph=True)
    assert grad_of(x).tolist() == [12.0]


def test_a_hook_on_an_untracked_tensor_is_refused() -> None:
    with pytest.raises(GraphError, match="not tracked"):
        tg.tensor(1.0).register_hook(lambda g: g)


def test_a_hook_that_fails_changes_no_gradient() -> None:
    x, w = leaf(1.0), leaf(2.0)
    (x * w).sum().backward()
    y = x * 5

    def fail(g: tg.Tensor) -> None:
        raise KeyError("mine")

    y.register_hook(fail)
    loss = (y + w.exp()).sum()
    with pytest.raises(KeyError, match="mine"):
        loss.backward()
    assert grad_of(x).tolist() == [2.0] and grad_of(w).tolist() == [1.0]
    assert loss.grad is None


# Whose memory a gradient is.


def share(*arrays: np.ndarray) -> bool:
    return any(
        np.shares_memory(a, b) for i, a in enumerate(arrays) for b in arrays[i + 1 :]
    )


def test_gradients_of_a_sum_share_no_memory() -> None:
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (x + y).sum().backward()
    assert not share(grad_of(x), grad_of(y))
    x.grad.data[0] = 100.0  # type: ignore[union-attr]
    assert grad_of(y).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x + 0,
        lambda x: x.reshape(2, 1),
        lambda x: x.T,
        lambda x: x.T.reshape(1, 2),
        lambda x: x[:],
        lambda x: tg.concatenate([x, x]),
        lambda x: tg.stack([x, x]),
        lambda x: x.astype(np.float64),
        lambda x: tg.broadcast_to(x, (3, 2)),
        lambda x: tg.linear(tg.ones(1, 2), tg.eye(2), residual=x.reshape(1, 2)),
        lambda x: x,
    ],
    ids="add reshape transpose both slice cat stack astype broadcast linear leaf".split(),
)
def test_a_seed_is_copied_and_never_becomes_a_gradient(f: Any) -> None:
    x = leaf(1.0, 2.0)
    y = f(x)
    seed = np.ones(y.shape, dtype=y.dtype)
    y.backward(seed)
    assert not share(grad_of(x), seed)
    assert grad_of(x).flags.writeable
    assert y is x or not share(grad_of(y), seed)
    assert y is x or not share(grad_of(x), grad_of(y))


def test_a_leafs_gradient_may_be_written_to_and_an_intermediates_may_not() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    (y * y).sum().backward()
    grad_of(x)[:] = 0
    with pytest.raises(ValueError, match="read-only"):
        grad_of(y)[:] = 0


def test_gradients_of_tg_grad_share_no_memory() -> None:
    x, y = np.ones(3), np.ones(3)
    dx, dy = tg.grad(lambda a, b: (a + b).sum(), argnums=(0, 1))(x, y)
    assert not share(dx.data, dy.data, x, y)
    _, pull = tg.vjp(lambda a, b: a + b, x, y)
    seed = np.ones(3)
    assert not share(*[g.data for g in pull(seed)], seed)


# dtypes.


def test_each_gradient_has_the_dtype_of_its_input() -> None:
    x = tg.tensor([1.0, 2.0], requires_grad=True, dtype=np.float32)
    w = tg.tensor([3.0, 4.0], requires_grad=True, dtype=np.float64)
    h = tg.tensor([5.0, 6.0], requires_grad=True, dtype=np.float16)
    y = x * w * h
    assert y.dtype == np.float64
    y.sum().backward()
    assert [grad_of(t).dtype for t in (x, w, h)] == [np.float32, np.float64, np.float16]
    assert y.grad is not None and y.grad.dtype == np.float64


@pytest.mark.parametrize("dtype", [int, bool, np.uint8])
def test_integers_cannot_be_tracked(dtype: Any) -> None:
    with pytest.raises(DTypeError, match=r"requires_grad=True on a tensor of .*floating.*float32"):
        tg.tensor([1, 0], dtype=dtype, requires_grad=True)
    with pytest.raises(DTypeError, match="no gradient"):
        tg.tensor([1, 0], dtype=dtype).requires_grad_()


def test_integers_tracked_by_setting_the_attribute_are_found_by_backward() -> None:
    ids = tg.tensor([1, 2], dtype=int, name="ids")
    ids.requires_grad = True
    w = leaf(1.0, 1.0)
    with pytest.raises(DTypeError, match="'ids' is of int64"):
        (ids * w).sum().backward()
    assert ids.grad is None and w.grad is None


def test_only_a_leaf_can_stop_being_tracked() -> None:
    x = leaf(1.0)
    with pytest.raises(GraphError, match=r"detach\(\)"):
        (x * 2).requires_grad_(False)
    assert not x.requires_grad_(False).requires_grad


# Assigning a gradient.


def test_a_gradient_can_be_assigned_and_is_added_to() -> None:
    x = leaf(1.0, 2.0)
    x.grad = [10.0, 20.0]  # type: ignore[assignment]
    (x * 2).sum().backward()
    assert grad_of(x).tolist() == [12.0, 22.0]


@pytest.mark.parametrize("value", [[1.0], np.ones((2, 1)), tg.tensor(1.0)], ids=repr)
def test_a_gradient_of_another_shape_cannot_be_assigned(value: Any) -> None:
    x = leaf(1.0, 2.0, name="weights")
    with pytest.raises(ShapeError, match=r"'weights' has shape \(2,\).*cannot have shape"):
        x.grad = value
    assert x.grad is None


@pytest.mark.parametrize("value", [np.ones(2), tg.tensor(np.ones(2)), [1, 1]], ids=repr)
def test_an_assigned_gradient_takes_the_dtype_of_its_tensor(value: Any) -> None:
    x = leaf(1.0, 2.0)
    x.grad = value
    assert grad_of(x).dtype == np.float32


# Detaching.


def test_detach_cuts_the_history_and_shares_the_numbers() -> None:
    x = leaf(1.0, 2.0, name="x")
    y = x.exp()
    z = y.detach()
    assert not z.requires_grad and z.is_leaf and z.inputs == ()
    assert np.shares_memory(y.data, z.data)
    (z * x).sum().backward()
    np.testing.assert_allclose(grad_of(x), np.exp([1.0, 2.0]), rtol=1e-6)


def test_a_copy_of_a_tracked_tensor_is_refused_where_it_would_lose_its_history() -> None:
    x = leaf(1.0)
    with pytest.raises(GraphError, match=r"tensor\(\) copies.*result of multiply.*detach\(\)"):
        tg.tensor(x * 2)
    copy = tg.tensor(x.detach())
    assert not np.shares_memory(copy.data, x.data)


def test_numpy_and_item_of_a_tracked_tensor() -> None:
    x = leaf(2.0, name="x")
    with pytest.raises(GraphError, match=r"'x' is tracked.*\.detach\(\)\.numpy\(\)"):
        x.numpy()
    assert x.item() == 2.0 and x.tolist() == [2.0]
    assert x.detach().numpy().tolist() == [2.0]
