"""The array API standard (2024.12) over tensors: `tinygrad_edu.array_api` as a namespace `xp`.

    import tinygrad_edu.array_api as xp

    x = xp.asarray([1.0, 2.0]); y = xp.sum(xp.exp(x)); y.backward()

Every floating array made here is tracked, so that whatever is computed can be differentiated: what
has a gradient is the operation of the engine, all else is NumPy's on the numbers, untracked.
Real numbers only, no writing into arrays. The consortium's suite runs against it:
`tests/array_api/run.py CHECKOUT`.
"""

from __future__ import annotations

import builtins
import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_edu.autograd import functions as _f
from tinygrad_edu.autograd.functions import decompositions as _d
from tinygrad_edu.autograd.modes import state
from tinygrad_edu.autograd.tensor import Tensor, is_floating

__array_api_version__ = "2024.12"

bool = np.dtype(np.bool_)  # noqa: A001 - the standard's name
int8, int16, int32, int64 = (np.dtype(f"int{n}") for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{n}") for n in (8, 16, 32, 64))
float32, float64 = np.dtype(np.float32), np.dtype(np.float64)
complex64, complex128 = np.dtype(np.complex64), np.dtype(np.complex128)
e, pi, inf, nan, newaxis = np.e, np.pi, np.inf, np.nan, None

Array = Tensor


def _raw(x: Any) -> Any:
    if isinstance(x, Tensor):
        return x._data
    if isinstance(x, (list, tuple)):
        return type(x)(_raw(v) for v in x)
    return x


def _made(x: Any) -> Any:
    """A result as a tensor: a leaf that is tracked where it is floating."""
    if isinstance(x, (np.ndarray, np.generic)):
        array = np.asarray(x)
        return Tensor(array, requires_grad=state.grad and is_floating(array.dtype))
    if isinstance(x, tuple):
        parts = [_made(v) for v in x]
        return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
    return [_made(v) for v in x] if isinstance(x, list) else x


def _plain(name: str, function: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """NumPy's function, on the numbers of tensors."""
    found = getattr(np, name) if function is None else function

    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("device", None)
        return _made(found(*map(_raw, args), **{k: _raw(v) for k, v in kwargs.items()}))

    call.__name__ = name
    try:
        call.__signature__ = inspect.signature(found)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        call.__doc__ = found.__doc__
    return call


# Made anew.


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: Any = None) -> Tensor:
    """`obj` as a tensor of its own; Python floats become float64, as NumPy's do."""
    if isinstance(obj, Tensor) and not copy and dtype in (None, obj.dtype):
        return obj
    data = _raw(obj)
    if copy is False and not isinstance(data, np.ndarray):
        raise ValueError("asarray cannot avoid a copy of what is no array")
    return _made(np.array(data, dtype=dtype, copy=None if copy is False else True))  # type: ignore[no-any-return]


def _creation(name: str, default: Any = float64) -> Callable[..., Any]:
    function = getattr(np, name)

    @functools.wraps(function)
    def call(*args: Any, dtype: Any = default, device: Any = None, **kwargs: Any) -> Any:
        return _made(function(*map(_raw, args), dtype=dtype, **kwargs))

    return call


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """Numbers from start (or 0) to below stop."""
    if stop is None:
        start, stop = 0, start
    return _made(np.arange(start, stop, step, dtype=dtype))  # type: ignore[no-any-return]


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Room for numbers; zeros here."""
    return zeros(shape, dtype=dtype)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Zeros."""
    return _made(np.zeros(shape, dtype=dtype or float64))  # type: ignore[no-any-return]


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones."""
    return _made(np.ones(shape, dtype=dtype or float64))  # type: ignore[no-any-return]


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """One number everywhere."""
    return _made(np.full(shape, fill_value, dtype=dtype))  # type: ignore[no-any-return]


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None
) -> Tensor:
    """Ones on a diagonal."""
    return _made(np.eye(n_rows, n_cols, k=k, dtype=dtype or float64))  # type: ignore[no-any-return]


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None,
    endpoint: builtins.bool = True,
) -> Tensor:  # fmt: skip
    """Evenly spaced numbers."""
    return _made(np.linspace(start, stop, num, dtype=dtype, endpoint=endpoint))  # type: ignore[no-any-return]


def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Zeros like x."""
    return _made(np.zeros_like(_raw(x), dtype=dtype))  # type: ignore[no-any-return]


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones like x."""
    return _made(np.ones_like(_raw(x), dtype=dtype))  # type: ignore[no-any-return]


def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Room like x; zeros here."""
    return zeros_like(x, dtype=dtype)


def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """One number like x."""
    return _made(np.full_like(_raw(x), fill_value, dtype=dtype))  # type: ignore[no-any-return]


def from_dlpack(x: Any, /, *, device: Any = None, copy: Any = None) -> Tensor:
    """Another library's array, in NumPy's memory."""
    return _made(np.from_dlpack(_raw(x)))  # type: ignore[no-any-return]


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Any]:
    """Coordinates of a grid."""
    return [_made(a) for a in np.meshgrid(*map(_raw, arrays), indexing=indexing)]  # type: ignore[call-overload]


# Dtypes.


def astype(x: Any, dtype: Any, /, *, copy: builtins.bool = True, device: Any = None) -> Tensor:
    """In another dtype; the gradient comes back in x's."""
    if x.dtype == dtype and not copy:
        return x  # type: ignore[no-any-return]
    if is_floating(x.dtype) and is_floating(np.dtype(dtype)) and x.dtype != dtype:
        return _f.astype(x, dtype)
    return _made(x._data.astype(dtype))  # type: ignore[no-any-return]


def can_cast(from_: Any, to: Any, /) -> builtins.bool:
    """Whether numbers of one dtype fit into another."""
    given = from_.dtype if isinstance(from_, Tensor) else from_
    return builtins.bool(np.can_cast(given, to))


def result_type(*arrays_and_dtypes: Any) -> Any:
    """The dtype of a result of these."""
    return np.result_type(*map(_raw, arrays_and_dtypes))


def finfo(type: Any, /) -> Any:
    """What a floating dtype can hold."""
    found = np.finfo(type.dtype if isinstance(type, Tensor) else type)
    numbers = ("max", "min", "eps", "smallest_normal")
    facts = {name: float(getattr(found, name)) for name in numbers}
    return _Facts(bits=int(found.bits), dtype=found.dtype, **facts)


def iinfo(type: Any, /) -> Any:
    """What an integer dtype can hold."""
    found = np.iinfo(type.dtype if isinstance(type, Tensor) else type)
    return _Facts(bits=int(found.bits), max=int(found.max), min=int(found.min), dtype=found.dtype)


class _Facts:
    def __init__(self, **facts: Any) -> None:
        self.__dict__.update(facts)


isdtype = np.isdtype


# Tracked: the engine's operations where numbers are floating, NumPy's otherwise.


def _floating(*xs: Any) -> builtins.bool:
    return builtins.any(isinstance(x, Tensor) and is_floating(x.dtype) for x in xs)


def _one(name: str, ours: Callable[..., Any], theirs: str | None = None) -> Callable[..., Any]:
    plain = getattr(np, theirs or name)

    def call(x: Any, /) -> Any:
        return ours(x) if _floating(x) else _made(plain(_raw(x)))

    call.__name__ = name
    return call


def _two(name: str, ours: Callable[..., Any], theirs: str | None = None) -> Callable[..., Any]:
    plain = getattr(np, theirs or name)

    def call(x1: Any, x2: Any, /) -> Any:
        return ours(x1, x2) if _floating(x1, x2) else _made(plain(_raw(x1), _raw(x2)))

    call.__name__ = name
    return call


_ONE = {
    "abs": "abs", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh",
    "atan": "arctan", "atanh": "arctanh", "ceil": "ceil", "cos": "cos", "cosh": "cosh",
    "exp": "exp", "expm1": "expm1", "floor": "floor", "log": "log", "log1p": "log1p",
    "log2": "log2", "log10": "log10", "negative": "negative", "reciprocal": "reciprocal",
    "round": "round", "sign": "sign", "sin": "sin", "sinh": "sinh", "sqrt": "sqrt",
    "square": "square", "tan": "tan", "tanh": "tanh", "trunc": "trunc",
}  # fmt: skip
_TWO = {
    "add": "add", "atan2": "arctan2", "divide": "divide", "hypot": "hypot",
    "logaddexp": "logaddexp", "maximum": "maximum", "minimum": "minimum", "multiply": "multiply",
    "pow": "power", "subtract": "subtract", "floor_divide": "floor_divide",
    "remainder": "remainder",
}  # fmt: skip
for _name, _numpy in _ONE.items():
    globals()[_name] = _one(_name, getattr(_f, _numpy), _numpy)
for _name, _numpy in _TWO.items():
    globals()[_name] = _two(_name, getattr(_f, _numpy), _numpy)
for _name in (
    "bitwise_and bitwise_left_shift bitwise_invert bitwise_or bitwise_right_shift bitwise_xor "
    "copysign equal greater greater_equal isfinite isinf isnan less less_equal "
    "logical_and logical_not logical_or logical_xor nextafter not_equal signbit "
    "argmax argmin nonzero searchsorted unique_all unique_counts unique_inverse "
    "unique_values all any diff count_nonzero"
).split():
    globals()[_name] = _plain(_name)


def positive(x: Any, /) -> Any:
    """+x."""
    return _f.multiply(x, 1.0) if _floating(x) else _made(np.positive(_raw(x)))


def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """x held between two bounds, in x's dtype."""
    if _floating(x):
        low, high = (
            b.astype(x.dtype) if isinstance(b, Tensor) and b.dtype != x.dtype else b
            for b in (min, max)
        )
        return _f.clip(x, low, high)
    return _made(np.clip(_raw(x), _raw(min), _raw(max)).astype(x.dtype))


def where(condition: Any, x1: Any, x2: Any, /) -> Any:
    """x1 where condition, else x2."""
    return _f.where(condition, x1, x2) if _floating(x1, x2) else _made(
        np.where(_raw(condition), _raw(x1), _raw(x2))
    )


def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Any:
    """Elements repeated."""
    return _f.repeat(x, _raw(repeats), axis)


def _reduction(name: str, ours: Any, plain: Any, with_dtype: builtins.bool) -> Callable[..., Any]:
    def call(
        x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: builtins.bool = False
    ) -> Any:
        if dtype is not None and x.dtype != dtype:
            x = astype(x, dtype)
        if _floating(x):
            return ours(x, axis, keepdims)
        more = {"dtype": dtype} if with_dtype else {}
        return _made(plain(_raw(x), axis=axis, keepdims=keepdims, **more))

    call.__name__ = name
    return call


sum = _reduction("sum", _f.sum, np.sum, True)
prod = _reduction("prod", _f.prod, np.prod, True)
mean = _reduction("mean", _f.mean, np.mean, False)
max = _reduction("max", _f.max, np.max, False)
min = _reduction("min", _f.min, np.min, False)


def var(
    x: Any, /, *, axis: Any = None, correction: float = 0.0, keepdims: builtins.bool = False
) -> Any:
    """The variance, divided by n - correction."""
    return _f.var(x, axis, keepdims, ddof=correction)  # type: ignore[arg-type]


def std(
    x: Any, /, *, axis: Any = None, correction: float = 0.0, keepdims: builtins.bool = False
) -> Any:
    """The standard deviation, divided by n - correction."""
    return _f.std(x, axis, keepdims, ddof=correction)  # type: ignore[arg-type]


def _running(name: str, ours: Any, plain: Any, start: float) -> Callable[..., Any]:
    def call(
        x: Any, /, *, axis: Any = None, dtype: Any = None, include_initial: builtins.bool = False
    ) -> Any:
        axis = 0 if axis is None else axis
        if dtype is not None and x.dtype != dtype:
            x = astype(x, dtype)
        found = ours(x, axis) if _floating(x) else _made(plain(_raw(x), axis=axis, dtype=dtype))
        if not include_initial:
            return found
        shape = [1 if i == axis % x.ndim else n for i, n in enumerate(x.shape)]
        return concat([full(tuple(shape), start, dtype=found.dtype), found], axis=axis)

    call.__name__ = name
    return call


cumulative_sum = _running("cumulative_sum", _f.cumsum, np.cumsum, 0)
cumulative_prod = _running("cumulative_prod", _f.cumprod, np.cumprod, 1)


def argsort(
    x: Any, /, *, axis: int = -1, descending: builtins.bool = False, stable: builtins.bool = True
) -> Any:
    """Positions in order."""
    if x.dtype == bool or not descending:
        return _made(_order(x, axis, descending))
    return _made(_order(x, axis, descending))


def _order(x: Any, axis: int, descending: builtins.bool) -> Any:
    """A stable order, also backwards and of unsigned numbers."""
    data = _raw(x)
    if not descending:
        return np.argsort(data, axis=axis, kind="stable")
    flipped = np.flip(np.argsort(np.flip(data, axis), axis=axis, kind="stable"), axis)
    return data.shape[axis] - 1 - flipped


def sort(
    x: Any, /, *, axis: int = -1, descending: builtins.bool = False, stable: builtins.bool = True
) -> Any:
    """In order."""
    return take_along_axis(x, argsort(x, axis=axis, descending=descending), axis=axis)


# Movement: tracked in any dtype.


def concat(arrays: Any, /, *, axis: int | None = 0) -> Any:
    """Arrays end to end; flat for axis None."""
    given = list(arrays)
    dtype = np.result_type(*[a.dtype for a in given])
    given = [a if a.dtype == dtype else astype(a, dtype) for a in given]
    if axis is None:
        return _f.concatenate([_f.reshape(a, -1) for a in given])
    return _f.concatenate(given, axis=axis)


def stack(arrays: Any, /, *, axis: int = 0) -> Any:
    """Arrays along a new axis."""
    given = list(arrays)
    dtype = np.result_type(*[a.dtype for a in given])
    return _f.stack([a if a.dtype == dtype else astype(a, dtype) for a in given], axis=axis)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """One array for each place along an axis."""
    moved = _f.moveaxis(x, axis, 0)
    return tuple(moved[i] for i in range(moved.shape[0]))


def expand_dims(x: Any, /, axis: int) -> Any:
    """A new axis of length 1."""
    return _f.expand_dims(x, axis)


def flip(x: Any, /, *, axis: Any = None) -> Any:
    """Backwards."""
    return _f.flip(x, axis)


def permute_dims(x: Any, /, axes: Any) -> Any:
    """Axes in another order."""
    return _f.transpose(x, axes)


def reshape(x: Any, /, shape: Any, *, copy: Any = None) -> Any:
    """In another shape."""
    return _f.reshape(x, shape)


def roll(x: Any, /, shift: Any, *, axis: Any = None) -> Any:
    """Pushed round."""
    return _f.roll(x, shift, axis)


def squeeze(x: Any, /, axis: Any) -> Any:
    """Without axes of length 1."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    if builtins.any(x.shape[i] != 1 for i in axes):
        raise ValueError(f"squeeze takes away axes of length 1; got axis {axis} of {x.shape}")
    return _f.squeeze(x, axes)


def tile(x: Any, repetitions: Any, /) -> Any:
    """Side by side."""
    return _f.tile(x, repetitions)


def moveaxis(x: Any, source: Any, destination: Any, /) -> Any:
    """Axes moved to other places."""
    return _f.moveaxis(x, source, destination)


def broadcast_to(x: Any, /, shape: Any) -> Any:
    """Repeated to a shape."""
    return _f.broadcast_to(x, shape)


def tril(x: Any, /, *, k: int = 0) -> Any:
    """The lower triangle."""
    return _f.tril(x, k)


def triu(x: Any, /, *, k: int = 0) -> Any:
    """The upper triangle."""
    return _f.triu(x, k)


def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Any:
    """Elements at places along an axis."""
    return _f.take(x, _raw(indices), axis)


def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Any:
    """Elements at places, one for each of the other axes."""
    return _f.take_along_axis(x, _raw(indices), axis)


def broadcast_arrays(*arrays: Any) -> list[Any]:
    """All in the shape they broadcast to."""
    shape = np.broadcast_shapes(*[a.shape for a in arrays])
    return [_f.broadcast_to(a, shape) for a in arrays]


def conj(x: Any, /) -> Any:
    """x itself: numbers here are real."""
    return x


def real(x: Any, /) -> Any:
    """x itself: numbers here are real."""
    return x


def imag(x: Any, /) -> Any:
    """0: numbers here are real."""
    return zeros_like(x)


def matmul(x1: Any, x2: Any, /) -> Any:
    """The matrix product."""
    return _f.matmul(x1, x2)


def matrix_transpose(x: Any, /) -> Any:
    """The last two axes swapped."""
    return _f.swapaxes(x, -1, -2)


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """Summed over axes of both."""
    if _floating(x1, x2):
        return _f.tensordot(x1, x2, axes)
    return _made(np.tensordot(_raw(x1), _raw(x2), axes))


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Σ x1·x2 along an axis."""
    n = builtins.max(x1.ndim, x2.ndim)
    if not -builtins.min(x1.ndim, x2.ndim) <= axis < 0 or x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot along axis {axis} was given shapes {x1.shape} and {x2.shape}")
    return sum(x1 * x2, axis=axis % n, dtype=np.result_type(x1.dtype, x2.dtype))


class _Linalg:
    """The extension: matrices and stacks of them."""

    matmul = staticmethod(matmul)
    matrix_transpose = staticmethod(matrix_transpose)
    tensordot = staticmethod(tensordot)
    vecdot = staticmethod(vecdot)
    det = staticmethod(_d.det)
    eigh = staticmethod(_d.eigh)
    eigvalsh = staticmethod(_d.eigvalsh)
    inv = staticmethod(_d.inv)
    slogdet = staticmethod(_d.slogdet)
    solve = staticmethod(_d.solve)
    svdvals = staticmethod(_d.svdvals)

    @staticmethod
    def diagonal(x: Any, /, *, offset: int = 0) -> Any:
        """Of the last two axes."""
        return _f.diagonal(x, offset, -2, -1)

    @staticmethod
    def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
        """Of the last two axes."""
        return sum(_f.diagonal(x, offset, -2, -1), axis=-1, dtype=dtype)

    @staticmethod
    def outer(x1: Any, x2: Any, /) -> Any:
        """All products of two vectors."""
        return _f.outer(x1, x2)

    @staticmethod
    def cholesky(x: Any, /, *, upper: builtins.bool = False) -> Any:
        """L with L Lᵀ = x, or Lᵀ."""
        lower = _d.cholesky(x)
        return _f.swapaxes(lower, -1, -2) if upper else lower

    @staticmethod
    def qr(x: Any, /, *, mode: str = "reduced") -> Any:
        """Q and R with Q R = x."""
        if mode == "reduced" or x.shape[-1] >= x.shape[-2]:
            return _d.qr(x)
        return _made(np.linalg.qr(_raw(x), mode))  # type: ignore[call-overload]

    @staticmethod
    def svd(x: Any, /, *, full_matrices: builtins.bool = True) -> Any:
        """U, S and Vh; vectors beyond the smaller side are NumPy's, and have no derivative."""
        if not full_matrices or x.shape[-1] == x.shape[-2]:
            return _d.svd(x)
        return _made(np.linalg.svd(_raw(x)))

    @staticmethod
    def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
        """The vector product of vectors of length 3."""
        if x1.shape[axis] != 3 or x2.shape[axis] != 3:
            raise ValueError(f"cross needs 3 numbers along axis {axis}; got {x1.shape}, {x2.shape}")
        a, b = (unstack(x, axis=axis) for x in (x1, x2))
        parts = [a[i] * b[j] - a[j] * b[i] for i, j in ((1, 2), (2, 0), (0, 1))]
        return stack(parts, axis=axis)

    @staticmethod
    def matrix_power(x: Any, n: int, /) -> Any:
        """A matrix times itself, n - 1 times; its inverse for n below 0."""
        if n < 0:
            return _Linalg.matrix_power(_d.inv(x), -n)
        if n == 0:
            return _f.broadcast_to(eye(x.shape[-1], dtype=x.dtype), x.shape)
        half = _Linalg.matrix_power(x, n // 2) if n > 1 else None
        if half is None:
            return x
        return half @ half if n % 2 == 0 else half @ half @ x

    @staticmethod
    def matrix_rank(x: Any, /, *, rtol: Any = None) -> Any:
        """How many singular values are not rounding."""
        s = np.linalg.svd(_raw(x), compute_uv=False)
        given = builtins.max(x.shape[-2:]) * np.finfo(x.dtype).eps if rtol is None else _raw(rtol)
        least = s.max(-1, keepdims=True, initial=0) * np.asarray(given)[..., None]
        return _made(np.asarray((s > least).sum(-1)))

    @staticmethod
    def pinv(x: Any, /, *, rtol: Any = None) -> Any:
        """The pseudo-inverse, by singular values."""
        u, s, vh = _d.svd(x)
        given = builtins.max(x.shape[-2:]) * np.finfo(x.dtype).eps if rtol is None else _raw(rtol)
        largest = s._data.max(-1, keepdims=True, initial=0)
        small = Tensor(s._data <= largest * np.asarray(given)[..., None])
        inverse = _f.where(small, 0.0, 1 / _f.where(small, 1.0, s))
        return _f.swapaxes(vh, -1, -2) @ (_f.expand_dims(inverse, -1) * _f.swapaxes(u, -1, -2))

    @staticmethod
    def matrix_norm(x: Any, /, *, keepdims: builtins.bool = False, ord: Any = "fro") -> Any:  # noqa: A002
        """Of the last two axes."""
        return _d.norm(x, ord, (-2, -1), keepdims)

    @staticmethod
    def vector_norm(
        x: Any, /, *, axis: Any = None, keepdims: builtins.bool = False, ord: Any = 2  # noqa: A002
    ) -> Any:
        """Over one axis, several, or all."""
        axes = tuple(range(x.ndim)) if axis is None else axis
        axes = (axes,) if isinstance(axes, int) else tuple(axes)
        places = tuple(i % x.ndim for i in axes)
        rest = [i for i in range(x.ndim) if i not in places]
        moved = _f.moveaxis(x, places, tuple(range(len(rest), x.ndim))) if places else x
        flat = _f.reshape(moved, (*(x.shape[i] for i in rest), -1)) if x.size else moved
        if not x.size:
            return sum(_f.abs(x), axis=places, keepdims=keepdims)
        found = _d.norm(flat, ord, -1)
        shape = tuple(1 if i in places else n for i, n in enumerate(x.shape))
        return _f.reshape(found, shape) if keepdims else found


linalg = _Linalg()


class _Info:
    """What this namespace can do, as the standard asks."""

    def capabilities(self) -> dict[str, Any]:
        """Boolean indices yes; shapes that depend on data yes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """The CPU."""
        return "cpu"

    def devices(self) -> list[str]:
        """The CPU."""
        return ["cpu"]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """float64, as NumPy has it."""
        return {
            "real floating": float64, "complex floating": complex128, "integral": int64,
            "indexing": int64,
        }  # fmt: skip

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """By kind; complex ones there are none."""
        every = {n: globals()[n] for n in (
            "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64").split()}
        if kind is None:
            return every
        return {n: d for n, d in every.items() if np.isdtype(d, kind)}


def __array_namespace_info__() -> Any:  # noqa: N807 - the standard's name
    """What this namespace can do."""
    return _Info()
