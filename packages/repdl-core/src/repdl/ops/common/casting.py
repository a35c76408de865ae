"""The op cast, and functions of several ops that round once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from repdl.dtypes import ALL, FLOATS_16_BIT
from repdl.errors import DTypeError, check_dtype
from repdl.registry import define, functions as _ops

__all__ = ["narrowed", "widened"]


def _check(input: Tensor, dtype: torch.dtype) -> None:
    check_dtype("cast", ALL, input=input)
    if dtype not in ALL:
        raise DTypeError(f"cast: dtype is {dtype}, expected {', '.join(map(str, ALL))}")


define(
    "cast",
    "(Tensor input, ScalarType dtype) -> Tensor",
    check=_check,
    fake=lambda input, dtype: torch.empty_like(input, dtype=dtype),  # as torch: the strides of a dense input
    gradients={"input": lambda g, input_dtype: _ops.cast(g, input_dtype)},
)


def widened(*tensors: Any) -> tuple[torch.dtype, tuple[Any, ...]]:
    """The dtype of the first tensor, and the tensors, those of that dtype widened if it is a 16-bit float.

    For functions made of several ops that round once, with `narrowed`.
    """
    dtype = tensors[0].dtype
    if dtype not in FLOATS_16_BIT:
        return dtype, tensors
    return dtype, tuple(_ops.cast(t, torch.float32) if t is not None and t.dtype is dtype else t for t in tensors)


def narrowed(output: Tensor, dtype: torch.dtype) -> Tensor:
    """`output`, cast unless it has the dtype already."""
    return output if output.dtype is dtype else _ops.cast(output, dtype)
