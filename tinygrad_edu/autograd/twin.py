"""`F` for tensors: the same rule that runs on arrays builds a graph, so derivatives of any order
come
from one line. Generated: a name is looked up among the public functions, then among the primitives.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tinygrad_edu import backend
from tinygrad_edu.autograd import functions
from tinygrad_edu.autograd.apply import apply
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.ops import registry

# Public functions whose arguments differ from their primitive's; rules mean the primitive.
_FUSED = {
    "dropout", "linear", "layer_norm", "rms_norm", "rotary", "cross_entropy", "attention",
    "packed_attention", "pad", "set_at",
}  # fmt: skip


class Twin(backend.Namespace):
    """The array namespace over tensors."""

    name = "tensor"

    def __getattr__(self, attribute: str) -> Any:
        found = None if attribute in _FUSED else getattr(functions, attribute, None)
        if found is None and attribute in registry:
            found = partial(apply, registry[attribute])
        if found is None:
            return super().__getattr__(attribute)
        setattr(self, attribute, found)
        return found

    def constant(self, x: Any) -> Any:
        """The raw array of `x`: nothing flows through it."""
        return x._data if isinstance(x, Tensor) else x

    def isfinite(self, x: Any) -> Any:
        """Where `x` is finite, as a bool tensor."""
        array = self.constant(x)
        return Tensor(backend.namespace_of(array).isfinite(array))


TWIN = Twin()
