"""Python's own numbers where they reach parameters: powers of an optimizer's step, and `math` in schedules.

`0.9**step` and `math.cos` are the C library's, whose last bit differs with its version and with the processor. While
`repdl.enable()` holds, modules of torch and of libraries see a `math` with correctly rounded functions
(docs/correctly-rounded-functions.md), and optimizers get the number of a step as a float whose powers are.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from repdl import registry
from repdl.contract import ANY_CONTRACT
from repdl.overrides.imports import when_imported

FUNCTIONS = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1"),
    *("log10", "log1p", "log2", "sin", "sinh", "tan", "tanh"),
)
"""Functions of one number that `math` and RepDL have by the same name."""

OPTIMIZERS = ("adagrad", "adam", "adamax", "adamw", "asgd", "nadam", "radam", "rmsprop", "rprop")
"""Modules of torch.optim that read a step's number by `_get_value`."""

SCHEDULES = (
    *("torch.optim._functional", "torch.optim.lr_scheduler", "torch.optim.swa_utils", "transformers.optimization"),
    *("timm.scheduler.cosine_lr", "timm.scheduler.poly_lr", "timm.scheduler.tanh_lr"),
)
"""Modules whose `math` is changed."""


def _of(name: str, *numbers: float) -> float:
    """That op of float64 numbers, which no mode of torch sees: it is Python's arithmetic."""
    contract = () if len(numbers) == 1 else (ANY_CONTRACT,)  # of elements: the same in each
    with _disable_current_modes():
        tensors = [torch.tensor(x, dtype=torch.float64, device="cpu") for x in numbers]
        value: float = getattr(registry.functions, name)(*tensors, *contract).item()
    return value


@functools.lru_cache(maxsize=256)
def _power(base: float, exponent: float, sign_of_base: float) -> float:
    return _of("pow_tensor", base, exponent)


def power(base: float, exponent: float) -> float:
    """`base**exponent`, correctly rounded; raises, and is complex, where Python's is.

    The last ones are kept: every parameter of an optimizer asks for the same powers.
    """
    value = float.__pow__(float(base), float(exponent))
    return _power(base, exponent, math.copysign(1.0, base)) if isinstance(value, float) else value


class Number(float):
    """A float whose powers are correctly rounded: `number**x` is a float, `x**number` a `Number`, and so are sums,
    differences and products with numbers. Quotients are floats: what is given to ops should be, whose calls are cached.
    """

    __slots__ = ()

    def __pow__(self, exponent: Any, modulo: None = None) -> Any:
        return power(self, exponent) if _is_real(exponent) and modulo is None else NotImplemented


def _is_real(value: Any) -> bool:
    return isinstance(value, (int, float))


class NumberOfRatios(Number):
    """A `Number` whose quotients are such numbers too: RAdam takes the root of one."""

    __slots__ = ()


def _kept(function: Callable[[Any, Any], Any]) -> Callable[[Number, Any], Any]:
    """A method of `Number`, whose floats are numbers too."""

    def method(self: Number, other: Any) -> Any:
        value = function(self, other) if _is_real(other) else NotImplemented
        return type(self)(value) if isinstance(value, float) else value

    return method


_METHODS = {
    name: getattr(float, name) for name in ("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__")
}
_METHODS["__rpow__"] = lambda exponent, base: power(base, exponent)
for _name, _function in _METHODS.items():
    setattr(Number, _name, _kept(_function))
NumberOfRatios.__truediv__ = _kept(float.__truediv__)  # type: ignore[method-assign, assignment]


def _exact(name: str) -> Callable[[Any], float]:
    plain = getattr(math, name)

    @functools.wraps(plain)
    def function(x: Any, /) -> float:
        plain(x)  # raises as Python does
        return _of(name, float(x))

    return function


def _log(x: Any, base: Any = None, /) -> float:
    """As `math.log`: with a base, the quotient of two logarithms."""
    math.log(x)
    if base is None:
        return _of("log", float(x))
    math.log(x, base)
    return _of("log", float(x)) / _of("log", float(base))


def _pow(x: Any, y: Any, /) -> float:
    math.pow(x, y)
    return _of("pow_tensor", float(x), float(y))


def _atan2(y: Any, x: Any, /) -> float:
    math.atan2(y, x)
    return _of("atan2", float(y), float(x))


@functools.cache
def exact_math() -> ModuleType:
    """`math` with correctly rounded functions; what RepDL does not have is Python's."""
    module = ModuleType("math", math.__doc__)
    vars(module).update({name: value for name, value in vars(math).items() if not name.startswith("__")})
    vars(module).update({name: _exact(name) for name in FUNCTIONS if hasattr(math, name)})
    vars(module).update(log=_log, pow=_pow, atan2=_atan2)
    return module


@contextmanager
def replaced(name: str, attribute: str, made: Callable[[Any], Any]) -> Iterator[None]:
    """Until the end of the block the attribute of a module is `made(attribute)`, if it has one."""
    module = import_module(name)
    before = vars(module).get(attribute)
    if before is None:
        yield
        return
    setattr(module, attribute, made(before))
    try:
        yield
    finally:
        setattr(module, attribute, before)


def _with_powers(number: type[Number], get_value: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(get_value)
    def value_of(x: Any) -> Any:
        value = get_value(x)
        return number(value) if type(value) is float else value

    return value_of


@contextmanager
def exact_numbers() -> Iterator[None]:
    """Until the end of the block optimizers and schedules compute with correctly rounded functions."""
    with ExitStack() as stack:
        for name in OPTIMIZERS:
            module = f"torch.optim.{name}"
            with_powers = functools.partial(_with_powers, NumberOfRatios if name == "radam" else Number)
            change = functools.partial(replaced, module, "_get_value", with_powers)
            stack.enter_context(when_imported(module, change))
        for name in SCHEDULES:
            change = functools.partial(replaced, name, "math", lambda _: exact_math())
            stack.enter_context(when_imported(name, change))
        yield


__all__ = ["Number", "NumberOfRatios", "exact_math", "exact_numbers", "power", "replaced"]
