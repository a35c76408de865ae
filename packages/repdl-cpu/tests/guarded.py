"""Runs every case of some families on tensors that end where memory does. Run by test_bounds.py.

A kernel that reads past the end of a tensor is killed by the system.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from dataclasses import replace

import torch

import repdl_cpu
from repdl.registry import get_backend
from repdl.testing import Case, cases, run

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


def main(families: list[str]) -> None:
    ops = get_backend("cpu").ops
    made = [on_guarded(case) for family in families for case in cases(family) if not case.derived]
    for isa in repdl_cpu.supported_isas():
        with repdl_cpu.use_isa(isa):
            for case in made:
                run(case, "v1", ops[case.op])
    print(len(made), "cases")


if __name__ == "__main__":
    main(sys.argv[1:])
