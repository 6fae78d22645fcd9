"""`Optimizer`: parameter groups, their options, and the state an update rule keeps for each
parameter.

A rule (SGD, Adam) is one function that is given blocks of plain arrays and updates them in place.
This file cuts parameters into blocks that stay in the processor's cache while the dozen small
operations of an update go over them, and lends the rule scratch memory that is made once: a step
allocates nothing of a parameter's size.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tinygrad_edu.autograd import Tensor
from tinygrad_edu.autograd.modes import enable_grad
from tinygrad_edu.autograd.tensor import grad_array
from tinygrad_edu.backend import ArrayNamespace, namespace_of
from tinygrad_edu.optim.state import dump_state, load_state

__all__ = ["Optimizer"]

# Of each array: an update touches about six, which then fit in a second-level cache together.
BLOCK_BYTES = 1 << 17

Group = dict[str, Any]


class Optimizer:
    """Base class: `params` are tensors, or groups `{"params": tensors, "lr": …}` with options of
    their own.

    `param_groups` is a list of dictionaries; a schedule sets `group["lr"]`. `state[parameter]`
    holds what the rule remembers, as arrays, once the parameter has had a gradient.

    Raises:
        ValueError: no parameters, one of them twice, or an option outside its range.
        TypeError: something that is not a leaf tensor, or an option this optimizer has not.
    """

    def __init__(self, params: Iterable[Any], defaults: Mapping[str, Any]) -> None:
        self.defaults = dict(defaults)
        self.state: dict[Tensor, dict[str, Any]] = {}
        self.param_groups: list[Group] = []
        self._factors: dict[tuple[int, int, bool], Any] = {}  # of the step that is being made
        self._memory: dict[tuple[str, str], Any] = {}
        self._scratch: dict[tuple[Any, ...], tuple[Any, Any]] = {}
        if isinstance(params, Tensor):
            raise TypeError(
                f"{type(self).__name__} was given one tensor, expected several: write [parameter]."
            )
        given = list(params)
        if not given:
            raise ValueError(
                f"{type(self).__name__} was given no parameters: pass model.parameters() of a "
                "model that has some (an iterator that was used up gives none)."
            )
        groups = given if isinstance(given[0], Mapping) else [{"params": given}]
        for group in groups:
            self.add_param_group(group)

    # Groups.

    def add_param_group(self, param_group: Any) -> None:
        """Add parameters with options of their own; options left out are the optimizer's."""
        owner = type(self).__name__
        if not isinstance(param_group, Mapping) or "params" not in param_group:
            raise TypeError(
                f"{owner} was given a group {type(param_group).__name__}, expected a dictionary "
                "with 'params': either all parameters come in groups or none do."
            )
        given = param_group["params"]
        params = [given] if isinstance(given, Tensor) else list(given)
        group = {**self.defaults, **param_group, "params": params}
        for name in group:
            if name != "params" and name not in self.defaults:
                near = difflib.get_close_matches(name, self.defaults, n=1)
                hint = (
                    f"did you mean {near[0]!r}?" if near else f"it has {', '.join(self.defaults)}."
                )
                raise TypeError(f"{owner} has no option {name!r}: {hint}")
        self.check_options(group)
        self._check_params(params)
        self.param_groups.append(group)

    def _check_params(self, params: list[Any]) -> None:
        owner = type(self).__name__
        seen = {id(p) for group in self.param_groups for p in group["params"]}
        for index, parameter in enumerate(params):
            if not isinstance(parameter, Tensor):
                raise TypeError(
                    f"{owner} was given {type(parameter).__name__} as parameter {index}, expected "
                    "a Tensor (model.parameters(), not named_parameters())."
                )
            if not parameter.is_leaf:
                raise TypeError(
                    f"{owner} cannot move {_called(parameter, index)}: it was computed from other "
                    "tensors; give the leaf it comes from, or detach() it."
                )
            if id(parameter) in seen:
                raise ValueError(
                    f"{owner} was given {_called(parameter, index)} twice, and would move it twice "
                    "a step: name each parameter once."
                )
            seen.add(id(parameter))

    def check_options(self, group: Mapping[str, Any]) -> None:
        """Raise ValueError for an option outside its range; called for new groups and before each
        step.
        """
        for name in ("lr", "weight_decay"):
            self._require(
                0.0 <= group[name] < float("inf"), name, group[name], "at least 0 and finite"
            )

    def _require(self, fine: bool, name: str, value: Any, expected: str) -> None:
        if not fine:
            raise ValueError(
                f"{type(self).__name__} was given {name}={value!r}, expected {expected}."
            )

    # Stepping.

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients: None as before the first backward, or zeros."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter._grad is None:
                    continue
                zeros = namespace_of(parameter.data).xp.zeros_like
                parameter.grad = None if set_to_none else Tensor(zeros(parameter.data))

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Move every parameter that has a gradient; with `closure`, call it first and return its
        loss.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        moving = self.check()
        for parameter, group in moving:
            self.apply_update(*self.prepare(parameter, group))
            parameter._written()
        return loss

    # A step in its parts, for those who share it out among workers.

    def check(self) -> list[tuple[Tensor, Group]]:
        """The parameters that a step would move, with their groups.

        Raises:
            ValueError: an option out of range, or arrays that do not fit; nothing has moved then.
        """
        moving = [
            (parameter, group)
            for group in self.param_groups
            for parameter in group["params"]
            if parameter._grad is not None
        ]
        for group in self.param_groups:
            self.check_options(group)
        self._factors.clear()
        for parameter, _ in moving:  # all before any, so that a step that fails has moved nothing
            self._check_arrays(parameter)
        return moving

    def prepare(self, parameter: Tensor, group: Group) -> tuple[Any, list[Any]]:
        """Count the parameter's step, and give what `apply_update` needs: (factors, arrays)."""
        weight = parameter._data
        state = self.state.get(parameter)
        if state is None:
            state = self.state[parameter] = {"step": 0}
        fresh = False
        names = self.slots_of(group)
        for name in names:
            if name not in state:
                state[name] = namespace_of(weight).xp.zeros_like(weight)
                fresh = True
        state["step"] += 1
        arrays = [weight, grad_array(parameter), *[state[name] for name in names]]
        key = id(group), state["step"], fresh  # the same for most parameters of a group
        factors = self._factors.get(key)
        if factors is None:
            factors = self._factors[key] = self.factors(group, state["step"], fresh)
        return factors, arrays

    def apply_update(self, factors: Any, arrays: list[Any]) -> None:
        """Move a weight (the first array, then its gradient and slots) in place."""
        library = namespace_of(arrays[0])
        if arrays[0].nbytes <= BLOCK_BYTES:
            self.update(library.xp, factors, self._scratch_like(library, arrays[0]), *arrays)
            return
        for block in blocks(arrays, library.name == "numpy"):
            self.update(library.xp, factors, self._scratch_like(library, block[0]), *block)

    def _check_arrays(self, parameter: Tensor) -> None:
        """Raise ValueError unless gradient and state have the parameter's shape and dtype."""
        weight, gradient = parameter._data, grad_array(parameter)
        shape, dtype = weight.shape, weight.dtype
        kept = self.state.get(parameter, {})
        fits = gradient.shape == shape and gradient.dtype is dtype
        for name, array in kept.items():
            if name != "step" and (array.shape != shape or array.dtype is not dtype):
                fits = False
        if fits:  # as nearly always, and so quickly
            return
        for name, array in (("gradient", gradient), *kept.items()):
            if name != "step" and (array.shape != shape or array.dtype != dtype):
                raise ValueError(
                    f"{type(self).__name__} finds {_called(parameter)} with {weight.shape} "
                    f"{weight.dtype} and its {name} with {array.shape} {array.dtype}: make the "
                    "optimizer after model.to(...) and after changing shapes."
                )

    def _scratch_like(self, library: ArrayNamespace, block: Any) -> tuple[Any, Any]:
        """Two pieces of memory of the block's shape and dtype, lent at every call; what is in them
        is arbitrary.
        """
        key = (library.name, block.dtype.str, block.shape)
        pair = self._scratch.get(key)
        if pair is None:
            pair = self._scratch[key] = self._cut_scratch(library, block)
        return pair

    def _cut_scratch(self, library: ArrayNamespace, block: Any) -> tuple[Any, Any]:
        memory_key = (library.name, block.dtype.str)
        memory = self._memory.get(memory_key)
        if memory is None or memory.shape[1] < block.size:
            size = max(block.size, BLOCK_BYTES // block.dtype.itemsize)
            memory = self._memory[memory_key] = library.xp.empty((2, size), block.dtype)
            self._scratch = {
                key: pair for key, pair in self._scratch.items() if key[:2] != memory_key
            }
        first, second = memory[:, : block.size]
        return first.reshape(block.shape), second.reshape(block.shape)

    def slots_of(self, group: Group) -> tuple[str, ...]:
        """The names of the arrays that the rule keeps for a parameter under the group's options."""
        raise NotImplementedError

    def factors(self, group: Group, step: int, fresh: bool) -> Any:
        """The rule's numbers for a parameter's step (from 1); `fresh` where its arrays have just
        been made, as 0.
        """
        raise NotImplementedError

    def update(
        self,
        xp: Any,
        factors: Any,
        scratch: tuple[Any, Any],
        weight: Any,
        gradient: Any,
        *slots: Any,
    ) -> None:
        """Move `weight` and `slots` in place by one step; `gradient` is not written."""
        raise NotImplementedError

    # State.

    def state_dict(self) -> dict[str, Any]:
        """{"state": {number: {"step": n, name: array}}, "param_groups": options with numbers for
        parameters}.

        Parameters are numbered through the groups, as in PyTorch. The arrays are the optimizer's
        own: copy them to keep a moment of training.
        """
        return dump_state(self)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over options and state from `state_dict`, copying the arrays.

        Raises:
            ValueError: for other groups, counts or shapes than this optimizer's; nothing has been
                changed then.
        """
        load_state(self, state_dict)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_factors": {}, "_memory": {}, "_scratch": {}}

    def __repr__(self) -> str:
        lines = []
        for number, group in enumerate(self.param_groups):
            options = ", ".join(f"{k}={v!r}" for k, v in group.items() if k != "params")
            lines.append(f"  group {number}: {len(group['params'])} parameters, {options}")
        return f"{type(self).__name__}(\n" + "\n".join(lines) + "\n)"


def blocks(arrays: list[Any], cut: bool) -> Iterator[list[Any]]:
    """`arrays` of one shape, as lists of equal parts of at most BLOCK_BYTES where their layout
    allows it.

    A graphics card wants them whole (`cut` False). Contiguous arrays are cut flat, others along the
    first axis.
    """
    first = arrays[0]
    if not cut or first.nbytes <= BLOCK_BYTES:
        yield arrays
        return
    if all(a.flags.c_contiguous for a in arrays):
        arrays = [a.reshape(-1) for a in arrays]
    rows = len(arrays[0])
    height = max(1, BLOCK_BYTES * rows // first.nbytes)
    for start in range(0, rows, height):
        yield [a[start : start + height] for a in arrays]


def _called(parameter: Tensor, index: int | None = None) -> str:
    number = "a parameter" if index is None else f"parameter {index}"
    return (
        f"{number} ({parameter.name})"
        if parameter.name
        else f"{number} of shape {tuple(parameter.shape)}"
    )
