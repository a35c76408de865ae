"""diff, and sums and means without NaN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import ALL
from repdl.errors import check, check_dtype
from repdl.ops.common import (
    as_numpy,
    constant,
    floating,
    in_dtype,
    is_whole,
    narrowed,
    normalize_dim,
    normalize_dims,
    to_requested_dtype,
    widened,
)
from repdl.ops.declare import public
from repdl.ops.pointwise.elementwise import promoted
from repdl.ops.reduction.sum import sum
from repdl.registry import as_int, computes, functions as _ops

__all__ = ["diff", "nanmean", "nansum"]


@computes("diff", integers=True)
@public("elementwise")
def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
    *,
    axis: int | None = None,
    contract: ContractLike = None,
) -> Tensor:
    """`x[i + 1] - x[i]` along `dim`, `n` times, of `prepend`, `input` and `append` one behind the other.

    Any shape but 0-D, any floating-point dtype; integers and bools exactly. With 16-bit floats rounded once, at the
    end.

    Raises:
        ShapeError: if `input` is 0-D, `dim` does not exist, `n` is negative, or sizes do not fit.
    """
    op, times = "diff", as_int("diff", "n", n)
    named = (("prepend", prepend), ("input", input), ("append", append))
    parts: dict[str, Any] = {what: t for what, t in named if t is not None}
    check(op, input.dim() > 0, "input is 0-D, expected 1-D or more")
    check(op, times >= 0, lambda: f"n is {times}, expected 0 or more")
    check(op, axis is None or dim == -1, lambda: f"dim is {dim} and axis is {axis}, expected one of them")
    position = normalize_dim(op, dim if axis is None else axis, input.dim())
    for what, t in parts.items():
        fits = t.dim() == input.dim() and all(
            a == b or d == position for d, (a, b) in enumerate(zip(t.shape, input.shape))
        )
        check(
            op,
            fits,
            lambda: f"{what}.shape is {tuple(t.shape)}, expected that of input, {tuple(input.shape)}, but for dim",
        )
    pieces = promoted(op, **parts)
    if pieces is None:
        return torch.diff(input, times, position, prepend, append)
    if times == 0:
        return input.clone()
    dtype, wide = widened(*pieces)
    row = torch.cat(wide, position) if len(wide) > 1 else wide[0]
    for _ in range(times):
        size = row.shape[position]
        if size < 2:
            row = row.narrow(position, 0, 0)
            break
        row = _ops.sub(row.narrow(position, 1, size - 1), row.narrow(position, 0, size - 1), contract)
    return narrowed(row, dtype)


@public("sum")
def nansum(
    input: Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
    axis: int | Sequence[int] | None = None,
    keepdims: bool | None = None,
    contract: ContractLike = None,
) -> Tensor:
    """`sum` with +0 in the place of each NaN, whose gradient is 0."""
    dim, keepdim = as_numpy("nansum", dim, keepdim, axis, keepdims)
    if is_whole(dtype or input.dtype) and not input.is_complex():
        return sum(input, dim, keepdim, dtype=dtype, contract=contract)
    wide = in_dtype("nansum", input, dtype)
    check_dtype("nansum", ALL, input=wide)
    zero = constant(0.0, wide.dtype, wide.device)
    kept = _ops.where(wide.detach().isnan(), zero, wide, contract)
    return to_requested_dtype(_ops.sum(kept, normalize_dims("nansum", dim, input.dim()), keepdim, contract), dtype)


@public("sum")
def nanmean(
    input: Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
    axis: int | Sequence[int] | None = None,
    keepdims: bool | None = None,
    contract: ContractLike = None,
) -> Tensor:
    """`nansum` divided by the number of elements that are not NaN, which is rounded once to the dtype."""
    dim, keepdim = as_numpy("nanmean", dim, keepdim, axis, keepdims)
    dims = normalize_dims("nanmean", dim, input.dim())
    storage, (wide,) = widened(in_dtype("nanmean", input, dtype))
    check_dtype("nanmean", ALL, input=wide)
    nan = wide.detach().isnan()
    zero = constant(0.0, wide.dtype, wide.device)
    total = _ops.sum(_ops.where(nan, zero, wide, contract), dims, keepdim, contract)
    count = floating(torch.sum(~nan, dims, keepdim) if dims else (~nan).to(torch.int64), total.dtype)
    return to_requested_dtype(narrowed(_ops.div(total, count, contract), storage), dtype)
