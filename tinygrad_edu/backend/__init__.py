"""Which array library computes: NumPy on the CPU or CuPy on an NVIDIA GPU.

An operation takes its library from the arrays it is given: `namespace_of(array)`. Only new arrays
ask `default_namespace()`, which `set_backend` or the variable TINYGRAD_EDU_BACKEND decides.
CuPy is imported here and nowhere else, and only when it is asked for.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from tinygrad_edu.backend.namespace import NUMPY, ArrayNamespace, Namespace, register
from tinygrad_edu.errors import DeviceError

__all__ = [
    "NUMPY",
    "ArrayNamespace",
    "Namespace",
    "default_namespace",
    "get_backend",
    "is_array",
    "namespace_named",
    "namespace_of",
    "register",
    "set_backend",
]

_by_array_type: dict[type, ArrayNamespace] = {np.ndarray: NUMPY}
_by_name: dict[str, ArrayNamespace] = {"numpy": NUMPY}
_default: ArrayNamespace | None = None


def add_array_library(name: str, array_type: type, namespace: ArrayNamespace) -> None:
    """Make a further array library known: how CuPy, and its stand-in in the tests, come in."""
    _by_name[name] = namespace
    _by_array_type[array_type] = namespace


def namespace_named(name: str) -> ArrayNamespace:
    """The namespace of the library called `name`: "numpy" ("cpu") or "cupy" ("cuda", "gpu")."""
    key = {"cpu": "numpy", "cuda": "cupy", "gpu": "cupy"}.get(name.split(":")[0], name)
    if key == "cupy" and key not in _by_name:
        try:
            import cupy
        except ImportError as error:
            raise DeviceError(
                "the backend 'cupy' was asked for, but CuPy is not installed here; "
                "pip install 'tinygrad_edu[cuda12]' (or [cuda13]) on a machine with an NVIDIA GPU"
            ) from error
        add_array_library("cupy", cupy.ndarray, ArrayNamespace("cupy", cupy))
    if key not in _by_name:
        raise DeviceError(f"there is no backend {name!r}; choose 'numpy' or 'cupy'")
    return _by_name[key]


def namespace_of(array: Any) -> ArrayNamespace:
    """The namespace whose arrays `array` is one of."""
    found = _by_array_type.get(type(array))
    if found is not None:
        return found
    for kind in type(array).__mro__:
        if kind in _by_array_type:
            return _by_array_type[kind]
    if type(array).__module__.split(".")[0] == "cupy":
        return namespace_named("cupy")
    raise DeviceError(
        f"{type(array).__name__} is an array of no known library; expected a NumPy or CuPy array"
    )


def is_array(x: Any) -> bool:
    """Whether `x` is an array of a library known here."""
    kind = type(x)
    return (
        kind in _by_array_type
        or isinstance(x, np.ndarray)
        or any(k in _by_array_type for k in kind.__mro__)
        or kind.__module__.split(".")[0] == "cupy"
    )


def set_backend(name: str) -> None:
    """Make new tensors on "numpy" or "cupy" from here on; tensors that exist stay where they
    are.
    """
    global _default
    _default = namespace_named(name)


def default_namespace() -> ArrayNamespace:
    """The namespace in which new arrays are made."""
    global _default
    if _default is None:
        _default = namespace_named(os.environ.get("TINYGRAD_EDU_BACKEND", "numpy"))
    return _default


def get_backend() -> str:
    """The name of the library in which new arrays are made."""
    return default_namespace().name


def gpu_problem() -> str | None:
    """Why cupy cannot compute here, in its or its driver's words; None where it can."""
    try:
        import cupy

        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # noqa: BLE001 - whatever a driver says is what is wanted here
        return str(error).partition("\n")[0].partition(":")[0] or type(error).__name__
    return None if count else "no device"
