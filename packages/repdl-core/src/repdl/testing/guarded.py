"""Tensors that end, or start, where memory does: a kernel that goes further is killed by the system.

To be used in a process of its own.
"""

from __future__ import annotations

import ctypes
import mmap
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from repdl.testing.cases import Case

PAGE = mmap.PAGESIZE
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def guarded(x: torch.Tensor, start: bool = False) -> torch.Tensor:
    """A copy of a contiguous tensor, the page after which cannot be read or written; with `start` the one before."""
    size = x.numel() * x.element_size()
    if size == 0 or not x.is_contiguous():
        return x
    pages = (size + PAGE - 1) // PAGE
    memory = libc.mmap(None, (pages + 1) * PAGE, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    assert libc.mprotect(memory + (0 if start else pages * PAGE), PAGE, 0) == 0
    buffer = (ctypes.c_char * size).from_address(memory + (PAGE if start else pages * PAGE - size))
    weakref.finalize(buffer, libc.munmap, memory, (pages + 1) * PAGE)
    return torch.frombuffer(buffer, dtype=x.dtype).view(x.shape).copy_(x)


def on_guarded(case: Case, start: bool = False) -> Case:
    """The case with every tensor guarded, those of lists too."""

    def each(x: Any) -> Any:
        if isinstance(x, list):
            return [each(y) for y in x]
        return guarded(x, start) if isinstance(x, torch.Tensor) else x

    arguments = tuple(each(x) for x in case.make())
    return replace(case, make=lambda: arguments)


@contextmanager
def guarded_outputs(start: bool = False) -> Iterator[None]:
    """What is allocated inside is guarded, and full of a value that is nobody's result."""

    def guarding(allocate: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def make(*args: Any, **kwargs: Any) -> torch.Tensor:
            x = allocate(*args, **kwargs)
            if x.device.type == "cpu" and x.numel() > 0 and x.is_contiguous():
                x = guarded(x, start)
                ctypes.memset(x.data_ptr(), 0xA5, x.numel() * x.element_size())
            return x

        return make

    before = torch.empty, torch.empty_like
    torch.empty, torch.empty_like = guarding(torch.empty), guarding(torch.empty_like)  # type: ignore[assignment]
    torch.Tensor.new_empty = guarding(torch.Tensor.new_empty)  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.empty, torch.empty_like = before
        del torch.Tensor.new_empty
