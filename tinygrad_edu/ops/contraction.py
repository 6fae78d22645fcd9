"""Einstein's sums: products of arrays along named axes, summed over names that the result lacks.

What is left to the primitive is the core: every operand has each name once, and every name is in
the result or in another operand. Then the gradient to an operand is such a sum again, of the
upstream gradient and the other operands. (Diagonals and lone names are taken out before.)
"""

from __future__ import annotations

from typing import Any

from tinygrad_edu.ops.registry import joint

Array = Any


def _einsum_vjp(F: Any, need: Any, g: Any, arrays: Any, subscripts: str) -> list[Any]:
    names, result = subscripts.split("->")
    terms = names.split(",")
    found = []
    for i, wanted in enumerate(need):
        others = [a for j, a in enumerate(arrays) if j != i]
        spec = ",".join([result, *(t for j, t in enumerate(terms) if j != i)]) + "->" + terms[i]
        found.append(F.einsum(spec, g, *others, optimize=True) if wanted else None)
    return found


def _einsum_jvp(F: Any, tangents: Any, *arrays: Any, out: Any, subscripts: str) -> Array:
    """A sum of sums, in each of which one operand is replaced by its tangent."""
    total = None
    for i, t in enumerate(tangents):
        if t is not None:
            moved = [t if j == i else a for j, a in enumerate(arrays)]
            term = F.einsum(subscripts, *moved, optimize=True)
            total = term if total is None else total + term
    return total


einsum = joint(
    "einsum", "Σ of products along named axes",
    forward=lambda F, *arrays, subscripts: F.einsum(subscripts, *arrays, optimize=True),
    vjp=_einsum_vjp, jvp=_einsum_jvp, analytic=True, degree=1, domain=((-4.0, 4.0),),
    kinks=("a contraction does not absorb: 0 · inf inside a sum is NaN",),
)  # fmt: skip
