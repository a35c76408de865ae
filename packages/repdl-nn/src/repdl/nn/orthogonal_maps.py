"""Maps from matrices to orthogonal ones: formulas of registered ops, in one fixed order each.

Every function takes one matrix `(N, K)`, N >= K, float32 or float64, of 16-bit floats each op rounds its result; `each`
applies one to a batch, matrix by matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from repdl import ops, random
from repdl.dtypes import rounding
from repdl.nn import householder as reflections
from repdl.random import Generator

Tensor = torch.Tensor


def each(function: Callable[[Tensor], Tensor], batch: Tensor) -> Tensor:
    """`function` of each matrix of a batch `(..., N, K)`."""
    if batch.dim() == 2:
        return function(batch)
    matrices = batch.reshape(-1, *batch.shape[-2:])
    if len(matrices) == 0:
        return batch
    found = torch.stack([function(matrix) for matrix in matrices])
    return found.reshape(*batch.shape[:-2], *found.shape[-2:])


def _skew(x: Tensor, contract: str) -> Tensor:
    """`tril(X) - tril(X).T`, of X with zero columns up to a square."""
    rows, columns = x.shape
    lower = torch.cat([x.tril(), x.new_zeros(rows, rows - columns)], 1)
    return ops.sub(lower, lower.t(), contract=contract)


def matrix_exp(x: Tensor, contract: str) -> Tensor:
    """The first K columns of exp(A), A = `_skew(X)`.

    c is the largest of `sum(abs(A), 0)`, s the least integer not below 0 with c < 2**(s - 1), 0 if c is not finite.
    B = `A * 2**-s`; P = I, then for i = m, m - 1, ... 1 `P = I + (B @ P) / i`, m = 8, in float64 14; and s times
    `P = P @ P`. s counts as a constant to the derivative, which is that of the other operations. It follows from
    values, so that a graph of `torch.compile` ends here.
    """
    a = _skew(x, contract)
    s = _halvings(a.detach(), contract)
    b = ops.mul(a, math.ldexp(1.0, -s), contract=contract)
    identity = torch.eye(len(a), dtype=a.dtype, device=a.device)
    p = identity
    for i in range(14 if a.dtype is torch.float64 else 8, 0, -1):
        p = ops.add(identity, ops.div(ops.mm(b, p, contract=contract), float(i), contract=contract), contract=contract)
    for _ in range(s):
        p = ops.mm(p, p, contract=contract)
    return p[:, : x.shape[1]]


def _halvings(a: Tensor, contract: str) -> int:
    if a.numel() == 0:
        return 0
    sums = ops.sum(ops.abs(a), 0, contract=contract)
    largest = ops.cast(ops.amax(sums, 0), torch.float64).item()
    return max(0, math.frexp(largest)[1] + 1) if math.isfinite(largest) else 0


def cayley(x: Tensor, contract: str) -> Tensor:
    """The first K columns of `solve(I - A / 2, I + A / 2)`, A = `_skew(X)`; `A / 2` is `A * 0.5`."""
    half = ops.mul(_skew(x, contract), 0.5, contract=contract)
    identity = torch.eye(len(half), dtype=half.dtype, device=half.device)
    left, right = ops.sub(identity, half, contract=contract), ops.add(identity, half, contract=contract)
    solved: Tensor = _Solve.apply(left, right, contract)
    return solved[:, : x.shape[1]]


class _Solve(torch.autograd.Function):
    """The Y with `M @ Y = B`; `solve` has the order. Gradients: `b = solve(M.T, g)` to B, `-(b @ Y.T)` to M."""

    @staticmethod
    def forward(ctx: Any, m: Tensor, b: Tensor, contract: str) -> Tensor:
        y = solve(m, b, contract)
        ctx.save_for_backward(m, y)
        ctx.contract = contract
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        m, y = ctx.saved_tensors
        b: Tensor = _Solve.apply(m.t(), grads[0], ctx.contract)
        return ops.neg(ops.mm(b, y.t(), contract=ctx.contract)), b, None


def solve(m: Tensor, b: Tensor, contract: str) -> Tensor:
    """The Y with `M @ Y = B`, for an M whose symmetric part is positive definite: elimination without exchanges.

    For j = 0, 1, ...: f = `M[j+1:, j] / M[j, j]`, and of the rows after j `M - f * M[j]`, `B - f * B[j]`. Then, from
    the last j on, `Y[j] = (B[j] - M[j, j+1:] @ Y[j+1:]) / M[j, j]`.
    """
    m, b, n = m.clone(), b.clone(), len(m)
    for j in range(n - 1):
        factor = ops.div(m[j + 1 :, j : j + 1], m[j, j], contract=contract)
        for rows in (m[:, j + 1 :], b):
            product = ops.mul(factor, rows[j : j + 1], contract=contract)
            rows[j + 1 :] = ops.sub(rows[j + 1 :], product, contract=contract)
    y = torch.empty_like(b)
    for j in reversed(range(n)):
        row = b[j : j + 1]
        if j + 1 < n:
            row = ops.sub(row, ops.mm(m[j : j + 1, j + 1 :], y[j + 1 :], contract=contract), contract=contract)
        y[j : j + 1] = ops.div(row, m[j, j], contract=contract)
    return y


def householder(x: Tensor, contract: str) -> Tensor:
    """A product of reflections, the signs of whose columns are those of the diagonal of X.

    v_j is column j of X below the diagonal, with 1 on it and 0 above, t_j = `2 / (1 + sum(v * v))`, the sum below the
    diagonal. Q, from the first K columns of the identity, for j = K - 1, ... 0: `Q - (t_j * v_j) @ (v_j.T @ Q)`. The
    result is `Q * trunc(diagonal of X)`.
    """
    rows, columns = x.shape
    below = x.tril(-1)
    identity = torch.eye(rows, columns, dtype=x.dtype, device=x.device)
    squares = ops.sum(ops.mul(below, below, contract=contract), 0, contract=contract)
    scales = ops.div(2.0, ops.add(1.0, squares, contract=contract), contract=contract)
    vectors = torch.where(identity.bool(), identity, below)
    scaled = ops.mul(vectors, scales, contract=contract)
    q = identity
    for j in reversed(range(columns)):
        projected = ops.mm(vectors[:, j : j + 1], q, transA=True, contract=contract)
        q = ops.sub(q, ops.mm(scaled[:, j : j + 1], projected, contract=contract), contract=contract)
    return ops.mul(q, x.detach().diagonal().trunc(), contract=contract)


def reflections_of(q: Tensor, contract: str) -> Tensor:
    """The X whose `householder` is the orthogonal `q`."""
    return reflections.packed(q, contract)


def columns(x: Tensor, contract: str) -> Tensor:
    """`x` made orthogonal: its factor Q, R having a diagonal that is not negative."""
    return reflections.orthogonal_columns(x, contract)


def is_orthogonal(q: Tensor, contract: str) -> bool:
    """Whether no element of `q.T @ q` is farther than `10 * N * eps`, on the diagonal 1e-5 more, from the identity."""
    identity = torch.eye(q.shape[-1], dtype=q.dtype, device=q.device)
    off = ops.abs(ops.sub(ops.matmul(q.mT, q, contract=contract), identity, contract=contract))
    bound = rounding.mul(10.0 * q.shape[-2], torch.finfo(q.dtype).eps)
    allowed = torch.where(identity.bool(), rounding.add(bound, 1e-5), bound)
    return bool((ops.cast(off, torch.float64) <= allowed).all())


def normal(tensor: Tensor, generator: Generator) -> Tensor:
    """Fill with normal numbers."""
    return random.normal_(tensor, generator=generator)


__all__ = [
    "cayley",
    "columns",
    "each",
    "householder",
    "is_orthogonal",
    "matrix_exp",
    "normal",
    "reflections_of",
    "solve",
]
