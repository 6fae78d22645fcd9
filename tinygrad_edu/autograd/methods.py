"""Operators and methods of `Tensor`, hung on the class from the public functions."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_edu.autograd import functions
from tinygrad_edu.autograd.apply import apply, apply_binary
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.errors import GraphError
from tinygrad_edu.ops import elementwise, linalg, transcendental
from tinygrad_edu.ops.registry import Primitive

_FUNCTIONS = (
    "add subtract multiply divide negative power exp log log1p expm1 sqrt tanh sigmoid sin cos erf "
    "relu gelu abs sign maximum minimum clip clamp where astype sum mean var max min logsumexp "
    "softmax log_softmax matmul reshape view flatten transpose permute swapaxes expand_dims "
    "unsqueeze squeeze broadcast_to split tan arcsin arccos arctan arctan2 sinh cosh arcsinh "
    "arccosh arctanh asin acos atan atan2 asinh acosh atanh exp2 log2 log10 logaddexp xlogy square "
    "reciprocal hypot sinc erfc round floor ceil trunc std prod cumsum cumprod cummax cummin "
    "median norm sort argsort argmax argmin topk flip roll moveaxis rot90 tile repeat take "
    "take_along_axis set_at diagonal diag tril triu trace ravel dot inner outer vdot"
).split()


def _numpy_transpose(a: Any, axes: Any = None) -> Tensor:
    return functions.transpose(a, axes)


def _numpy_reshape(a: Any, shape: Any) -> Tensor:
    return functions.reshape(a, shape)


def _numpy_svd(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    return functions.svd(a, full_matrices) if compute_uv else functions.svdvals(a)


def _numpy_qr(a: Any, mode: str = "reduced") -> Any:
    if mode != "reduced":
        raise ValueError(f"np.linalg.qr of a tensor has mode='reduced' alone; got {mode!r}")
    return functions.qr(a)


# NumPy functions that mean the same on a tensor: np.exp(t) is tg.exp(t).
_NUMPY: dict[Any, Callable[..., Any]] = {
    getattr(np, name): getattr(functions, name)
    for name in (
        "add subtract multiply divide negative power exp log log1p expm1 sqrt tanh sin cos "
        "absolute sign maximum minimum clip where sum mean var max min matmul swapaxes "
        "expand_dims squeeze broadcast_to concatenate stack split zeros_like ones_like full_like "
        "tan arcsin arccos arctan arctan2 sinh cosh arcsinh arccosh arctanh exp2 log2 log10 "
        "logaddexp floor_divide remainder square reciprocal cbrt hypot sinc round floor ceil trunc "
        "std prod cumsum cumprod median flip roll moveaxis rot90 pad tile repeat take "
        "take_along_axis diagonal "
        "diag tril triu trace ravel einsum tensordot dot inner outer vdot kron sort argsort argmax "
        "argmin"
    ).split()
}
_NUMPY.update(
    {
        getattr(np.linalg, name): getattr(functions, name)
        for name in "cholesky det eigh eigvalsh inv multi_dot norm slogdet solve".split()
    }
)
_NUMPY.update({np.linalg.svd: _numpy_svd, np.linalg.qr: _numpy_qr})
# Their third argument is another one in NumPy: a dtype, an array to write to, a kind of sort.
_TWO_IN_ORDER = {
    getattr(np, name)
    for name in "sum mean var std prod max min amax amin median cumsum cumprod sort argsort argmax "
    "argmin".split()
}
_NUMPY.update(
    {
        np.amax: functions.max,
        np.amin: functions.min,
        np.transpose: _numpy_transpose,
        np.reshape: _numpy_reshape,
    }
)
_NUMPY_COMPARISONS = {
    np.less: "less", np.less_equal: "less_equal", np.greater: "greater",
    np.greater_equal: "greater_equal", np.equal: "equal", np.not_equal: "not_equal",
}  # fmt: skip
# About shapes and dtypes only: nothing a gradient could flow through.
_NUMPY_PLAIN = {np.shape, np.ndim, np.size, np.result_type}


def _binary(primitive: Primitive) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def forward(self: Tensor, other: Any) -> Any:
        return apply_binary(primitive, self, other)

    def reflected(self: Tensor, other: Any) -> Any:
        return apply_binary(primitive, other, self)

    return forward, reflected


def _comparison(name: str) -> Callable[..., Any]:
    def compare(self: Tensor, other: Any) -> Any:
        if other is None or isinstance(other, str):
            return NotImplemented
        return functions.compare(name, self, other)

    return compare


def _array_ufunc(self: Tensor, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    if _tensors_in(kwargs):
        raise TypeError(
            f"np.{ufunc.__name__} cannot write into a tensor or take one by keyword ("
            f"{', '.join(kwargs)}); assign the result to its .data"
        )
    if method == "__call__" and not kwargs:
        if ufunc in _NUMPY:
            return _NUMPY[ufunc](*inputs)
        if ufunc in _NUMPY_COMPARISONS:
            return functions.compare(_NUMPY_COMPARISONS[ufunc], *inputs)
    if any(isinstance(x, Tensor) and x.requires_grad for x in inputs):
        form = f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
        raise TypeError(
            f"{form}{' with ' + ', '.join(kwargs) if kwargs else ''} has no gradient here and "
            "would lose the history of a tracked tensor; use a tg function, or detach() first"
        )
    plain = [x._data if isinstance(x, Tensor) else x for x in inputs]
    return getattr(ufunc, method)(*plain, **kwargs)


def _array_function(self: Tensor, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    if func in _NUMPY_PLAIN:
        return func(*[x._data if isinstance(x, Tensor) else x for x in args], **kwargs)
    if func in _TWO_IN_ORDER and len(args) > 2:
        raise TypeError(
            f"np.{func.__name__} of a tensor takes the array and axis in order, all else by "
            "keyword: what follows means something else there"
        )
    if func in _NUMPY:
        return _NUMPY[func](*args, **kwargs)
    if any(x.requires_grad for x in _tensors_in((args, kwargs))):
        name = f"{func.__module__.replace('numpy', 'np')}.{func.__name__}"
        raise TypeError(
            f"{name} has no gradient here and would lose the history of a tracked tensor; use a tg "
            "function, or detach() first"
        )
    return func(*_plain(args), **_plain(kwargs))


def _tensors_in(x: Any) -> list[Tensor]:
    if isinstance(x, Tensor):
        return [x]
    if isinstance(x, dict):
        x = list(x.values())
    if isinstance(x, (list, tuple)):
        return [t for item in x for t in _tensors_in(item)]
    return []


def _plain(x: Any) -> Any:
    if isinstance(x, Tensor):
        return x._data
    if isinstance(x, dict):
        return {key: _plain(value) for key, value in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x)(_plain(item) for item in x)
    return x


def _array(self: Tensor, dtype: Any = None, copy: Any = None) -> Any:
    if self.requires_grad:
        raise GraphError(
            f"{self.label()} is tracked; turning it into a NumPy array would lose its gradient "
            "without a word. Call .detach() first"
        )
    if not isinstance(self._data, np.ndarray):
        raise TypeError("a tensor on the GPU does not become a NumPy array by itself; .to('cpu')")
    return np.array(self._data, dtype=dtype, copy=copy)


def _shift(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Of whole numbers: nothing is tracked."""

    def forward(self: Tensor, other: Any) -> Any:
        return functions.compare(name, self, other)

    def reflected(self: Tensor, other: Any) -> Any:
        return functions.compare(name, functions.full_like(self, other), self)

    return forward, reflected


def _array_namespace(self: Tensor, /, *, api_version: str | None = None) -> Any:
    """The array API standard's functions: `tinygrad_edu.array_api`."""
    if api_version not in (None, "2024.12", "2023.12", "2022.12", "2021.12"):
        raise ValueError(f"the array API is here in version 2024.12; got {api_version!r}")
    # By name, as it stands above this room and is only handed on.
    return importlib.import_module("tinygrad_edu.array_api")


def _dlpack(
    self: Tensor,
    /,
    *,
    stream: Any = None,
    max_version: Any = None,
    dl_device: Any = None,
    copy: Any = None,
) -> Any:
    """The numbers for another library, in the same memory."""
    how = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
    return self._data.__dlpack__(**{key: value for key, value in how.items() if value is not None})


def _to_device(self: Tensor, device: str, /, *, stream: Any = None) -> Tensor:
    return self.to(device)


def _setitem(self: Tensor, index: Any, value: Any) -> None:
    raise GraphError(
        "a tensor cannot be written to by t[index] = value, which no gradient could follow; use "
        "tg.where, or write to t.data[index] before the tensor is used"
    )


def _invert(self: Tensor) -> Tensor:
    return Tensor(~self._data)


def _iterate(self: Tensor) -> Any:
    return (self[i] for i in range(len(self)))


def _rpow(self: Tensor, other: Any) -> Tensor:
    return apply(elementwise.power, other, self)


def attach() -> None:
    """Hang everything on the class."""
    methods: dict[str, Any] = {name: getattr(functions, name) for name in _FUNCTIONS}
    for name, primitive in (
        ("add", elementwise.add), ("sub", elementwise.subtract), ("mul", elementwise.multiply),
        ("truediv", elementwise.divide), ("matmul", linalg.matmul),
        ("floordiv", transcendental.floor_divide), ("mod", transcendental.remainder),
    ):  # fmt: skip
        methods[f"__{name}__"], methods[f"__r{name}__"] = _binary(primitive)
    for short, name in (("lshift", "left_shift"), ("rshift", "right_shift")):
        methods[f"__{short}__"], methods[f"__r{short}__"] = _shift(name)
    for short, name in (
        ("lt", "less"), ("le", "less_equal"), ("gt", "greater"), ("ge", "greater_equal"),
        ("eq", "equal"), ("ne", "not_equal"),
        ("and", "bitwise_and"), ("or", "bitwise_or"), ("xor", "bitwise_xor"),
    ):  # fmt: skip
        methods[f"__{short}__"] = _comparison(name)
    methods.update(
        __pos__=lambda self: self, __invert__=_invert,
        __neg__=functions.negative, __abs__=functions.abs, __pow__=functions.power, __rpow__=_rpow,
        __getitem__=functions.getitem, __setitem__=_setitem, __iter__=_iterate,
        __array__=_array, __array_ufunc__=_array_ufunc, __array_function__=_array_function,
        where=lambda self, condition, other: functions.where(condition, self, other),
        T=property(lambda self: functions.transpose(self)),
        __array_namespace__=_array_namespace, __dlpack__=_dlpack, to_device=_to_device,
        __dlpack_device__=lambda self: self._data.__dlpack_device__(),
        __complex__=lambda self: complex(float(self)),
        mT=property(lambda self: functions.swapaxes(self, -1, -2)),
    )  # fmt: skip
    for name, method in methods.items():
        setattr(Tensor, name, method)


attach()
