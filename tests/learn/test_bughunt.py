"""Every hunt hides one mistake, which differences and the right rules find, and one answer fits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_edu as tg
from tinygrad_edu.debugger.checking import handed_on
from tinygrad_edu.drawing import facts
from tinygrad_edu.learn.bughunt import Hunt, bug_hunt
from tinygrad_edu.learn.hunting import play
from tinygrad_edu.learn.levels import LEVELS
from tinygrad_edu.learn.mistakes import KINDS
from tinygrad_edu.learn.passes import wants_gradient
from tinygrad_edu.ops.registry import registry

ALL = [(level, seed) for level in range(1, len(LEVELS) + 1) for seed in (0, 1, 2)]


def differs(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return (a is None) != (b is None)
    return np.shape(a) != np.shape(b) or not np.allclose(a, b, rtol=1e-6, atol=1e-9)


def places(hunt: Hunt) -> set[tuple[str, str]]:
    """Where the pass departs from a right one, step by step: (node, what is off there)."""
    found: set[tuple[str, str]] = set()
    final: dict[int, Any] = {id(hunt.root): np.ones(facts.shape_of(hunt.root))}
    touched: set[int] = set()
    for step in hunt.log:
        for share in step.shares:
            x = share.input
            right = handed_on(step.node, share.slot, step.upstream)
            if differs(share.contribution, right):
                found.add((step.node.name, "contribution"))
            if id(x) not in touched and share.before is not None:
                found.add((x.name or "?", "start"))
            touched.add(id(x))
            if share.contribution is not None and share.before is not None:
                whole = share.before + share.contribution
                if np.shape(whole) == np.shape(share.after) and differs(share.after, whole):
                    found.add((step.node.name, "sum"))
            final[id(x)] = share.after
    for step in hunt.log:
        if differs(step.upstream, final.get(id(step.node))):
            found.add((step.node.name, "order"))
    return found


@pytest.mark.parametrize(("level", "seed"), ALL)
def test_differences_find_one_mistake_and_one_answer_fits(level: int, seed: int) -> None:
    hunt = bug_hunt(seed=seed, level=level)
    assert len(places(hunt)) == 1, places(hunt)
    checks = {
        node.name: bool(hunt.check(node).ok) for node in hunt.nodes
        if node.name is not None and wants_gradient(node)
    }  # fmt: skip
    assert not all(checks.values())
    ((place, _),) = places(hunt)
    right = [
        (node.name, kind) for node in hunt.nodes if node.name is not None
        for kind in KINDS if hunt.answer(node, kind)
    ]  # fmt: skip
    assert right
    assert {kind for _, kind in right} == {right[0][1]}
    assert place in {name for name, _ in right}
    assert len(right) == 1 or right[0][1] == "accumulation"  # at what hands on, or what receives


def test_the_levels_grow_and_every_kind_comes() -> None:
    assert len(LEVELS) >= 20
    hunts = [bug_hunt(level=level) for level in range(1, len(LEVELS) + 1)]
    sizes = [len(h.nodes) for h in hunts]
    assert sum(sizes[:6]) < sum(sizes[-8:-2])
    kinds = set()
    for h in hunts:
        kinds |= {kind for kind in KINDS for node in h.nodes if node.name and h.answer(node, kind)}
    assert kinds == set(KINDS)


def test_the_same_seed_hides_the_same_and_another_elsewhere() -> None:
    assert bug_hunt(seed=3, level=9).show() == bug_hunt(seed=3, level=9).show()
    assert len({bug_hunt(seed=s, level=9).show() for s in range(4)}) == 4


def test_the_engine_is_not_touched() -> None:
    before = dict(registry)
    hunt = bug_hunt(level=4)
    assert registry == before
    log = tg.record(hunt.root)
    for node in hunt.nodes:
        if node.name is not None and wants_gradient(node):
            assert hunt.check(node).ok == (not differs(hunt.log.gradient(node), log.gradient(node)))


def test_hints_come_closer_and_the_solution_says_all() -> None:
    hunt = bug_hunt(level=7)
    assert str(hunt.hint()).startswith("Of the inputs, the gradients of b are wrong")
    assert str(hunt.hint()).startswith("It is one of these: ")
    assert "s" in str(hunt.hint())
    text = str(hunt.solution())
    assert text.startswith("detached at s") and "Right:" in text and "How it shows:" in text
    verdict = hunt.answer("s", "detached")
    assert verdict and "0 checks, 3 hints, 1 answer" in verdict.message


def test_wrong_answers_say_what_is_wrong_about_them() -> None:
    hunt = bug_hunt(level=7)
    assert "is the place, but not by this" in hunt.answer("s", "sign").message
    assert "which node hands it over" in " ".join(hunt.answer("b", "detached").message.split())
    assert "is right" in hunt.answer("h", "detached").message
    assert "hands nothing on" in hunt.answer("c", "sign").message


def test_bad_questions_are_said_in_a_sentence() -> None:
    hunt = bug_hunt(level=1)
    with pytest.raises(ValueError, match=r"'nosuch' is no node of this hunt; its nodes are"):
        hunt.check("nosuch")
    with pytest.raises(ValueError, match="'typo' is no kind of mistake here"):
        hunt.answer(hunt.root, "typo")
    with pytest.raises(ValueError, match="there are levels 1 to"):
        bug_hunt(level=0)
    data = bug_hunt(level=16)
    with pytest.raises(ValueError, match="is data, of which no gradient is asked"):
        data.check("x")


@pytest.mark.parametrize("level", range(1, len(LEVELS) + 1))
def test_what_is_shown_keeps_to_80_columns(level: int) -> None:
    hunt = bug_hunt(level=level)
    texts = [str(hunt.show()), repr(hunt.log), str(hunt.kinds()), str(hunt.solution())]
    texts += [repr(hunt.check(n)) for n in hunt.nodes if n.name and wants_gradient(n)]
    texts += [str(hunt.hint()) for _ in range(3)]
    wide = [line for text in texts for line in text.splitlines() if len(line) > 80]
    assert wide == []


def played(level: int, lines: list[str]) -> tuple[bool, str]:
    out: list[str] = []
    given = iter(lines)

    def read(prompt: str) -> str:
        try:
            return next(given)
        except StopIteration:
            raise EOFError from None

    return play(bug_hunt(level=level), read, out.append), "\n".join(out)


def test_a_hunt_is_played_in_the_terminal() -> None:
    lines = [
        "", "step", "step 9", "check b", "value a", "kinds", "hint", "help", "answer s",
        "answer s sign", "check nosuch", "answer s detached",
    ]  # fmt: skip
    found, text = played(7, lines)
    assert found
    for part in (
        "Hunt 7 of", "[1/4]", "step takes a number from 1 to 4", "by differences",
        "in place of +=", "answer takes a node and a kind", "✗", "no node", "✓",
    ):  # fmt: skip
        assert part in text
    assert played(7, ["quit"])[0] is False
    assert played(7, [])[0] is False
    assert "detached at s" in played(7, ["solution"])[1]
