"""Tensors that end where memory does: a kernel that reads past the end is killed by the system.

To be used in a process of its own.
"""

from __future__ import annotations

import ctypes
import mmap
from dataclasses import replace

import torch

from repdl.testing.cases import Case

PAGE = mmap.PAGESIZE
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def guarded(x: torch.Tensor) -> torch.Tensor:
    """A copy of a contiguous tensor, the page after which cannot be read."""
    size = x.numel() * x.element_size()
    if size == 0 or not x.is_contiguous():
        return x
    pages = (size + PAGE - 1) // PAGE
    start = libc.mmap(None, (pages + 1) * PAGE, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    assert libc.mprotect(start + pages * PAGE, PAGE, 0) == 0
    buffer = (ctypes.c_char * size).from_address(start + pages * PAGE - size)
    return torch.frombuffer(buffer, dtype=x.dtype).view(x.shape).copy_(x)


def on_guarded(case: Case) -> Case:
    """The case with every tensor guarded."""
    arguments = tuple(guarded(x) if isinstance(x, torch.Tensor) else x for x in case.make())
    return replace(case, make=lambda: arguments)
