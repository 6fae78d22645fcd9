"""What a module's `state_dict` and `load_state_dict` do, in two phases: check everything, then
copy.

Nothing is written before the last name and shape has been checked, so a failed load leaves the
module as it was.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tinygrad_edu.autograd import Tensor
from tinygrad_edu.backend import ArrayNamespace, is_array, namespace_named, namespace_of

if TYPE_CHECKING:
    from tinygrad_edu.nn.module import Module

__all__ = ["LoadResult", "StateDictError", "load_state", "move", "state_of"]


class StateDictError(RuntimeError):
    """A state that does not fit the module; a RuntimeError, as PyTorch raises."""


class LoadResult(NamedTuple):
    """Names the module has and the state had not, and the other way round."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def state_of(module: Module, prefix: str = "") -> dict[str, Tensor]:
    """Name -> detached tensor sharing memory, for `Module.state_dict`."""
    return {prefix + name: tensor.detach() for name, tensor in _entries(module)}


def load_state(module: Module, state: Mapping[str, Any], strict: bool) -> LoadResult:
    """Copy `state` into the module's memory, or raise StateDictError and change nothing."""
    if not isinstance(state, Mapping):
        raise TypeError(
            f"load_state_dict was given {type(state).__name__}, expected a mapping from names to "
            "arrays, as state_dict() returns."
        )
    own = dict(_entries(module))
    result = LoadResult(
        missing_keys=[name for name in own if name not in state],
        unexpected_keys=[name for name in state if name not in own],
    )
    complaints = _unmatched(result, own) if strict else []
    arrays: dict[str, Any] = {}
    for name, tensor in own.items():
        if name in state:
            array, complaint = _fitting(name, tensor, state[name])
            arrays[name] = array
            complaints += complaint
    if complaints:
        raise StateDictError(
            f"load_state_dict: the state does not fit {type(module).__name__}, and nothing was "
            "changed. " + " ".join(complaints)
        )
    for name, array in arrays.items():
        own[name].data[...] = array
        own[name]._written()
    return result


def _entries(module: Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters and persistent buffers, tied ones under each of their names."""
    for path, owner in module.named_modules(remove_duplicate=False):
        start = f"{path}." if path else ""
        for name, parameter in owner.named_parameters(recurse=False, remove_duplicate=False):
            yield start + name, parameter
        for name, buffer in owner.named_buffers(recurse=False, remove_duplicate=False):
            if owner._buffers[name]:
                yield start + name, buffer


def _unmatched(result: LoadResult, own: Mapping[str, Tensor]) -> list[str]:
    """A sentence for the missing names and one for the unexpected ones, each with the nearest name
    we have.
    """
    sentences = []
    if result.missing_keys:
        sentences.append(f"Missing: {', '.join(result.missing_keys)}.")
    if result.unexpected_keys:
        named = []
        for name in result.unexpected_keys:
            near = difflib.get_close_matches(str(name), own, n=1)
            named.append(f"{name} (did you mean {near[0]}?)" if near else str(name))
        sentences.append(f"Unexpected: {', '.join(named)}.")
    return sentences


def _fitting(name: str, tensor: Tensor, value: Any) -> tuple[Any, list[str]]:
    """`value` as an array of the tensor's library and dtype, and what is wrong with it, if
    anything.
    """
    raw = value.data if isinstance(value, Tensor) else value
    shape = tuple(getattr(raw, "shape", None) or np.shape(raw))
    if shape != tuple(tensor.shape):
        return None, [
            f"{name} has shape {shape} in the state, {tuple(tensor.shape)} in the module."
        ]
    kind = getattr(raw, "dtype", None)
    kind = np.asarray(raw).dtype if kind is None else np.dtype(kind)
    if kind.kind in "cOSUMm":
        return None, [f"{name} holds {kind} in the state, {tensor.dtype} in the module."]
    return array_in(namespace_of(tensor.data), raw), []


def array_in(library: ArrayNamespace, raw: Any) -> Any:
    """`raw`, an array of any library or something NumPy understands, as an array of `library`."""
    if is_array(raw):
        source = namespace_of(raw)
        if source is library:
            return raw
        raw = source.to_numpy(raw)
    return library.xp.asarray(raw)


def is_floating(dtype: Any) -> bool:
    """Whether gradients make sense in `dtype` (bfloat16 is not NumPy's own, so its kind is no
    help).
    """
    kind = np.dtype(dtype)
    return bool(kind.kind == "f" or kind.name == "bfloat16")


def move(tensor: Tensor, device: str | None, dtype: Any) -> None:
    """Put a tensor's data, and its gradient's, on `device` and, if floating, into `dtype`."""
    for part in (tensor, tensor.grad):
        if part is None:
            continue
        data = part.data
        if device is not None:
            data = array_in(namespace_named(device), data)
        if dtype is not None and is_floating(data.dtype):
            data = data.astype(dtype, copy=False)
        if data is not part.data:
            part.data = data
