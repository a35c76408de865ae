"""Negation, which views of torch may put off: `-x`, the conjugate of complex numbers, and copies of such views."""

from __future__ import annotations

import torch

from repdl import ops
from repdl.dtypes import ALL

Tensor = torch.Tensor


def negative(value: Tensor) -> Tensor:
    """`-value`, a NaN the one NaN of the dtype; of complex numbers each part."""
    if value.is_complex():
        return torch.view_as_complex(ops.neg(torch.view_as_real(value)))
    return ops.neg(value) if value.dtype in ALL else torch.neg(value)


def conjugate(value: Tensor) -> Tensor:
    """Complex numbers with `negative` imaginary parts; the real ones keep their bits."""
    parts = torch.view_as_real(value)
    return torch.view_as_complex(torch.stack([parts[..., 0], ops.neg(parts[..., 1])], -1))


def straight(value: Tensor) -> Tensor:
    """The numbers that a view means, in memory."""
    if value.is_neg():
        return negative(straight(torch._neg_view(value)))
    return conjugate(value.conj()) if value.is_conj() else value


def turned(target: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """The memory of a view, and what is written there where `value` is written into the view."""
    if target.is_conj():
        target, value = target.conj(), value.conj()
    return (torch._neg_view(target), torch._neg_view(value)) if target.is_neg() else (target, value)


__all__ = ["conjugate", "negative", "straight", "turned"]
