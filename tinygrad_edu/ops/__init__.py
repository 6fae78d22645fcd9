"""The primitives, as tables: what each computes, and the rule of its gradient.

`registry` maps names to primitives; tests, drawings and documentation read everything there.
"""

from tinygrad_edu.ops import (
    activations,
    contraction,
    decompositions,
    elementwise,
    fused,
    indexing,
    linalg,
    movement,
    reduction,
    rotation,
    scans,
    shape,
    transcendental,
    windows,
)
from tinygrad_edu.ops.registry import Primitive, registry

__all__ = [
    "Primitive",
    "activations",
    "contraction",
    "decompositions",
    "elementwise",
    "fused",
    "indexing",
    "linalg",
    "movement",
    "reduction",
    "registry",
    "rotation",
    "scans",
    "shape",
    "transcendental",
    "windows",
]
