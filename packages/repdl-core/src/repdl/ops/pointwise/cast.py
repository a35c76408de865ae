"""cast: from one floating-point dtype to another, one rounding."""

from __future__ import annotations

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.errors import ArgumentError
from repdl.ops.declare import public
from repdl.registry import functions as _ops

__all__ = ["cast"]


@public("cast", page="generated/torch.Tensor.to")
def cast(input: Tensor, dtype: torch.dtype, *, contract: ContractLike = None) -> Tensor:
    """`input` in another floating-point dtype, any shape: widened exactly, or rounded once.

    float32, float64, bfloat16, float16. A NaN becomes the one NaN of the dtype.

    Raises:
        DTypeError: for other dtypes.
    """
    if not isinstance(dtype, torch.dtype):
        raise ArgumentError(f"cast: dtype is {type(dtype).__name__} {dtype!r}, expected a torch.dtype")
    return _ops.cast(input, dtype)
