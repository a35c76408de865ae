"""Numbers and tensors of integers as floating-point elements, whatever the floating-point environment.

Every conversion is one rounding to nearest even: in integers (`repdl.dtypes.rounding`), or by the
registered ops, whose kernels set the environment themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from repdl.callcache import THREAD, do_not_cache
from repdl.contract import ANY_CONTRACT
from repdl.dtypes import ALL, rounding
from repdl.errors import UnsupportedError
from repdl.registry import functions as _ops
from repdl.tensors.values import is_numpys

__all__ = ["constant", "floating", "item"]

_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
_INTEGERS = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.uint16, torch.uint32)
"""Those whose values are all doubles."""


def constant(
    value: float, dtype: torch.dtype, device: torch.device, function: Callable[[Tensor], Tensor] | None = None
) -> Tensor:
    """A number as a 0-D tensor, rounded once to the floating-point `dtype`, or what `function` makes of that."""
    trace, THREAD.trace = THREAD.trace, None  # a call that is run again has it, and does not compute it
    try:
        tensor = _constant(value, dtype, device)
        if function is not None:
            tensor = function(tensor)
    finally:
        THREAD.trace = trace
    if trace is not None:
        trace.add_constant(tensor, value if function is None else None)
    return tensor


def _constant(value: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    if torch.compiler.is_compiling() or isinstance(value, (torch.SymInt, torch.SymFloat)):
        return _traced(value, dtype, device)
    pattern = rounding.element(value, dtype)
    if dtype is torch.float32 and (pattern & 0x7F800000 or pattern == 0):
        # Normal, and a float32 already: torch has nothing to round or to flush.
        return torch.full((), rounding.value_of(pattern, dtype), dtype=dtype, device=device)
    integer = _BITS[dtype.itemsize]
    sign = 1 << 8 * dtype.itemsize - 1
    return torch.full((), (pattern ^ sign) - sign, dtype=integer, device=device).view(dtype)


def _traced(value: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
    """As `constant`, in ops that a graph can hold: the number may be known at its run only."""
    wide = torch.float64 if isinstance(value, (float, torch.SymFloat)) else torch.int64
    number: Any = value
    return floating(torch.full((), number, dtype=wide, device=device), dtype)


def floating(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """`tensor`, of integers, bools or floating-point, in a floating-point dtype, rounded once.

    Raises:
        UnsupportedError: for other dtypes (complex, 8-bit floats, ...).
    """
    if tensor.dtype is dtype:
        return tensor
    if tensor.dtype in ALL:
        return _ops.cast(tensor, dtype)
    if tensor.dtype in _INTEGERS:
        return _narrowed(tensor.to(torch.float64), dtype)  # exact
    if tensor.dtype is not torch.int64:
        raise UnsupportedError(
            f"cast: input.dtype is {tensor.dtype}, expected an integer, bool, float32, float64, bfloat16 or float16"
        )
    if _are_doubles(tensor):
        return _narrowed(tensor.to(torch.float64), dtype)
    # 64 bits in halves, each a double exactly, and so is 2**32 times the first.
    high, low = tensor >> 32, tensor & 0xFFFFFFFF
    upper = high.to(torch.float64) * 2.0**32
    if dtype is torch.float64:
        return _ops.add(upper, low.to(torch.float64), ANY_CONTRACT)
    # Rounded to odd at 11 bits where the sum may have more than 53: rounding that again is one rounding.
    odd = (low >> 11 | (low & 0x7FF != 0)) << 11
    small = (high >= -(1 << 20)) & (high < 1 << 20)
    return _ops.cast(upper + torch.where(small, low, odd).to(torch.float64), dtype)


def _are_doubles(tensor: Tensor) -> bool:
    """Whether it is known here that all of these int64 are doubles exactly."""
    if tensor.numel() == 0 or not is_numpys(tensor):
        return False
    do_not_cache()
    least, most = torch.aminmax(tensor)
    return least.item() >= -(2**53) and most.item() <= 2**53


def _narrowed(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor if tensor.dtype is dtype else _ops.cast(tensor, dtype)


def item(tensor: Tensor) -> float | int:
    """The number in a 0-D tensor, exactly."""
    do_not_cache()
    return _ops.cast(tensor.detach(), torch.float64).item() if tensor.dtype in ALL else tensor.item()
