"""The file of a checkpoint: safetensors, with the structure of the states and all digests in its metadata.

A file is the length of a header in 8 bytes, the header as JSON, and the bytes of the tensors in turn, little-endian.
It is written here, and not by the safetensors package, since that can't hash while it writes: digests have a fixed
length in the header and are filled in when the last byte is on its way. Every reader of safetensors opens it.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from repdl.checkpoint.stream import Stream
from repdl.checkpoint.structure import DTYPES, JSON
from repdl.digest import tensor_hash
from repdl.errors import CheckpointError
from repdl.tensors.raw import dtype_name, little_endian, number_size, raw_bytes

FORMAT = "repdl-checkpoint-1"
_BLANK = "0" * 64
_CHUNK = 2**24
"""Bytes that are read and hashed at once."""
_LONGEST = 10**9
_STORED = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "bool": "BOOL",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0",
    "complex64": "F32", "complex128": "F64",
}  # fmt: skip
"""safetensors' names. Complex numbers are pairs of floats, since older readers know no complex ones."""
Advance = Callable[[int], object]
"""What is told how many bytes are done, for a progress bar."""


@dataclass(frozen=True)
class Entry:
    """A tensor of a file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    digest: str
    begin: int
    end: int


@dataclass(frozen=True)
class Header:
    """All of a file but the bytes of its tensors.

    Args:
        tree: the states; names of `tensors` stand for tensors.
        digest: of the states and the contract (`state_digest`).
        previous: the digest of the checkpoint that the run went on from; None for the first.
        facts: contract, versions, the time; they are not part of the digest.
    """

    tree: JSON
    tensors: dict[str, Entry]
    digest: str
    previous: str | None
    facts: dict[str, Any]
    data: int


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def state_digest(tree: JSON, tensors: Mapping[str, tuple[str, str]], contract: str) -> str:
    """SHA-256 over states and contract; the order of insertion into mappings does not count.

    Args:
        tensors: dtype with shape, and digest, of each tensor.
    """
    return sha256(_dumps([FORMAT, contract, _content(tree, tensors)]).encode()).hexdigest()


def _content(tree: JSON, tensors: Mapping[str, tuple[str, str]]) -> JSON:
    """JSON in which the content of tensors stands for their names, and pairs are sorted."""
    if type(tree) is list:
        return [_content(item, tensors) for item in tree]
    if type(tree) is not dict:
        return tree
    ((name, kept), *_) = tree.items()
    if name in ("tensor", "ndarray"):
        return {name: tensors[kept]}
    if name in ("dict", "ordered", "counter", "sparse", "dtensor"):
        return {
            name: sorted(([key, _content(value, tensors)] for key, value in kept), key=lambda pair: _dumps(pair[0]))
        }
    return {name: _content(kept, tensors)} if type(kept) is list else tree


def _stored(name: str, dtype: str) -> str:
    if dtype not in _STORED:
        raise CheckpointError(
            f"checkpoint: {name} has dtype {dtype}, expected {', '.join(_STORED)}; convert or view it"
        )
    return _STORED[dtype]


def _layout(tensors: Mapping[str, torch.Tensor]) -> list[Entry]:
    """Where each tensor lies: those with wide elements first, so that all are aligned."""
    entries, begin = [], 0
    for name, tensor in sorted(tensors.items(), key=lambda item: (-number_size(item[1].dtype), item[0])):
        end = begin + tensor.numel() * tensor.element_size()
        entries.append(Entry(name, dtype_name(tensor), tuple(tensor.shape), _BLANK, begin, end))
        begin = end
    return entries


def _header(entries: list[Entry], tree: str, facts: str, previous: str | None, digest: str, digests: str) -> bytes:
    """The header with its length; the checksum in it is of the header without it."""
    described: dict[str, Any] = {}
    for e in entries:
        pair = [2] if e.dtype.startswith("complex") else []
        described[e.name] = {
            "dtype": _stored(e.name, e.dtype), "shape": [*e.shape, *pair], "data_offsets": [e.begin, e.end]
        }  # fmt: skip
    complexes = {e.name: e.dtype for e in entries if e.dtype.startswith("complex")}
    metadata = {
        "format": FORMAT, "digest": digest, "previous": previous or "", "facts": facts,
        "complex": _dumps(complexes), "digests": digests, "tree": tree, "checksum": _BLANK,
    }  # fmt: skip
    whole = {"__metadata__": metadata, **described}
    metadata["checksum"] = sha256(_dumps(whole).encode()).hexdigest()
    text = _dumps(whole).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def write(
    file: BinaryIO,
    tree: JSON,
    tensors: Mapping[str, torch.Tensor],
    facts: Mapping[str, Any],
    previous: str | None,
    advance: Advance = lambda count: None,
) -> str:
    """Write a whole file and return its digest. Bytes are hashed while those after them are written.

    Raises:
        CheckpointError: for a tensor of a dtype that safetensors has not.
        OSError: if the file can't be written.
    """
    entries, facts_text, tree_text = _layout(tensors), _dumps(facts), _dumps(tree)
    blank = _header(entries, tree_text, facts_text, previous, _BLANK, _BLANK * len(entries))
    file.write(blank)
    hashes = [tensor_hash(e.dtype, e.shape, e.end - e.begin) for e in entries]
    with Stream(file) as stream:
        for entry, result in zip(entries, hashes):
            stream.write(raw_bytes(tensors[entry.name]), result, advance)
    found = [result.hexdigest() for result in hashes]
    contents = {e.name: (f"{e.dtype}{list(e.shape)}", d) for e, d in zip(entries, found)}
    digest = state_digest(tree, contents, facts["contract"])
    filled = _header(entries, tree_text, facts_text, previous, digest, "".join(found))
    file.seek(0)
    file.write(filled)
    return digest


def damaged(path: Path, what: str) -> CheckpointError:
    """The error for a file that is not as it was written."""
    return CheckpointError(f"checkpoint: {path} {what}; nothing was loaded, go on from another checkpoint")


def read_header(path: Path) -> Header:
    """The header of a file, of which every digest but those of the tensors' bytes is checked, and its size.

    Raises:
        CheckpointError: if there is no file, or it is none of a checkpoint, or damaged.
    """
    with _opened(path) as file:
        return _read_header(path, file)


def _opened(path: Path) -> io.BufferedReader:
    try:
        return path.open("rb")
    except OSError as error:
        raise CheckpointError(f"checkpoint: {path} can't be read: {error.strerror}, expected a file of save") from error


def _read_header(path: Path, file: BinaryIO) -> Header:
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > min(size - 8, _LONGEST):
        raise damaged(path, f"has {size} bytes, fewer than its header says, or it is no file of safetensors")
    text = file.read(length)
    try:
        whole = json.loads(text)
        metadata = whole["__metadata__"]
        form = metadata["format"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise damaged(path, "has a header that is not one of repdl.checkpoint, or is damaged") from None
    if form != FORMAT:
        raise CheckpointError(
            f"checkpoint: {path} has the format {form!r}, expected {FORMAT!r} of this version of repdl"
        )
    said, metadata["checksum"] = metadata.get("checksum"), _BLANK
    if sha256(_dumps(whole).encode()).hexdigest() != said:
        raise damaged(path, "has a header that was changed: its checksum differs")
    header = _parsed(path, whole, 8 + length)
    expected = header.data + max((e.end for e in header.tensors.values()), default=0)
    if size != expected:
        raise damaged(path, f"has {size} bytes, expected {expected}: it was {'cut' if size < expected else 'extended'}")
    contents = {e.name: (f"{e.dtype}{list(e.shape)}", e.digest) for e in header.tensors.values()}
    if state_digest(header.tree, contents, header.facts["contract"]) != header.digest:
        raise damaged(path, "has a digest that is not that of its states")
    return header


def _parsed(path: Path, whole: dict[str, Any], data: int) -> Header:
    """What a header says, each part of the right type."""
    metadata = whole.pop("__metadata__")
    try:
        digests, complexes = metadata["digests"], json.loads(metadata["complex"])
        entries, next_ = {}, 0
        for i, (name, said) in enumerate(whole.items()):
            (begin, end), shape = said["data_offsets"], [int(n) for n in said["shape"]]
            dtype = complexes.get(name) or {v: k for k, v in _STORED.items() if "complex" not in k}[said["dtype"]]
            shape = shape[:-1] if name in complexes else shape
            wanted = int(np.prod(shape, dtype=object)) * DTYPES[dtype].itemsize
            if begin != next_ or end - begin != wanted:
                raise ValueError(f"{name} lies from byte {begin} to {end}")
            entries[name] = Entry(name, dtype, tuple(shape), digests[64 * i : 64 * i + 64], begin, end)
            next_ = end
        tree, facts = json.loads(metadata["tree"]), json.loads(metadata["facts"])
        return Header(tree, entries, metadata["digest"], metadata["previous"] or None, dict(facts), data)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise damaged(path, f"has a header that can't be understood ({type(error).__name__}: {error})") from None


def read(path: Path, advance: Advance = lambda count: None) -> tuple[Header, dict[str, torch.Tensor]]:
    """A file whose every byte is checked: the header and the tensors, on the CPU.

    Raises:
        CheckpointError: if it is damaged; it says where.
    """
    tensors, hashes = {}, {}
    with _opened(path) as file, ThreadPoolExecutor(1) as pool:
        header = _read_header(path, file)
        advance(header.data)
        for entry in header.tensors.values():
            found = tensor_hash(entry.dtype, entry.shape, entry.end - entry.begin)
            file.seek(header.data + entry.begin)
            tensors[entry.name], hashes[entry.name] = torch.empty(entry.shape, dtype=DTYPES[entry.dtype]), found
            for part in _chunks(_memory(tensors[entry.name])):
                if file.readinto(part) != part.nbytes:
                    raise damaged(path, f"ends within {entry.name}")
                pool.submit(found.update, part)
                advance(part.nbytes)
    for name, found in hashes.items():
        if found.hexdigest() != header.tensors[name].digest:
            raise damaged(path, f"is damaged: the bytes of {name} have another digest than when it was saved")
        if sys.byteorder != "little":
            flat = np.frombuffer(_memory(tensors[name]), np.uint8)
            flat[:] = little_endian(flat, tensors[name].dtype)
    return header, tensors


def _memory(tensor: torch.Tensor) -> memoryview:
    """The bytes of a tensor that was made for them."""
    if not tensor.numel():
        return memoryview(b"")
    whole = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return memoryview(whole.view(-1).view(torch.uint8).numpy())  # type: ignore[arg-type]


def _chunks(raw: memoryview) -> Iterator[memoryview]:
    return (raw[i : i + _CHUNK] for i in range(0, raw.nbytes, _CHUNK))


__all__ = [
    "FORMAT",
    "Advance",
    "Entry",
    "Header",
    "damaged",
    "read",
    "read_header",
    "state_digest",
    "write",
]
