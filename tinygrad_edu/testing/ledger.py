"""A ledger of which property was checked on which primitive, how often, and to how many digits.

What was never run cannot fail: an engine's tests are to be red where a primitive missed a property
that applies to it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tinygrad_edu.ops.registry import Primitive, registry
from tinygrad_edu.testing.compare import Report

PROPERTIES = {
    "P0": "the value is NumPy's or the definition's", "P1": "shape and dtype",
    "P2": "linear in the upstream gradient", "P3": "gradients by an oracle",
    "P4": "tangents by an oracle", "P5": "both modes are adjoint",
    "P6": "whole numbers, exactly", "P9": "second derivatives", "P10": "nothing is written to",
    "P11": "the same bits again", "P12": "gradients add up", "P13": "memory layout",
    "P14": "broadcasting", "P15": "float32 stays float32", "P16": "another array library",
    "P17": "no NaN from finite numbers",
}  # fmt: skip

EXEMPT = {
    ("cast", "P15"): "it is there to change dtypes",
    ("mean", "P6"): "it divides, which rounds",
}  # fmt: skip
_ALWAYS = {"P0", "P1", "P2", "P3", "P4", "P10", "P11", "P12", "P13", "P15", "P16"}


def different_code(primitive: Primitive) -> bool:
    """Whether its tangent is made by other code than its gradient, so that the two can disagree:
    an elementwise one has a single local derivative for both.
    """
    if primitive.kind == "joint":
        return primitive.jvp is not None or primitive.reference is not None
    return primitive.kind == "linear"


def applicable(primitive: Primitive) -> set[str]:
    """The properties that this primitive has to be checked for."""
    found = set(_ALWAYS)
    if different_code(primitive):
        found |= {"P5", "P9"}
    if primitive.degree == 1:
        found.add("P6")
    if primitive.kind == "elementwise":
        found.add("P17")
        if len(primitive.inputs) > 1:
            found.add("P14")
    return {known for known in found if (primitive.name, known) not in EXEMPT}


@dataclass
class Ledger:
    """Counts by (primitive, property), and the fewest digits an oracle agreed to by primitive."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    digits: dict[str, float] = field(default_factory=dict)
    oracles: dict[str, set[str]] = field(default_factory=dict)

    def record(self, name: str, *properties: str, report: Report | None = None) -> None:
        """One more check of each of these properties on the primitive called `name`.

        P5 and P9 count only where `different_code`.
        """
        primitive = registry.get(name)
        for known in properties:
            if known in ("P5", "P9") and primitive is not None and not different_code(primitive):
                continue
            self.counts[name, known] += 1
        if report is not None and report.digits:
            self.digits[name] = min(self.digits.get(name, 17.0), *report.digits)
            self.oracles.setdefault(name, set()).add(report.oracle)

    def missing(self) -> list[tuple[str, str]]:
        """(primitive, property) that applies and was never checked."""
        return [
            (name, known)
            for name, primitive in sorted(registry.items())
            for known in sorted(applicable(primitive), key=lambda p: int(p[1:]))
            if not self.counts[name, known]
        ]

    def dump(self) -> dict[str, Any]:
        """As plain data, for another process."""
        return {
            "counts": [[*key, n] for key, n in self.counts.items()],
            "digits": self.digits,
            "oracles": {name: sorted(o) for name, o in self.oracles.items()},
        }

    def add(self, dumped: dict[str, Any]) -> None:
        """What another process recorded."""
        for name, known, n in dumped["counts"]:
            self.counts[name, known] += n
        for name, digits in dumped["digits"].items():
            self.digits[name] = min(self.digits.get(name, 17.0), digits)
        for name, oracles in dumped["oracles"].items():
            self.oracles.setdefault(name, set()).update(oracles)

    def lines(self) -> list[str]:
        """A table: a row a primitive, worst digits first, and what is missing."""
        rows = [f"{'primitive':<18} checks  digits  oracle"]
        for name in sorted(registry, key=lambda n: (self.digits.get(n, 99.0), n)):
            checks = sum(n for (known, _), n in self.counts.items() if known == name)
            digits = f"{self.digits[name]:6.1f}" if name in self.digits else "     –"
            oracles = ", ".join(sorted(self.oracles.get(name, ())))
            rows.append(f"{name:<18} {checks:>6}  {digits}  {oracles}")
        rows.append(f"{sum(self.counts.values()):,} property checks on {len(registry)} primitives")
        gone = self.missing()
        if gone:
            listed = ", ".join(f"{name} {known}" for name, known in gone)
            rows.append(f"never checked though it applies: {listed}")
        return rows
