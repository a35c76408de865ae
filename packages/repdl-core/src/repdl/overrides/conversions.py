"""Conversions between dtypes while `repdl.enable()` holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from repdl.audit.kinds import plain_name
from repdl.dtypes import ALL, HALF
from repdl.ops.cast import cast
from repdl.overrides.torchs import TorchKernel
from repdl.replay import choice

Tensor = torch.Tensor
SOURCES = {"copy": 1, "_to_copy": 0}
"""The argument that is converted."""
_SINGLE = torch.float32, torch.float64
_LONG = torch.int64, torch.uint64, torch.uint32


def defined(op: Any, original: TorchKernel) -> Callable[..., Any]:
    """torch's conversion, and what it leaves to the processor.

    A floating-point number becomes an int64 for integers of 64 bits and for uint32, else an int32, of which the integer
    is the low bits: its fraction is dropped; what that dtype does not hold, and NaN, is its lowest, but that a uint64
    has the numbers from 2^63 on, too. float64 becomes a half by way of float32. A half has one NaN, and so has the
    float32 that a float16 becomes.
    """
    source = SOURCES[plain_name(op)]

    def call(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        value = args[source]
        made = args[0].dtype if source else kwargs.get("dtype")
        if made in _SINGLE and not source and isinstance(value, (bool, int, float)):
            return torch.scalar_tensor(value, dtype=made)  # a number beside tensors
        if isinstance(value, Tensor) and made is not None and value.dtype is not made and value.is_floating_point():
            if made in HALF or (made is torch.float32 and value.dtype is torch.float16):
                value = _with_one_nan(value, made)
                if not source and value.dtype is made and len(kwargs) == 1:
                    return value
            elif not (made.is_floating_point or made.is_complex or made is torch.bool or value.is_meta):
                value = _integers(value if value.dtype in ALL else value.to(torch.float32), made)  # of 8 bits: exact
            args = (*args[:source], value, *args[source + 1 :])
        return original.call(keyset, args, kwargs)

    test = "copy" if source else "conversion"
    return choice(test, original.boxed, choice(f"{test} to integers", original.boxed, call))


def _with_one_nan(value: Tensor, made: torch.dtype) -> Tensor:
    """The numbers as that dtype, if not of 8 bits or on no device."""
    if value.dtype not in ALL or value.is_meta:
        return value
    with torch.no_grad():
        return cast(value.to(torch.float32) if value.dtype is torch.float64 else value, made)


def _integers(value: Tensor, made: torch.dtype) -> Tensor:
    """The numbers as an integer dtype whose low bits are those of the one that is made, or as they are."""
    wide, bits = (torch.int64, 63) if made in _LONG else (torch.int32, 31)
    with torch.no_grad():
        value = value.detach()
        if made is torch.uint64:
            high = value >= 2.0**63
            low = torch.where(high, value.to(torch.float64) - 2.0**63, value)
            return low.to(wide) ^ torch.where(high, -(2**63), 0)
        held = value.abs() < 2.0**bits  # not NaN
        if bool(held.all()):
            return value if made is wide else value.to(wide)
        return torch.where(held, torch.where(held, value, 0).to(wide), torch.tensor(-(2**bits), dtype=wide))


__all__ = ["SOURCES", "defined"]
