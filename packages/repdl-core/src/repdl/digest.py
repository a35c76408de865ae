"""Content digests: one hash for everything that a tensor, model or optimizer holds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import torch

from repdl.contract import as_contract
from repdl.tensors.raw import dtype_name, raw_bytes


def digest(obj: Any) -> str:
    """SHA-256 over the content of a tensor, module, optimizer, state dict or nest of these.

    Names, dtypes, shapes and little-endian bytes all count, buffers too; keys are sorted
    by name, so the order of insertion does not. Devices and memory layouts do not count.
    Of a module the contracts count that its layers have of their own: a layer that follows the
    default adds nothing, and a state dict holds none.

    Raises:
        ContractError: if the contract of a layer names none.
        TypeError: if something inside has no defined content (a function, say).
    """
    result = sha256()
    for path, description, payload in _entries("", obj):
        result.update(_header(path, description, len(payload)))
        result.update(payload)
    return result.hexdigest()


def digests(obj: Any) -> dict[str, str]:
    """The digest of each entry of what `digest` takes, by its path: `/str:layer.weight` in a module."""
    found = {}
    for path, description, payload in _entries("", obj):
        result = sha256(_header(path, description, len(payload)))
        result.update(payload)
        found[path] = result.hexdigest()
    return found


def _header(path: str, description: str, length: int) -> bytes:
    """What stands before the bytes of an entry."""
    header = json.dumps([path, description, length]).encode()
    return len(header).to_bytes(8, "little") + header


def tensor_hash(dtype: str, shape: Sequence[int], length: int) -> Any:
    """A hash that is `digest` of a tensor, once its bytes are added."""
    return sha256(_header("", f"{dtype}{list(shape)}", length))


def _contracts(module: torch.nn.Module) -> dict[str, str]:
    """The layers that follow a contract of their own; the class of a layer has the attribute too."""
    layers = module.named_modules(remove_duplicate=False)
    own = ((name, layer.contract) for name, layer in layers if hasattr(type(layer), "contract"))
    return {name: str(as_contract(contract)) for name, contract in own if contract is not None}  # type: ignore[arg-type]


def _entries(path: str, obj: Any) -> Iterator[tuple[str, str, bytes | memoryview]]:
    if isinstance(obj, torch.Tensor) and hasattr(obj, "to_local"):
        raise TypeError(
            f"digest: {path or 'obj'} is a {type(obj).__name__}, whose elements lie on several ranks, expected a "
            f"tensor; take its .to_local() or .full_tensor()"
        )
    if isinstance(obj, torch.Tensor):
        yield path, f"{dtype_name(obj)}{list(obj.shape)}", raw_bytes(obj)
    elif isinstance(obj, torch.nn.Module):
        named: dict[str, torch.Tensor] = dict(obj.named_parameters(remove_duplicate=False))
        named.update(obj.named_buffers(remove_duplicate=False))
        yield from _entries(path, named)
        if contracts := _contracts(obj):
            yield from _entries(f"{path}/contracts", contracts)
    elif isinstance(obj, torch.optim.Optimizer):
        yield from _entries(path, obj.state_dict())
    elif isinstance(obj, Mapping):
        yield path, f"mapping[{len(obj)}]", b""
        for key, value in sorted(obj.items(), key=lambda item: (type(item[0]).__name__, str(item[0]))):
            yield from _entries(f"{path}/{type(key).__name__}:{key}", value)
    elif isinstance(obj, (list, tuple)):
        yield path, f"sequence[{len(obj)}]", b""
        for index, value in enumerate(obj):
            yield from _entries(f"{path}/{index}", value)
    elif obj is None or isinstance(obj, (bool, int, str)):
        yield path, type(obj).__name__, repr(obj).encode()
    elif isinstance(obj, float):
        yield path, "float", obj.hex().encode()
    elif isinstance(obj, (torch.dtype, torch.device, torch.Size)):
        yield path, type(obj).__name__, str(obj).encode()
    else:
        raise TypeError(
            f"digest: {path or 'obj'} is a {type(obj).__name__}, expected tensors, modules, "
            f"optimizers, mappings, sequences, numbers, strings or None"
        )
