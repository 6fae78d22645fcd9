"""Applying a primitive to tensors: compute now, and remember how.

This runs on every operation, so it is written to be short at run time: a rule's needs were resolved
when the primitive was registered, and a source line is noted as two pointers.
"""

from __future__ import annotations

import zlib
from typing import Any, NoReturn

import numpy as np

from tinygrad_edu import backend
from tinygrad_edu.autograd import origin
from tinygrad_edu.autograd.modes import state
from tinygrad_edu.autograd.tensor import Tensor, as_array, is_floating
from tinygrad_edu.autograd.writes import clock
from tinygrad_edu.errors import AnomalyError, DeviceError, DTypeError, ShapeError
from tinygrad_edu.ops.registry import BoundRule, Primitive

_ndarray = np.ndarray
_numpy = backend.NUMPY
_new = object.__new__
_no_params: dict[str, Any] = {}


def _absent() -> Tensor:
    out = Tensor(np.zeros(()))  # of NumPy, so that importing asks no backend
    out._data = None
    return out


# Stands for an optional input that was not given (a layer norm without bias).
ABSENT = _absent()


def apply(primitive: Primitive, *args: Any, **params: Any) -> Tensor:
    """The result of `primitive` on `args` (tensors, arrays, numbers, or None where optional).

    Raises:
        ShapeError: shapes that do not fit, with both shapes and the user's line.
        DeviceError: arrays of two libraries.
    """
    if primitive.reference is not None and not state.fused:
        from tinygrad_edu.autograd.twin import TWIN

        return as_tensor(primitive.reference(TWIN, *args, **params))
    arrays = []
    F: Any = _numpy
    for x in args:
        if not isinstance(x, Tensor) or x._data.__class__ is not _ndarray:
            args = _as_inputs(args)
            arrays = [x._data for x in args]
            F = _common_namespace(primitive, args)
            break
        arrays.append(x._data)
    saved = None
    try:
        if primitive.saves:
            data, saved = primitive.forward(F, *arrays, **params)
        else:
            data = primitive.forward(F, *arrays, **params)
    except (ValueError, IndexError) as error:
        _explain(primitive, args, params, error)
    tracked = tuple([x for x in args if x.requires_grad]) if state.grad else ()
    return _result(F, primitive, data, args, tracked, params, saved)


def apply_unary(primitive: Primitive, a: Any) -> Tensor:
    """`apply` for one input and no parameters, where nothing is fused: the short way."""
    if a.__class__ is not Tensor or a._data.__class__ is not _ndarray:
        return apply(primitive, a)
    args = (a,)
    data = primitive.forward(_numpy, a._data)
    tracked = args if a.requires_grad and state.grad else ()
    return _result(_numpy, primitive, data, args, tracked, _no_params, None)


def apply_binary(primitive: Primitive, a: Any, b: Any) -> Tensor:
    """`apply` for two inputs and no parameters, where nothing is fused: the short way."""
    if a.__class__ is not Tensor or b.__class__ is not Tensor:
        return apply(primitive, a, b)
    left, right = a._data, b._data
    if left.__class__ is not _ndarray or right.__class__ is not _ndarray:
        return apply(primitive, a, b)
    args = (a, b)
    try:
        data = primitive.forward(_numpy, left, right)
    except ValueError as error:
        _explain(primitive, args, _no_params, error)
    tracked: tuple[Tensor, ...] = ()
    if state.grad:
        if a.requires_grad:
            tracked = args if b.requires_grad else (a,)
        elif b.requires_grad:
            tracked = (b,)
    return _result(_numpy, primitive, data, args, tracked, _no_params, None)


def _result(
    F: Any,
    primitive: Primitive,
    data: Any,
    args: tuple[Tensor, ...],
    tracked: tuple[Tensor, ...],
    params: dict[str, Any],
    saved: Any,
) -> Tensor:
    """A tensor of `data`, and the node of it where some input is tracked."""
    out: Tensor = _new(Tensor)
    out._data = data if data.__class__ is _ndarray else F.asarray(data)
    out.name = out._grad = out._hooks = out._fingerprint = None
    out._freed = False
    out._replaced = 0
    out._stamp = clock[0]
    out._tracked = tracked
    if tracked:
        out.requires_grad = True
        out.op = primitive
        out._args = args
        out.inputs = args if primitive.kind != "joint" else _present(args)
        out._params = params
        out._saved = saved
        # Two plain slots and no tuple: what the garbage collector does not see costs it nothing.
        frame = origin.here()
        out._code = frame.f_code
        out._offset = frame.f_lasti
        out.module = state.module
    else:
        out.requires_grad = False
        out.op = out._saved = out._code = None
        out.inputs = out._args = ()
        out._params = _no_params
        out.module = ""
    if state.anomaly:
        _check_forward(primitive, args, out)
    return out


def _present(args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple([x for x in args if x is not ABSENT])


def as_tensor(x: Any) -> Tensor:
    """`x` itself if it is a tensor, else an untracked tensor of it."""
    return x if isinstance(x, Tensor) else Tensor(x)


def _as_inputs(args: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Arguments as tensors; Python numbers take the dtype of the others, as in NumPy."""
    like = [x for x in args if isinstance(x, Tensor)]
    return tuple(
        [
            x if isinstance(x, Tensor) else ABSENT if x is None else _constant(x, like)
            for x in args
        ]
    )


def _constant(x: Any, like: list[Tensor]) -> Tensor:
    if isinstance(x, (bool, int, float)) and like:
        F = backend.namespace_of(like[0]._data) if like[0] is not ABSENT else _numpy
        if len(like) == 1 and type(x) is not bool and is_floating(like[0]._data.dtype):
            dtype = like[0]._data.dtype
        else:
            dtype = np.result_type(*[t._data.dtype for t in like if t is not ABSENT], x)
        return Tensor(F.asarray(x, dtype=dtype))
    if isinstance(x, complex):
        raise DTypeError(f"got the complex number {x}; the engine computes with real numbers")
    if isinstance(x, (list, tuple)) and like:
        # A list has no dtype of its own: like Python's numbers, it takes the others'.
        kind = np.asarray(x).dtype.kind
        weak = {"i": 0, "f": 0.0}.get(kind)
        known = [t._data.dtype for t in like if t is not ABSENT]
        if weak is not None and known:
            one = len(known) == 1 and is_floating(known[0])
            return Tensor(as_array(x, known[0] if one else np.result_type(*known, weak)))
    return Tensor(as_array(x))


def _common_namespace(primitive: Primitive, args: tuple[Tensor, ...]) -> Any:
    found = None
    for x in args:
        if x is ABSENT:
            continue
        F = backend.namespace_of(x._data)
        if found is None:
            found, first = F, x
        elif F is not found:
            raise DeviceError(
                f"{primitive.name} was given {first.label()} on {first.device} and {x.label()} on "
                f"{x.device}; move one with .to({first.device!r})"
            )
    return found if found is not None else _numpy


def _explain(
    primitive: Primitive, args: tuple[Tensor, ...], params: dict[str, Any], error: Exception
) -> NoReturn:
    """Raise what NumPy found wrong in words of ours: operation, names, shapes, the user's line."""
    given = " and ".join(
        f"{x.name or 'shape'} {x.shape}" if x.name else str(x.shape)
        for x in args
        if x is not ABSENT
    )
    place = origin.current_line()
    about_shapes = ("shape", "dimension", "broadcast", "axes", "axis", "size", "array split")
    if isinstance(error, np.linalg.LinAlgError):
        message = f"{primitive.name} on {given} at {place}: {error}"
        raise np.linalg.LinAlgError(message) from error
    if isinstance(error, ValueError) and not any(word in str(error) for word in about_shapes):
        raise ValueError(f"{primitive.name} on {given} at {place}: {error}") from error
    if isinstance(error, IndexError):
        raise IndexError(f"{primitive.name} on {given} at {place}: {error}") from error
    hint = ""
    if primitive.name == "matmul":
        hint = "; the last axis of the first has to equal the last but one of the second"
    elif primitive.broadcasts:
        hint = "; shapes are compared from the right, and axes have to be equal or 1"
    detail = f" ({', '.join(f'{k}={v}' for k, v in params.items())})" if params else ""
    raise ShapeError(
        f"{primitive.name} cannot take shapes {given}{detail} at {place}{hint} [{error}]"
    ) from error


def _check_forward(primitive: Primitive, args: tuple[Tensor, ...], out: Tensor) -> None:
    """Under `detect_anomaly()`: the first NaN or inf, and fingerprints against silent writes."""
    if not _finite(out):
        given = [x for x in args if x is not ABSENT]
        kind = "NaN" if _has_nan(out) else "inf"
        # inf may be meant, as in a mask, and goes on; NaN never is.
        ill = [x for x in given if (_has_nan(x) if kind == "NaN" else not _finite(x))]
        place = f"at {origin.current_line()}"
        if state.module:
            place += f", in module {state.module}"
        what = f"{primitive.name} ({primitive.formula})"
        if not ill:
            raise AnomalyError(
                f"{what} made the first {kind} of the forward pass, from inputs of shape "
                f"{', '.join([str(x.shape) for x in given])} without, {place}"
            )
        if kind == "NaN" and all(x.is_leaf for x in ill):
            raise AnomalyError(
                f"{what} was given {kind} in {ill[0].label()} of shape {ill[0].shape}, {place}"
            )
    if out.op is not None:
        out._fingerprint = fingerprints(out)


def _finite(x: Tensor) -> bool:
    return x._data.dtype.kind != "f" or bool(x._namespace.isfinite(x._data).all())


def _has_nan(x: Tensor) -> bool:
    return x._data.dtype.kind == "f" and bool(x._namespace.isnan(x._data).any())


def fingerprints(node: Tensor) -> dict[int, int]:
    """Checksums of the data that the node's rule names, by `id`."""
    kept = [*guarded(node), *guarded(node, rerun=True)]
    return {id(x): _checksum(x) for x in kept}


def _checksum(x: Tensor) -> int:
    host = np.ascontiguousarray(x._namespace.to_numpy(x._data))
    return zlib.crc32(host.tobytes())


def guarded(node: Tensor, rerun: bool = False) -> list[Tensor]:
    """The tensors whose data the node's rule names: what is kept and must not change.

    `rerun`: the pass differentiates again or pushes a tangent, so that a kernel with saved state
    runs through its reference, which reads every input.
    """
    op: Primitive = node.op
    args = node._args
    if rerun and op.saves:
        return [x for x in args if x is not ABSENT]
    uses, uses_out = op.uses_inputs, op.uses_out
    if op.variadic:
        uses = frozenset(range(len(args)))
    elif op.joint_rule is None:
        # The rule of an input that nothing tracks does not run: x * 2 needs 2, and not x.
        tracked = {id(x) for x in node._tracked}
        run = [
            rule
            for x, rule in zip(args, op.rules, strict=True)
            if id(x) in tracked and isinstance(rule, BoundRule)
        ]
        uses = frozenset([i for rule in run for i in rule.uses_inputs])
        uses_out = any(rule.uses_out for rule in run)
    found = [args[i] for i in sorted(uses) if i < len(args) and args[i] is not ABSENT]
    return [*found, node] if uses_out else found
