"""Functions of other libraries under our checks, right ones and known wrong ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinygrad_edu import testing
from tinygrad_edu.errors import DTypeError
from tinygrad_edu.testing import adapters, check_vjp, gradcheck

X = np.array([0.3, -1.2, 2.1])
M = np.arange(6.0).reshape(2, 3) / 4 + 0.1


@pytest.mark.oracle
def test_torch_under_the_same_checks() -> None:
    torch = pytest.importorskip("torch", reason="torch, the judge, is not installed")
    gradcheck(adapters.from_torch(lambda a: torch.tanh(a) * a), X)
    gradcheck(adapters.from_torch(lambda a, b: (a @ b).sin()), (M, M.T.copy()), inner=1e-3)
    gradcheck(adapters.from_torch(lambda a: a[0] * 2), X)


@pytest.mark.oracle
def test_a_known_fault_of_torch_is_found() -> None:
    """linalg.det has a gradient of 0 at a singular matrix (pytorch#104675, as of 2.13)."""
    torch = pytest.importorskip("torch", reason="torch, the judge, is not installed")
    with pytest.raises((testing.GradValueError, testing.GradNaN, testing.GradInf)):
        check_vjp(adapters.from_torch(torch.linalg.det), [[1.0, 2.0], [2.0, 4.0]])


@pytest.mark.oracle
def test_torch_functions_that_are_wrong_by_hand() -> None:
    torch: Any = pytest.importorskip("torch", reason="torch, the judge, is not installed")

    class Wrong(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            ctx.save_for_backward(a)
            return a.exp()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.saved_tensors[0].exp() * (1 + 1e-7)

    assert torch.autograd.gradcheck(Wrong.apply, torch.tensor(X, requires_grad=True))
    with pytest.raises(testing.GradValueError):
        check_vjp(adapters.from_torch(Wrong.apply), X)


def test_autograd_under_the_same_checks() -> None:
    numpy = pytest.importorskip("autograd.numpy", reason="autograd is not installed")
    gradcheck(adapters.from_autograd(lambda a: numpy.tanh(a) * a), X)
    gradcheck(adapters.from_autograd(lambda a, b: numpy.sin(a @ b)), (M, M.T.copy()), inner=1e-3)
    with pytest.raises(testing.GradShapeError):  # HIPS/autograd#396: a gradient of another shape
        check_vjp(adapters.from_autograd(lambda a: numpy.where(X > 0, a, X)), 2.0)


def test_jax_under_the_same_checks() -> None:
    jax = pytest.importorskip("jax", reason="jax is not installed")
    with pytest.raises(DTypeError, match=r"float32 for float64.*jax_enable_x64"):
        check_vjp(adapters.from_jax(jax.numpy.sin), X)
    jax.config.update("jax_enable_x64", True)
    gradcheck(adapters.from_jax(lambda a: jax.numpy.tanh(a) * a), X)
    with pytest.raises(testing.GradNaN):  # jax#11716: of numbers that are all equal
        check_vjp(adapters.from_jax(jax.numpy.std), [1.0, 1.0, 1.0])
