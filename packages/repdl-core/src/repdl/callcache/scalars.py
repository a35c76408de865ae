"""Variable scalars: floating-point numbers of a recorded call that other ones may replace when it is repeated."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from repdl.callcache.extension import c_extension
from repdl.callcache.plan import ScalarConstant, StepScalar
from repdl.callcache.trace import KernelCall, Trace, trace_call

_DTYPES = torch.float32, torch.float64


@dataclass(frozen=True)
class VariableScalars:
    """Where the scalars of a call go, if other ones may take their place.

    Attributes:
        steps: the floating-point arguments of each kernel; empty: all are as they were.
        constants: constants that are scalars of the call.
    """

    steps: tuple[tuple[StepScalar, ...], ...] = ()
    constants: tuple[ScalarConstant, ...] = ()


class ScalarsMatter(Exception):
    """It can't be said where the scalars of a call went: its recording does not hold for others."""


def find_variable_scalars(function: Callable[..., Any], args: Any, kwargs: Any, trace: Trace) -> VariableScalars:
    """Where the scalars of a call went, found by a call with other ones.

    Raises:
        ScalarsMatter: if that can't be said.
    """
    values = *args, *kwargs.values()
    given = [value for value in values if type(value) is float]
    if trace.draws or any(type(v) is float for value in values if isinstance(value, (list, tuple)) for v in value):
        raise ScalarsMatter
    is_variable, sizes = c_extension().Call.is_variable, {abs(value) for value in given}
    unused = (size for size in (0.61 + n / 64 for n in itertools.count()) if size not in sizes)
    others = [math.copysign(next(unused), value) if is_variable(value) else value for value in given]
    if others == given:
        return VariableScalars()
    left = iter(others)
    changed = [next(left) if type(value) is float else value for value in args]
    named = {name: next(left) if type(value) is float else value for name, value in kwargs.items()}
    return _Comparison(given, others).variable_scalars(trace, trace_call(function, changed, named)[1])


class _Comparison:
    """Of two calls of a function that differ in scalars: a value of both calls that is one of these came from there."""

    def __init__(self, given: Sequence[float], others: Sequence[float]) -> None:
        self._given = given
        self._index = {value: n for n, (value, before) in enumerate(zip(others, given)) if value != before}
        self._used: set[int] = set()

    def variable_scalars(self, trace: Trace, other: Trace) -> VariableScalars:
        """Raise if the calls do not do the same, or the function computes with a scalar itself."""
        if len(other.kernel_calls) != len(trace.kernel_calls) or len(other.constants) != len(trace.constants):
            raise ScalarsMatter
        if not other.is_cacheable:
            raise ScalarsMatter
        steps = tuple(map(self._step, trace.kernel_calls, other.kernel_calls))
        indices = [self._source(a.value, b.value) for a, b in zip(trace.constants, other.constants)]
        constants = [(i, n, trace.constants[i].tensor) for i, n in enumerate(indices) if n is not None]
        if any(tensor.device.type != "cpu" or tensor.dtype not in _DTYPES for _, _, tensor in constants):
            raise ScalarsMatter
        if set(self._index.values()) - self._used:
            raise ScalarsMatter  # one is in nothing that is seen
        return VariableScalars(steps, tuple(ScalarConstant(i, n, tensor.itemsize) for i, n, tensor in constants))

    def _step(self, call: KernelCall, other: KernelCall) -> tuple[StepScalar, ...]:
        if call.kernel is not other.kernel or (call.threads, call.device) != (other.threads, other.device):
            raise ScalarsMatter
        pairs = [(a, b) for a, b in zip(call.arguments, other.arguments) if not isinstance(a, (torch.Tensor, list))]
        sources = [(self._source(a, b), a) for a, b in pairs]
        return tuple(StepScalar(index, a) for index, a in sources if type(a) is float)

    def _source(self, before: Any, now: Any) -> int | None:
        """The scalar of the call that a value is, or None if it is the same in both calls."""
        index = self._index.get(now) if type(now) is float else None
        if before is not now and before != (now if index is None else self._given[index]):
            raise ScalarsMatter
        if index is not None:
            self._used.add(index)
        return index
