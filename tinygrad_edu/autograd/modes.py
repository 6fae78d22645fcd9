"""What is switched on in this thread: gradients, kernels, anomaly detection, the module being
run.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def _set(**values: Any) -> Iterator[None]:
    before = {key: getattr(state, key) for key in values}
    for key, value in values.items():
        setattr(state, key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            setattr(state, key, value)


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
