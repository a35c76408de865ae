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
import itertools
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from repdl.dynamo import hide
from repdl.free_numbers import Numbers, numbers_of
from repdl.kit import kit
from repdl.places import NO_VALUES, Within, index_of, is_on_host, tensors_of, unique
from repdl.tape import Tape

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


class _Thread(threading.local):
    tape: Tape | None = None


THREAD = _Thread()
"""`tape`: where this thread records a call, if it does."""


def checked(check: Callable[..., Any], arguments: Sequence[Any], within: Within | None) -> None:
    """Where a check has read the values of tensors: it is part of a recording, and called again unless it holds that
    they are `within`, or those on a device, at which its kernels look."""
    if THREAD.tape is not None and within is not NO_VALUES and (within is None or is_on_host(within.tensor)):
        THREAD.tape.checks.append((check, arguments, within))


def drew(position: torch.Tensor, take: Callable[[int], torch.Tensor], count: int) -> None:
    """Where a call took a position, from a generator that no argument is: `take(count)` gives that of a later call."""
    if THREAD.tape is not None:
        THREAD.tape.draws.append((position, take, count))


def refuse() -> None:
    """Where a call does more than run kernels, or reads the values of tensors: it is not recorded."""
    if THREAD.tape is not None:
        THREAD.tape.refused = True


def store(source: torch.Tensor, target: torch.Tensor) -> None:
    """Copy what a call has computed into one of its tensors."""
    if THREAD.tape is not None:
        plain = source.device == target.device and source.dtype is target.dtype
        if plain and source.is_contiguous() and target.is_contiguous() and source.shape == target.shape:
            THREAD.tape.copies.append((source, target))
        else:
            refuse()
    target.copy_(source)


def wrote(target: torch.Tensor, result: torch.Tensor) -> None:
    """Where a form in place has written a result into its tensor."""
    if THREAD.tape is not None:
        THREAD.tape.written.append((target, result))


def changed(tensors: Sequence[torch.Tensor]) -> None:
    """Where an op has changed its arguments."""
    if THREAD.tape is not None:
        THREAD.tape.changed += tensors


def taped(function: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, Tape]:
    """The result of a call, and what happened in it."""
    tape = THREAD.tape = Tape()
    try:
        return function(*args, **kwargs), tape
    finally:
        THREAD.tape = None


def _record(
    function: Callable[..., Any], args: Any, kwargs: Any, differentiates: bool, has_free_numbers: bool
) -> tuple[Any, Any]:
    """The result of a call, and its recording, None, or False: not with other numbers. C calls this."""
    tensors = unique(tensors_of(args, tuple(kwargs.values())))
    versions = [-1 if t.is_inference() else t._version for t in tensors]
    result, tape = taped(function, args, kwargs)
    stored = {id(target) for _, target in tape.copies}
    tape.refused |= any(
        not t.is_inference() and t._version != version and id(t) not in stored for t, version in zip(tensors, versions)
    )
    numbers = free_numbers(function, args, kwargs, tape) if has_free_numbers else Numbers()
    return result, False if numbers is None else tape.recording(tensors, result, differentiates, numbers)


def _record_update(
    function: Callable[..., Any], args: Any, kwargs: Any, differentiates: bool, has_free_numbers: bool
) -> tuple[Any, Any]:
    """The same for `replayed_update`."""
    result, tape = taped(function, args, kwargs)
    return result, None if kwargs or differentiates else tape.update(args)


def _record_in_place(
    function: Callable[..., Any],
    write: Callable[[torch.Tensor, Any], torch.Tensor],
    args: Any,
    kwargs: Any,
    has_free_numbers: bool,
) -> tuple[Any, Any]:
    """The same for `replayed_in_place`."""
    tensors = unique(tensors_of(args, tuple(kwargs.values())))
    result, tape = taped(function, args, kwargs)
    if result is args[0]:  # which nothing is written into
        return result, None
    numbers = free_numbers(function, args, kwargs, tape) if has_free_numbers else Numbers()
    pairs = [(tensors[0], result)]
    recording = False if numbers is None else tape.recording_in_place(tensors, pairs, -2, numbers)
    return write(args[0], result), recording


def _record_each_in_place(
    function: Callable[..., Any], args: Any, kwargs: Any, differentiates: bool, has_free_numbers: bool
) -> tuple[Any, Any]:
    """The same for `replayed_each_in_place`."""
    tensors = unique(tensors_of(args))
    if differentiates or any(t.is_inference() for t in tensors):
        return function(*args, **kwargs), None
    versions = [t._version for t in tensors]
    result, tape = taped(function, args, kwargs)
    written = [target for target, _ in tape.written]
    known = all(t._version == before + (index_of(t, written) >= 0) for t, before in zip(tensors, versions))
    return result, tape.recording_in_place(tensors, tape.written, -1, Numbers()) if written and known else None


hide(record.__code__ for record in (_record, _record_update, _record_in_place, _record_each_in_place))


def free_numbers(function: Callable[..., Any], args: Any, kwargs: Any, tape: Tape) -> Numbers | None:
    """Where the numbers of a call went, found out with others in their place; None if that can't be said."""
    values = *args, *kwargs.values()
    given = [value for value in values if type(value) is float]
    if tape.draws or any(type(v) is float for value in values if isinstance(value, (list, tuple)) for v in value):
        return None
    is_free, sizes = kit().Call.is_free, {abs(value) for value in given}
    unused = (size for size in (0.61 + n / 64 for n in itertools.count()) if size not in sizes)
    others = [math.copysign(next(unused), value) if is_free(value) else value for value in given]
    if others == given:
        return Numbers()
    left = iter(others)
    changed = [next(left) if type(value) is float else value for value in args]
    named = {name: next(left) if type(value) is float else value for name, value in kwargs.items()}
    return numbers_of(given, others, tape, taped(function, changed, named)[1])


def node_of_recording() -> dict[str, Any]:
    """`forward` and `backward` of a node of autograd whose arguments are the tensors of a recorded call, and its
    recording."""
    native = kit()
    return {} if native is None else {n: staticmethod(getattr(native.Recording, n)) for n in ("forward", "backward")}


def as_node(function: Any) -> Any:
    """`apply` of a function of autograd with those members, whose nodes call `backward` at once: torch's method of a
    node looks first for what else it might call."""
    native = kit()
    if native is not None and hasattr(function, "_backward_cls"):
        function._backward_cls.apply = native.Recording.node_method()
    return function.apply


def replayed(function: Function) -> Function:
    """`function` with the fast way before it; also a decorator for functions of other projects.

    What it does besides calling ops may depend on the arguments and on settings, never on the values of
    tensors, and it changes none of its tensors.
    """
    return _replayed(function, _record, False)


def replayed_numbers(function: Function) -> Function:
    """The same for a function that sees no more of a floating-point number than its sign, and whether it is 0 or 1, is
    finite and a normal number: recordings hold for other numbers too."""
    call = _replayed(function, _record, True)
    call.has_free_numbers = True  # type: ignore[attr-defined]
    return call


def replayed_update(function: Function) -> Function:
    """The same for an op that updates lists of tensors in place."""
    return _replayed(function, _record_update, True)


def replayed_in_place(
    function: Function, compute: Callable[..., Any], write: Callable[[torch.Tensor, Any], torch.Tensor]
) -> Function:
    """The same for a function that writes into its first argument what `compute` returns; `write` does that.

    Recordings hold for other numbers if those of `compute` do.
    """

    def record(
        function: Callable[..., Any], args: Any, kwargs: Any, differentiates: bool, has_free_numbers: bool
    ) -> tuple[Any, Any]:
        if differentiates:
            return function(*args, **kwargs), None
        return _record_in_place(compute, write, args, kwargs, has_free_numbers)

    hide([record.__code__])
    return _replayed(function, record, getattr(compute, "has_free_numbers", False))


def replayed_each_in_place(function: Function) -> Function:
    """The same for a function that returns nothing and calls an op in place on some of its tensors, one after the
    other; each says what it `wrote`."""
    return _replayed(function, _record_each_in_place, False)


def choice(test: str, function: Callable[..., Any], otherwise: Function) -> Function:
    """`function` for calls that pass a test in C, of plain tensors, which `otherwise` does as well.

    Args:
        test: "floating": a positional argument is a floating-point tensor; "whole": there is nothing but integers,
            booleans and options; "whole with results": the same after the keys of the dispatcher, and so are the
            results, whose dtype or memory is given; "whole number": after the keys one tensor of these; "copy" and
            "conversion": the kernels of these ops of torch, called with the keys of the dispatcher, move each number,
            or make one of an integer; with " to integers" behind it: they make integers, and what torch leaves to the
            processor is the lowest one.
    """
    native = kit()
    return otherwise if native is None else native.Choice(test, function, otherwise)  # type: ignore[no-any-return]


def apart(
    function: Callable[..., Any], otherwise: Callable[..., Any], positions: Sequence[int], names: Sequence[str]
) -> Callable[..., Any]:
    """`function` for calls of which C sees that no tensor that they write overlaps itself; `otherwise` has all others.

    Args:
        positions, names: of the arguments that are written.
    """
    native = kit()
    if native is None:
        return otherwise
    return native.Choice("apart", function, otherwise, sum(1 << i for i in positions), tuple(names))  # type: ignore[no-any-return]


def shortcut(method: Any, record: Callable[..., Any], has_free_numbers: bool) -> Any:
    """What takes the place of a method of torch.Tensor for calls without gradients, or None.

    Args:
        record: the result of a call, and its recording, None, or False: not with other numbers.
    """
    native = kit()
    if native is None:
        return None
    return functools.update_wrapper(native.Shortcut(method, record, EPOCH.cell, has_free_numbers), method, updated=())


def allow_shortcuts(allowed: bool) -> None:
    """Whether shortcuts replay anything, in whatever place they are left."""
    native = kit()
    if native is not None:
        native.Shortcut.allow(allowed)


def _replayed(function: Function, record: Callable[..., Any], has_free_numbers: bool) -> Function:
    native = kit()
    if native is None:
        return function
    call: Function = native.Call(function, record, EPOCH.cell, has_free_numbers)
    functools.update_wrapper(call, function, updated=())
    return call
