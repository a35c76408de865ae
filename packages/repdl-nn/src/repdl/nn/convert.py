"""`from_torch_module`: a copy of a torch model whose layers follow a contract.

First every module of the source is examined, without touching it; then it is deep-copied,
and the modules of the copy take the classes of their counterparts. A module keeps its
identity and its `__dict__`, so that whatever refers to it (a second place in the model, a
hook, an attribute) refers to the converted one.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any, TypeVar

import torch
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.utils import parametrize

from repdl.contract import Contract
from repdl.errors import UnsupportedError
from repdl.nn import conversions, left_out
from repdl.nn.calls import Calls, has_code
from repdl.nn.modules import Layer
from repdl.nn.modules.layer import canonical
from repdl.nn.utils import hooks
from repdl.overrides.within import Owner

M = TypeVar("M", bound=torch.nn.Module)

_CONTAINERS = (
    torch.nn.Sequential,
    torch.nn.ModuleList,
    torch.nn.ModuleDict,
    torch.nn.ParameterList,
    torch.nn.ParameterDict,
)
_PASSES = (
    "__call__",
    "_wrapped_call_impl",
    "_call_impl",
    "_conv_forward",
    "_check_input_dim",
    "__getattr__",
)
_WRAPPERS = {
    "OptimizedModule": "is compiled; convert the model it was made from and compile the result",
    "DataParallel": "wraps a model; convert its .module",
    "DistributedDataParallel": "wraps a model; convert its .module",
    "GraphModule": "is a graph traced by torch.fx; convert the model it was made from",
    "ScriptModule": "is compiled by torch.jit; convert the model it was made from",
}


def from_torch_module(model: M, *, strict: bool = True, contract: Contract | str | None = None) -> M:
    """A copy of `model` with every layer replaced by its reproducible counterpart.

    The copy shares no memory with `model`, which is left as it is. Kept are: train or
    eval mode of each module, requires_grad, dtypes, devices, state dict keys, attributes,
    hooks of modules, tied weights and shared submodules. Gradients (`.grad`) are not
    copied, a hook that is a closure still refers to what it refers to, and no random
    number is drawn.

    A module of your own keeps its `forward`, and its submodules are converted. So does a
    subclass of a layer, whose `super().forward` is then that of the reproducible layer;
    it can't override other parts of the forward pass.

    What a `forward` or a hook of your own computes by torch's functions is computed by RepDL in the extent of a call,
    with the bits and the derivatives that it has under `repdl.enable()`, and so is what it leaves for the backward
    pass. What RepDL has no function for raises an `UnsupportedError` with op, module and line, unless it moves data or
    is exact. Functions of torch in a `forward` follow the process-wide contract, and draw from the default generator of
    `repdl.random`, as the layers do. Methods beside `forward`, the loss and the optimizer are the program's, which
    stays torch's; a first backward pass from a loss of torch's warns. docs/reference/converted-models.md lists what is
    not seen. Under `torch.compile` a `forward` is what the backend makes of it, which a warning says.

    Args:
        model: any module, a single layer included. Layers of RepDL in it stay.
        strict: False turns the errors into warnings with the same lists, and leaves the
            modules listed as they are.
        contract: the contract of every converted layer; None is the process-wide one.

    Raises:
        UnsupportedError: if modules have no reproducible counterpart, or hold what a copy
            can't keep; lists each with the reason. `register_conversion` adds counterparts.
        ContractError: if `contract` names none.
    """
    name = canonical(contract)
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"from_torch_module: model is a {type(model).__name__}, expected a torch.nn.Module")
    unsupported = _unsupported(model)
    if unsupported:
        message = _message(unsupported)
        if strict:
            raise UnsupportedError(message)
        warnings.warn(message, stacklevel=2)
    result = _copied(model)
    skipped = {key for key, _, _ in unsupported}
    replaced: dict[int, torch.nn.Module] = {}
    for _, module in reversed([(key, m) for key, m in _walk(result, skipped) if key not in skipped]):
        # Children come before their parents here.
        _replace_children(module, replaced)
        converted = conversions.apply(module, name)
        hooks.convert(converted, name)
        if isinstance(converted, Layer) and name is not None:
            converted.contract = name
        if converted is not module:
            replaced[id(module)] = converted
    result = replaced.get(id(result), result)  # type: ignore[assignment]
    for module in list(result.modules()):
        _replace_children(module, replaced)
    code = bool(skipped) or has_code(result)
    if code or not isinstance(result, Layer):
        Calls(Owner(type(result).__name__, strict), code).attach(result)
    return result


def _replace_children(module: torch.nn.Module, replaced: dict[int, torch.nn.Module]) -> None:
    for key, child in module._modules.items():
        if id(child) in replaced:
            module._modules[key] = replaced[id(child)]


def _walk(model: torch.nn.Module, closed: set[str]) -> Iterator[tuple[str, torch.nn.Module]]:
    """Qualified names and modules, parents before children, none twice. Children of those
    whose name is in `closed` by the time they have been yielded are not visited."""
    seen: set[int] = set()
    stack = [("", model)]
    while stack:
        name, module = stack.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        yield name, module
        if name not in closed:
            prefix = f"{name}." if name else ""
            for key, child in reversed(module._modules.items()):
                if child is not None:
                    stack.append((prefix + key, child))


def _unsupported(model: torch.nn.Module) -> list[tuple[str, torch.nn.Module, str]]:
    registered = {id(module) for module in model.modules()}
    found: list[tuple[str, torch.nn.Module, str]] = []
    closed: set[str] = set()
    for name, module in _walk(model, closed):
        reason = _wrapper_problem(module) or _copy_problem(module, registered) or _class_problem(module)
        if reason is not None:
            closed.add(name)
            found.append((name, module, reason))
    return found


def _message(unsupported: list[tuple[str, torch.nn.Module, str]]) -> str:
    lines = [
        f"  {name or '(the model itself)'}: {type(module).__name__}, {reason}" for name, module, reason in unsupported
    ]
    count = f"{len(lines)} module{'s' if len(lines) > 1 else ''}"
    remedy = (
        f"Supported: {', '.join(conversions.supported())}; containers; modules of your own. "
        "Add others with repdl.nn.register_conversion; strict=False leaves those listed as they are."
    )
    return "\n".join([f"from_torch_module: {count} can't be converted:", *lines, remedy])


def _wrapper_problem(module: torch.nn.Module) -> str | None:
    """What `module` is of torch's wrappers of whole models, or None."""
    bases = [c.__name__ for c in type(module).__mro__ if c.__module__.startswith("torch.")]
    return next((_WRAPPERS[name] for name in bases if name in _WRAPPERS), None)


def _class_problem(module: torch.nn.Module) -> str | None:
    """Why the class of `module` has no reproducible counterpart, or None."""
    cls = parametrize.type_before_parametrizations(module)
    if isinstance(module, Layer) or cls is torch.nn.Module:
        return None
    found = conversions.find(cls)
    if isinstance(module, LazyModuleMixin) and (found is None or found[0] is not cls):
        return "is lazy; pass one input through the model first"
    if found is not None:
        return _conversion_problem(module, *found)
    forward_of = [c for c in cls.__mro__ if "forward" in vars(c) and c not in (torch.nn.Module, *_CONTAINERS)]
    if not forward_of:
        return None  # a container, or a module that only holds others
    theirs = None
    if any(_is_torchs(c) for c in forward_of):
        theirs = next(c for c in cls.__mro__ if _is_torchs(c))
    if theirs is cls:
        return left_out.LAYERS.get(cls.__name__, "has no reproducible counterpart")
    if theirs is not None:
        return f"derives from torch's {theirs.__name__}, which has no reproducible counterpart"
    return None


def _is_torchs(cls: type) -> bool:
    return cls.__module__.split(".")[0] == "torch"


def _conversion_problem(
    module: torch.nn.Module, base: type[torch.nn.Module], conversion: conversions.Conversion
) -> str | None:
    """Why a module whose class, or base class, is registered can't be converted, or None."""
    cls, convert = parametrize.type_before_parametrizations(module), conversion.convert
    if cls is not base:
        for name in _PASSES:
            if getattr(cls, name, None) is not getattr(base, name, None):
                return f"overrides {name} of {base.__name__}"
        for name in ("weight", "bias"):
            if hasattr(cls, name):
                return f"computes {name} by a descriptor of its class"
        if isinstance(convert, type):
            try:
                conversions.combine(cls, convert)
            except TypeError as error:
                return f"can't be combined with {convert.__name__}: {error}"
        elif convert is not conversions.keep:
            return f"derives from {base.__name__}, whose conversion is for that class alone"
    if isinstance(convert, type) and issubclass(convert, Layer):
        for name in ("contract", "generator"):
            if hasattr(module, name):
                return f"has an attribute {name}, the name under which a layer of RepDL keeps its {name}"
    return None if conversion.check is None else conversion.check(module)


def _copy_problem(module: torch.nn.Module, registered: set[int]) -> str | None:
    """What `module` holds that a converted copy can't keep, or None."""
    for hook in module._forward_pre_hooks.values():
        if type(hook).__module__.startswith("torch.nn.utils.") and not hooks.known(hook):
            return f"has its weight recomputed by torch's {type(hook).__name__}; remove that first"
    for name in ("forward", "__call__", "_call_impl"):
        if name in vars(module):
            return f"has {name} replaced on the instance"
    for name, parameter in module._parameters.items():
        if any(getattr(parameter, kind, None) for kind in ("_backward_hooks", "_post_accumulate_grad_hooks")):
            return f"has hooks on its parameter {name}, which no copy keeps; register them on the result"
    for name, value in vars(module).items():
        if name != "_modules" and any(id(m) not in registered for m in _modules_in(value)):
            return f"holds modules in its attribute {name} that are not its submodules (use ModuleList)"
    return None


def _modules_in(value: Any) -> Iterator[torch.nn.Module]:
    if isinstance(value, dict):
        value = tuple(value.values())
    for item in value if isinstance(value, (list, tuple, set)) else (value,):
        if isinstance(item, torch.nn.Module):
            yield item


def _copied(model: M) -> M:
    try:
        result = copy.deepcopy(model, _prepared(model))
    except Exception as error:
        raise UnsupportedError(
            f"from_torch_module: the model can't be copied, deepcopy raises {type(error).__name__}: {error}"
        ) from error
    source = {id(module) for module in model.modules()}
    for name, module in result.named_modules():
        if id(module) in source:
            raise UnsupportedError(
                f"from_torch_module: the model can't be copied, {name or 'the model itself'} "
                f"({type(module).__name__}) has a __deepcopy__ that returns the original"
            )
    return result


def _prepared(model: torch.nn.Module) -> dict[int, Any]:
    """A deepcopy memo with copies of the tensors that deepcopy itself would refuse or split."""
    memo: dict[int, Any] = {}
    tensors = {id(tensor): tensor for tensor in _tensors(model)}
    owners: dict[int, int] = {}
    for tensor in tensors.values():
        storage = _storage(tensor)
        if storage is not None and storage.data_ptr() != 0:
            owners[storage.data_ptr()] = owners.get(storage.data_ptr(), 0) + 1
    for tensor in tensors.values():
        storage = _storage(tensor)
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        if isinstance(tensor, torch.nn.UninitializedBuffer):
            memo[id(tensor)] = torch.nn.UninitializedBuffer(device=tensor.device, dtype=tensor.dtype)  # type: ignore[call-arg]
        elif storage is not None and owners.get(storage.data_ptr(), 0) > 1 and (is_parameter or not tensor.is_leaf):
            # What is a view of one storage stays a view of one storage; deepcopy sees to the other tensors.
            data = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
            own = copy.deepcopy(storage, memo)
            data.set_(own, tensor.storage_offset(), tensor.shape, tensor.stride())
            memo[id(tensor)] = torch.nn.Parameter(data, tensor.requires_grad) if is_parameter else data
        elif not tensor.is_leaf:
            memo[id(tensor)] = tensor.detach().clone()
    return memo


def _tensors(model: torch.nn.Module) -> Iterator[torch.Tensor]:
    """All tensors that the modules of a model hold: parameters, buffers, attributes, and what is in lists and dicts."""
    seen: set[int] = set()
    found: list[Any] = [vars(module) for module in model.modules()]
    while found:
        value = found.pop()
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (dict, list, tuple, set)) and id(value) not in seen:
            seen.add(id(value))
            found += value.values() if isinstance(value, dict) else value


def _storage(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """The storage of a plain strided tensor; None for lazy, sparse, negated and wrapper tensors."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided:
        return None
    return None if tensor.is_meta or tensor.is_neg() or tensor.is_conj() else tensor.untyped_storage()


__all__ = ["from_torch_module"]
