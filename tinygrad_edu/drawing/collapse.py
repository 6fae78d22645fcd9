"""A picture with modules folded into boxes, equal blocks drawn once, and long runs cut to pieces.

Folding never hides a difference: blocks count as equal only where operations, shapes, wiring and
what each is told agree, and what differs between them is shown as a range. `Amounts`, the numbers
behind an overlay, are folded with the boxes.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tinygrad_edu.drawing import facts
from tinygrad_edu.drawing.model import Arrow, Box, Picture

__all__ = ["AUTO", "LIMIT", "Amounts", "collapsed", "grouped", "largest"]

AUTO = 60
"""Boxes that "auto" takes for readable."""
LIMIT = 1500
"""Boxes that any picture has at most; a larger graph is cut to pieces."""
_FLAT, _PART = 150, 30
"""Boxes that a page shows side by side; boxes of a part, where there are more."""
_OPEN = 20
_PIECES = 24

Group = tuple[str, ...]
Reduce = Callable[[Sequence[float]], float]


def largest(numbers: Sequence[float]) -> float:
    """The largest of some numbers; NaN if one of them is, which `max` would pass over."""
    return math.nan if any(map(math.isnan, numbers)) else max(numbers)


@dataclass(frozen=True)
class Amounts:
    """A number for each box, by its id, and how those of a folded box are put together.

    Attributes:
        of: the numbers; a box without one has none.
        reduce: one number for many, within one block.
        across: one number for those of equal blocks.
        copies: the originals' numbers for copies, which are added up with no others.
    """

    of: dict[str, float]
    reduce: Reduce = largest
    across: Reduce = largest
    copies: dict[str, float] = field(default_factory=dict)


def collapsed(
    picture: Picture, how: str | int | float, amounts: Amounts, limit: int = LIMIT,
    repeats: bool = False,
) -> tuple[Picture, Amounts]:  # fmt: skip
    """The picture with its modules folded.

    Args:
        picture: with everything open.
        how: "none" opens all; a whole number opens modules that many levels deep; "all" folds each
            outermost module; a fraction from 0.0 (none) to 1.0 (all); "auto" folds as little as
            leaves about 60 boxes, and draws runs of equal blocks once.
        amounts: numbers of the boxes.
        limit: boxes at most; beyond, runs of boxes are folded.
        repeats: draw runs of equal blocks once, which "auto" does by itself.

    Raises:
        ValueError: `how` is none of these.
    """
    deepest = max((len(box.module) for box in picture.boxes), default=0)
    if how == "auto":
        return _auto(picture, amounts, deepest, limit)
    depth = _depth(how, deepest)
    made = picture, amounts
    if depth < deepest:
        made = _fold_modules(*made, depth)
    if repeats:
        made = _fold_repeats(*made)
    return _cut(*made, limit, limit // 2)


def _depth(how: str | int | float, deepest: int) -> int:
    if how == "none":
        return deepest
    if how == "all":
        return 0
    if type(how) is int and how >= 0:
        return how
    if type(how) is float and 0.0 <= how <= 1.0:
        return round((1.0 - how) * deepest)
    raise ValueError(
        f"collapse was {how!r}; give 'auto', 'none', 'all', how many levels of modules to open "
        "(0, 1, 2, …), or a fraction from 0.0 (nothing folded) to 1.0 (every module)"
    )


def _auto(
    picture: Picture, amounts: Amounts, deepest: int, limit: int
) -> tuple[Picture, Amounts]:
    most = min(AUTO, limit)
    if len(picture.boxes) <= most:
        return picture, amounts
    for depth in range(deepest, -1, -1):
        folded = picture, amounts
        if depth < deepest:
            folded = _fold_modules(*folded, depth)
        folded = _fold_repeats(*folded)
        if len(folded[0].boxes) <= most:
            return folded
    return _cut(*folded, most, _PIECES)


# Modules


def _fold_modules(picture: Picture, amounts: Amounts, depth: int) -> tuple[Picture, Amounts]:
    """Each module that lies `depth` levels deep as one box."""
    groups: dict[str, Group] = {}
    for box in picture.boxes:
        if len(box.module) > depth:
            groups[box.id] = box.module[: depth + 1]
    return _merged(picture, amounts, groups, _module_box)


def _module_box(parts: Sequence[Box], group: Group) -> Box:
    """One box for all of a module's."""
    *around, name = group
    made = [box for box in parts if box.kind in ("operation", "module")]
    operations, weights = _held(parts)
    last = made[-1] if made else parts[-1]
    held = f", {_plural(weights, 'weight')}" if weights else ""
    lines = [_plural(operations, "operation") + held]
    told = last.lines[1:] if last.kind == "module" else last.lines
    lines += [line for line in told if line and not line.startswith("grad")][:1]
    return Box(
        "", "module", name, module=tuple(around), lines=tuple(lines),
        gradient=last.gradient, hides=_contents(made), marked=any(b.marked for b in parts),
        source=last.source, details=_inside(parts), inside=(operations, weights),
    )  # fmt: skip


def _held(parts: Sequence[Box]) -> tuple[int, int]:
    """How many operations and weights boxes are or hold, with every one of equal blocks."""
    operations = sum(
        box.count * (1 if box.kind == "operation" else box.inside[0]) for box in parts
    )
    weights = sum(box.count * (1 if box.kind == "parameter" else box.inside[1]) for box in parts)
    return operations, weights


def _contents(made: Sequence[Box]) -> str:
    """"3 multiply, 2 add, tanh": what a folded box holds, the most frequent first."""
    counts: Counter[str] = Counter()
    for box in made:
        counts[_word(box)] += box.count
    shown = sorted(counts, key=lambda word: (-counts[word], word))
    text = ", ".join(f"{counts[w]} {w}" if counts[w] > 1 else w for w in shown[:6])
    return text + (f" and {len(shown) - 6} more kinds" if len(shown) > 6 else "")


def _word(box: Box) -> str:
    return dict(box.details).get("operation", box.title)


def _plural(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _inside(parts: Sequence[Box]) -> tuple[tuple[str, str], ...]:
    found = [("holds", f"{len(parts)} boxes")]
    weights = [box.name or dict(box.details).get("name", "?") for box in parts
               if box.kind == "parameter"]  # fmt: skip
    if weights:
        more = f" and {len(weights) - 8} more" if len(weights) > 8 else ""
        found.append(("weights", ", ".join(weights[:8]) + more))
    return tuple(found)


# Equal blocks


def _fold_repeats(picture: Picture, amounts: Amounts) -> tuple[Picture, Amounts]:
    """Runs of equal sibling modules, such as blocks.0 … blocks.11, drawn once and marked "× 12"."""
    while True:
        runs = _outermost_runs(picture)
        if not runs:
            return picture, amounts
        for run, beside in runs:  # of different modules: none is part of another
            picture, amounts = _drawn_once(picture, amounts, run, beside)


def _outermost_runs(picture: Picture) -> list[tuple[list[tuple[str, ...]], bool]]:
    """Paths of modules that are equal and follow each other, the outermost, and whether they stand
    side by side; the longest first.
    """
    members: dict[tuple[str, ...], list[Box]] = {}
    for box in picture.boxes:
        path = (*box.module, box.title) if box.kind == "module" else box.module
        for depth in range(1, len(path) + 1):
            members.setdefault(path[:depth], []).append(box)
    families: dict[tuple[tuple[str, ...], str], dict[int, tuple[str, ...]]] = {}
    for path in members:
        named = re.fullmatch(r"(.*?)(\d+)", path[-1])
        if named:
            families.setdefault((path[:-1], named[1]), {})[int(named[2])] = path
    blocks = _Blocks(picture, members)
    depth = 0
    found: list[list[tuple[str, ...]]] = []
    for (around, _), numbered in sorted(families.items(), key=lambda family: len(family[0][0])):
        if found and len(around) > depth:
            break
        depth = len(around)
        found += _runs(numbered, blocks)
    found.sort(key=len, reverse=True)
    return [(run, blocks.side_by_side(run)) for run in found]


def _runs(numbered: dict[int, tuple[str, ...]], blocks: _Blocks) -> list[list[tuple[str, ...]]]:
    """Stretches of siblings with following numbers that are equal and stand in one relation."""
    found: list[list[tuple[str, ...]]] = []
    run: list[tuple[str, ...]] = []
    last = -2
    for number, path in sorted(numbered.items()):
        if run and number == last + 1 and blocks.go_on(run, path):
            run.append(path)
        else:
            found.append(run)
            run = [path]
        last = number
    return [run for run in [*found, run] if len(run) > 1]


class _Blocks:
    """What blocks are made of, without their numbers, and how they hang together."""

    def __init__(self, picture: Picture, members: dict[tuple[str, ...], list[Box]]) -> None:
        self._members = members
        self._words = {
            box.id: "module" if box.kind == "module" else _word(box) for box in picture.boxes
        }
        self._original = {box.id: box.copy_of or box.id for box in picture.boxes}
        self._into: dict[str, list[Arrow]] = {}
        self._out: dict[str, list[Arrow]] = {}
        for arrow in picture.arrows:
            self._into.setdefault(arrow.head, []).append(arrow)
            self._out.setdefault(arrow.tail, []).append(arrow)
        self._signs: dict[tuple[str, ...], object] = {}

    def go_on(self, run: Sequence[tuple[str, ...]], path: tuple[str, ...]) -> bool:
        """Whether a block continues a run: equal to its first, and fed by its last as that by the
        one before (or, side by side, by the same boxes as all of them).
        """
        first, last = run[0], run[-1]
        if self._sign(first) != self._sign(path):
            return False
        given, before = self._given(path), self._given(last)
        if len(run) > 1 and self.side_by_side(run) != (given == before):
            return False
        if given == before:
            return bool(given) and self._leads_to(path) == self._leads_to(last)
        between = self._between(last, path)
        if not between or not self._leaves_only_for(last, path):
            return False
        common = {tail for tail, _, _ in before}
        from_last = {box.id for box in self._members[last]}
        if any(tail not in from_last and tail not in common for tail, _, _ in given):
            return False
        return len(run) == 1 or between == self._between(run[-2], last)

    def side_by_side(self, run: Sequence[tuple[str, ...]]) -> bool:
        """Whether the blocks of a run get the same, rather than one what the other made."""
        return self._given(run[0]) == self._given(run[1])

    def _sign(self, path: tuple[str, ...]) -> object:
        if path not in self._signs:
            self._signs[path] = self._signature(self._members[path], len(path))
        return self._signs[path]

    def _given(self, path: tuple[str, ...]) -> list[tuple[str, int, int]]:
        """(box outside, place inside, slot) of each arrow into a block."""
        place = {box.id: i for i, box in enumerate(self._members[path])}
        return [
            (self._original.get(arrow.tail, arrow.tail), i, arrow.slot)
            for box_id, i in place.items() for arrow in self._into.get(box_id, ())
            if arrow.tail not in place
        ]  # fmt: skip

    def _between(self, a: tuple[str, ...], b: tuple[str, ...]) -> list[tuple[int, int, int]]:
        """(place in a, place in b, slot) of each arrow from block a into block b."""
        place = {box.id: i for i, box in enumerate(self._members[a])}
        return [(place[tail], i, slot) for tail, i, slot in self._given(b) if tail in place]

    def _leads_to(self, path: tuple[str, ...]) -> set[tuple[int, str]]:
        """(place inside, operation outside) of each arrow out of a block."""
        place = {box.id: i for i, box in enumerate(self._members[path])}
        return {
            (i, self._words[arrow.head])
            for box_id, i in place.items() for arrow in self._out.get(box_id, ())
            if arrow.head not in place
        }  # fmt: skip

    def _leaves_only_for(self, a: tuple[str, ...], b: tuple[str, ...]) -> bool:
        own = {box.id for box in self._members[a]} | {box.id for box in self._members[b]}
        return all(
            arrow.head in own for box in self._members[a] for arrow in self._out.get(box.id, ())
        )

    def _signature(self, boxes: Sequence[Box], depth: int) -> object:
        place = {box.id: i for i, box in enumerate(boxes)}
        outside: dict[str, int] = {}
        rows = []
        for box in boxes:
            arrows = []
            for arrow in self._into.get(box.id, ()):
                at = place.get(arrow.tail)
                if at is None:
                    at = -1 - outside.setdefault(arrow.tail, len(outside))
                arrows.append((at, arrow.slot, arrow.label, arrow.count))
            told = tuple(v for k, v in box.details if k in ("told", "shape", "operation", "holds"))
            own = box.kind == "module" and len(box.module) < depth
            rows.append((
                box.kind, box.module[depth:], "" if own else box.title, box.copy_of != "", told,
                tuple(sorted(box.constants.items())), box.hides, box.marked, box.count,
                tuple(arrows), box.formula, len(box.lines),
            ))  # fmt: skip
        return tuple(rows)


def _drawn_once(
    picture: Picture, amounts: Amounts, run: Sequence[tuple[str, ...]], beside: bool
) -> tuple[Picture, Amounts]:
    """The first block of a run in the place of all of them."""
    members: dict[tuple[str, ...], list[Box]] = {path: [] for path in run}
    for box in picture.boxes:
        own = (*box.module, box.title) if box.kind == "module" else box.module
        if own[: len(run[0])] in members:
            members[own[: len(run[0])]].append(box)
    blocks = list(members.values())
    if len({len(block) for block in blocks}) > 1:  # a copy of no more use was left out of one
        return picture, amounts
    first, last = run[0][-1], run[-1][-1]
    title = f"{first} … {last} × {len(run)}" + (", side by side" if beside else "")
    depth = len(run[0]) - 1
    kept: dict[str, str] = {}
    of = dict(amounts.of)
    boxes = {box.id: box for box in picture.boxes}
    for same in zip(*blocks, strict=True):
        made = _ranged(same, title, depth)
        boxes[made.id] = made
        kept.update({box.id: made.id for box in same})
        some = [of.pop(box.id) for box in same if box.id in of]
        if some:
            of[made.id] = amounts.across(some)
    firsts = {box.id for box in blocks[0]}
    arrows = _rewired(picture.arrows, kept, firsts)
    used = {arrow.tail for arrow in arrows}
    shown = [
        boxes[box.id] for box in picture.boxes
        if kept.get(box.id, box.id) == box.id and (box.kind != "copy" or box.id in used)
    ]  # fmt: skip
    return replace(picture, boxes=shown, arrows=arrows), replace(amounts, of=of)


def _ranged(same: Sequence[Box], title: str, depth: int) -> Box:
    """The first of equal boxes, with the range of what differs."""
    box = same[0]
    module = box.module
    if box.kind == "module" and len(module) == depth:
        box = replace(box, title=title)
    else:
        module = (*module[:depth], title, *module[depth + 1 :])
    lines = tuple(
        each[0] if len(set(each)) == 1 else _range(each)
        for each in zip(*(b.lines for b in same), strict=True)
    )
    details = [(what, _range_of(what, same)) for what, _ in box.details if what != "stands for"]
    details.append(("stands for", f"{len(same)} equal blocks"))
    name = box.name if len({b.name for b in same}) == 1 else f"{box.name} …"
    return replace(
        box, module=module, lines=lines, count=box.count * len(same), name=name,
        gradient=box.gradient if len({b.gradient for b in same}) == 1
        else _range([b.gradient for b in same]), details=tuple(details),
    )  # fmt: skip


def _range_of(what: str, same: Sequence[Box]) -> str:
    """A detail of equal boxes."""
    texts = [dict(box.details).get(what, "–") for box in same]
    if len(set(texts)) == 1:
        return texts[0]
    if what == "gradient":
        return _range(texts)
    if what not in ("numbers", "of it"):
        return _from_to(texts[0], texts[-1])
    bad = [text for text in texts[1:] if "NaN" in text or "inf" in text]
    return f"{texts[0]} (of the first)" + (f"; {bad[0]} (of another)" if bad else "")


def _from_to(first: str, last: str) -> str:
    """"blocks.0.fc.weight" and "blocks.3.fc.weight" as "blocks.0…3.fc.weight"."""
    pairs = list(zip(first.split("."), last.split("."), strict=False))
    if first.count(".") == last.count(".") and sum(a != b for a, b in pairs) == 1:
        return ".".join(a if a == b else f"{a}…{b}" for a, b in pairs)
    return f"{first} … {last}"


def _range(texts: Sequence[str]) -> str:
    """"grad norm 0.1", "grad norm 0.3" as "grad norm 0.1 … 0.3"; what lies in no range, NaN and
    "–", stands beside it.
    """
    bare = [re.sub(r"^(grad )?(norm )?", "", text) for text in texts]
    head = max((t.removesuffix(b) for t, b in zip(texts, bare, strict=True)), key=len)
    parts = list(dict.fromkeys(x for text in bare for x in re.split(r" … |, ", text)))
    beside = [x for x in parts if x in ("nan", "–")]
    try:
        numbers = [float(x) for x in parts if x not in beside]
    except ValueError:
        kinds = list(dict.fromkeys(texts))
        hidden = any("nan" in x for x in kinds[1:-1])
        return f"{kinds[0]} … {kinds[-1]}" + (", some nan" if hidden else "")
    ends = list(dict.fromkeys(map(facts.number, (min(numbers), max(numbers))))) if numbers else []
    return head + ", ".join([" … ".join(ends)] * bool(ends) + beside)


def _rewired(arrows: Sequence[Arrow], kept: dict[str, str], firsts: set[str]) -> list[Arrow]:
    """Arrows with the first block in the place of all: those from one block to the next are left
    out, and those that leave several blocks for one box are counted.
    """
    shown: list[Arrow] = []
    of_first: dict[tuple[str, str], int] = {}
    of_others: dict[tuple[str, str], int] = {}
    for arrow in arrows:
        if arrow.tail not in kept and arrow.head not in kept:
            shown.append(arrow)
            continue
        tail, head = kept.get(arrow.tail, arrow.tail), kept.get(arrow.head, arrow.head)
        own = {arrow.tail, arrow.head} <= firsts
        if arrow.head in kept and not own and arrow.head not in firsts:
            continue  # within another block, on to the next one, or into it from outside
        if arrow.head in kept and arrow.tail in kept and not own:
            continue
        other = arrow.tail in kept and not own and arrow.tail not in firsts
        counts = of_others if other else of_first
        counts[tail, head] = counts.get((tail, head), 0) + arrow.count
        shown.append(replace(arrow, tail=tail, head=head))
    result: list[Arrow] = []
    merged: set[tuple[str, str]] = set()
    for arrow in shown:
        key = (arrow.tail, arrow.head)
        if key not in of_first or key not in of_others:
            result.append(arrow)
        elif key not in merged:
            merged.add(key)
            result.append(replace(arrow, slot=-1, label="", count=of_first[key] + of_others[key]))
    return result


# Pieces


def _cut(picture: Picture, amounts: Amounts, most: int, pieces: int) -> tuple[Picture, Amounts]:
    """Runs of boxes in topological order as one box each, so that at most about `most` are left.

    Cut where few arrows cross. What is near the end stays open, and so do a few marked boxes.
    """
    count = len(picture.boxes)
    if count <= most:
        return picture, amounts
    stay = min(_OPEN, most // 3)
    crossing = _crossing(picture)
    foldable = count - stay
    pieces = max(1, min(pieces, most - stay))
    size = max(2, foldable / pieces)
    marked = [at for at, box in enumerate(picture.boxes[:foldable]) if box.marked]
    if 2 * len(marked) > most - stay - pieces:  # each costs itself and one more part
        marked = []
    open_ = set(marked)
    groups: dict[str, Group] = {}
    start, number = 0, 0
    while start < foldable:
        if start in open_:
            start += 1
            continue
        end = min(foldable, round(start + size))
        low, high = max(start + 1, round(end - size / 4)), min(foldable, round(end + size / 4))
        if end < foldable and low < high:
            end = min(range(low, high + 1), key=lambda at: (crossing[at], abs(at - end)))
        if foldable - end < size / 4:
            end = foldable
        end = min([end, *(at for at in marked if at > start)])
        number += 1
        for box in picture.boxes[start:end]:
            groups[box.id] = (f"part {number}",)
        start = end
    folded, numbers = _merged(picture, amounts, groups, _piece_box)
    note = (
        f"{count:,} boxes are too many to read: the first {foldable:,} are drawn as {number} parts"
        + (", but for those marked" if marked else "")
    )
    return replace(folded, notes=(*folded.notes, note)), numbers


def _crossing(picture: Picture) -> list[int]:
    """How many arrows a cut before each box would cross."""
    place = {box.id: i for i, box in enumerate(picture.boxes)}
    change = [0] * (len(picture.boxes) + 2)
    for arrow in picture.arrows:
        a, b = sorted((place[arrow.tail], place[arrow.head]))
        change[a + 1] += 1
        change[b + 1] -= 1
    crossing, now = [], 0
    for each in change:
        now += each
        crossing.append(now)
    return crossing


def _piece_box(parts: Sequence[Box], group: Group) -> Box:
    made = _module_box(parts, group)
    shared = parts[0].module
    for box in parts:
        while box.module[: len(shared)] != shared:
            shared = shared[:-1]
    names = [box.name for box in parts if box.name]
    shown = ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
    return replace(made, module=shared, lines=(*made.lines[:1], *((shown,) if shown else ())))


def grouped(picture: Picture) -> Picture:
    """The picture with long runs of boxes as modules called parts, for a page, where they open.

    Nothing is folded: only where more than 150 boxes lie directly in one module (or in none) are
    they put into parts of 30, in topological order, and those into larger parts, if need be.
    """
    direct = Counter(box.module for box in picture.boxes)
    seen: Counter[tuple[str, ...]] = Counter()
    boxes = []
    for box in picture.boxes:
        if direct[box.module] > _FLAT:
            at = seen[box.module]
            seen[box.module] += 1
            box = replace(box, module=(*box.module, *_parts(at, direct[box.module])))
        boxes.append(box)
    return replace(picture, boxes=boxes)


def _parts(at: int, count: int) -> tuple[str, ...]:
    """Names of the parts around box number `at` of `count`, from the outermost."""
    sizes = [_PART]
    while count / sizes[-1] > _PART:
        sizes.append(sizes[-1] * _PART)
    names = []
    for size in reversed(sizes):
        first = at // size * size
        names.append(f"{first + 1} … {min(first + size, count)}")
    return tuple(names)


# Merging


def _merged(
    picture: Picture, amounts: Amounts, groups: dict[str, Group],
    make: Callable[[Sequence[Box], Group], Box],
) -> tuple[Picture, Amounts]:  # fmt: skip
    """Boxes of one group as one box, and arrows between groups as one with a count."""
    parts: dict[Group, list[Box]] = {}
    for box in picture.boxes:
        if box.id in groups:
            parts.setdefault(groups[box.id], []).append(box)
    made: dict[Group, Box] = {}
    boxes: list[Box] = []
    for box in picture.boxes:
        group = groups.get(box.id)
        if group is None:
            boxes.append(box)
        elif box is parts[group][-1]:  # where its last part stood: after all it is made from
            made[group] = replace(make(parts[group], group), id=parts[group][0].id)
            boxes.append(made[group])
    ids = {box.id: made[groups[box.id]].id if box.id in groups else box.id for box in picture.boxes}
    of = {key: value for key, value in amounts.of.items() if key not in groups}
    for group, inside in parts.items():
        some = [amounts.of[box.id] for box in inside if box.id in amounts.of]
        if some:
            of[made[group].id] = amounts.reduce(some)
    folded = {box.id for box in made.values()}
    arrows: dict[tuple[str, str, int, str], Arrow] = {}
    for arrow in picture.arrows:
        tail, head = ids[arrow.tail], ids[arrow.head]
        if tail == head:
            continue
        slot, label = (-1, "") if head in folded else (arrow.slot, arrow.label)
        key = (tail, head, slot, label)
        known = arrows.get(key)
        if known is None:
            arrows[key] = replace(arrow, tail=tail, head=head, slot=slot, label=label)
        else:
            known.count += arrow.count
            known.marked |= arrow.marked
    boxes = [replace(b, copy_of=ids[b.copy_of]) if b.copy_of else b for b in boxes]
    return replace(picture, boxes=boxes, arrows=list(arrows.values())), replace(amounts, of=of)
