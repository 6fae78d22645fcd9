"""What a node hands to one of its inputs, as a formula: "∂L/∂e · b", in names and in numbers.

The text comes from running the primitive's own rule on words (`symbols`); kernels, which fused
operations use, have theirs here in the notation of their papers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinygrad_edu.autograd.apply import ABSENT
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.debugger.symbols import Symbols, Term, Unreadable
from tinygrad_edu.drawing import facts
from tinygrad_edu.ops.registry import BoundRule, Primitive, registry

__all__ = ["Formula", "of_use"]

_LONGEST = 64

_OF_VALUE = {
    "+": "add", "-": "subtract", "*": "multiply", "/": "divide", "neg": "negative", "**": "power",
}  # fmt: skip
"""`Value`'s names for what the registry has under another."""

_AS_CASES: dict[str, tuple[str, ...]] = {
    "relu": ("1 if {a} > 0, else 0",),
    "abs": ("sign {a}",),
    "maximum": ("1 if {a} > {b}, ½ if equal, else 0", "1 if {b} > {a}, ½ if equal, else 0"),
    "minimum": ("1 if {a} < {b}, ½ if equal, else 0", "1 if {b} < {a}, ½ if equal, else 0"),
    "clip": ("1 if within the bounds, else 0",),
    "sigmoid": ("{out} · (1 - {out})",),
    "power": ("{b} · {a}^({b} - 1)", "{out} · ln {a}"),
    "where": ("", "{g} where {c}, else 0", "0 where {c}, else {g}"),
    "set_at": ("{g}, 0 where it was set", "{g} where it was set"),
    "arctan2": ("{x} / ({y}² + {x}²)", "-{y} / ({y}² + {x}²)"),
    "hypot": ("{a} / {out}", "{b} / {out}"),
    "logaddexp": ("exp({a} - {out})", "exp({b} - {out})"),
    "mish": ("tanh(softplus({a})) + {a} · sigmoid({a}) · (1 - tanh(softplus({a}))²)",),
    "silu": ("sigmoid({a}) · (1 + {a} · sigmoid(-{a}))",),
    "elu": ("1 if {a} > 0, else {alpha:g} · exp({a})",),
    "leaky_relu": ("1 if {a} > 0, else {slope:g}",),
    "selu": ("1.051 if {a} > 0, else 1.758 · exp({a})",),
    "xlogy": ("ln {b}", "{a} / {b}"),
}
"""Local derivatives (for `where` contributions) whose rule guards corner cases that a formula need
not say; `{a}` is the input of that name."""

_KERNELS: dict[str, dict[str, str]] = {
    "linear": {
        "x": "({g} ∘ act') @ {weight}", "weight": "({g} ∘ act')ᵀ @ {x}",
        "bias": "Σ rows of ({g} ∘ act')", "residual": "{g}",
    },
    "layer_norm": {
        "x": "(u - c · mean(u∘c)/σ² - mean(u)) / σ, u = {g} ∘ {weight}, c = {x} - μ",
        "weight": "Σ rows of {g} ∘ ({x} - μ)/σ", "bias": "Σ rows of {g}",
    },
    "rms_norm": {
        "x": "(u - {x} · mean(u∘{x})/rms²)/rms, u = {g} ∘ {weight}",
        "weight": "Σ rows of {g} ∘ {x}/rms",
    },
    "rotary": {"x": "pairs of {g} turned back"},
    "cross_entropy": {"logits": "{g} · (softmax({logits}) - onehot(target)) / n"},
    "embedding_rows": {"g": "rows of {g} read at the ids"},
    "embedding": {"weight": "rows of {g} added up at their ids"},
    "gelu": {"a": "{g} · (Φ({a}) + {a} · φ({a}))"},
    "softmax": {"a": "{out} ∘ ({g} - Σ {g} ∘ {out})"},
    "log_softmax": {"a": "{g} - softmax({a}) · Σ {g}"},
    "logsumexp": {"a": "{g} · softmax({a})"},
    "attention": {
        "q": "dS @ {k}/√d, dS = A ∘ (dA - rowsum(dA ∘ A)), dA = {g} @ {v}ᵀ",
        "k": "dSᵀ @ {q}/√d, dS = A ∘ (dA - rowsum(dA ∘ A)), dA = {g} @ {v}ᵀ",
        "v": "Aᵀ @ {g}", "mask": "dS = A ∘ (dA - rowsum(dA ∘ A)), dA = {g} @ {v}ᵀ",
    },
    "packed_attention": {
        "qkv": "dQ = dS K/√d, dK = dSᵀ Q/√d, dV = Aᵀ {g}, side by side",
        "mask": "dS = A ∘ (dA - rowsum(dA ∘ A)), dA = {g} Vᵀ",
    },
    "max": {"a": "{g} where {a} is the largest, shared among equals"},
    "min": {"a": "{g} where {a} is the least, shared among equals"},
    "norm": {"a": "{g} · sign({a}) · (|{a}| / {out})^(p - 1)"},
    "std": {"a": "{g} · ({a} - mean({a})) / (n · {out})"},
    "prod": {"a": "{g} · product of the others"},
    "cumprod": {"a": "Σ over later ones of {g} · product of the others so far"},
    "concatenate": {"arrays": "its piece of {g}"},
    "stack": {"arrays": "its slice of {g}"},
    "einsum": {"arrays": "einsum of {g} and the other operands"},
    "cofactors": {"a": "the second derivative of det {a}, on {g}"},
    "cholesky": {"a": "L⁻ᵀ Φ(Lᵀ {g}) L⁻¹, Φ halves the diagonal of the lower half, L = {out}"},
    "eigh": {"a": "V (diag({g} of w) + (Vᵀ {g} of V) / (w_j - w_i)) Vᵀ"},
    "svd": {"a": "U (diag({g} of s) + what turns U and V) Vᵀ"},
    "qr": {"a": "({g} of Q + Q · sym(M)) R⁻ᵀ, M = R ({g} of R)ᵀ - ({g} of Q)ᵀ Q"},
}
"""What the rules of fused operations and of those with many cases compute, by operation and
input."""


@dataclass(frozen=True, slots=True)
class Formula:
    """A contribution to the gradient of one input, in words.

    Attributes:
        names: in names, such as "∂L/∂e · b".
        numbers: the same in numbers, such as "-2.0 × -3.0", where all are scalars; else "".
        shapes: the same with the shape of each factor, such as "∂L/∂e(3, 4) @ b(2, 4)ᵀ", for
            arrays; else "".
        local: the local derivative alone, such as "b"; "" where there is none (a product of
            matrices has no elementwise one).
    """

    names: str
    numbers: str = ""
    shapes: str = ""
    local: str = ""


def of_use(node: Any, slot: int, upstream: Any, name: Callable[[Any], str], loss: str) -> Formula:
    """The formula for what `node` hands to its input number `slot`.

    Args:
        node: a `Value` or a `Tensor` that an operation made.
        slot: which of `node.inputs`.
        upstream: the gradient that arrived at `node`.
        name: gives the name of a node.
        loss: the name of what is differentiated, the L in "∂L/∂e".
    """
    arriving = f"∂{loss}/∂{name(node)}"
    primitive, args, params = _parts(node)
    if primitive is None:
        return Formula(f"{arriving} · {facts.op_name(node)}'")
    at = _position(node, slot)
    if primitive.kind == "elementwise":
        return _elementwise(primitive, node, at, args, params, upstream, name, arriving)
    return _carried(primitive, node, at, args, params, upstream, name, arriving)


def _parts(node: Any) -> tuple[Primitive | None, list[Any], dict[str, Any]]:
    """(primitive, inputs by position, parameters) of a `Value` or a `Tensor`."""
    if isinstance(node, Tensor):
        return node.op, list(node._args), dict(node._params)
    op: str = node.op
    inputs = list(node.inputs)
    if op.startswith("**") and op != "**":
        return registry["power_constant"], inputs, {"exponent": float(op[2:])}
    params = {"low": None, "high": None} if op == "clip" else {}
    return registry.get(_OF_VALUE.get(op, op)), inputs, params


def _position(node: Any, slot: int) -> int:
    """The position among the primitive's inputs of what is input number `slot` of the node."""
    if not isinstance(node, Tensor) or node.op.kind != "joint":
        return slot
    present = [i for i, x in enumerate(node._args) if x is not ABSENT]
    return present[slot]


def _elementwise(
    primitive: Primitive, node: Any, at: int, args: list[Any], params: dict[str, Any],
    upstream: Any, name: Callable[[Any], str], arriving: str,
) -> Formula:  # fmt: skip
    rule = primitive.rules[at]
    scalar = facts.is_scalar(node) and all(facts.is_scalar(x) for x in args)
    g = facts.number(facts.host(upstream)) if scalar else ""
    if rule is None:
        return Formula("0", "0" if scalar else "", local="0")
    if isinstance(rule, (int, float)):
        local = f"{rule:g}"
        if rule == 1:
            return Formula(arriving, g, local=local)
        signed = f"-{arriving}" if rule == -1 else f"{arriving} · {local}"
        return Formula(signed, f"{g} × {facts.number(rule)}" if scalar else "", local=local)
    cases = _AS_CASES.get(primitive.name)
    if cases is not None:
        local = cases[at].format(out=name(node), **_called(primitive, args, name), **params)
        factor = f"({local})"
    else:
        term = _run(rule, primitive, node, at, args, params, upstream, name, arriving)
        local = term.text
        plain = term.level >= 2 and "/" not in local and not local.startswith("-")
        factor = local if plain else f"({local})"
    value = _local_number(node, at, rule, primitive, args, params) if scalar else ""
    return Formula(f"{arriving} · {factor}", f"{g} × {value}" if scalar else "", local=local)


def _local_number(
    node: Any, at: int, rule: BoundRule, primitive: Primitive, args: list[Any],
    params: dict[str, Any],
) -> str:  # fmt: skip
    if not isinstance(node, Tensor):
        return facts.number(node.local_derivatives[at])
    term = _run(rule, primitive, node, at, args, params, np.ones(()), lambda x: "x", "g")
    return facts.number(term.value)


def _carried(
    primitive: Primitive, node: Any, at: int, args: list[Any], params: dict[str, Any],
    upstream: Any, name: Callable[[Any], str], arriving: str,
) -> Formula:  # fmt: skip
    """Linear and joint operations: the rule gives the contribution as a whole."""
    which = primitive.inputs[0 if primitive.variadic else at]
    called = _called(primitive, args, name)
    cases = _AS_CASES.get(primitive.name)
    if cases is not None:
        return Formula(cases[at].format(**{**called, "g": arriving}))
    words = _KERNELS.get(primitive.name, {}).get(which)
    if words is not None:
        if params.get("activation", "") is None:
            words = words.replace("({g} ∘ act')", "{g}")
        # All but the last axis of a linear layer's input are rows to the gradient of its weight.
        rows = primitive.name == "linear" and which == "weight"
        return _of_kernel(words, primitive, node, args, name, arriving, rows)
    rule = primitive.rules[at] if primitive.kind == "linear" else primitive.joint_rule
    if not isinstance(rule, BoundRule):
        return Formula("0")
    if primitive.variadic or rule.uses_saved:
        return Formula(f"{primitive.name}'s rule on {arriving}")
    term = _run(rule, primitive, node, at, args, params, upstream, name, arriving)

    def with_shape(x: Any) -> str:
        return f"{name(x)}{_shape(facts.shape_of(x))}"

    own = f"{arriving}{_shape(facts.shape_of(node))}"
    sized = _run(rule, primitive, node, at, args, params, upstream, with_shape, own)
    return Formula(term.text, shapes=sized.text)


def _of_kernel(
    words: str, primitive: Primitive, node: Any, args: list[Any], name: Callable[[Any], str],
    arriving: str, rows: bool,
) -> Formula:  # fmt: skip
    """A kernel's formula, and the same with the shape of each factor."""

    def with_shape(x: Any) -> str:
        return f"{name(x)}{_shape(facts.shape_of(x), rows)}"

    text = words.format(**{**_called(primitive, args, name), "g": arriving, "out": name(node)})
    own = f"{arriving}{_shape(facts.shape_of(node), rows)}"
    sized = {**_called(primitive, args, with_shape), "g": own, "out": with_shape(node)}
    return Formula(text, shapes=words.format(**sized))


def _shape(shape: tuple[int, ...], rows: bool = False) -> str:
    if rows:
        shape = (math.prod(shape[:-1]), shape[-1])
    return "(" + ", ".join(map(str, shape)) + ")"


def _called(primitive: Primitive, args: list[Any], name: Callable[[Any], str]) -> dict[str, str]:
    """Names of the inputs by the parameter that they are."""
    found = {}
    for which, x in zip(primitive.inputs, args, strict=False):
        found[which] = "1" if x is ABSENT else name(x)
    return found


def _run(
    rule: BoundRule, primitive: Primitive, node: Any, at: int, args: list[Any],
    params: dict[str, Any], upstream: Any, name: Callable[[Any], str], arriving: str,
) -> Term:  # fmt: skip
    """The rule on words, for the input at a position."""
    code = rule.rule.__code__
    given: dict[str, Any] = {}
    for parameter in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        if parameter == "F":
            given[parameter] = Symbols()
        elif parameter == "g":
            given[parameter] = Term(arriving, facts.host(upstream))
        elif parameter == "need":
            given[parameter] = tuple(i == at for i in range(len(args)))
        elif parameter == "out":
            given[parameter] = Term(name(node), facts.host(node.data))
        elif parameter in primitive.inputs:
            x = args[primitive.inputs.index(parameter)]
            given[parameter] = Term(name(x), facts.host(x.data))
        elif parameter.endswith("_shape"):
            given[parameter] = facts.shape_of(args[primitive.inputs.index(parameter[:-6])])
        else:
            given[parameter] = params.get(parameter)
    unreadable = Term(f"{primitive.name}'(…)", 0.0)
    try:
        with np.errstate(all="ignore"):
            made = rule.rule(**given)
    except (Unreadable, TypeError, AttributeError, ValueError):
        return unreadable
    if isinstance(made, (tuple, list)):  # of a joint rule, all inputs at once
        made = made[at]
    if not isinstance(made, Term):
        made = Term(facts.number(made), made) if np.ndim(made) == 0 else unreadable
    if len(made.text) > _LONGEST:
        return Term(f"{primitive.name}'(…)", made.value)
    return made
