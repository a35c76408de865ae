"""Functions whose calls are cached, and what records a call: C calls that for the second call of a signature."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch

from repdl.callcache.blocks import plan_blocks
from repdl.callcache.extension import c_extension
from repdl.callcache.plan import Outcome, Plan, Result
from repdl.callcache.planner import NotCacheable, plan_call, plan_in_place, plan_update
from repdl.callcache.scalars import ScalarsMatter, VariableScalars, find_variable_scalars
from repdl.callcache.spans import flat, tensors_of, unique
from repdl.callcache.trace import Write, trace_call
from repdl.dynamo import set_dynamo_skip
from repdl.settings.generation import GENERATION

Function = TypeVar("Function", bound=Callable[..., Any])

_MOST_TENSORS = 64
"""Of a call that makes new tensors, those in lists too: where each memory is from is found by comparing it with all."""


def outcome(result: Any, plan: Callable[[], Plan]) -> Outcome:
    """What C gets of a call: its result, with a recording if there is a plan of it."""
    try:
        return Outcome(result, c_extension().Recording(plan()))
    except ScalarsMatter:
        return Outcome(result, needs_scalars=True)
    except NotCacheable:
        return Outcome(result)


def _record(
    function: Callable[..., Any], args: Any, kwargs: Any, differentiates: bool, variable_scalars: bool
) -> Outcome:
    tensors = unique(tensors_of(args, tuple(kwargs.values())))
    if len(flat((*args, *kwargs.values()))) > _MOST_TENSORS:
        return Outcome(function(*args, **kwargs))
    versions = [-1 if t.is_inference() else t._version for t in tensors]
    result, trace = trace_call(function, args, kwargs)
    stored = {id(copy.target) for copy in trace.copies}
    trace.is_cacheable &= all(
        t.is_inference() or t._version == version or id(t) in stored for t, version in zip(tensors, versions)
    )

    def plan() -> Plan:
        scalars = find_variable_scalars(function, args, kwargs, trace) if variable_scalars else VariableScalars()
        return plan_call(trace, tensors, result, differentiates, scalars)

    return outcome(result, plan)


def _record_update(
    function: Callable[..., Any], args: Any, kwargs: Any, differentiates: bool, variable_scalars: bool
) -> Outcome:
    """The same for `cache_update`."""
    result, trace = trace_call(function, args, kwargs)
    return Outcome(result) if kwargs or differentiates else outcome(result, lambda: plan_update(trace, args))


def _record_in_place(
    function: Callable[..., Any],
    write: Callable[[torch.Tensor, Any], torch.Tensor],
    args: Any,
    kwargs: Any,
    variable_scalars: bool,
) -> Outcome:
    """The same for `cache_in_place`."""
    tensors = unique(tensors_of(args, tuple(kwargs.values())))
    result, trace = trace_call(function, args, kwargs)
    if result is args[0]:  # which nothing is written into
        return Outcome(result)

    def plan() -> Plan:
        scalars = find_variable_scalars(function, args, kwargs, trace) if variable_scalars else VariableScalars()
        return plan_in_place(trace, tensors, [Write(tensors[0], result)], Result("argument", 0), scalars)

    found = outcome(result, plan)
    return replace(found, result=write(args[0], result))


def _record_foreach_in_place(
    function: Callable[..., Any], args: Any, kwargs: Any, differentiates: bool, variable_scalars: bool
) -> Outcome:
    """The same for `cache_foreach_in_place`."""
    tensors = unique(tensors_of(args))
    if differentiates or any(t.is_inference() for t in tensors):
        return Outcome(function(*args, **kwargs))
    versions = [t._version for t in tensors]
    result, trace = trace_call(function, args, kwargs)
    targets = {id(write.target) for write in trace.writes}
    known = all(t._version == version + (id(t) in targets) for t, version in zip(tensors, versions))
    if not targets or not known:
        return Outcome(result)
    return outcome(result, lambda: plan_in_place(trace, tensors, trace.writes, Result("none"), VariableScalars()))


def _record_blocks(
    function: Callable[..., Any], args: Any, kwargs: Any, differentiates: bool, variable_scalars: bool
) -> Outcome:
    """The same for `cache_blocks`."""
    if not (kwargs or differentiates):
        result = function(*args)
        try:
            return Outcome(result, c_extension().Recording(plan_blocks(function, args, result)))
        except NotCacheable:
            pass
    return _record(function, args, kwargs, differentiates, variable_scalars)


set_dynamo_skip(
    record.__code__ for record in (_record, _record_update, _record_in_place, _record_foreach_in_place, _record_blocks)
)


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


def cache_blocks(function: Function) -> Function:
    """The same for a function of pointwise ops alone, whose kernels run block by block on long tensors."""
    return _cached(function, _record_blocks, False)


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
    ) -> Outcome:
        if differentiates:
            return Outcome(function(*args, **kwargs))
        return _record_in_place(compute, write, args, kwargs, variable_scalars)

    set_dynamo_skip([record.__code__])
    return _cached(function, record, getattr(compute, "variable_scalars", False))


def cache_foreach_in_place(function: Function) -> Function:
    """The same for a function that returns nothing and calls an op in place on some of its tensors, one after the
    other; each calls `record_write`."""
    return _cached(function, _record_foreach_in_place, False)


def _cached(function: Function, record: Callable[..., Outcome], variable_scalars: bool) -> Function:
    native = c_extension()
    if native is None:
        return function
    call: Function = native.Call(function, record, GENERATION.cell, variable_scalars)
    functools.update_wrapper(call, function, updated=())
    return call


def shortcut(method: Any, record: Callable[..., Outcome], variable_scalars: bool) -> Any:
    """What takes the place of a method of torch.Tensor for calls without gradients, or None."""
    native = c_extension()
    if native is None:
        return None
    call = native.Shortcut(method, record, GENERATION.cell, variable_scalars)
    return functools.update_wrapper(call, method, updated=())


def allow_shortcuts(allowed: bool) -> None:
    """Whether shortcuts replay anything, in whatever place they are left."""
    native = c_extension()
    if native is not None:
        native.Shortcut.allow(allowed)


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


def guard(name: str, function: Callable[..., Any], otherwise: Function) -> Function:
    """`function` for calls of plain tensors that pass a guard in C, which `otherwise` does as well.

    Args:
        name: "floating": a positional argument is a floating-point tensor; "whole": there is nothing but integers,
            booleans and options; "whole with results": the same after the keys of the dispatcher, and so are the
            results, whose dtype or memory is given; "whole number": after the keys one tensor of these; "copy" and
            "conversion": the kernels of these ops of torch, called with the keys of the dispatcher, move each number,
            or make one of an integer; with " to integers" behind it: they make integers, and what torch leaves to the
            processor is the lowest one.
    """
    native = c_extension()
    if native is None:
        return otherwise
    return native.GuardedFunction(name, function, otherwise)


def guard_overlap(
    function: Callable[..., Any], otherwise: Callable[..., Any], positions: Sequence[int], names: Sequence[str]
) -> Callable[..., Any]:
    """`function` if C sees that no written tensor overlaps itself, else `otherwise`.

    Args:
        positions, names: of the arguments that are written.
    """
    native = c_extension()
    if native is None:
        return otherwise
    mask = sum(1 << i for i in positions)
    return native.GuardedFunction("apart", function, otherwise, mask, tuple(names))
