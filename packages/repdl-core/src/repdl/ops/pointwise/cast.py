"""cast: from one floating-point dtype to another, one rounding."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import ALL, FLOATS_16_BIT
from repdl.errors import ArgumentError, DTypeError, check_dtype
from repdl.ops.declare.public import public
from repdl.registry import define

__all__ = ["cast"]


def _check(input: Tensor, dtype: torch.dtype) -> None:
    check_dtype("cast", ALL, input=input)
    if dtype not in ALL:
        raise DTypeError(f"cast: dtype is {dtype}, expected {', '.join(map(str, ALL))}")


_op = define(
    "cast",
    "(Tensor input, ScalarType dtype) -> Tensor",
    check=_check,
    fake=lambda input, dtype: torch.empty_like(input, dtype=dtype),  # as torch: the strides of a dense input
    gradients={"input": lambda g, input_dtype: _cast(g, input_dtype)},
)


def _cast(input: Tensor, dtype: torch.dtype) -> Tensor:
    return _op(input, dtype)


def widened(*tensors: Any) -> tuple[torch.dtype, tuple[Any, ...]]:
    """The dtype of the first tensor, and the tensors, those of that dtype widened if it is a 16-bit float.

    For functions made of several ops that round once, with `narrowed`.
    """
    dtype = tensors[0].dtype
    if dtype not in FLOATS_16_BIT:
        return dtype, tensors
    return dtype, tuple(_cast(t, torch.float32) if t is not None and t.dtype is dtype else t for t in tensors)


def narrowed(output: Tensor, dtype: torch.dtype) -> Tensor:
    """`output`, cast unless it has the dtype already."""
    return output if output.dtype is dtype else _cast(output, dtype)


@public("cast", page="generated/torch.Tensor.to")
def cast(input: Tensor, dtype: torch.dtype, *, contract: ContractLike = None) -> Tensor:
    """`input` in another floating-point dtype, any shape: widened exactly, or rounded once.

    float32, float64, bfloat16, float16. A NaN becomes the one NaN of the dtype.

    Raises:
        DTypeError: for other dtypes.
    """
    if not isinstance(dtype, torch.dtype):
        raise ArgumentError(f"cast: dtype is {type(dtype).__name__} {dtype!r}, expected a torch.dtype")
    return _cast(input, dtype)
