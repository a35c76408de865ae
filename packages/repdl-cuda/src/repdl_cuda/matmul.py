"""Glue of matmul: operands as addresses and strides, a workspace for its tree."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from repdl.contract import Contract
from repdl.ops._broadcast import broadcast_shapes
from repdl_cuda.native import native, stream, workspace

TILE = 0
"""The tile that kernels use; 0 lets them choose. For tests: no bit depends on it."""


def product(
    a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None, batch: Sequence[int], contract: str
) -> torch.Tensor:
    """`a @ b`, with a bias (N): a `(..., M, K)` and b `(..., K, N)`, already expanded to `batch`."""
    m, k = a.shape[-2:]
    n = b.shape[-1]
    output = a.new_empty((*batch, m, n))
    bias = None if bias is None else bias.contiguous()
    sizes, chunk = list(batch), Contract.parse(contract).dot_chunk
    functions, where = native(a), stream(a)
    work = workspace(a, functions.matmul_work(sizes, m, n, k, chunk, TILE, where))
    functions.matmul(
        a.data_ptr(),
        b.data_ptr(),
        output.data_ptr(),
        0 if bias is None else bias.data_ptr(),
        work.data_ptr(),
        sizes,
        a.stride(),
        b.stride(),
        m,
        n,
        k,
        chunk,
        TILE,
        where,
    )
    return output


def matmul(input: torch.Tensor, mat2: torch.Tensor, transA: bool, transB: bool, contract: str) -> torch.Tensor:
    a = input.transpose(-1, -2) if transA else input
    b = mat2.transpose(-1, -2) if transB else mat2
    if input.dim() == 2 and mat2.dim() == 2:
        return product(a, b, None, (), contract)
    batch = broadcast_shapes(input.shape[:-2], mat2.shape[:-2])
    return product(a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:]), None, batch, contract)


OPS = {"matmul": matmul}
