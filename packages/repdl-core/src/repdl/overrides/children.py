"""Processes that a program starts while `repdl.enable()` holds: workers of a DataLoader, say.

A forked one is what its parent is. One that `multiprocessing` begins anew gets its task as a pickle, which enables it
first. If the program was enabled from its first line on (`repdl run`), so is every process: those of `multiprocessing`
before they import the main module, other ones by the environment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import spawn
from multiprocessing.process import BaseProcess
from typing import Any

Start = tuple[Callable[..., None], tuple[str, ...]]


@contextmanager
def in_children(start: Callable[[], Start]) -> Iterator[None]:
    """Until the end of the block, `start()` says which function a process that begins anew calls, and with what."""

    def reduce(process: Any) -> tuple[Any, ...]:
        state = process.__getstate__() if hasattr(process, "__getstate__") else process.__dict__  # Python 3.10
        return _begun, (type(process), *start()), state

    reduce.repdl = True  # type: ignore[attr-defined]
    BaseProcess.__reduce__ = reduce  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        del BaseProcess.__reduce__


@contextmanager
def begun_with(start: Callable[[], Start], environment: Mapping[str, str]) -> Iterator[None]:
    """The same for all that a new process does, the import of the main module included. Processes that other means
    start (`subprocess`, `torchrun`, joblib) have these variables in their environment."""
    original, before = spawn.get_preparation_data, {name: os.environ.get(name) for name in environment}

    def get_preparation_data(name: str) -> dict[str, Any]:
        return {**original(name), "repdl": _Start(*start())}  # a new process reads this before it does anything

    spawn.get_preparation_data = get_preparation_data
    os.environ.update(environment)
    try:
        yield
    finally:
        spawn.get_preparation_data = original
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class _Start:
    """What is pickled as a call of `_begun_before_main`."""

    def __init__(self, function: Callable[..., None], arguments: tuple[str, ...]) -> None:
        self._call = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return _begun_before_main, self._call


def _begun_before_main(function: Callable[..., None], arguments: tuple[str, ...]) -> None:
    imported = getattr(sys.modules["__main__"], "__name__", "") == "__mp_main__"  # as multiprocessing names it
    if imported and not hasattr(BaseProcess.__reduce__, "repdl"):
        raise RuntimeError(
            "repdl run: a process of multiprocessing has imported the main module before it could be enabled; "
            "use the start method spawn, or install repdl-core, whose file repdl_enable.pth enables every process"
        )
    function(*arguments)


def _begun(kind: type[BaseProcess], function: Callable[..., None], arguments: tuple[str, ...]) -> BaseProcess:
    function(*arguments)
    return kind.__new__(kind)


__all__ = ["Start", "begun_with", "in_children"]
