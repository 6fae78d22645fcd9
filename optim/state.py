"""An optimizer's `state_dict` and `load_state_dict`, in PyTorch's layout: check everything, then
take it over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tinygrad_edu.autograd import Tensor
from tinygrad_edu.backend import is_array, namespace_of

if TYPE_CHECKING:
    from tinygrad_edu.optim.optimizer import Optimizer

__all__ = ["dump_state", "load_state"]


def dump_state(optimizer: Optimizer) -> dict[str, Any]:
    """Options and state with parameters numbered through the groups; the arrays are shared."""
    groups = []
    start = 0
    for group in optimizer.param_groups:
        numbers = list(range(start, start + len(group["params"])))
        groups.append({**group, "params": numbers})
        start += len(numbers)
    state = {
        number: dict(optimizer.state[parameter])
        for number, parameter in enumerate(_parameters(optimizer))
        if parameter in optimizer.state
    }
    return {"state": state, "param_groups": groups}


def load_state(optimizer: Optimizer, saved: Mapping[str, Any]) -> None:
    """Take over what `dump_state` made, copying arrays; ValueError, and nothing changed, where it
    does not fit.
    """
    owner = type(optimizer).__name__
    if not {"state", "param_groups"} <= set(saved):
        raise ValueError(
            f"{owner}.load_state_dict was given keys {', '.join(map(str, saved))}, expected "
            "'state' and 'param_groups', as state_dict() returns."
        )
    groups = _checked_groups(optimizer, saved["param_groups"])
    parameters = _parameters(optimizer)
    names = [
        optimizer.slots_of({**group, **options})
        for group, options in zip(optimizer.param_groups, groups, strict=True)
        for _ in group["params"]
    ]
    state = {}
    for number, entry in saved["state"].items():
        index = int(number)  # JSON makes text of the numbers
        if not 0 <= index < len(parameters):
            raise ValueError(
                f"{owner}.load_state_dict has state for parameter {index}, expected 0 to "
                f"{len(parameters) - 1}."
            )
        parameter = parameters[index]
        state[parameter] = _checked_entry(owner, index, parameter, entry)
        gone = set(names[index]) - set(state[parameter])
        if gone:
            raise ValueError(
                f"{owner}.load_state_dict lacks {', '.join(sorted(gone))} of parameter {index}; it "
                f"has {', '.join(map(str, entry))}."
            )
    for group, options in zip(optimizer.param_groups, groups, strict=True):
        group.update(options)
    optimizer.state = state


def _parameters(optimizer: Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _checked_groups(optimizer: Optimizer, saved: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The options of each saved group, without its parameters."""
    owner = type(optimizer).__name__
    counts = [len(group["params"]) for group in saved]
    own = [len(group["params"]) for group in optimizer.param_groups]
    if counts != own:
        raise ValueError(
            f"{owner}.load_state_dict was given groups of {counts} parameters, expected {own}: "
            "build the optimizer as it was when the state was saved."
        )
    result = []
    for group in saved:
        options = {name: value for name, value in group.items() if name != "params"}
        if set(options) != set(optimizer.defaults):
            odd = sorted(set(options) ^ set(optimizer.defaults))
            raise ValueError(
                f"{owner}.load_state_dict was given other options than {owner} has: "
                f"{', '.join(odd)} is not in both. The state may be another optimizer's."
            )
        if isinstance(options.get("betas"), list):
            options["betas"] = tuple(options["betas"])
        optimizer.check_options(options)
        result.append(options)
    return result


def _checked_entry(
    owner: str, index: int, parameter: Tensor, entry: Mapping[str, Any]
) -> dict[str, Any]:
    """A copy of one parameter's state, in the parameter's library and dtype."""
    weight = parameter.data
    xp = namespace_of(weight).xp
    result: dict[str, Any] = {"step": int(entry["step"])}
    for name, value in entry.items():
        if name == "step":
            continue
        raw = value.data if isinstance(value, Tensor) else value
        if not is_array(raw) or tuple(raw.shape) != tuple(weight.shape):
            given = tuple(raw.shape) if is_array(raw) else type(raw).__name__
            raise ValueError(
                f"{owner}.load_state_dict has {name} of parameter {index} with shape {given}, "
                f"expected {tuple(weight.shape)}."
            )
        if namespace_of(raw) is not namespace_of(weight):
            raw = namespace_of(raw).to_numpy(raw)
        result[name] = xp.array(raw, dtype=weight.dtype)
    return result
