"""Settings: a process-wide default, and scopes that belong to the thread or async task that opened them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import ParamSpec, TypeVar

from torch._compile import _disable_dynamo
from torch.compiler import is_dynamo_compiling

from repdl.settings.generation import GENERATION

_P = ParamSpec("_P")
_T = TypeVar("_T")


class _Scope:
    """A value that holds from the entry of a `with` block to its exit, in one thread."""

    __slots__ = ("open", "thread", "value")

    def __init__(self, value: str, thread: object) -> None:
        self.value, self.thread, self.open = value, thread, True


class _Thread(threading.local):
    def __init__(self) -> None:
        # No default on the class: Dynamo would guard on that one instead of the thread's.
        self.value: str | None = None


class _Owner(threading.local):
    def __init__(self) -> None:
        self.thread = object()


_OWNER = _Owner()
"""`thread`: whose scopes this thread sees, its own but in `in_scopes_of_here`."""


def in_scopes_of_here(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """A function that can be called once, by any thread, and runs in the scopes that are open now."""
    context, thread = copy_context(), _OWNER.thread

    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        before, _OWNER.thread = _OWNER.thread, thread
        try:
            return context.run(function, *args, **kwargs)
        finally:
            _OWNER.thread = before

    return call


class Setting:
    """A name that ops read at each call.

    A thread starts with the default, also where it runs in a context of another one (as free-threaded Python starts
    all, and `asyncio.to_thread` in every Python); an async task starts with the scopes of its thread that were open
    where it was created. What is opened in either is seen there alone. Blocks may end in any order: each takes out its
    own scope and no other.
    """

    def __init__(self, name: str, default: str = "") -> None:
        self.default = default
        self._scopes: ContextVar[tuple[_Scope, ...]] = ContextVar(name, default=())
        # For Dynamo, which can't read context variables and guards on attributes:
        self._anywhere = False  # whether a scope is open in the process
        self._in_tasks = 0  # how many were opened in async tasks, which share a thread
        self._thread = _Thread()
        self._count = 0
        self._lock = threading.Lock()

    def get(self) -> str:
        """The value here and now."""
        if is_dynamo_compiling():
            return self._traced()
        return (self._scopes.get() and self.scope()) or self.default

    def set_default(self, value: str) -> None:
        """Make `value` the process-wide default."""
        self.default = value
        GENERATION.advance()

    def scope(self) -> str:
        """The value of the innermost open scope, or an empty text outside of all."""
        for scope in reversed(self._scopes.get()):
            if scope.open and scope.thread is _OWNER.thread:
                return scope.value
        return ""

    @contextmanager
    def set(self, value: str) -> Iterator[None]:
        """Make `value` hold inside a `with` block."""
        entered, in_task = _Scope(value, _OWNER.thread), _in_task()
        self._scopes.set((*self._scopes.get(), entered))
        self._changed(1, in_task)
        try:
            yield
        finally:
            scopes = self._scopes.get()
            if entered in scopes and entered.thread is _OWNER.thread:
                self._scopes.set(tuple(scope for scope in scopes if scope is not entered))
            else:  # a generator that is closed by another thread: its own thread sees this flag
                entered.open = False
            self._changed(-1, in_task)

    def _changed(self, by: int, in_task: bool) -> None:
        with self._lock:
            self._count += by
            self._in_tasks += by if in_task else 0
            self._anywhere = self._count > 0
        GENERATION.hold(by)
        if not in_task:
            self._thread.value = self.scope()

    def _traced(self) -> str:
        """`get` as Dynamo follows it. Each attribute read here becomes a guard of the compiled code."""
        if not self._anywhere:
            return self.default
        if self._in_tasks or self._thread.value is None:
            return _untraced(self)
        return self._thread.value or self.default


@_disable_dynamo
def _untraced(setting: Setting) -> str:
    """`Setting.get` behind a graph break: what it reads, no guard can watch."""
    return setting.scope() or setting.default


def _in_task() -> bool:
    """Whether an event loop runs in this thread, without importing asyncio."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None
