"""Each optimizer, number for number: against its formula in plain Python, and against torch.

The plain form below is written from the papers and PyTorch's documentation with Python floats, one
weight at a time, so it shares nothing with the in-place array code it judges.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import optim

STEPS = 50
SHAPES = [(), (7,), (3, 5), (2, 3, 4)]

SGD_OPTIONS: list[dict[str, Any]] = [
    {"lr": 0.05},
    {"lr": 0.05, "weight_decay": 0.1},
    {"lr": 0.05, "momentum": 0.9},
    {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.1},
    {"lr": 0.05, "momentum": 0.8, "dampening": 0.3},
    {"lr": 0.05, "momentum": 0.8, "dampening": 0.3, "weight_decay": 0.1},
    {"lr": 0.05, "momentum": 0.8, "dampening": 0.3, "weight_decay": 0.1, "maximize": True},
    {"lr": 0.05, "momentum": 0.9, "nesterov": True},
    {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1, "maximize": True},
    {"lr": 0.05, "maximize": True},
]
ADAM_OPTIONS: list[dict[str, Any]] = [
    {},
    {"lr": 0.02},
    {"lr": 0.02, "betas": (0.7, 0.9)},
    {"lr": 0.02, "eps": 1e-2},
    {"lr": 0.02, "weight_decay": 0.1},
    {"lr": 0.02, "weight_decay": 0.1, "amsgrad": True},
    {"lr": 0.02, "weight_decay": 0.1, "maximize": True},
    {"lr": 0.02, "amsgrad": True, "betas": (0.5, 0.6)},
]
CASES = [
    *(("SGD", options) for options in SGD_OPTIONS),
    *(("Momentum", options) for options in SGD_OPTIONS[:2]),
    *(("Adam", options) for options in ADAM_OPTIONS),
    *(("AdamW", options) for options in ADAM_OPTIONS),
]


def starting_weights(dtype: Any) -> list[Any]:
    rng = np.random.default_rng(1)
    return [np.asarray(rng.normal(size=shape), dtype=dtype) for shape in SHAPES]


def gradients(step: int, dtype: Any) -> list[Any]:
    """Independent of the weights, so that rounding in one step does not grow in the next."""
    rng = np.random.default_rng(100 + step)
    return [np.asarray(rng.normal(size=shape), dtype=dtype) for shape in SHAPES]


def ours(rule: str, options: dict[str, Any], dtype: Any) -> list[list[Any]]:
    parameters = [tg.Tensor(w.copy(), requires_grad=True) for w in starting_weights(dtype)]
    optimizer = getattr(optim, rule)(parameters, **options)
    path = []
    for step in range(STEPS):
        for parameter, gradient in zip(parameters, gradients(step, dtype), strict=True):
            parameter.grad = tg.Tensor(gradient)
        optimizer.step()
        path.append([parameter.data.copy() for parameter in parameters])
    return path


def plain(rule: str, options: dict[str, Any]) -> list[list[Any]]:
    """The same path with Python floats."""
    weights = [w.reshape(-1).tolist() for w in starting_weights(np.float64)]
    memories: list[list[dict[str, float]]] = [[{} for _ in w] for w in weights]
    move = plain_sgd if rule in ("SGD", "Momentum") else plain_adam
    options = {"momentum": 0.9, **options} if rule == "Momentum" else dict(options)
    if move is plain_adam:
        options["decoupled"] = rule == "AdamW"
        options.setdefault("weight_decay", 0.01 if rule == "AdamW" else 0.0)
    path = []
    for step in range(STEPS):
        for w, memory, g in zip(weights, memories, gradients(step, np.float64), strict=True):
            for i, gi in enumerate(g.reshape(-1).tolist()):
                w[i] = move(w[i], gi, memory[i], step + 1, **options)
        path.append([np.reshape(w, shape) for w, shape in zip(weights, SHAPES, strict=True)])
    return path


def plain_sgd(
    w: float,
    g: float,
    memory: dict[str, float],
    t: int,
    lr: float = 1e-3,
    momentum: float = 0.0,
    dampening: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
    maximize: bool = False,
) -> float:
    d = (-g if maximize else g) + weight_decay * w
    if momentum:
        memory["b"] = d if t == 1 else momentum * memory["b"] + (1 - dampening) * d
        d = d + momentum * memory["b"] if nesterov else memory["b"]
    return w - lr * d


def plain_adam(
    w: float,
    g: float,
    memory: dict[str, float],
    t: int,
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    amsgrad: bool = False,
    maximize: bool = False,
    decoupled: bool = False,
) -> float:
    g = -g if maximize else g
    if decoupled:
        w = w - lr * weight_decay * w
    else:
        g = g + weight_decay * w
    memory["m"] = betas[0] * memory.get("m", 0.0) + (1 - betas[0]) * g
    memory["v"] = betas[1] * memory.get("v", 0.0) + (1 - betas[1]) * g * g
    memory["vmax"] = max(memory.get("vmax", 0.0), memory["v"])
    v = memory["vmax"] if amsgrad else memory["v"]
    m_hat = memory["m"] / (1 - betas[0] ** t)
    v_hat = v / (1 - betas[1] ** t)
    return w - lr * m_hat / (math.sqrt(v_hat) + eps)


@pytest.mark.parametrize(("rule", "options"), CASES)
def test_fifty_steps_equal_the_formula(rule: str, options: dict[str, Any]) -> None:
    for step, (got, wanted) in enumerate(
        zip(ours(rule, options, np.float64), plain(rule, options), strict=True)
    ):
        for g, w in zip(got, wanted, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-12, atol=1e-13, err_msg=f"step {step}")


@pytest.mark.parametrize(("rule", "options"), CASES)
def test_float32_stays_float32_and_follows_the_formula_to_its_rounding(
    rule: str, options: dict[str, Any]
) -> None:
    for got, wanted in zip(ours(rule, options, np.float32), plain(rule, options), strict=True):
        for g, w in zip(got, wanted, strict=True):
            assert g.dtype == np.float32
            np.testing.assert_allclose(g, w, rtol=2e-5, atol=2e-5)


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("rule", "options"), CASES)
def test_fifty_steps_equal_torch(rule: str, options: dict[str, Any], dtype: str) -> None:
    torch = pytest.importorskip("torch", reason="torch, the judge, is not installed")
    if rule == "Momentum":
        torch_rule, torch_options = "SGD", {"momentum": 0.9, **options}
    else:
        torch_rule, torch_options = rule, options
    parameters = [torch.nn.Parameter(torch.tensor(w)) for w in starting_weights(dtype)]
    optimizer = getattr(torch.optim, torch_rule)(parameters, **torch_options)
    tight = {"float64": 1e-13, "float32": 2e-6}[dtype]
    for step, got in enumerate(ours(rule, options, np.dtype(dtype))):
        for parameter, gradient in zip(parameters, gradients(step, dtype), strict=True):
            parameter.grad = torch.tensor(gradient)
        optimizer.step()
        for g, w in zip(got, parameters, strict=True):
            np.testing.assert_allclose(g, w.detach().numpy(), rtol=tight, atol=tight)


VARIED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}, {"lr": 0.2}),
    ("SGD", {"lr": 0.1}, {"momentum": 0.5}),
    ("SGD", {"lr": 0.1}, {"weight_decay": 0.1}),
    ("SGD", {"lr": 0.1}, {"maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.5}, {"dampening": 0.5}),
    ("SGD", {"lr": 0.1, "momentum": 0.5}, {"nesterov": True}),
    ("Momentum", {"lr": 0.1}, {"momentum": 0.5}),
    *(
        (rule, {}, change)
        for rule in ("Adam", "AdamW")
        for change in (
            {"lr": 0.1},
            {"betas": (0.5, 0.999)},
            {"betas": (0.9, 0.5)},
            {"eps": 0.1},
            {"weight_decay": 0.3},
            {"maximize": True},
        )
    ),
    ("Adam", {"betas": (0.9, 0.5)}, {"amsgrad": True}),
    ("AdamW", {"betas": (0.9, 0.5)}, {"amsgrad": True}),
]


@pytest.mark.parametrize(("rule", "base", "change"), VARIED)
def test_every_option_matters(rule: str, base: dict[str, Any], change: dict[str, Any]) -> None:
    before = ours(rule, base, np.float64)[-1]
    after = ours(rule, {**base, **change}, np.float64)[-1]
    for b, a in zip(before, after, strict=True):
        assert not np.allclose(b, a, rtol=1e-6, atol=1e-9)


def test_the_variations_cover_every_option() -> None:
    for rule in ("SGD", "Momentum", "Adam", "AdamW"):
        known = set(getattr(optim, rule)([tg.tensor([1.0])]).defaults)
        varied = {name for r, _, change in VARIED for name in change if r == rule}
        if rule == "Momentum":
            varied |= {name for r, _, change in VARIED for name in change if r == "SGD"}
        assert known == varied


def test_adam_and_adamw_differ_only_by_their_decay() -> None:
    for decay, same in ((0.0, True), (0.1, False)):
        options = {"lr": 0.1, "weight_decay": decay}
        l2, decoupled = (ours(rule, options, np.float64)[-1] for rule in ("Adam", "AdamW"))
        for a, b in zip(l2, decoupled, strict=True):
            assert np.allclose(a, b, rtol=1e-12) == same
