"""What torch is told of an op, and what its schema says of the devices of its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._library.fake_impl import FakeImplHolder
from torch._library.simple_registry import singleton

from repdl.errors import DeviceError, NameTakenError, UnsupportedError
from repdl.registry.op import OPS

LIBRARIES: dict[str, torch.library.Library] = {}
"""By namespace."""


def declare(name: str, schema: str, family: str, namespace: str) -> tuple[torch.library.Library, Any]:
    """Tell torch of an op: the library to put its kernels into, and its overload."""
    _check_names(name, family, namespace)
    library = LIBRARIES.get(namespace)
    if library is None:
        library = LIBRARIES[namespace] = torch.library.Library(namespace, "FRAGMENT")
    library.define(name + schema, tags=(torch.Tag.pt2_compliant_tag,))
    return library, getattr(getattr(torch.ops, namespace), name).default


_TAKES_LIBRARY = "lib" in FakeImplHolder.register.__code__.co_varnames
"""Not in torch 2.6."""


def register_fake(library: torch.library.Library, name: str, function: Callable[..., Any]) -> None:
    """`torch.library.register_fake`, without its search through all modules for the line that calls it.

    For RepDL's ops the search took a sixth of the time of `import repdl`.
    """
    if not _TAKES_LIBRARY:
        torch.library.register_fake(name, function, lib=library)
        return
    handle = singleton.find(name).fake_impl.register(function, __name__, lib=library)
    library._registration_handles.append(handle)


def _check_names(name: str, family: str, namespace: str) -> None:
    for op in OPS.values():
        if op.name == name or (op.family == family and op.overload.namespace != namespace):
            what = f"the op name {name!r}" if op.name == name else f"the family name {family!r}"
            raise NameTakenError(
                f"define: {what} is taken by {op.distribution} ({op.overload}); names are shared by all projects, "
                f"choose another"
            )


def device_reader(op: str, schema: Any, host: frozenset[str] = frozenset()) -> Callable[[tuple[Any, ...]], str]:
    """A function from the arguments of `op` to the device type that its tensors share.

    It raises for tensors on several devices, for those of `host` on another than the CPU, and for layouts
    without strides. Where the tensors stand is read off the schema once: this runs on every call.
    """
    kinds = [str(argument.type) for argument in schema.arguments]
    names = [argument.name for argument in schema.arguments]
    single = [i for i, kind in enumerate(kinds) if kind in ("Tensor", "Optional[Tensor]") and names[i] not in host]
    on_host = [i for i, name in enumerate(names) if name in host]
    lists = [i for i, kind in enumerate(kinds) if kind == "List[Tensor]"]
    strided = torch.strided

    def read(args: tuple[Any, ...]) -> str:
        tensors = [args[i] for i in single]
        for i in lists:
            tensors += args[i]
        device = None
        for tensor in tensors:
            if tensor is None:
                continue
            if tensor.layout is not strided:
                raise UnsupportedError(
                    f"{op}: a tensor's layout is {tensor.layout}, expected torch.strided; "
                    f"convert it first with .to_dense()"
                )
            if device is None:
                device = tensor.device
            elif tensor.device != device:
                raise DeviceError(
                    f"{op}: tensors on {device} and {tensor.device}, expected one device; "
                    f"move them with .to({str(device)!r})"
                )
        for i in on_host:
            if args[i] is not None and args[i].device.type not in ("cpu", "meta"):
                raise DeviceError(
                    f"{op}: {names[i]} is on {args[i].device}, expected cpu, whatever the device of the others: "
                    f"its values are read before a kernel starts; move it with .cpu()"
                )
        if device is None:
            raise DeviceError(f"{op}: no tensor among the arguments")
        return device.type

    return read
