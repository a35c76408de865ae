"""cholesky: the triangular factor of a positive-definite matrix, one column after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import check_least_dim, check_size, check_square
from repdl.ops.common.arithmetic import add, mul
from repdl.ops.declare import public
from repdl.ops.linalg._info import check_info, info_of
from repdl.ops.linalg.solve_triangular import solve_triangular
from repdl.registry import FLOAT32_ON_CPU, autocast, composite, computes, functions as _ops

__all__ = ["cholesky", "cholesky_ex", "cholesky_inverse", "cholesky_solve"]

_FOUND = (
    "element {index} of the diagonal of L is not greater than 0; add a small multiple of the identity to A, or take "
    "cholesky_ex, which gives info"
)


def _check(A: Tensor) -> None:
    check_square("cholesky", A=A)


@autocast.without
def _formula(a: Tensor, c: str) -> Tensor:
    factor = a.new_zeros(a.shape)
    for j in range(a.shape[-1]):
        below, known = slice(j, None), slice(j)
        column = a[..., below, j : j + 1]
        if j:
            sums = _ops.matmul(factor[..., below, known], factor[..., j : j + 1, known], False, True, c)
            column = _ops.sub(column, sums, c)
        diagonal = _ops.sqrt(column[..., :1, :])
        rest = _ops.div(column[..., 1:, :], diagonal, c)
        factor[..., below, j : j + 1] = torch.cat([diagonal, rest], -2)
    return factor


def _to_A(g: Tensor, output: Tensor, contract: str) -> Tensor:
    inner = _ops.matmul(output, g, True, False, contract).tril()
    inner = mul(add(inner, inner.tril(-1).mT), 0.5)
    left = _ops.solve_triangular(output.mT, inner, True, False, contract)
    return _ops.solve_triangular(output.mT, left.mT, True, False, contract).mT


_op: Callable[..., Tensor] = composite(
    "cholesky",
    "(Tensor A, str contract) -> Tensor",
    _formula,
    calls=("div", "matmul", "sqrt", "sub"),
    check=_check,
    fake=lambda A: A.new_empty(A.shape),
    gradients={"A": _to_A},
    dtypes=Dtypes(),
    autocast=FLOAT32_ON_CPU,
)


@computes("cholesky")
@public("cholesky", page="generated/torch.linalg.cholesky", uncached="functions that are cached compute it")
def cholesky(A: Tensor, *, upper: bool = False, contract: ContractLike = None) -> Tensor:
    """The lower triangular L with `A = L @ L.mT` of a symmetric positive-definite A, any floating-point dtype.

    `(..., N, N) -> (..., N, N)`. Only the lower triangle of A is read. The derivative is symmetric, as torch's.

    Args:
        upper: the upper triangular U with `A = U.mT @ U` instead, of the upper triangle of A.

    Raises:
        ShapeError: if A is not square.
        LinAlgError: if A is not positive-definite. On a GPU, the next call that waits for it raises an error.
    """
    return cholesky_ex(A, upper=upper, check_errors=True, contract=contract)[0]


@computes("linalg_cholesky_ex")
@public("cholesky", page="generated/torch.linalg.cholesky_ex", uncached="functions that are cached compute it")
def cholesky_ex(
    A: Tensor, *, upper: bool = False, check_errors: bool = False, contract: ContractLike = None
) -> Sequence[Tensor]:
    """The factor of `cholesky`, and whether there is one: a named tuple `(L, info)`, `info` of the batch, int32.

    Where A is positive-definite `info` is 0, else the number, from 1 on, of the first diagonal element of L that is
    not greater than 0. L is what the contract says there too, NaN for the most part, where torch's can be anything.

    Args:
        upper: as in `cholesky`.
        check_errors: raise LinAlgError unless all of `info` is 0.

    Raises:
        ShapeError: if A is not square.
    """
    _check(A)
    factor = _op(A.mT, contract).mT if upper else _op(A, contract)
    failed = ~(_ops.sign(factor.detach().diagonal(dim1=-2, dim2=-1)) > 0)
    info = info_of(failed)
    if check_errors:
        check_info("cholesky", info, "positive-definite", _FOUND)
    return torch.return_types.linalg_cholesky_ex((factor, info))  # type: ignore[attr-defined,no-any-return]


@computes("cholesky_solve", renamed={"self": "input"})
@public("cholesky", page="generated/torch.cholesky_solve")
def cholesky_solve(input: Tensor, input2: Tensor, upper: bool = False, *, contract: ContractLike = None) -> Tensor:
    """The X with `A @ X = B` of a B, the input, and the factor of A, the input2, any floating-point dtype.

    `(..., N, K), (..., N, N) -> (..., N, K)`; batches broadcast. Two calls of `solve_triangular`.

    Args:
        upper: whether the factor is `cholesky`'s with `upper=True`; the other triangle is not read.

    Raises:
        ShapeError: if the factor is not square, or shapes do not fit together.
    """
    check_square("cholesky_solve", input2=input2)
    check_least_dim("cholesky_solve", 2, input=input)
    check_size("cholesky_solve", "input.shape[-2]", input.shape[-2], input2.shape[-1], "input2.shape[-1]")
    first = solve_triangular(input2.mT if upper else input2, input, upper=False, contract=contract)
    return solve_triangular(input2 if upper else input2.mT, first, upper=True, contract=contract)


@computes("cholesky_inverse", renamed={"self": "input"})
@public("cholesky", page="generated/torch.cholesky_inverse")
def cholesky_inverse(input: Tensor, upper: bool = False, *, contract: ContractLike = None) -> Tensor:
    """The inverse of A by the factor of A: `cholesky_solve` of the identity.

    `(..., N, N) -> (..., N, N)`, any floating-point dtype.

    Args:
        upper: as in `cholesky_solve`.

    Raises:
        ShapeError: if the factor is not square.
    """
    check_square("cholesky_inverse", input=input)
    identity = torch.eye(input.shape[-1], dtype=input.dtype, device=input.device)
    return cholesky_solve(identity, input, upper, contract=contract)
