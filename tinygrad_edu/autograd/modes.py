"""What is switched on in this thread: gradients, kernels, anomaly detection, the module being
run.
"""

from __future__ import annotations

import threading
from contextlib import ContextDecorator
from typing import Any

import numpy as np


class _State(threading.local):
    """Read on every operation, so flat; each thread starts from these defaults."""

    grad: bool = True
    fused: bool = True
    anomaly: bool = False
    module: str = ""
    generator: Any = None


state = _State()


class _set(ContextDecorator):  # noqa: N801 - reads as a verb where it is used
    """Holds settings of this thread for a block or a function; may be entered again and nested."""

    def __init__(self, **values: Any) -> None:
        self._values = values
        self._before: list[dict[str, Any]] = []

    def _recreate_cm(self) -> _set:  # each call of a decorated function, in any thread, its own
        return _set(**self._values)

    def __enter__(self) -> None:
        self._before.append({key: getattr(state, key) for key in self._values})
        for key, value in self._values.items():
            setattr(state, key, value)

    def __exit__(self, *error: object) -> None:
        for key, value in self._before.pop().items():
            setattr(state, key, value)


def current() -> Any:
    """The settings of this thread, to be entered in another: threads start from the defaults."""
    names = ("grad", "fused", "anomaly", "module")
    return _set(**{name: getattr(state, name) for name in names})


def no_grad() -> Any:
    """Within it operations remember nothing: no graph, no gradient. Also usable as a decorator."""
    return _set(grad=False)


def enable_grad() -> Any:
    """Within it operations are remembered again, inside a `no_grad()` too."""
    return _set(grad=True)


def is_grad_enabled() -> bool:
    """Whether operations on tracked tensors are remembered in this thread."""
    return state.grad


def unfused() -> Any:
    """Within it fused operations run as the compositions that define them, one node a step."""
    return _set(fused=False)


def detect_anomaly() -> Any:
    """Within it the first NaN or inf, forward or backward, is an error that names its origin.

    Also finds writes into an array, such as `t.data[0] = 1`, between forward and backward.
    """
    return _set(anomaly=True)


def module_path(path: str) -> Any:
    """Within it new nodes carry `path` as the module that made them; `nn.Module` uses it."""
    return _set(module=path)


def manual_seed(seed: int) -> np.random.Generator:
    """Restart this thread's default random stream; same seed, same numbers. Returns the stream."""
    state.generator = np.random.default_rng(seed)
    return default_generator()


def default_generator() -> np.random.Generator:
    """The stream that initialisation, dropout and `randn` draw from when none is passed."""
    if state.generator is None:
        state.generator = np.random.default_rng()
    generator: np.random.Generator = state.generator
    return generator
