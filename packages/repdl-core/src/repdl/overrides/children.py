"""Processes that are started while `repdl.enable()` holds, by `multiprocessing`: workers of a DataLoader, say.

A forked one is what its parent is. One that begins anew gets its task as a pickle, which enables it first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from typing import Any


@contextmanager
def inheriting(settings: Callable[[], tuple[Any, ...]]) -> Iterator[None]:
    """Until the end of the block processes that begin anew call `enable` with the settings of their start."""

    def reduce(process: Any) -> tuple[Any, ...]:
        state = process.__getstate__() if hasattr(process, "__getstate__") else process.__dict__  # Python 3.10
        return _begun, (type(process), settings()), state

    BaseProcess.__reduce__ = reduce  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        del BaseProcess.__reduce__


def _begun(kind: type[BaseProcess], settings: tuple[Any, ...]) -> BaseProcess:
    from repdl.overrides.switch import enable  # which imports this file

    enable(*settings)
    return kind.__new__(kind)


__all__ = ["inheriting"]
