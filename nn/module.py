"""`Module`: a tree of parameters with a `forward`, as in PyTorch.

A module keeps what is assigned to it as ordinary attributes. Whatever is a `Parameter` or a
`Module` among them is found by looking through those attributes in the order they were made, so
there is no second table to keep in step. Calling a module runs its hooks and `forward`, and tells
the engine the module's dotted path (`GPT.blocks.0.attn`): every node made meanwhile carries it,
which is what drawings fold by and error messages name.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

import numpy as np

from tinygrad_edu.autograd import Tensor, modes
from tinygrad_edu.backend import namespace_of
from tinygrad_edu.nn.hooks import HookHandle
from tinygrad_edu.nn.parameter import Parameter
from tinygrad_edu.nn.state import LoadResult, is_floating, load_state, move, state_of
from tinygrad_edu.nn.tree import (
    check_name,
    members,
    own_buffers,
    own_children,
    own_parameters,
    walk,
)

__all__ = ["Module"]


class _Calls(threading.local):
    """In each thread, the paths of the modules below the outermost one being called, by id."""

    paths: dict[int, str]

    def __init__(self) -> None:
        self.paths = {}


_calls = _Calls()
_shape_of_trees = (
    0  # grows whenever any module gains or loses a child: paths cached before are stale
)


class Module:
    """Base class of everything with parameters; subclasses write `__init__` and `forward`.

    `training` is True until `eval()`; Dropout reads it.
    """

    training: bool = True

    def __init__(self) -> None:
        self._buffers: dict[str, bool] = {}
        self._forward_hooks: list[Callable[..., Any]] = []
        self._pre_hooks: list[Callable[..., Any]] = []
        self.training = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the module's output; every subclass writes its own."""
        raise NotImplementedError(
            f"{type(self).__name__} has no forward: write `def forward(self, x)` in the class."
        )

    # Attributes.

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Module) or isinstance(self.__dict__.get(name), Module):
            _trees_changed()
        elif isinstance(value, Parameter) and value.name is None:
            value.name = name
        elif isinstance(value, (list, tuple)) and any(
            isinstance(item, (Module, Parameter)) for item in value
        ):
            warnings.warn(
                f"{type(self).__name__}.{name} is a plain {type(value).__name__} holding modules "
                "or parameters, which parameters() and state_dict() do not see: use nn.ModuleList, "
                "or register_parameter.",
                stacklevel=2,
            )
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if isinstance(self.__dict__.get(name), Module):
            _trees_changed()
        object.__delattr__(self, name)
        self._registered_buffers().pop(name, None)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Make `param` the attribute `name`; None for "this module has none"."""
        check_name(type(self), name)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"register_parameter({name!r}) was given {type(param).__name__}, expected "
                "nn.Parameter or None: wrap the data in nn.Parameter(...)."
            )
        setattr(self, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Make `tensor` the attribute `name`: not trained, moved by `to`, saved in state_dict if
        `persistent`.
        """
        check_name(type(self), name)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"register_buffer({name!r}) was given {type(tensor).__name__}, expected a Tensor "
                "or None: wrap the data in tg.tensor(...)."
            )
        self._registered_buffers()[name] = persistent
        object.__setattr__(self, name, tensor)

    def register_module(self, name: str, module: Module) -> None:
        """Make `module` the child `name`."""
        check_name(type(self), name)
        if not isinstance(module, Module):
            raise TypeError(
                f"register_module({name!r}) was given {type(module).__name__}, expected an "
                "nn.Module."
            )
        setattr(self, name, module)

    add_module = register_module

    def _registered_buffers(self) -> dict[str, bool]:
        # Made here too, as a subclass may not have called __init__.
        buffers: dict[str, bool] = self.__dict__.setdefault("_buffers", {})
        return buffers

    # Looking through the tree.

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """(name, module) of each module assigned to this one, each module once."""
        seen: set[int] = set()
        for name, module in own_children(self, Module):
            if id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def children(self) -> Iterator[Module]:
        """The modules assigned to this one."""
        for _, module in self.named_children():
            yield module

    def named_modules(
        self, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """(dotted name, module) of this module ("" or `prefix`) and all below, parents first.

        A module reachable in two ways comes once, under its first name, unless `remove_duplicate`
        is False.
        """
        return walk(self, Module, prefix, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """This module and all below, each once."""
        for _, module in self.named_modules():
            yield module

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """(dotted name, parameter), in the order of assignment; a shared (tied) parameter once, at
        its first name.
        """
        owners = self.named_modules(prefix, remove_duplicate) if recurse else [(prefix, self)]
        return members(owners, own_parameters, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """What an optimizer is given: every parameter once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """(dotted name, tensor) of what register_buffer registered."""
        owners = self.named_modules(prefix, remove_duplicate) if recurse else [(prefix, self)]
        return members(owners, own_buffers, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The tensors that register_buffer registered."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def get_submodule(self, target: str) -> Module:
        """The module at a dotted path such as "blocks.0.attn"; "" is this module."""
        module = self
        for step in filter(None, target.split(".")):
            child = module.__dict__.get(step)
            if not isinstance(child, Module):
                names = ", ".join(name for name, _ in module.named_children()) or "none"
                raise AttributeError(
                    f"{type(self).__name__} has no submodule {target!r}: {type(module).__name__} "
                    f"has no child {step!r}, its children are {names}."
                )
            module = child
        return module

    # Doing something to the whole tree.

    def apply(self, fn: Callable[[Module], None]) -> Self:
        """Call `fn` on every module below and then on this one (to initialise weights, say)."""
        parents_first = list(self.modules())
        for module in reversed(parents_first):
            fn(module)
        return self

    def train(self, mode: bool = True) -> Self:
        """Put this module and all below in training mode (Dropout drops) or out of it."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Out of training mode: Dropout passes everything."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Let all parameters be trained, or freeze them."""
        for parameter in self.parameters():
            parameter.requires_grad = requires_grad
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters: None as before the first backward, or zeros."""
        for parameter in self.parameters():
            if set_to_none or parameter.grad is None:
                parameter.grad = None
            else:
                zeros = namespace_of(parameter.data).xp.zeros_like(parameter.data)
                parameter.grad = Tensor(zeros)

    def to(self, *targets: Any, device: Any = None, dtype: Any = None) -> Self:
        """Move parameters, their gradients and buffers to a device ("cpu", "cuda"), a dtype, or
        both; in place.

        `module.to("cuda")`, `module.to(np.float64)`, `module.to("cuda", np.float32)`. Only floating
        point data changes dtype. Build the optimizer afterwards: its averages have the dtype the
        parameters had then.
        """
        for target in targets:
            if isinstance(target, str) and target.split(":")[0] in ("cpu", "cuda"):
                device = target
            else:
                dtype = target
        kind = None if dtype is None else np.dtype(dtype)
        if kind is not None and not is_floating(kind):
            raise TypeError(
                f"Module.to was given dtype {kind}, expected a floating point one such as "
                "np.float32."
            )
        for tensor in (*self.parameters(), *self.buffers()):
            move(tensor, device, kind)
        return self

    # Calling.

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Run `hook(module, args)` before forward; what it returns, unless None, replaces the
        arguments.
        """
        hooks: list[Callable[..., Any]] = self.__dict__.setdefault("_pre_hooks", [])
        hooks.append(hook)
        return HookHandle(hooks, hook)

    def register_forward_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Run `hook(module, args, output)` after forward; what it returns, unless None, replaces
        the output.
        """
        hooks: list[Callable[..., Any]] = self.__dict__.setdefault("_forward_hooks", [])
        hooks.append(hook)
        return HookHandle(hooks, hook)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the pre-hooks, `forward` and the hooks; nodes made meanwhile carry this module's
        path.
        """
        state = modes.state
        outer_paths, outer_path = _calls.paths, state.module
        path = outer_paths.get(id(self))
        if path is None:
            path = type(self).__name__
            if outer_path:  # made on the spot, or another root such as a loss inside a model
                path = f"{outer_path}.{path}"
            _calls.paths = self._paths(path)
        state.module = path
        try:
            hooks = self.__dict__
            for hook in tuple(hooks["_pre_hooks"]) if "_pre_hooks" in hooks else ():
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
            output = self.forward(*args, **kwargs)
            for hook in tuple(hooks["_forward_hooks"]) if "_forward_hooks" in hooks else ():
                changed = hook(self, args, output)
                if changed is not None:
                    output = changed
            return output
        finally:
            _calls.paths, state.module = outer_paths, outer_path

    def _paths(self, root: str) -> dict[int, str]:
        """id -> dotted path of every module below, kept until some module somewhere gains or loses
        a child.

        While it is made, parameters without a name of their own get their path as name.
        """
        cached: tuple[int, str, dict[int, str]] | None = self.__dict__.get("_path_table")
        if cached is not None and cached[:2] == (_shape_of_trees, root):
            return cached[2]
        paths = {id(module): name for name, module in self.named_modules(prefix=root)}
        for name, parameter in self.named_parameters():
            if parameter.name is None or name.endswith(f".{parameter.name}"):
                parameter.name = name
        object.__setattr__(self, "_path_table", (_shape_of_trees, root, paths))
        return paths

    def __getstate__(self) -> dict[str, Any]:
        # A copy has other ids, so it must not inherit the table.
        return {name: value for name, value in self.__dict__.items() if name != "_path_table"}

    # State.

    def state_dict(self, prefix: str = "") -> dict[str, Tensor]:
        """Name -> tensor of every parameter and persistent buffer, a tied one under each of its
        names.

        As in PyTorch the tensors share memory with the module: copy them to keep a moment of
        training.
        """
        return state_of(self, prefix)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> LoadResult:
        """Copy the tensors or arrays of `state_dict` into this module's own memory.

        Returns the missing and the unexpected names; with `strict` either is an error. Wrong shapes
        always are.

        Raises:
            StateDictError: names everything that does not fit; nothing has been changed then.
        """
        return load_state(self, state_dict, strict)

    # Printing.

    def extra_repr(self) -> str:
        """What stands between the parentheses when the module is printed."""
        return ""

    def __repr__(self) -> str:
        lines = [self.extra_repr()] if self.extra_repr() else []
        children = own_children(self, Module)
        if not children:
            return f"{type(self).__name__}({', '.join(lines)})"
        for name, module in children:
            lines.append(f"({name}): " + repr(module).replace("\n", "\n  "))
        return f"{type(self).__name__}(\n  " + "\n  ".join(lines) + "\n)"


def _trees_changed() -> None:
    global _shape_of_trees
    _shape_of_trees += 1
