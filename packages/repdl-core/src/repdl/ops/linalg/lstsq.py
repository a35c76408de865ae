"""lstsq: least squares by the factors of qr and substitution."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.errors import ArgumentError, UnsupportedError, check, check_dtype, check_range, check_size
from repdl.ops.common import expand_to
from repdl.ops.declare import public
from repdl.ops.linalg.qr import qr
from repdl.ops.linalg.solve_triangular import solve_triangular
from repdl.ops.reduction.amax import amax
from repdl.registry import as_float, autocast, computes, functions as _ops
from repdl.tensors.layout import broadcast_shapes
from repdl.tensors.values import assert_on_device, has_values

__all__ = ["lstsq"]

_DRIVERS, _BY_SINGULAR_VALUES = ("gelsy", "gels"), ("gelsd", "gelss")
_NOT_FULL = "a matrix of A has no full rank"


@public("qr", page="generated/torch.linalg.lstsq", uncached="functions that are cached compute it")
def lstsq(
    A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None, contract: ContractLike = None
) -> Sequence[Tensor]:
    """The X for which `A @ X - B` is smallest, a named tuple `(solution, residuals, rank, singular_values)`.

    `(..., M, N), (..., M, K) -> (..., N, K)`, or `(..., M) -> (..., N)`; float32 or float64. Of several such X, where
    M < N, it is the smallest one. A has full rank, min(M, N). With `A = Q R` X is the solution of `R X = Q^T B`; where
    M < N, with `A^T = Q R`, it is `Q Y`, `R^T Y = B`. The derivative is that of the operations.

    Args:
        rcond: A has full rank if the largest element of R, times that of its inverse, times this is below 1; None is
            the distance of 1 to the next number times max(M, N). For "gels" R has no 0 on its diagonal.
        driver: "gelsy", which None is on every device, or "gels". As in torch "gelsy" gives no residuals and "gels" no
            rank; residuals, the sums of squares of `A @ X - B`, are there for M > N. Singular values are always empty.

    Raises:
        OutOfRangeError: if A has less than full rank, or a number that is not finite.
        ShapeError: if shapes do not fit together.
        ArgumentError, UnsupportedError: for another `driver`, as those that compute singular values.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract, or not the same.
    """
    op = "lstsq"
    if driver in _BY_SINGULAR_VALUES:
        raise UnsupportedError(f"{op}: driver is {driver!r}, which takes singular values, expected one of {_DRIVERS}")
    if driver is not None and driver not in _DRIVERS:
        raise ArgumentError(f"{op}: driver is {driver!r}, expected None or one of {_DRIVERS}")
    check(op, A.dim() >= 2, lambda: f"A.dim() is {A.dim()}, expected 2 or more")
    check_dtype(op, (torch.float32, torch.float64), A=A)
    check_dtype(op, (A.dtype,), B=B)
    given = None if rcond is None else as_float(op, "rcond", rcond)
    vectors = B.dim() == A.dim() - 1
    if vectors:
        check_size(op, "B.shape", B.shape, A.shape[:-1], "A.shape[:-1], or a matrix")
        B = B.unsqueeze(-1)
    check(op, B.dim() == A.dim(), lambda: f"B.dim() is {B.dim()}, expected {A.dim()} or {A.dim() - 1}")
    check_size(op, "B.shape[-2]", B.shape[-2], A.shape[-2], "A.shape[-2]")
    x, residuals, rank = _solved(A, B, given, driver or _DRIVERS[0], contract)
    nothing = A.new_empty(0)
    return torch.return_types.linalg_lstsq((x.squeeze(-1) if vectors else x, residuals, rank, nothing))  # type: ignore[no-any-return,attr-defined]


@autocast.without
def _solved(a: Tensor, b: Tensor, rcond: float | None, driver: str, contract: str) -> tuple[Tensor, Tensor, Tensor]:
    """X, residuals and rank."""
    rows, columns = a.shape[-2:]
    tall, batch = rows >= columns, broadcast_shapes(a.shape[:-2], b.shape[:-2])
    q, r = qr(a if tall else a.mT, contract=contract)
    if driver == "gels":
        regular = _ops.sign(r.detach().diagonal(dim1=-2, dim2=-1)) != 0
    else:
        least = torch.finfo(a.dtype).eps * max(rows, columns) if rcond is None else rcond
        regular = _is_regular(r.detach(), least, contract)
    if has_values(regular) and not assert_on_device("lstsq", regular, lambda values: values, _NOT_FULL):
        check_range("lstsq", bool(regular.all()), lambda: _told(regular, a.dim() - 2, min(rows, columns), driver))
    q, r, b = (expand_to(t, (*batch, *t.shape[-2:]), contract) for t in (q, r, b))
    if tall:
        x = solve_triangular(r, _ops.matmul(q, b, True, False, contract), upper=True, contract=contract)
    else:
        x = _ops.matmul(q, solve_triangular(r.mT, b, upper=False, contract=contract), False, False, contract)
    residuals = a.new_empty(0)
    if driver != "gels":
        return x, residuals, torch.full(a.shape[:-2], min(rows, columns), dtype=torch.int64, device=a.device)
    if rows > columns:
        products = _ops.matmul(expand_to(a, (*batch, rows, columns), contract), x, False, False, contract)
        rest = _ops.sub(products, b, contract)
        residuals = _ops.sum_of_squares(rest, [rest.dim() - 2], False, contract)
    return x, residuals, torch.empty(0, dtype=torch.int64, device=a.device)


def _is_regular(r: Tensor, rcond: float, contract: str) -> Tensor:
    """Of each matrix, whether the product of the largest elements of it and its inverse is below 1 / rcond."""
    if r.shape[-1] == 0:
        return torch.ones(r.shape[:-2], dtype=torch.bool, device=r.device)
    identity = torch.eye(r.shape[-1], dtype=r.dtype, device=r.device).expand_as(r)
    inverse = solve_triangular(r, identity, upper=True, contract=contract)
    largest, of_inverse = (amax(m.abs(), (-2, -1)) for m in (r, inverse))
    factor = torch.full_like(largest, rcond)
    return _ops.mul(_ops.mul(largest, of_inverse, contract), factor, contract) < 1


def _told(regular: Tensor, dims: int, rank: int, driver: str) -> str:
    where = [int(i) for i in (~regular).nonzero()[0]][:dims]
    remedy = "" if driver == "gels" else ", or lower rcond"
    return (
        f"A{where or ''} has less than full rank, expected {rank}; drop rows or columns that depend on others{remedy}"
    )


computes("linalg_lstsq", renamed={"b": "B"})(lstsq)
