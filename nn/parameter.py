"""`Parameter`: a tensor that a module owns and an optimizer moves."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_edu.autograd import Tensor, get_default_dtype
from tinygrad_edu.backend import default_namespace, namespace_named
from tinygrad_edu.nn.state import is_floating

__all__ = ["Parameter", "checked_size", "new_parameter"]


class Parameter(Tensor):
    """A leaf tensor that `Module.parameters()` finds when it is an attribute of a module.

    Args:
        data: a Tensor (its data is shared, its history is not), an array, a list or a number.
        requires_grad: False for a frozen parameter.

    Raises:
        TypeError: for integer data, which no gradient can move, unless `requires_grad` is False.
    """

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True, name: str | None = None) -> None:
        source = data.detach() if isinstance(data, Tensor) else Tensor(data)
        if requires_grad and not is_floating(source.dtype):
            raise TypeError(
                f"nn.Parameter was given {source.dtype} data, expected floating point: convert it, "
                "or pass requires_grad=False for a constant."
            )
        super().__init__(source.data, requires_grad=requires_grad, name=name)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


def new_parameter(*shape: int, device: str | None = None, dtype: Any = None) -> Parameter:
    """An unfilled parameter in the default dtype and on the default backend, for a layer to
    initialise.
    """
    library = default_namespace() if device is None else namespace_named(device)
    kind = get_default_dtype() if dtype is None else dtype
    return Parameter(library.xp.empty(shape, dtype=kind))


def checked_size(owner: str, **sizes: Any) -> None:
    """Raise ValueError unless every size is a positive whole number."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
            raise ValueError(
                f"{owner} was given {name}={size!r}, expected a whole number of at least 1."
            )
