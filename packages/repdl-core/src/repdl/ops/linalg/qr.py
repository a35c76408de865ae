"""qr: Householder's reflections, in one fixed order of registered ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import ArgumentError, check, check_dtype, check_least_dim, check_range
from repdl.ops.declare import public
from repdl.ops.reduction.amax import amax
from repdl.registry import FLOAT32_ON_CPU, autocast, composite, computes, functions as _ops

__all__ = ["qr"]

_MODES = "reduced", "complete", "r"


def _check(A: Tensor, columns: int) -> None:
    check_least_dim("qr", 2, A=A)
    m, least = A.shape[-2], min(A.shape[-2:])
    check_range("qr", columns in (0, least, m), lambda: f"columns is {columns}, expected 0, {least} or {m}")


def _fake(A: Tensor, columns: int) -> tuple[Tensor, Tensor]:
    *batch, m, n = A.shape
    return A.new_empty(*batch, m, columns), A.new_empty(*batch, min(m, n), n)


@autocast.without
def _formula(a: Tensor, columns: int, contract: str) -> tuple[Tensor, Tensor]:
    vectors, r = reflections(a, contract)
    return product(vectors, columns, a, contract) if columns else a[..., :0], r


_op: Callable[..., tuple[Tensor, Tensor]] = composite(
    "qr",
    "(Tensor A, int columns, str contract) -> (Tensor Q, Tensor R)",
    _formula,
    calls=("add", "amax", "div", "matmul", "mul", "neg", "sqrt", "sub", "sum"),
    check=_check,
    fake=_fake,
    dtypes=Dtypes(),
    autocast=FLOAT32_ON_CPU,
)


@public("qr", page="generated/torch.linalg.qr", uncached="functions that are cached compute it")
def qr(A: Tensor, mode: str = "reduced", *, contract: ContractLike = None) -> torch.return_types.qr:
    """The factors of `A = Q R`, a named tuple `(Q, R)`: Q has orthogonal columns, R is 0 below its diagonal.

    `(..., M, N) -> (..., M, K), (..., K, N)`, float32 or float64, K = min(M, N), or M where `mode` is "complete"; with
    "r" Q is empty. Signs are LAPACK's, so torch's, but where all below the diagonal is 0 already: a reflection changes
    the sign there too, unless the column has one row or is 0. The derivative is that of the operations.

    Raises:
        ShapeError: if `A` has less than 2 dimensions.
        ArgumentError: if `mode` is none of the three.
        DTypeError: if `A` is of another dtype.
    """
    check("qr", A.dim() >= 2, lambda: f"A.dim() is {A.dim()}, expected 2 or more")
    if mode not in _MODES:
        raise ArgumentError(f"qr: mode is {mode!r}, expected one of {_MODES}")
    check_dtype("qr", (torch.float32, torch.float64), A=A)
    (m, n), nothing = A.shape[-2:], mode == "r"
    q, r = _op(A, 0 if nothing else m if mode == "complete" else min(m, n), contract)
    if mode == "complete":
        r = torch.cat([r, r.new_zeros(*r.shape[:-2], m - r.shape[-2], n)], -2)
    return torch.return_types.linalg_qr((A.new_empty(0) if nothing else q, r))  # type: ignore[attr-defined,no-any-return]


def reflections(a: Tensor, contract: str) -> tuple[list[tuple[Tensor, Tensor]], Tensor]:
    """v and u of each reflection, `(..., M - j, 1)`, and R, `(..., min(M, N), N)`. A reflection is `I - v @ u.T`."""
    rest, found, rows = a, [], []
    for j in range(min(a.shape[-2:])):
        x, rest = rest[..., :1], rest[..., 1:]
        v, u, diagonal = _reflection(x, contract)
        found.append((v, u))
        rest = _reflected(rest, v, u, contract)
        rows.append(torch.cat([diagonal.new_zeros(*diagonal.shape[:-1], j), diagonal, rest[..., :1, :]], -1))
        rest = rest[..., 1:, :]
    return found, torch.cat(rows, -2) if rows else a[..., :0, :]


def _reflection(x: Tensor, contract: str) -> tuple[Tensor, Tensor, Tensor]:
    """v and u, which make all elements of x 0 but the first, and that one. A row alone, and a 0, stay as they are."""
    down, up = _powers(x)
    x = _ops.mul(x, down, contract)
    first, others = x[..., :1, :], x[..., 1:, :]
    done = (x == 0).all(-2, keepdim=True) | (x.shape[-2] == 1)
    norm = _ops.sqrt(_square_sum(torch.where(done, 1.0, x), contract))
    r = torch.where(first.signbit(), _ops.neg(norm), norm)
    v = torch.cat([_ops.add(first, r, contract), others], -2)
    size = _square_sum(torch.where(done, 1.0, v), contract)
    factor = _ops.div(torch.full_like(size, 2.0), size, contract)
    u = _ops.mul(v, torch.where(done, 0.0, factor), contract)
    return v, u, _ops.mul(torch.where(done, first, _ops.neg(r)), up, contract)


def _powers(x: Tensor) -> tuple[Tensor, Tensor]:
    """A power of two that makes the largest element of a column about 1, and its inverse: squares stay numbers."""
    integer, fraction, bias = (torch.int32, 23, 127) if x.dtype is torch.float32 else (torch.int64, 52, 1023)
    largest = amax(x.detach().abs(), -2, keepdim=True).contiguous()
    exponent = (largest.view(integer) >> fraction).clamp(1, 2 * bias - 1)
    return ((2 * bias - exponent) << fraction).view(x.dtype), (exponent << fraction).view(x.dtype)


def product(vectors: Sequence[tuple[Tensor, Tensor]], columns: int, like: Tensor, contract: str) -> Tensor:
    """The first columns of the product of reflections, of M rows as the matrix `like` that they are of."""
    k, rows = len(vectors), like.shape[-2]
    q = like[..., k:, :0]
    if columns > k:
        q = torch.eye(rows - k, columns - k, dtype=like.dtype, device=like.device).expand(*like.shape[:-2], -1, -1)
    for v, u in reversed(vectors):
        row, column = q.new_zeros(*q.shape[:-2], 1, q.shape[-1]), torch.zeros_like(v)
        column[..., 0, 0] = 1.0
        q = _reflected(torch.cat([column, torch.cat([row, q], -2)], -1), v, u, contract)
    return q


def _square_sum(x: Tensor, contract: str) -> Tensor:
    return _ops.sum(_ops.mul(x, x, contract), [x.dim() - 2], True, contract)


def _reflected(a: Tensor, v: Tensor, u: Tensor, contract: str) -> Tensor:
    """a - v @ (u.T @ a)"""
    projected = _ops.matmul(u, a, True, False, contract)
    return _ops.sub(a, _ops.matmul(v, projected, False, False, contract), contract)


computes("linalg_qr")(qr)
