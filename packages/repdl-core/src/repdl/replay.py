"""The fast way of a call: kernels that a call ran are recorded, and run again on other tensors.

Checks, broadcasting, layouts, the choice of a backend: all that the Python of a function finds out depends
on sizes, strides, dtypes, numbers and settings, not on the values of tensors. So the second call of a
signature is recorded, and those after it go straight to the kernels. The functions stay the one definition of
what is computed and which errors are raised: whatever is unusual (a mode or transform of torch, autocast, an
open `use_contract` block, a subclass, ...) and every call that was not recorded takes their way.

The loop is in C (`repdl/python/call.hpp`), which native backends bring (entry points `repdl.call`); without
one, and with torch < 2.10, functions are called as they are.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])


class _Epoch:
    """While settings stay as they are, recordings hold."""

    def __init__(self) -> None:
        self.cell: list[object] = [object()]  # None while a scope is open anywhere
        self._now = self.cell[0]
        self._holds = 0
        self._lock = threading.Lock()

    @property
    def has_scopes(self) -> bool:
        """Whether a scope is open anywhere."""
        return self.cell[0] is None

    def end(self) -> None:
        """Forget all recordings: what they depend on has changed."""
        with self._lock:
            self._now = object()
            if not self._holds:
                self.cell[0] = self._now

    def hold(self, by: int) -> None:
        """Replay nothing from the first `hold(1)` to the last `hold(-1)`."""
        with self._lock:
            self._holds += by
            self.cell[0] = None if self._holds else self._now


EPOCH = _Epoch()


class Tape:
    """What happened in one call of a function."""

    def __init__(self) -> None:
        self.steps: list[tuple[Any, Sequence[Any], Sequence[torch.Tensor], int, int]] = []
        self.constants: list[torch.Tensor] = []
        self.derivatives: list[tuple[Callable[..., Any], Sequence[Any], Any]] = []
        self.checks: list[tuple[Callable[..., None], Sequence[Any]]] = []
        self.refused = False

    def recording(self, tensors: Sequence[torch.Tensor], result: Any, differentiates: bool) -> Any:
        """A `Recording` of the call, or None where running the kernels again is not all that it does."""
        results = result if type(result) is tuple else (result,)  # not one of torch.return_types
        if self.refused or not self.steps or not all(isinstance(r, torch.Tensor) for r in results):
            return None
        if not all(hasattr(step[0], "kept_1") for step in self.steps):
            return None  # built with another version of the kit
        gradient = None
        if differentiates:
            if len(self.derivatives) != 1:
                return None
            apply, arguments, output = self.derivatives[0]
            item = _index(result, output) if isinstance(output, tuple) and output is not result else -1
            template = _template(arguments, tensors)
            if template is None or (item < 0 and output is not result):
                return None
            gradient = apply, template, item
            tensors, result = _tensors(arguments), output
            results = result if type(result) is tuple else (result,)
        elif self.derivatives:
            return None
        written = [output for _, _, outputs, _, _ in self.steps for output in outputs]
        if max(len(written), len(self.constants)) > _native().MOST_TENSORS:
            return None
        sources = [*tensors, *written, *self.constants]
        if any(not s.is_inference() and s._version for s in written):
            return None  # something else wrote there too
        given = [a for _, arguments, _, _, _ in self.steps for a in arguments if isinstance(a, torch.Tensor)]
        places = {id(t): _place(t, sources) for t in (*given, *written)}
        where = [_place(r, written) for r in results]
        if None in places.values() or any(w is None or w[1] for w in where):
            return None
        fresh = list(written)
        for (index, _), r in zip(where, results):  # type: ignore[misc]
            if r is not written[index] and (differentiates or r.nbytes != written[index].nbytes):
                return None
            fresh[index] = r  # a view of all of it, as which it is allocated
        if len({index for index, _ in where}) < len(where):  # type: ignore[misc]
            return None
        checks = tuple((check, _template(arguments, tensors)) for check, arguments in self.checks)
        if any(template is None for _, template in checks):
            return None
        steps = tuple(
            (kernel, tuple(arguments), tuple(outputs), tuple(places[id(t)] for t in _tensors(arguments, outputs)), *at)
            for kernel, arguments, outputs, *at in self.steps
        )
        numbers = tuple(index for index, _ in where)  # type: ignore[misc]
        return _native().Recording(
            checks,
            steps,
            tuple(_prototype(t) for t in fresh),
            tuple(self.constants),
            numbers if type(result) is tuple else numbers[0],
            gradient,
        )


def _tensors(*groups: Sequence[Any]) -> list[torch.Tensor]:
    return [value for group in groups for value in group if isinstance(value, torch.Tensor)]


def _index(value: Any, tensors: Sequence[torch.Tensor]) -> int:
    return next((i for i, t in enumerate(tensors) if t is value), -1)


def _template(arguments: Sequence[Any], tensors: Sequence[torch.Tensor]) -> tuple[tuple[int, Any], ...] | None:
    """Arguments as (number of a tensor, None) or (-1, constant); None where one is a tensor of its own."""
    pairs = [(_index(a, tensors), a) for a in arguments]
    if any(index < 0 and isinstance(a, torch.Tensor) for index, a in pairs):
        return None
    return tuple((index, None if index >= 0 else a) for index, a in pairs)


def _place(tensor: torch.Tensor, sources: Sequence[torch.Tensor]) -> tuple[int, int] | None:
    """Where the memory of a tensor is: number of a source, and bytes from there; None: in none, or more than one."""
    index = _index(tensor, sources)
    if index >= 0:
        return index, 0
    storage = tensor.untyped_storage()._cdata
    found = [i for i, s in enumerate(sources) if s.untyped_storage()._cdata == storage]
    if len(found) != 1 or tensor.numel() == 0:
        return None
    return found[0], tensor.data_ptr() - sources[found[0]].data_ptr()


def _prototype(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the same sizes, strides, dtype and device without memory."""
    with torch.inference_mode(False):
        prototype = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
        prototype.untyped_storage().resize_(0)
    return prototype


class _Thread(threading.local):
    tape: Tape | None = None


THREAD = _Thread()
"""`tape`: where this thread records a call, if it does."""


def checked(check: Callable[..., None], arguments: Sequence[Any]) -> None:
    """Where a check has read the values of tensors: it is part of a recording."""
    if THREAD.tape is not None:
        THREAD.tape.checks.append((check, arguments))


def refuse() -> None:
    """Where a call does more than run kernels, or reads the values of tensors: it is not recorded."""
    if THREAD.tape is not None:
        THREAD.tape.refused = True


def _record(function: Callable[..., Any], args: Any, kwargs: Any, differentiates: bool) -> tuple[Any, Any]:
    """The result of a call, and its recording or None. C calls this."""
    tensors: list[torch.Tensor] = []
    for value in _tensors(args, tuple(kwargs.values())):
        if _index(value, tensors) < 0:
            tensors.append(value)
    versions = [-1 if t.is_inference() else t._version for t in tensors]
    tape = THREAD.tape = Tape()
    try:
        result = function(*args, **kwargs)
    finally:
        THREAD.tape = None
    tape.refused |= versions != [-1 if t.is_inference() else t._version for t in tensors]
    return result, tape.recording(tensors, result, differentiates)


@functools.cache
def _native() -> Any:
    """The extension module with `Call` and `Recording`, or None."""
    for point in entry_points(group="repdl.call"):
        try:
            module = point.load()
        except Exception:  # the backend that it belongs to reports why
            continue
        if hasattr(module, "Call"):
            module.Call.define_call(_traced)
            return module
    return None


def _traced(self: Any, *args: Any, **kwargs: Any) -> Any:
    """What a call does, for torch.compile, which can't read it in C."""
    return self.__wrapped__(*args, **kwargs)


def replayed(function: Function) -> Function:
    """`function` with the fast way before it; also a decorator for functions of other projects.

    What it does besides calling ops may depend on the arguments and on settings, never on the values of
    tensors, and it changes none of its tensors.
    """
    native = _native()
    if native is None:
        return function
    call: Function = native.Call(function, _record, EPOCH.cell)
    functools.update_wrapper(call, function, updated=())
    return call
