"""Changes of modules that are imported later, or never: the import of Dynamo takes two seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from repdl.generators.lock import ForkLock

_LOCK = ForkLock()
"""Of all changes: one is not undone while another thread makes it."""


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
        self._stack, self._state = ExitStack(), "waiting"

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self._name:
            return None
        after = sys.meta_path[sys.meta_path.index(self) + 1 :]  # which may have another change of the same module
        found = (finder.find_spec(name, path, target) for finder in after)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Entering(spec.loader, self.enter)
        return spec

    def enter(self) -> None:
        with _LOCK:
            if self._state == "waiting":
                self._stack.enter_context(self._change())
                self._state = "entered"  # not if it raises: then the import does, and may be tried again

    def leave(self) -> None:
        with _LOCK:
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
