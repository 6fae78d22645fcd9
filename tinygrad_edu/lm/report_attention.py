"""Where each head of a model looks: the attention weights of a text, of any model.

They are read off the graph of a forward pass: each node that an attention made has its queries and
keys as inputs, and a node knows the module that made it. With the identity as its values an
attention gives its weights: softmax(q kᵀ·scale + mask) I.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tinygrad_edu as tg
from tinygrad_edu import nn
from tinygrad_edu.graph import topological_order
from tinygrad_edu.lm.evaluation import evaluating
from tinygrad_edu.lm.sampling import Ids

Weights = NDArray[np.float64]


def attention_weights(model: nn.Module, ids: Ids) -> dict[str, Weights]:
    """Ids (B, T) -> for each attention, by its module's path, weights (B, H, T, T).

    [b, h, t, s] is how much position t takes of what position s has; a row sums to 1. The order is
    that of the forward pass. Nothing drops out, and no gradient is touched.
    """
    with _tracked(model), evaluating(model), tg.enable_grad():
        root = model(ids)
        found = {}
        for node in topological_order(root):
            word = getattr(node.op, "name", "")
            if word in ("attention", "packed_attention"):
                _, _, path = node.module.partition(".")
                found[path or node.module] = _weights_of(node, word)
    return found


@contextlib.contextmanager
def _tracked(model: nn.Module) -> Iterator[None]:
    """Inside, a frozen parameter is tracked as well: without one there would be no graph."""
    before = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    try:
        for parameter, _ in before:
            parameter.requires_grad = True
        yield
    finally:
        for parameter, tracked in before:
            parameter.requires_grad = tracked


def _weights_of(node: Any, word: str) -> Weights:
    """(B, H, T, S); heads that share their keys, (B, G, H/G, T, S), stand in one row."""
    options = {name: node._params[name] for name in ("causal", "scale")}
    if word == "packed_attention":
        packed, *mask = node.inputs
        batch, length, width = packed.shape
        heads = node._params["num_heads"]
        parts = packed.detach().numpy().reshape(batch, length, 3, heads, width // (3 * heads))
        q, k = parts.transpose(2, 0, 3, 1, 4)[:2]
    else:
        q, k, _, *mask = node.inputs
        q, k = q.detach().numpy(), k.detach().numpy()
    identity = np.eye(k.shape[-2], dtype=q.dtype)
    with tg.no_grad():
        weights = tg.attention(q, k, identity, mask=mask[0] if mask else None, **options).numpy()
    shape = (weights.shape[0], -1, *weights.shape[-2:])
    return np.asarray(weights, np.float64).reshape(shape)
