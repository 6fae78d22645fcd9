"""Functions of other libraries under the same checks: `from_torch`, `from_jax`, `from_autograd`.

    check_vjp(from_torch(torch.special.erfcx), [0.5, 1.0])

The value and the gradient are the other library's, wrapped as one operation here; its gradient is
such an operation again, so that second derivatives are checked too. The oracle asks for values
alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinygrad_edu.autograd.apply import apply
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.errors import DTypeError
from tinygrad_edu.ops.registry import joint
from tinygrad_edu.testing.errors import GradShapeError

Array = Any


class _Foreign:
    """A function f of another library: its value on arrays, and the functions of its gradients."""

    library = ""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f

    def value(self, xs: Sequence[Array]) -> Array:
        """f(*xs) as an array."""
        raise NotImplementedError

    def pull(self, i: int, again: bool) -> Callable[..., Any]:
        """In the other library: (g, *xs) -> the gradient of ⟨g, f⟩ to input i; `again`: such that
        it can be differentiated once more.
        """
        raise NotImplementedError

    def __call__(self, *xs: Any) -> Tensor:
        return apply(_foreign, *xs, function=self)

    def checked(self, out: Any, xs: Sequence[Array]) -> Array:
        """The result as an array; of another precision than the inputs' it is refused."""
        found = np.asarray(out)
        if found.dtype.kind == "f" and found.dtype.itemsize < min(x.dtype.itemsize for x in xs):
            raise DTypeError(
                f"{self.library} returned {found.dtype} for {xs[0].dtype}: let it compute in that "
                "precision" + self.hint
            )
        return found

    hint = ""


class _Torch(_Foreign):
    library = "torch"

    def value(self, xs: Sequence[Array]) -> Array:
        import torch

        given = [torch.tensor(np.array(x), requires_grad=True) for x in xs]
        return self.checked(self.f(*given).detach().numpy(), xs)

    def pull(self, i: int, again: bool) -> Callable[..., Any]:
        import torch

        def gradient(g: Any, *xs: Any) -> Any:
            with torch.enable_grad():
                made = [x if x.requires_grad else x.clone().requires_grad_() for x in xs]
                out = self.f(*made)
                if not out.requires_grad:
                    return torch.zeros_like(made[i])
                (found,) = torch.autograd.grad(
                    out, [made[i]], g, create_graph=again, allow_unused=True
                )
            return torch.zeros_like(made[i]) if found is None else found

        return gradient


class _Jax(_Foreign):
    library = "JAX"
    hint = ': jax.config.update("jax_enable_x64", True)'

    def value(self, xs: Sequence[Array]) -> Array:
        return self.checked(self.f(*xs), xs)

    def pull(self, i: int, again: bool) -> Callable[..., Any]:
        import jax

        return lambda g, *xs: jax.vjp(self.f, *xs)[1](g)[i]


class _Autograd(_Foreign):
    library = "autograd"

    def value(self, xs: Sequence[Array]) -> Array:
        return self.checked(self.f(*xs), xs)

    def pull(self, i: int, again: bool) -> Callable[..., Any]:
        from autograd import make_vjp

        def gradient(g: Any, *xs: Any) -> Any:
            with warnings.catch_warnings():  # of an output that does not depend on an input
                warnings.simplefilter("ignore", UserWarning)
                return make_vjp(self.f, i)(*xs)[0](g)

        return gradient


def _vjp(F: Any, need: Any, g: Any, xs: Any, function: _Foreign) -> list[Any]:
    kind = type(function)
    found: list[Any] = []
    for i, wanted in enumerate(need):
        again = isinstance(g, Tensor)
        gradient = kind(function.pull(i, again))
        if not wanted:
            found.append(None)
        else:
            d = gradient(g, *xs) if again else gradient.value([g, *xs])
            if tuple(d.shape) != tuple(xs[i].shape):
                raise GradShapeError(
                    f"{function.library}'s gradient to input {i} of shape {tuple(xs[i].shape)} has "
                    f"shape {tuple(d.shape)}"
                )
            found.append(d)
    return found


_foreign = joint(
    "foreign", "a function of another library",
    forward=lambda F, *xs, function: function.value(xs), vjp=_vjp, listed=False,
)  # fmt: skip


def from_torch(f: Callable[..., Any]) -> Callable[..., Tensor]:
    """A function of torch tensors as one of tensors here, with torch's gradient."""
    return _Torch(f)


def from_jax(f: Callable[..., Any]) -> Callable[..., Tensor]:
    """A function of JAX arrays as one of tensors here, with JAX's gradient.

    JAX computes in float32 unless `jax_enable_x64` is set, which the oracle needs.
    """
    return _Jax(f)


def from_autograd(f: Callable[..., Any]) -> Callable[..., Tensor]:
    """A function written for HIPS autograd as one of tensors here, with autograd's gradient."""
    return _Autograd(f)
