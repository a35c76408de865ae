"""sum, and mean, a formula over it: a sum and one division."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch

from repdl import registry
from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import (
    check,
)
from repdl.ops.common.broadcast import expand_to
from repdl.ops.common.reduce import (
    as_numpy,
    in_dtype,
    is_whole,
    normalize_dims,
    reduced_shape,
    to_integer_dtype,
    to_requested_dtype,
)
from repdl.ops.common.scalar import constant
from repdl.ops.declare.public import public
from repdl.ops.pointwise.cast import narrowed, widened
from repdl.registry.autocast import FLOAT32_ON_CUDA

__all__ = ["mean", "sum"]


def check_dims(op: str, input: torch.Tensor, dim: Sequence[int]) -> None:
    """Raise unless `dim` has ascending dimensions of `input`."""
    ndim = input.dim()
    check(
        op,
        all(0 <= d < ndim for d in dim) and all(a < b for a, b in itertools.pairwise(dim)),
        lambda: (
            f"dim is {list(dim)}, expected ascending dimensions from 0 to {ndim - 1}; repdl.ops.{op} normalises them"
        ),
    )


def _fake(input: torch.Tensor, dim: Sequence[int], keepdim: bool, contract: str) -> torch.Tensor:
    return input.new_empty(reduced_shape(input.shape, dim, keepdim))


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    input, ctx.dim, ctx.keepdim, ctx.contract = inputs
    ctx.shape = input.shape


def _backward(ctx: Any, grad: torch.Tensor) -> Any:
    kept = grad if ctx.keepdim else grad.reshape(reduced_shape(ctx.shape, ctx.dim, True))
    return expand_to(kept, ctx.shape, ctx.contract), None, None, None


_op = registry.define(
    "sum",
    "(Tensor input, int[] dim, bool keepdim, str contract) -> Tensor",
    check=lambda input, dim, keepdim, contract: check_dims("sum", input, dim),
    fake=_fake,
    setup_context=_setup_context,
    backward=_backward,
    autocast=FLOAT32_ON_CUDA,
    dtypes=Dtypes(),
)


def _mean_formula(input: torch.Tensor, dim: Sequence[int], keepdim: bool, contract: str) -> torch.Tensor:
    count = math.prod(input.shape[d] for d in dim)
    total = _op(input, dim, keepdim, contract)
    return registry.functions.div(total, constant(count, total.dtype, total.device), contract)


def _mean_backward(ctx: Any, grad: torch.Tensor) -> Any:
    dtype, (grad,) = widened(grad)
    count = math.prod(ctx.shape[d] for d in ctx.dim)
    each = registry.functions.div(grad, constant(count, grad.dtype, grad.device), ctx.contract)
    return narrowed(_backward(ctx, each)[0], dtype), None, None, None


_mean = registry.composite(
    "mean",
    "(Tensor input, int[] dim, bool keepdim, str contract) -> Tensor",
    _mean_formula,
    calls=("sum", "div"),
    check=lambda input, dim, keepdim, contract: check_dims("mean", input, dim),
    fake=_fake,
    setup_context=_setup_context,
    backward=_mean_backward,
    dtypes=Dtypes(),
    family="sum",
)


@public("sum")
def sum(
    input: torch.Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
    axis: int | Sequence[int] | None = None,
    keepdims: bool | None = None,
    contract: ContractLike = None,
) -> torch.Tensor:
    """Sum over all dimensions, or over those in `dim`: `(A, B, C) -> (A, C)` for `dim=1`.

    float32, float64, 16-bit floats; integers and bools exactly, as int64. The sum of no elements is 0.
    `axis` and `keepdims` are other names of `dim` and `keepdim`.
    """
    dim, keepdim = as_numpy("sum", dim, keepdim, axis, keepdims)
    dims = normalize_dims("sum", dim, input.dim())
    if is_whole(dtype or input.dtype) and not input.is_complex():
        return torch.sum(to_integer_dtype(input, dtype), dims, keepdim, dtype=dtype)  # exact, in any order
    return to_requested_dtype(_op(in_dtype("sum", input, dtype), dims, keepdim, contract), dtype)


@public("sum")
def mean(
    input: torch.Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
    axis: int | Sequence[int] | None = None,
    keepdims: bool | None = None,
    contract: ContractLike = None,
) -> torch.Tensor:
    """Mean over all dimensions, or over those in `dim`: `(A, B, C) -> (A, C)` for `dim=1`.

    float32, float64, 16-bit floats; integers with `dtype`. The sum, divided once by the number of
    elements; the mean of none is NaN.
    """
    dim, keepdim = as_numpy("mean", dim, keepdim, axis, keepdims)
    dims = normalize_dims("mean", dim, input.dim())
    return _mean(in_dtype("mean", input, dtype), dims, keepdim, contract)
