"""Convolution and pooling over one axis or two, by sliding windows. Shapes are PyTorch's: a batch
(N, C, L) or (N, C, H, W), or one example without N.
"""

from __future__ import annotations

import math
from typing import Any

from tinygrad_edu.autograd import origin
from tinygrad_edu.autograd.apply import apply
from tinygrad_edu.autograd.functions.arguments import one_float
from tinygrad_edu.autograd.functions.contraction import einsum
from tinygrad_edu.autograd.functions.elementwise import add, multiply
from tinygrad_edu.autograd.functions.movement import pad
from tinygrad_edu.autograd.functions.reduction import max as _max
from tinygrad_edu.autograd.functions.reduction import sum as _sum
from tinygrad_edu.autograd.functions.shape import expand_dims, reshape, squeeze
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.errors import ShapeError
from tinygrad_edu.ops import windows as _w

Size = int | tuple[int, ...]


def conv1d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Tensor:
    """Every window of x times the weights (cross-correlation, as networks mean it): x (N, C, L),
    weight (O, C/groups, K), bias (O) -> (N, O, L'). `padding` may be "same" (stride 1) or "valid".

    Raises:
        ShapeError: shapes that do not fit, or a window longer than what it slides over.
    """
    return _convolution("conv1d", 1, x, weight, bias, stride, padding, dilation, groups)


def conv2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Tensor:
    """As `conv1d`, over two axes: x (N, C, H, W), weight (O, C/groups, K, M) -> (N, O, H', W')."""
    return _convolution("conv2d", 2, x, weight, bias, stride, padding, dilation, groups)


def _each(name: str, what: str, given: Size, axes: int, least: int) -> tuple[int, ...]:
    found = (given,) * axes if isinstance(given, int) else tuple(given)
    if len(found) != axes or any(n < least for n in found):
        raise ValueError(
            f"{name}'s {what} is a number or {axes} of them, at least {least}; got {given}"
        )
    return found


def _batch(name: str, x: Tensor, axes: int) -> tuple[Tensor, bool]:
    if x.ndim not in (axes + 1, axes + 2):
        wanted = "(N, C, L)" if axes == 1 else "(N, C, H, W)"
        raise ShapeError(
            f"{name} needs x {wanted}, or without N; got {x.shape} at {origin.current_line()}"
        )
    one = x.ndim == axes + 1
    return (expand_dims(x, 0), True) if one else (x, False)


def _convolution(
    name: str,
    axes: int,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Size,
    padding: Size | str,
    dilation: Size,
    groups: int,
) -> Tensor:
    x, weight, bias = one_float(x, weight, bias)
    x, one = _batch(name, x, axes)
    step = _each(name, "stride", stride, axes, 1)
    spread = _each(name, "dilation", dilation, axes, 1)
    if weight.ndim != axes + 2 or groups < 1 or weight.shape[0] % groups:
        raise ShapeError(
            f"{name} needs a weight of {axes + 2} axes whose first is divisible by groups; got "
            f"{weight.shape} and groups={groups}"
        )
    if x.shape[1] != weight.shape[1] * groups:
        raise ShapeError(
            f"{name} was given x with {x.shape[1]} channels and a weight {weight.shape} for "
            f"{weight.shape[1] * groups} (groups={groups}), at {origin.current_line()}"
        )
    if bias is not None and tuple(bias.shape) != (weight.shape[0],):
        raise ShapeError(f"{name}'s bias has shape {bias.shape}; expected ({weight.shape[0]},)")
    size = tuple(weight.shape[2:])
    x = pad(x, ((0, 0), (0, 0), *_around(name, padding, size, step, spread)))
    found = _windows(name, x, size, step, spread)
    place, inside = "xy"[:axes], "ij"[:axes]
    if groups == 1:
        out = einsum(f"nc{place}{inside},oc{inside}->no{place}", found, weight)
    else:
        each = weight.shape[0] // groups
        apart = reshape(found, (x.shape[0], groups, weight.shape[1], *found.shape[2:]))
        kernels = reshape(weight, (groups, each, *weight.shape[1:]))
        out = einsum(f"ngc{place}{inside},goc{inside}->ngo{place}", apart, kernels)
        out = reshape(out, (x.shape[0], weight.shape[0], *out.shape[3:]))
    if bias is not None:
        out = add(out, reshape(bias, (-1, *(1,) * axes)))
    return squeeze(out, 0) if one else out


def _around(
    name: str,
    padding: Size | str,
    size: tuple[int, ...],
    step: tuple[int, ...],
    dilation: tuple[int, ...],
) -> list[tuple[int, int]]:
    """(before, after) along each axis."""
    if padding == "valid":
        return [(0, 0)] * len(size)
    if padding == "same":
        if any(s != 1 for s in step):
            raise ValueError(f"{name} has padding='same' for stride 1 alone; got stride {step}")
        whole = [d * (k - 1) for k, d in zip(size, dilation, strict=True)]
        return [(n // 2, n - n // 2) for n in whole]
    if isinstance(padding, str):
        raise ValueError(f"{name}'s padding is a size, 'same' or 'valid'; got {padding!r}")
    return [(n, n) for n in _each(name, "padding", padding, len(size), 0)]


def _windows(
    name: str, x: Tensor, size: tuple[int, ...], step: tuple[int, ...], dilation: tuple[int, ...]
) -> Tensor:
    lengths = tuple(x.shape[x.ndim - len(size) :])
    if any(n < 1 for n in _w.counts(lengths, size, step, dilation)):
        raise ShapeError(
            f"{name} has a window of {size} (dilation {dilation}) on {lengths}, padding included: "
            "it does not fit once"
        )
    return apply(_w.windows, x, size=size, step=step, dilation=dilation)


def max_pool1d(
    x: Any, kernel_size: Size, stride: Size | None = None, padding: Size = 0, dilation: Size = 1
) -> Tensor:
    """The largest of each window; ties share the gradient equally. The stride is the window's size
    by default, and padding never wins.
    """
    return _max_pool("max_pool1d", 1, x, kernel_size, stride, padding, dilation)


def max_pool2d(
    x: Any, kernel_size: Size, stride: Size | None = None, padding: Size = 0, dilation: Size = 1
) -> Tensor:
    """As `max_pool1d`, over two axes."""
    return _max_pool("max_pool2d", 2, x, kernel_size, stride, padding, dilation)


def _max_pool(
    name: str,
    axes: int,
    x: Any,
    kernel_size: Size,
    stride: Size | None,
    padding: Size,
    dilation: Size,
) -> Tensor:
    (x,) = one_float(x)
    x, one = _batch(name, x, axes)
    size = _each(name, "kernel_size", kernel_size, axes, 1)
    step = size if stride is None else _each(name, "stride", stride, axes, 1)
    around = _each(name, "padding", padding, axes, 0)
    if any(2 * p > k for p, k in zip(around, size, strict=True)):
        raise ValueError(f"{name}'s padding {around} is more than half of its window {size}")
    if any(around):
        x = pad(x, ((0, 0), (0, 0), *((p, p) for p in around)), constant_values=-math.inf)
    found = _windows(name, x, size, step, _each(name, "dilation", dilation, axes, 1))
    out = _max(found, tuple(range(-axes, 0)))
    return squeeze(out, 0) if one else out


def avg_pool1d(
    x: Any,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window, zeros of the padding included unless `count_include_pad` is False.
    The stride is the window's size by default.
    """
    return _avg_pool("avg_pool1d", 1, x, kernel_size, stride, padding, count_include_pad)


def avg_pool2d(
    x: Any,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    count_include_pad: bool = True,
) -> Tensor:
    """As `avg_pool1d`, over two axes."""
    return _avg_pool("avg_pool2d", 2, x, kernel_size, stride, padding, count_include_pad)


def _avg_pool(
    name: str,
    axes: int,
    x: Any,
    kernel_size: Size,
    stride: Size | None,
    padding: Size,
    include: bool,
) -> Tensor:
    (x,) = one_float(x)
    x, one = _batch(name, x, axes)
    size = _each(name, "kernel_size", kernel_size, axes, 1)
    step = size if stride is None else _each(name, "stride", stride, axes, 1)
    around = _each(name, "padding", padding, axes, 0)
    if any(2 * p > k for p, k in zip(around, size, strict=True)):
        raise ValueError(f"{name}'s padding {around} is more than half of its window {size}")
    width = ((0, 0), (0, 0), *((p, p) for p in around))
    last = tuple(range(-axes, 0))
    total = _sum(_windows(name, pad(x, width), size, step, (1,) * axes), last)
    if include or not any(around):
        out = multiply(total, 1 / math.prod(size))
    else:
        F = x._namespace
        there = pad(Tensor(F.ones((1, 1, *x.shape[2:]), dtype=x.dtype)), width)
        number = _sum(_windows(name, there, size, step, (1,) * axes), last)
        out = multiply(total, Tensor(1 / number._data))
    return squeeze(out, 0) if one else out
