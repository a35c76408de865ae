"""An orthogonal matrix by Householder's reflections, in one fixed order of registered ops."""

from __future__ import annotations

import torch

from repdl import ops

Tensor = torch.Tensor


def orthogonal_columns(matrix: Tensor, contract: str) -> Tensor:
    """The factor Q of `matrix = Q R` with a diagonal of R that is not negative: `(M, N) -> (M, N)`, M >= N.

    For column j, from the first to the last, with x its elements from row j on: s = `sum(x * x)`, r = `sqrt(s)`,
    with the sign of x[0]; v = x, v[0] = `x[0] + r`; t = 2 / `sum(v * v)`; the columns after j, from row j on, are A:
    `A - v @ ((v * t).T @ A)`. Then Q, from the first N columns of the identity, by the same with the last reflection
    first, and column j times -1 where r has the sign plus, as R's diagonal is -r.

    Contract: distributions v1. Source: https://doi.org/10.1145/320941.320947
    """
    rows, columns = matrix.shape
    reflections, signs = _reduced(matrix, contract)
    q = torch.eye(rows, columns, dtype=matrix.dtype, device=matrix.device)
    for j in reversed(range(columns)):
        _reflect(q[j:, j:], *reflections[j], contract)
    return torch.where(torch.stack(signs), q, ops.neg(q))


def packed(matrix: Tensor, contract: str) -> Tensor:
    """The reflections of `orthogonal_columns` as one matrix: `(M, N) -> (M, N)`, M >= N.

    Column j has v / v[0] below the diagonal, and on it the sign of R's diagonal, -1 where r has the sign plus.
    """
    reflections, signs = _reduced(matrix, contract)
    result = torch.zeros_like(matrix)
    for j, ((v, _), negative) in enumerate(zip(reflections, signs)):
        result[j + 1 :, j : j + 1] = ops.div(v[1:], v[0, 0], contract=contract)
        result[j, j] = torch.where(negative, 1.0, -1.0)
    return result


def _reduced(matrix: Tensor, contract: str) -> tuple[list[tuple[Tensor, Tensor]], list[Tensor]]:
    """v and t * v of each column, and whether r is negative."""
    columns = matrix.shape[1]
    work, reflections, signs = matrix.clone(), [], []
    for j in range(columns):
        x = work[j:, j : j + 1].clone()
        norm = ops.sqrt(_square_sum(x, contract))
        negative = torch.signbit(x[0, 0])
        v = x
        v[0, 0] = ops.add(x[0, 0].clone(), torch.where(negative, ops.neg(norm), norm), contract=contract)
        scaled = _scaled(v, contract)
        reflections.append((v, scaled))
        signs.append(negative)
        if j + 1 < columns:
            _reflect(work[j:, j + 1 :], v, scaled, contract)
    return reflections, signs


def _square_sum(x: Tensor, contract: str) -> Tensor:
    return ops.sum(ops.mul(x, x, contract=contract), contract=contract)


def _scaled(v: Tensor, contract: str) -> Tensor:
    """v * (2 / (v . v)); 0 where v is 0, which reflects nothing."""
    size = _square_sum(v, contract)
    factor = ops.div(2.0, size, contract=contract)
    return ops.mul(v, torch.where(size == 0, torch.zeros_like(factor), factor), contract=contract)


def _reflect(a: Tensor, v: Tensor, scaled: Tensor, contract: str) -> None:
    """a <- a - v @ (scaled.T @ a)"""
    projected = ops.mm(scaled, a, transA=True, contract=contract)
    a.copy_(ops.sub(a, ops.mm(v, projected, contract=contract), contract=contract))
