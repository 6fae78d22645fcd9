"""What registering a hook on a module gives back."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

__all__ = ["HookHandle"]


class HookHandle:
    """What registering a hook returns: `remove()` takes the hook away, as does leaving a `with`
    block.
    """

    def __init__(self, hooks: list[Callable[..., Any]], hook: Callable[..., Any]) -> None:
        self._hooks = hooks
        self._hook = hook

    def remove(self) -> None:
        """Take the hook away; doing it twice is harmless."""
        self._hooks[:] = [hook for hook in self._hooks if hook is not self._hook]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()
