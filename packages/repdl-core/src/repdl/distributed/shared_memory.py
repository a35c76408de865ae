"""Memory that the ranks of one machine share: a reduction reads the tensors of other ranks there, nothing is sent."""

from __future__ import annotations

import mmap
import os
import uuid
from datetime import timedelta
from typing import Any

import torch

_LARGEST_SLOT, _LARGEST, _PAGE = 1 << 22, 1 << 26, 1 << 12
"""Bytes: of a rank, of all ranks together, and of a page of memory."""


class SharedMemory:
    """A slot for each rank of a group, and one for results.

    Args:
        memory: of `bytes_of(size)` bytes.
        size: how many ranks there are.
    """

    def __init__(self, memory: mmap.mmap | bytearray, size: int) -> None:
        self._slots = torch.frombuffer(memory, dtype=torch.uint8).view(size + 1, -1)

    def slots(self, dtype: torch.dtype) -> torch.Tensor:
        """`(size, n)`: a row for the numbers of each rank."""
        return self._slots[:-1].view(dtype)

    def result(self, dtype: torch.dtype) -> torch.Tensor:
        """`(n,)`."""
        return self._slots[-1].view(dtype)


def share(store: Any, rank: int, size: int, timeout: timedelta) -> SharedMemory | None:
    """Memory for a group; None on every rank if one of them is on another machine or can't map it.

    Args:
        store: for this call alone.
    """
    if rank == 0:
        descriptor, name = _make(size)
        store.set("name", name)
        mapped = _map(descriptor, size)
    else:
        store.wait(["name"], timeout)
        descriptor = _open(store.get("name").decode())
        mapped = _map(descriptor, size)
    store.add("mapped", int(mapped is not None))
    if store.add("asked", 1) == size:
        store.set("all", str(store.add("mapped", 0)))
    store.wait(["all"], timeout)
    if descriptor is not None:
        os.close(descriptor)  # not before: others open it by its number
    return SharedMemory(mapped, size) if mapped is not None and int(store.get("all")) == size else None


def bytes_of(size: int) -> int:
    """Of the memory of so many ranks."""
    slots = size + 1
    return slots * max(_PAGE, min(_LARGEST_SLOT, _LARGEST // slots // _PAGE * _PAGE))


def _make(size: int) -> tuple[int | None, str]:
    """A file in memory, and by what the other ranks find it: a path, and what that has to be."""
    if not hasattr(os, "memfd_create"):  # Linux has it
        return None, ""
    name = f"repdl-{uuid.uuid4().hex}"
    try:
        descriptor = os.memfd_create(name)
        os.ftruncate(descriptor, bytes_of(size))
    except OSError:
        return None, ""
    return descriptor, f"/proc/{os.getpid()}/fd/{descriptor} /memfd:{name} (deleted)"


def _open(name: str) -> int | None:
    path, _, meant = name.partition(" ")
    try:
        return os.open(path, os.O_RDWR) if path and os.readlink(path) == meant else None
    except OSError:
        return None


def _map(descriptor: int | None, size: int) -> mmap.mmap | None:
    try:
        return None if descriptor is None else mmap.mmap(descriptor, bytes_of(size))
    except (OSError, ValueError):
        return None


__all__ = ["SharedMemory", "bytes_of", "share"]
