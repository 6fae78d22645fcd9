"""Two engines, one answer: primitives on arrays of Value, one node a number, against Tensor.

The named set of operations runs forwards through its references on objects; `Value.backward()`
gives the gradients. The scalar engine shares no rule with the tables.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine.derivatives.cases import EVERY, Case

import tinygrad_edu as tg
from tinygrad_edu.autograd.apply import apply
from tinygrad_edu.ops import Primitive
from tinygrad_edu.scalar import arrays

# Arithmetic, powers, functions, sums, products, shapes, indexing, and what is fused from them.
NAMED = set(
    """
    add subtract multiply divide negative power power_constant exp log log1p expm1 sqrt tanh sin cos
    sigmoid relu abs maximum minimum clip where erf gelu identity sum mean var max min logsumexp
    softmax log_softmax matmul reshape transpose swapaxes expand_dims squeeze broadcast_to
    concatenate stack getitem linear layer_norm rms_norm rotary cross_entropy attention
    packed_attention embedding dropout
    """.split()
)
# Parts of backward rules, which Values do not need; a dtype, which they do not have; a flat line.
LEFT_OUT = {"absorb", "scatter_add", "embedding_rows", "cast", "copy", "sign"}
# Beyond the operations that the scalar engine is for: calculus is checked by oracles instead.
BEYOND = set(
    """
    tan arcsin arccos arctan arctan2 sinh cosh arcsinh arccosh arctanh exp2 log2 log10 logaddexp
    xlogy square reciprocal cbrt hypot sinc sinc_derivative erfc round floor ceil trunc softplus
    log_sigmoid silu mish elu selu leaky_relu softsign flip roll pad set_at cumsum cumprod prod
    std norm einsum inv solve det cofactors logabsdet cholesky eigh svd qr
    windows joined_windows floor_divide remainder
    """.split()
)


def test_every_primitive_is_named_or_left_out_with_a_reason() -> None:
    from tinygrad_edu.ops import registry

    assert set(registry) == NAMED | LEFT_OUT | BEYOND
    assert len(registry) == len(NAMED) + len(LEFT_OUT) + len(BEYOND)


def on_values(primitive: Primitive, inputs: list[Any], params: dict[str, Any]) -> Any:
    """The primitive on arrays of Values: its reference where it has one."""
    function = primitive.reference or primitive.forward
    return function(arrays.F, *inputs, **params)


@pytest.mark.parametrize("case", [c for c in EVERY if c.name in NAMED], ids=str)
def test_two_engines_agree(case: Case) -> None:
    inputs = case.inputs()
    moving = case.floating(inputs)
    leaves = [tg.Tensor(x, requires_grad=True) if i in moving else x for i, x in enumerate(inputs)]
    out = apply(case.primitive, *leaves, **case.params)
    g = np.random.default_rng(0).choice([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0], out.shape)
    out.backward(g)

    points = [arrays.values(x) if i in moving else x for i, x in enumerate(inputs)]
    result = on_values(case.primitive, points, case.params)
    assert np.shape(result) == out.shape
    near(arrays.data(result), out._data)
    total = arrays.sum(arrays.multiply(result, g))
    if out.size == 0:
        return
    total[()].backward()
    for i in moving:
        near(arrays.grad(points[i]), leaves[i].grad._data)


def near(found: Any, want: Any) -> None:
    assert found.shape == want.shape
    size = np.abs(want).max(initial=0)
    assert (np.abs(found - want) <= 1e-12 * max(size, 1e-3)).all()
