"""hypothesis strategies for derivative tests: shapes, indices, values, upstream gradients.

Sizes 0 and 1 and rank 0 are ordinary here. Values are built, never filtered, and most are dyadic,
so that what a failing test shrinks to is short numbers whose arithmetic rounds nothing. Needs the
extra `hypothesis`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.testing.layout import LAYOUTS
from tinygrad_edu.testing.programs import programs

__all__ = [
    "axes",
    "broadcastable",
    "cotangents",
    "directions",
    "einsum_specs",
    "indices",
    "layouts",
    "matmul_shapes",
    "programs",
    "shapes",
    "tensors",
    "ties",
    "values",
]

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

_DYADIC = (0.5, 1.0, -0.5, -1.0, 2.0, -2.0)


def shapes(min_dims: int = 0, max_dims: int = 4, max_side: int = 4) -> st.SearchStrategy[Shape]:
    """Shapes, rank 0 and sides of 0 and 1 among them."""
    found: st.SearchStrategy[Shape] = hnp.array_shapes(
        min_dims=min_dims, max_dims=max_dims, min_side=0, max_side=max_side
    )
    return found


def broadcastable(n: int, max_dims: int = 3, max_side: int = 3) -> st.SearchStrategy[list[Shape]]:
    """`n` shapes that broadcast together."""
    found = hnp.mutually_broadcastable_shapes(
        num_shapes=n, min_dims=0, max_dims=max_dims, min_side=0, max_side=max_side
    )
    return found.map(lambda drawn: list(drawn.input_shapes))


def matmul_shapes(max_dims: int = 2, max_side: int = 3) -> st.SearchStrategy[list[Shape]]:
    """Two shapes that `matmul` takes: vectors, matrices, and stacks that broadcast."""
    found = hnp.mutually_broadcastable_shapes(
        signature=np.matmul.signature, min_dims=0, max_dims=max_dims, min_side=0, max_side=max_side
    )
    return found.map(lambda drawn: list(drawn.input_shapes))


def axes(ndim: int) -> st.SearchStrategy[int | tuple[int, ...] | None]:
    """What a reduction takes as `axis`: None, one axis, or several, counted from either end."""
    if ndim == 0:
        return st.none()
    one = st.integers(-ndim, ndim - 1)
    several = st.lists(one, unique_by=lambda i: i % ndim, min_size=1).map(tuple)
    return st.one_of(st.none(), one, several)


def indices(shape: Shape) -> st.SearchStrategy[Any]:
    """An index of an array of `shape`, in any form NumPy knows.

    Integers, slices with steps, Ellipsis and None, alone or in a tuple; integer arrays with
    duplicates, that broadcast together, side by side or apart; masks of all axes or of the first.
    """
    basic = hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True)
    found = [basic, _masks(shape)]
    if shape and 0 not in shape:
        found.append(_integer_arrays(shape))
        found.append(_mixed(shape))
    return st.one_of(found)


def _masks(shape: Shape) -> st.SearchStrategy[Array]:
    rank = st.integers(0, len(shape)) if shape else st.just(0)
    return rank.flatmap(lambda n: hnp.arrays(np.bool_, shape[:n]))


def _row(length: int, shape: Shape) -> st.SearchStrategy[Array]:
    """Positions in an axis: few different ones, so that most arrays have duplicates."""
    return hnp.arrays(np.int64, shape, elements=st.integers(-length, length - 1))


def _integer_arrays(shape: Shape) -> st.SearchStrategy[Any]:
    def for_axes(n: int) -> st.SearchStrategy[Any]:
        together = broadcastable(n, max_dims=2)
        return together.flatmap(
            lambda drawn: st.tuples(*[_row(shape[i], s) for i, s in enumerate(drawn)])
        )

    return st.integers(1, len(shape)).flatmap(for_axes)


@st.composite
def _mixed(draw: Any, shape: Shape) -> tuple[Any, ...]:
    """Arrays and slices side by side; arrays apart from each other move to the front."""
    together = draw(st.integers(0, 3))
    parts: list[Any] = []
    for length in shape:
        kind = draw(st.sampled_from(["slice", "array", "integer", "new"]))
        if kind == "new":
            parts.append(None)
            kind = "slice"
        if kind == "array":
            parts.append(draw(_row(length, (together,))))
        elif kind == "integer":
            parts.append(draw(st.integers(-length, length - 1)))
        else:
            parts.append(draw(st.slices(length)))
    return tuple(parts)


def values(
    shape: Shape,
    domain: tuple[float, float] = (-4.0, 4.0),
    special: Sequence[float] = (),
    dtype: Any = np.float64,
) -> st.SearchStrategy[Array]:
    """Arrays inside `domain`: dyadic numbers, floats, and those of `special` (kinks, say)."""
    low, high = domain
    steps = st.integers(1, 63).map(lambda k: low + (high - low) * k / 64)
    inside = st.floats(low, high, allow_subnormal=False)
    elements = st.one_of(steps, inside, *([st.sampled_from(list(special))] if special else []))
    found: st.SearchStrategy[Array] = hnp.arrays(np.float64, shape, elements=elements)
    return found.map(lambda x: x.astype(dtype))


def ties(shape: Shape, dtype: Any = np.float64) -> st.SearchStrategy[Array]:
    """Arrays of few different numbers, so that the largest is often there twice."""
    found: st.SearchStrategy[Array] = hnp.arrays(
        np.float64, shape, elements=st.sampled_from([0.0, 1.0, -1.0]), fill=st.nothing()
    )
    return found.map(lambda x: x.astype(dtype))


def cotangents(shape: Shape, dtype: Any = np.float64) -> st.SearchStrategy[Array]:
    """Upstream gradients: dyadic, none 0, never all equal where there is more than one.

    Ones would hide a rule that ignores its upstream gradient, and a wrong permutation.
    """

    def unequal(g: Array) -> Array:
        flat = g.reshape(-1)
        if flat.size > 1 and (flat == flat[0]).all():
            flat[-1] = -flat[0]
        return g.astype(dtype)

    drawn = hnp.arrays(
        np.float64, shape, elements=st.sampled_from(_DYADIC), fill=st.nothing()
    )
    return drawn.map(unequal)


directions = cotangents


def tensors(
    shape: Shape | st.SearchStrategy[Shape] | None = None,
    domain: tuple[float, float] = (-4.0, 4.0),
    dtype: Any = np.float64,
    requires_grad: bool = True,
) -> st.SearchStrategy[Tensor]:
    """Tensors of a shape, or of shapes drawn from a strategy, tracked by default."""
    drawn = shapes() if shape is None else shape
    where = drawn if isinstance(drawn, st.SearchStrategy) else st.just(drawn)
    return where.flatmap(lambda s: values(s, domain, dtype=dtype)).map(
        lambda x: Tensor(x, requires_grad=requires_grad)
    )


def layouts(x: Array) -> st.SearchStrategy[Array]:
    """The numbers of x, laid out otherwise: by columns, backwards, with gaps, unaligned, frozen."""
    ways: list[Any] = [np.array, *LAYOUTS.values()]
    return st.sampled_from(ways).map(lambda way: np.asarray(way(x) if x.ndim else x))


@st.composite
def einsum_specs(
    draw: Any, operands: int = 2, max_side: int = 3
) -> tuple[str, list[Shape]]:
    """(subscripts, shapes) that einsum takes: names that repeat within an operand (diagonals), that
    only one has (sums), that all share, and a result in any order.
    """
    names = "abcd"
    lengths = {n: draw(st.integers(0 if n == "d" else 1, max_side)) for n in names}
    term = st.lists(st.sampled_from(names), min_size=0, max_size=3).map("".join)
    terms = [draw(term) for _ in range(operands)]
    there = sorted(set("".join(terms)))
    result = draw(st.lists(st.sampled_from(there), unique=True)) if there else []
    spec = ",".join(terms) + "->" + "".join(result)
    return spec, [tuple(lengths[n] for n in t) for t in terms]

