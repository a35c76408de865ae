"""An orthogonal matrix by Householder's reflections, which are those of `repdl.ops.qr`."""

from __future__ import annotations

import torch

from repdl import ops
from repdl.ops.linalg.qr import reflections

Tensor = torch.Tensor


def orthogonal_columns(matrix: Tensor, contract: str) -> Tensor:
    """The factor Q of `matrix = Q R` with a diagonal of R that is not negative: `(M, N) -> (M, N)`, M >= N.

    Contract: distributions v1. Source: https://doi.org/10.1145/320941.320947
    """
    q, r = ops.qr(matrix, contract=contract)
    return torch.where(r.diagonal().signbit(), ops.neg(q), q)


def packed(matrix: Tensor, contract: str) -> Tensor:
    """The reflections of `orthogonal_columns` as one matrix: `(M, N) -> (M, N)`, M >= N.

    Column j has v / v[0] below the diagonal, and on it the sign of R's diagonal.
    """
    vectors, r = reflections(matrix, contract)
    result = torch.zeros_like(matrix)
    for j, (v, _) in enumerate(vectors):
        result[j + 1 :, j : j + 1] = ops.div(v[1:], v[0, 0], contract=contract)
        result[j, j] = torch.where(r[j, j].signbit(), -1.0, 1.0)
    return result
