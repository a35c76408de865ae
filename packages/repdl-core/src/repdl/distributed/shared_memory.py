"""Memory that the ranks of one machine share: a reduction reads the tensors of other ranks there, nothing is sent."""

from __future__ import annotations

import mmap
import os
import uuid
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from repdl.errors import RankError

_LARGEST_SLOT, _LARGEST, _PAGE = 1 << 22, 1 << 26, 1 << 12
"""Bytes: of a rank, of all ranks together, and of a page of memory."""
_NOTE = 128
"""Bytes of what a rank notes before it meets the others."""
_MOST_RANKS = 256
"""More would have small slots."""


class SharedMemory:
    """A slot for each rank of a group, one for results, and two notes for each rank.

    A note says which part of which call a rank has done. Ranks that meet compare their notes: the barrier where they
    wait for each other carries nothing, and would let ranks pass that make different calls, or that have failed.

    Args:
        memory: of `bytes_of(size)` bytes.
        size: how many ranks there are.
    """

    def __init__(self, memory: mmap.mmap | bytearray, size: int) -> None:
        slots = torch.frombuffer(memory, dtype=torch.uint8)[: -2 * size * _NOTE]
        self._slots, self._memory, self._size = slots.view(size + 1, -1), memory, size
        self._met = [0] * size

    def slots(self, dtype: torch.dtype) -> torch.Tensor:
        """`(size, n)`: a row for the numbers of each rank."""
        return self._slots[:-1].view(dtype)

    def result(self, dtype: torch.dtype) -> torch.Tensor:
        """`(n,)`."""
        return self._slots[-1].view(dtype)

    def note(self, rank: int, part: str) -> None:
        """Before this rank meets the others."""
        self._met[rank] += 1
        begin = self._place(rank, rank)
        self._memory[begin : begin + _NOTE] = f"{self._met[rank]}: {part}".encode()[:_NOTE].ljust(_NOTE, b"\0")

    def compare(self, rank: int) -> None:
        """After they have met.

        Raises:
            RankError: if another rank has noted something else.
        """
        mine = self._read(rank, rank)
        for other in range(self._size):
            theirs = self._read(rank, other)
            if theirs != mine:
                raise RankError(
                    f"repdl.distributed: rank {other} of the group: {theirs or 'nothing'}; rank {rank}: {mine}; "
                    f"expected the same reductions in the same order on all ranks"
                )

    def _read(self, rank: int, other: int) -> str:
        begin = self._place(rank, other)
        return bytes(self._memory[begin : begin + _NOTE]).rstrip(b"\0").decode(errors="replace")

    def _place(self, rank: int, other: int) -> int:
        """Where another rank's note is of the meeting that this rank is at: they have two, in turn, as it may be at the
        next one already."""
        return len(self._memory) - (2 * other + self._met[rank] % 2 + 1) * _NOTE


def share(store: Any, rank: int, size: int, timeout: timedelta) -> SharedMemory | None:
    """Memory for a group; None on every rank if one of them is on another machine or can't map it.

    Args:
        store: for this call alone.

    Raises:
        RankError: if a rank does not come.
    """
    if size > _MOST_RANKS:
        return None
    descriptor = None
    try:
        if rank == 0:
            descriptor, name = _make(size)
            store.set("name", name)
        else:
            store.wait(["name"], timeout)
            descriptor = _open(store.get("name").decode())
        mapped = _map(descriptor, size)
        store.add("mapped", int(mapped is not None))
        if store.add("asked", 1) == size:
            store.set("all", str(store.add("mapped", 0)))
        store.wait(["all"], timeout)  # until then others may open the file by its number
    except (RuntimeError, dist.DistStoreError) as error:
        raise RankError(
            f"repdl.distributed: a rank of the group did not begin its first reduction within {timeout}: it ended, or "
            f"waits for another collective"
        ) from error
    finally:
        if descriptor is not None:
            os.close(descriptor)
    return SharedMemory(mapped, size) if mapped is not None and int(store.get("all")) == size else None


def bytes_of(size: int) -> int:
    """Of the memory of so many ranks."""
    slots = size + 1
    return slots * max(_PAGE, min(_LARGEST_SLOT, _LARGEST // slots // _PAGE * _PAGE)) + 2 * size * _NOTE


def _make(size: int) -> tuple[int | None, str]:
    """A file in memory, and by what the other ranks find it: a path, and what that has to be."""
    if not hasattr(os, "memfd_create"):  # Linux has it
        return None, ""
    name = f"repdl-{uuid.uuid4().hex}"
    try:
        descriptor = os.memfd_create(name)
    except OSError:
        return None, ""
    try:
        os.ftruncate(descriptor, bytes_of(size))
    except OSError:
        os.close(descriptor)
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
