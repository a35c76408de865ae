"""Conversions between dtypes while `repdl.enable()` holds.

There is one rule for all pairs of dtypes (docs/reference/enable.md). Numbers are brought here to where torch's kernel
has one outcome: it copies, or makes numbers of integers and booleans, booleans or a float8 of numbers, or complex
numbers of their real parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from repdl.callcache import guard
from repdl.dtypes import ALL, FLOATS_16_BIT
from repdl.ops.pointwise.cast import cast
from repdl.overrides.negated import straight, turned
from repdl.overrides.torchs import TorchKernel

Tensor = torch.Tensor
Function = Callable[..., Any]
NAMES = frozenset({"_to_copy", "copy"})
"""Of ops that convert."""
_SINGLE = torch.float32, torch.float64
_LONG = torch.int64, torch.uint64, torch.uint32


def defined(name: str, original: TorchKernel) -> Function | None:
    """torch's conversion, and what it leaves to the processor; None for a form that comes to `copy_` in torch's own."""
    if name == "aten::copy_":
        return _chosen("copy", original, _copying(original))
    return _chosen("conversion", original, _converting(original)) if name == "aten::_to_copy" else None


def _chosen(test: str, original: TorchKernel, otherwise: Function) -> Function:
    return guard(test, original.boxed, guard(f"{test} to integers", original.boxed, otherwise))


def _converting(original: TorchKernel) -> Function:
    """Of `_to_copy`, with no copy of what has the dtype already; torch's kernel comes to `copy_`."""

    def call(keyset: Any, value: Any, **kwargs: Any) -> Any:
        made: Any = kwargs.get("dtype")
        if made in _SINGLE and isinstance(value, (bool, int, float)):
            return torch.scalar_tensor(value, dtype=made)  # a number beside tensors
        if len(kwargs) == 1 and isinstance(value, Tensor) and _are_ours(value.dtype, made) and not value.is_meta:
            with torch.no_grad():
                return _rounded(straight(value), made)
        return original.call(keyset, (value,), kwargs)

    return call


def _copying(original: TorchKernel) -> Function:
    """Of `copy_`."""

    def call(keyset: Any, target: Tensor, value: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(value, Tensor) or value.is_meta or not _has_fraction(value):
            return original.call(keyset, (target, value, *args), kwargs)
        with torch.no_grad():
            plain, value = turned(target, value)
            original.call(keyset, (plain, _converted(straight(value), plain.dtype, original), *args), kwargs)
        return target

    return call


def _are_ours(source: torch.dtype, made: Any) -> bool:
    """Whether `cast` is from one to the other."""
    return source is not made and source in ALL and made in ALL


def _has_fraction(value: Tensor) -> bool:
    return value.is_floating_point() or value.is_complex()


def _converted(value: Tensor, made: torch.dtype, copy: TorchKernel) -> Tensor:
    """Numbers with a fraction in a dtype that torch makes `made` of with one outcome."""
    if value.dtype is made or made is torch.bool:
        return value
    if value.is_complex():
        parts = torch.view_as_real(value)
        if made.is_complex:
            return torch.view_as_complex(_rounded(parts, made.to_real()).contiguous())
        value = parts[..., 0]
    if value.dtype not in ALL:  # of 8 bits
        value = copy(torch.empty_like(value, dtype=torch.float32), value)
    made = made.to_real() if made.is_complex else made
    if made.is_floating_point:
        return _rounded(value, made if made in ALL else torch.float32)
    return _integers(value, made)


def _rounded(value: Tensor, made: torch.dtype) -> Tensor:
    """Numbers in a dtype that registered ops have, with its one NaN."""
    return cast(cast(value, torch.float32) if value.dtype is torch.float64 and made in FLOATS_16_BIT else value, made)


def _integers(value: Tensor, made: torch.dtype) -> Tensor:
    """The numbers as an integer dtype whose low bits are those of the one that is made, or as they are."""
    wide, bits = (torch.int64, 63) if made in _LONG else (torch.int32, 31)
    if made is torch.uint64:
        high = value >= 2.0**63
        low = torch.where(high, value.to(torch.float64) - 2.0**63, value)
        return _held(low, wide, bits).to(wide) ^ torch.where(high, -(2**63), 0)
    given = _held(value, wide, bits)
    return given if made is wide else given.to(wide)


def _held(value: Tensor, wide: torch.dtype, bits: int) -> Tensor:
    """The numbers if the integer dtype holds them all, else as that dtype, with its lowest one for the others."""
    held = value.abs() < 2.0**bits  # not NaN
    if bool(held.all()):
        return value
    return torch.where(held, torch.where(held, value, 0).to(wide), torch.tensor(-(2**bits), dtype=wide))


__all__ = ["NAMES", "defined"]
