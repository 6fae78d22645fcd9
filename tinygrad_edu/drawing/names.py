"""What to call the nodes of a graph: the user's names, her variables' names, else names by use.

Names are unique within a graph and depend on the graph and the given names alone, so that equal
graphs give equal names.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

from tinygrad_edu.autograd import origin
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.drawing import facts
from tinygrad_edu.scalar.value import Value

__all__ = ["Names", "names_in", "nodes_in", "users_frame"]

_DEEP = 3
_MOST = 2000
_LOOKS = 20_000
"""Things looked at in one variable: a list of lists of numbers may hold millions."""
_PLAIN = (str, int, float, bool, bytes, type(None))
"""Keys that are written the same way in each run; an object's own text may hold its address."""


class Names:
    """A name for each node of a graph: its own, its variable's, or "multiply:2".

    Args:
        order: the nodes, in topological order.
        variables: names by `id(node)`, such as `names_in` gives; used for nodes without a name.
    """

    def __init__(self, order: Sequence[Any], variables: Mapping[int, str] | None = None) -> None:
        variables = variables or {}
        self._names: dict[int, str] = {}
        taken: dict[str, int] = {}
        used: set[str] = set()
        unnamed: list[tuple[Any, str]] = []
        for node in order:
            given = node.name or variables.get(id(node))
            if given is None:
                unnamed.append((node, facts.word(node)))
                continue
            name = given
            while name in used:  # also by a user's own "w#2"
                taken[given] = taken.get(given, 1) + 1
                name = f"{given}#{taken[given]}"
            used.add(name)
            self._names[id(node)] = name
        counts: dict[str, int] = {}
        for node, kind in unnamed:
            while True:
                counts[kind] = counts.get(kind, 0) + 1
                name = f"{kind}:{counts[kind]}"
                if name not in used:
                    break
            self._names[id(node)] = name

    def __getitem__(self, node: Any) -> str:
        return self._names[id(node)]

    def get(self, node: Any, default: str = "?") -> str:
        """The name of a node, or `default` for one of another graph."""
        return self._names.get(id(node), default)


def users_frame() -> FrameType:
    """The nearest frame outside this package: where the user's program is now."""
    frame: FrameType = origin.here()
    return frame


def names_in(frame: FrameType | None = None) -> dict[int, str]:
    """Names by `id` of the nodes that variables of a frame hold, also in lists, dicts and modules:
    `w`, `ws[0]`, `cfg['w']`, `model.blocks.0.attn.qkv.weight`.
    """
    if frame is None:
        frame = users_frame()
    known = origin.variables(frame)
    if frame.f_code.co_name != "<module>":
        for name, thing in frame.f_globals.items():
            known.setdefault(name, thing)
    return nodes_in(known)


def nodes_in(variables: Mapping[str, Any]) -> dict[int, str]:
    """The same of any variables by name."""
    found: dict[int, str] = {}
    for name, thing in variables.items():
        if name.startswith("_") or not name.isidentifier():  # pytest's own, a comprehension's
            continue
        for node, path in _nodes_of(thing, name, 0, [_LOOKS]):
            if len(found) >= _MOST:
                return found
            found.setdefault(id(node), path)
    return found


def _nodes_of(
    thing: Any, path: str, depth: int, looks: list[int]
) -> Iterator[tuple[Any, str]]:
    kind = type(thing)  # not isinstance: a proxy's __class__ or __getattr__ may raise
    looks[0] -= 1
    if issubclass(kind, (Tensor, Value)):
        yield thing, path
    elif depth >= _DEEP:
        return
    elif issubclass(kind, (list, tuple)):
        for i, each in enumerate(thing[:_MOST]):
            if looks[0] <= 0:
                return
            yield from _nodes_of(each, f"{path}[{i}]", depth + 1, looks)
    elif kind is dict:
        for key, each in list(thing.items())[:_MOST]:
            parts = key if type(key) is tuple else (key,)
            if looks[0] > 0 and all(type(part) in _PLAIN for part in parts):
                yield from _nodes_of(each, f"{path}[{key!r}]", depth + 1, looks)
    else:
        nn = sys.modules.get("tinygrad_edu.nn")  # whoever has a module has imported it
        if nn is not None and issubclass(kind, nn.Module):
            for name, parameter in thing.named_parameters():
                yield parameter, f"{path}.{name}"
