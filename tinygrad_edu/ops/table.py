"""The table of primitives and their delicate points, as documentation: from the registry.

    python -m tinygrad_edu.ops.table > docs/derivatives.md
"""

from __future__ import annotations

from tinygrad_edu.ops import registry
from tinygrad_edu.ops.registry import BoundRule, Primitive

# What functions of several primitives choose; a primitive's own choices stand in its entry.
CHOICES = (
    ("sort, topk, argsort", "a stable sort: numbers that tie keep their order, and with it their "
     "gradients; NaN comes last"),
    ("median", "of an even number the mean of the two in the middle; ties as in sort; NaN goes on"),
    ("cummax, cummin", "of ties the latest gets the gradient; NaN stays"),
    ("argmax, argmin", "plain arrays; of ties the first"),
    ("clip with a tracked bound", "by maximum and minimum: where they tie, half each"),
    ("norm of a matrix, ±2 and nuc", "by singular values, ties of the largest shared"),
    ("norm, ord 0", "counts what is not 0; gradient 0"),
    ("max_pool", "ties in a window share equally; padding is -inf and never wins"),
    ("l1_loss, huber_loss, hinge_loss", "0 where they are equal, and on the hinge"),
    ("kl_div, cross_entropy with probabilities, binary_cross_entropy",
     "a term whose target is 0 is 0, also beside an infinite logarithm"),
    ("cross_entropy, nll_loss", "a mean over no target is NaN, with gradient 0"),
    ("attention", "a row that may see nothing gives 0, with gradient 0"),
    ("dropout", "what is dropped gets 0, never 0 · inf"),
    ("qr of a wide matrix", "the columns that fix Q, then Qᵀ times the others"),
)  # fmt: skip

_HEAD = """# Derivatives

Generated from the registry of primitives by `python -m tinygrad_edu.ops.table`; a test holds it to
that. Every line on a delicate point is a test of its own (`tests/engine/ops/test_kinks*.py`).

Where an upstream gradient meets a local derivative, an exact 0 absorbs: 0 · inf and 0 · NaN are 0.
So a masked branch cannot poison what it does not reach (`where(x > 0, log(x), 0)` has gradient 0 at
0), to first and to second order. Contractions (`matmul`, `einsum`, convolutions) add many products,
and do not absorb: there 0 · inf is NaN, and the table says so.

*Kind*: **e**lementwise, one local derivative an input; **l**inear, its transpose; **j**oint, one
rule for all inputs. *Oracle*: complex step, where the function is declared analytic and the
declaration is proved at each check; else differences, in 400 bits where mpmath is installed and in
long doubles where NumPy has them, as far as the operation can be computed so.

| primitive | what it is | kind | oracle | delicate points |
|---|---|---|---|---|
"""

_FUNCTIONS = """
## Functions of several primitives

| function | what it chooses |
|---|---|
"""


def _rule_count(primitive: Primitive) -> str:
    flat = all(rule is None for rule in primitive.rules) and primitive.kind == "elementwise"
    return "e, flat" if flat else primitive.kind[0]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def markdown() -> str:
    """The whole page."""
    rows = []
    for name, primitive in sorted(registry.items()):
        points = "<br>".join(_cell(line) for line in primitive.kinks)
        oracle = "complex step" if primitive.analytic else "differences"
        rows.append(
            f"| `{name}` | {_cell(primitive.formula)} | {_rule_count(primitive)} | {oracle} | "
            f"{points} |"
        )
    chosen = [f"| {name} | {_cell(line)} |" for name, line in CHOICES]
    count = sum(isinstance(r, BoundRule) for p in registry.values() for r in p.rules)
    count += sum(p.joint_rule is not None for p in registry.values())
    lines = sum(len(p.kinks) for p in registry.values())
    tail = (
        f"\n{len(registry)} primitives, {count} rules, {lines} delicate points, {len(CHOICES)} "
        "choices of functions.\n"
    )
    return _HEAD + "\n".join(rows) + "\n" + _FUNCTIONS + "\n".join(chosen) + "\n" + tail


if __name__ == "__main__":
    print(markdown(), end="")
