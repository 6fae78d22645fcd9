"""What a primitive is: one table entry that computes, differentiates, draws and tests itself.

Three kinds, by what their rule is:

* *elementwise*: one local derivative an input. The engine multiplies it with what arrives.
* *linear* (in an input): the rule is its transpose, itself made of primitives.
* *joint*: one function returns all gradients, often from state the forward pass saved.

A rule is an ordinary function whose parameter names say what it needs: `F` (the array namespace),
`g` (the upstream gradient), `out`, `saved`, `need` (which inputs want a gradient), an input or a
parameter of the operation by its name, or an input's shape as `NAME_shape`. What a rule names is
what is kept and guarded against mutation, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tinygrad_edu import backend

Rule = Callable[..., Any]
Partial = Rule | int | float | None
# Called as bound(F, inputs, node, params, g, need): see `_bind`.
Bound = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class BoundRule:
    """A rule with its parameters resolved: once for raw arrays, once for tensors."""

    rule: Rule
    raw: Bound
    twin: Bound
    raw_text: str
    uses_inputs: tuple[int, ...]
    uses_out: bool
    uses_saved: bool


@dataclass(slots=True, eq=False)
class Primitive:
    """One operation: its forward function, its gradient rules and what is known about it.

    Attributes:
        name: the registry name, NumPy's where NumPy has the operation.
        formula: one line for people, used by drawings, the stepper and the documentation.
        kind: "elementwise", "linear" or "joint".
        forward: `forward(F, *inputs, **params)`; a joint one that saves returns (out, saved).
        inputs: names of the inputs; `variadic` operations take any number of the last one.
        rules: one bound rule, number or None an input (elementwise, linear), or one (joint).
        reference: a composition of other primitives that defines a fused one.
        jvp: `jvp(F, tangents, *inputs, out=, **params)` where no other way to push a tangent is
        right.
        domain: per input, the interval in which tests draw.
        kinks: what happens at kinks and singular points, in words; each line is a test.
        analytic: the forward function is complex analytic on its domain (complex step applies).
        degree: polynomial degree in each input, where it is one (finite differences are then
        exact).
        broadcasts: inputs broadcast, and the engine sums what was broadcast.
        pull: the compiled backward step, made on first use (`autograd.pull`).
    """

    name: str
    formula: str
    kind: str
    forward: Callable[..., Any]
    inputs: tuple[str, ...]
    params: tuple[str, ...]
    rules: tuple[BoundRule | int | float | None, ...] = ()
    joint_rule: BoundRule | None = None
    reference: Callable[..., Any] | None = None
    jvp: Callable[..., Any] | None = None
    domain: tuple[tuple[float, float], ...] = ()
    kinks: tuple[str, ...] = ()
    analytic: bool = False
    degree: int | None = None
    broadcasts: bool = False
    variadic: bool = False
    jointly: bool = True
    saves: bool = False
    uses_out: bool = False
    uses_inputs: frozenset[int] = field(default_factory=frozenset)
    pull: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        return f"<primitive {self.name}: {self.formula}>"


registry: dict[str, Primitive] = {}


def elementwise(
    name: str,
    formula: str,
    *,
    forward: Callable[..., Any],
    partials: Sequence[Partial],
    **facts: Any,
) -> Primitive:
    """Register an elementwise primitive.

    `partials` holds, for each input, its local derivative: a rule, a number where it is constant,
    or None where nothing flows.
    """
    return _register(name, formula, "elementwise", forward, partials, broadcasts=True, **facts)


def linear(
    name: str,
    formula: str,
    *,
    forward: Callable[..., Any],
    transposes: Sequence[Rule | None],
    jointly: bool = True,
    **facts: Any,
) -> Primitive:
    """Register a primitive that is linear in the inputs that have a transpose.

    `jointly`: linear in those inputs taken together (`where`), so that a tangent is the operation
    on
    the tangents; False: in each apart (`matmul`), so that it is a sum with one replaced at a time.
    """
    return _register(name, formula, "linear", forward, transposes, jointly=jointly, **facts)


def joint(
    name: str,
    formula: str,
    *,
    forward: Callable[..., Any],
    vjp: Rule,
    reference: Callable[..., Any] | None = None,
    **facts: Any,
) -> Primitive:
    """Register a primitive whose one rule `vjp` returns a gradient (or None) for each input.

    A `vjp` that does not name `saved` is written in `F` throughout and is differentiated as it
    stands; one that does is a kernel, and needs a `reference` to be differentiated again.
    """
    primitive = _register(name, formula, "joint", forward, (), reference=reference, **facts)
    rule = _bind(vjp, primitive)
    primitive.joint_rule = rule
    primitive.saves = rule.uses_saved
    primitive.uses_out = rule.uses_out
    primitive.uses_inputs = frozenset(rule.uses_inputs)
    if rule.uses_saved and reference is None:
        raise ValueError(f"primitive {name!r}: a vjp that uses saved state needs a reference")
    return primitive


def _register(
    name: str,
    formula: str,
    kind: str,
    forward: Callable[..., Any],
    rules: Sequence[Partial],
    listed: bool = True,
    **facts: Any,
) -> Primitive:
    if name in registry:
        raise ValueError(f"there is a primitive {name!r} already; names are unique")
    code = forward.__code__
    positional = code.co_varnames[1 : code.co_argcount]
    keyword = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    variadic = bool(code.co_flags & 0x04)
    if variadic:
        positional = (code.co_varnames[code.co_argcount + code.co_kwonlyargcount],)
    primitive = Primitive(
        name, formula, kind, forward, positional, keyword, variadic=variadic, **facts
    )
    bound = tuple(_bind(rule, primitive) if callable(rule) else rule for rule in rules)
    primitive.rules = bound
    used = [rule for rule in bound if isinstance(rule, BoundRule)]
    primitive.uses_out = any(rule.uses_out for rule in used)
    primitive.uses_inputs = frozenset(i for rule in used for i in rule.uses_inputs)
    if listed:  # all but one whose parameters only its public function can make
        registry[name] = primitive
        backend.register(name, _plain(primitive))
    return primitive


def _plain(primitive: Primitive) -> Callable[..., Any]:
    """The primitive as a function of an array namespace: what `F.name(...)` runs on raw arrays."""
    forward = primitive.forward

    def run(F: Any, *inputs: Any, **params: Any) -> Any:
        # A namespace of scalars (arrays of Value) has no kernels: it runs the reference.
        if getattr(F, "scalar", False) and primitive.reference is not None:
            return primitive.reference(F, *inputs, **params)
        out = forward(F, *inputs, **params)
        return out[0] if primitive.saves else out

    return run


_compiled: dict[str, Any] = {}


def _bind(rule: Rule, primitive: Primitive) -> BoundRule:
    """Resolve a rule's parameter names into a call, once for raw arrays and once for tensors.

    The call is compiled from its text, so that a rule costs one function call and no look-ups;
    rules with the same signature share one compilation.
    """
    code = rule.__code__
    raw: list[str] = []
    twin: list[str] = []
    uses: list[int] = []
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    for name in names:
        if name in ("F", "g", "need"):
            raw.append(name)
            twin.append(name)
        elif name == "out":
            raw.append("node._data")
            twin.append("node")
        elif name == "saved":
            raw.append("node._saved")
            twin.append("node._saved")
        elif name in primitive.inputs:
            if primitive.variadic:
                raw.append("[x._data for x in inputs]")
                twin.append("inputs")
            else:
                i = primitive.inputs.index(name)
                uses.append(i)
                raw.append(f"inputs[{i}]._data")
                twin.append(f"inputs[{i}]")
        elif name.endswith("_shape") and name[:-6] in primitive.inputs:
            text = (
                "[x._data.shape for x in inputs]"
                if primitive.variadic
                else f"inputs[{primitive.inputs.index(name[:-6])}]._data.shape"
            )
            raw.append(text)
            twin.append(text)
        elif name in primitive.params:
            raw.append(f"params[{name!r}]")
            twin.append(f"params[{name!r}]")
        else:
            raise ValueError(
                f"the rule of primitive {primitive.name!r} names {name!r}, which is neither an "
                f"input {primitive.inputs}, a parameter {primitive.params}, nor F, g, out, saved, "
                "need"
            )
    inline = ", ".join([re.sub(r"inputs\[(\d+)\]", r"x\1", text) for text in raw])
    calls = (_call(raw)(rule), _call(twin)(rule))
    return BoundRule(rule, *calls, inline, tuple(uses), "out" in names, "saved" in names)


def _call(arguments: list[str]) -> Any:
    text = ", ".join(arguments)
    if text not in _compiled:
        source = f"lambda rule: lambda F, inputs, node, params, g, need: rule({text})"
        _compiled[text] = eval(source, {})  # the text is made of the names checked in _bind
    return _compiled[text]
