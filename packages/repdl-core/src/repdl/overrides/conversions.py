"""Conversions between dtypes while `repdl.enable()` holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from repdl.audit.kinds import plain_name
from repdl.overrides.torchs import TorchKernel
from repdl.replay import choice

Tensor = torch.Tensor
SOURCES = {"copy": 1, "_to_copy": 0}
"""The argument that is converted."""
_SINGLE = torch.float32, torch.float64


def defined(op: Any, original: TorchKernel) -> Callable[..., Any]:
    """torch's conversion, and what it leaves to the processor.

    A floating-point number becomes an int64, or else by way of int32 an integer of the low bits of that: its fraction
    is dropped; what the dtype does not hold, and NaN, is the dtype's lowest. float64 becomes a half by way of float32.
    """
    source = SOURCES[plain_name(op)]

    def call(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        value = args[source]
        made = args[0].dtype if source else kwargs.get("dtype")
        if made in _SINGLE and not source and isinstance(value, (bool, int, float)):
            return torch.scalar_tensor(value, dtype=made)  # a number beside tensors
        if isinstance(value, Tensor) and made is not None and value.dtype is not made and value.is_floating_point():
            if value.dtype is torch.float64 and made.itemsize == 2 and made.is_floating_point:
                value = value.to(torch.float32)
            elif not (made.is_floating_point or made.is_complex or made is torch.bool or value.is_meta):
                value = _integers(value, made)
            args = (*args[:source], value, *args[source + 1 :])
        return original.call(keyset, args, kwargs)

    test = "copy" if source else "conversion"
    return choice(test, original.boxed, call)


def _integers(value: Tensor, made: torch.dtype) -> Tensor:
    """The numbers as an integer dtype whose low bits are those of the one that is made, or as they are."""
    wide, bits = (torch.int64, 63) if made is torch.int64 else (torch.int32, 31)
    with torch.no_grad():
        value = value.detach()
        held = value.abs() < 2.0**bits  # not NaN
        if bool(held.all()):
            return value if made is wide else value.to(wide)
        return torch.where(held, torch.where(held, value, 0).to(wide), torch.tensor(-(2**bits), dtype=wide))


__all__ = ["SOURCES", "defined"]
