"""Tensors that a record keeps whole: in a file beside it, each once, found by its digest.

The file is a sequence of parts: the digest of a tensor's elements (hashing.py), their number of bytes, both as
little-endian integers of 64 bits, and the bytes. A last part that a crash has cut is not read.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch

from repdl.errors import RecordError
from repdl.records.entries import Tensor
from repdl.tensors.raw import little_endian

_HEAD = struct.Struct("<QQ")


def beside(path: str | os.PathLike[str]) -> Path:
    """The file of the values of a record."""
    return Path(f"{os.fspath(path)}.values")


class Keeper:
    """Writes values."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = beside(path)
        self._known: set[int] = set()
        try:
            self._file = self._path.open("wb")
        except OSError as error:
            raise RecordError(f"record: {self._path} can't be written: {error.strerror}") from error

    def keep(self, digest: int, raw: bytes | memoryview) -> None:
        """Write the bytes of a tensor, once."""
        if digest in self._known:
            return
        self._known.add(digest)
        try:
            self._file.write(_HEAD.pack(digest, len(raw)))
            self._file.write(raw)
        except OSError as error:
            raise RecordError(f"record: {self._path} can't be written: {error.strerror}; it ends here") from error

    def close(self) -> None:
        """End the file."""
        try:
            self._file.close()
        except OSError as error:
            raise RecordError(f"record: {self._path} can't be written: {error.strerror}; it ends here") from error


class Values:
    """Reads values; there are none where a record kept none."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = beside(path)
        self._places: dict[int, tuple[int, int]] = {}
        if not self._path.exists():
            return
        size, at = self._path.stat().st_size, 0
        with self._path.open("rb") as file:
            while at + _HEAD.size <= size:
                file.seek(at)
                digest, length = _HEAD.unpack(file.read(_HEAD.size))
                at += _HEAD.size
                if at + length <= size:
                    self._places[digest] = at, length
                at += length

    def tensor(self, noted: Tensor) -> torch.Tensor | None:
        """A tensor of a record, with the strides that it had; None if its values were not kept."""
        dtype = getattr(torch, noted.dtype)
        raw = self.raw(noted.digest)
        if raw is None:
            return None
        flat = torch.from_numpy(little_endian(raw, dtype).copy()).view(dtype)
        whole = flat.reshape(noted.shape)
        if noted.strides is None:
            return whole
        return laid_out(whole, noted.strides)

    def raw(self, digest: str | None) -> Any:
        """The bytes of a digest, None if they were not kept."""
        if digest is None or int(digest, 16) not in self._places:
            return None
        at, length = self._places[int(digest, 16)]
        with self._path.open("rb") as file:
            file.seek(at)
            return np.frombuffer(file.read(length), dtype=np.uint8)


def laid_out(tensor: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """A tensor of the same elements in memory of its own, with these strides; 0 is one, as of an expanded tensor."""
    size = 1 + sum((n - 1) * stride for n, stride in zip(tensor.shape, strides)) if tensor.numel() else 0
    offsets = torch.arange(size).as_strided(tensor.shape, strides).reshape(-1)
    memory = torch.zeros(size, dtype=tensor.dtype)
    memory[offsets] = tensor.reshape(-1)
    return memory.as_strided(tensor.shape, strides)


__all__ = ["Keeper", "Values", "beside", "laid_out"]
