"""From the arguments of torch's schemas to those of RepDL's functions, in each form that an op has."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from repdl.callcache import cache_calls, cache_foreach_in_place, cache_in_place, record_write
from repdl.dynamo import set_dynamo_skip
from repdl.errors import UnsupportedError
from repdl.registry.aten import Override
from repdl.tensors.nested import tensors_among

Tensor = torch.Tensor
Function = Callable[..., Any]
_REDUCTIONS = "none", "mean", "sum"


def bound(name: str, override: Override, schema: Any) -> Function:
    """The override's function, taking what the dispatcher gives for a schema; outputs that are given are left out."""
    given = [a for a in schema.arguments if not a.is_out]
    parameters = [p for p in parameters_of(override.function) if p.name != "contract"]
    known = {p.name for p in parameters}
    any_name = any(p.kind is p.VAR_KEYWORD for p in parameters)
    targets: list[tuple[str, Any]] = []
    for index, argument in enumerate(given):
        target = override.renamed.get(argument.name, argument.name)
        if index == 0 and target not in known:
            target = parameters[0].name
        takes = (target in known or any_name) and argument.name not in override.ignored
        targets.append((target if takes else "", argument))
    plan = {a.name: (t, _conversion(a)) for t, a in targets}
    plan.setdefault("dtype", ("dtype", None))  # that of the memory that is given, where the schema has none
    positional = [a.name for a in given if not a.kwarg_only]
    unknown = {a.name: a.default_value for t, a in targets if not t}
    function = functools.partial(override.function, **override.given) if override.given else override.function
    direct = 0  # how many arguments are the function's first ones, as they are
    for (target, argument), parameter in zip(targets, parameters):
        known_place = target == parameter.name and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        if argument.kwarg_only or not known_place or _conversion(argument):
            break
        direct += 1
    if direct == len(positional) and all(t == a.name and not _conversion(a) for t, a in targets[direct:]):
        return function

    def call(*args: Any, **kwargs: Any) -> Any:
        if not kwargs and len(args) <= direct:
            return function(*args)
        values = dict(zip(positional, args), **kwargs)
        ours = {}
        for key, value in values.items():
            target, conversion = plan[key]
            if target:
                ours[target] = value if conversion is None else conversion(value)
            elif key not in override.ignored and value != unknown[key]:
                raise UnsupportedError(f"{name}: {key} is {value}, expected {unknown[key]}")
        return function(**ours)

    return call


@functools.cache
def parameters_of(function: Function) -> tuple[inspect.Parameter, ...]:
    """Of a function that computes several overloads of an op."""
    return tuple(inspect.signature(function).parameters.values())


def _conversion(argument: Any) -> Function | None:
    if argument.name == "reduction" and str(argument.type) == "int":
        return lambda value: _REDUCTIONS[value]
    if argument.name == "stride":
        return lambda value: value or None
    return None


def in_place(function: Function) -> Function:
    """The form whose result goes into the first argument; that is left as it is where it is the result."""

    def write(self: Tensor, result: Tensor) -> Tensor:
        if result.shape != self.shape:
            raise RuntimeError(f"output with shape {list(self.shape)} doesn't match the shape {list(result.shape)}")
        _check_cast(result, self)
        record_write(self, result)
        return self.copy_(result)

    def call(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        tracked = torch.is_grad_enabled() and any(
            isinstance(a, Tensor) and a.requires_grad for a in (self, *args, *kwargs.values())
        )
        given = self.clone() if tracked else self
        result = function(given, *args, **kwargs)
        return self if result is given else write(self, result)

    return cache_in_place(call, function, write)


def into(name: str, function: Function, outputs: Sequence[str], makes: bool = False) -> Function:
    """The form that writes into given tensors; what an op `makes` of no tensor has their dtype."""

    def uncached(*args: Any, **kwargs: Any) -> Any:
        if torch.is_grad_enabled() and any(t.requires_grad for t in tensors_among((*args, *kwargs.values()))):
            raise RuntimeError(
                f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
                f"arguments requires grad."
            )
        given = [kwargs.pop(output) for output in outputs]
        if makes:
            kwargs["dtype"] = given[0].dtype
        with torch.no_grad():
            results = function(*args, **kwargs)
            results = results if len(given) > 1 else (results,)
            for place, value in zip(given, results):
                _check_cast(value, place)
            for place, value in zip(given, results):
                _resize_and_copy(place, value)
        return given[0] if len(given) == 1 else tuple(given)

    if len(outputs) > 1 or makes:
        return uncached
    (output,) = outputs

    def compute(out: Tensor, *args: Any) -> Any:
        return function(*args)

    def write(out: Tensor, result: Tensor) -> Tensor:
        _check_cast(result, out)
        return _resize_and_copy(out, result)

    def with_output(out: Tensor, *args: Any) -> Any:
        return uncached(*args, **{output: out})

    compute.variable_scalars = getattr(function, "variable_scalars", False)  # type: ignore[attr-defined]
    cached = cache_in_place(with_output, compute, write)
    set_dynamo_skip([with_output.__code__, uncached.__code__])

    def call(*args: Any, **kwargs: Any) -> Any:
        return cached(kwargs[output], *args) if len(kwargs) == 1 else uncached(*args, **kwargs)

    return call


def _resize_and_copy(place: Tensor, value: Tensor) -> Tensor:
    if place.shape != value.shape:
        place.resize_(value.shape)
    return place.copy_(value)


def _check_cast(result: Tensor, place: Tensor) -> None:
    if result.dtype is not place.dtype and not torch.can_cast(result.dtype, place.dtype):
        raise RuntimeError(f"result type {result.dtype} can't be cast to the desired output type {place.dtype}")


_AT_ONCE, _MOST_ARGUMENTS = 24, 60
"""How many elements of lists are one call, to be replayed, and how many tensors and numbers."""


def for_each(packet: Any, lists: Sequence[bool], keyword: str | None, returns: bool) -> Function:
    """The form on lists of tensors.

    Args:
        packet: the op, all its overloads.
        lists: which positional arguments are lists with an element for each tensor.
        keyword: the name that the last positional argument has in the op, if that takes it by name only.
        returns: whether the results are returned.
    """

    @cache_calls
    def several(width: int, *values: Any) -> tuple[Any, ...]:
        return tuple(packet(*values[i : i + width]) for i in range(0, len(values), width))

    @cache_foreach_in_place
    def several_in_place(width: int, *values: Any) -> None:
        for i in range(0, len(values), width):
            packet(*values[i : i + width])

    def call(*args: Any, **kwargs: Any) -> Any:
        named = keyword if len(args) == len(lists) else None
        is_list = [*lists]
        if named is not None and isinstance(args[-1], Tensor):
            args, is_list[-1] = (*args[:-1], args[-1].tolist()), True
        columns = [a for a, many in zip(args, is_list) if many]
        count = _length(columns)
        rows = zip(*(a if many else [a] * count for a, many in zip(args, is_list)))
        if named is not None:
            results = [packet(*override, **{named: last}) for *override, last in rows]
        elif kwargs:
            results = [packet(*override, **kwargs) for override in rows]
        else:
            values = [value for override in rows for value in override]
            step = min(_AT_ONCE, _MOST_ARGUMENTS // len(args)) * len(args)
            parts = [values[i : i + step] for i in range(0, len(values), step)]
            if returns:
                return [result for part in parts for result in several(len(args), *part)]
            for part in parts:
                several_in_place(len(args), *part)
        return results if returns else None

    return call


def _length(lists: Sequence[Sequence[Any]]) -> int:
    """Of lists that are as long as each other."""
    count = len(lists[0])
    if count == 0:
        raise RuntimeError("Tensor list must have at least one tensor.")
    for other in lists[1:]:
        if len(other) != count:
            what = "tensors" if other and isinstance(other[0], Tensor) else "elements"
            raise RuntimeError(f"Tensor lists must have the same number of {what}, got {count} and {len(other)}")
    return count


__all__ = ["bound", "for_each", "in_place", "into", "parameters_of"]
