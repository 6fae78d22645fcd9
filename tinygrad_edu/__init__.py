"""tinygrad_edu: an autograd engine one can see through.

    import tinygrad_edu as tg

    x = tg.tensor([[1.0, 2.0]], requires_grad=True)
    (x * x).sum().backward()
    x.grad                          # tensor([[2., 4.]])

From one multiplication of two floats (`tg.Value`) to a language model (`tg.lm`), in one set of
ideas;
ARCHITECTURE.md tells them. Importing this loads NumPy and nothing else; rooms such as `tg.nn` and
`tg.optim` are imported when they are first named.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tinygrad_edu import autograd, errors
from tinygrad_edu.autograd.creation import arange, eye, full, ones, rand, randn, tensor, zeros
from tinygrad_edu.autograd.functions import (
    abs,
    add,
    astype,
    attention,
    broadcast_to,
    cat,
    clamp,
    clip,
    concatenate,
    cos,
    cross_entropy,
    divide,
    dropout,
    embedding,
    erf,
    exp,
    expand_dims,
    expm1,
    flatten,
    full_like,
    gelu,
    getitem,
    layer_norm,
    linear,
    log,
    log1p,
    log_softmax,
    logsumexp,
    matmul,
    max,
    maximum,
    mean,
    min,
    minimum,
    multiply,
    negative,
    ones_like,
    packed_attention,
    permute,
    power,
    relu,
    reshape,
    scatter_add,
    sigmoid,
    sign,
    sin,
    softmax,
    split,
    sqrt,
    squeeze,
    stack,
    subtract,
    sum,
    swapaxes,
    tanh,
    transpose,
    unsqueeze,
    var,
    view,
    where,
    zeros_like,
)
from tinygrad_edu.autograd.modes import (
    default_generator,
    detect_anomaly,
    enable_grad,
    is_grad_enabled,
    manual_seed,
    module_path,
    no_grad,
    unfused,
)
from tinygrad_edu.autograd.profiling import profile
from tinygrad_edu.autograd.tensor import Tensor, get_default_dtype, set_default_dtype
from tinygrad_edu.autograd.transforms import grad, jvp, value_and_grad, vjp
from tinygrad_edu.backend import get_backend, set_backend

if TYPE_CHECKING:
    from tinygrad_edu import lm, nn, optim, scalar, text
    from tinygrad_edu.scalar import Value

__version__ = "0.1.0"

_ROOMS = ("cli", "demos", "graph", "lm", "nn", "ops", "optim", "scalar", "testing", "text")

__all__ = [
    "Tensor",
    "Value",
    "__version__",
    "abs",
    "add",
    "arange",
    "astype",
    "attention",
    "autograd",
    "broadcast_to",
    "cat",
    "clamp",
    "clip",
    "concatenate",
    "cos",
    "cross_entropy",
    "default_generator",
    "detect_anomaly",
    "divide",
    "dropout",
    "embedding",
    "enable_grad",
    "erf",
    "errors",
    "exp",
    "expand_dims",
    "expm1",
    "eye",
    "flatten",
    "full",
    "full_like",
    "gelu",
    "get_backend",
    "get_default_dtype",
    "getitem",
    "grad",
    "is_grad_enabled",
    "jvp",
    "layer_norm",
    "linear",
    "lm",
    "log",
    "log1p",
    "log_softmax",
    "logsumexp",
    "manual_seed",
    "matmul",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "module_path",
    "multiply",
    "negative",
    "nn",
    "no_grad",
    "ones",
    "ones_like",
    "optim",
    "packed_attention",
    "permute",
    "power",
    "profile",
    "rand",
    "randn",
    "relu",
    "reshape",
    "scalar",
    "scatter_add",
    "set_backend",
    "set_default_dtype",
    "sigmoid",
    "sign",
    "sin",
    "softmax",
    "split",
    "sqrt",
    "squeeze",
    "stack",
    "subtract",
    "sum",
    "swapaxes",
    "tanh",
    "tensor",
    "text",
    "transpose",
    "unfused",
    "unsqueeze",
    "value_and_grad",
    "var",
    "view",
    "vjp",
    "where",
    "zeros",
    "zeros_like",
]


def __getattr__(name: str) -> Any:
    if name == "Value":
        from tinygrad_edu.scalar import Value

        globals()["Value"] = Value
        return Value
    if name in _ROOMS:
        return importlib.import_module(f"tinygrad_edu.{name}")
    raise AttributeError(f"tinygrad_edu has no {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS, "Value"})
