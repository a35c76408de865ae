"""Other floating-point environments of a thread, as a caller may have set them."""

from __future__ import annotations

import ctypes
import ctypes.util
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

import torch

DIRECTIONS = {
    "x86_64": {"down": 0x400, "up": 0x800, "zero": 0xC00},
    "aarch64": {"up": 0x400000, "down": 0x800000, "zero": 0xC00000},
}.get(platform.machine().replace("AMD64", "x86_64").replace("arm64", "aarch64"), {})
"""What fegetround gives, from the ABI's <fenv.h>, for the directions beside to nearest; empty where not known."""


def can_flush() -> bool:
    """Whether torch can make this processor flush subnormals."""
    return torch.set_flush_denormal(False)


@contextmanager
def flush_denormal() -> Iterator[None]:
    """Flush-to-zero on, as some training scripts set it."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


@contextmanager
def rounding(direction: str) -> Iterator[ctypes.CDLL]:
    """A rounding mode of `DIRECTIONS`; torch and Python stay usable, but not exact, inside."""
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    before = libm.fegetround()
    try:
        assert libm.fesetround(DIRECTIONS[direction]) == 0
        yield libm
    finally:
        libm.fesetround(before)


@contextmanager
def _flushing() -> Iterator[str]:
    with flush_denormal():
        yield "with flush-to-zero"


@contextmanager
def _rounding(direction: str) -> Iterator[str]:
    with rounding(direction):
        yield f"rounding {direction}"


ENVIRONMENTS: Sequence[Callable[[], AbstractContextManager[str | None]]] = (
    *(nullcontext, _flushing),
    *(partial(_rounding, direction) for direction in DIRECTIONS),
)
"""The one that a thread begins with, and the others, as settings of the parity suite."""
