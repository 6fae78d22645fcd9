"""`Tensor`: an array that remembers how it was made. The value is the node.

This file holds what a tensor *is*; what can be done with it is in `functions/`, and `methods.py`
hangs those functions on the class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tinygrad_edu import backend
from tinygrad_edu.autograd import origin, writes
from tinygrad_edu.errors import DTypeError, GraphError, ShapeError

Array = Any

_default_dtype = np.dtype(np.float32)


def set_default_dtype(dtype: Any) -> None:
    """Choose the dtype that Python numbers and lists become (float32 at the start)."""
    global _default_dtype
    chosen = np.dtype(dtype)
    if chosen.kind != "f":
        raise DTypeError(f"the default dtype has to be a floating dtype; {chosen} is not")
    _default_dtype = chosen


def get_default_dtype() -> np.dtype[Any]:
    """The dtype that Python numbers and lists become."""
    return _default_dtype


def as_array(data: Any, dtype: Any = None) -> Array:
    """`data` as a raw array: arrays keep their dtype, Python numbers and lists become floats."""
    if isinstance(data, Tensor):
        data = data._data
    if backend.is_array(data):
        _check_numbers(data, data)
        return data if dtype is None or data.dtype == dtype else data.astype(dtype)
    F = backend.default_namespace()
    try:
        found = np.asarray(data)
    except ValueError as error:
        raise ShapeError(
            f"a tensor needs rows of one length; got {str(data)[:40]!r}: {error}"
        ) from error
    _check_numbers(found, data)
    if dtype is None and not isinstance(data, np.generic):
        dtype = found.dtype if found.dtype == bool else _default_dtype
        if isinstance(data, (list, tuple)) and _holds_arrays(data):
            dtype = found.dtype
    return F.asarray(data, dtype=dtype)


def _check_numbers(array: Array, given: Any) -> None:
    if array.dtype.kind not in "biuf" and not _is_bfloat(array):
        raise DTypeError(
            f"a tensor is made of real numbers; got {type(given).__name__} {str(given)[:40]!r} "
            f"of {array.dtype}"
        )


def _holds_arrays(data: Any) -> bool:
    first = data
    while isinstance(first, (list, tuple)) and first:
        first = first[0]
    return isinstance(first, (np.ndarray, np.generic))


class Tensor:
    """An array with a gradient.

    Args:
        data: an array (kept, not copied, with its dtype), or Python numbers in lists (float32).
        requires_grad: follow this tensor, so that `backward()` fills its `grad`.
        name: a label for drawings and messages.
        dtype: convert to this dtype.

    Raises:
        DTypeError: `requires_grad` on integers or bools, which have no derivative.
    """

    __slots__ = (
        "__weakref__", "_args", "_code", "_data", "_fingerprint", "_freed", "_grad", "_hooks",
        "_offset", "_params", "_replaced", "_saved", "_stamp", "_tracked", "inputs", "module",
        "name", "op", "requires_grad",
    )  # fmt: skip

    __array_priority__ = 1000.0

    inputs: tuple[Tensor, ...]
    op: Any
    name: str | None
    module: str
    requires_grad: bool
    _data: Array
    _grad: Any
    _args: tuple[Tensor, ...]
    _tracked: tuple[Tensor, ...]
    _params: dict[str, Any]
    _replaced: int
    _code: Any
    _offset: int
    _hooks: list[Callable[[Tensor], Any]] | None
    _fingerprint: dict[int, int] | None

    def __init__(
        self,
        data: Any,
        requires_grad: bool = False,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        self._data = as_array(data, dtype)
        if requires_grad and self._data.dtype.kind not in "f" and not _is_bfloat(self._data):
            raise DTypeError(
                f"requires_grad=True on a tensor of {self._data.dtype}: only floating numbers have "
                f"gradients; make it with dtype={_default_dtype.name!r}"
            )
        self.requires_grad = requires_grad
        self.name = name
        self.op = None
        self.inputs = self._args = self._tracked = ()
        self.module = ""
        self._params = {}
        self._grad = self._hooks = self._saved = None
        self._replaced = 0
        self._code = self._fingerprint = None
        self._offset = 0
        self._stamp = 0
        self._freed = False

    # What it holds.

    @property
    def data(self) -> Array:
        """The raw array. Assigning, also by `t.data -= …`, is noticed by graphs that need it."""
        return self._data

    @data.setter
    def data(self, value: Any) -> None:
        array = as_array(value, None if backend.is_array(value) else self._data.dtype)
        if array.shape != self._data.shape:
            raise ShapeError(
                f"{self.label()}.data has shape {self._data.shape}; it cannot become "
                f"{array.shape}: make a new tensor"
            )
        if array is self._data:
            self._written()
            return
        if array.dtype != self._data.dtype and self.requires_grad and array.dtype.kind != "f":
            raise DTypeError(f"{self.label()} is tracked; its data cannot become {array.dtype}")
        self._data = array
        writes.clock[0] += 1
        self._replaced = writes.clock[0]

    def _written(self) -> None:
        """Note that the numbers were overwritten in place: for kernels that use `out=`."""
        writes.note(self._data)

    @property
    def grad(self) -> Tensor | None:
        """The gradient of the last backward pass, or None before there is one.

        Leaves add up over passes. The gradient of an intermediate is a read-only view.
        """
        found = self._grad
        if found is None or isinstance(found, Tensor):
            return found
        F = backend.namespace_of(found) if backend.is_array(found) else backend.NUMPY
        array = F.asarray(found)
        if self.inputs and isinstance(array, np.ndarray):
            array = array.view()
            array.flags.writeable = False
        wrapped = self._grad = Tensor(array)
        return wrapped

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is None:
            self._grad = None
            return
        given = value if isinstance(value, Tensor) else Tensor(as_array(value, self.dtype))
        if given.shape != self.shape:
            raise ShapeError(
                f"{self.label()} has shape {self.shape}; its grad cannot have shape {given.shape}"
            )
        self._grad = given if given.dtype == self.dtype else given.astype(self.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        shape: tuple[int, ...] = self._data.shape
        return shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The kind of number held."""
        dtype: np.dtype[Any] = self._data.dtype
        return dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return int(self._data.ndim)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(self._data.size)

    @property
    def device(self) -> str:
        """The kind of device: "cpu" for NumPy, "cuda" for CuPy."""
        return {"numpy": "cpu", "cupy": "cuda"}.get(self._namespace.name, self._namespace.name)

    @property
    def _namespace(self) -> backend.ArrayNamespace:
        return backend.namespace_of(self._data)

    @property
    def is_leaf(self) -> bool:
        """Whether no operation made it."""
        return self.op is None

    @property
    def line(self) -> str:
        """The place, as "file:line", in the user's program where the operation was called."""
        return origin.line(self._code, self._offset)

    def label(self) -> str:
        """What to call it in a message: its name, or what it is."""
        if self.name:
            return repr(self.name)
        return f"the result of {self.op.name}" if self.op is not None else "the tensor"

    # Leaving the graph.

    def detach(self) -> Tensor:
        """The same numbers (shared memory) without their history."""
        return Tensor(self._data, name=self.name)

    def numpy(self) -> Any:
        """The numbers as a NumPy array; refuses a tracked tensor, whose history would be lost."""
        if self.requires_grad:
            raise GraphError(
                f"{self.label()} is tracked; numpy() would lose its gradient without a word. "
                "Call .detach().numpy()"
            )
        return self._namespace.to_numpy(self._data)

    def item(self) -> Any:
        """The single number as a Python number."""
        if self.size != 1:
            raise ValueError(f"item() takes a tensor of one number; {self.label()} is {self.shape}")
        return self._data.item()

    def tolist(self) -> Any:
        """The numbers as nested lists."""
        return self._data.tolist()

    def to(self, target: Any) -> Tensor:
        """On another device ("cpu", "cuda") or in another dtype; itself where nothing changes."""
        devices = ("cpu", "cuda", "gpu", "cupy", "numpy")
        if isinstance(target, str) and target.split(":")[0] in devices:
            F = backend.namespace_named(target)
            if F is self._namespace:
                return self
            if self.requires_grad and not self.is_leaf:
                raise GraphError(
                    f"{self.label()} is tracked; to({target!r}) would lose its history. Move the "
                    "tensors it is made from, or detach() it first"
                )
            host = self._namespace.to_numpy(self._data)
            return Tensor(F.asarray(host), requires_grad=self.requires_grad, name=self.name)
        converted: Tensor = self.astype(target)
        return converted

    # Gradients.

    def backward(
        self, gradient: Any = None, retain_graph: bool = True, create_graph: bool = False
    ) -> None:
        """Fill `grad` of everything this tensor was made from: the chain rule, from here to the
        leaves.

        Args:
            gradient: the upstream gradient, of this tensor's shape; may be left out for one number.
            retain_graph: keep graph and intermediate gradients, to look at or to run again. A
                second pass adds to leaves and starts intermediates afresh. False frees each node
                as soon as it is used.
            create_graph: make the gradients themselves differentiable.

        Raises:
            GraphError: nothing tracked, no seed for a non-scalar, or a graph already freed.
            ShapeError: a seed of the wrong shape.
            MutationError: data that a rule needs has changed since the forward pass.
        """
        from tinygrad_edu.autograd.backward import backward

        backward(self, gradient, retain_graph, create_graph)

    def zero_grad(self) -> None:
        """Forget the gradient: `grad` is None again."""
        self._grad = None

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Follow this leaf, or stop to; returns itself."""
        if self.op is not None and not requires_grad:
            raise GraphError("only a leaf can stop being tracked; use detach() on a result")
        if requires_grad and self._data.dtype.kind != "f" and not _is_bfloat(self._data):
            raise DTypeError(f"{self.dtype} has no gradient: only floating numbers do")
        self.requires_grad = requires_grad
        return self

    def register_hook(self, hook: Callable[[Tensor], Any]) -> Callable[[], None]:
        """Call `hook(gradient)` when the gradient arrives; what it returns, if anything, goes on.

        Returns a function that removes the hook.
        """
        if not self.requires_grad:
            raise GraphError(f"{self.label()} is not tracked, so no gradient will ever arrive")
        self._hooks = (self._hooks or []) + [hook]
        registered = [hook]

        def remove() -> None:
            # A function registered twice is called twice, and removed once a call.
            if registered and self._hooks is not None:
                kept = list(self._hooks)
                kept.remove(registered.pop())
                self._hooks = kept or None

        return remove

    def __reduce__(self) -> Any:
        """Copies and pickles carry data, name and gradient of a leaf; a result has to be
        detached.
        """
        if self.op is not None:
            raise GraphError(
                f"{self.label()} carries the graph that made it, which cannot be copied or "
                "pickled; call .detach() first"
            )
        return _rebuild, (type(self), self._data, self.requires_grad, self.name, self._grad)

    # What it looks like.

    def __repr__(self) -> str:
        with np.printoptions(precision=4, threshold=40, edgeitems=3):
            body = np.array2string(
                np.asarray(self._namespace.to_numpy(self._data)), separator=", ", prefix="tensor("
            )
        parts = [body]
        if self.dtype != _default_dtype:
            parts.append(f"dtype={self.dtype}")
        if self.size == 0 or self._data.size > 40:
            parts.append(f"shape={self.shape}")
        if self.name:
            parts.append(f"name={self.name!r}")
        if self.op is not None:
            parts.append(f"op={self.op.name}")
        elif self.requires_grad:
            parts.append("requires_grad=True")
        return f"tensor({', '.join(parts)})"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a 0-d tensor has no len(); it is one number")
        return self.shape[0]

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(
                f"a tensor of shape {self.shape} is neither true nor false; use .all() or .any() "
                "of its data, or compare one number"
            )
        return bool(self._data)

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self.dtype.kind not in "iu":
            raise TypeError(f"only an integer tensor can be an index; this one is {self.dtype}")
        return int(self.item())

    __hash__ = object.__hash__

    if TYPE_CHECKING:  # hung on the class by methods.py
        T: Tensor
        mT: Tensor

        def __getattr__(self, name: str) -> Any: ...
        def __add__(self, other: Any) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __pow__(self, other: Any) -> Tensor: ...
        def __rpow__(self, other: Any) -> Tensor: ...
        def __matmul__(self, other: Any) -> Tensor: ...
        def __rmatmul__(self, other: Any) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __pos__(self) -> Tensor: ...
        def __abs__(self) -> Tensor: ...
        def __invert__(self) -> Tensor: ...
        def __and__(self, other: Any) -> Tensor: ...
        def __or__(self, other: Any) -> Tensor: ...
        def __xor__(self, other: Any) -> Tensor: ...
        def __getitem__(self, index: Any) -> Tensor: ...
        def __lt__(self, other: Any) -> Tensor: ...
        def __le__(self, other: Any) -> Tensor: ...
        def __gt__(self, other: Any) -> Tensor: ...
        def __ge__(self, other: Any) -> Tensor: ...


def _rebuild(kind: Any, data: Array, requires_grad: bool, name: str | None, grad: Any) -> Tensor:
    out: Tensor = kind(data, requires_grad=requires_grad, name=name)
    out._grad = grad
    return out


def is_floating(dtype: Any) -> bool:
    """Whether numbers of `dtype` have gradients: NumPy's floats and bfloat16."""
    return dtype.kind == "f" or str(dtype) == "bfloat16"


def _is_bfloat(array: Array) -> bool:
    return str(array.dtype) == "bfloat16"


def grad_array(tensor: Tensor) -> Any:
    """The gradient of a leaf as a raw array, or None: for those who would only unwrap it again."""
    found = tensor._grad
    if found is None or found.__class__ is np.ndarray:
        return found
    wrapped = tensor.grad
    return None if wrapped is None else wrapped._data
