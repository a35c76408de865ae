"""Numbers of Python that are equal, but of another type or sign, do not share what a call made of one of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import repdl
from repdl.errors import RepDLError

NUMBERS: tuple[Any, ...] = (True, 1, 1.0, 1 + 0j, False, 0, 0.0, -0.0, 0j)
DTYPES = (torch.bool, torch.int32, torch.int64, torch.float32, torch.bfloat16)
METHODS = (
    *("add", "sub", "mul", "div", "floor_divide", "remainder", "fmod", "pow", "__rsub__", "__rpow__", "__rtruediv__"),
    *("eq", "ne", "lt", "le", "bitwise_and", "bitwise_or", "bitwise_xor", "__and__", "__rmul__", "__radd__"),
    *("clamp", "clamp_max", "clamp_min", "fill_", "add_", "mul_", "sub_", "div_", "clamp_", "hardshrink", "cumsum"),
)
_MASK, _INDEX = torch.tensor([True, False, True]), torch.tensor([0, 2])
FUNCTIONS: dict[str, Callable[[torch.Tensor, Any], Any]] = {
    "true_divide of a number": lambda x, n: torch.true_divide(n, x),
    "add, alpha": lambda x, n: torch.add(x, x, alpha=n),
    "where": lambda x, n: torch.where(_MASK, x, n),
    "where, other": lambda x, n: torch.where(_MASK, n, x),
    "full": lambda x, n: torch.full((2,), n),
    "full_like": lambda x, n: torch.full_like(x, n),
    "new_full": lambda x, n: x.new_full((2,), n),
    "tensor": lambda x, n: torch.tensor([n, n]) + x[0],
    "scalar_tensor": lambda x, n: torch.scalar_tensor(n) + x,
    "arange": lambda x, n: torch.arange(n, 4) + x[0],
    "masked_fill": lambda x, n: x.masked_fill(_MASK, n),
    "index_fill": lambda x, n: x.index_fill(0, _INDEX, n),
    "scatter": lambda x, n: x.scatter(0, _INDEX, n),
    "index_put": lambda x, n: _assigned(x, n),
    "addcmul": lambda x, n: torch.addcmul(x, x, x, value=n),
    "lerp": lambda x, n: torch.lerp(x, x + 1, n),
    "threshold": lambda x, n: torch.threshold(x, n, n),
    "pad": lambda x, n: torch.nn.functional.pad(x, (1, 1), value=n),
    "foreach_add": lambda x, n: torch._foreach_add([x, x], n)[1],
    "foreach_mul": lambda x, n: torch._foreach_mul([x, x], n)[1],
    "isin": lambda x, n: torch.isin(x, n),
    "searchsorted": lambda x, n: torch.searchsorted(x, n),
    "copysign": lambda x, n: torch.copysign(x, n),
    "xlogy": lambda x, n: torch.xlogy(x, n),
    **{name: lambda x, n, name=name: getattr(x.clone(), name)(n) for name in METHODS},
}


def _assigned(x: torch.Tensor, n: Any) -> torch.Tensor:
    y = x.clone()
    y[_INDEX] = n
    return y


def given(dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor([0, 1, 1]).to(dtype)


def outcome(function: Callable[[torch.Tensor, Any], Any], x: torch.Tensor, number: Any) -> Any:
    """Dtype and values with the signs of zeros, or None for an error."""
    try:
        result = function(x, number)
    except (RuntimeError, TypeError, ValueError, NotImplementedError, IndexError, OverflowError, RepDLError):
        return None
    return result.dtype, [_shown(v) for v in result.reshape(-1).tolist()]


def _shown(value: Any) -> tuple[Any, ...]:
    parts = (value.real, value.imag) if isinstance(value, complex) else (value,)
    return tuple(("nan", 0) if p != p else (p, math.copysign(1, p)) for p in parts)


def calls(dtype: torch.dtype) -> Iterator[tuple[str, Any]]:
    """Of each function each number after each other one, so that both orders are met while one is recorded."""
    for name in FUNCTIONS:
        for first in NUMBERS:
            for second in NUMBERS:
                yield from ((name, first), (name, second))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_enable_equal_numbers(dtype: torch.dtype) -> None:
    x = given(dtype)
    plain = {(name, repr(n)): outcome(FUNCTIONS[name], x, n) for name in FUNCTIONS for n in NUMBERS}
    compared, wrong = set[str](), {}
    with repdl.enabled():
        for name, number in calls(dtype):
            found, expected = outcome(FUNCTIONS[name], x, number), plain[name, repr(number)]
            if found is None or expected is None:  # refused, or torch does not take it
                continue
            compared.add(name)
            if found != expected:
                wrong[f"{name} with {number!r}"] = f"{found}, expected {expected}"
    assert not wrong, "\n".join(f"{call}: {what}" for call, what in wrong.items())
    assert len(compared) > 35, sorted(FUNCTIONS.keys() - compared)
