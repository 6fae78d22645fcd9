"""Questions about arrays: the shape of a gradient, axes that are summed, one element in numbers."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np

from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.debugger.checking import local_at
from tinygrad_edu.debugger.text import made_text
from tinygrad_edu.drawing import facts
from tinygrad_edu.learn.answers import agrees, axes_from, number_from, shape_from
from tinygrad_edu.learn.questions import BLANK, Grade, Question
from tinygrad_edu.learn.rules import rule_of

__all__ = ["AxesQuestion", "ElementQuestion", "ShapeQuestion"]

Array = Any
_WIDEST = 4
"""Rows and columns of a matrix that a question shows."""


class _OfArrays(Question):
    """About a step in which there are axes."""

    @property
    def node(self) -> Tensor:
        """The node whose step it is."""
        node: Tensor = self.event.node
        return node

    def possible(self) -> bool:
        log = self.setting.log
        if not isinstance(self.event.node, Tensor):
            return False
        named = log.name(self.use.input) == log.names[self.use.input]
        return named and self._worthwhile()

    @abstractmethod
    def _worthwhile(self) -> bool: ...

    def _made(self) -> str:
        return f"  {made_text(self.setting.log, self.event.node)}"

    def _shapes(self, but: Any = None) -> str:
        """The shapes of the inputs and of the node, one of them left out."""
        log = self.setting.log
        inputs = {id(x): x for x in self.event.node.inputs if x is not but}.values()
        known = [f"{log.name(x)} has shape {facts.shape_of(x)}" for x in inputs]
        return ", ".join([*known, f"{self.event.name} has shape {self.node.shape}"])


class ShapeQuestion(_OfArrays):
    """The shape of the gradient of an input."""

    kind = "shape"

    def _worthwhile(self) -> bool:
        return bool(self.use.input.ndim) and self.use.input.shape != self.node.shape

    def _scene(self) -> list[str]:
        shown = self._shapes(self.use.input if self._to_be_found() else None)
        return [self._made(), f"  {shown}."]

    def _to_be_found(self) -> bool:
        """Whether the input's shape follows from the others', so that it need not be told."""
        plain = self.node.op.name == "matmul" and all(x.ndim == 2 for x in self.node.inputs)
        return plain and self.node.inputs[0] is not self.node.inputs[1]

    def _wanted(self) -> str:
        return f"What shape has {self._gradient(self.use.input)}? Such as (2, 3)."

    def grade(self, answer: str) -> Grade:
        given = shape_from(answer)
        wanted = self.use.input.shape
        if given == wanted:
            return Grade(True, self.solution())
        if given == self.node.shape:
            return Grade(False, f"that is the shape of {self.event.name}, from which it comes")
        if given == wanted[::-1]:
            return Grade(False, "the lengths are right, the order is not")
        return Grade(False, f"it is not {given}")

    def hints(self) -> tuple[str, str, str]:
        x = self.use.name
        count = f"{self.use.input.size} numbers" if self.use.input.size != 1 else "1 number"
        last = f"{x} holds {count}"
        if self._to_be_found():
            inner = self.node.inputs[0].shape if self.use.slot else self.node.inputs[1].shape
            last += f"; in x @ w the columns of x meet the rows of w, and the other is {inner}"
        return (
            f"∂{self.setting.log.loss}/∂{x} says, for every number in {x}, how much the loss "
            "moves with it. How many are there, and how do they lie?",
            "A gradient always has the shape of what it is the gradient of.",
            f"{last}.",
        )

    def answer(self) -> str:
        return str(self.use.input.shape)

    def solution(self) -> str:
        shape = self.use.input.shape
        return f"{self._gradient(self.use.input)} has the shape of {self.use.name}: {shape}"


class AxesQuestion(_OfArrays):
    """The axes along which a contribution is summed, as the input was broadcast along them."""

    kind = "axes"

    def _worthwhile(self) -> bool:
        uses = [use for use in self.event.uses if use.summed_axes]
        return bool(uses) and self.node.op.broadcasts

    def _scene(self) -> list[str]:
        return [
            self._made(),
            f"  {self._shapes()}.",
            f"  {self._gradient(self.event.node)} has arrived, with shape {self.node.shape}.",
        ]

    def _wanted(self) -> str:
        return (
            f"Over which axes must it be summed on its way to {self._gradient(self.use.input)}?\n"
            "Their numbers, such as 0 or 1, 2; or none."
        )

    def grade(self, answer: str) -> Grade:
        axes, wanted = axes_from(answer), self.use.summed_axes
        if any(axis >= self.node.ndim or axis < -self.node.ndim for axis in axes):
            last = self.node.ndim - 1
            return Grade(False, f"{self.event.name} has axes 0 to {last} only")
        given = tuple(sorted({axis % self.node.ndim for axis in axes}))
        if given == wanted:
            return Grade(True, self.solution())
        left = [n for i, n in enumerate(self.node.shape) if i not in given]
        return Grade(
            False,
            f"a sum over {_axes(given)} leaves {tuple(left)}; {self.use.name} has shape "
            f"{self.use.input.shape}",
        )

    def hints(self) -> tuple[str, str, str]:
        x = self.use.name
        aligned = (1,) * (self.node.ndim - self.use.input.ndim) + self.use.input.shape
        return (
            f"Each number of {x} may act on many numbers of {self.event.name}. Along which axes?",
            "Broadcasting repeats a number along an axis; each copy hands a share back, and the "
            "shares are added up.",
            f"Written under each other: {self.node.shape} and {aligned}. Look where they differ.",
        )

    def answer(self) -> str:
        return ", ".join(map(str, self.use.summed_axes)) or "none"

    def solution(self) -> str:
        axes = self.use.summed_axes
        x, shape = self.use.name, self.use.input.shape
        if not axes:
            return f"none: {x} has the shape {shape} of {self.event.name}, nothing was repeated"
        return f"over {_axes(axes)}: along it {x}, {shape}, was repeated to {self.node.shape}"


class ElementQuestion(_OfArrays):
    """One element of a contribution, from the numbers that make it."""

    kind = "element"

    def _worthwhile(self) -> bool:
        node = self.node
        if node.op.name == "matmul":
            small = all(x.ndim == 2 and max(x.shape) <= _WIDEST for x in (*node.inputs, node))
            return small and math.isfinite(self._number())
        if node.op.kind != "elementwise" or not node.ndim or not node.size:
            return False
        return math.isfinite(self._number()) and self._local_number() not in (0.0, 1.0, -1.0)

    @property
    def at(self) -> tuple[int, ...]:
        """The element: of the node, or for a matrix product of the input's gradient."""
        g = self._upstream() if self.node.op.name != "matmul" else facts.host(self.use.contribution)
        largest = int(np.abs(np.nan_to_num(g)).argmax())
        return tuple(int(i) for i in np.unravel_index(largest, g.shape))

    def _upstream(self) -> Array:
        return facts.host(self.event.upstream)

    def _local_number(self) -> float:
        return local_at(self.use, self.at)

    def _number(self) -> float:
        if self.node.op.name == "matmul":
            return float(facts.host(self.use.contribution)[self.at])
        return float(self._upstream()[self.at]) * self._local_number()

    def _scene(self) -> list[str]:
        arriving = self._gradient(self.event.node)
        if self.node.op.name != "matmul":
            return [self._made(), f"  At {list(self.at)}:", *self._around(arriving)]
        other = self.node.inputs[1 - self.use.slot]
        shown = _side_by_side(
            (arriving, self._upstream()),
            (self.setting.log.name(other), facts.host(other.data)),
        )
        return [self._made(), *shown]

    def _around(self, arriving: str) -> list[str]:
        """The numbers that meet at one element of an elementwise operation."""
        log, node = self.setting.log, self.node
        inputs = {id(x): x for x in node.inputs}.values()
        numbers = []
        for x in inputs:
            repeated = np.broadcast_to(facts.host(x.data), node.shape)
            numbers.append(f"{log.name(x)} = {facts.number(repeated[self.at])}")
        numbers.append(f"{self.event.name} = {facts.number(facts.host(node.data)[self.at])}")
        arrived = f"{arriving} = {facts.number(self._upstream()[self.at])}"
        return [f"    {', '.join(numbers)}", f"    {arrived} has arrived"]

    def _wanted(self) -> str:
        target = self._gradient(self.use.input)
        summed = ", before anything is summed" if self.use.summed_axes else ""
        return (
            f"What number is handed to {target} at {list(self.at)}{self._which()}{summed}?\n"
            "A product or sum such as 2*3 + 4*5 will do."
        )

    def grade(self, answer: str) -> Grade:
        given, wanted = number_from(answer), self._number()
        if agrees(answer, given, wanted):
            return Grade(True, self.solution())
        if agrees(answer, -given, wanted):
            return Grade(False, "the size is right, the sign is not")
        if self.node.op.name == "matmul":
            whole = facts.host(self.use.contribution)
            turned = self.at[::-1]
            inside = all(i < n for i, n in zip(turned, whole.shape, strict=True))
            if inside and turned != self.at and agrees(answer, given, float(whole[turned])):
                return Grade(False, f"that is the element at {list(turned)}; the row comes first")
        elif agrees(answer, given, self._local_number()):
            return Grade(False, "that is the local derivative alone; multiply with what arrived")
        return Grade(False, f"it is not {facts.number(given)}")

    def hints(self) -> tuple[str, str, str]:
        if self.node.op.name == "matmul":
            i, j = self.at
            w = self.setting.log.name(self.node.inputs[1 - self.use.slot])
            arriving = self._gradient(self.event.node)
            lines = (
                f"row {i} of {arriving} and row {j} of {w}" if self.use.slot == 0
                else f"column {i} of {w} and column {j} of {arriving}"
            )  # fmt: skip
            missing = f"Its rule is {self.use.formula.names}; row or column of which?"
            return missing, f"{rule_of(self.use)} Here: {lines}.", f"{self._products()} = {BLANK}"
        g = facts.number(self._upstream()[self.at])
        return (
            f"{g} · {BLANK}: the local derivative at this element is missing in the product.",
            rule_of(self.use),
            f"{g} × {facts.number(self._local_number())} = {BLANK}",
        )

    def _products(self) -> str:
        i, j = self.at
        g, other = self._upstream(), facts.host(self.node.inputs[1 - self.use.slot].data)
        left, right = (g[i], other[j]) if self.use.slot == 0 else (other[:, i], g[:, j])
        pairs = zip(left, right, strict=True)
        return " + ".join(f"{facts.number(a)}×{facts.number(b)}" for a, b in pairs)

    def answer(self) -> str:
        return facts.number(self._number(), 7)

    def solution(self) -> str:
        if self.node.op.name == "matmul":
            sides = self._products()
        else:
            g = facts.number(self._upstream()[self.at])
            sides = f"{g} × {facts.number(self._local_number())}"
        return f"at {list(self.at)}: {sides} = {facts.number(self._number())}"


def _axes(axes: tuple[int, ...]) -> str:
    if not axes:
        return "no axis"
    return ("axis " if len(axes) == 1 else "axes ") + ", ".join(map(str, axes))


def _side_by_side(*named: tuple[str, Array]) -> list[str]:
    """Matrices beside each other, under their names, as they are written on a blackboard."""
    blocks = []
    for name, matrix in named:
        cells = [[facts.number(x) for x in row] for row in matrix]
        wide = max(len(cell) for row in cells for cell in row)
        rows = ["[ " + "  ".join(f"{cell:>{wide}}" for cell in row) + " ]" for row in cells]
        blocks.append([name, *rows])
    height = max(map(len, blocks))
    widths = [max(map(len, block)) for block in blocks]
    lines = []
    for i in range(height):
        parts = [
            f"{block[i] if i < len(block) else '':<{wide}}"
            for block, wide in zip(blocks, widths, strict=True)
        ]
        lines.append(("  " + "     ".join(parts)).rstrip())
    return lines
