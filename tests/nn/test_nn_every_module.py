"""What holds for every module: gradients, training, dtypes, saving, copying, opening.

`CASES` has to name every module that `tinygrad_edu.nn` exports, or the first test fails.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu import nn, optim

HOLDERS = {"Module", "ModuleList", "ModuleDict"}  # they compute nothing themselves


@dataclass(frozen=True)
class Case:
    """A module, what to call it with, and which elements of its parameters have gradient 0."""

    make: Callable[[], Any]
    inputs: Callable[[], tuple[Any, ...]]
    # name of a parameter -> (why, index of the elements that get no gradient)
    untouched: dict[str, tuple[str, Any]] = field(default_factory=dict)
    # a row of `weight` that the output does depend on, and that has gradient 0 by definition
    padding: int | None = None


def x(*shape: int, seed: int = 0) -> Callable[[], tuple[Any, ...]]:
    """One tracked float64 input."""

    def inputs() -> tuple[Any, ...]:
        data = np.random.default_rng(seed).normal(size=shape)
        return (tg.Tensor(data, requires_grad=True, name="x"),)

    return inputs


def masked() -> tuple[Any, ...]:
    mask = np.array([[True, False, True], [True, True, False], [False, True, True]])
    return (*x(2, 3, 4)(), mask)


KEY_BIAS = "the key bias adds one number to all scores of a row, which softmax does not see"
IDS = np.array([[1, 4, 1], [2, 0, 4]])

def adapted() -> nn.LoRALinear:
    layer = nn.LoRALinear(nn.Linear(4, 3), rank=2, alpha=4.0)
    nn.init.normal_(layer.lora_B)  # 0 at first: then A has gradient 0
    return layer


CASES: dict[str, Case] = {
    "LoRALinear": Case(adapted, x(2, 5, 4)),
    "Linear": Case(lambda: nn.Linear(4, 3), x(2, 5, 4)),
    "Linear without bias": Case(lambda: nn.Linear(4, 3, bias=False), x(5, 4)),
    "Embedding": Case(
        lambda: nn.Embedding(6, 3),
        lambda: (IDS,),
        {"weight": ("rows 3 and 5 are not used", [3, 5])},
    ),
    "Embedding with padding": Case(
        lambda: nn.Embedding(6, 3, padding_idx=4),
        lambda: (IDS,),
        {"weight": ("rows 3 and 5 are not used, row 4 is padding", [3, 4, 5])},
        padding=4,
    ),
    "LearnedPositions": Case(
        lambda: nn.LearnedPositions(5, 4),
        x(2, 3, 4),
        {"weight": ("the input ends before positions 3 and 4", [3, 4])},
    ),
    "LayerNorm": Case(lambda: nn.LayerNorm(4), x(3, 4)),
    "LayerNorm over two axes": Case(lambda: nn.LayerNorm((2, 4)), x(3, 2, 4)),
    "LayerNorm without bias": Case(lambda: nn.LayerNorm(4, bias=False), x(3, 4)),
    "LayerNorm without weights": Case(lambda: nn.LayerNorm(4, elementwise_affine=False), x(3, 4)),
    "SinusoidalPositions": Case(lambda: nn.SinusoidalPositions(5, 4), x(2, 3, 4)),
    "RMSNorm": Case(lambda: nn.RMSNorm(4), x(3, 4)),
    "RMSNorm without weights": Case(
        lambda: nn.RMSNorm(4, elementwise_affine=False), x(2, 3, 4)
    ),
    "SwiGLU": Case(lambda: nn.SwiGLU(4, 6), x(2, 3, 4)),
    "SwiGLU with biases": Case(lambda: nn.SwiGLU(4, 3, bias=True), x(3, 4)),
    "GroupedQueryAttention": Case(lambda: nn.GroupedQueryAttention(8, 4, 2), x(2, 3, 8)),
    "GroupedQueryAttention of one head of keys": Case(
        lambda: nn.GroupedQueryAttention(8, 2, 1, theta=10.0), x(2, 3, 8)
    ),
    "GroupedQueryAttention with biases and no positions": Case(
        lambda: nn.GroupedQueryAttention(4, 2, bias=True, rotary=False, causal=False),
        x(2, 3, 4),
        {"k_proj.bias": (KEY_BIAS, slice(0, 4))},
    ),
    "GroupedQueryAttention with a mask": Case(
        lambda: nn.GroupedQueryAttention(4, 2, causal=False), masked
    ),
    "LlamaBlock": Case(lambda: nn.LlamaBlock(8, 4, 2, 6), x(2, 3, 8)),
    "Dropout": Case(lambda: nn.Dropout(0.5).eval(), x(3, 4)),
    "ReLU": Case(nn.ReLU, x(3, 4)),
    "GELU": Case(nn.GELU, x(3, 4)),
    "GELU by tanh": Case(lambda: nn.GELU("tanh"), x(3, 4)),
    "Tanh": Case(nn.Tanh, x(3, 4)),
    "Sigmoid": Case(nn.Sigmoid, x(3, 4)),
    "Softmax": Case(nn.Softmax, x(3, 4)),
    "Softmax over the first axis": Case(lambda: nn.Softmax(dim=0), x(3, 4)),
    "LogSoftmax": Case(nn.LogSoftmax, x(3, 4)),
    "Identity": Case(lambda: nn.Identity(54, unused=True), x(3, 4)),
    "Sequential": Case(lambda: nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)), x(3, 4)),
    "MLP": Case(lambda: nn.MLP(4, 6), x(3, 4)),
    "MLP of three layers": Case(lambda: nn.MLP(4, [5, 6], 2, activation="tanh"), x(3, 4)),
    "MultiHeadAttention": Case(
        lambda: nn.MultiHeadAttention(4, 2),
        x(2, 3, 4),
        {"qkv.bias": (KEY_BIAS, slice(4, 8))},
    ),
    "MultiHeadAttention without a future to hide": Case(
        lambda: nn.MultiHeadAttention(4, 2, causal=False, bias=False), x(2, 3, 4)
    ),
    "MultiHeadAttention with a mask": Case(
        lambda: nn.MultiHeadAttention(4, 2, causal=False),
        masked,
        {"qkv.bias": (KEY_BIAS, slice(4, 8))},
    ),
    "TransformerBlock": Case(
        lambda: nn.TransformerBlock(4, 2),
        x(2, 3, 4),
        {"attn.qkv.bias": (KEY_BIAS, slice(4, 8))},
    ),
    "TransformerBlock without biases": Case(
        lambda: nn.TransformerBlock(4, 2, 2, bias=False, activation="gelu_tanh"), x(2, 3, 4)
    ),
    "CrossEntropyLoss": Case(nn.CrossEntropyLoss, lambda: (*x(3, 4)(), np.array([0, 3, -100]))),
    "CrossEntropyLoss with weights and smoothing": Case(
        lambda: nn.CrossEntropyLoss(np.arange(1.0, 5.0), label_smoothing=0.1),
        lambda: (*x(3, 4)(), np.array([0, 3, -100])),
    ),
    "NLLLoss": Case(nn.NLLLoss, lambda: (*x(3, 4)(), np.array([0, 3, -100]))),
    **{
        name: Case(getattr(nn, name), lambda: (*x(3, 4)(), np.ones((3, 4), np.float32)))
        for name in ("MSELoss", "L1Loss", "HuberLoss", "SmoothL1Loss", "BCEWithLogitsLoss",
                     "HingeEmbeddingLoss")
    },
    "KLDivLoss": Case(nn.KLDivLoss, lambda: (*x(3, 4)(), np.full((3, 4), 0.25, np.float32))),
    "BCELoss": Case(
        nn.BCELoss, lambda: (tg.sigmoid(x(3, 4)()[0]), np.full((3, 4), 0.25, np.float32))
    ),
    **{
        name: Case(getattr(nn, name), x(3, 4))
        for name in ("ELU", "Hardtanh", "LeakyReLU", "LogSigmoid", "Mish", "SELU", "SiLU",
                     "Softplus", "Softsign")
    },
    "Flatten": Case(nn.Flatten, x(2, 3, 4)),
    "Conv1d": Case(lambda: nn.Conv1d(2, 3, 2, stride=2, padding=1), x(2, 2, 5)),
    "Conv1d in groups": Case(lambda: nn.Conv1d(2, 4, 3, padding="same", groups=2), x(2, 2, 5)),
    "Conv2d": Case(lambda: nn.Conv2d(2, 3, (2, 1), dilation=2, bias=False), x(2, 2, 4, 3)),
    "MaxPool1d": Case(lambda: nn.MaxPool1d(2), x(2, 2, 5)),
    "MaxPool2d": Case(lambda: nn.MaxPool2d((2, 3), 1, 1), x(2, 2, 4, 5)),
    "AvgPool1d": Case(lambda: nn.AvgPool1d(3, 1, 1), x(2, 2, 5)),
    "AvgPool2d": Case(lambda: nn.AvgPool2d(2, count_include_pad=False, padding=1), x(2, 2, 4, 5)),
}
NAMES = list(CASES)
TRAINED = [name for name in NAMES if list(CASES[name].make().parameters())]


def built(name: str, dtype: Any = np.float64) -> Any:
    """The case's module, with what is all 0 (biases) moved, so that nothing is special about it."""
    tg.manual_seed(3)
    module = CASES[name].make().to(dtype)
    rng = np.random.default_rng(4)
    for parameter in module.parameters():
        if not parameter.data.any():
            parameter.data = rng.normal(size=parameter.shape).astype(dtype)
    return module


def scored(output: Any) -> Any:
    """A scalar with a gradient that is different in each element of the output."""
    weights = np.random.default_rng(5).normal(size=output.shape).astype(output.dtype)
    return (output * weights).sum()


def differences(f: Callable[[], float], array: Any, step: float = 1e-6) -> Any:
    """df/d(element) by central differences, for every element of `array`."""
    result = np.empty_like(array)
    for index in np.ndindex(array.shape):
        before = array[index]
        values = []
        for shift in (step, -step):
            array[index] = before + shift
            values.append(f())
        array[index] = before
        result[index] = (values[0] - values[1]) / (2 * step)
    return result


def test_every_module_has_a_case() -> None:
    exported = {
        name
        for name in nn.__all__
        if isinstance(getattr(nn, name), type) and issubclass(getattr(nn, name), nn.Module)
    }
    assert exported - HOLDERS == {name.split(" ")[0] for name in CASES}


@pytest.mark.parametrize("name", NAMES)
def test_every_gradient_equals_differences(name: str) -> None:
    module, inputs = built(name), CASES[name].inputs()

    def loss() -> float:
        with tg.no_grad():
            return float(scored(module(*inputs)).item())

    scored(module(*inputs)).backward()
    tracked = dict(module.named_parameters())
    tracked |= {i: t for i, t in enumerate(inputs) if isinstance(t, tg.Tensor)}
    for label, tensor in tracked.items():
        wanted = differences(loss, tensor.data)
        if label == "weight" and CASES[name].padding is not None:
            wanted[CASES[name].padding] = 0
        np.testing.assert_allclose(
            tensor.grad.data, wanted, rtol=2e-6, atol=2e-8, err_msg=f"{label}"
        )


@pytest.mark.parametrize("name", TRAINED)
def test_every_parameter_gets_a_gradient_and_moves_but_where_listed(name: str) -> None:
    module, inputs = built(name), CASES[name].inputs()
    scored(module(*inputs)).backward()
    before = {key: p.data.copy() for key, p in module.named_parameters()}
    optim.SGD(module.parameters(), lr=0.1).step()
    for key, parameter in module.named_parameters():
        still = np.zeros(parameter.shape, dtype=bool)
        if key in CASES[name].untouched:
            still[CASES[name].untouched[key][1]] = True
        gradient = parameter.grad.data
        assert np.abs(gradient[still]).max(initial=0.0) < 1e-15, key
        assert np.abs(gradient[~still]).min(initial=np.inf) > 1e-9, key
        moved = np.abs(parameter.data - before[key]) > 1e-12
        assert np.array_equal(moved, ~still), key


@pytest.mark.parametrize("name", NAMES)
def test_float32_in_float32_out_and_in_every_gradient(name: str) -> None:
    module = built(name, np.float32)
    inputs = tuple(
        tg.Tensor(t.data.astype(np.float32), requires_grad=True) if isinstance(t, tg.Tensor) else t
        for t in CASES[name].inputs()
    )
    output = module(*inputs)
    assert output.dtype == np.float32
    if output.requires_grad:
        scored(output).backward()
    for parameter in module.parameters():
        assert parameter.grad.dtype == np.float32


@pytest.mark.parametrize("name", NAMES)
def test_opened_into_primitives_it_gives_the_same_output_and_gradients(name: str) -> None:
    results = []
    for opened in (False, True):
        module, inputs = built(name), CASES[name].inputs()
        if opened:
            with tg.unfused():
                output = module(*inputs)
        else:
            output = module(*inputs)
        scored(output).backward()
        found = [output.data, *(p.grad.data for p in module.parameters())]
        results.append(found + [t.grad.data for t in inputs if isinstance(t, tg.Tensor)])
    for fused, opened_up in zip(*results, strict=True):
        np.testing.assert_allclose(fused, opened_up, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_saved_weights_in_another_instance_give_the_same_bits(name: str) -> None:
    module, inputs = built(name), CASES[name].inputs()
    tg.manual_seed(99)
    other = CASES[name].make().to(np.float64)
    assert other.load_state_dict(module.state_dict()) == ([], [])
    assert np.array_equal(module(*inputs).data, other(*inputs).data)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("how", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])  # noqa: S301
def test_a_copy_is_equal_and_independent(name: str, how: Callable[[Any], Any]) -> None:
    module, inputs = built(name), CASES[name].inputs()
    before = module(*inputs).data
    twin = how(module)
    assert np.array_equal(twin(*inputs).data, before)
    for parameter in twin.parameters():
        parameter.data = parameter.data + 1.0
    assert np.array_equal(module(*inputs).data, before)


@pytest.mark.parametrize("name", TRAINED)
def test_one_seed_one_set_of_weights_in_either_dtype(name: str) -> None:
    made = []
    for seed, dtype in [(7, np.float64), (7, np.float64), (8, np.float64), (7, np.float32)]:
        tg.manual_seed(seed)
        tg.set_default_dtype(dtype)
        try:
            made.append([p.data for p in CASES[name].make().parameters()])
        finally:
            tg.set_default_dtype(np.float32)
    same, again, other, narrow = made
    assert all(np.array_equal(a, b) for a, b in zip(same, again, strict=True))
    for a, b in zip(same, narrow, strict=True):
        assert b.dtype == np.float32
        assert np.array_equal(a.astype(np.float32), b)
    random = [not np.all(a == a.reshape(-1)[0]) for a in same]
    differs = [not np.array_equal(a, b) for a, b in zip(same, other, strict=True)]
    assert random == differs


@pytest.mark.parametrize("name", NAMES)
def test_printing_it_names_the_class(name: str) -> None:
    assert repr(CASES[name].make()).startswith(name.split(" ")[0] + "(")
