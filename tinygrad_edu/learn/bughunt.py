"""A bug hunt: a backward pass with one mistake in it, to be found with a debugger's tools.

    hunt = bug_hunt(level=4)
    hunt.show()                     # the graph with the gradients that this pass gave
    hunt.log[2]                     # what one step handed on
    hunt.check("h")                 # one gradient, held to differences
    hunt.answer(node="h", kind="derivative")

The engine itself is not touched: the pass is a copy, run apart (`passes`).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinygrad_edu.debugger.log import Log, record
from tinygrad_edu.debugger.text import made_text
from tinygrad_edu.drawing import facts
from tinygrad_edu.learn.levels import LEVELS, Level
from tinygrad_edu.learn.mistakes import KINDS, Mistake, sites
from tinygrad_edu.learn.nudging import Checked, held
from tinygrad_edu.learn.passes import Pass, run, wants_gradient
from tinygrad_edu.learn.programs import PROGRAMS
from tinygrad_edu.learn.replay import rebuild
from tinygrad_edu.learn.showing import Text, brief, matrix, step_text, table, wrapped

__all__ = ["Hunt", "Verdict", "bug_hunt"]

Array = Any
_LEARNING_RATE = 0.1
_MADE = 28
"""Letters of how a node was made, in the table."""
_PARAMETERS = ("w", "b", "v", "g")
"""What names of weights begin with in the programs of `programs`."""


@dataclass(frozen=True)
class Verdict:
    """What an answer is worth.

    Attributes:
        right: node and kind are both right.
        node_right: the node is.
        kind_right: the kind is.
        message: in words.
    """

    right: bool
    node_right: bool
    kind_right: bool
    message: str

    def __bool__(self) -> bool:
        return self.right

    def __repr__(self) -> str:
        return wrapped(f"✗ {self.message}") if not self.right else f"✓ {self.message}"


@dataclass(repr=False)
class Hunt:
    """A graph whose backward pass went wrong in one place.

    Attributes:
        number: which level.
        level: its program and whether it is the second step of training.
        root: the loss; the graph is an ordinary one.
        nodes: the graph in topological order.
        log: the steps of the wrong pass.
        checks, hints, answers: how many of each were asked for or given so far.
    """

    number: int
    level: Level
    root: Any
    nodes: list[Any]
    log: Pass
    _names: Log
    _mistake: Mistake
    checks: int = 0
    hints: int = 0
    answers: int = 0
    _known: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._known = {self._names.names[node]: node for node in self.nodes}
        for node in self.nodes:
            self._known.update({x.name: x for x in node.inputs if x.name is not None})

    def __repr__(self) -> str:
        return self.show()

    def show(self) -> Text:
        """The graph: how each node was made, its number, and the gradient that this pass gave."""
        rows = [("node", "made from", "value", "gradient here")]
        for node in self.nodes:
            if node.name is not None:
                made = made_text(self._names, node).partition(" = ")[2] if node.op else "input"
                made = made if len(made) <= _MADE else made[: _MADE - 1] + "…"
                rows.append((node.name, made, brief(facts.host(node.data)), self._found(node)))
        step = ", the second step of training it" if self.level.second else ""
        title = f"{PROGRAMS[self.level.program].title}{step}"
        lines = [
            wrapped(f"Hunt {self.number} of {len(LEVELS)}: {title}."),
            "One thing went wrong in this backward pass. At which node, and what?",
            "",
            *table(rows),
        ]
        return Text("\n".join(lines))

    def _found(self, node: Any) -> str:
        if not wants_gradient(node):
            return ""
        found = self.log.gradient(node)
        if found is None:
            return "–"
        if np.ndim(found) and np.shape(found) == facts.shape_of(node):
            return f"norm {facts.number(np.linalg.norm(found))}"
        return brief(found)

    def node(self, node: Any) -> Any:
        """A node by its name, such as `hunt.node("w1").data`; a node is given back.

        Raises:
            ValueError: there is no such node.
        """
        if isinstance(node, str):
            if node in self._known:
                return self._known[node]
        elif any(x is node for x in self._known.values()):
            return node
        names = [name for name, known in self._known.items() if known.name]
        raise ValueError(f"{node!r} is no node of this hunt; its nodes are {', '.join(names)}")

    def value(self, node: Any) -> Text:
        """The numbers of a node, by itself or its name."""
        found = self.node(node)
        return Text("\n".join(matrix(f"{found.name} = ", facts.host(found.data))))

    def kinds(self) -> Text:
        """Every kind of mistake, with what it is."""
        return Text("\n".join(f"  {kind:<13} {said}" for kind, said in KINDS.items()))

    def check(self, node: Any) -> Checked:
        """Hold the gradient of a node to differences: the program is run with its numbers nudged.

        Args:
            node: a node of the graph, or its name.

        Raises:
            ValueError: there is no such node, or it takes no part in the backward pass.
        """
        found = self.node(node)
        if not wants_gradient(found):
            raise ValueError(f"{found.name} is data, of which no gradient is asked; check a weight")
        self.checks += 1
        return held(self.nodes, found, self._names.names[found], self.log.gradient(found))

    def answer(self, node: Any, kind: str) -> Verdict:
        """Say where the mistake is, and of which kind.

        Args:
            node: the node whose step goes wrong, or the leaf that starts wrong; or its name.
            kind: one of `kinds()`.

        Raises:
            ValueError: there is no such node or kind.
        """
        found = self.node(node)
        if kind not in KINDS:
            raise ValueError(f"{kind!r} is no kind of mistake here; these are: {', '.join(KINDS)}")
        self.answers += 1
        fault = self._mistake.fault
        node_right = found is fault.node or (fault.replaces and found is self._target())
        kind_right = kind == self._mistake.kind
        if node_right and kind_right:
            return Verdict(True, True, True, f"{self._story()}\n  {self._effort()}")
        return Verdict(False, node_right, kind_right, self._why_not(found, kind, node_right))

    def _why_not(self, node: Any, kind: str, node_right: bool) -> str:
        if node_right:
            return f"{node.name} is the place, but not by this: {kind} means {KINDS[kind]}"
        if node is self._target():
            return (
                f"∂L/∂{node.name} is wrong, but {node.name} only receives it: which node hands it "
                "over?"
            )
        if self.log.step_of(node) is None:
            return f"{node.name} hands nothing on; look at the nodes that it goes into"
        return f"what {node.name} does with what it got is right"

    def hint(self) -> Text:
        """The next hint: which gradients are wrong; three steps, one of which it is; the node."""
        self.hints += 1
        fault = self._mistake.fault
        if self.hints == 1:
            right = run(self.nodes)
            leaves = [x for x in self.nodes if x.op is None and x.name and wants_gradient(x)]
            wrong = [x.name for x in leaves if _other(right.gradient(x), self.log.gradient(x))]
            fine = [x.name for x in leaves if x.name not in wrong]
            good = f"; those of {', '.join(fine)} are right" if fine else ""
            said = f"Of the inputs, the gradients of {', '.join(wrong)} are wrong{good}."
            return Text(wrapped(said))
        if self.hints == 2:
            near = self._suspects()
            return Text(f"It is one of these: {', '.join(near)}.")
        return Text(f"It is at {fault.node.name}. What should happen there, and what does?")

    def _suspects(self) -> list[str]:
        """Three places in the order of the pass, the right one among them."""
        fault = self._mistake.fault
        if fault.start is not None:
            names = [x.name for x in self.nodes if x.op is None and x.name and wants_gradient(x)]
        else:
            names = [step.node.name for step in self.log]
        at = names.index(fault.node.name)
        first = max(0, min(at - (self.number + at) % 3, len(names) - 3))
        return names[first : first + 3]

    def solution(self) -> Text:
        """What was wrong, what it did, and how it can be seen."""
        return Text(self._story())

    def _story(self) -> str:
        fault, mistake = self._mistake.fault, self._mistake
        shown = self._target() if fault.slot >= 0 else self._symptom()
        right, here = run(self.nodes).gradient(shown), self.log.gradient(shown)
        said = (
            f"Wrong: {mistake.wrong}.",
            f"Right: {mistake.right}.",
            f"∂L/∂{shown.name} came out as {'nothing' if here is None else brief(here)}; it is "
            f"{brief(right)}.",
            f"How it shows: {_SIGNS[mistake.kind]}",
        )
        lines = [f"{mistake.kind} at {fault.node.name}", *(wrapped(line, "  ") for line in said)]
        return "\n".join(lines)

    def _effort(self) -> str:
        parts = [f"{self.checks} check{'s' * (self.checks != 1)}"]
        parts.append(f"{self.hints} hint{'s' * (self.hints != 1)}")
        parts.append(f"{self.answers} answer{'s' * (self.answers != 1)}")
        return f"Found with {', '.join(parts)}."

    def _target(self) -> Any:
        """The input that gets the wrong thing; None where it is not one input."""
        fault = self._mistake.fault
        return fault.node.inputs[fault.slot] if fault.slot >= 0 else None

    def _symptom(self) -> Any:
        """A node whose gradient came out wrong."""
        right = run(self.nodes)
        wrong = [x for x in self.nodes if _other(right.gradient(x), self.log.gradient(x))]
        return next((x for x in wrong if x is self._mistake.fault.node), wrong[-1])

_SIGNS = {
    "sign": "the gradient has the right size and the wrong sign, and so has all that follows.",
    "factor": "multiply out the step by hand, and one factor is missing.",
    "derivative": "nudge the input of this one operation: its result moves by another amount.",
    "detached": "a share is missing: count the uses, and what each of them handed over.",
    "accumulation": "in the step's own line before + what is handed is not what comes after.",
    "order": "the node handed on another number than the gradient it has in the end.",
    "zero_grad": "the first use finds a gradient that is there already, where it should be –.",
    "broadcast": "the shape of the gradient is not the shape of what it belongs to.",
    "axis": "the sum of all its numbers is right, the numbers are not.",
    "transposed": "the shape is right, as the matrix is square; no single number is.",
}
"""How one can see each kind."""


def bug_hunt(*, seed: int = 0, level: int = 1) -> Hunt:
    """A backward pass with one mistake in it.

    Args:
        seed: another seed hides it elsewhere, among other numbers.
        level: 1 is a product of a sum; see `levels.LEVELS` for the rest.

    Raises:
        ValueError: there is no such level.
    """
    if not 1 <= level <= len(LEVELS):
        raise ValueError(f"level was {level}; there are levels 1 to {len(LEVELS)}")
    chosen = LEVELS[level - 1]
    rng = np.random.default_rng([seed, level])
    while True:
        kind = chosen.kind or str(rng.choice(list(KINDS)))
        program = chosen.program or str(rng.choice(list(PROGRAMS)))
        second = chosen.second or (kind == "zero_grad" and PROGRAMS[program].trains)
        nodes, before = _built(program, second, rng)
        log: Log = record(nodes[-1])
        found = sites(kind, log.nodes, log.name, before)
        if found:
            mistake = found[int(rng.integers(len(found)))]
            actual = Level(program, kind, second)
            return _hidden(level, actual, log, mistake)


def _hidden(number: int, level: Level, log: Log, mistake: Mistake) -> Hunt:
    wrong = run(log.nodes, mistake.fault)
    wrong.steps = [
        dataclasses.replace(step, text=step_text(step, log, len(wrong))) for step in wrong
    ]
    return Hunt(number, level, log.root, log.nodes, wrong, log, mistake)


def _built(
    program: str, second: bool, rng: np.random.Generator
) -> tuple[list[Any], dict[int, Array]]:
    """The graph, and the gradients of the step of training before by `id` of its leaves."""
    first: Log = record(PROGRAMS[program].build(rng))
    if not second:
        return first.nodes, {}
    weights = [x for x in first.nodes if x.op is None and (x.name or "").startswith(_PARAMETERS)]
    moved = {
        id(w): facts.host(w.data) - _LEARNING_RATE * np.asarray(first.gradient(w)) for w in weights
    }
    nodes = rebuild(first.nodes, moved)
    stale = {
        id(new): np.asarray(first.gradient(old))
        for old, new in zip(first.nodes, nodes, strict=True) if id(old) in moved
    }  # fmt: skip
    return nodes, stale


def _other(a: Array | None, b: Array | None) -> bool:
    """Whether two gradients are not the same."""
    if a is None or b is None:
        return (a is None) != (b is None)
    if np.shape(a) != np.shape(b):
        return True
    return not np.allclose(a, b, rtol=1e-9, atol=1e-12)
