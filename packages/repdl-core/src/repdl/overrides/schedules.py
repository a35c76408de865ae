"""torch's schedules of learning rates with correctly rounded powers and functions.

`gamma**epoch` and `math.cos` are the C library's. While `repdl.enable()` holds the methods of torch's classes are
changed; `repdl.optim.lr_scheduler` has classes with changed methods of their own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import CodeType, FunctionType
from typing import Any

from torch.optim import lr_scheduler

from repdl.overrides.python_numbers import Number, exact_math, power

_POWERS = {
    "StepLR": ("gamma", ("_get_closed_form_lr",)),
    "MultiStepLR": ("gamma", ("get_lr", "_get_closed_form_lr")),
    "ExponentialLR": ("gamma", ("_get_closed_form_lr",)),
    "PolynomialLR": ("power", ("get_lr", "_get_closed_form_lr")),
}
"""Schedules that compute powers of floats: the attribute that is base or exponent, and the methods."""


def _with_number(attribute: str, method: Callable[[Any], list[Any]]) -> Callable[[Any], list[Any]]:
    """The method, which finds a `Number` in the attribute and gives floats."""

    @functools.wraps(method)
    def rates(self: Any) -> list[Any]:
        held = vars(self)[attribute]
        vars(self)[attribute] = Number(held)
        try:
            found = method(self)
        finally:
            vars(self)[attribute] = held
        return [float(rate) if type(rate) is Number else rate for rate in found]

    return rates


def _scale_fn(method: Callable[[Any, float], float]) -> Callable[[Any, float], float]:
    """CyclicLR's."""

    @functools.wraps(method)
    def scale_fn(self: Any, x: float) -> float:
        is_power = self._scale_fn_custom is None and self.mode == "exp_range"
        return power(self.gamma, x) if is_power else method(self, x)

    return scale_fn


def exact_powers(schedule: type) -> dict[str, Any]:
    """The methods of one of torch's classes that compute powers, with correctly rounded ones."""
    if schedule.__name__ == "CyclicLR":
        return {"scale_fn": _scale_fn(vars(schedule)["scale_fn"])}
    attribute, names = _POWERS.get(schedule.__name__, ("", ()))
    return {name: _with_number(attribute, vars(schedule)[name]) for name in names}


def exact_functions(schedule: type) -> dict[str, Any]:
    """The methods of one of torch's classes that call `math`, with correctly rounded functions."""
    found: dict[str, Any] = {}
    for name, value in vars(schedule).items():
        function = getattr(value, "__func__", value)
        if isinstance(function, FunctionType) and "math" in _names(function.__code__):
            copy = _with_exact_math(function)
            found[name] = type(value)(copy) if function is not value else copy
    return found


def _names(code: CodeType) -> set[str]:
    """That a function and those inside of it look up."""
    return {*code.co_names, *(name for c in code.co_consts if isinstance(c, CodeType) for name in _names(c))}


def _with_exact_math(function: FunctionType) -> FunctionType:
    names = {**function.__globals__, "math": exact_math()}
    copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    functools.update_wrapper(copy, function)
    return copy


@contextmanager
def exact_schedules() -> Iterator[None]:
    """Until the end of the block torch's schedules compute correctly rounded powers."""
    with ExitStack() as stack:
        for name in lr_scheduler.__all__:
            schedule = getattr(lr_scheduler, name)
            for method, function in exact_powers(schedule).items():
                stack.callback(setattr, schedule, method, vars(schedule)[method])
                setattr(schedule, method, function)
        yield


__all__ = ["exact_functions", "exact_powers", "exact_schedules"]
