"""Options that may be left out show as `--minutes FLOAT`, not as `--minutes {None}|FLOAT`."""

from __future__ import annotations

from pathlib import Path
from types import NoneType
from typing import Any, get_args

from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

KINDS: dict[type, str] = {int: "INT", float: "FLOAT", Path: "PATH"}


def optional_values() -> ConstructorRegistry:
    """The rule for `X | None`, where X is one of `KINDS`, as tyro takes it."""
    registry = ConstructorRegistry()

    @registry.primitive_rule
    def rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
        kinds = [kind for kind in get_args(info.type) if kind is not NoneType]
        if len(kinds) != 1 or NoneType not in get_args(info.type) or kinds[0] not in KINDS:
            return None
        (kind,) = kinds
        return PrimitiveConstructorSpec(
            nargs=1,
            metavar=KINDS[kind],
            instance_from_str=lambda words: kind(words[0]),
            is_instance=lambda value: value is None or isinstance(value, kind),
            str_from_instance=lambda value: ["none" if value is None else str(value)],
        )

    return registry
