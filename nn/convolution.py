"""Convolution and pooling as modules, with PyTorch's arguments and starting weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_edu.autograd import Tensor
from tinygrad_edu.nn import functional as F
from tinygrad_edu.nn import init
from tinygrad_edu.nn.module import Module
from tinygrad_edu.nn.parameter import checked_size, new_parameter

__all__ = ["AvgPool1d", "AvgPool2d", "Conv1d", "Conv2d", "MaxPool1d", "MaxPool2d"]

Size = int | tuple[int, ...]


class _Convolution(Module):
    """Windows of the input times a weight (out_channels, in_channels/groups, *kernel_size).

    Weight and bias start as U(-1/√n, 1/√n) with n numbers in a window, as in PyTorch.
    """

    axes = 1
    function: Any = None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = None,
        *,
        generator: np.random.Generator | None = None,
    ) -> None:
        super().__init__()
        owner = type(self).__name__
        checked_size(owner, in_channels=in_channels, out_channels=out_channels, groups=groups)
        if in_channels % groups or out_channels % groups:
            raise ValueError(
                f"{owner} was given groups={groups}, expected a divisor of in_channels="
                f"{in_channels} and out_channels={out_channels}."
            )
        size = (kernel_size,) * self.axes if isinstance(kernel_size, int) else tuple(kernel_size)
        if len(size) != self.axes or any(n < 1 for n in size):
            raise ValueError(
                f"{owner} was given kernel_size={kernel_size}, expected a number or {self.axes} of "
                "them, at least 1."
            )
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, size
        self.stride, self.padding, self.dilation = stride, padding, dilation
        self.groups = groups
        shape = (out_channels, in_channels // groups, *size)
        self.weight = new_parameter(*shape, device=device, dtype=dtype)
        self.bias = new_parameter(out_channels, device=device, dtype=dtype) if bias else None
        self.reset_parameters(generator)

    def reset_parameters(self, generator: np.random.Generator | None = None) -> None:
        """Draw the starting weights again."""
        bound = 1.0 / math.sqrt(math.prod(self.weight.shape[1:]))
        init.uniform_(self.weight, -bound, bound, generator)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound, generator)

    def forward(self, x: Tensor) -> Tensor:
        """(N, in_channels, ...) -> (N, out_channels, ...), or without N."""
        found: Tensor = type(self).function(
            x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
        )
        return found

    def extra_repr(self) -> str:
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, padding={self.padding!r}, groups={self.groups}"
        )


class Conv1d(_Convolution):
    """`nn.functional.conv1d` with weights of its own: (N, C, L) -> (N, O, L')."""

    function = staticmethod(F.conv1d)


class Conv2d(_Convolution):
    """`nn.functional.conv2d` with weights of its own: (N, C, H, W) -> (N, O, H', W')."""

    axes = 2
    function = staticmethod(F.conv2d)


class _Pool(Module):
    function: Any = None

    def __init__(
        self, kernel_size: Size, stride: Size | None = None, padding: Size = 0, **more: Any
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self._more = more

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, ...) -> (N, C, ...), or without N."""
        found: Tensor = type(self).function(
            x, self.kernel_size, self.stride, self.padding, **self._more
        )
        return found

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxPool1d(_Pool):
    """The largest of each window of (N, C, L); ties share the gradient."""

    function = staticmethod(F.max_pool1d)

    def __init__(
        self, kernel_size: Size, stride: Size | None = None, padding: Size = 0, dilation: Size = 1
    ) -> None:
        super().__init__(kernel_size, stride, padding, dilation=dilation)


class MaxPool2d(MaxPool1d):
    """The largest of each window of (N, C, H, W); ties share the gradient."""

    function = staticmethod(F.max_pool2d)


class AvgPool1d(_Pool):
    """The mean of each window of (N, C, L)."""

    function = staticmethod(F.avg_pool1d)

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__(kernel_size, stride, padding, count_include_pad=count_include_pad)


class AvgPool2d(AvgPool1d):
    """The mean of each window of (N, C, H, W)."""

    function = staticmethod(F.avg_pool2d)
