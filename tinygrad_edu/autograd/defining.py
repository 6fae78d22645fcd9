"""`primitive`: an operation of the reader's own, in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tinygrad_edu import backend
from tinygrad_edu.autograd.apply import apply
from tinygrad_edu.autograd.tensor import Tensor
from tinygrad_edu.autograd.twin import TWIN
from tinygrad_edu.ops.registry import elementwise, joint, linear, registry

_own: set[str] = set()


def primitive(
    name: str,
    forward: Callable[..., Any],
    *,
    partials: Sequence[Any] | None = None,
    transposes: Sequence[Any] | None = None,
    vjp: Callable[..., Any] | None = None,
    formula: str = "",
    **facts: Any,
) -> Callable[..., Tensor]:
    """A function of tensors with a rule of your own, which is drawn, stepped through, tested and
    differentiated (twice, too) as the built-in ones are.

        cube = tg.primitive("cube", lambda F, x: x * x * x, partials=[lambda x: 3 * x * x])

    `forward(F, *inputs, *, parameters)` gets arrays; `F` has NumPy's functions. Then one of

    * `partials`: of an elementwise function, for each input its local derivative (a rule, a number,
      or None where nothing flows), with which the engine multiplies what arrives;
    * `transposes`: of a linear function, for each input the transpose applied to `g`;
    * `vjp`: of any function, one rule that returns a gradient for each input.

    A rule's argument names say what it needs: `F`, `g` (what arrives), `out`, an input by its name,
    or an input's shape as `NAME_shape`, a parameter by its name. It is written with `F`, operators
    and slices, so that it runs on tensors too when it is itself differentiated.

    The name is unique, but one of your own may be defined again, as a notebook does. `formula` is a
    line for drawings and tables. Further facts are `domain` (an interval an input, for tests),
    `kinks` (lines on delicate points), `analytic`, `degree`, `reference`, `jvp`: see
    `ops.registry.Primitive`.

    Raises:
        ValueError: a built-in name, not exactly one of the three, as many rules as inputs, or a
            rule that names something unknown.
    """
    given = [what for what in (partials, transposes, vjp) if what is not None]
    if len(given) != 1:
        raise ValueError(
            f"primitive {name!r} needs exactly one of partials, transposes and vjp; got "
            f"{len(given)}"
        )
    if name in _own:
        _forget(name)
    register: Any = elementwise if partials is not None else linear
    if vjp is not None:
        made = joint(name, formula or name, forward=forward, vjp=vjp, **facts)
    else:
        word = "partials" if partials is not None else "transposes"
        made = register(name, formula or name, forward=forward, **{word: given[0]}, **facts)
        if len(made.inputs) != len(made.rules):
            _forget(name)
            raise ValueError(
                f"primitive {name!r} has {len(made.inputs)} inputs ({', '.join(made.inputs)}) and "
                f"{len(made.rules)} {word}; one an input is needed"
            )
    _own.add(name)
    defaults = forward.__kwdefaults__ or {}

    def function(*args: Any, **params: Any) -> Tensor:
        return apply(made, *args, **{**defaults, **params})

    function.__name__ = function.__qualname__ = name
    function.__doc__ = formula or forward.__doc__
    function.primitive = made  # type: ignore[attr-defined]
    return function


def _forget(name: str) -> None:
    """Take a primitive out, and what namespaces have kept of it."""
    registry.pop(name, None)
    _own.discard(name)
    for namespace in (TWIN, backend.NUMPY):
        namespace.__dict__.pop(name, None)
