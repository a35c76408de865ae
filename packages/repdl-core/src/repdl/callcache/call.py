"""Functions whose calls are cached, and how a call is recorded: it is traced once, by the functions below."""

from __future__ import annotations

import functools
import itertools
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from repdl.callcache.extension import c_extension
from repdl.callcache.scalars import VariableScalars, match_scalars
from repdl.callcache.spans import NOT_READ, ValueRange, index_of, is_on_host, tensors_of, unique
from repdl.callcache.trace import Trace
from repdl.dynamo import set_dynamo_skip
from repdl.settings.generation import GENERATION

Function = TypeVar("Function", bound=Callable[..., Any])


class _Thread(threading.local):
    trace: Trace | None = None


THREAD = _Thread()
"""`trace`: where this thread records a call, if it does."""


def record_check(check: Callable[..., Any], arguments: Sequence[Any], within: ValueRange | None) -> None:
    """Where a check has read the values of tensors: it is part of a recording, and called again unless it holds that
    they are `within`, or those on a device, at which its kernels look."""
    if THREAD.trace is not None and within is not NOT_READ and (within is None or is_on_host(within.tensor)):
        THREAD.trace.checks.append((check, arguments, within))


def record_draw(position: torch.Tensor, take: Callable[[int], torch.Tensor], count: int) -> None:
    """Where a call took a position, from a generator that no argument is: `take(count)` gives that of a later call.

    The last that is said of a position holds.
    """
    if THREAD.trace is not None:
        draws = THREAD.trace.draws
        draws[:] = [*(draw for draw in draws if draw[0] is not position), (position, take, count)]


def do_not_cache() -> None:
    """Where a call does more than run kernels, or reads the values of tensors: it is not recorded."""
    if THREAD.trace is not None:
        THREAD.trace.refused = True


def copy_result(source: torch.Tensor, target: torch.Tensor) -> None:
    """Copy what a call has computed into one of its tensors."""
    if THREAD.trace is not None:
        plain = source.device == target.device and source.dtype is target.dtype
        if plain and source.is_contiguous() and target.is_contiguous() and source.shape == target.shape:
            THREAD.trace.copies.append((source, target))
        else:
            do_not_cache()
    target.copy_(source)


def record_write(target: torch.Tensor, result: torch.Tensor) -> None:
    """Where a form in place has written a result into its tensor."""
    if THREAD.trace is not None:
        THREAD.trace.written.append((target, result))


def record_change(tensors: Sequence[torch.Tensor]) -> None:
    """Where an op has changed its arguments."""
    if THREAD.trace is not None:
        THREAD.trace.changed += tensors


def trace_call(function: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, Trace]:
    """The result of a call, and what happened in it."""
    trace = THREAD.trace = Trace()
    try:
        return function(*args, **kwargs), trace
    finally:
        THREAD.trace = None


def _record(
    function: Callable[..., Any], args: Any, kwargs: Any, differentiates: bool, variable_scalars: bool
) -> tuple[Any, Any]:
    """The result of a call, and its recording, None, or False: not with other scalars. C calls this."""
    tensors = unique(tensors_of(args, tuple(kwargs.values())))
    versions = [-1 if t.is_inference() else t._version for t in tensors]
    result, trace = trace_call(function, args, kwargs)
    stored = {id(target) for _, target in trace.copies}
    trace.refused |= any(
        not t.is_inference() and t._version != version and id(t) not in stored for t, version in zip(tensors, versions)
    )
    scalars = find_variable_scalars(function, args, kwargs, trace) if variable_scalars else VariableScalars()
    return result, False if scalars is None else trace.recording(tensors, result, differentiates, scalars)


def _record_update(
    function: Callable[..., Any], args: Any, kwargs: Any, differentiates: bool, variable_scalars: bool
) -> tuple[Any, Any]:
    """The same for `cache_update`."""
    result, trace = trace_call(function, args, kwargs)
    return result, None if kwargs or differentiates else trace.update(args)


def _record_in_place(
    function: Callable[..., Any],
    write: Callable[[torch.Tensor, Any], torch.Tensor],
    args: Any,
    kwargs: Any,
    variable_scalars: bool,
) -> tuple[Any, Any]:
    """The same for `cache_in_place`."""
    tensors = unique(tensors_of(args, tuple(kwargs.values())))
    result, trace = trace_call(function, args, kwargs)
    if result is args[0]:  # which nothing is written into
        return result, None
    scalars = find_variable_scalars(function, args, kwargs, trace) if variable_scalars else VariableScalars()
    pairs = [(tensors[0], result)]
    recording = False if scalars is None else trace.recording_in_place(tensors, pairs, -2, scalars)
    return write(args[0], result), recording


def _record_each_in_place(
    function: Callable[..., Any], args: Any, kwargs: Any, differentiates: bool, variable_scalars: bool
) -> tuple[Any, Any]:
    """The same for `cache_foreach_in_place`."""
    tensors = unique(tensors_of(args))
    if differentiates or any(t.is_inference() for t in tensors):
        return function(*args, **kwargs), None
    versions = [t._version for t in tensors]
    result, trace = trace_call(function, args, kwargs)
    written = [target for target, _ in trace.written]
    known = all(t._version == before + (index_of(t, written) >= 0) for t, before in zip(tensors, versions))
    return result, trace.recording_in_place(
        tensors, trace.written, -1, VariableScalars()
    ) if written and known else None


set_dynamo_skip(record.__code__ for record in (_record, _record_update, _record_in_place, _record_each_in_place))


def find_variable_scalars(function: Callable[..., Any], args: Any, kwargs: Any, trace: Trace) -> VariableScalars | None:
    """Where the scalars of a call went, found out with others in their place; None if that can't be said."""
    values = *args, *kwargs.values()
    given = [value for value in values if type(value) is float]
    if trace.draws or any(type(v) is float for value in values if isinstance(value, (list, tuple)) for v in value):
        return None
    is_free, sizes = c_extension().Call.is_free, {abs(value) for value in given}
    unused = (size for size in (0.61 + n / 64 for n in itertools.count()) if size not in sizes)
    others = [math.copysign(next(unused), value) if is_free(value) else value for value in given]
    if others == given:
        return VariableScalars()
    left = iter(others)
    changed = [next(left) if type(value) is float else value for value in args]
    named = {name: next(left) if type(value) is float else value for name, value in kwargs.items()}
    return match_scalars(given, others, trace, trace_call(function, changed, named)[1])


def recorded_node_methods() -> dict[str, Any]:
    """`forward` and `backward` of a node of autograd whose arguments are the tensors of a recorded call, and its
    recording."""
    native = c_extension()
    return {} if native is None else {n: staticmethod(getattr(native.Recording, n)) for n in ("forward", "backward")}


def as_node(function: Any) -> Any:
    """`apply` of a function of autograd with those members, whose nodes call `backward` at once: torch's method of a
    node looks first for what else it might call."""
    native = c_extension()
    if native is not None and hasattr(function, "_backward_cls"):
        function._backward_cls.apply = native.Recording.node_method()
    return function.apply


def cache_calls(function: Function) -> Function:
    """`function` with the call cache before it; also a decorator for functions of other projects.

    What it does besides calling ops may depend on the arguments and on settings, never on the values of
    tensors, and it changes none of its tensors.
    """
    return _cached(function, _record, False)


def cache_variable_scalars(function: Function) -> Function:
    """The same for a function that sees no more of a floating-point number than its sign, and whether it is 0 or 1, is
    finite and a normal number: recordings hold for other scalars too."""
    call = _cached(function, _record, True)
    call.variable_scalars = True  # type: ignore[attr-defined]
    return call


def cache_update(function: Function) -> Function:
    """The same for an op that updates lists of tensors in place."""
    return _cached(function, _record_update, True)


def cache_in_place(
    function: Function, compute: Callable[..., Any], write: Callable[[torch.Tensor, Any], torch.Tensor]
) -> Function:
    """The same for a function that writes into its first argument what `compute` returns; `write` does that.

    Recordings hold for other scalars if those of `compute` do.
    """

    def record(
        function: Callable[..., Any], args: Any, kwargs: Any, differentiates: bool, variable_scalars: bool
    ) -> tuple[Any, Any]:
        if differentiates:
            return function(*args, **kwargs), None
        return _record_in_place(compute, write, args, kwargs, variable_scalars)

    set_dynamo_skip([record.__code__])
    return _cached(function, record, getattr(compute, "variable_scalars", False))


def cache_foreach_in_place(function: Function) -> Function:
    """The same for a function that returns nothing and calls an op in place on some of its tensors, one after the
    other; each says what it `wrote`."""
    return _cached(function, _record_each_in_place, False)


def guard(test: str, function: Callable[..., Any], otherwise: Function) -> Function:
    """`function` for calls that pass a test in C, of plain tensors, which `otherwise` does as well.

    Args:
        test: "floating": a positional argument is a floating-point tensor; "whole": there is nothing but integers,
            booleans and options; "whole with results": the same after the keys of the dispatcher, and so are the
            results, whose dtype or memory is given; "whole number": after the keys one tensor of these; "copy" and
            "conversion": the kernels of these ops of torch, called with the keys of the dispatcher, move each number,
            or make one of an integer; with " to integers" behind it: they make integers, and what torch leaves to the
            processor is the lowest one.
    """
    native = c_extension()
    return otherwise if native is None else native.Choice(test, function, otherwise)


def guard_overlap(
    function: Callable[..., Any], otherwise: Callable[..., Any], positions: Sequence[int], names: Sequence[str]
) -> Callable[..., Any]:
    """`function` for calls of which C sees that no tensor that they write overlaps itself; `otherwise` has all others.

    Args:
        positions, names: of the arguments that are written.
    """
    native = c_extension()
    if native is None:
        return otherwise
    return native.Choice("apart", function, otherwise, sum(1 << i for i in positions), tuple(names))


def shortcut(method: Any, record: Callable[..., Any], variable_scalars: bool) -> Any:
    """What takes the place of a method of torch.Tensor for calls without gradients, or None.

    Args:
        record: the result of a call, and its recording, None, or False: not with other scalars.
    """
    native = c_extension()
    if native is None:
        return None
    return functools.update_wrapper(
        native.Shortcut(method, record, GENERATION.cell, variable_scalars), method, updated=()
    )


def allow_shortcuts(allowed: bool) -> None:
    """Whether shortcuts replay anything, in whatever place they are left."""
    native = c_extension()
    if native is not None:
        native.Shortcut.allow(allowed)


def _cached(function: Function, record: Callable[..., Any], variable_scalars: bool) -> Function:
    native = c_extension()
    if native is None:
        return function
    call: Function = native.Call(function, record, GENERATION.cell, variable_scalars)
    functools.update_wrapper(call, function, updated=())
    return call
