"""solve_triangular: substitution, one row after the other."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import check_least_dim, check_size, check_square
from repdl.ops.common import expand_to
from repdl.ops.declare import public
from repdl.registry import autocast, composite, computes, functions as _ops
from repdl.tensors.layout import broadcast_shapes

__all__ = ["solve_triangular"]

_OP = "solve_triangular"


def _check(A: Tensor, B: Tensor) -> None:
    check_square(_OP, A=A)
    check_least_dim(_OP, 2, B=B)
    check_size(_OP, "B.shape[-2]", B.shape[-2], A.shape[-1], "A.shape[-1]")
    check_size(_OP, "B.shape[:-2]", B.shape[:-2], A.shape[:-2], "A.shape[:-2]")


@autocast.without
def _formula(a: Tensor, b: Tensor, upper: bool, unitriangular: bool, c: str) -> Tensor:
    n, x = a.shape[-1], b.new_empty(b.shape)
    for i in reversed(range(n)) if upper else range(n):
        known = slice(i + 1, n) if upper else slice(i)
        row = b[..., i : i + 1, :]
        if known != slice(n, n) and known != slice(0):
            sums = _ops.matmul(a[..., i : i + 1, known], x[..., known, :], False, False, c)
            row = _ops.sub(row, sums, c)
        x[..., i : i + 1, :] = row if unitriangular else _ops.div(row, a[..., i : i + 1, i : i + 1], c)
    return x


def _to_A(to_B: Tensor, output: Tensor, upper: bool, unitriangular: bool, contract: str) -> Tensor:
    products = _ops.neg(_ops.matmul(to_B, output, False, True, contract))
    diagonal = 1 if unitriangular else 0
    return products.triu(diagonal) if upper else products.tril(-diagonal)


_op: Callable[..., Tensor] = composite(
    _OP,
    "(Tensor A, Tensor B, bool upper, bool unitriangular, str contract) -> Tensor",
    _formula,
    calls=("div", "matmul", "sub"),
    check=_check,
    fake=lambda B: B.new_empty(B.shape),
    gradients={
        "A": _to_A,
        "B": lambda g, A, upper, unitriangular, contract: _op(A.mT, g, not upper, unitriangular, contract),
    },
    dtypes=Dtypes(),
)


@public("solve_triangular", page="generated/torch.linalg.solve_triangular")
def solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False, contract: ContractLike = None
) -> Tensor:
    """The X with `A @ X = B`, or `X @ A = B`, of a triangular A, any floating-point dtype.

    `(..., N, N), (..., N, K) -> (..., N, K)`, or with `left=False` `(..., K, N) -> (..., K, N)`; batches broadcast.

    Args:
        upper: whether A is upper triangular; the other triangle is not read.
        left: whether A is left of X.
        unitriangular: whether the diagonal is 1; then it is not read either.

    Raises:
        ShapeError: if A is not square, or shapes do not fit together.
    """
    check_square(_OP, A=A)
    check_least_dim(_OP, 2, B=B)
    side = -2 if left else -1
    check_size(_OP, f"B.shape[{side}]", B.shape[side], A.shape[-1], "A.shape[-1]")
    batch = broadcast_shapes(A.shape[:-2], B.shape[:-2])
    a, b = (expand_to(t, (*batch, *t.shape[-2:]), contract) for t in (A, B))
    if left:
        return _op(a, b, upper, unitriangular, contract)
    return _op(a.mT, b.mT, not upper, unitriangular, contract).mT


computes("linalg_solve_triangular")(solve_triangular)
