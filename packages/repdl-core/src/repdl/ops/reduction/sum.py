"""sum, and formulas over it: mean, a sum and one division, and the sum of squares."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import check
from repdl.ops.common import (
    as_numpy,
    constant,
    expand_to,
    in_dtype,
    is_whole,
    narrowed,
    normalize_dims,
    reduced_shape,
    to_integer_dtype,
    to_requested_dtype,
    widened,
)
from repdl.ops.declare import public
from repdl.registry import FLOAT32_ON_CUDA, composite, define, functions as _ops

__all__ = ["mean", "sum"]


def check_dims(op: str, input: Tensor, dim: Sequence[int]) -> None:
    """Raise unless `dim` has ascending dimensions of `input`."""
    ndim = input.dim()
    check(
        op,
        all(0 <= d < ndim for d in dim) and all(a < b for a, b in itertools.pairwise(dim)),
        lambda: (
            f"dim is {list(dim)}, expected ascending dimensions from 0 to {ndim - 1}; repdl.ops.{op} normalises them"
        ),
    )


def _fake(input: Tensor, dim: Sequence[int], keepdim: bool) -> Tensor:
    return input.new_empty(reduced_shape(input.shape, dim, keepdim))


def _spread(g: Tensor, input_shape: torch.Size, dim: Sequence[int], keepdim: bool, contract: str) -> Tensor:
    kept = g if keepdim else g.reshape(reduced_shape(input_shape, dim, True))
    return expand_to(kept, input_shape, contract)


define(
    "sum",
    "(Tensor input, int[] dim, bool keepdim, str contract) -> Tensor",
    check=check_dims,
    fake=_fake,
    gradients={"input": _spread},
    autocast=FLOAT32_ON_CUDA,
    dtypes=Dtypes(),
)


def _mean_formula(input: Tensor, dim: Sequence[int], keepdim: bool, contract: str) -> Tensor:
    count = math.prod(input.shape[d] for d in dim)
    total = _ops.sum(input, dim, keepdim, contract)
    return _ops.div(total, constant(count, total.dtype, total.device), contract)


def _spread_mean(g: Tensor, input_shape: torch.Size, dim: Sequence[int], keepdim: bool, contract: str) -> Tensor:
    dtype, (wide,) = widened(g)
    count = math.prod(input_shape[d] for d in dim)
    each = _ops.div(wide, constant(count, wide.dtype, wide.device), contract)
    return narrowed(_spread(each, input_shape, dim, keepdim, contract), dtype)


composite(
    "mean",
    "(Tensor input, int[] dim, bool keepdim, str contract) -> Tensor",
    _mean_formula,
    calls=("sum", "div"),
    check=check_dims,
    fake=_fake,
    gradients={"input": _spread_mean},
    dtypes=Dtypes(),
    family="sum",
)


def _spread_squares(g: Tensor, input: Tensor, dim: Sequence[int], keepdim: bool, contract: str) -> Tensor:
    dtype, (wide, x) = widened(g, input)
    spread = _spread(wide, x.shape, dim, keepdim, contract)
    return narrowed(_ops.mul(spread, _ops.add(x, x, contract), contract), dtype)


composite(
    "sum_of_squares",
    "(Tensor input, int[] dim, bool keepdim, str contract) -> Tensor",
    lambda input, dim, keepdim, contract: _ops.sum(_ops.square(input), dim, keepdim, contract),
    calls=("sum", "square"),
    check=check_dims,
    fake=_fake,
    gradients={"input": _spread_squares},
    dtypes=Dtypes(),
    family="sum",
)


@public("sum")
def sum(
    input: Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
    axis: int | Sequence[int] | None = None,
    keepdims: bool | None = None,
    contract: ContractLike = None,
) -> Tensor:
    """Sum over all dimensions, or over those in `dim`: `(A, B, C) -> (A, C)` for `dim=1`.

    float32, float64, 16-bit floats; integers and bools exactly, as int64. The sum of no elements is 0.
    `axis` and `keepdims` are other names of `dim` and `keepdim`.
    """
    dim, keepdim = as_numpy("sum", dim, keepdim, axis, keepdims)
    dims = normalize_dims("sum", dim, input.dim())
    if is_whole(dtype or input.dtype) and not input.is_complex():
        return torch.sum(to_integer_dtype(input, dtype), dims, keepdim, dtype=dtype)  # exact, in any order
    return to_requested_dtype(_ops.sum(in_dtype("sum", input, dtype), dims, keepdim, contract), dtype)


@public("sum")
def mean(
    input: Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
    axis: int | Sequence[int] | None = None,
    keepdims: bool | None = None,
    contract: ContractLike = None,
) -> Tensor:
    """Mean over all dimensions, or over those in `dim`: `(A, B, C) -> (A, C)` for `dim=1`.

    float32, float64, 16-bit floats; integers with `dtype`. The sum, divided once by the number of
    elements; the mean of none is NaN.
    """
    dim, keepdim = as_numpy("mean", dim, keepdim, axis, keepdims)
    dims = normalize_dims("mean", dim, input.dim())
    return _ops.mean(in_dtype("mean", input, dtype), dims, keepdim, contract)
