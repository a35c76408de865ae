"""solve, inv, det and slogdet, by the factors of lu_factor."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from repdl.contract import ContractLike, contract_name
from repdl.dtypes import Dtypes
from repdl.errors import check, check_least_dim, check_size, check_square
from repdl.ops.common import sum_to
from repdl.ops.declare import public
from repdl.ops.linalg._pivots import pivots_of
from repdl.ops.linalg.lu import check_invertible, info_of_factors, lu_factor_ex
from repdl.ops.reduction.prod import prod
from repdl.ops.reduction.sum import sum as sum_of
from repdl.registry import FLOAT32_ON_CPU, autocast, composite, computes, functions as _ops
from repdl.tensors.layout import broadcast_shapes

__all__ = ["det", "inv", "inv_ex", "slogdet", "solve", "solve_ex"]


def _check(A: Tensor, B: Tensor) -> None:
    check_square("solve", A=A)
    check_least_dim("solve", 2, B=B)
    check_size("solve", "B.shape[-2]", B.shape[-2], A.shape[-1], "A.shape[-1]")
    broadcast_shapes(A.shape[:-2], B.shape[:-2])


def _shape(A: Tensor, B: Tensor) -> torch.Size:
    return torch.Size((*broadcast_shapes(A.shape[:-2], B.shape[:-2]), *B.shape[-2:]))


@autocast.without
def _formula(a: Tensor, b: Tensor, c: str) -> tuple[Tensor, Tensor, Tensor]:
    found, rows = _ops.lu_factor(a, True, c)
    shape = _shape(a, b)
    b, lu = b.expand(shape).gather(-2, rows.unsqueeze(-1).expand(shape)), found.expand(*shape[:-2], *found.shape[-2:])
    x = _ops.solve_triangular(lu, b, False, True, c)
    return _ops.solve_triangular(lu, x, True, False, c), found, rows


_op: Callable[..., tuple[Tensor, Tensor, Tensor]] = composite(
    "solve",
    "(Tensor A, Tensor B, str contract) -> (Tensor X, Tensor LU, Tensor rows)",
    _formula,
    calls=("lu_factor", "solve_triangular"),
    check=_check,
    fake=lambda A, B: (B.new_empty(_shape(A, B)), A.new_empty(A.shape), A.new_empty(A.shape[:-1], dtype=torch.int64)),
    gradients={
        "each": lambda g, A, contract: _op(A.mT, g, contract)[0],
        "A": lambda each, X, A_shape, contract: sum_to(
            _ops.neg(_ops.matmul(each, X, False, True, contract)), A_shape, contract
        ),
        "B": lambda each, B_shape, contract: sum_to(each, B_shape, contract),
    },
    dtypes=Dtypes(),
    autocast=FLOAT32_ON_CPU,
    family="lu",
)


@public("lu", page="generated/torch.linalg.solve_ex", uncached="functions that are cached compute it")
def solve_ex(
    A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False, contract: ContractLike = None
) -> Sequence[Tensor]:
    """The X of `solve`, and whether A is invertible: a named tuple `(result, info)`, any floating-point dtype.

    `info`, int32, is 0 for each matrix that is, else the index, from 1 on, of the first 0 on the diagonal of U.

    Args:
        left: as in `solve`.
        check_errors: raise LinAlgError unless all of `info` is 0.

    Raises:
        ShapeError: if A is not square, or shapes do not fit together.
    """
    x, found, _ = _solved("solve", A, B, left, contract)
    info = info_of_factors(found)
    if check_errors:
        check_invertible("solve", info)
    return torch.return_types.linalg_solve_ex((x, info))  # type: ignore[attr-defined,no-any-return]


def _solved(op: str, A: Tensor, B: Tensor, left: bool, contract: str) -> tuple[Tensor, Tensor, Tensor]:
    """X, and the factors of A, or of its transpose where A is right of X."""
    check_square(op, A=A)
    vector = B.dim() == 1 or (B.dim() == A.dim() - 1 and B.shape == A.shape[:-1])
    check(op, left or not vector, lambda: f"left is False and B has shape {tuple(B.shape)}, expected matrices")
    b = B.unsqueeze(-1) if vector else B
    check_least_dim(op, 2, B=b)
    side = -2 if left else -1
    check_size(op, f"B.shape[{side + vector}]", b.shape[side], A.shape[-1], "A.shape[-1]")
    a, b = (A, b) if left else (A.mT, b.mT)
    x, found, rows = _op(a, b, contract)
    return x.squeeze(-1) if vector else x if left else x.mT, found.detach(), rows


@public("lu", page="generated/torch.linalg.solve", uncached="functions that are cached compute it")
def solve(A: Tensor, B: Tensor, *, left: bool = True, contract: ContractLike = None) -> Tensor:
    """The X with `A @ X = B`, or `X @ A = B`, of an invertible A, any floating-point dtype.

    `(..., N, N), (..., N, K) -> (..., N, K)`, or `(..., N) -> (..., N)`; batches broadcast. B is a vector if it has one
    dimension, or the shape of A without its last one, as in torch.

    Args:
        left: whether A is left of X.

    Raises:
        ShapeError: if A is not square, or shapes do not fit together.
        LinAlgError: if A is singular. On a GPU, the next call that waits for it raises an error.
    """
    return solve_ex(A, B, left=left, check_errors=True, contract=contract)[0]


@computes("_linalg_solve_ex")
def _aten_solve_ex(
    A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    x, found, rows = _solved("solve", A, B, left, contract_name(None))
    info = info_of_factors(found)
    if check_errors:
        check_invertible("solve", info)
    return x, found, pivots_of(rows, A.shape[-1]), info


@computes("linalg_inv_ex")
@public("lu", page="generated/torch.linalg.inv_ex", uncached="functions that are cached compute it")
def inv_ex(A: Tensor, *, check_errors: bool = False, contract: ContractLike = None) -> Sequence[Tensor]:
    """The inverse of A, and whether it is invertible: a named tuple `(inverse, info)`, any floating-point dtype.

    Args:
        check_errors: raise LinAlgError unless all of `info` is 0, as in `solve_ex`.

    Raises:
        ShapeError: if A is not square.
    """
    check_square("inv", A=A)
    identity = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    x, found, _ = _op(A, identity.expand_as(A), contract)
    info = info_of_factors(found)
    if check_errors:
        check_invertible("inv", info)
    return torch.return_types.linalg_inv_ex((x, info))  # type: ignore[attr-defined,no-any-return]


@public("lu", page="generated/torch.linalg.inv", uncached="functions that are cached compute it")
def inv(A: Tensor, *, contract: ContractLike = None) -> Tensor:
    """The inverse of A: `solve` of the identity, any floating-point dtype. `(..., N, N) -> (..., N, N)`.

    Raises:
        ShapeError: if A is not square.
        LinAlgError: as in `solve`.
    """
    return inv_ex(A, check_errors=True, contract=contract)[0]


def _diagonal(A: Tensor, contract: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The diagonal of U, 1 or -1 for an even or odd number of rows that changed places, and the factors."""
    found, pivots, _ = lu_factor_ex(A, contract=contract)
    moved = pivots != torch.arange(1, pivots.shape[-1] + 1, device=A.device)
    odd = (moved.sum(-1) % 2 == 1).unsqueeze(-1)
    return found.diagonal(dim1=-2, dim2=-1), torch.where(odd, -1.0, 1.0).to(A.dtype), found, pivots


@computes("_linalg_det")
def _aten_det(A: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _det(A, contract_name(None))


def _det(A: Tensor, contract: str) -> tuple[Tensor, Tensor, Tensor]:
    diagonal, sign, found, pivots = _diagonal(A, contract)
    return prod(torch.cat([sign, diagonal], -1), -1, contract=contract), found, pivots


@public("lu", page="generated/torch.linalg.det")
def det(A: Tensor, *, contract: ContractLike = None) -> Tensor:
    """The determinant, any floating-point dtype: `(..., N, N) -> (...)`; the product of 1 or -1 and the diagonal of U.

    The derivative is that of the operations. That of a singular A is not finite.

    Raises:
        ShapeError: if A is not square.
    """
    check_square("det", A=A)
    return _det(A, contract)[0]


@computes("_linalg_slogdet")
def _aten_slogdet(A: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return _slogdet(A, contract_name(None))


def _slogdet(A: Tensor, contract: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    diagonal, sign, found, pivots = _diagonal(A, contract)
    signs = torch.cat([sign, _ops.sign(diagonal.detach())], -1)
    return prod(signs, -1), sum_of(_ops.log(_ops.abs(diagonal)), -1, contract=contract), found, pivots


@public("lu", page="generated/torch.linalg.slogdet")
def slogdet(A: Tensor, *, contract: ContractLike = None) -> Sequence[Tensor]:
    """The sign of the determinant and the logarithm of its absolute value, a named tuple `(sign, logabsdet)`.

    `(..., N, N) -> (...), (...)`, any floating-point dtype. Of a singular A 0 and -inf. The derivative is that of the
    operations.

    Raises:
        ShapeError: if A is not square.
    """
    check_square("slogdet", A=A)
    return torch.return_types.linalg_slogdet(_slogdet(A, contract)[:2])  # type: ignore[attr-defined,no-any-return]
