"""Backends: what they are, how they are found, and which one computes a call.

A call is served by op, device and dtype: of the backends for the device of its tensors the
one with the highest priority that has a kernel for the dtype, or the one that was asked for
by name, which raises for what it lacks.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

import torch

from repdl.errors import BackendError, DTypeError, SlowBackendWarning, UnavailableError
from repdl.settings.generation import GENERATION
from repdl.settings.scopes import Setting

Implementation = Callable[..., Any]


@dataclass
class Backend:
    """A set of implementations for one device type.

    Args:
        name: what `use_backend` and `REPDL_BACKEND` call it; the entry point's name.
        device: the `torch.device.type` of the tensors that it takes.
        ops: op name -> implementation, a function with the arguments of the op's schema.
        priority: where several backends serve a device, the highest is picked; below 0 for
            one that is slow, and picked with a warning.
        float64: names of the ops that have a kernel for float64 too.
        describe: returns what to show of it (version, ISA, device name, ...).
    """

    name: str
    device: str
    ops: dict[str, Implementation]
    priority: int = 0
    describe: Callable[[], Mapping[str, str]] = dict
    float64: Collection[str] = ()


@dataclass(frozen=True)
class BackendInfo:
    """One row of `repdl.backends()`. `error` is why it could not be loaded, or None; `broken` whether that is a fault,
    and not a device that is not there."""

    name: str
    device: str
    ops: int
    priority: int
    error: str | None
    details: Mapping[str, str]
    broken: bool = False


class Backends:
    """The backends of a process, and the implementation that serves each kind of call."""

    def __init__(self) -> None:
        self._loaded: dict[str, Backend] = {}
        self._failed: dict[str, BaseException] = {}
        self._added: dict[tuple[str, str], Implementation] = {}  # op, backend -> one that `implement` brought
        self._chosen: dict[tuple[str, str, torch.dtype, str], Implementation] = {}
        self.formulas: dict[str, Implementation] = {}  # of ops that backends need no kernel for
        self._setting = Setting("repdl.backend", os.environ.get("REPDL_BACKEND", ""))
        self._discovered = False
        self._lock = threading.RLock()

    def serve(self, op: str, device: str, dtype: torch.dtype) -> Implementation:
        """The implementation that computes a call of `op` on tensors of that device and dtype.

        Args:
            dtype: that of the arithmetic, float32 with 16-bit storage; float32 for an op
                without floating-point tensors.

        Raises:
            BackendError: if no backend for the device is installed or has the op.
            DTypeError: if those that have the op have no kernel for the dtype.
        """
        asked = self._setting.get()
        found = self._chosen.get((op, device, dtype, asked))
        return found or self._choose(op, device, dtype, asked)

    def _choose(self, op: str, device: str, dtype: torch.dtype, asked: str) -> Implementation:
        with self._lock:
            candidates = [self._asked(op, device, asked)] if asked else self._for_device(op, device)
            having = [backend for backend in candidates if op in self.kernels(backend)]
            if not having and op not in self.formulas:
                names = " or ".join(backend.name for backend in candidates)
                raise BackendError(f"{op}: not implemented by {names} for {device} tensors")
            able = [backend for backend in having if self.has_kernel(backend, op, dtype)]
            if op in self.formulas and candidates[0] not in able:
                self._chosen[op, device, dtype, asked] = self.formulas[op]
                return self.formulas[op]
            if not able:
                raise _no_kernel(op, having, dtype)
            if able[0].priority < 0 and not asked:
                _warn_slow(op, able[0], candidates, device)
            implementation = self.kernels(able[0])[op]
            self._chosen[op, device, dtype, asked] = implementation
            return implementation

    def _asked(self, op: str, device: str, name: str) -> Backend:
        backend = self.get(name)
        if backend.device != device:
            raise BackendError(
                f"{op}: backend {name!r} takes {backend.device} tensors, got {device}; "
                f"move the tensors or choose another backend"
            )
        if op == "cast" and op not in self.kernels(backend):
            # 16-bit storage needs no cast of the backend's own: every backend's has the same bits.
            return next((b for b in self._for_device(op, device) if op in self.kernels(b)), backend)
        return backend

    def _for_device(self, op: str, device: str) -> list[Backend]:
        """The backends for a device, highest priority first."""
        self._discover()
        if device in self._failed:
            self.get(device)
        found = [backend for backend in self._loaded.values() if backend.device == device]
        if not found:
            raise BackendError(f"{op}: no backend for {device} tensors is installed; {_brought_by(device)}")
        return sorted(found, key=lambda backend: -backend.priority)

    def kernels(self, backend: Backend) -> dict[str, Implementation]:
        """Op name -> implementation, the backend's own and those that `implement` added."""
        added = {op: function for (op, name), function in self._added.items() if name == backend.name}
        return {**backend.ops, **added}

    def has_kernel(self, backend: Backend, op: str, dtype: torch.dtype) -> bool:
        """Whether the backend computes `op`, which it implements, on tensors of `dtype`."""
        return dtype is not torch.float64 or op in backend.float64 or (op, backend.name) in self._added

    def get(self, name: str) -> Backend:
        """The backend of that name; see `get_backend`."""
        self._discover()
        if name in self._loaded:
            return self._loaded[name]
        if name in self._failed:
            error = self._failed[name]
            raise BackendError(
                f"backend {name!r} is installed but failed to load: {type(error).__name__}: {error}"
            ) from error
        known = ", ".join(sorted(self._loaded)) or "none"
        raise BackendError(f"backend {name!r} is not installed (installed: {known}); {_brought_by(name)}")

    def info(self) -> dict[str, BackendInfo]:
        """Every installed backend by name; see `backends`."""
        self._discover()
        rows = {
            name: BackendInfo(name, b.device, len(self.kernels(b)), b.priority, None, b.describe())
            for name, b in self._loaded.items()
        }
        for name, error in self._failed.items():
            broken = not isinstance(error, UnavailableError)
            rows[name] = BackendInfo(name, "?", 0, 0, f"{type(error).__name__}: {error}", {}, broken)
        return dict(sorted(rows.items()))

    def add(self, backend: Backend) -> None:
        with self._lock:
            self._loaded[backend.name] = backend
            self._failed.pop(backend.name, None)
            self._forget()

    def remove(self, name: str) -> None:
        with self._lock:
            self._loaded.pop(name, None)
            self._forget()

    def implement(self, op: str, backend: str, function: Implementation) -> None:
        with self._lock:
            self._added[op, backend] = function
            self._forget()

    def forget(self, op: str) -> None:
        """Take out what `implement` added for an op."""
        with self._lock:
            self._added = {key: function for key, function in self._added.items() if key[0] != op}
            self._forget()

    def _forget(self) -> None:
        self._chosen.clear()
        GENERATION.advance()

    def set_default(self, name: str) -> None:
        """Make `name` the process-wide choice, also of processes that are started later; "" is none."""
        if name:
            self.get(name)
        self._setting.set_default(name)
        if name:
            os.environ["REPDL_BACKEND"] = name
        else:
            os.environ.pop("REPDL_BACKEND", None)

    def scope(self) -> str:
        """The backend of the innermost `use_backend` block, or an empty text."""
        return self._setting.scope()

    def use(self, name: str) -> Any:
        """A context in which that backend computes."""
        return self._setting.set(name)

    def _discover(self) -> None:
        """Load the entry points of `repdl.backends` once; a failure is kept, not raised."""
        if self._discovered:
            return
        with self._lock:  # others wait until all are loaded
            if self._discovered:
                return
            for point in entry_points(group="repdl.backends"):
                if point.name in self._loaded:
                    continue
                try:
                    backend = point.load()
                    if not isinstance(backend, Backend):
                        raise TypeError(f"{point.value} is a {type(backend).__name__}, expected repdl.Backend")
                    self._loaded[point.name] = backend
                except Exception as error:
                    self._failed[point.name] = error
            self._discovered = True


_OWN = {"cpu": "repdl-cpu", "cuda": "repdl-cuda", "cuda-emulated": "repdl-cuda"}
"""RepDL's backends and devices, and the packages that bring them."""


def _brought_by(name: str) -> str:
    """Where a backend, or one for a device, comes from. No package is named after what a user wrote: it may be
    anybody's."""
    if name in _OWN:
        return f"the package {_OWN[name]} brings it"
    own = " and ".join(dict.fromkeys(_OWN.values()))
    return f"RepDL's come with {own}, other projects' by the entry-point group repdl.backends"


def _no_kernel(op: str, having: Collection[Backend], dtype: torch.dtype) -> DTypeError:
    names = " and ".join(repr(backend.name) for backend in having)
    plural = "s" if len(having) > 1 else ""
    have = "have" if plural else "has"
    return DTypeError(
        f"{op}: backend{plural} {names} {have} no kernel for {str(dtype).removeprefix('torch.')} yet, "
        f"expected float32; repdl.use_backend('reference') computes it, slowly"
    )


_warned: set[str] = set()


def _warn_slow(op: str, slow: Backend, candidates: Collection[Backend], device: str) -> None:
    """Once a device, or once an op that the native backends lack: that a slow one computes."""
    native = [backend.name for backend in candidates if backend.priority >= 0]
    what = f"{op}: not implemented by {' or '.join(native)} for these tensors, so" if native else "repdl:"
    if (what if native else device) not in _warned:
        _warned.add(what if native else device)
        remedy = "" if native or device not in _OWN else f"install {_OWN[device]}, or "
        warnings.warn(
            f"{what} the {slow.name} backend computes for {device} tensors, thousands of times slower than native "
            f"code; {remedy}choose it yourself with repdl.set_backend({slow.name!r})",
            SlowBackendWarning,
            stacklevel=2,
        )


BACKENDS = Backends()


def register_backend(backend: Backend) -> None:
    """Add a backend without an entry point (for tests and notebooks)."""
    BACKENDS.add(backend)


def unregister_backend(name: str) -> None:
    """Take a backend out again."""
    BACKENDS.remove(name)


def backends() -> dict[str, BackendInfo]:
    """Every installed backend by name, the ones that failed to load included."""
    return BACKENDS.info()


def get_backend(name: str) -> Backend:
    """The backend of that name.

    Raises:
        BackendError: if it is not installed, or failed to load (with the cause).
    """
    return BACKENDS.get(name)


def set_backend(name: str | None) -> None:
    """Compute every op with backend `name`, process-wide; None picks by op, device and dtype again.

    `use_backend` blocks go before it. Processes that are started afterwards have it too: it
    is passed on as `REPDL_BACKEND`.

    Raises:
        BackendError: if the backend is not installed or failed to load.
    """
    BACKENDS.set_default(name or "")


@contextmanager
def use_backend(name: str) -> Iterator[Backend]:
    """Compute every op with backend `name` inside a `with` block, in the thread or async task
    that enters it. A derivative is computed by the backend of its forward, wherever it runs.

    Raises:
        BackendError: if the backend is not installed or failed to load.
    """
    backend = BACKENDS.get(name)
    with BACKENDS.use(name):
        yield backend


def has_kernel(backend: Backend, op: str, dtype: torch.dtype) -> bool:
    """Whether the backend computes `op`, which it implements, on tensors of `dtype`."""
    return BACKENDS.has_kernel(backend, op, dtype)
