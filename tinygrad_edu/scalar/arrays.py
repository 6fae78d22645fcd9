"""Arrays of Values: an array namespace in which every number is a node of its own.

    x = values(np.ones((2, 3)), name="x")           # an object array of Values
    loss = F.sum(F.tanh(F.matmul(x, w))).item()     # NumPy's names
    loss.backward(); grad(x)                        # float64 array, the shape of x

It is for looking: one zooms from a matmul into its multiplications, and a rule written for arrays
runs unchanged down to single floats. It runs forwards only, with `Value.backward()` for gradients.
Functions take arrays of Values, arrays of floats, Values and numbers in any mixture, and mean what
NumPy means; where no Value is among them, NumPy answers. What NumPy already does right on objects
(shapes, indexing, +, matmul) it does here. `F` has these functions and every primitive of `ops`.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from tinygrad_edu import backend
from tinygrad_edu.scalar.value import Value, node

Array = npt.NDArray[Any]
Axis = int | tuple[int, ...] | None

pi, e, inf, nan, newaxis = math.pi, math.e, math.inf, math.nan, None
float32, float64, int64, bool_ = np.float32, np.float64, np.int64, np.bool_

# Values give inf and NaN without a word; NumPy would warn, having seen the processor's flags.
_QUIET = np.errstate(all="ignore")


# In and out


def values(array: npt.ArrayLike, name: str | None = None) -> Array:
    """An array of real numbers as an array of leaves, named `name[i,j]` where a name is given."""
    numbers = np.asarray(array)
    out = np.empty(numbers.shape, dtype=object)
    for index in np.ndindex(numbers.shape):
        where_ = f"[{','.join(map(str, index))}]" if index else ""
        out[index] = Value(numbers[index], None if name is None else name + where_)
    return out


def data(array: Any) -> npt.NDArray[np.float64]:
    """The numbers of an array of Values."""
    return np.asarray(np.frompyfunc(float, 1, 1)(array), dtype=np.float64)


def grad(array: Any) -> npt.NDArray[np.float64]:
    """The gradients of an array of Values; 0 for one that has none, and for a plain number."""
    return np.asarray(np.frompyfunc(_gradient, 1, 1)(array), dtype=np.float64)


def _gradient(element: Any) -> float:
    return element.grad if isinstance(element, Value) else 0.0


# Element by element


def _elementwise(name: str, function: Callable[..., Any], arity: int = 1) -> Callable[..., Array]:
    over_objects = np.frompyfunc(function, arity, 1)
    over_numbers = getattr(np, name, None)

    @_QUIET
    def apply(*arrays: Any) -> Any:
        if over_numbers is not None and not _any_value(arrays):
            return over_numbers(*arrays)
        return _as_objects(over_objects(*arrays))

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"NumPy's `{name}`, one node an element."
    return apply


def _method(name: str, arity: int = 1) -> Callable[..., Array]:
    """The method `name` of `Value`, on every element."""
    method = getattr(Value, name)
    return _elementwise(name, lambda first, *rest: method(_value(first), *rest), arity)


def _any_value(arrays: Iterable[Any]) -> bool:
    """Whether a Value, or an array that may hold some, is among `arrays`."""
    return builtins.any(np.asarray(array).dtype == object for array in arrays)


def _value(element: Any) -> Value:
    return element if isinstance(element, Value) else Value(element)


def _as_objects(result: Any) -> Array:
    """`result` as an object array, of rank 0 where NumPy unwrapped a single element."""
    if isinstance(result, np.ndarray):
        return result
    out = np.empty((), dtype=object)
    out[()] = result
    return out


exp, expm1, log, log1p, sqrt = map(_method, ("exp", "expm1", "log", "log1p", "sqrt"))
tanh, sigmoid, sin, cos, relu = map(_method, ("tanh", "sigmoid", "sin", "cos", "relu"))
erf, abs = map(_method, ("erf", "abs"))
absolute = abs
maximum, minimum = _method("maximum", 2), _method("minimum", 2)


def _operator(name: str, sign: Callable[[Any, Any], Any]) -> Callable[..., Array]:
    return _elementwise(name, lambda left, right: sign(_value(left), right), 2)


add, subtract = _operator("add", operator.add), _operator("subtract", operator.sub)
multiply, divide = _operator("multiply", operator.mul), _operator("divide", operator.truediv)
true_divide = divide
power = _operator("power", operator.pow)
negative = _elementwise("negative", lambda x: -_value(x))
square = _elementwise("square", lambda x: _value(x) * x)
where = _elementwise("where", lambda chosen, a, b: a if chosen else b, 3)
where.__doc__ = (
    "NumPy's `where`. It picks elements and makes no node: what is not chosen is no input."
)


def clip(a: Any, a_min: float | None = None, a_max: float | None = None) -> Array:
    """NumPy's `clip`; None is no bound."""
    low = -inf if a_min is None else a_min
    high = inf if a_max is None else a_max
    return _method("clip", 3)(a, low, high)


# Questions about numbers: their answers are plain arrays, through which no gradient flows


def _on_numbers(name: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def apply(*arrays: Any, **options: Any) -> Any:
        return function(*map(data, arrays), **options)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"NumPy's `{name}`, of the numbers."
    return apply


sign, argmax, argmin = map(_on_numbers, ("sign", "argmax", "argmin"))
isnan, isinf, isfinite = map(_on_numbers, ("isnan", "isinf", "isfinite"))
equal, not_equal, less = map(_on_numbers, ("equal", "not_equal", "less"))
less_equal, greater, greater_equal = map(_on_numbers, ("less_equal", "greater", "greater_equal"))
zeros_like, ones_like = map(_on_numbers, ("zeros_like", "ones_like"))
full_like = _on_numbers("full_like")


# Reductions


@_QUIET
def sum(a: Any, axis: Axis = None, keepdims: bool = False) -> Array:
    """The sum over `axis`, by additions from the first element to the last."""
    add_up: Any = np.add.reduce
    total = add_up(np.asarray(a), axis=axis, keepdims=keepdims)
    return _as_objects(total) if _any_value([a]) else np.asarray(total)


def mean(a: Any, axis: Axis = None, keepdims: bool = False) -> Array:
    """The sum over `axis`, divided by how many were added."""
    return divide(sum(a, axis, keepdims), _count(a, axis))


def var(a: Any, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> Array:
    """Mean squared distance from the mean, over n - ddof."""
    distance = subtract(_objects(a), mean(a, axis, keepdims=True))
    return divide(sum(square(distance), axis, keepdims), _count(a, axis) - ddof)


def max(a: Any, axis: Axis = None, keepdims: bool = False) -> Array:
    """The largest element over `axis`; equal ones share its gradient equally."""
    if not _any_value([a]):
        return np.asarray(np.max(a, axis=axis, keepdims=keepdims))
    return _reduce_groups(_largest, a, axis, keepdims)


def min(a: Any, axis: Axis = None, keepdims: bool = False) -> Array:
    """The smallest element over `axis`; equal ones share its gradient equally."""
    return negative(max(negative(a), axis, keepdims))


amax, amin = max, min


def _reduce_groups(
    function: Callable[[list[Value]], Value], a: Any, axis: Axis, keepdims: bool
) -> Array:
    """`function` of each group of elements that `axis` puts together."""
    array = _objects(a)
    axes = range(array.ndim) if axis is None else (axis if isinstance(axis, tuple) else (axis,))
    gone = {k % array.ndim for k in axes} if array.ndim else set()
    kept = [k for k in range(array.ndim) if k not in gone]
    shape = tuple(array.shape[k] for k in kept)
    groups = array.transpose([*kept, *sorted(gone)]).reshape(*shape, _count(array, axis))
    out = np.empty(shape, dtype=object)
    for index in np.ndindex(shape):
        out[index] = function([_value(element) for element in groups[index]])
    if keepdims:
        out = out.reshape([1 if k in gone else n for k, n in enumerate(array.shape)])
    return out


def _largest(group: list[Value]) -> Value:
    """The largest as a chain of pairs. A tie with k earlier ones weighs k : 1, so that all of them
    end with the same share; NaN spreads.
    """
    if not group:
        raise ValueError("max of no elements: the axis reduced over has length 0")
    best, tied = group[0], 1
    for other in group[1:]:
        x, y = best.data, other.data
        if x == y:
            share = 1.0 / (tied + 1)
            best, tied = node("maximum", x, best, 1.0 - share, other, share), tied + 1
        else:
            best, tied = best.maximum(other), 1 if y > x else tied
    return best


def _count(a: Any, axis: Axis) -> int:
    """How many elements `axis` puts together."""
    shape = np.shape(a)
    axes = range(len(shape)) if axis is None else (axis if isinstance(axis, tuple) else (axis,))
    return math.prod(shape[k] for k in axes)


def _objects(a: Any) -> Array:
    return np.asarray(a, dtype=object)


# Products and shapes: NumPy's own, on object arrays


@_QUIET
def matmul(a: Any, b: Any) -> Array:
    """NumPy's `matmul` at every rank: each entry is a chain of multiplications and additions."""
    return _as_objects(np.matmul(_objects(a), _objects(b)))


@_QUIET
def dot(a: Any, b: Any) -> Array:
    """NumPy's `dot`, which for stacks of matrices is not `matmul`."""
    return _as_objects(np.dot(_objects(a), _objects(b)))


@_QUIET
def einsum(subscripts: str, *operands: Any) -> Array:
    """NumPy's `einsum`."""
    return _as_objects(np.einsum(subscripts, *map(_objects, operands)))


def asarray(a: Any, dtype: Any = None) -> Array:
    """An array of Values stays as it is, whatever the dtype: a Value is always a float."""
    array = np.asarray(a)
    return array if array.dtype == object else np.asarray(array, dtype=dtype)


def concatenate(arrays: Sequence[Any], axis: int | None = 0) -> Array:
    """NumPy's `concatenate`; floats may join Values."""
    return np.concatenate([_objects(a) for a in arrays], axis=axis)


def stack(arrays: Sequence[Any], axis: int = 0) -> Array:
    """NumPy's `stack`; floats may join Values."""
    return np.stack([_objects(a) for a in arrays], axis=axis)


reshape, transpose, swapaxes, moveaxis = np.reshape, np.transpose, np.swapaxes, np.moveaxis
expand_dims, squeeze, ravel = np.expand_dims, np.squeeze, np.ravel
broadcast_to, broadcast_arrays = np.broadcast_to, np.broadcast_arrays
split, array_split, flip, roll, repeat, tile = (
    np.split,
    np.array_split,
    np.flip,
    np.roll,
    np.repeat,
    np.tile,
)
take, take_along_axis, diagonal, tril, triu = (
    np.take,
    np.take_along_axis,
    np.diagonal,
    np.tril,
    np.triu,
)
shape, ndim, size, result_type = np.shape, np.ndim, np.size, np.result_type
zeros, ones, full, arange, eye = np.zeros, np.ones, np.full, np.arange, np.eye
logical_and, logical_or, logical_not = np.logical_and, np.logical_or, np.logical_not
all, any = np.all, np.any


# Where arrays of Values differ from arrays


def constant(a: Any) -> Array:
    """The numbers, as something no gradient flows through."""
    return data(a) if _any_value([a]) else np.asarray(a)


def cast(a: Any, *, dtype: Any) -> Array:
    """As it is: a Value is a float64 whatever the rest of the program computes in."""
    return asarray(a, dtype)


def absorb(*_: Any) -> NoReturn:
    """Refused: it belongs to the backward rules, and Values have their own."""
    raise TypeError(_FORWARDS_ONLY.format("absorb"))


def scatter_add(*_: Any, **__: Any) -> NoReturn:
    """Refused: it belongs to the backward rules, and Values have their own."""
    raise TypeError(_FORWARDS_ONLY.format("scatter_add"))


_FORWARDS_ONLY = (
    "{} is part of a backward rule, and arrays of Values run forwards only: "
    "build the result, then take gradients with Value.backward()"
)


class ValueNamespace(backend.Namespace):
    """`F` for arrays of Values: the functions of this file, then every primitive of `ops`.

    `scalar` asks the primitives for their references, compositions of what there is here, in place
    of kernels written for the memory of arrays.
    """

    name = "values"
    scalar = True

    def __getattr__(self, attribute: str) -> Any:
        found = globals().get(attribute)
        if attribute.startswith("_") or found is None:
            return super().__getattr__(attribute)
        setattr(self, attribute, found)
        return found


F = ValueNamespace()
