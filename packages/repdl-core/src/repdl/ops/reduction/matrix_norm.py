"""Norms of matrices, distances of tensors, and slices whose norm is bounded: matrix_norm, dist, renorm, vecdot."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import ALL
from repdl.errors import UnsupportedError, check, check_dtype, check_range
from repdl.ops.common import (
    constant,
    expand_to,
    in_dtype,
    less_than,
    narrowed,
    normalize_dim,
    to_requested_dtype,
    widened,
)
from repdl.ops.declare import broadcast_shape, public
from repdl.ops.pointwise.elementwise import operands
from repdl.ops.reduction.amax import amax, amin
from repdl.registry import as_float, functions as _ops

__all__ = ["dist", "matrix_norm", "renorm", "vecdot"]


@public("norm", page="generated/torch.linalg.matrix_norm")
def matrix_norm(
    A: Tensor,
    ord: float | str = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
    contract: ContractLike = None,
) -> Tensor:
    """The norm of each matrix in `dim`, any floating-point dtype: `(..., M, N) -> (...)`.

    'fro': `vector_norm` of all elements; 1 and -1: the largest and the smallest of the columns' sums of `abs`; inf and
    -inf: of the rows' sums.

    Raises:
        ShapeError: if a dimension does not exist, both are one, or have no element to take one of.
        UnsupportedError: for 'nuc', 2 and -2, which need singular values, and if `dtype` is none of the contract.
    """
    op = "matrix_norm"
    check_dtype(op, ALL, A=A)
    check(op, A.dim() >= 2, lambda: f"A.dim() is {A.dim()}, expected 2 or more")
    check(op, len(dim) == 2, lambda: f"dim has {len(dim)} numbers, expected 2")
    row, column = (normalize_dim(op, d, A.dim()) for d in dim)
    check(op, row != column, lambda: f"dim is {tuple(dim)}, expected two different dimensions")
    if ord in ("nuc", 2, -2):
        raise UnsupportedError(
            f"{op}: ord is {ord!r}, expected 'fro', 1, -1, inf or -inf: singular values are not in the contract"
        )
    x = in_dtype(op, A, dtype)
    if isinstance(ord, str):
        check(op, ord == "fro", lambda: f"ord is {ord!r}, expected 'fro', 1, -1, inf or -inf")
        return to_requested_dtype(_ops.vector_norm(x, 2.0, sorted((row, column)), keepdim, contract), dtype)
    number = as_float(op, "ord", ord)
    check(op, abs(number) in (1, math.inf), lambda: f"ord is {ord}, expected 'fro', 1, -1, inf or -inf")
    if abs(number) == math.inf:
        row, column = column, row
    check_range(
        op,
        A.shape[column] > 0 or number > 0,
        lambda: f"ord is {ord} and A.shape[{column}] 0, expected 1 or more to take a sum of",
    )
    sums = _ops.sum(_ops.abs(x), [row], True, contract)
    if A.shape[column] == 0:  # the largest of none is 0
        sums = torch.zeros([1 if d == column else n for d, n in enumerate(sums.shape)], dtype=x.dtype, device=x.device)
    found = (amax if number > 0 else amin)(sums, column, True, contract=contract)
    return to_requested_dtype(found if keepdim else found.squeeze(sorted((row, column))), dtype)


@public("norm", broadcasts=True)
def dist(input: Tensor, other: Tensor, p: float = 2, *, contract: ContractLike = None) -> Tensor:
    """`vector_norm(input - other, p)` of all elements, broadcast; with 16-bit floats rounded once.

    Any floating-point dtype, float64 for the orders that `vector_norm` has in it.
    """
    op = "dist"
    pair = operands(op, input, other, divides=True)
    assert pair is not None
    storage, (x, y) = widened(*pair)
    apart = _ops.sub(x, y, contract)
    number = as_float(op, "p", p)
    if not apart.numel() and not 0 <= number < math.inf:
        return torch.zeros((), dtype=storage, device=apart.device)
    return narrowed(_ops.vector_norm(apart, number, list(range(apart.dim())), False, contract), storage)


@public("norm")
def renorm(input: Tensor, p: float, dim: int, maxnorm: float, *, contract: ContractLike = None) -> Tensor:
    """Slices of `dim` whose `vector_norm` n of order p is above maxnorm, times `maxnorm / (n + 1e-7)`; others as are.

    Any floating-point dtype, float64 for the orders that `vector_norm` has in it; 16-bit floats are rounded once.

    Raises:
        ShapeError: if `input` has less than two dimensions, `dim` does not exist, p is not above 0 or maxnorm below 0.
    """
    op = "renorm"
    check_dtype(op, ALL, input=input)
    check(op, input.dim() >= 2, lambda: f"input.dim() is {input.dim()}, expected 2 or more")
    position, order, most = normalize_dim(op, dim, input.dim()), as_float(op, "p", p), as_float(op, "maxnorm", maxnorm)
    check(op, order > 0, lambda: f"p is {p}, expected above 0")
    check(op, most >= 0, lambda: f"maxnorm is {maxnorm}, expected 0 or more")
    storage, (x,) = widened(input)
    bound, little, one = (constant(v, x.dtype, x.device) for v in (most, 1e-7, 1.0))
    norm = _ops.vector_norm(x, order, [d for d in range(x.dim()) if d != position], True, contract)
    factor = _ops.div(bound, _ops.add(norm, little, contract), contract)
    return narrowed(_ops.mul(x, _ops.where(less_than(bound, norm, contract), factor, one, contract), contract), storage)


@public("matmul", page="generated/torch.linalg.vecdot", broadcasts=True)
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1, contract: ContractLike = None) -> Tensor:
    """Dot products along `dim` of tensors that broadcast: `(..., K), (..., K) -> (...)`, any floating-point dtype.

    Each is one of `matmul`, a chain of fused multiply-adds in each block.
    """
    op = "vecdot"
    check(op, x.dim() > 0 and y.dim() > 0, "an operand is 0-D, expected 1-D or more")
    shape = broadcast_shape(op, x=x, y=y)
    position = normalize_dim(op, dim, len(shape))
    rows, columns = (expand_to(t, shape, contract).movedim(position, -1) for t in (x, y))
    product = _ops.matmul(rows.unsqueeze(-2), columns.unsqueeze(-1), False, False, contract)
    return product.squeeze(-1).squeeze(-1)
