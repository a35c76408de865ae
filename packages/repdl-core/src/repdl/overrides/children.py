"""Processes that `multiprocessing` starts while `repdl.enable()` holds: workers of a DataLoader, say.

A forked one is what its parent is. One that begins anew gets its task as a pickle, which enables it first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from typing import Any

Start = tuple[Callable[..., None], tuple[str, ...]]


@contextmanager
def begun_by(start: Callable[[], Start]) -> Iterator[None]:
    """Until the end of the block, `start()` says which function a process that begins anew calls, and with what."""

    def reduce(process: Any) -> tuple[Any, ...]:
        state = process.__getstate__() if hasattr(process, "__getstate__") else process.__dict__  # Python 3.10
        return _begun, (type(process), *start()), state

    BaseProcess.__reduce__ = reduce  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        del BaseProcess.__reduce__


def _begun(kind: type[BaseProcess], function: Callable[..., None], arguments: tuple[str, ...]) -> BaseProcess:
    function(*arguments)
    return kind.__new__(kind)


__all__ = ["Start", "begun_by"]
