"""Questions about one step of a backward pass: what is asked, how it is graded, what helps.

Each kind of question is a class. All ask about a `Use`: what one node hands to one of its inputs.
"""

from __future__ import annotations

import math
import textwrap
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.debugger.checking import local_at
from tinygrad_edu.debugger.text import made_text
from tinygrad_edu.drawing import facts
from tinygrad_edu.learn.answers import AnswerError, agrees, number_from, shown_unit
from tinygrad_edu.learn.rules import rule_of
from tinygrad_edu.learn.setting import Setting

if TYPE_CHECKING:
    from tinygrad_edu.debugger.log import Event, Use

__all__ = [
    "AfterQuestion", "ContributionQuestion", "FormulaQuestion", "Grade", "LocalQuestion",
    "Question",
]  # fmt: skip

BLANK = "____"
WIDTH = 80


@dataclass(frozen=True)
class Grade:
    """What an answer is worth.

    Attributes:
        right: whether it is taken.
        message: a sentence: why not, or what it is.
    """

    right: bool
    message: str

    def __bool__(self) -> bool:
        return self.right

    def __str__(self) -> str:
        return f"{'✓' if self.right else '✗'} {self.message}"


class Question(ABC):
    """One question about what a node hands to one of its inputs.

    Attributes:
        use: what is asked about.
        setting: the graph it is asked in.
    """

    kind: ClassVar[str] = ""

    def __init__(self, use: Use, setting: Setting) -> None:
        self.use, self.setting = use, setting

    @property
    def event(self) -> Event:
        """The step that is asked about."""
        return self.use.event

    @abstractmethod
    def possible(self) -> bool:
        """Whether there is something to ask here."""

    def ask(self) -> str:
        """The question, in a few lines of at most about 80 columns."""
        wanted = [textwrap.fill(line, WIDTH) for line in self._wanted().split("\n")]
        return "\n".join([*self._scene(), "", *wanted])

    @abstractmethod
    def grade(self, answer: str) -> Grade:
        """Whether an answer is right, and if not, what it may have confused.

        Raises:
            AnswerError: it cannot be read; nothing is graded then.
        """

    @abstractmethod
    def hints(self) -> tuple[str, str, str]:
        """What is missing; the rule; all but the last step."""

    @abstractmethod
    def answer(self) -> str:
        """A right answer."""

    @abstractmethod
    def solution(self) -> str:
        """The right answer with the way to it."""

    def __repr__(self) -> str:
        return self.ask()

    # Parts of texts.

    @abstractmethod
    def _scene(self) -> list[str]: ...

    @abstractmethod
    def _wanted(self) -> str: ...

    def _gradient(self, node: Any) -> str:
        return f"∂{self.setting.log.loss}/∂{self.setting.log.name(node)}"

    def _local(self) -> str:
        return f"∂{self.event.name}/∂{self.setting.log.name(self.use.input)}"

    def _which(self) -> str:
        """Which of equal inputs is meant: " through the first a in it"; "" where there is one."""
        same = [s for s, x in enumerate(self.event.node.inputs) if x is self.use.input]
        if len(same) == 1:
            return ""
        order = ("first", "second", "third")
        at = same.index(self.use.slot)
        nth = order[at] if at < 3 else f"{at + 1}th"
        return f" through the {nth} {self.use.name} in it"


class _OfNumbers(Question):
    """About a step in which all are single numbers."""

    def possible(self) -> bool:
        node, use = self.event.node, self.use
        scalar = facts.is_scalar(node) and all(facts.is_scalar(x) for x in node.inputs)
        if not scalar or (isinstance(node, Tensor) and node.op.kind != "elementwise"):
            return False
        if self.setting.log.name(use.input) != self.setting.log.names[use.input]:
            return False  # a constant of the program: nobody asks for its gradient
        finite = all(map(math.isfinite, (self.arrived, float(use.contribution))))
        return finite and self._worthwhile()

    @abstractmethod
    def _worthwhile(self) -> bool: ...

    @property
    def arrived(self) -> float:
        """The upstream gradient."""
        return float(facts.host(self.event.upstream))

    @property
    def local(self) -> float:
        """The local derivative."""
        node = self.event.node
        if isinstance(node, Tensor):
            return local_at(self.use, ())
        return float(node.local_derivatives[self.use.slot])

    @property
    def handed(self) -> float:
        """The contribution."""
        return float(facts.host(self.use.contribution))

    def _scene(self) -> list[str]:
        node = self.event.node
        lines = [f"  {made_text(self.setting.log, node)} = {facts.value_text(node)}"]
        inputs = {id(x): x for x in node.inputs}.values()
        known = ", ".join(
            f"{self.setting.log.name(x)} = {facts.value_text(x)}" for x in inputs
            if self.setting.log.name(x) != facts.value_text(x)
        )
        if known:
            lines[0] = f"{lines[0]:<36}  where {known}"
        lines.append(f"  {self._gradient(node)} = {facts.number(self.arrived)} has arrived")
        return lines

    def _sides(self) -> str:
        """The two factors of the chain rule, such as "-2.0 × -3.0"."""
        return f"{facts.number(self.arrived)} × {facts.number(self.local)}"


class _ForNumbers(_OfNumbers):
    """Answered with a number."""

    def grade(self, answer: str) -> Grade:
        given = number_from(answer)
        wanted, slack = self._number(), self._slack()
        if agrees(answer, given, wanted, slack):
            return Grade(True, self.solution())
        if math.isnan(given):
            return Grade(False, "that comes to no number")
        if agrees(answer, -given, wanted, slack):
            return Grade(False, "the size is right, the sign is not")
        for other, said in self._confusions():
            if agrees(answer, given, other) and not agrees("", other, wanted, slack):
                return Grade(False, said)
        return Grade(False, f"it is not {facts.number(given)}")

    def answer(self) -> str:
        return facts.number(self._number(), 7)

    @abstractmethod
    def _number(self) -> float: ...

    def _slack(self) -> float:
        return 0.0

    def _confusions(self) -> list[tuple[float, str]]:
        return []


class LocalQuestion(_ForNumbers):
    """The local derivative, as a number."""

    kind = "local"

    def _worthwhile(self) -> bool:
        return self.local not in (1.0, -1.0) or facts.word(self.event.node) == "subtract"

    def _wanted(self) -> str:
        name = self.setting.log.name(self.use.input)
        return (
            f"What is the local derivative {self._local()}{self._which()}: how fast does "
            f"{self.event.name} grow when {name} alone grows?"
        )

    def _number(self) -> float:
        return self.local

    def _confusions(self) -> list[tuple[float, str]]:
        return [
            (self.handed, "that is multiplied with what arrived already; here only the operation "
             "by itself is asked for"),
            (self.arrived, "that is what arrived; the local derivative knows nothing of it"),
        ]  # fmt: skip

    def hints(self) -> tuple[str, str, str]:
        name = self.setting.log.name(self.use.input)
        return (
            f"Forget the rest of the graph. If {name} grew by 0.001, by how much would "
            f"{self.event.name} grow? Divide by 0.001.",
            rule_of(self.use),
            f"{self._local()} = {self.use.formula.local} = {BLANK}",
        )

    def solution(self) -> str:
        text, number = self.use.formula.local, facts.number(self.local)
        middle = f" = {text}" if text != number else ""
        return f"{self._local()}{middle} = {number}"


class FormulaQuestion(_OfNumbers):
    """What the step adds, as a formula in names; graded by its value here and elsewhere."""

    kind = "formula"

    def _worthwhile(self) -> bool:
        if not self.use.formula.local or not self.setting.takes_formulas:
            return False
        try:
            return self.grade(self.answer()).right  # what the grader cannot read is not asked
        except AnswerError:
            return False

    def _wanted(self) -> str:
        target = self._gradient(self.use.input)
        return (
            f"What does {self.event.name} add to {target}{self._which()}?\nWrite a formula in "
            f"names; g stands for {self._gradient(self.event.node)}."
        )

    def grade(self, answer: str) -> Grade:
        formula = self.setting.reader.read(answer, self.setting.place(self.event.node))
        index, slot = self.event.index, self.event.uses.index(self.use)
        for k, world in enumerate(self.setting.worlds(index, slot)):
            use = world[index].uses[slot]
            wanted, given = float(use.contribution), self.setting.value(formula, world)
            small = 1e-12 * abs(float(use.event.upstream))
            if abs(given - wanted) <= 1e-6 * abs(wanted) + small:
                continue
            if k:
                return Grade(False, self._lucky(world, given, wanted))
            return Grade(False, self._why_not(given, wanted))
        return Grade(True, self.solution())

    def _lucky(self, world: Any, given: float, wanted: float) -> str:
        theirs = {}
        for x, there in zip(self.event.node.inputs, world[self.event.index].node.inputs,
                            strict=True):  # fmt: skip
            name = self.setting.log.name(x)
            if name != facts.value_text(x):
                theirs[name] = facts.value_text(there)
        at = ", ".join(f"{name} = {x}" for name, x in theirs.items())
        return (
            "that has the right number here, but only here"
            + (f": with {at}" if at else ": with other inputs")
            + f" it gives {facts.number(given)} in place of {facts.number(wanted)}"
        )

    def _why_not(self, given: float, wanted: float) -> str:
        if abs(given + wanted) <= 1e-6 * abs(wanted):
            return "the size is right, the sign is not"
        if abs(given - self.local) <= 1e-6 * abs(self.local):
            arriving = self._gradient(self.event.node)
            return f"that is the local derivative alone; {arriving} is missing"
        if abs(given - self.arrived) <= 1e-6 * abs(self.arrived):
            return f"that is what arrived; the local derivative {self._local()} is missing"
        return f"that comes to {facts.number(given)} here; it should be {facts.number(wanted)}"

    def answer(self) -> str:
        return self.use.formula.names

    def hints(self) -> tuple[str, str, str]:
        left = self._gradient(self.use.input)
        arriving = self._gradient(self.event.node)
        return (
            f"{left} += {arriving} · {BLANK}: what arrived is one factor, the local derivative "
            f"{self._local()} the other.",
            rule_of(self.use),
            f"In numbers it is {self._sides()}; say in names where the second one comes from.",
        )

    def solution(self) -> str:
        return f"{self._gradient(self.use.input)} += {self.use.formula.names}"


class ContributionQuestion(_ForNumbers):
    """What the step adds, as a number."""

    kind = "contribution"

    def _worthwhile(self) -> bool:
        return "×" in self.use.formula.numbers or self.use.formula.names.startswith("-")

    def _wanted(self) -> str:
        target = self._gradient(self.use.input)
        return (
            f"What number does {self.event.name} add to {target}{self._which()}?\n"
            "A product such as -2*3 will do."
        )

    def _number(self) -> float:
        return self.handed

    def _confusions(self) -> list[tuple[float, str]]:
        after = float(facts.host(self.use.after))
        return [
            (self.local, f"that is the local derivative {self._local()} alone; multiply it with "
             f"what arrived, {facts.number(self.arrived)}"),
            (self.arrived, "that is what arrived; multiply it with the local derivative "
             f"{self._local()}"),
            (self.arrived + self.local, "the chain rule multiplies the two, it does not add them"),
            (after, f"that is the gradient of {self.use.name} afterwards; asked is what this step "
             "adds to it"),
        ]  # fmt: skip

    def hints(self) -> tuple[str, str, str]:
        left = self._gradient(self.use.input)
        return (
            f"{left} += {facts.number(self.arrived)} · {BLANK}: the local derivative "
            f"{self._local()} is missing in the product.",
            rule_of(self.use),
            f"{left} += {self.use.formula.names} = {self._sides()} = {BLANK}",
        )

    def solution(self) -> str:
        left = self._gradient(self.use.input)
        return f"{left} += {self.use.formula.names} = {self._sides()} = {facts.number(self.handed)}"


class AfterQuestion(_ForNumbers):
    """What the gradient of an input is after one more use has added to it."""

    kind = "after"

    def _worthwhile(self) -> bool:
        return self.use.nth > 1 and math.isfinite(self.before) and self.handed != 0.0

    @property
    def before(self) -> float:
        """The gradient before this use."""
        return float(facts.host(self.use.before))

    def _scene(self) -> list[str]:
        use = self.use
        return [
            f"  {made_text(self.setting.log, self.event.node)} is use {use.nth} of {use.total} of "
            f"{use.name} in this pass.",
            f"  So far {use.name}.grad = {facts.number(self.before)}; this step hands it "
            f"{facts.number(self.handed)}.",
        ]

    def _wanted(self) -> str:
        return f"What is {self.use.name}.grad afterwards?"

    def _number(self) -> float:
        return float(facts.host(self.use.after))

    def _slack(self) -> float:
        return shown_unit(self.before) + shown_unit(self.handed)

    def _confusions(self) -> list[tuple[float, str]]:
        return [
            (self.handed, "that is what this step hands over; what was there before would be lost"),
            (self.before, "that is what was there before"),
            (self.before - self.handed, "contributions are added, not taken away"),
            (self.before * self.handed, "contributions are added; products are made along a path"),
        ]

    def hints(self) -> tuple[str, str, str]:
        use = self.use
        sides = f"{facts.number(self.before)} + {facts.number(self.handed)}"
        return (
            f"{use.name} acts on {self.setting.log.loss} in {use.total} ways. What is missing in "
            "its gradient if only the last of them counts?",
            "A gradient is the sum over all uses: every step says += and not =.",
            f"{use.name}.grad = {sides} = {BLANK}",
        )

    def solution(self) -> str:
        sides = f"{facts.number(self.before)} + {facts.number(self.handed)}"
        return f"{self.use.name}.grad = {sides} = {facts.number(self._number())}"

