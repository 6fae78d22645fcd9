"""A worksheet on paper, made of the reader's own graph: the backward pass with blanks, key apart.

    worksheet(loss, "tanh.md")      # also writes tanh.key.md

Markdown whose numbers stand in plain blocks, so that it reads the same in an editor, on a page and
on paper. The seed decides what is blank; the same seed gives the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinygrad_edu.debugger.log import LIMIT, Event, Log, Use
from tinygrad_edu.debugger.text import element_text, gradient_text, made_text
from tinygrad_edu.drawing import facts
from tinygrad_edu.drawing.names import names_in
from tinygrad_edu.files import write_atomically

__all__ = ["Worksheet", "worksheet"]

_HOLE = re.compile(r"____\((\d+)\)")
_SMALL = 16
"""Numbers of an array that the sheet shows."""
_INTRO = """\
Every step below is one node handing on what has arrived at it. The rule is the
same at each: *what arrives, times the local derivative, is added to the input's
gradient*. Fill in each blank; the key has them by the numbers in brackets. A
number that you have found is asked for again, by the same number, where it is
used.
"""
_START = "Backward starts at the end, with ∂{loss}/∂{loss} = {seed}."


@dataclass(frozen=True)
class Worksheet:
    """A sheet and its key.

    Attributes:
        text: the sheet, as Markdown; a blank is `____(3)`.
        answers: what belongs into each blank, by its number.
        title: the first heading.
    """

    text: str
    answers: Mapping[int, str]
    title: str

    @property
    def key(self) -> str:
        """The key, as Markdown: one line a blank."""
        wide = len(str(len(self.answers)))
        lines = [f"{number:>{wide}}  {answer}" for number, answer in self.answers.items()]
        return f"# Key: {self.title}\n\n" + _block(lines or ["nothing was blank"])

    def filled(self, answers: Mapping[int, str] | None = None) -> str:
        """The sheet with answers in its blanks: the right ones, or those that are given."""
        given = self.answers if answers is None else answers
        return _HOLE.sub(lambda hole: given.get(int(hole[1]), hole[0]), self.text)

    def _repr_markdown_(self) -> str:
        return self.text


def worksheet(
    loss: Any, path: str | Path | None = None, *, blanks: float = 0.5, seed: int = 0,
    drawing: bool = False,
) -> Worksheet:  # fmt: skip
    """A worksheet on a backward pass: all forward numbers, and the steps with blanks.

    Args:
        loss: a `Value`, a `Tensor`, or the log that `tg.record` made of one.
        path: where to write it, such as "sheet.md"; the key is written to "sheet.key.md" beside it.
        blanks: the share of formulas and numbers that is left blank, from 0 to 1.
        seed: which ones.
        drawing: also write "sheet.svg", a drawing of the graph, and show it in the sheet.

    Raises:
        ValueError: `blanks` is not between 0 and 1, or `drawing` was asked for without a path.
    """
    if not 0 <= blanks <= 1:
        raise ValueError(f"blanks was {blanks}; it is a share, from 0 (nothing blank) to 1 (all)")
    if drawing and path is None:
        raise ValueError("drawing=True needs a path, beside which the drawing can be written")
    log = loss if isinstance(loss, Log) else Log(loss, None, LIMIT, names_in())
    file = Path(path) if path is not None else None
    image = file.with_suffix(".svg").name if file is not None and drawing else ""
    made = _Writer(log, blanks, np.random.default_rng(seed)).sheet(image)
    if file is not None:
        if drawing:
            from tinygrad_edu.drawing.draw import draw

            draw(log.root).save(file.with_suffix(".svg"))
        write_atomically(file, made.text)
        write_atomically(file.with_suffix(".key.md"), made.key)
    return made


class _Writer:
    """Writes a sheet from its start to its end, numbering blanks as they come."""

    def __init__(self, log: Log, blanks: float, rng: np.random.Generator) -> None:
        self._log, self._blanks, self._rng = log, blanks, rng
        self._answers: dict[int, str] = {}
        self._after: dict[int, str] = {}  # the gradient of a node so far, as the sheet shows it
        self._sums: dict[int, float] = {}  # and as a number

    def sheet(self, image: str) -> Worksheet:
        title = f"The backward pass of {self._said(self._log.loss)}"
        parts = [f"# {_escaped(title)}\n", _INTRO]
        if image:
            parts.append(f"![The graph]({_escaped(image)})\n")
        parts += ["## Forward\n", self._forward(), "## Backward\n"]
        seed = gradient_text(self._log.root, self._log[0].upstream) if len(self._log) else "1.0"
        parts.append(_escaped(_START.format(loss=self._said(self._log.loss), seed=seed)) + "\n")
        parts += [self._step(event) for event in self._log]
        parts += ["## The gradients\n", self._gradients()]
        return Worksheet("\n".join(parts), self._answers, title)

    def _forward(self) -> str:
        """Every node with how it was made and its number."""
        lines = []
        for node in self._log.nodes:
            if node.op is None:
                if self._log.name(node) != self._log.names[node]:
                    continue  # a constant stands where it is used
                made = self._log.names[node]
            else:
                made = made_text(self._log, node)
            lines.append(f"{self._said(made)} = {facts.value_text(node)}")
            lines += _matrix(node)
        return _block(lines)

    def _step(self, event: Event) -> str:
        made = self._said(made_text(self._log, event.node))
        arrived = self._after.get(id(event.node)) or gradient_text(event.node, event.upstream)
        left = self._said(f"∂{self._log.loss}/∂{event.name}")
        lines = [f"{event.index + 1}. {made}", f"   arrived: {left} = {arrived}"]
        for use in event.uses:
            if self._log.name(use.input) == self._log.names[use.input]:
                lines += self._use(use)
        return _block(lines)

    def _use(self, use: Use) -> list[str]:
        if not (facts.is_scalar(use.event.node) and facts.is_scalar(use.input)):
            return self._use_of_arrays(use)
        target = self._said(f"∂{self._log.loss}/∂{use.name}")
        result = facts.number(use.contribution)
        numbers = use.formula.numbers
        line = f"   {target} += {self._blank(use.formula.names)}"
        if numbers not in ("", result):
            line += f" = {self._blank(numbers)}"
        line += f" = {self._blank(result)}"
        before = self._after.get(id(use.input), "–")
        total = self._sums.get(id(use.input), 0.0) + float(use.contribution)
        self._sums[id(use.input)] = total
        after = self._after[id(use.input)] = self._blank(facts.number(total))
        return [line, f"      {self._said(use.name)}.grad: {before} → {after}"]

    def _use_of_arrays(self, use: Use) -> list[str]:
        target = self._said(f"∂{self._log.loss}/∂{use.name}")
        lines = [f"   {target} += {self._blank(use.formula.names)}"]
        node = use.event.node
        if node.op.broadcasts and node.op.kind != "linear" and len(node.inputs) > 1:
            axes = ", ".join(map(str, use.summed_axes)) or "none"
            lines.append(f"      axes to sum over: {self._blank(axes)}")
        lines.append(f"      its shape: {self._blank(str(facts.shape_of(use.input)))}")
        element = element_text(use)
        if element:
            shown, _, result = element.rpartition(" = ")
            if shown:
                summed = ", before it is summed" if use.summed_axes else ""
                lines.append(f"      {self._said(shown)} = {self._blank(result)}{summed}")
        return lines

    def _gradients(self) -> str:
        """What has arrived at the leaves in the end."""
        lines = []
        for node in self._log.nodes:
            found = self._log.gradient(node) if node.op is None else None
            if found is not None and self._log.name(node) == self._log.names[node]:
                left = self._said(f"∂{self._log.loss}/∂{self._log.names[node]}")
                lines.append(f"{left} = {self._after.get(id(node)) or gradient_text(node, found)}")
        return _block(lines)

    def _blank(self, text: str) -> str:
        """The text, or a numbered blank in its place."""
        text = self._said(text)
        if self._rng.random() >= self._blanks:
            return text
        number = len(self._answers) + 1
        self._answers[number] = text
        return f"____({number})"

    def _said(self, text: str) -> str:
        """On one line, and nothing that looks like a blank or ends a block."""
        text = " ".join(text.split()) if "\n" in text or "\r" in text else text
        return text.replace("____", "___").replace("```", "ˋˋˋ")


def _matrix(node: Any) -> list[str]:
    """The numbers of a small array, a row a line; nothing of others."""
    shape = facts.shape_of(node)
    if not 1 <= len(shape) <= 2 or not 0 < node.size <= _SMALL:
        return []
    rows = [[facts.number(x) for x in row] for row in np.atleast_2d(facts.host(node.data))]
    wide = max(len(cell) for row in rows for cell in row)
    return ["    [ " + "  ".join(f"{cell:>{wide}}" for cell in row) + " ]" for row in rows]


def _block(lines: list[str]) -> str:
    return "\n".join(["```text", *lines, "```\n"])


def _escaped(text: str) -> str:
    """As text of Markdown, outside of a block."""
    return re.sub(r"([\\`*_{}\[\]<>()#+!|~])", r"\\\1", text)
