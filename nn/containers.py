"""Modules that hold modules: `Sequential`, `ModuleList`, `ModuleDict`.

A plain Python list of modules hides their parameters from `parameters()`; these do not.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, overload

from tinygrad_edu.nn.module import Module

__all__ = ["ModuleDict", "ModuleList", "Sequential"]


class _Numbered(Module):
    """What Sequential and ModuleList share: children named "0", "1", … in order."""

    def _items(self) -> list[Module]:
        return [self.__dict__[name] for name in self._names()]

    def _names(self) -> list[str]:
        return [name for name, value in self.__dict__.items() if isinstance(value, Module)]

    def _name_at(self, index: int) -> str:
        names = self._names()
        try:
            return names[operator.index(index)]
        except IndexError:
            raise IndexError(
                f"{type(self).__name__} holds {len(names)} modules, index {index} is outside."
            ) from None

    def __len__(self) -> int:
        return len(self._names())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items())

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return self._from_items(self._items()[index])
        return self.__dict__[self._name_at(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        self.register_module(self._name_at(index), module)

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.register_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add several modules at the end."""
        for module in modules:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> None:
        """Put a module before position `index`; the later ones are renumbered."""
        items = self._items()
        items.insert(index, module)
        self._replace(items)

    def __delitem__(self, index: int | slice) -> None:
        items = self._items()
        del items[index]
        self._replace(items)

    def _replace(self, items: list[Module]) -> None:
        for name in self._names():
            delattr(self, name)
        self.extend(items)

    def _from_items(self, items: list[Module]) -> Self:
        raise NotImplementedError


class Sequential(_Numbered):
    """Modules called one after the other, each with the output of the one before.

    `Sequential(a, b)` names them "0" and "1"; `Sequential({"first": a, "second": b})` by the keys.
    """

    def __init__(self, *modules: Module | Mapping[str, Module]) -> None:
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for name, module in modules[0].items():
                self.register_module(name, module)
            return
        for index, each in enumerate(modules):
            self.register_module(str(index), each)  # type: ignore[arg-type]

    def _from_items(self, items: list[Module]) -> Self:
        return type(self)(*items)

    def forward(self, x: Any) -> Any:
        """Whatever the first module takes -> whatever the last returns."""
        for module in self:
            x = module(x)
        return x


class ModuleList(_Numbered):
    """A list of modules; it computes nothing itself."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        self.extend(modules)

    def _from_items(self, items: list[Module]) -> Self:
        return type(self)(items)


class ModuleDict(Module):
    """A dictionary of modules; it computes nothing itself."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        self.update(modules or {})

    def update(self, modules: Mapping[str, Module]) -> None:
        """Add or replace modules by key."""
        for name, module in modules.items():
            self[name] = module

    def __getitem__(self, key: str) -> Any:
        found = self.__dict__.get(key)
        if not isinstance(found, Module):
            raise KeyError(f"{key!r} is not among {', '.join(self.keys()) or 'no modules'}")
        return found

    def __setitem__(self, key: str, module: Module) -> None:
        self.register_module(key, module)

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(f"{key!r} is not among {', '.join(self.keys()) or 'no modules'}")
        delattr(self, key)

    def __contains__(self, key: object) -> bool:
        return key in self.keys()

    def __len__(self) -> int:
        return len(self.keys())

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def keys(self) -> list[str]:
        """The keys, in the order of assignment."""
        return [name for name, value in self.__dict__.items() if isinstance(value, Module)]

    def values(self) -> list[Any]:
        """The modules, in the order of assignment."""
        return [self.__dict__[name] for name in self.keys()]

    def items(self) -> list[tuple[str, Any]]:
        """(key, module) pairs, in the order of assignment."""
        return [(name, self.__dict__[name]) for name in self.keys()]
