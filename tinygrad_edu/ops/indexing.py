"""Reading elements by NumPy's index forms, and its transpose, adding them back."""

from __future__ import annotations

from tinygrad_edu.ops.registry import linear

_ANY = ((-4.0, 4.0),)

getitem = linear(
    "getitem", "a[index]", forward=lambda F, a, *, index: a[index],
    transposes=(lambda F, g, a_shape, index: F.scatter_add(g, index=index, shape=a_shape),),
    analytic=True, degree=1, domain=_ANY,
    kinks=("an element read k times gets the sum of k gradients",),
)
scatter_add = linear(
    "scatter_add", "zeros with a added at index",
    forward=lambda F, a, *, index, shape: F.scatter_add(a, index, shape),
    transposes=(lambda F, g, index: F.getitem(g, index=index),),
    analytic=True, degree=1, domain=_ANY,
)
