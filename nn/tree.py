"""Looking through a tree of modules: what hangs on it, under which dotted names.

A module's parts are its attributes, so this reads `__dict__`, in the order of assignment. `kind` is
`Module`, which is built on this file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from tinygrad_edu.autograd import Tensor
from tinygrad_edu.nn.parameter import Parameter

M = TypeVar("M")
T = TypeVar("T")


def own_children(module: M, kind: type[M]) -> list[tuple[str, M]]:
    """(name, module) of the modules assigned to this one, one assigned twice under both names."""
    return [(name, value) for name, value in vars(module).items() if isinstance(value, kind)]


def own_parameters(module: object) -> Iterator[tuple[str, Parameter]]:
    """(name, parameter) of the parameters assigned to this module."""
    for name, value in vars(module).items():
        if isinstance(value, Parameter):
            yield name, value


def own_buffers(module: object) -> Iterator[tuple[str, Tensor]]:
    """(name, tensor) of the buffers registered on this module."""
    for name in vars(module).get("_buffers", ()):
        value = vars(module).get(name)
        if value is not None:
            yield name, value


def walk(module: M, kind: type[M], prefix: str, remove_duplicate: bool) -> Iterator[tuple[str, M]]:
    """(dotted name, module) of the module and all below, parents first."""
    seen: set[int] = set()
    pending = [(prefix, module)]
    while pending:
        name, found = pending.pop()
        if remove_duplicate:
            if id(found) in seen:
                continue
            seen.add(id(found))
        yield name, found
        below = own_children(found, kind)
        pending.extend((joined(name, key), child) for key, child in reversed(below))


def members(
    owners: Iterable[tuple[str, M]],
    own: Callable[[M], Iterator[tuple[str, T]]],
    remove_duplicate: bool,
) -> Iterator[tuple[str, T]]:
    """(dotted name, member) of the members that `own` finds in each of the named `owners`."""
    seen: set[int] = set()
    for path, owner in owners:
        for name, member in own(owner):
            if remove_duplicate and id(member) in seen:
                continue
            seen.add(id(member))
            yield joined(path, name), member


def joined(prefix: str, name: str) -> str:
    """A dotted name."""
    return f"{prefix}.{name}" if prefix else name


def check_name(owner: type, name: str) -> None:
    """Raise ValueError for a name that no part of a module of class `owner` can have."""
    if not name or "." in name:
        raise ValueError(
            f"{name!r} cannot name a part of {owner.__name__}: it must be non-empty and hold no "
            "dot, because dots separate the names in state_dict."
        )
    if hasattr(owner, name):
        raise ValueError(
            f"{name!r} cannot name a part of {owner.__name__}: the class has an attribute of that "
            "name."
        )
