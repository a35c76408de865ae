"""Kernels that are no longer in torch, while threads may still come to them.

A thread that has found a kernel in torch's dispatcher waits for Python's lock before it calls it, and holds no
reference meanwhile. If another thread takes the kernel out and torch frees it, the first one finds whatever has its
memory then: the kernel of another op, perhaps, and calls that.
"""

from __future__ import annotations

import functools
from collections import deque
from typing import Any

from torch import _C

_SESSIONS = 8
"""A thread would have to wait for Python's lock while as many blocks begin and end, which all give it away."""
_kept: deque[list[Any]] = deque(maxlen=_SESSIONS)


def kernel_handle(name: str, key: str) -> Any:
    """What keeps the kernel alive that an op has at a key of the dispatcher now."""
    return _C._dispatch_get_computed_kernel_for_dispatch_key(name, _key(key))


@functools.cache
def _key(name: str) -> Any:
    return _C._dispatch_key_parse(name)


def release_later(kernels: list[Any]) -> None:
    """Free what keeps them alive only after that of later sessions."""
    _kept.append(kernels)


__all__ = ["kernel_handle", "release_later"]
