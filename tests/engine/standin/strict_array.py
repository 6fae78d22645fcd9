"""A stand-in for CuPy where there is no GPU: as strict as CuPy, computed by NumPy.

What CuPy refuses is refused: an implicit conversion to NumPy (`np.asarray(x)`, and `np.sin(x)` too,
which CuPy would send back to itself), an operation that mixes its arrays with NumPy's, a name that
CuPy does not have. Numbers and NumPy scalars are taken, results of rank 0 stay arrays, and
`float(x)`, `bool(x)`, `x.item()` and `x.get()` are the explicit ways to the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

# Every name that the engine takes from the array library; `test_standin.py` holds them to CuPy.
NAMES = tuple(
    """
    abs absolute add arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin
    argwhere array asarray bool_ broadcast_to cbrt ceil clip concatenate copysign copyto cos cosh
    cumprod cumsum divide e einsum empty equal exp exp2 expand_dims expm1 eye flip float16 float32
    float64 floor floor_divide full full_like greater greater_equal hypot inf int32 int64 isfinite
    isinf isnan left_shift less less_equal linalg log log10 log1p log2 logaddexp logical_and
    logical_not logical_or matmul max maximum may_share_memory mean min minimum multiply nan
    ndarray negative newaxis not_equal ones ones_like pi power prod reciprocal remainder reshape
    right_shift roll round sign sin sinc sinh sqrt square squeeze stack subtract sum swapaxes tan
    tanh transpose tril triu trunc vdot where zeros zeros_like
    """.split()
)
LINALG_NAMES = ("cholesky", "det", "eigh", "inv", "qr", "slogdet", "solve", "svd")
# What it does to make an array from something of the host; all else takes its own arrays only.
_FROM_HOST = {"array", "asarray"}


class StrictArray:
    """See the module; `_a` is the NumPy array that computes."""

    __array_ufunc__ = None  # NumPy's operators step back, so that ours can refuse
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, a: Any) -> None:
        self._a: np.ndarray[Any, Any] = a if isinstance(a, np.ndarray) else np.asarray(a)

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Use `.get()`.")

    def __array_function__(self, func: Any, *_: Any) -> NoReturn:
        raise TypeError(f"np.{func.__name__} was given a StrictArray")

    def get(self) -> Any:
        """A copy on the host."""
        return self._a.copy()

    @property
    def base(self) -> Any:
        return None if self._a.base is None else StrictArray(self._a.base)

    @property
    def flags(self) -> Any:
        return _Flags(self._a.flags)

    @property
    def T(self) -> StrictArray:  # noqa: N802
        return StrictArray(self._a.T)

    def __getattr__(self, name: str) -> Any:
        if name in _FACTS:
            return getattr(self._a, name)
        if name in _METHODS:
            return _guarded(getattr(self._a, name))
        raise AttributeError(f"StrictArray has no attribute {name!r}")

    def __getitem__(self, index: Any) -> StrictArray:
        return StrictArray(self._a[_own(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        self._a[_own(index)] = _own(value)

    def __len__(self) -> int:
        return len(self._a)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __float__(self) -> float:
        return float(self._a)

    def __int__(self) -> int:
        return int(self._a)

    def __bool__(self) -> bool:
        return bool(self._a)

    def __repr__(self) -> str:
        return f"StrictArray({self._a!r})"


class _Flags:
    """What CuPy tells of an array's layout; nothing of it can be set."""

    def __init__(self, flags: Any) -> None:
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        if name not in ("c_contiguous", "f_contiguous", "owndata"):
            raise AttributeError(f"flags have no attribute {name!r}")
        return getattr(self._flags, name)


_FACTS = {"dtype", "shape", "ndim", "size", "itemsize", "nbytes", "strides"}
_METHODS = set(
    "all any astype copy fill item max mean min ravel reshape squeeze sum swapaxes tolist "
    "transpose view".split()
)


def _own(x: Any) -> Any:
    """An argument as NumPy takes it; arrays of NumPy's own are refused."""
    if isinstance(x, StrictArray):
        return x._a
    if isinstance(x, np.ndarray):
        raise TypeError(f"Unsupported type {type(x)}")
    if isinstance(x, (tuple, list)):
        return type(x)(_own(v) for v in x)
    return x


def _ours(x: Any) -> Any:
    if isinstance(x, (np.ndarray, np.generic)):
        return StrictArray(x)
    if isinstance(x, tuple):
        return tuple(_ours(v) for v in x)
    return [_ours(v) for v in x] if isinstance(x, list) else x


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if isinstance(function, np.ufunc) and "where" in kwargs:
            raise TypeError("Wrong arguments {'where'}")
        out = kwargs.get("out")
        made = function(*map(_own, args), **{k: _own(v) for k, v in kwargs.items()})
        if function.__name__ in ("item", "tolist"):
            return made
        return _ours(made) if out is None else out

    return call


def _from_host(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(x: Any, *args: Any, **kwargs: Any) -> StrictArray:
        return StrictArray(function(x._a if isinstance(x, StrictArray) else x, *args, **kwargs))

    return call


class _Ufunc:
    def __init__(self, ufunc: Any) -> None:
        self._call = _guarded(ufunc)
        self._at = ufunc.at

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def at(self, target: Any, index: Any, value: Any) -> None:
        self._at(_own(target), _own(index), _own(value))


class _Library:
    """The module: NumPy's functions of the names above, on strict arrays."""

    ndarray = StrictArray

    def __getattr__(self, name: str) -> Any:
        if name not in NAMES:
            raise AttributeError(f"the stand-in has no {name!r}: add it to NAMES if CuPy has it")
        found = getattr(np, name)
        if name == "linalg":
            return _LINALG
        if isinstance(found, np.ufunc):
            made: Any = _Ufunc(found)
        elif isinstance(found, type) or not callable(found):
            made = found
        else:
            made = _from_host(found) if name in _FROM_HOST else _guarded(found)
        setattr(self, name, made)
        return made


class _Linalg:
    """Its linear algebra."""

    def __getattr__(self, name: str) -> Any:
        if name not in LINALG_NAMES:
            raise AttributeError(f"the stand-in has no linalg.{name}: add it if CuPy has it")
        return _guarded(getattr(np.linalg, name))


_LINALG = _Linalg()
strict_xp = _Library()


def _operator(name: str, reflected: bool) -> Callable[[Any, Any], Any]:
    def operate(self: StrictArray, other: Any) -> Any:
        if not isinstance(other, (StrictArray, int, float, np.generic)):
            if isinstance(other, np.ndarray):
                raise TypeError(f"Unsupported type {type(other)}")
            return NotImplemented
        # A NumPy scalar is asked by Python first, so that it does not answer for the array.
        value = _own(other)
        method = getattr(self._a, name)
        if isinstance(value, np.generic) and reflected:
            value = np.asarray(value)
        made = method(value)
        if name.startswith("__i") and name != "__invert__":
            return self
        return made if made is NotImplemented else StrictArray(made)

    return operate


for _name in "add sub mul truediv pow matmul and or xor floordiv mod".split():
    for _form in (f"__{_name}__", f"__r{_name}__", f"__i{_name}__"):
        setattr(StrictArray, _form, _operator(_form, _form.startswith("__r")))
for _name in "lt le gt ge eq ne".split():
    setattr(StrictArray, f"__{_name}__", _operator(f"__{_name}__", reflected=False))
for _name in "neg abs invert pos".split():
    setattr(
        StrictArray, f"__{_name}__",
        lambda self, name=f"__{_name}__": StrictArray(getattr(self._a, name)()),
    )  # fmt: skip
