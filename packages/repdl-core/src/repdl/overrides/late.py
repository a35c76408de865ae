"""Ops and kernels that are registered while `repdl.enable()` holds."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.machinery import ExtensionFileLoader
from typing import Any

import torch

from repdl.registry.schema import LIBRARIES

Library = torch.library.Library


@contextmanager
def watched(loaded: Callable[[], None], registered: Callable[[str, str], None]) -> Iterator[None]:
    """Say what comes: until the end of the block, in all threads.

    Args:
        loaded: called after a library was loaded, by `torch.ops.load_library`, ctypes or as a module of Python.
        registered: called with the name of an op and a key of the dispatcher, after Python put a kernel there.
    """

    def of_library(library: Library, op_name: Any, fn: Any, dispatch_key: str = "", **kwargs: Any) -> None:
        if library not in LIBRARIES.values():
            name = op_name if isinstance(op_name, str) else op_name.name()
            registered(name if "::" in name else f"{library.ns}::{name}", dispatch_key or library.dispatch_key)

    with ExitStack() as stack:
        stack.enter_context(_followed(Library, "impl", of_library))
        for owner, name in ((ctypes.CDLL, "__init__"), (ExtensionFileLoader, "exec_module")):
            stack.enter_context(_followed(owner, name, lambda *args, **kwargs: loaded()))
        yield


@contextmanager
def _followed(owner: type, name: str, after: Callable[..., None]) -> Iterator[None]:
    """Each call of a method is followed by one of `after` with the same arguments."""
    method = getattr(owner, name)

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = method(*args, **kwargs)
        after(*args, **kwargs)
        return result

    setattr(owner, name, call)
    try:
        yield
    finally:
        setattr(owner, name, method)


__all__ = ["watched"]
