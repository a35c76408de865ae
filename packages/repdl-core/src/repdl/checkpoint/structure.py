"""States as JSON and named tensors, and back: what a checkpoint holds beside the bytes of tensors.

Values of exact types only: dict, OrderedDict, Counter, list, tuple, set, frozenset, str, bytes, int, float, complex,
bool, None, dtypes, devices, sizes, tensors, arrays and scalars of numpy. Floats are their 64 bits. Nothing in a file
names a class or a function to be called, so that reading one executes no code of it.
"""

from __future__ import annotations

import collections
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from repdl.checkpoint.sharded import is_dtensor, made_of, parts_of
from repdl.errors import CheckpointError

JSON = Any
"""None, bool, int, str, lists and dicts of these."""
DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in vars(torch).values()
    if isinstance(dtype, torch.dtype) and "q" not in str(dtype)
}
_PLAIN = type(None), bool, str
_EXACT = 2**53
"""Integers below it are written as JSON's numbers, which other readers may take for doubles."""
_ARRAYS = "b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"
_TENSORS = torch.Tensor, torch.nn.Parameter, torch.nn.Buffer
_MAPPINGS: dict[str, type] = {"dict": dict, "ordered": collections.OrderedDict, "counter": collections.Counter}
_SEQUENCES: dict[str, Callable[[list[Any]], Any]] = {
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "size": torch.Size,
}
_PAIRED = {*_MAPPINGS, "sparse", "dtensor"}
"""What is written as pairs of keys and values."""
_NAMES = {type_: name for name, type_ in [*_MAPPINGS.items(), *_SEQUENCES.items()]}


def join(path: str, key: object) -> str:
    """The path of what a state has under a key."""
    return f"{path}/{key}" if path else str(key)


def _hex(value: float) -> str:
    return struct.pack(">d", value).hex()


def _unhex(text: str) -> float:
    (value,) = struct.unpack(">d", bytes.fromhex(text))
    return value


def _key(pair: Any) -> str:
    return json.dumps(pair)


@dataclass
class Encoder:
    """Writes states as JSON and collects their tensors under the paths where they were found first."""

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    _names: dict[Any, str] = field(default_factory=dict)

    def encode(self, path: str, value: Any) -> JSON:
        """The JSON of a value.

        Raises:
            CheckpointError: for a value of another type, with its path.
        """
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is int:
            return value if abs(value) < _EXACT else {"int": hex(value)}
        if kind is float:
            return {"float": _hex(value)}
        if kind is list:
            return [self.encode(join(path, i), item) for i, item in enumerate(value)]
        if kind in (set, frozenset):
            return {_NAMES[kind]: sorted((self.encode(path, item) for item in value), key=_key)}
        if kind in (tuple, torch.Size):
            return {_NAMES[kind]: [self.encode(join(path, i), item) for i, item in enumerate(value)]}
        if kind in (dict, collections.OrderedDict, collections.Counter):
            return self._mapping(path, value, _NAMES[kind])
        if kind in _TENSORS and value.layout is torch.sparse_coo:
            return {"sparse": self._mapping(path, _parts(value), "dict")["dict"]}
        if kind in _TENSORS:
            return {"tensor": self._tensor(path, value)}
        return self._other(path, value)

    def _mapping(self, path: str, value: Any, name: str) -> JSON:
        pairs = [[self._of_key(path, k), self.encode(join(path, k), v)] for k, v in value.items()]
        versions = getattr(value, "_metadata", None)  # of a module's state dict: the versions of its layers
        return {name: pairs} if versions is None else {name: pairs, "metadata": self.encode(path, dict(versions))}

    def _of_key(self, path: str, key: Any) -> JSON:
        if isinstance(key, torch.Tensor):
            raise CheckpointError(f"checkpoint: {path} has a key that is a tensor, expected a number, text or tuple")
        return self.encode(path, key)

    def _other(self, path: str, value: Any) -> JSON:
        if is_dtensor(value):
            return {"dtensor": self._mapping(path, parts_of(path, value), "dict")["dict"]}
        if type(value) is bytes:
            return {"bytes": value.hex()}
        if type(value) is complex:
            return {"complex": [_hex(value.real), _hex(value.imag)]}
        if type(value) is torch.dtype and str(value).removeprefix("torch.") in DTYPES:
            return {"dtype": str(value).removeprefix("torch.")}
        if type(value) is torch.device:
            return {"device": str(value)}
        if type(value) is np.ndarray and value.dtype.isnative and value.dtype.str[1:] in _ARRAYS:
            kept = torch.from_numpy(value if value.flags.writeable else value.copy())
            return {"ndarray": self._tensor(path, kept)}
        if isinstance(value, np.generic) and value.dtype.str[1:] in _ARRAYS:
            return {"numpy": [value.dtype.str[1:], value.astype(value.dtype.newbyteorder("<")).tobytes().hex()]}
        raise CheckpointError(
            f"checkpoint: {path} is {type(value).__module__}.{type(value).__qualname__}, expected numbers, text, "
            f"bytes, dtypes, tensors, arrays, or a dict, list, tuple or set of these: a checkpoint holds no objects, "
            f"so that loading it runs no code; save what the object is made of"
        )

    def _tensor(self, path: str, tensor: torch.Tensor) -> str:
        """The name of a tensor: the path, or that of an earlier one in the same memory."""
        if tensor.layout is not torch.strided or tensor.device.type == "meta" or tensor.is_quantized:
            raise CheckpointError(
                f"checkpoint: {path} is a tensor of layout {tensor.layout} on {tensor.device}, expected a dense one"
                f"{' with values' if tensor.device.type == 'meta' else ''}"
            )
        tensor = tensor.detach()
        memory = tensor.device, tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride()
        identity = (*memory, tensor.is_conj(), tensor.is_neg())
        if tensor.numel() and identity in self._names:
            return self._names[identity]
        name, count = path, 1
        while name in self.tensors or name == "__metadata__":
            count += 1
            name = f"{path}#{count}"
        self.tensors[name] = tensor
        self._names[identity] = name
        return name


def _parts(tensor: torch.Tensor) -> dict[str, Any]:
    """What a sparse tensor is made of."""
    tensor = tensor.detach()
    parts = {"indices": tensor._indices(), "values": tensor._values(), "size": tensor.shape}
    return {**parts, "is_coalesced": tensor.is_coalesced()}


def decode(tree: JSON, tensors: Mapping[str, torch.Tensor], meshes: Mapping[str, Any] | None = None) -> Any:
    """The value that `Encoder.encode` has written.

    Args:
        meshes: those of DTensors, by name.

    Raises:
        CheckpointError: if it is none.
    """
    try:
        return _Decoder(tensors, meshes or {}).decode(tree)
    except CheckpointError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, RuntimeError, struct.error) as error:
        raise CheckpointError(
            f"checkpoint: its structure can't be read ({type(error).__name__}: {error}), expected one that save has "
            f"written"
        ) from None


@dataclass(frozen=True)
class _Decoder:
    tensors: Mapping[str, torch.Tensor]
    meshes: Mapping[str, Any]

    def decode(self, tree: JSON) -> Any:
        if type(tree) in _PLAIN or type(tree) is int:
            return tree
        if type(tree) is list:
            return [self.decode(item) for item in tree]
        ((name, kept), *rest) = tree.items()
        if name in _MAPPINGS:
            made: Any = _MAPPINGS[name]()
            for key, value in kept:
                made[self.decode(key)] = self.decode(value)
            if rest:
                made._metadata = self.decode(rest[0][1])
            return made
        if name in _PAIRED:
            parts = {key: self.decode(value) for key, value in kept}
            return made_of(parts, self.meshes) if name == "dtensor" else _sparse(parts)
        if name in _SEQUENCES:
            return _SEQUENCES[name]([self.decode(item) for item in kept])
        return _LEAVES[name](kept, self.tensors)


def _sparse(parts: dict[str, Any]) -> torch.Tensor:
    return torch.sparse_coo_tensor(**parts, check_invariants=True)


def _array(kept: str, tensors: Mapping[str, torch.Tensor]) -> Any:
    return tensors[kept].numpy()


def _scalar(kept: Any) -> Any:
    code, text = kept
    if code not in _ARRAYS:
        raise ValueError(f"dtype {code}")
    stored = np.dtype(code).newbyteorder("<")
    return np.frombuffer(bytes.fromhex(text), stored).astype(stored.newbyteorder("="))[0]


_LEAVES: dict[str, Callable[[Any, Mapping[str, torch.Tensor]], Any]] = {
    "int": lambda kept, tensors: int(kept, 16),
    "float": lambda kept, tensors: _unhex(kept),
    "complex": lambda kept, tensors: complex(_unhex(kept[0]), _unhex(kept[1])),
    "bytes": lambda kept, tensors: bytes.fromhex(kept),
    "dtype": lambda kept, tensors: DTYPES[kept],
    "device": lambda kept, tensors: torch.device(kept),
    "tensor": lambda kept, tensors: tensors[kept],
    "ndarray": _array,
    "numpy": lambda kept, tensors: _scalar(kept),
}


def is_leaf(tree: JSON) -> bool:
    """Whether a piece of JSON is a value without values inside."""
    if type(tree) is list:
        return False
    return type(tree) is not dict or (next(iter(tree)) not in _PAIRED and next(iter(tree)) not in _SEQUENCES)


def children(tree: JSON) -> list[tuple[str, JSON]]:
    """The keys, as in paths, and values of a dict, list, tuple or set."""
    if type(tree) is list:
        return [(str(i), item) for i, item in enumerate(tree)]
    ((name, kept), *_) = tree.items()
    if name in _PAIRED:
        return [(shown(key), value) for key, value in kept]
    return [(str(i), item) for i, item in enumerate(kept)]


def shown(leaf: JSON) -> str:
    """A value as a reader wants to see it."""
    if type(leaf) is str:
        return leaf
    if type(leaf) is dict and next(iter(leaf)) not in ("tensor", "ndarray"):
        value = decode(leaf, {})
        return f"{value!r} ({value.hex()})" if type(value) is float else repr(value)
    return repr(leaf)


__all__ = ["DTYPES", "JSON", "Encoder", "children", "decode", "is_leaf", "join", "shown"]
