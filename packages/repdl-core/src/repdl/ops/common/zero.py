"""Functions that are something else at 0."""

from __future__ import annotations

import torch
from torch import _C, Tensor

from repdl.ops.common.scalar import constant
from repdl.ops.common.sort_key import sort_key
from repdl.registry import functions as _ops

__all__ = ["at_zero", "is_derived"]


def is_derived(x: Tensor) -> bool:
    """Whether a derivative with respect to x may be asked for."""
    return (x.requires_grad and torch.is_grad_enabled()) or bool(_C._are_functorch_transforms_active())


def at_zero(x: Tensor, value: float, function: object, contract: str) -> Tensor:
    """`function(x)`, or `value` where x is a zero; there, no gradient comes back."""
    zero = sort_key(x) == 0
    safe = _ops.where(zero, constant(1.0, x.dtype, x.device), x, contract)
    return _ops.where(zero, constant(value, x.dtype, x.device), function(safe), contract)  # type: ignore[operator, no-any-return]
