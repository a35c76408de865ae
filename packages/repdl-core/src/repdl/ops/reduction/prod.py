"""prod: the product of elements by a tree."""

from __future__ import annotations

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import check
from repdl.ops.common import (
    as_numpy,
    constant,
    in_dtype,
    is_whole,
    normalize_dim,
    reduced_shape,
    rows_of,
    to_integer_dtype,
    to_requested_dtype,
)
from repdl.ops.common.arithmetic import mul
from repdl.ops.declare import public
from repdl.registry import FLOAT32, composite, functions as _ops

__all__ = ["prod"]


def _formula(input: Tensor) -> Tensor:
    """`(..., n) -> (...)`: neighbours are multiplied until one is left, which is the tree of the contract.

    Parts are taken apart and put together so that derivatives are data movement and products only.
    """
    if input.shape[-1] == 0:
        one = constant(1.0, input.dtype, input.device)
        input = torch.cat([one.expand(*input.shape[:-1], 1), input], -1)
    while input.shape[-1] > 1:
        pairs = input.shape[-1] // 2
        paired, rest = input.split([2 * pairs, input.shape[-1] - 2 * pairs], -1)
        left, right = paired.unflatten(-1, (pairs, 2)).unbind(-1)
        products = mul(left, right)
        input = torch.cat([products, rest], -1) if rest.shape[-1] else products
    return input.squeeze(-1)


composite(
    "prod",
    "(Tensor input) -> Tensor",
    _formula,
    calls=("mul",),
    fake=lambda input: input.new_empty(input.shape[:-1]),
    check=lambda input: check(
        "prod", input.dim() > 0, "input.dim() is 0, expected 1 or more; repdl.ops.prod gives it one"
    ),
    dtypes=Dtypes(),
    autocast=FLOAT32,
)


@public("prod")
def prod(
    input: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
    axis: int | None = None,
    keepdims: bool | None = None,
    contract: ContractLike = None,
) -> Tensor:
    """Product over all dimensions, or over `dim`: `(A, B, C) -> (A, C)` for `dim=1`.

    float32, float64, 16-bit floats; integers and bools exactly, as int64. Elements are multiplied by the tree of the
    contract. The derivative divides by nothing, so zeros have theirs. The product of no elements is 1.
    """
    dim, keepdim = as_numpy("prod", dim, keepdim, axis, keepdims)
    keepdim = keepdim and dim is not None
    dims = list(range(input.dim())) if dim is None else [normalize_dim("prod", dim, input.dim())][: input.dim()]
    if is_whole(dtype or input.dtype) and not input.is_complex():
        rows = rows_of(to_integer_dtype(input, dtype), dims)
        return torch.prod(rows, -1, dtype=dtype).reshape(reduced_shape(input.shape, dims, keepdim))
    found = _ops.prod(rows_of(in_dtype("prod", input, dtype), dims))
    return to_requested_dtype(found.reshape(reduced_shape(input.shape, dims, keepdim)), dtype)
