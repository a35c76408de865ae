"""Changes of modules that are imported later, or never: the import of Dynamo takes two seconds."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


@contextmanager
def when_imported(name: str, change: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Until the end of the block `change()` is entered where a module is imported: at once, or when it will be.

    Args:
        name: of the module. Whoever imports it sees it with the change.
    """
    waiting = _Waiting(name, change)
    sys.meta_path.insert(0, waiting)
    try:
        if name in sys.modules:
            waiting.enter()
        yield
    finally:
        sys.meta_path.remove(waiting)
        waiting.leave()


class _Waiting(MetaPathFinder):
    """Finds the module as Python does, and enters the change once its code has run."""

    def __init__(self, name: str, change: Callable[[], AbstractContextManager[None]]) -> None:
        self._name, self._change = name, change
        self._lock, self._stack, self._state = threading.RLock(), ExitStack(), "waiting"

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name == self._name else None
        if spec is not None and spec.loader is not None:
            spec.loader = _Entering(spec.loader, self.enter)
        return spec

    def enter(self) -> None:
        with self._lock:
            if self._state == "waiting":
                self._state = "entered"
                self._stack.enter_context(self._change())

    def leave(self) -> None:
        with self._lock:
            self._state = "left"
            self._stack.close()


class _Entering(Loader):
    """The loader of a module, which calls something after the module's code."""

    def __init__(self, loader: Loader, then: Callable[[], None]) -> None:
        self._loader, self._then = loader, then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__loader__ = module.__spec__.loader = self._loader  # as if this had not been there
        self._loader.exec_module(module)
        self._then()


__all__ = ["when_imported"]
