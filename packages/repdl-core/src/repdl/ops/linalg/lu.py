"""lu_factor: Crout's triangular factors of a matrix, with the largest pivot of each column; lu_unpack, lu_solve."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from repdl.contract import ContractLike, contract_name
from repdl.dtypes import ALL, Dtypes
from repdl.errors import check_dtype, check_least_dim, check_size, check_square
from repdl.ops.common import expand_to
from repdl.ops.common.arithmetic import sub
from repdl.ops.declare import public
from repdl.ops.indexing.gather import gather
from repdl.ops.linalg._info import check_info, info_of
from repdl.ops.linalg._pivots import pivots_of, rows_of
from repdl.ops.linalg.solve_triangular import solve_triangular
from repdl.registry import autocast, composite, computes, functions as _ops
from repdl.tensors.layout import broadcast_shapes

__all__ = ["lu_factor", "lu_factor_ex", "lu_solve", "lu_unpack"]


_INTEGERS = {
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
    torch.float32: torch.int32,
    torch.float64: torch.int64,
}


def _check(A: Tensor) -> None:
    check_least_dim("lu_factor", 2, A=A)


@autocast.without
def _formula(a: Tensor, pivot: bool, c: str) -> tuple[Tensor, Tensor]:
    """LU, which is L without its diagonal below U, and which row of A each row of them is."""
    (m, n), lu = a.shape[-2:], a.clone(memory_format=torch.contiguous_format)
    rows = torch.arange(m, device=a.device).expand(a.shape[:-1]).contiguous()
    for j in range(min(m, n)):
        below, known, right = slice(j, None), slice(j), slice(j + 1, None)
        column = lu[..., below, j : j + 1]
        if j:
            column = _ops.sub(column, _ops.matmul(lu[..., below, known], lu[..., known, j : j + 1], False, False, c), c)
        if pivot and j + 1 < m and column.numel():
            order = _first_and(_ops.max_dim(column.abs(), column.dim() - 2, True)[1], m - j)
            column = column.gather(-2, order)
            lu[..., below, :] = lu[..., below, :].gather(-2, order.expand(*order.shape[:-1], n))
            rows[..., below] = rows[..., below].gather(-1, order.squeeze(-1))
        diagonal = column[..., :1, :]
        rest = _ops.div(column[..., 1:, :], torch.where(_is_zero(diagonal), 1.0, diagonal), c)
        lu[..., below, j : j + 1] = torch.cat([diagonal, rest], -2)
        if j and j + 1 < n:
            sums = _ops.matmul(lu[..., j : j + 1, known], lu[..., known, right], False, False, c)
            lu[..., j : j + 1, right] = _ops.sub(lu[..., j : j + 1, right], sums, c)
    return lu, rows


def _is_zero(x: Tensor) -> Tensor:
    """By the bits: a comparison of floats takes a subnormal number for 0 where a thread flushes them."""
    return (x.view(_INTEGERS[x.dtype]) << 1) == 0


def _first_and(largest: Tensor, count: int) -> Tensor:
    """The indices of `count` rows, in which the first one and the row `largest` change places."""
    index = torch.arange(count, device=largest.device).unsqueeze(-1).expand(*largest.shape[:-2], count, 1)
    return torch.where(index == 0, largest, torch.where(index == largest, 0, index))


def _to_A(g: Tensor, LU: Tensor, rows: Tensor, contract: str) -> Tensor:
    k = min(LU.shape[-2:])
    first, wide, tall = LU[..., :k, :k], LU[..., :k, k:], LU[..., k:, :k]
    g_first, g_wide, g_tall = g[..., :k, :k], g[..., :k, k:], g[..., k:, :k]
    unit, _ = _apart(first)
    low = _ops.matmul(unit, g_first.tril(-1), True, False, contract)
    up = _ops.matmul(g_first.triu(), first.triu(), False, True, contract)
    if wide.shape[-1]:
        low = sub(low, _ops.matmul(g_wide, wide, False, True, contract))
    if tall.shape[-2]:
        up = sub(up, _ops.matmul(tall, g_tall, True, False, contract))
    inner = torch.where(torch.ones(k, k, dtype=torch.bool, device=LU.device).tril(-1), low, up)
    to_rows = _by_lower(first, inner, contract)
    to_rows = _by_upper(first, to_rows, contract)
    if wide.shape[-1]:
        to_rows = torch.cat([to_rows, _by_lower(first, g_wide, contract)], -1)
    if tall.shape[-2]:
        to_rows = torch.cat([to_rows, _by_upper(first, g_tall, contract)], -2)
    return torch.empty_like(to_rows).scatter(-2, rows.unsqueeze(-1).expand_as(to_rows), to_rows)


def _by_lower(lu: Tensor, b: Tensor, contract: str) -> Tensor:
    """X of `L.mT @ X = B`."""
    return _ops.solve_triangular(lu.mT, b, True, True, contract)


def _by_upper(lu: Tensor, b: Tensor, contract: str) -> Tensor:
    """X of `X @ U.mT = B`."""
    return _ops.solve_triangular(lu, b.mT, True, False, contract).mT


_op: Callable[..., tuple[Tensor, Tensor]] = composite(
    "lu_factor",
    "(Tensor A, bool pivot, str contract) -> (Tensor LU, Tensor rows)",
    _formula,
    calls=("div", "matmul", "max_dim", "sub"),
    check=_check,
    fake=lambda A: (A.new_empty(A.shape), A.new_empty(A.shape[:-1], dtype=torch.int64)),
    gradients={"A": _to_A},
    dtypes=Dtypes(),
    family="lu",
)


def check_invertible(op: str, info: Tensor) -> None:
    check_info(op, info, "invertible", "U[{index}, {index}] is 0, expected another number")


def info_of_factors(lu: Tensor) -> Tensor:
    """0, or the index, from 1 on, of the first 0 on the diagonal of U."""
    return info_of(_is_zero(lu.detach().diagonal(dim1=-2, dim2=-1)))


@computes("linalg_lu_factor_ex")
@public("lu", page="generated/torch.linalg.lu_factor_ex", uncached="functions that are cached compute it")
def lu_factor_ex(
    A: Tensor, *, pivot: bool = True, check_errors: bool = False, contract: ContractLike = None
) -> Sequence[Tensor]:
    """`lu_factor`, and whether U has a 0 on its diagonal: a named tuple `(LU, pivots, info)`.

    Any floating-point dtype. `info` is 0, or the index, from 1 on, of the first 0 on the diagonal.

    Args:
        pivot: as in `lu_factor`.
        check_errors: raise LinAlgError unless all of `info` is 0.

    Raises:
        ShapeError: if A has less than 2 dimensions.
    """
    found, rows = _op(A, pivot, contract)
    info = info_of_factors(found)
    if check_errors:
        check_invertible("lu_factor_ex", info)
    return torch.return_types.linalg_lu_factor_ex((found, pivots_of(rows, min(A.shape[-2:])), info))  # type: ignore[attr-defined,no-any-return]


@public("lu", page="generated/torch.linalg.lu_factor", uncached="functions that are cached compute it")
def lu_factor(A: Tensor, *, pivot: bool = True, contract: ContractLike = None) -> Sequence[Tensor]:
    """The factors of `A = P @ L @ U`, a named tuple `(LU, pivots)`, any floating-point dtype.

    `(..., M, N) -> (..., M, N), (..., min(M, N))`. L, whose diagonal is 1, lies below U. Row i changed places with row
    `pivots[i] - 1`, int32.

    Args:
        pivot: take the largest element of each column, the first of several, as torch does; without it, the next one.

    Raises:
        ShapeError: if A has less than 2 dimensions.
        LinAlgError: if U has a 0 on its diagonal.
    """
    found, pivots, info = lu_factor_ex(A, pivot=pivot, contract=contract)
    check_invertible("lu_factor", info)
    return torch.return_types.linalg_lu_factor((found, pivots))  # type: ignore[attr-defined,no-any-return]


@computes("linalg_lu")
def _aten_lu(A: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    found, rows = _op(A, pivot, contract_name(None))
    return (_permutation(rows, A) if pivot else A.new_empty(0), *_apart(found))


def _permutation(rows: Tensor, like: Tensor) -> Tensor:
    m = rows.shape[-1]
    index = torch.arange(m, device=rows.device).unsqueeze(-1)
    return (rows.unsqueeze(-2) == index).to(like.dtype)


def _apart(found: Tensor) -> tuple[Tensor, Tensor]:
    k = min(found.shape[-2:])
    identity = torch.eye(found.shape[-2], k, dtype=found.dtype, device=found.device)
    lower = torch.where(identity == 1, identity, found[..., :, :k].tril(-1))
    return lower, found[..., :k, :].triu()


@computes("lu_unpack")
@public("lu", page="generated/torch.lu_unpack")
def lu_unpack(
    LU_data: Tensor,
    LU_pivots: Tensor,
    unpack_data: bool = True,
    unpack_pivots: bool = True,
    *,
    contract: ContractLike = None,
) -> Sequence[Tensor]:
    """P, L and U of what `lu_factor` gives, a named tuple `(P, L, U)`; what is not unpacked is empty.

    `(..., M, N), (..., K) -> (..., M, M), (..., M, K), (..., K, N)`, any floating-point dtype.

    Raises:
        ShapeError: if `LU_data` has less than 2 dimensions, or `LU_pivots` not the shape that goes with it.
        OutOfRangeError: if a pivot is no row.
    """
    check_least_dim("lu_unpack", 2, LU_data=LU_data)
    check_dtype("lu_unpack", ALL, LU_data=LU_data)
    _check_pivots("lu_unpack", LU_data, LU_pivots)
    nothing = LU_data.new_empty(0)
    matrix = _permutation(rows_of("lu_unpack", LU_pivots, LU_data.shape[-2]), LU_data) if unpack_pivots else nothing
    return torch.return_types.lu_unpack((matrix, *(_apart(LU_data) if unpack_data else (nothing, nothing))))  # type: ignore[attr-defined,no-any-return]


def _check_pivots(op: str, found: Tensor, pivots: Tensor) -> None:
    check_dtype(op, (torch.int32,), LU_pivots=pivots)
    expected = (*found.shape[:-2], min(found.shape[-2:]))
    check_size(op, "LU_pivots.shape", tuple(pivots.shape), expected, "LU_data.shape[:-2], and its smaller side")


@public("lu")
def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, contract: ContractLike = None) -> Tensor:
    """The X with `A @ X = B` of what `lu_factor` gives of A, any floating-point dtype.

    `(..., N, K), (..., N, N), (..., N) -> (..., N, K)`; batches broadcast.

    Raises:
        ShapeError: if `LU_data` is not square, or shapes do not fit together.
        OutOfRangeError: if a pivot is no row.
    """
    return _by_factors(LU_data, LU_pivots, b, True, False, contract)


@computes("linalg_lu_solve")
def _aten_lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    return _by_factors(LU, pivots, B, left, adjoint, contract_name(None))


def _by_factors(LU: Tensor, pivots: Tensor, B: Tensor, left: bool, adjoint: bool, contract: str) -> Tensor:
    check_least_dim("lu_solve", 2, LU_data=LU, b=B)
    check_dtype("lu_solve", ALL, LU_data=LU)
    check_square("lu_solve", LU_data=LU)
    side = -2 if left else -1
    check_size("lu_solve", f"b.shape[{side}]", B.shape[side], LU.shape[-1], "LU_data.shape[-1]")
    _check_pivots("lu_solve", LU, pivots)
    rows, b = rows_of("lu_solve", pivots, LU.shape[-1]), B if left else B.mT
    transposed = adjoint == left
    x = _by_transposed(LU, rows, b, contract) if transposed else _solved(LU, rows, b, contract)
    return x if left else x.mT


def _solved(found: Tensor, rows: Tensor, b: Tensor, contract: str) -> Tensor:
    """X of `A @ X = B` by factors of A."""
    batch = broadcast_shapes(b.shape[:-2], rows.shape[:-1])
    b = expand_to(b, (*batch, *b.shape[-2:]), contract)
    b = gather(b, -2, rows.unsqueeze(-1).expand(b.shape), contract=contract)
    x = solve_triangular(found, b, upper=False, unitriangular=True, contract=contract)
    return solve_triangular(found, x, upper=True, contract=contract)


def _by_transposed(found: Tensor, rows: Tensor, b: Tensor, contract: str) -> Tensor:
    """X of `A.mT @ X = B` by factors of A."""
    x = solve_triangular(found.mT, b, upper=False, contract=contract)
    x = solve_triangular(found.mT, x, upper=True, unitriangular=True, contract=contract)
    return torch.empty_like(x).scatter(-2, rows.unsqueeze(-1).expand(x.shape), x)
